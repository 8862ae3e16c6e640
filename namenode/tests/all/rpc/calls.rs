//! Calls and answers, as stock's recorded exchanges have them.

use bytes::Bytes;
use trellis_namenode::rpc::server::Limits;
use trellis_proto::common::{IpcConnectionContextProto, get_user_mappings_protocol_service};
use trellis_proto::exception::Kind;
use trellis_proto::hdfs;
use trellis_proto::hdfs::client_namenode_protocol as client;
use trellis_proto::hdfs::namenode::namenode_protocol_service;

use super::audit::Lines;
use super::{Client, Served, encoded, mkdirs};
use crate::support::Namenode;

pub fn file_info(path: &str) -> hdfs::GetFileInfoRequestProto {
    hdfs::GetFileInfoRequestProto { src: path.into() }
}

/// A file of the client `c1`, its parents made if need be.
pub fn create(path: &str) -> hdfs::CreateRequestProto {
    hdfs::CreateRequestProto {
        src: path.into(),
        masked: hdfs::FsPermissionProto { perm: 0o644 },
        client_name: "c1".into(),
        create_flag: 1,
        create_parent: true,
        replication: 1,
        block_size: 1 << 20,
        ..Default::default()
    }
}

pub async fn a_directory_comes_and_goes() {
    let served = Served::fresh().await;
    let mut client = served.client().await;
    assert_eq!(client.mkdirs(0, "/a/b").await, Ok(true));
    let status = client.call(1, client::GET_FILE_INFO, file_info("/a/b")).await.unwrap().fs.unwrap();
    assert_eq!(
        (status.owner.as_str(), status.group.as_str(), status.permission.perm),
        ("hdfs", "supergroup", 0o755)
    );
    assert_eq!(
        (status.file_type(), status.children_num()),
        (hdfs::hdfs_file_status_proto::FileType::IsDir, 0)
    );
    let listing =
        hdfs::GetListingRequestProto { src: "/a".into(), start_after: Bytes::new(), need_location: true };
    let page = client.call(2, client::GET_LISTING, listing).await.unwrap().dir_list.unwrap();
    assert_eq!((page.partial_listing.len(), page.remaining_entries), (1, 0));
    assert_eq!(page.partial_listing[0].path, "b");
    let summary = hdfs::GetContentSummaryRequestProto { path: "/".into() };
    let summary = client.call(3, client::GET_CONTENT_SUMMARY, summary).await.unwrap().summary;
    assert_eq!((summary.directory_count, summary.file_count, summary.quota as i64), (3, 0, -1));
    assert_eq!(client.delete(4, "/a").await, Ok(true));
    assert_eq!(client.call(5, client::GET_FILE_INFO, file_info("/a/b")).await.unwrap().fs, None);
    let relative = client.call(6, client::GET_FILE_INFO, file_info("e")).await.unwrap_err();
    assert_eq!(relative.kind, Kind::Assertion);
}

pub async fn a_file_is_created_and_closed() {
    let served = Served::fresh().await;
    let mut client = served.client().await;
    let made = client.call(0, client::CREATE, create("/d/f")).await.unwrap().fs.unwrap();
    assert!(made.file_id() > 16385);
    let busy = client.call(1, client::CREATE, create("/d/f")).await.unwrap_err();
    assert_eq!(busy.kind, Kind::AlreadyBeingCreated);
    let closed = hdfs::IsFileClosedRequestProto { src: "/d/f".into() };
    assert!(!client.call(2, client::IS_FILE_CLOSED, closed.clone()).await.unwrap().result);
    let complete = hdfs::CompleteRequestProto {
        src: "/d/f".into(),
        client_name: "c1".into(),
        file_id: Some(made.file_id()),
        last: None,
    };
    assert!(client.call(3, client::COMPLETE, complete).await.unwrap().result);
    assert!(client.call(4, client::IS_FILE_CLOSED, closed).await.unwrap().result);
    let open = hdfs::GetBlockLocationsRequestProto { src: "/d/f".into(), offset: 0, length: 10 };
    let blocks = client.call(5, client::GET_BLOCK_LOCATIONS, open).await.unwrap().locations.unwrap();
    assert_eq!((blocks.file_length, blocks.under_construction), (0, false));
}

