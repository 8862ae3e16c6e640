//! A copy goes out to another datanode: for the namenode (TRANSFER), for a client that mends its pipeline
//! (TRANSFER_BLOCK), for the balancer (COPY_BLOCK), and the other half of that (REPLACE_BLOCK).

use std::time::{Duration, Instant};

use bytes::BytesMut;
use trellis_proto::checksum::Checksum;
use trellis_proto::common::TokenProto;
use trellis_proto::data_transfer::{Op, put_message};
use trellis_proto::hdfs::op_write_block_proto::BlockConstructionStage as Stage;
use trellis_proto::hdfs::{
    BaseHeaderProto, BlockOpResponseProto, ClientOperationHeaderProto, DatanodeInfoProto, DnTransferAckProto,
    OpCopyBlockProto, OpReplaceBlockProto, OpTransferBlockProto, OpWriteBlockProto, Status, StorageTypeProto,
};

use super::copy_in::CopyIn;
use super::fault::Fault;
use super::intake::Intake;
use super::mirror::{Mirror, connect, passed_on};
use super::outgoing::{Outgoing, Range};
use super::peer::Peer;
use super::throttle::Throttle;
use super::write::{answer, refusal};
use crate::shared::Shared;
use crate::store::{Block, ReplicaState, Target};

/// What a source sends after a copy, when it is ready for the next.
const RELEASED: &[u8; 2] = b"\0d";

/// A copy to send.
pub(crate) struct CopyOut {
    pub(crate) block: Block,
    /// How much of it.
    pub(crate) len: u64,
    /// Where to, one passing it on to the next; and their storages.
    pub(crate) targets: Vec<DatanodeInfoProto>,
    pub(crate) storage_types: Vec<i32>,
    pub(crate) storage_ids: Vec<String>,
    pub(crate) stage: Stage,
    /// Empty when no client waits for it.
    pub(crate) client: String,
}

impl CopyOut {
    /// Sends the copy; when a client waits, until the receiver says that it has it.
    pub(crate) fn send(self, shared: &Shared, throttle: Option<&Throttle>) -> Result<(), Fault> {
        let range = Range { offset: 0, len: Some(self.len) };
        let outgoing = Outgoing::open(shared, self.block, range, true)?;
        let op = self.op(shared, &outgoing);
        let mut mirror = Mirror::connect(shared, &self.targets, &passed_on(&op))?;
        outgoing.send(&mirror.peer, BytesMut::new(), throttle, &shared.metrics.bytes_read)?;
        if !self.client.is_empty() {
            let ack: DnTransferAckProto = mirror.peer.next_message(mirror.timeout)?;
            if ack.status() == Status::ErrorChecksum {
                shared.store.suspect(self.block.id);
            }
            if ack.status() != Status::Success {
                let why = format!("{} did not take the copy: {:?}", mirror.peer.address(), ack.status());
                return Err(Fault::Elsewhere(why));
            }
        }
        shared.metrics.copies.increment(1);
        Ok(())
    }

    /// As if this datanode had got it from above.
    fn op(&self, shared: &Shared, outgoing: &Outgoing) -> OpWriteBlockProto {
        let block = shared.extended(self.block, self.len);
        OpWriteBlockProto {
            header: ClientOperationHeaderProto {
                base_header: BaseHeaderProto { block, token: Some(TokenProto::default()), trace_info: None },
                client_name: self.client.clone(),
            },
            targets: self.targets.clone(),
            source: Some(DatanodeInfoProto { id: shared.id.clone(), ..Default::default() }),
            stage: self.stage.into(),
            requested_checksum: outgoing.checksum().to_proto(),
            target_storage_types: self.storage_types.clone(),
            target_storage_ids: self.storage_ids.clone(),
            ..Default::default()
        }
    }
}

/// TRANSFER_BLOCK: copies what the client's pipeline has of a block to another datanode.
pub(crate) fn transfer_block(shared: &Shared, peer: &Peer, op: OpTransferBlockProto) -> Result<(), Fault> {
    let outcome = transfer(shared, op);
    match &outcome {
        Ok(()) => peer.send_message(&answer(Status::Success))?,
        Err(fault) => peer.send_message(&refusal(fault.as_java(&shared.store.pool().id), None))?,
    }
    outcome
}

fn transfer(shared: &Shared, op: OpTransferBlockProto) -> Result<(), Fault> {
    let wanted = shared.block(&op.header.base_header.block)?;
    let Some(replica) = shared.store.replica(wanted.id) else {
        return Err(Fault::Refused(format!("{wanted} not found in datanode.")));
    };
    let stage = match replica.state {
        ReplicaState::Rbw => Stage::TransferRbw,
        ReplicaState::Finalized => Stage::TransferFinalized,
        _ => {
            let state = replica.state.as_str_name();
            return Err(Fault::Refused(format!("{wanted} is neither a RBW nor a Finalized, it is {state}")));
        }
    };
    if replica.block.stamp < wanted.stamp {
        let stamp = replica.block.stamp;
        return Err(Fault::Refused(format!("{stamp} = storedGS < b.getGenerationStamp(), b={wanted}")));
    }
    if op.targets.is_empty() {
        return Ok(());
    }
    let Some(len) = shared.store.visible_len(replica.block)? else {
        return Err(Fault::Refused(format!("no byte of {wanted} is visible")));
    };
    CopyOut {
        block: replica.block,
        len,
        targets: op.targets,
        storage_types: op.target_storage_types,
        storage_ids: op.target_storage_ids,
        stage,
        client: op.header.client_name,
    }
    .send(shared, None)
}

