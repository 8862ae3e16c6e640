//! Calls that are sent twice, as in the recorded exchanges, and on two namenodes.

use std::sync::Arc;

use bytes::Bytes;
use trellis_metastore::mem::Mem;
use trellis_namenode::config::Config;
use trellis_namenode::rpc::server::Limits;
use trellis_proto::exception::Kind;
use trellis_proto::hdfs;
use trellis_proto::hdfs::client_namenode_protocol as client;

use super::Served;
use super::calls::create;
use crate::support::Namenode;

pub async fn a_repeat_gets_the_first_answer_everywhere() {
    let rows = Arc::new(Mem::new());
    let mut served = Vec::new();
    for incarnation in [1, 2] {
        let namenode = Namenode::start(rows.clone(), incarnation, Config::default()).await;
        served.push(Served::over(namenode, Limits::default(), None));
    }
    let (mut one, mut two) = (served[0].client().await, served[1].client().await);
    assert_eq!(one.mkdirs(31, "/probe/a").await, Ok(true));
    assert_eq!(one.delete(32, "/probe/a").await, Ok(true));
    assert_eq!(one.delete(32, "/probe/a").await, Ok(true));
    assert_eq!(two.delete(32, "/probe/a").await, Ok(true));
    assert_eq!(two.delete(33, "/probe/a").await, Ok(false));
    assert_eq!(one.delete(33, "/probe/a").await, Ok(false));

    let rename = || hdfs::RenameRequestProto { src: "/probe/b".into(), dst: "/probe/c".into() };
    assert_eq!(one.mkdirs(34, "/probe/b").await, Ok(true));
    assert!(one.call(35, client::RENAME, rename()).await.unwrap().result);
    assert!(two.call(35, client::RENAME, rename()).await.unwrap().result);
    assert!(!two.call(36, client::RENAME, rename()).await.unwrap().result);

    let create = || hdfs::CreateRequestProto {
        client_name: "probe".into(),
        block_size: 1 << 27,
        ..create("/probe/f")
    };
    let first = one.call(37, client::CREATE, create()).await.unwrap();
    assert_eq!(two.call(37, client::CREATE, create()).await.unwrap(), first);
    assert_eq!(two.call(38, client::CREATE, create()).await.unwrap_err().kind, Kind::AlreadyBeingCreated);
    let mut other = served[1].client().await;
    other.id = Bytes::from_static(&[b'X'; 16]);
    assert_eq!(other.call(37, client::CREATE, create()).await.unwrap_err().kind, Kind::AlreadyBeingCreated);
}

pub async fn client_ids_that_are_none() {
    let served = Served::fresh().await;
    let mut client = served.client().await;
    client.id = Bytes::new();
    assert_eq!(client.mkdirs(9, "/probe").await, Ok(true));
    client.id = Bytes::from_static(b"abc");
    let refused = client.delete(9, "/probe").await.unwrap_err();
    assert_eq!(
        (refused.kind, refused.message.as_str()),
        (Kind::IllegalArgument, "Invalid clientId - length is 3 expected length 16")
    );
    let chmod = hdfs::SetPermissionRequestProto {
        src: "/probe".into(),
        permission: hdfs::FsPermissionProto { perm: 0o700 },
    };
    assert!(client.call(10, client::SET_PERMISSION, chmod).await.is_ok());
}