pub async fn open_files_are_listed() {
    let (served, lines) = Lines::served().await;
    let mut client = served.client().await;
    let mut ids = Vec::new();
    for (number, path) in ["/d/f", "/d/g", "/e"].into_iter().enumerate() {
        let made = client.call(number as i32, client::CREATE, create(path)).await.unwrap();
        ids.push(made.fs.unwrap().file_id() as i64);
    }
    let all = hdfs::OpenFilesTypeProto::AllOpenFiles as i32;
    let list = |id: i64, types: &[i32], path: &str| hdfs::ListOpenFilesRequestProto {
        id,
        types: types.to_vec(),
        path: Some(path.into()),
    };
    // A kind that nobody knows is left out.
    let page = client.call(3, client::LIST_OPEN_FILES, list(ids[0], &[all, 99], "/d/")).await.unwrap();
    let entry = hdfs::OpenFilesBatchResponseProto {
        id: ids[1],
        path: "/d/g".into(),
        client_name: "c1".into(),
        client_machine: "127.0.0.1".into(),
    };
    let expected =
        hdfs::ListOpenFilesResponseProto { entries: vec![entry], has_more: false, types: vec![all] };
    assert_eq!(page, expected);
    let unknown = client.call(4, client::LIST_OPEN_FILES, list(0, &[99], "/")).await.unwrap_err();
    assert_eq!(unknown.kind, Kind::IllegalArgument);
    let mut bob = Client::connect(served.server.address(), Some("bob"), None).await;
    let refused = bob.call(0, client::LIST_OPEN_FILES, list(0, &[all], "/d")).await.unwrap_err();
    assert_eq!(refused.kind, Kind::AccessControl);
    drop(client);
    served.server.stop().await;
    let text = lines.text(5).await;
    let said: Vec<&str> = text.lines().skip(3).map(|line| line.split_once("cmd=").unwrap().1).collect();
    let rest = "dst=null\tperm=null\tproto=rpc\tcallerContext=CLI";
    assert_eq!(said, [format!("listOpenFiles\tsrc=null\t{rest}"), format!("listOpenFiles\tsrc=/d\t{rest}")]);
}

pub async fn calls_in_one_write_are_all_answered() {
    let served = Served::fresh().await;
    let mut client = served.client().await;
    let mut sent = Vec::new();
    for number in 0..200 {
        match number % 4 {
            0 => sent.extend(client.frame(number, client::MKDIRS, &mkdirs(&format!("/d{number}")))),
            _ => sent.extend(client.frame(number, client::GET_FILE_INFO, &file_info("/"))),
        }
    }
    client.send(&sent).await;
    let mut answered = Vec::new();
    for _ in 0..200 {
        let answer = client.answer().await.unwrap();
        assert!(answer.outcome.is_ok(), "{answer:?}");
        answered.push(answer.call_id);
    }
    answered.sort_unstable();
    assert_eq!(answered, (0..200).collect::<Vec<_>>());
}

pub async fn who_calls() {
    let served = Served::fresh().await;
    let address = served.server.address();
    let mut anonymous = Client::connect(address, None, None).await;
    let refused = anonymous.mkdirs(0, "/a").await.unwrap_err();
    assert!(refused.message.starts_with("Permission denied: user=dr.who, access=WRITE"), "{refused}");
    let mut proxy = Client::connect(address, Some("bob"), Some("hdfs")).await;
    let refused = proxy.answer().await.unwrap();
    assert!(refused.fatal && refused.call_id == -3);
    let error = refused.outcome.unwrap_err();
    assert_eq!(
        (error.kind, error.message.as_str()),
        (Kind::Authorization, "User: hdfs is not allowed to impersonate bob")
    );
    assert!(proxy.answer().await.is_none());
    let mut bob = Client::connect(address, Some("bob"), Some("bob")).await;
    let refused = bob.call(0, client::REFRESH_NODES, hdfs::RefreshNodesRequestProto {}).await.unwrap_err();
    assert_eq!(
        refused.message,
        "Access denied for user bob. Superuser privilege is required for operation refreshNodes"
    );
    let limits = Limits { proxy_users: vec!["hdfs".into()], ..Limits::default() };
    let served = Served::over(Namenode::fresh().await, limits, None);
    let mut proxy = Client::connect(served.server.address(), Some("bob"), Some("hdfs")).await;
    let refused = proxy.mkdirs(0, "/a").await.unwrap_err();
    assert!(refused.message.contains("user=bob"), "{refused}");
}

