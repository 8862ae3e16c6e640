//! A pipeline of datanodes for one block, and how it is set up.

use bytes::Bytes;
use trellis_proto::checksum::Checksum;
use trellis_proto::common::TokenProto;
use trellis_proto::data_transfer::Op;
use trellis_proto::hdfs::{self, DatanodeInfoProto, Status, op_write_block_proto::BlockConstructionStage};
use trellis_proto::pipeline::{datanode_name, is_called, is_success, statuses};

use super::connection::{Connection, DataFault};
use super::datanodes::Datanodes;
use crate::types::Block;

/// One datanode of a pipeline, and where it stores the block.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub node: DatanodeInfoProto,
    pub storage_type: i32,
    pub storage_id: String,
}

impl Target {
    /// The datanodes that the namenode chose for a block.
    pub fn all_of(wire: &hdfs::LocatedBlockProto) -> Vec<Target> {
        let disk = hdfs::StorageTypeProto::Disk as i32;
        let target = |(at, node): (usize, &DatanodeInfoProto)| Target {
            node: node.clone(),
            storage_type: wire.storage_types.get(at).copied().unwrap_or(disk),
            storage_id: wire.storage_i_ds.get(at).cloned().unwrap_or_default(),
        };
        wire.locs.iter().enumerate().map(target).collect()
    }

    pub fn is(&self, other: &Target) -> bool {
        self.node.id.datanode_uuid == other.node.id.datanode_uuid
    }

    /// As it is named to people.
    pub fn name(&self) -> String {
        datanode_name(&self.node.id)
    }
}

/// Why a pipeline does not work (any more).
#[derive(Debug)]
pub(super) struct Broken {
    /// Position of the datanode whose fault it is.
    pub bad: usize,
    pub why: DataFault,
}

impl Broken {
    /// Nobody said whose fault it is: the first datanode is the one that we talk to.
    pub fn first(why: impl Into<DataFault>) -> Self {
        Self { bad: 0, why: why.into() }
    }
}

/// What a pipeline is set up for.
#[derive(Debug)]
pub(super) struct Setup<'a> {
    pub client_name: &'a str,
    pub targets: &'a [Target],
    /// As the datanodes know it. Its length: bytes that all of them have for certain.
    pub block: &'a Block,
    pub token: &'a TokenProto,
    pub stage: BlockConstructionStage,
    pub generation_stamp: u64,
    /// Bytes that were sent, at most.
    pub max_received: u64,
    /// So much room datanodes keep free.
    pub block_size: u64,
    pub checksum: Checksum,
}

impl Setup<'_> {
    /// Connects to the first datanode, which connects to the others.
    pub async fn connect(&self, datanodes: &Datanodes) -> Result<Connection, Broken> {
        let Some((first, rest)) = self.targets.split_first() else {
            return Err(Broken::first(DataFault::Nonsense("the pipeline has no datanodes".into())));
        };
        let mut connection = datanodes.connect(&first.node).await.map_err(Broken::first)?;
        connection.wait_longer(datanodes.config.timeout_per_node * self.targets.len() as u32);
        let block = Block { length: self.block_size, ..self.block.clone() };
        let request = hdfs::OpWriteBlockProto {
            header: hdfs::ClientOperationHeaderProto {
                base_header: hdfs::BaseHeaderProto {
                    block: (&block).into(),
                    token: Some(self.token.clone()),
                    ..Default::default()
                },
                client_name: self.client_name.to_owned(),
            },
            targets: rest.iter().map(|target| target.node.clone()).collect(),
            stage: self.stage.into(),
            pipeline_size: self.targets.len() as u32,
            min_bytes_rcvd: self.block.length,
            max_bytes_rcvd: self.max_received,
            latest_generation_stamp: self.generation_stamp,
            requested_checksum: self.checksum.to_proto(),
            storage_type: Some(first.storage_type),
            target_storage_types: rest.iter().map(|target| target.storage_type).collect(),
            target_pinnings: rest.iter().map(|_| false).collect(),
            storage_id: Some(first.storage_id.clone()),
            target_storage_ids: rest.iter().map(|target| target.storage_id.clone()).collect(),
            ..Default::default()
        };
        let answer = connection.ask(Op::WriteBlock, &request).await.map_err(Broken::first)?;
        if answer.status() == Status::Success {
            return Ok(connection);
        }
        let link = answer.first_bad_link();
        let bad = self.targets.iter().position(|target| is_called(&target.node.id, link)).unwrap_or(0);
        let message = match link {
            "" => answer.message().to_owned(),
            link => format!("{} (it cannot use {link})", answer.message()),
        };
        Err(Broken { bad, why: DataFault::Refused { status: answer.status(), message } })
    }
}

/// Takes the statuses of an ack, one for each datanode; the last one that is no success is the one to blame, as what
/// comes before it only passed the bad news on.
pub(super) fn judge(ack: &hdfs::PipelineAckProto, targets: usize) -> Result<(), Broken> {
    let statuses = statuses(ack);
    match statuses.iter().rposition(|status| !is_success(*status)) {
        Some(at) if at < targets => {
            let status = Status::try_from(statuses.get(at).copied().unwrap_or_default());
            let status = status.unwrap_or(Status::Error);
            Err(Broken { bad: at, why: DataFault::Refused { status, message: "in an ack".into() } })
        }
        None if statuses.len() == targets => Ok(()),
        _ => {
            let text = format!("an ack has {} statuses for {targets} datanodes", statuses.len());
            Err(Broken::first(DataFault::Nonsense(text)))
        }
    }
}

/// The two parts of a packet, as far as they are not written yet.
pub(super) type Outgoing = bytes::buf::Chain<Bytes, Bytes>;