/// COPY_BLOCK: the balancer has another datanode fetch a block from here.
pub(crate) fn copy_block(shared: &Shared, peer: &Peer, op: &OpCopyBlockProto) -> Result<(), Fault> {
    let block = shared.block(&op.header.block)?;
    let Some(_slot) = shared.moves.take() else {
        return refuse(
            peer,
            format!("Not able to copy block {} because threads quota is exceeded.", block.id),
        );
    };
    let outgoing = match Outgoing::open(shared, block, Range { offset: 0, len: None }, true) {
        Ok(outgoing) => outgoing,
        Err(fault) => {
            peer.send_message(&refusal(
                format!("opCopyBlock {block} received exception {}", fault.as_java(&shared.store.pool().id)),
                None,
            ))?;
            return Err(fault);
        }
    };
    let mut before = BytesMut::new();
    let info = Some(outgoing.checksum_info());
    put_message(
        &mut before,
        &BlockOpResponseProto { read_op_checksum_info: info, ..answer(Status::Success) },
    );
    outgoing.send(peer, before, Some(&shared.balance), &shared.metrics.bytes_read)?;
    shared.metrics.copies.increment(1);
    Ok(peer.send(RELEASED)?)
}

/// REPLACE_BLOCK: the balancer has this datanode fetch a block from another, in place of a third one's.
pub(crate) fn replace_block(shared: &Shared, peer: &Peer, op: &OpReplaceBlockProto) -> Result<(), Fault> {
    let block = shared.block(&op.header.block)?;
    let Some(_slot) = shared.moves.take() else {
        return refuse(
            peer,
            format!("Not able to receive block {} because threads quota is exceeded.", block.id),
        );
    };
    let outcome = fetch(shared, peer, op, block);
    match &outcome {
        Ok(()) => peer.send_message(&answer(Status::Success))?,
        Err(fault) => {
            let why = format!(
                "opReplaceBlock {block} received exception {}",
                fault.as_java(&shared.store.pool().id)
            );
            peer.send_message(&refusal(why, None))?;
        }
    }
    outcome
}

fn fetch(shared: &Shared, peer: &Peer, op: &OpReplaceBlockProto, block: Block) -> Result<(), Fault> {
    if op.source.id.datanode_uuid == shared.id.datanode_uuid {
        return Err(Fault::Refused("moves between storages of one datanode are not supported".to_owned()));
    }
    let mut source = connect(shared, std::slice::from_ref(&op.source))?;
    source.send_op(Op::CopyBlock, &OpCopyBlockProto { header: op.header.clone() })?;
    let reply: BlockOpResponseProto = source.next_message(shared.config.read_timeout)?;
    let info = reply.read_op_checksum_info.filter(|_| reply.status() == Status::Success);
    let Some(info) = info else {
        return Err(Fault::Elsewhere(format!(
            "Copy block {block} from {} failed: {}",
            source.address(),
            reply.message()
        )));
    };
    let checksum = Checksum::from_proto(&info.checksum).map_err(Fault::Checksum)?;
    let target = Target {
        storage: op.storage_id.clone(),
        storage_type: op.storage_type.and_then(|kind| StorageTypeProto::try_from(kind).ok()),
        expected_len: match op.header.block.num_bytes() {
            0 => shared.config.expected_block,
            known => known,
        },
    };
    let writer = shared.store.create_temporary(block, &target, checksum)?;
    let copy = CopyIn {
        block: &op.header.block,
        source: Some(&op.source),
        mirror: None,
        throttle: Some(&shared.balance),
        waits: Some(peer),
    };
    let writer = copy.run(shared, &mut source, Intake::new(writer, checksum, true))?;
    let replica = writer.finish()?;
    shared.namenodes.received(&replica, Some(&op.del_hint));
    shared.metrics.blocks_written.increment(1);
    wait_for_release(&mut source, shared.config.read_timeout);
    Ok(())
}

/// Waits until the source is ready for its next copy, or gone: the balancer counts on that.
fn wait_for_release(source: &mut Peer, timeout: Duration) {
    let until = Instant::now() + timeout;
    while source.buffered().len() < RELEASED.len() {
        if let Err(error) = source.fill_until(until) {
            tracing::debug!(%error, "a source of a copy did not say that it is done");
            return;
        }
    }
}

fn refuse(peer: &Peer, why: String) -> Result<(), Fault> {
    peer.send_message(&refusal(why.clone(), None))?;
    Err(Fault::Refused(why))
}