pub async fn broken_connections_end_alone() {
    let served = Served::fresh().await;
    let address = served.server.address();
    let mut before_context = Client::raw(address).await;
    let call = before_context.frame(7, client::GET_FILE_INFO, &file_info("/"));
    before_context.send(&[b"hrpc\x09\x00\x00", &call[..]].concat()).await;
    let answer = before_context.answer().await.unwrap();
    assert!(answer.fatal && answer.outcome.unwrap_err().message == "Connection context not established");
    assert!(before_context.answer().await.is_none());

    let mut http = Client::raw(address).await;
    http.send(b"GET / HTTP/1.1\r\n\r\n").await;
    let mut text = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut http.stream, &mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 404 Not Found"), "{text}");

    for length in [200 << 20, u32::MAX] {
        let mut huge = served.client().await;
        huge.send(&[&length.to_be_bytes()[..], b"x"].concat()).await;
        assert!(huge.answer().await.is_none());
    }
    let mut sound = served.client().await;
    assert_eq!(sound.mkdirs(0, "/still").await, Ok(true));
    let context = encoded(&IpcConnectionContextProto::default());
    let header = b"\x08\x02\x10\x00\x18\x05\x22\x00\x28\x01";
    let body = [&[header.len() as u8][..], header, &context].concat();
    sound.send(&[&(body.len() as u32).to_be_bytes()[..], &body].concat()).await;
    let twice = sound.answer().await.unwrap();
    assert!(twice.fatal && twice.outcome.unwrap_err().message == "Connection context already processed");
}

pub async fn commands_of_administrators() {
    let served = Served::fresh().await;
    let mut client = served.client().await;
    let defaults =
        client.call(0, client::GET_SERVER_DEFAULTS, hdfs::GetServerDefaultsRequestProto {}).await.unwrap();
    let defaults = defaults.server_defaults;
    assert_eq!((defaults.policy_id(), defaults.encrypt_data_transfer()), (7, false));
    let policies =
        client.call(1, client::GET_STORAGE_POLICIES, hdfs::GetStoragePoliciesRequestProto {}).await.unwrap();
    assert_eq!(policies.policies.len(), 8);
    let info = client
        .call(2, namenode_protocol_service::VERSION_REQUEST, hdfs::VersionRequestProto {})
        .await
        .unwrap()
        .info;
    assert_eq!((info.software_version.as_str(), info.storage_info.layout_version as i32), ("3.4.2", -67));
    assert!(info.block_pool_id.starts_with("BP-") && info.storage_info.cluster_id == "CID-test");
    let groups = trellis_proto::common::GetGroupsForUserRequestProto { user: "nobody-here".into() };
    let groups =
        client.call(3, get_user_mappings_protocol_service::GET_GROUPS_FOR_USER, groups).await.unwrap();
    assert!(groups.groups.is_empty());
    let mode = |action: hdfs::SafeModeActionProto| hdfs::SetSafeModeRequestProto {
        action: action.into(),
        checked: None,
    };
    let get = client.call(4, client::SET_SAFE_MODE, mode(hdfs::SafeModeActionProto::SafemodeGet)).await;
    assert!(!get.unwrap().result);
    let enter = client.call(5, client::SET_SAFE_MODE, mode(hdfs::SafeModeActionProto::SafemodeEnter)).await;
    assert_eq!(enter.unwrap_err().kind, Kind::UnsupportedOperation);
    let state =
        client.call(6, client::GET_HA_SERVICE_STATE, hdfs::HaServiceStateRequestProto {}).await.unwrap_err();
    assert_eq!((state.kind, state.message.as_str()), (Kind::ServiceFailed, "HA for namenode is not enabled"));
    let datanode = hdfs::datanode::datanode_protocol_service::VERSION_REQUEST;
    let info = client.call(7, datanode, hdfs::VersionRequestProto {}).await.unwrap().info;
    assert_eq!(info.state(), hdfs::nnha_status_heartbeat_proto::State::Standby);
}
