//! WRITE_BLOCK: a block comes in, from a client through a pipeline or from another datanode as a copy.

use std::net::Shutdown;

use trellis_proto::checksum::Checksum;
use trellis_proto::hdfs::op_write_block_proto::BlockConstructionStage as Stage;
use trellis_proto::hdfs::{BlockOpResponseProto, OpWriteBlockProto, Status, StorageTypeProto};
use trellis_proto::pipeline::datanode_name;

use super::copy_in::CopyIn;
use super::fault::Fault;
use super::intake::Intake;
use super::mirror::{Mirror, passed_on};
use super::peer::Peer;
use super::pipeline::Pipeline;
use crate::shared::Shared;
use crate::store::{Block, BlockStore, Replica, ReplicaState, ReplicaWriter, Target};

/// What a WRITE_BLOCK asks for.
struct Request<'a> {
    op: &'a OpWriteBlockProto,
    block: Block,
    stage: Stage,
    checksum: Checksum,
}

/// Who sends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sender {
    /// A client, itself or through datanodes: wants acks.
    Client,
    /// A datanode, for a client that mends its pipeline: wants one answer at the end.
    Transfer,
    /// A datanode, for the namenode: wants no answer.
    Datanode,
}

/// Where the bytes go.
enum Place {
    Writer(Box<dyn ReplicaWriter>),
    /// There are none: it was finished.
    Finished(Replica),
}

/// Serves a WRITE_BLOCK to its end; the connection is not used again.
pub(crate) fn write_block(shared: &Shared, peer: &mut Peer, op: &OpWriteBlockProto) -> Result<(), Fault> {
    let sender = match (op.header.client_name.is_empty(), op.stage()) {
        (true, _) => Sender::Datanode,
        (false, Stage::TransferRbw | Stage::TransferFinalized) => Sender::Transfer,
        (false, _) => Sender::Client,
    };
    let outcome = prepare(shared, peer, op, sender).and_then(|(request, place)| match place {
        Place::Writer(writer) if sender == Sender::Client => client_writes(shared, peer, &request, writer),
        Place::Writer(writer) => copy(shared, peer, &request, writer, sender),
        Place::Finished(replica) => close(shared, peer, &request, &replica),
    });
    match outcome {
        // The sender waits for one word, so it is told.
        Err(fault @ (Fault::Store(_) | Fault::Refused(_) | Fault::Checksum(_)))
            if sender == Sender::Transfer =>
        {
            peer.send_message(&refusal(fault.as_java(&shared.store.pool().id), None))?;
            Err(fault)
        }
        other => other,
    }
}

/// Checks the request and prepares the replica. A client whose request cannot be met is told, and that it is this node.
fn prepare<'a>(
    shared: &Shared,
    peer: &Peer,
    op: &'a OpWriteBlockProto,
    sender: Sender,
) -> Result<(Request<'a>, Place), Fault> {
    let prepared = Request::read(shared, op, sender).and_then(|request| {
        let place = request.place(shared, peer, sender)?;
        Ok((request, place))
    });
    if let Err(fault) = &prepared
        && sender == Sender::Client
    {
        peer.send_message(&refusal(
            fault.as_java(&shared.store.pool().id),
            Some(datanode_name(&shared.namenodes.me())),
        ))?;
    }
    prepared
}

