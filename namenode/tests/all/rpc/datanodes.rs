//! A datanode made by hand talks to namenodes through sockets.

use trellis_metastore::change::Hold;
use trellis_metastore::mem::Mem;
use trellis_metastore::schema::{
    Block, BlockState, CommandKind, ReplicaState, attention, block, block_id, command, replica,
};
use trellis_namenode::config::Config;
use trellis_namenode::jobs::datanodes as job;
use trellis_proto::exception::{Kind, RpcError};
use trellis_proto::hdfs::client_namenode_protocol as client;
use trellis_proto::hdfs::datanode as wire;
use trellis_proto::hdfs::datanode::datanode_protocol_service as protocol;
use trellis_proto::hdfs::datanode::received_deleted_block_info_proto::BlockStatus;
use trellis_proto::hdfs::nnha_status_heartbeat_proto::State;
use trellis_proto::hdfs::{
    AddBlockRequestProto, BlockProto, CompleteRequestProto, CreateRequestProto, DatanodeIdProto,
    DatanodeStorageProto, ExportedBlockKeysProto, ExtendedBlockProto, FsPermissionProto,
    GetFileInfoRequestProto, RecoverLeaseRequestProto, StorageInfoProto, StorageReportProto,
    VersionRequestProto,
};

use super::{Client, Limits, Served};
use crate::support::Namenode;
use std::sync::Arc;

/// An inode that need not exist: reports ask for blocks alone.
const FILE: u64 = 20_000;

/// A datanode with one storage, at one namenode.
struct Fake {
    client: Client,
    calls: i32,
    registration: wire::DatanodeRegistrationProto,
    pool: String,
    storages: Vec<String>,
}

impl Fake {
    async fn connect(served: &Served, uuid: &str) -> Fake {
        let mut client = served.client().await;
        let info = client.call(0, protocol::VERSION_REQUEST, VersionRequestProto {}).await.unwrap().info;
        assert_eq!(info.state, Some(State::Standby.into()));
        let registration = wire::DatanodeRegistrationProto {
            datanode_id: DatanodeIdProto {
                ip_addr: "10.0.0.9".into(),
                host_name: "dn1.invalid".into(),
                datanode_uuid: uuid.into(),
                xfer_port: 9866,
                info_port: 9864,
                ipc_port: 9867,
                info_secure_port: None,
            },
            storage_info: StorageInfoProto { layout_version: -57i32 as u32, ..info.storage_info },
            keys: ExportedBlockKeysProto::default(),
            software_version: "3.4.2".into(),
        };
        let storages = vec![format!("DS-{uuid}")];
        Fake { client, calls: 1, registration, pool: info.block_pool_id, storages }
    }

    async fn fresh(served: &Served, uuid: &str) -> Fake {
        let mut fake = Fake::connect(served, uuid).await;
        fake.register().await.unwrap();
        fake
    }

    fn next(&mut self) -> i32 {
        self.calls += 1;
        self.calls
    }

    async fn register(&mut self) -> Result<wire::DatanodeRegistrationProto, RpcError> {
        let (call, registration) = (self.next(), self.registration.clone());
        let request = wire::RegisterDatanodeRequestProto { registration };
        Ok(self.client.call(call, protocol::REGISTER_DATANODE, request).await?.registration)
    }

    async fn beat(&mut self, lease: bool) -> wire::HeartbeatResponseProto {
        #[allow(deprecated)]
        let report = |uuid: &String| StorageReportProto {
            storage_uuid: uuid.clone(),
            storage: Some(DatanodeStorageProto { storage_uuid: uuid.clone(), ..Default::default() }),
            capacity: Some(1 << 40),
            remaining: Some(1 << 39),
            ..Default::default()
        };
        let request = wire::HeartbeatRequestProto {
            registration: self.registration.clone(),
            reports: self.storages.iter().map(report).collect(),
            request_full_block_report_lease: Some(lease),
            ..Default::default()
        };
        let call = self.next();
        self.client.call(call, protocol::SEND_HEARTBEAT, request).await.unwrap()
    }

    async fn tell(&mut self, ordinal: u32, length: u64, status: BlockStatus) {
        self.tell_of(block_id(FILE, ordinal), length, status).await;
    }

