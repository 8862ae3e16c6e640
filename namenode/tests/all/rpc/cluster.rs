//! What administrators are told of datanodes, space and blocks in trouble.

use trellis_metastore::schema::{Command, CommandKind, Concern, attention, command};
use trellis_namenode::datanodes::view::Liveness;
use trellis_proto::hdfs;
use trellis_proto::hdfs::DatanodeReportTypeProto as ReportType;
use trellis_proto::hdfs::client_namenode_protocol as wire;

use super::{Client, Served};
use crate::blocks::{change, complete, datanodes, give, storage_number, whole};
use crate::calls::root;
use crate::support::Namenode;

/// Says of a file what a look at its replicas found.
async fn concern(nn: &Namenode, id: u64, concern: Concern) {
    change(nn, move |tx| Ok(tx.insert(&attention(id), &concern)?)).await;
}

pub async fn datanodes_and_their_space() {
    let nn = Namenode::fresh().await;
    datanodes(&nn, &[Liveness::Live, Liveness::Stale, Liveness::Dead]).await;
    let id = root(&nn).touch("/f").await.unwrap().id;
    let block = complete(id, 0, 10);
    let on = [0, 2].map(|n| (storage_number(n), whole(&block)));
    give(&nn, "/f", vec![(block, on.to_vec())]).await;
    change(&nn, |tx| {
        tx.insert(&command(1, CommandKind::Invalidate, 7), &Command::default())?;
        Ok(tx.insert(&command(1, CommandKind::Transfer, 8), &Command::default())?)
    })
    .await;
    let served = Served::over(nn, Default::default(), None);
    let mut client = served.client().await;
    let stats = client.call(0, wire::GET_FS_STATS, hdfs::GetFsStatusRequestProto {}).await.unwrap();
    assert_eq!((stats.capacity, stats.used, stats.remaining), (2000, 200, 1400));
    assert_eq!(stats.pending_deletion_blocks, Some(1));
    for (number, kind, want) in [
        (1, ReportType::All, vec![("node-0", 1, 2), ("node-1", 0, 2), ("node-2", 0, 0)]),
        (2, ReportType::Live, vec![("node-0", 1, 2), ("node-1", 0, 2)]),
        (3, ReportType::Dead, vec![("node-2", 0, 0)]),
        (4, ReportType::Decommissioning, vec![]),
    ] {
        let request = hdfs::GetDatanodeReportRequestProto { r#type: kind.into() };
        let report = client.call(number, wire::GET_DATANODE_REPORT, request).await.unwrap().di;
        let told = |node: &hdfs::DatanodeInfoProto| {
            (node.id.datanode_uuid.clone(), node.num_blocks(), node.xceiver_count())
        };
        let told: Vec<_> = report.iter().map(told).collect();
        let want: Vec<_> =
            want.into_iter().map(|(uuid, n, all): (&str, _, _)| (uuid.into(), n, all)).collect();
        assert_eq!(told, want, "{kind:?}");
    }
    let request = hdfs::GetDatanodeStorageReportRequestProto { r#type: ReportType::Live.into() };
    let report = client.call(9, wire::GET_DATANODE_STORAGE_REPORT, request).await.unwrap();
    let storages = &report.datanode_storage_reports[1].storage_reports;
    let storage = storages[0].storage.as_ref().unwrap();
    assert_eq!((storage.storage_uuid.as_str(), storages[0].capacity()), ("DS-1", 1000));
}

pub async fn blocks_in_trouble() {
    let nn = Namenode::fresh().await;
    let su = root(&nn);
    let mut ids = Vec::new();
    for name in ["/d/a", "/d/b", "/e/c"] {
        ids.push(su.touch(name).await.unwrap().id);
    }
    su.setrep("/d/a", 1).await.unwrap();
    let missing = |missing| Concern { missing, ..Concern::default() };
    concern(&nn, ids[0], Concern { under_replicated: 3, corrupt: 1, ..missing(2) }).await;
    concern(&nn, ids[1], Concern { under_replicated: 4, ..Concern::default() }).await;
    concern(&nn, ids[2], missing(1)).await;
    let gone = su.touch("/gone").await.unwrap().id;
    concern(&nn, gone, missing(1)).await;
    su.rm("/gone", false).await.unwrap();
    let served = Served::over(nn, Default::default(), None);
    let mut client = served.client().await;
    let stats = client.call(0, wire::GET_FS_STATS, hdfs::GetFsStatusRequestProto {}).await.unwrap();
    assert_eq!((stats.under_replicated, stats.corrupt_blocks, stats.missing_blocks), (7, 1, 4));
    assert_eq!(stats.missing_repl_one_blocks, Some(2));
    let ask = |path: &str, cookie: Option<String>| hdfs::ListCorruptFileBlocksRequestProto {
        path: path.into(),
        cookie,
    };
    let all = client.call(1, wire::LIST_CORRUPT_FILE_BLOCKS, ask("/", None)).await.unwrap().corrupt;
    assert_eq!(all.files, ["/d/a", "/d/a", "/e/c"]);
    let rest = ask("/", Some(all.cookie.clone()));
    let rest = client.call(2, wire::LIST_CORRUPT_FILE_BLOCKS, rest).await.unwrap().corrupt;
    assert_eq!((rest.files.len(), rest.cookie), (0, all.cookie));
    let below = client.call(3, wire::LIST_CORRUPT_FILE_BLOCKS, ask("/e", None)).await.unwrap().corrupt;
    assert_eq!(below.files, ["/e/c"]);
    let mut ann = Client::connect(served.server.address(), Some("ann"), None).await;
    let refused = ann.call(1, wire::LIST_CORRUPT_FILE_BLOCKS, ask("/", None)).await.unwrap_err();
    assert!(refused.message.contains("Superuser privilege is required"), "{refused}");
}

pub async fn troubled_files_are_paged() {
    let nn = Namenode::fresh().await;
    let made = crate::plant::plant(&nn, "/", trellis_metastore::schema::Kind::File, 5000, |i| i.to_string());
    let ids = made.await;
    change(&nn, move |tx| {
        let concern = Concern { missing: 1, ..Concern::default() };
        Ok(ids.iter().try_for_each(|id| tx.insert(&attention(*id), &concern))?)
    })
    .await;
    let served = Served::over(nn, Default::default(), None);
    let mut client = served.client().await;
    let stats = client.call(0, wire::GET_FS_STATS, hdfs::GetFsStatusRequestProto {}).await.unwrap();
    assert_eq!(stats.missing_blocks, 5000);
    let (mut cookie, mut files, mut number) = (None, Vec::new(), 1);
    loop {
        let request = hdfs::ListCorruptFileBlocksRequestProto { path: "/".into(), cookie };
        let page = client.call(number, wire::LIST_CORRUPT_FILE_BLOCKS, request).await.unwrap().corrupt;
        assert!(page.files.len() <= 100);
        number += 1;
        cookie = Some(page.cookie);
        if page.files.is_empty() {
            break;
        }
        files.extend(page.files);
    }
    files.sort_unstable();
    files.dedup();
    assert_eq!(files.len(), 5000);
}