impl<'a> Request<'a> {
    fn read(shared: &Shared, op: &'a OpWriteBlockProto, sender: Sender) -> Result<Request<'a>, Fault> {
        let block = shared.block(&op.header.base_header.block)?;
        let stage = op.stage();
        if sender == Sender::Transfer && !op.targets.is_empty() {
            return Err(Fault::Refused(format!("{stage:?} goes to one datanode, not on to others")));
        }
        let checksum = Checksum::from_proto(&op.requested_checksum)
            .map_err(|error| Fault::Refused(format!("the requested checksum: {error}")))?;
        Ok(Request { op, block, stage, checksum })
    }

    /// The replica that the stage asks for, ready for packets.
    fn place(&self, shared: &Shared, peer: &Peer, sender: Sender) -> Result<Place, Fault> {
        let (store, op) = (&shared.store, self.op);
        let (stamp, min, max) = (op.latest_generation_stamp, op.min_bytes_rcvd, op.max_bytes_rcvd);
        let target = self.target(shared);
        let mut writer = match (sender, self.stage) {
            (Sender::Datanode, _) => store.create_temporary(self.block, &target, self.checksum)?,
            (Sender::Transfer, _) => {
                self.remove_older(&**store)?;
                store.create_temporary(self.block, &target, self.checksum)?
            }
            (Sender::Client, Stage::PipelineSetupCreate) => {
                store.create_rbw(self.block, &target, self.checksum)?
            }
            (Sender::Client, Stage::PipelineSetupAppend) => store.append(self.block, stamp, min)?,
            (Sender::Client, Stage::PipelineSetupAppendRecovery) => {
                store.recover_append(self.block, stamp, min)?
            }
            (Sender::Client, Stage::PipelineSetupStreamingRecovery) => {
                store.recover_rbw(self.block, stamp, min, max)?
            }
            (Sender::Client, Stage::PipelineCloseRecovery) => {
                return Ok(Place::Finished(store.recover_close(self.block, stamp, min)?));
            }
            (Sender::Client, stage) => {
                return Err(Fault::Refused(format!("a write does not begin with {stage:?}")));
            }
        };
        if sender == Sender::Client && self.stage != Stage::PipelineSetupStreamingRecovery {
            shared.namenodes.receiving(&writer.replica());
        }
        // Whoever takes the replica over ends this session.
        let stream = peer.handle();
        writer.on_stop(Box::new(move || {
            if let Some(stream) = stream.upgrade() {
                let _ = stream.shutdown(Shutdown::Both); // it may be closed already
            }
        }));
        Ok(Place::Writer(writer))
    }

    /// As in stock, what the pipeline left behind here, e.g. when this datanode restarted, is no reason to refuse a copy of
    /// what it has now. One that is still being written the store replaces by itself.
    fn remove_older(&self, store: &dyn BlockStore) -> Result<(), Fault> {
        let rests = |old: &Replica| matches!(old.state, ReplicaState::Finalized | ReplicaState::Rwr);
        let here = store.replica(self.block.id);
        let Some(old) = here.filter(|old| rests(old) && old.block.stamp < self.block.stamp) else {
            return Ok(());
        };
        tracing::info!(old = %old.block, new = %self.block, "a copy of a newer stamp replaces a replica");
        match store.delete(&[old.block]).pop() {
            Some((_, error)) => Err(error.into()),
            None => Ok(()),
        }
    }

    fn target(&self, shared: &Shared) -> Target {
        let storage_type = self.op.storage_type.and_then(|kind| StorageTypeProto::try_from(kind).ok());
        let expected_len = match self.op.header.base_header.block.num_bytes() {
            0 => shared.config.expected_block,
            known => known,
        };
        Target { storage: self.op.storage_id.clone(), storage_type, expected_len }
    }
}

/// Sets the rest of the pipeline up, says so, and receives.
fn client_writes(
    shared: &Shared,
    peer: &mut Peer,
    request: &Request<'_>,
    writer: Box<dyn ReplicaWriter>,
) -> Result<(), Fault> {
    let _registered = shared.writers.add(peer.handle());
    let mirror = set_up_mirror(shared, peer, request)?;
    let intake = Intake::new(writer, request.checksum, mirror.is_none());
    Pipeline::new(shared, peer, intake, mirror).run()
}

/// A replica was finished whose pipeline broke while it was closed: so it is further down.
fn close(shared: &Shared, peer: &Peer, request: &Request<'_>, replica: &Replica) -> Result<(), Fault> {
    shared.namenodes.received(replica, None);
    set_up_mirror(shared, peer, request).map(drop)
}

/// Connects to the next datanode, if there is one, waits until those below are ready, and tells the sender; if they are
/// not, which of them.
fn set_up_mirror(shared: &Shared, peer: &Peer, request: &Request<'_>) -> Result<Option<Mirror>, Fault> {
    let Some(next) = request.op.targets.first() else {
        peer.send_message(&ready())?;
        return Ok(None);
    };
    let connected =
        Mirror::connect(shared, &request.op.targets, &passed_on(request.op)).and_then(|mut mirror| {
            let answer = mirror.answer()?;
            Ok((mirror, answer))
        });
    match connected {
        Ok((mirror, answer)) if answer.status() == Status::Success => {
            peer.send_message(&ready())?;
            Ok(Some(mirror))
        }
        Ok((_, answer)) => {
            let why = format!("{} below refuses: {}", datanode_name(&next.id), answer.message());
            peer.send_message(&answer)?;
            Err(Fault::Elsewhere(why))
        }
        Err(error) => {
            let why = format!("the next datanode of the pipeline: {error}");
            peer.send_message(&refusal(why.clone(), Some(datanode_name(&next.id))))?;
            Err(Fault::Elsewhere(why))
        }
    }
}

/// Receives a copy.
fn copy(
    shared: &Shared,
    peer: &mut Peer,
    request: &Request<'_>,
    writer: Box<dyn ReplicaWriter>,
    sender: Sender,
) -> Result<(), Fault> {
    let op = request.op;
    let mirror = match op.targets.is_empty() {
        true => None,
        false => Mirror::connect(shared, &op.targets, &passed_on(op))
            .inspect_err(|error| tracing::info!(%error, "a copy goes on without the next datanode"))
            .ok(),
    };
    let copy = CopyIn {
        block: &op.header.base_header.block,
        source: op.source.as_ref(),
        mirror,
        throttle: None,
        waits: None,
    };
    let writer = copy.run(shared, peer, Intake::new(writer, request.checksum, true))?;
    let len = writer.len();
    let replica = match (sender, request.stage) {
        (Sender::Transfer, Stage::TransferRbw) => writer.into_rbw(len)?,
        _ => writer.finish()?,
    };
    shared.metrics.blocks_written.increment(1);
    match sender {
        // The client's next pipeline reports it, with a new stamp.
        Sender::Transfer => peer.send_message(&answer(Status::Success))?,
        _ => shared.namenodes.received(&replica, None),
    }
    Ok(())
}

/// An answer with a status alone.
pub(crate) fn answer(status: Status) -> BlockOpResponseProto {
    BlockOpResponseProto { status: status.into(), ..Default::default() }
}

/// Everybody in the pipeline is ready.
fn ready() -> BlockOpResponseProto {
    BlockOpResponseProto { first_bad_link: Some(String::new()), ..answer(Status::Success) }
}

/// It cannot be done: why, and because of which datanode.
pub(crate) fn refusal(why: String, bad: Option<String>) -> BlockOpResponseProto {
    BlockOpResponseProto { message: Some(why), first_bad_link: bad, ..answer(Status::Error) }
}