    async fn tell_of(&mut self, block_id: u64, length: u64, status: BlockStatus) {
        #[allow(deprecated)]
        let blocks = wire::StorageReceivedDeletedBlocksProto {
            storage_uuid: self.storages[0].clone(),
            blocks: vec![wire::ReceivedDeletedBlockInfoProto {
                block: BlockProto { block_id, gen_stamp: 1001, num_bytes: Some(length) },
                delete_hint: None,
                status: status.into(),
            }],
            storage: None,
        };
        let request = wire::BlockReceivedAndDeletedRequestProto {
            registration: self.registration.clone(),
            block_pool_id: self.pool.clone(),
            blocks: vec![blocks],
        };
        let call = self.next();
        self.client.call(call, protocol::BLOCK_RECEIVED_AND_DELETED, request).await.unwrap();
    }

    /// A full report of whole replicas, in the old form.
    async fn report(&mut self, lease: u64, ordinals: &[u32]) -> Result<(), RpcError> {
        let mut blocks = vec![ordinals.len() as u64, 0];
        ordinals.iter().for_each(|ordinal| blocks.extend([block_id(FILE, *ordinal), 7, 1001]));
        blocks.extend([u64::MAX; 3]);
        let storage = DatanodeStorageProto { storage_uuid: self.storages[0].clone(), ..Default::default() };
        let request = wire::BlockReportRequestProto {
            registration: self.registration.clone(),
            block_pool_id: self.pool.clone(),
            reports: vec![wire::StorageBlockReportProto { storage, blocks, ..Default::default() }],
            context: Some(wire::BlockReportContextProto {
                total_rpcs: 1,
                cur_rpc: 0,
                id: 5,
                lease_id: Some(lease),
            }),
        };
        let call = self.next();
        self.client.call(call, protocol::BLOCK_REPORT, request).await.map(drop)
    }
}

fn is_register(answer: &wire::HeartbeatResponseProto) -> bool {
    answer.cmds.iter().any(|command| command.register_cmd.is_some())
}

/// Blocks of a file, complete, each 7 bytes long.
async fn plant(served: &Served, ordinals: std::ops::Range<u32>) {
    let op = move |tx: &mut trellis_namenode::engine::tx::Tx<'_, '_>| {
        for ordinal in ordinals.clone() {
            let row = Block {
                id: block_id(FILE, ordinal),
                stamp: 1001,
                last_stamp: 1001,
                length: 7,
                state: BlockState::Complete as i32,
                ..Block::default()
            };
            tx.insert(&block(FILE, ordinal), &row)?;
        }
        Ok(crate::support::Answer { yes: true })
    };
    served.namenode.write(crate::support::SUPERUSER, op).await.unwrap();
}

/// The replica of a block on a storage, by rows.
async fn found(served: &Served, ordinal: u32, storage: u32) -> Option<trellis_metastore::schema::Replica> {
    let op = move |tx: &mut trellis_namenode::engine::tx::Tx<'_, '_>| {
        Ok(tx.get(&replica(block_id(FILE, ordinal), storage), Hold::Loose)?.map(|row| row.value))
    };
    served.namenode.read(crate::support::SUPERUSER, op).await.unwrap()
}

pub async fn it_registers_beats_and_reports() {
    let served = Served::fresh().await;
    plant(&served, 0..3).await;
    let mut fake = Fake::connect(&served, "u1").await;
    let answer = fake.beat(true).await;
    assert!(is_register(&answer) && answer.ha_status.state() == State::Standby, "{answer:?}");
    assert_eq!(fake.register().await.unwrap().datanode_id.ip_addr, "127.0.0.1");
    let answer = fake.beat(true).await;
    assert_eq!((answer.ha_status.state(), answer.ha_status.txid), (State::Active, 1));
    let lease = answer.full_block_report_lease_id();
    assert!(lease != 0 && answer.cmds.is_empty());

    fake.tell(0, 7, BlockStatus::Received).await;
    fake.tell(1, 7, BlockStatus::Receiving).await;
    assert_eq!(found(&served, 0, 2).await.map(|r| (r.length, r.state())), Some((7, ReplicaState::Finalized)));
    assert_eq!(found(&served, 1, 2).await.map(|r| r.state()), Some(ReplicaState::BeingWritten));
    // The report was begun before both: what it does not list stays.
    let wrong = fake.report(lease ^ 1, &[2]).await.unwrap_err();
    assert_eq!(wrong.kind, Kind::InvalidBlockReportLease);
    fake.report(lease, &[2]).await.unwrap();
    assert!(found(&served, 2, 2).await.is_some() && found(&served, 0, 2).await.is_some());
    assert_eq!(fake.report(lease, &[2]).await.unwrap_err().kind, Kind::InvalidBlockReportLease);
    // One begun later takes them away, and somebody is to look at the file.
    crate::support::pass_time(std::time::Duration::from_secs(1));
    let lease = fake.beat(true).await.full_block_report_lease_id();
    fake.report(lease, &[0]).await.unwrap();
    assert!(found(&served, 2, 2).await.is_none() && found(&served, 0, 2).await.is_some());
    let noted = |tx: &mut trellis_namenode::engine::tx::Tx<'_, '_>| {
        Ok(tx.get(&attention(FILE), Hold::Loose)?.is_some())
    };
    assert!(served.namenode.read(crate::support::SUPERUSER, noted).await.unwrap());

    // A block that no file has is to be deleted, and that is told once.
    fake.tell(9, 7, BlockStatus::Received).await;
    job::round(served.service.engine()).await.unwrap();
    let answer = fake.beat(false).await;
    let told = answer.cmds[0].blk_cmd.clone().unwrap();
    assert_eq!(told.action(), wire::block_command_proto::Action::Invalidate);
    assert_eq!((told.blocks[0].block_id, told.blocks[0].num_bytes()), (block_id(FILE, 9), i64::MAX as u64));
    job::round(served.service.engine()).await.unwrap();
    assert!(fake.beat(false).await.cmds.is_empty());
    let row = |tx: &mut trellis_namenode::engine::tx::Tx<'_, '_>| {
        Ok(tx.get(&command(1, CommandKind::Invalidate, block_id(FILE, 9)), Hold::Loose)?.is_some())
    };
    assert!(!served.namenode.read(crate::support::SUPERUSER, row).await.unwrap());
}

