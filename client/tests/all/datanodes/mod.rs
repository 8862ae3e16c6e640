//! Datanodes in this process, and the namenode that knows them. Only the first datanode of a pipeline hears of it and
//! answers for all; blocks are kept in one place. What goes wrong, and when, the test says.

mod server;

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use tokio::net::TcpListener;
use trellis_client::Client;
use trellis_client::config::DataConfig;
use trellis_proto::data_transfer::Op;
use trellis_proto::exception::Kind;
use trellis_proto::hdfs::{self, op_write_block_proto::BlockConstructionStage as Stage};

use crate::fake::{Act, Fake, Seen, answer, builder, exception, request, status, success};

pub const BLOCK_SIZE: u64 = 4096 * 64;
pub const POOL: &str = "BP-1";

/// When something goes wrong; each time once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// A pipeline is set up.
    Setup,
    /// The packet of this number comes.
    Packet(i64),
    /// The end of a block comes.
    Last,
    /// A read begins.
    Read,
    /// A copy is asked for.
    Transfer,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Do {
    /// The connection is closed; what came is kept.
    Close,
    /// The datanode does not answer.
    Silence,
    /// An ack with an error of the datanode at this position of the pipeline, then the end.
    Nack(usize),
    /// Word that the datanode at this position restarts, then the end.
    Restart(usize),
    /// ERROR.
    Refuse,
    /// ERROR, because of the datanode at this position.
    BadLink(usize),
    /// The last of the data differs from its checksum.
    Corrupt,
    /// The connection is closed in the middle of the data.
    CloseMidway,
    /// Packets without data come, one after another.
    NothingForEver,
}

#[derive(Default)]
pub struct Replica {
    pub data: Vec<u8>,
    pub generation_stamp: u64,
    /// Names of the datanodes that have it.
    pub nodes: Vec<String>,
    pub finalized: bool,
}

#[derive(Default)]
pub struct State {
    pub replicas: BTreeMap<u64, Replica>,
    /// The file's blocks.
    pub blocks: Vec<u64>,
    pub faults: Vec<(usize, When, Do)>,
    /// Packets as they came: offset, length, sync.
    pub packets: Vec<(i64, i32, bool)>,
    pub stages: Vec<Stage>,
    pub connections: usize,
    pub ops: Vec<Op>,
    pub heartbeats: usize,
    /// Connections that ended.
    pub ended: usize,
    /// Datanodes that the namenode does not give.
    pub down: HashSet<usize>,
    /// How often the namenode says that it is too early for a block.
    pub too_early: u32,
    /// The file's last block is being written, and this much of it can be read.
    pub visible: Option<u64>,
    pub reported: Vec<String>,
}

pub struct Cluster {
    pub namenode: Fake,
    pub state: Arc<Mutex<State>>,
    _rpc: Vec<Fake>,
}

type Shared = Arc<Mutex<State>>;

impl Cluster {
    pub async fn start(datanodes: usize) -> Cluster {
        let state = Shared::default();
        let mut nodes = Vec::new();
        let mut rpc = Vec::new();
        for index in 0..datanodes {
            let shared = state.clone();
            let server = Fake::start(move |_, seen| Act::Send(visible_length(&shared, seen))).await;
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = u32::from(listener.local_addr().unwrap().port());
            nodes.push(info(index, port, server.address.port().into()));
            rpc.push(server);
            tokio::spawn(server::accept(listener, index, state.clone()));
        }
        let shared = state.clone();
        let namenode = Fake::start(move |_, seen| Act::Send(namenode(&shared, &nodes, seen))).await;
        Cluster { namenode, state, _rpc: rpc }
    }

    pub fn fail(&self, node: usize, when: When, what: Do) {
        self.lock().faults.push((node, when, what));
    }

    pub fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// How often a method was called.
    pub fn calls(&self, method: &str) -> usize {
        self.namenode.methods().iter().filter(|name| **name == method).count()
    }

