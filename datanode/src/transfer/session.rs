//! A data connection from its first op to its last.

use bytes::{Bytes, BytesMut};
use trellis_proto::data_transfer::{Op, put_message};
use trellis_proto::exception::Log;
use trellis_proto::hdfs::{
    BlockOpResponseProto, ClientReadStatusProto, OpBlockChecksumProto, OpReadBlockProto,
    ReleaseShortCircuitAccessResponseProto, ShortCircuitShmResponseProto, Status,
};
use trellis_proto::presence::{Checked, decode_request};

use super::copy_out::{copy_block, replace_block, transfer_block};
use super::fault::Fault;
use super::outgoing::{Outgoing, Range};
use super::peer::{Peer, invalid, is_gone};
use super::sums::block_checksum;
use super::write::{answer, refusal, write_block};
use crate::refusal::in_pool;
use crate::shared::Shared;
use crate::store::Block;

/// What becomes of the connection after an op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// The next op may come.
    Keep,
    Close,
}

/// Serves a connection until its peer has nothing more to ask.
pub(crate) fn serve(shared: &Shared, mut peer: Peer) {
    let config = &shared.config;
    let mut wait = config.read_timeout;
    loop {
        let (op, message) = match peer.next_op(wait, config.read_timeout) {
            Ok(Some(next)) => next,
            Ok(None) => return,
            Err(error) => {
                tracing::debug!(peer = %peer.address(), %error, "a data connection ended");
                return;
            }
        };
        match run(shared, &mut peer, op, message) {
            Ok(After::Keep) => wait = config.keepalive,
            Ok(After::Close) => return,
            Err(fault) => {
                shared.metrics.ops_failed.increment(1);
                if let Fault::Checksum(_) = &fault {
                    shared.metrics.checksum_faults.increment(1);
                }
                let address = peer.address();
                match fault.log() {
                    Log::Debug => {
                        tracing::debug!(peer = %address, ?op, %fault, "a data transfer ended early")
                    }
                    Log::Info => tracing::info!(peer = %address, ?op, %fault, "a data transfer ended early"),
                    Log::Warn => tracing::warn!(peer = %address, ?op, %fault, "a data transfer failed"),
                }
                if !matches!(fault, Fault::Io(_)) {
                    peer.see_off();
                }
                return;
            }
        }
    }
}

fn run(shared: &Shared, peer: &mut Peer, op: Op, message: Bytes) -> Result<After, Fault> {
    shared.metrics.ops.increment(1);
    match op {
        Op::WriteBlock => write_block(shared, peer, &decode(message)?)?,
        Op::ReadBlock => return read_block(shared, peer, &decode(message)?),
        Op::BlockChecksum => return checksum(shared, peer, &decode(message)?),
        Op::TransferBlock => transfer_block(shared, peer, decode(message)?)?,
        Op::CopyBlock => copy_block(shared, peer, &decode(message)?)?,
        Op::ReplaceBlock => replace_block(shared, peer, &decode(message)?)?,
        Op::ReleaseShortCircuitFds => peer.send_message(&ReleaseShortCircuitAccessResponseProto {
            status: Status::ErrorUnsupported.into(),
            error: Some(unsupported(op)),
        })?,
        Op::RequestShortCircuitShm => peer.send_message(&ShortCircuitShmResponseProto {
            status: Status::ErrorUnsupported.into(),
            error: Some(unsupported(op)),
            id: None,
        })?,
        Op::RequestShortCircuitFds | Op::BlockGroupChecksum | Op::ReadMetadata | Op::Custom => peer
            .send_message(&BlockOpResponseProto {
                message: Some(unsupported(op)),
                ..answer(Status::ErrorUnsupported)
            })?,
    }
    Ok(After::Close)
}

fn unsupported(op: Op) -> String {
    format!("{op:?} is not supported by this datanode: read and write blocks over TCP")
}

fn decode<M: Checked>(message: Bytes) -> Result<M, Fault> {
    Ok(decode_request(message).map_err(invalid)?)
}

/// READ_BLOCK: a range of a replica, rounded to chunks. The reader says at the end what it thinks of it.
fn read_block(shared: &Shared, peer: &mut Peer, op: &OpReadBlockProto) -> Result<After, Fault> {
    let wanted = &op.header.base_header.block;
    let range = Range { offset: op.offset, len: Some(op.len) };
    let opened =
        shared.block(wanted).and_then(|block| Outgoing::open(shared, block, range, op.send_checksums()));
    let outgoing = match opened {
        Ok(outgoing) => outgoing,
        Err(fault) => {
            let block = Block { id: wanted.block_id, stamp: wanted.generation_stamp };
            let block = in_pool(&wanted.pool_id, block);
            let why = format!("opReadBlock {block} received exception {}", fault.as_java(&wanted.pool_id));
            peer.send_message(&refusal(why, None))?;
            return Err(fault);
        }
    };
    let mut before = BytesMut::new();
    let info = Some(outgoing.checksum_info());
    put_message(
        &mut before,
        &BlockOpResponseProto { read_op_checksum_info: info, ..answer(Status::Success) },
    );
    let sent = outgoing.send(peer, before, None, &shared.metrics.bytes_read);
    let said = sent.and_then(|()| Ok(peer.next_message(shared.config.read_timeout)?));
    let said: ClientReadStatusProto = match said {
        // A reader may stop when it has enough.
        Err(Fault::Io(error)) if is_gone(&error) => {
            tracing::trace!(peer = %peer.address(), %error, "a reader has gone");
            shared.metrics.blocks_read.increment(1);
            return Ok(After::Close);
        }
        said => said?,
    };
    shared.metrics.blocks_read.increment(1);
    tracing::trace!(peer = %peer.address(), ?said, "a block was read");
    if said.status() == Status::ErrorChecksum {
        tracing::info!(peer = %peer.address(), block = wanted.block_id, "a reader found wrong checksums");
        shared.store.suspect(wanted.block_id);
    }
    Ok(After::Keep)
}

/// BLOCK_CHECKSUM
fn checksum(shared: &Shared, peer: &Peer, op: &OpBlockChecksumProto) -> Result<After, Fault> {
    match shared.block(&op.header.block).and_then(|_| block_checksum(&*shared.store, op)) {
        Ok(sum) => {
            let response = BlockOpResponseProto { checksum_response: Some(sum), ..answer(Status::Success) };
            peer.send_message(&response)?;
            Ok(After::Keep)
        }
        Err(fault) => {
            peer.send_message(&refusal(fault.as_java(&op.header.block.pool_id), None))?;
            Err(fault)
        }
    }
}
