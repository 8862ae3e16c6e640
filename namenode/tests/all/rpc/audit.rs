//! The audit log of calls through sockets.

use std::io::Write;
use std::sync::{Arc, Mutex};

use trellis_namenode::audit::AuditLog;
use trellis_namenode::metrics::Metrics;
use trellis_namenode::rpc::server::Limits;
use trellis_proto::hdfs;
use trellis_proto::hdfs::client_namenode_protocol as client;

use super::calls::{create, file_info};
use super::{Client, Served};
use crate::support::Namenode;

/// A writer that tests can look into.
#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// A fresh namenode whose audit log these are.
    pub async fn served() -> (Served, Lines) {
        let lines = Lines::default();
        let audit = AuditLog::to_writer(lines.clone(), Metrics::new().audit_lost.clone()).unwrap();
        (Served::over(Namenode::fresh().await, Limits::default(), Some(audit)), lines)
    }

    /// The text, once it has so many lines.
    pub async fn text(&self, lines: usize) -> String {
        let text = || String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        super::until(|| text().lines().count() >= lines).await;
        text()
    }
}

pub async fn what_it_says() {
    let (served, lines) = Lines::served().await;
    let mut client = served.client().await;
    client.mkdirs(0, "/a\tb").await.unwrap();
    client.call(1, client::GET_FILE_INFO, file_info("/none")).await.unwrap();
    client.delete(2, "/none").await.unwrap();
    let rename = |src: &str, dst: &str| hdfs::RenameRequestProto { src: src.into(), dst: dst.into() };
    client.call(3, client::RENAME, rename("/none", "/b")).await.unwrap();
    let rename2 = hdfs::Rename2RequestProto {
        src: "/a\tb".into(),
        dst: "/b".into(),
        overwrite_dest: true,
        move_to_trash: None,
    };
    client.call(4, client::RENAME2, rename2).await.unwrap();
    let mut bob = Client::connect(served.server.address(), Some("bob"), None).await;
    bob.mkdirs(0, "/x").await.unwrap_err();
    drop(client);
    served.server.stop().await;
    let text = lines.text(5).await;
    let said: Vec<&str> = text.lines().map(|line| line.split_once("audit: ").unwrap().1).collect();
    let line = |allowed: bool, user: &str, command: &str, src: &str, dst_and_perm: &str| {
        format!(
            "allowed={allowed}\tugi={user} (auth:SIMPLE)\tip=/127.0.0.1\tcmd={command}\tsrc={src}\t\
             dst={dst_and_perm}\tproto=rpc\tcallerContext=CLI"
        )
    };
    let made = "perm=hdfs:supergroup:rwxr-xr-x";
    assert_eq!(
        said,
        [
            line(true, "hdfs", "mkdirs", "/a\\tb", &format!("null\t{made}")),
            line(true, "hdfs", "getfileinfo", "/none", "null\tperm=null"),
            line(false, "hdfs", "delete", "/none", "null\tperm=null"),
            line(true, "hdfs", "rename (options=[OVERWRITE])", "/a\\tb", &format!("/b\t{made}")),
            line(false, "bob", "mkdirs", "/x", "null\tperm=null"),
        ]
    );
}

/// The column `perm` of every command for which stock has an `auditStat`, and of some that have none.
pub async fn what_it_says_of_rights() {
    let (served, lines) = Lines::served().await;
    let mut c = served.client().await;
    let perm = |perm| hdfs::FsPermissionProto { perm };
    c.mkdirs(0, "/d/e").await.unwrap();
    let set_permission =
        |src: &str, mode| hdfs::SetPermissionRequestProto { src: src.into(), permission: perm(mode) };
    c.call(1, client::SET_PERMISSION, set_permission("/d", 0o1770)).await.unwrap();
    c.mkdirs(2, "/d").await.unwrap();
    let create = hdfs::CreateRequestProto { masked: perm(0o640), create_parent: false, ..create("/d/f") };
    c.call(3, client::CREATE, create).await.unwrap();
    let set_owner = hdfs::SetOwnerRequestProto {
        src: "/d/f".into(),
        username: Some("alice".into()),
        groupname: Some("bin".into()),
    };
    c.call(4, client::SET_OWNER, set_owner).await.unwrap();
    let set_times = hdfs::SetTimesRequestProto { src: "/d/f".into(), mtime: 1, atime: 2 };
    c.call(5, client::SET_TIMES, set_times).await.unwrap();
    let set_replication = hdfs::SetReplicationRequestProto { src: "/d/f".into(), replication: 2 };
    c.call(6, client::SET_REPLICATION, set_replication).await.unwrap();
    // Into a directory; onto itself; to nowhere, which leaves no line.
    let rename = |src: &str, dst: &str| hdfs::RenameRequestProto { src: src.into(), dst: dst.into() };
    c.call(7, client::RENAME, rename("/d/f", "/d/e")).await.unwrap();
    c.call(8, client::RENAME, rename("/d/e/f", "/d/e/f")).await.unwrap();
    c.call(9, client::RENAME, rename("/d/e/f", "/none/f")).await.unwrap();
    let rename2 = hdfs::Rename2RequestProto {
        src: "/d/e/f".into(),
        dst: "/d/g".into(),
        overwrite_dest: false,
        move_to_trash: None,
    };
    c.call(10, client::RENAME2, rename2).await.unwrap();
    for (number, src) in [(11, "/d/g"), (12, "/d/none")] {
        let ez = hdfs::GetEzForPathRequestProto { src: src.into() };
        c.call(number, client::GET_EZ_FOR_PATH, ez).await.unwrap();
    }
    c.delete(13, "/d/g").await.unwrap();
    let mut bob = Client::connect(served.server.address(), Some("bob"), None).await;
    bob.call(0, client::SET_PERMISSION, set_permission("/d", 0)).await.unwrap_err();
    drop(c);
    served.server.stop().await;
    let text = lines.text(14).await;
    let said: Vec<(&str, &str)> = text
        .lines()
        .map(|line| {
            let column = |name: &str| line.split_once(name).unwrap().1.split('\t').next().unwrap();
            (column("\tcmd="), column("\tperm="))
        })
        .collect();
    assert_eq!(
        said,
        [
            ("mkdirs", "hdfs:supergroup:rwxr-xr-x"),
            ("setPermission", "hdfs:supergroup:rwxrwx--T"),
            ("mkdirs", "hdfs:supergroup:rwxrwx--T"),
            ("create", "hdfs:supergroup:rw-r-----"),
            ("setOwner", "alice:bin:rw-r-----"),
            ("setTimes", "alice:bin:rw-r-----"),
            ("setReplication", "null"),
            ("rename", "alice:bin:rw-r-----"),
            ("rename", "alice:bin:rw-r-----"),
            ("rename (options=[NONE])", "alice:bin:rw-r-----"),
            ("getEZForPath", "alice:bin:rw-r-----"),
            ("getEZForPath", "null"),
            ("delete", "null"),
            ("setPermission", "null"),
        ]
    );
}