    /// A client with short waits.
    pub fn client(&self, change: impl FnOnce(&mut DataConfig)) -> Client {
        let mut config = DataConfig {
            acquire_wait: std::time::Duration::from_millis(2),
            locate_wait: std::time::Duration::from_millis(2),
            ..DataConfig::default()
        };
        change(&mut config);
        builder(&[&self.namenode.address]).data(config).build().unwrap()
    }

    /// The whole file.
    pub fn data(&self) -> Vec<u8> {
        let state = self.lock();
        state.blocks.iter().flat_map(|id| state.replicas[id].data.clone()).collect()
    }
}

fn info(index: usize, port: u32, ipc_port: u32) -> hdfs::DatanodeInfoProto {
    hdfs::DatanodeInfoProto {
        id: hdfs::DatanodeIdProto {
            ip_addr: "127.0.0.1".into(),
            host_name: "localhost".into(),
            datanode_uuid: format!("uuid-{index}"),
            xfer_port: port,
            ipc_port,
            ..Default::default()
        },
        ..Default::default()
    }
}

fn located(
    state: &State,
    id: u64,
    offset: u64,
    nodes: &[hdfs::DatanodeInfoProto],
) -> hdfs::LocatedBlockProto {
    let replica = &state.replicas[&id];
    let named = |uuid: &String| nodes.iter().find(|node| node.id.datanode_uuid == *uuid).unwrap().clone();
    let locs: Vec<_> = replica.nodes.iter().map(named).collect();
    hdfs::LocatedBlockProto {
        b: hdfs::ExtendedBlockProto {
            pool_id: POOL.into(),
            block_id: id,
            generation_stamp: replica.generation_stamp,
            num_bytes: Some(replica.data.len() as u64),
        },
        offset,
        storage_types: vec![hdfs::StorageTypeProto::Disk.into(); locs.len()],
        storage_i_ds: locs.iter().map(|node| format!("DS-{}", node.id.datanode_uuid)).collect(),
        locs,
        ..Default::default()
    }
}

fn visible_length(state: &Shared, seen: &Seen) -> bytes::Bytes {
    assert_eq!(seen.method, "getReplicaVisibleLength");
    match state.lock().unwrap().visible {
        Some(length) => success(seen, &hdfs::GetReplicaVisibleLengthResponseProto { length }),
        None => exception(seen, Kind::ReplicaNotFound, "no such replica"),
    }
}

