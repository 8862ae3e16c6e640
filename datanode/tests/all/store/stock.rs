//! The same folders, served in turn by us and by a stock DataNode. It needs Java and Maven and takes half a minute, so
//! it runs only with `TRELLIS_TEST_STOCK=1`.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use trellis_datanode::disk::{DiskStore, Folders, Settings};
use trellis_datanode::store::{BlockStore, Pool, ReplicaState, Target};
use trellis_proto::checksum::Checksum;

use super::{bytes, read, report, volume, write};

/// How long the stock programs may take to start.
const START_LIMIT: Duration = Duration::from_secs(120);

/// Stock programs over a folder; they end with it.
struct Stock {
    dir: TempDir,
    conf: PathBuf,
    servers: Vec<Child>,
}

impl Stock {
    fn start() -> Stock {
        let dir = TempDir::new().unwrap();
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let folders = ["dn", "dn2"].map(|name| format!("file://{}", dir.path().join(name).display()));
        let conf = |name: &str, rpc: &str, http: &str, folders: &[String]| {
            let data = format!("dfs.datanode.data.dir={}", folders.join(","));
            let mut mkconf = Command::new(harness("mkconf"));
            mkconf.arg(dir.path().join(name)).args([rpc, http, &data]);
            mkconf.arg("dfs.namenode.fs-limits.min-block-size=1024");
            PathBuf::from(String::from_utf8(mkconf.output().unwrap().stdout).unwrap().trim())
        };
        let (rpc, http) = (free(), free());
        let (first, second) = (conf("a", &rpc, &http, &folders[..1]), conf("b", &rpc, &http, &folders));
        let mut stock = Stock { dir, conf: first, servers: Vec::new() };
        stock.run(&["namenode", "-format", "-nonInteractive", "-clusterid", "CID-test"]);
        stock.spawn("namenode");
        stock.start_datanode();
        stock.conf = second;
        stock
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(harness("hdfs"));
        command.args(args).env("HADOOP_CONF_DIR", &self.conf).stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn spawn(&mut self, name: &str) {
        let log = File::create(self.dir.path().join(format!("{name}.log"))).unwrap();
        let mut command = self.command(&[name]);
        self.servers.push(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
    }

    /// Starts a DataNode and waits until a file can be read through it.
    fn start_datanode(&mut self) {
        self.spawn("datanode");
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let report = self.command(&["dfsadmin", "-report"]).output().unwrap();
            if String::from_utf8_lossy(&report.stdout).contains("Live datanodes (1)") {
                return;
            }
            assert!(Instant::now() < deadline, "the stock programs do not start");
            sleep(Duration::from_millis(100));
        }
    }

    /// Ends the DataNode with SIGKILL.
    fn kill_datanode(&mut self) {
        let mut datanode = self.servers.pop().unwrap();
        datanode.kill().unwrap();
        datanode.wait().unwrap();
    }

    fn put(&self, name: &str, data: &[u8]) {
        let local = self.dir.path().join(name);
        fs::write(&local, data).unwrap();
        let path = format!("/{name}");
        self.run(&["dfs", "-D", "dfs.blocksize=65536", "-put", local.to_str().unwrap(), &path]);
    }

    fn get(&self, name: &str) -> Vec<u8> {
        let local = self.dir.path().join(format!("{name}.back"));
        let _ = fs::remove_file(&local); // from the time before
        self.run(&["dfs", "-get", &format!("/{name}"), local.to_str().unwrap()]);
        fs::read(local).unwrap()
    }

    /// Our store over both folders.
    fn ours(&self) -> DiskStore {
        let current = self.dir.path().join("dn/current");
        let names = fs::read_dir(&current).unwrap().map(|entry| entry.unwrap().file_name());
        let id = names.map(|n| n.into_string().unwrap()).find(|n| n.starts_with("BP-")).unwrap();
        let version = fs::read_to_string(current.join(&id).join("current/VERSION")).unwrap();
        let number = |key: &str| {
            let line = version.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.trim_start_matches('=').parse::<u64>().unwrap()
        };
        let (namespace_id, ctime) = (number("namespaceID") as u32, number("cTime"));
        let pool = Pool { id, cluster_id: "CID-test".to_owned(), namespace_id, ctime };
        let dirs = ["dn", "dn2"].map(|name| volume(&self.dir.path().join(name)));
        let events = Box::new(|event| eprintln!("{event:?}"));
        Folders::open(&dirs).unwrap().attach(pool, Settings::default(), events).unwrap()
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill(); // its state goes with the folder
            let _ = server.wait();
        }
    }
}

fn harness(program: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../e2e/hadoop/harness").join(program)
}

#[test]
fn a_stock_datanode_and_ours_serve_the_same_folders() {
    if std::env::var_os("TRELLIS_TEST_STOCK").is_none() {
        eprintln!("skipped: TRELLIS_TEST_STOCK is not set");
        return;
    }
    let mut stock = Stock::start();
    let files = [("small", bytes(3000, 1)), ("blocks", bytes(700_000, 2)), ("empty", Vec::new())];
    for (name, data) in &files {
        stock.put(name, data);
    }
    let in_use = Folders::open(&[volume(&stock.dir.path().join("dn"))]).map(drop).unwrap_err();
    assert!(in_use.to_string().contains("in use by another datanode"), "{in_use}");
    stock.kill_datanode();

    // What stock wrote, we read; what we write into a second folder, and take from the first, stock serves.
    let store = stock.ours();
    let replicas = report(&store);
    assert_eq!(replicas.len(), 1 + 700_000usize.div_ceil(65_536));
    let new_storage = store.storages()[1].storage.to_string();
    for (id, stamp, len, state) in replicas.iter().copied() {
        assert_eq!(state, ReplicaState::Finalized);
        let data = read(&store, id);
        assert_eq!(data.len() as u64, len);
        if id % 2 == 0 {
            continue;
        }
        let block = trellis_datanode::store::Block { id, stamp };
        assert!(store.delete(&[block]).is_empty());
        store.wait_for_deletions();
        let target = Target { storage: Some(new_storage.clone()), ..Target::default() };
        let mut writer = store.create_rbw(block, &target, Checksum::DEFAULT).unwrap();
        for (index, packet) in data.chunks(64_512).enumerate() {
            write(&mut *writer, index as u64 * 64_512, packet);
        }
        assert_eq!(&*writer.finish().unwrap().storage, new_storage);
    }
    drop(store);
    stock.start_datanode();
    for (name, data) in &files {
        assert!(stock.get(name) == *data, "{name}");
    }
    let fsck = stock.run(&["fsck", "/"]);
    assert!(fsck.contains("is HEALTHY"), "{fsck}");

    // What stock changes in a folder that was ours is well with us.
    fs::write(stock.dir.path().join("more"), b"and more").unwrap();
    let more = stock.dir.path().join("more").display().to_string();
    stock.run(&["dfs", "-appendToFile", &more, "/blocks"]);
    stock.kill_datanode();
    let store = stock.ours();
    let all: u64 = report(&store).iter().map(|(_, _, len, _)| len).sum();
    assert_eq!(all, 703_000 + 8);
    for (id, ..) in report(&store) {
        read(&store, id);
    }
}
