//! A copy comes in from another datanode: no acks, every sum verified, and the copy goes away if it is not whole.

use std::time::Instant;

use trellis_proto::hdfs::{BlockOpResponseProto, DatanodeInfoProto, ExtendedBlockProto, Status};

use super::fault::Fault;
use super::intake::{Intake, Packets};
use super::mirror::Mirror;
use super::peer::Peer;
use super::throttle::Throttle;
use crate::shared::Shared;
use crate::store::ReplicaWriter;

/// Where a copy comes from and what goes on beside it.
pub(crate) struct CopyIn<'a> {
    /// For reports of corrupt data.
    pub(crate) block: &'a ExtendedBlockProto,
    /// Whose data it is, if the sender said so.
    pub(crate) source: Option<&'a DatanodeInfoProto>,
    /// The next datanode; its failures are its own.
    pub(crate) mirror: Option<Mirror>,
    /// How fast.
    pub(crate) throttle: Option<&'a Throttle>,
    /// Who waits for the end of it, and is told now and then that it goes on.
    pub(crate) waits: Option<&'a Peer>,
}

impl CopyIn<'_> {
    /// Takes all packets of the block; the writer is ready to be finished then.
    pub(crate) fn run(
        mut self,
        shared: &Shared,
        peer: &mut Peer,
        mut intake: Intake,
    ) -> Result<Box<dyn ReplicaWriter>, Fault> {
        match self.take_all(shared, peer, &mut intake) {
            Ok(()) => Ok(intake.into_writer()),
            Err(fault) => {
                intake.into_writer().abandon();
                if let (Fault::Checksum(_), Some(source)) = (&fault, self.source) {
                    shared.namenodes.bad_elsewhere(self.block, source);
                }
                Err(fault)
            }
        }
    }

    fn take_all(&mut self, shared: &Shared, peer: &mut Peer, intake: &mut Intake) -> Result<(), Fault> {
        peer.expect_packets()?;
        let timeout = shared.config.read_timeout;
        let (mut whole, mut told) = (Instant::now(), Instant::now());
        loop {
            let packets = Packets::received(peer)?;
            if packets.shapes.is_empty() {
                let limit = peer.expect_rest(timeout)?;
                peer.fill_until(whole + limit)?;
                continue;
            }
            let bytes = peer.buffered().get(..packets.len).unwrap_or_default();
            if let Some(mirror) = &mut self.mirror
                && let Err(error) = mirror.peer.send(bytes)
            {
                tracing::info!(below = %mirror.peer.address(), %error, "a copy goes on without the next datanode");
                self.mirror = None;
            }
            for (start, shape) in &packets.shapes {
                intake.take(shared, shape, bytes.get(*start..).unwrap_or_default())?;
            }
            peer.consume(packets.len);
            if packets.ends() {
                return Ok(());
            }
            if let Some(throttle) = self.throttle {
                throttle.take(packets.len);
            }
            if let Some(waits) = self.waits
                && told.elapsed() > timeout / 2
            {
                waits.send_message(&BlockOpResponseProto {
                    status: Status::InProgress.into(),
                    ..Default::default()
                })?;
                told = Instant::now();
            }
            // However long all this took, the sender is not to blame.
            whole = Instant::now();
        }
    }
}