/// Case D1: another address for the same uuid is the same datanode.
pub async fn it_moves() {
    let served = Served::fresh().await;
    Fake::fresh(&served, "u1").await.beat(false).await;
    let mut moved = Fake::connect(&served, "u1").await;
    moved.registration.datanode_id.xfer_port = 1234;
    assert!(is_register(&moved.beat(false).await));
    moved.register().await.unwrap();
    assert!(!is_register(&moved.beat(false).await));
    let view = served.service.engine().datanodes().view();
    let nodes: Vec<_> = view.nodes().iter().map(|node| (node.row.number, node.row.data_port)).collect();
    assert_eq!(nodes, [(1, 1234)]);
    assert_eq!(view.storage(2).map(|storage| storage.row().uuid.as_str()), Some("DS-u1"));
    assert!(view.storage(3).is_none());
}

pub async fn who_may_not_register() {
    let served = Served::fresh().await;
    let mut fake = Fake::connect(&served, "u1").await;
    fake.registration.storage_info.cluster_id = "CID-other".into();
    assert_eq!(fake.register().await.unwrap_err().kind, Kind::UnregisteredNode);
    let mut fake = Fake::connect(&served, "u1").await;
    for (version, refused) in
        [("2.0.9", true), ("hops-1", true), ("2.1.0-beta", false), ("3.5.0-SNAPSHOT", false)]
    {
        fake.registration.software_version = version.into();
        let kind = fake.register().await.err().map(|error| error.kind);
        assert_eq!(kind, refused.then_some(Kind::IncorrectVersion), "{version}");
    }
    use trellis_namenode::rpc::datanode::check_host;
    assert_eq!(check_host("10.0.0.9", "dn1.invalid").await.unwrap_err().kind, Kind::DisallowedDatanode);
    check_host("127.0.0.1", "dn1.invalid").await.unwrap();
}

/// Of two namenodes one is obeyed; when it is gone the other takes over, with a higher txid and with what it kept.
pub async fn an_owner_dies() {
    let rows = Mem::new();
    let over = |namenode| Served::over(namenode, Limits::default(), None);
    let first = over(Namenode::start(Arc::new(rows.clone()), 1, Config::default()).await);
    let second = over(Namenode::start(Arc::new(rows.clone()), 2, Config::default()).await);
    plant(&first, 0..2).await;
    member(&first, &[1, 2]).await;
    for served in [&first, &second] {
        job::round(served.service.engine()).await.unwrap();
    }
    let mut at_first = Fake::fresh(&first, "u1").await;
    let mut at_second = Fake::fresh(&second, "u1").await;
    let state = |answer: &wire::HeartbeatResponseProto| (answer.ha_status.state(), answer.ha_status.txid);
    assert_eq!(state(&at_first.beat(true).await), (State::Active, 1));
    let answer = at_second.beat(true).await;
    assert_eq!((state(&answer), answer.full_block_report_lease_id()), ((State::Standby, 0), 0));

    // Acknowledged by both, applied by one.
    at_second.tell(0, 7, BlockStatus::Received).await;
    assert!(found(&second, 0, 2).await.is_none());
    member(&first, &[2]).await;
    job::round(second.service.engine()).await.unwrap();
    assert_eq!(state(&at_second.beat(true).await), (State::Active, 2));
    assert!(found(&second, 0, 2).await.is_some(), "what was kept was applied");
    // The old owner can apply nothing any more, and finds that out.
    at_first.tell(1, 7, BlockStatus::Received).await;
    assert!(found(&second, 1, 2).await.is_none());
    assert_eq!(state(&at_first.beat(true).await), (State::Standby, 0));
}

