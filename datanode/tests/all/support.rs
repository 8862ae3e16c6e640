//! Starts datanodes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use trellis_client::uri::Address;
use trellis_datanode::config::Config;
use trellis_datanode::disk::{Folders, Settings, VolumeDir};
use trellis_datanode::server::{Advertised, Datanode, Options};
use trellis_datanode::store::{BlockStore, StorageType};
use trellis_proto::hdfs::DatanodeIdProto;
use trellis_proto::hdfs::datanode::RegisterDatanodeRequestProto;

use crate::namenode::{LONG, Namenode};

/// A datanode and its folder.
pub struct Node {
    pub datanode: Datanode,
    /// As it registered.
    pub id: DatanodeIdProto,
    pub dir: tempfile::TempDir,
}

/// Fast, so that nothing has to be waited for.
pub fn config() -> Config {
    Config { heartbeat: Duration::from_millis(50), rpc_timeout: Duration::from_secs(5), ..Config::default() }
}

/// What a datanode is told that keeps its blocks in `dir`.
pub fn options(dir: &Path, namenodes: Vec<Address>, config: Config) -> Options {
    let dirs = [VolumeDir { path: dir.to_owned(), storage_type: StorageType::Disk }];
    let folders = Folders::open(&dirs).unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    Options {
        namenodes,
        data: any,
        ipc: any,
        http: any,
        advertised: Advertised::default(),
        config,
        open: Box::new(move |pool, events| {
            let store = folders.attach(pool, Settings::default(), events)?;
            Ok(Arc::new(store) as Arc<dyn BlockStore>)
        }),
    }
}

impl Node {
    /// A datanode of one namenode, registered.
    pub async fn start(namenode: &Namenode, config: Config) -> Node {
        Node::in_dir(namenode, config, tempfile::tempdir().unwrap()).await
    }

    /// The same over blocks that are there.
    pub async fn in_dir(namenode: &Namenode, mut config: Config, dir: tempfile::TempDir) -> Node {
        // Room need not be there.
        config.expected_block = 0;
        let options = options(dir.path(), vec![namenode.address.clone()], config);
        let mut datanode = Datanode::start(options).await.unwrap();
        tokio::time::timeout(LONG, datanode.known()).await.unwrap().unwrap();
        let heard = namenode.heard::<RegisterDatanodeRequestProto>("registerDatanode");
        let port = u32::from(datanode.data.port());
        let ids = heard.into_iter().map(|request| request.registration.datanode_id);
        let id = ids.into_iter().find(|id| id.xfer_port == port).unwrap();
        Node { datanode, id, dir }
    }

    /// Stops it and gives its folder back.
    pub async fn stop(self) -> tempfile::TempDir {
        self.datanode.stop().await.unwrap();
        self.dir
    }

    /// A metric that it shows.
    pub fn metric(&self, name: &str) -> f64 {
        let mut stream = TcpStream::connect(self.datanode.http).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        let line = page.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    }

    /// All files of blocks below the folder with this name.
    pub fn files(&self, name: &str) -> Vec<std::path::PathBuf> {
        files(self.dir.path(), name)
    }
}

/// All files of this name below a folder.
pub fn files(dir: &Path, name: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, name));
        } else if path.file_name().is_some_and(|file| file == name) {
            found.push(path);
        }
    }
    found
}

/// Bytes without a pattern.
pub fn bytes(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// Does what blocks, off the runtime.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::time::timeout(LONG, tokio::task::spawn_blocking(work)).await.unwrap().unwrap()
}