/// The namenode's side, for the one file `/f` with three copies of each block.
fn namenode(shared: &Shared, nodes: &[hdfs::DatanodeInfoProto], seen: &Seen) -> bytes::Bytes {
    let mut state = shared.lock().unwrap();
    let state = &mut *state;
    let file = || hdfs::HdfsFileStatusProto {
        block_replication: Some(3),
        blocksize: Some(BLOCK_SIZE),
        length: state.blocks.iter().map(|id| state.replicas[id].data.len() as u64).sum(),
        ..status("", 17)
    };
    match seen.method {
        "create" => success(seen, &hdfs::CreateResponseProto { fs: Some(file()) }),
        "append" => {
            let stat = Some(file());
            let last = state.blocks.last().filter(|id| {
                let full = state.replicas[*id].data.len() as u64 >= BLOCK_SIZE;
                !full
            });
            let block = last.map(|id| located(state, *id, 0, nodes));
            success(seen, &hdfs::AppendResponseProto { block, stat })
        }
        "getServerDefaults" => {
            let server_defaults = hdfs::FsServerDefaultsProto {
                block_size: BLOCK_SIZE,
                bytes_per_checksum: 512,
                write_packet_size: 65536,
                replication: 3,
                checksum_type: Some(hdfs::ChecksumTypeProto::ChecksumCrc32c.into()),
                ..Default::default()
            };
            success(seen, &hdfs::GetServerDefaultsResponseProto { server_defaults })
        }
        "addBlock" if state.too_early > 0 => {
            state.too_early -= 1;
            exception(seen, Kind::NotReplicatedYet, "Not replicated yet: /f")
        }
        "addBlock" => {
            let asked = request::<hdfs::AddBlockRequestProto>(seen);
            let free = |index: &usize| {
                !state.down.contains(index) && !asked.exclude_nodes.iter().any(|n| n.id == nodes[*index].id)
            };
            let chosen: Vec<String> =
                (0..nodes.len()).filter(free).take(3).map(|i| format!("uuid-{i}")).collect();
            let id = 100 + seen.id.call_id as u64;
            state
                .replicas
                .insert(id, Replica { generation_stamp: 1000, nodes: chosen, ..Default::default() });
            state.blocks.push(id);
            success(seen, &hdfs::AddBlockResponseProto { block: located(state, id, 0, nodes) })
        }
        "abandonBlock" => {
            let id = request::<hdfs::AbandonBlockRequestProto>(seen).b.block_id;
            state.blocks.retain(|block| *block != id);
            success(seen, &hdfs::AbandonBlockResponseProto {})
        }
        "updateBlockForPipeline" => {
            let id = request::<hdfs::UpdateBlockForPipelineRequestProto>(seen).block.block_id;
            let mut block = located(state, id, 0, nodes);
            block.b.generation_stamp += 1;
            success(seen, &hdfs::UpdateBlockForPipelineResponseProto { block })
        }
        "updatePipeline" => {
            let asked = request::<hdfs::UpdatePipelineRequestProto>(seen);
            let replica = state.replicas.get_mut(&asked.new_block.block_id).unwrap();
            assert_eq!(asked.old_block.generation_stamp, replica.generation_stamp);
            replica.generation_stamp = asked.new_block.generation_stamp;
            replica.nodes = asked.new_nodes.into_iter().map(|id| id.datanode_uuid).collect();
            success(seen, &hdfs::UpdatePipelineResponseProto {})
        }
        "getAdditionalDatanode" => {
            let asked = request::<hdfs::GetAdditionalDatanodeRequestProto>(seen);
            let taken = |node: &hdfs::DatanodeInfoProto| {
                asked.existings.iter().chain(&asked.excludes).any(|other| other.id == node.id)
            };
            let Some(new) = nodes.iter().find(|node| !taken(node)) else {
                return exception(seen, Kind::Io, "no more datanodes");
            };
            let mut block = located(state, asked.blk.block_id, 0, nodes);
            block.locs = asked.existings.iter().chain([new]).cloned().collect();
            block.storage_types = vec![hdfs::StorageTypeProto::Disk.into(); block.locs.len()];
            block.storage_i_ds =
                block.locs.iter().map(|node| format!("DS-{}", node.id.datanode_uuid)).collect();
            success(seen, &hdfs::GetAdditionalDatanodeResponseProto { block })
        }
        "fsync" => success(seen, &hdfs::FsyncResponseProto {}),
        "reportBadBlocks" => {
            for block in request::<hdfs::ReportBadBlocksRequestProto>(seen).blocks {
                state.reported.extend(block.locs.into_iter().map(|node| node.id.datanode_uuid));
            }
            success(seen, &hdfs::ReportBadBlocksResponseProto {})
        }
        "getBlockLocations" => {
            let mut blocks = Vec::new();
            let mut offset = 0;
            for id in &state.blocks {
                blocks.push(located(state, *id, offset, nodes));
                offset += state.replicas[id].data.len() as u64;
            }
            let open = state.visible.is_some();
            let last_block = blocks.last().cloned();
            let complete = if open { last_block.as_ref().map_or(0, |block| block.offset) } else { offset };
            let locations = Some(hdfs::LocatedBlocksProto {
                file_length: complete,
                blocks,
                under_construction: open,
                last_block,
                is_last_block_complete: !open,
                ..Default::default()
            });
            success(seen, &hdfs::GetBlockLocationsResponseProto { locations })
        }
        _ => answer(seen),
    }
}