/// Makes these the live namenodes, by rows.
async fn member(served: &Served, ids: &[u64]) {
    let ids = ids.to_vec();
    let op = move |tx: &mut trellis_namenode::engine::tx::Tx<'_, '_>| {
        for id in [1, 2] {
            let (key, row) = (
                trellis_metastore::schema::member(id),
                trellis_metastore::schema::Member { incarnation: id, ..Default::default() },
            );
            match (tx.get(&key, Hold::Held)?.is_some(), ids.contains(&id)) {
                (false, true) => tx.insert(&key, &row)?,
                (true, false) => tx.delete(&key)?,
                _ => {}
            }
        }
        Ok(crate::support::Answer { yes: true })
    };
    served.namenode.write(crate::support::SUPERUSER, op).await.unwrap();
}

/// Creates a file and asks for its first block.
async fn begin(writer: &mut Client, src: &str, call: i32) -> ExtendedBlockProto {
    let request = CreateRequestProto {
        src: src.into(),
        masked: FsPermissionProto { perm: 0o644 },
        client_name: "c1".into(),
        create_flag: 1,
        create_parent: true,
        replication: 1,
        block_size: 1 << 20,
        ..CreateRequestProto::default()
    };
    writer.call(call, client::CREATE, request).await.unwrap();
    let request = AddBlockRequestProto { src: src.into(), client_name: "c1".into(), ..Default::default() };
    let block = writer.call(call + 1, client::ADD_BLOCK, request).await.unwrap().block;
    assert_eq!((block.locs.len(), block.storage_i_ds.as_slice()), (1, &["DS-u1".to_owned()][..]));
    assert_eq!(block.locs[0].location(), "/default-rack");
    block.b
}

pub async fn a_writer_waits_for_the_report() {
    let served = Served::fresh().await;
    let mut fake = Fake::fresh(&served, "u1").await;
    fake.beat(false).await;
    let mut writer = served.client().await;
    let block = begin(&mut writer, "/f", 1).await;
    let datanodes = served.namenode.engine.datanodes();
    let given = datanodes.registry().view(tokio::time::Instant::now()).nodes()[0].scheduled;
    assert_eq!(given, 1, "it counts until it is heard of");
    let last = Some(ExtendedBlockProto { num_bytes: Some(7), ..block.clone() });
    let request =
        CompleteRequestProto { src: "/f".into(), client_name: "c1".into(), last, ..Default::default() };
    let frame = writer.frame(3, client::COMPLETE, &request);
    writer.send(&frame).await;
    fake.tell_of(block.block_id, 7, BlockStatus::Received).await;
    // Answered before the report it would be false.
    let answer = writer.answer().await.unwrap().decode(&client::COMPLETE).unwrap();
    assert!(answer.result);

    // Another file is recovered: its datanode says how long it is.
    let block = begin(&mut writer, "/g", 4).await;
    let recover = || RecoverLeaseRequestProto { src: "/g".into(), client_name: "c2".into() };
    assert!(!writer.call(6, client::RECOVER_LEASE, recover()).await.unwrap().result);
    let request = wire::CommitBlockSynchronizationRequestProto {
        block,
        new_gen_stamp: 1002,
        new_length: 5,
        close_file: true,
        delete_block: false,
        new_taragets: vec![fake.registration.datanode_id.clone()],
        new_target_storages: fake.storages.clone(),
    };
    let call = fake.next();
    fake.client.call(call, protocol::COMMIT_BLOCK_SYNCHRONIZATION, request).await.unwrap();
    assert!(writer.call(7, client::RECOVER_LEASE, recover()).await.unwrap().result);
    let request = GetFileInfoRequestProto { src: "/g".into() };
    let status = writer.call(8, client::GET_FILE_INFO, request).await.unwrap().fs.unwrap();
    assert_eq!(status.length, 5);
}
