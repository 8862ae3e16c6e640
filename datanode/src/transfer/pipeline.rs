//! A client writes: packets come down, go on to the next datanode and to the disk, and acks go up.
//!
//! One thread does it all. It waits for whichever has something to say, the sender above or the datanode below, and
//! what has gathered meanwhile is handled at once: packets of one read go on in one write, acks too. An ack goes up
//! after the packet was written here, and after every datanode below acked it.

use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

use bytes::BytesMut;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use trellis_proto::data_transfer::put_message;
use trellis_proto::hdfs::{PipelineAckProto, Status};

use super::acks::{Acks, Step, Written, mirror_failed, own_ack};
use super::fault::Fault;
use super::intake::{Intake, Packets};
use super::mirror::Mirror;
use super::peer::Peer;
use crate::shared::Shared;

/// A block that a client writes.
pub(crate) struct Pipeline<'a> {
    shared: &'a Shared,
    /// The sender above.
    peer: &'a mut Peer,
    /// None: the replica is finished.
    intake: Option<Intake>,
    /// The datanode below: none if this one is the last, or after it failed.
    mirror: Option<Mirror>,
    /// There was one, and the client was told that it failed: it will end this session and begin another. What it
    /// sends until then is written, and not acked.
    broken: bool,
    /// Packets that were written here.
    acks: Acks,
    /// Acks to send.
    up: BytesMut,
    /// The last packet was received.
    ended: bool,
    /// When something last came from above, and when a packet was last whole.
    heard: Instant,
    whole: Instant,
    /// When something last came from below, or the first packet went there that waits for its ack.
    heard_below: Instant,
}

/// Which sides have something to say.
struct Ready {
    above: bool,
    below: bool,
}

impl<'a> Pipeline<'a> {
    /// A pipeline that was set up.
    pub(crate) fn new(
        shared: &'a Shared,
        peer: &'a mut Peer,
        intake: Intake,
        mirror: Option<Mirror>,
    ) -> Pipeline<'a> {
        let now = Instant::now();
        Pipeline {
            shared,
            peer,
            intake: Some(intake),
            mirror,
            broken: false,
            acks: Acks::default(),
            up: BytesMut::new(),
            ended: false,
            heard: now,
            whole: now,
            heard_below: now,
        }
    }

    /// Runs until the last packet is acked, or something fails. Then an RBW stays, for recovery.
    pub(crate) fn run(mut self) -> Result<(), Fault> {
        self.peer.expect_packets()?;
        loop {
            self.take_packets()?;
            if self.intake.is_none() {
                return Ok(());
            }
            let ready = self.wait()?;
            if ready.below {
                self.hear_below()?;
            }
            if ready.above {
                self.peer.fill_within(self.shared.config.read_timeout)?;
                self.heard = Instant::now();
            }
        }
    }

    /// Handles the packets that are here.
    fn take_packets(&mut self) -> Result<(), Fault> {
        let packets = Packets::received(self.peer)?;
        if packets.shapes.is_empty() {
            return Ok(());
        }
        self.ended = packets.ends();
        self.whole = Instant::now();
        if let Some(mirror) = &mut self.mirror {
            if self.acks.is_empty() {
                self.heard_below = self.whole;
            }
            let bytes = self.peer.buffered().get(..packets.len).unwrap_or_default();
            if let Err(error) = mirror.forward(bytes) {
                self.mirror_failed(&error)?;
            }
        }
        for (start, shape) in &packets.shapes {
            let bytes = self.peer.buffered().get(*start..).unwrap_or_default();
            let Some(intake) = &mut self.intake else { break };
            match intake.take(self.shared, shape, bytes) {
                Ok(written) => self.written(written)?,
                Err(fault @ Fault::Checksum(_)) => {
                    self.say(&own_ack(shape.header.seqno, Status::ErrorChecksum));
                    self.send_up()?;
                    return Err(fault);
                }
                Err(fault) => return Err(fault),
            }
        }
        self.peer.consume(packets.len);
        self.send_up()
    }

    /// A packet was written here: acks it if nobody is below.
    fn written(&mut self, packet: Written) -> Result<(), Fault> {
        if self.broken {
            return Ok(());
        }
        if self.mirror.is_some() {
            return match self.acks.push(packet) {
                true => Ok(()),
                false => Err(Fault::Refused("too many packets wait for their acks".to_owned())),
            };
        }
        self.acked(packet)?;
        self.say(&own_ack(packet.seqno, Status::Success));
        Ok(())
    }

    /// A packet is in the hands of all. After the last one the replica is
    /// finished.
    fn acked(&mut self, packet: Written) -> Result<(), Fault> {
        if let Some(intake) = &mut self.intake {
            intake.writer().acked().advance(packet.end);
        }
        if packet.last
            && let Some(intake) = self.intake.take()
        {
            let replica = intake.into_writer().finish()?;
            self.shared.namenodes.received(&replica, None);
            self.shared.metrics.blocks_written.increment(1);
        }
        Ok(())
    }

    fn say(&mut self, ack: &PipelineAckProto) {
        put_message(&mut self.up, ack);
    }

    fn send_up(&mut self) -> Result<(), Fault> {
        if !self.up.is_empty() {
            self.peer.send(&self.up)?;
            self.up.clear();
        }
        Ok(())
    }

    /// Waits for the next bytes, from above or from below.
    fn wait(&mut self) -> Result<Ready, Fault> {
        let mut above = self.heard + self.shared.config.read_timeout;
        if !self.peer.buffered().is_empty() {
            above = above.min(self.whole + self.peer.expect_rest(self.shared.config.read_timeout)?);
        } else {
            self.whole = self.heard;
        }
        let Some(mirror) = &self.mirror else {
            if Instant::now() >= above {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the sender is too slow").into());
            }
            return Ok(Ready { above: true, below: false });
        };
        let below = (!self.acks.is_empty()).then(|| self.heard_below + mirror.timeout);
        // All came: also a sender that has gone gets its block finished.
        let sender = Some(&*self.peer).filter(|_| !self.ended);
        let deadline = match below {
            Some(below) if self.ended => below,
            Some(below) => above.min(below),
            None => above,
        };
        let ready = wait_for_either(sender, &mirror.peer, deadline)?;
        if ready.above || ready.below {
            return Ok(ready);
        }
        if below.is_some_and(|below| Instant::now() >= below) {
            self.mirror_failed(&io::Error::new(io::ErrorKind::TimedOut, "no ack came for too long"))?;
            self.send_up()?;
            return Ok(ready);
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "the sender was silent for too long").into())
    }

    /// Takes the acks that have come from below.
    fn hear_below(&mut self) -> Result<(), Fault> {
        let Some(mirror) = &mut self.mirror else { return Ok(()) };
        if let Err(error) = mirror.peer.fill_within(mirror.timeout) {
            self.mirror_failed(&error)?;
            return self.send_up();
        }
        self.heard_below = Instant::now();
        while let Some(mirror) = &mut self.mirror {
            let step = match mirror.peer.buffered_message::<PipelineAckProto>() {
                Ok(None) => break,
                Ok(Some(ack)) => self.acks.take_ack(ack),
                Err(error) => {
                    self.mirror_failed(&error)?;
                    break;
                }
            };
            match step {
                Ok(Step::Packet { packet, success, ack }) => {
                    if success || packet.last {
                        self.acked(packet)?;
                    }
                    self.say(&ack);
                }
                Ok(Step::Relay(ack)) => self.say(&ack),
                Err(fault @ super::acks::AckFault::SentCorrupt) => return Err(fault.into()),
                Err(fault) => self.mirror_failed(&super::peer::invalid(fault))?,
            }
        }
        self.send_up()
    }

    /// The datanode below failed: the client is told which, and will leave it out of its next pipeline.
    ///
    /// If it hung up after it got nothing for long, the fault lies above it, perhaps here: then who is above judges.
    fn mirror_failed(&mut self, error: &io::Error) -> Result<(), Fault> {
        let Some(mirror) = self.mirror.take() else { return Ok(()) };
        let below = mirror.peer.address();
        if error.kind() == io::ErrorKind::UnexpectedEof
            && mirror.last_sent.elapsed() > self.shared.config.read_timeout * 9 / 10
        {
            return Err(Fault::Elsewhere(format!("{below} hung up after it got nothing for long: {error}")));
        }
        tracing::info!(%below, %error, "the next datanode of a pipeline failed");
        self.shared.metrics.mirrors_failed.increment(1);
        self.broken = true;
        self.say(&mirror_failed());
        Ok(())
    }
}

/// Waits until one of two peers sends something or hangs up; neither after `deadline`.
fn wait_for_either(above: Option<&Peer>, below: &Peer, deadline: Instant) -> io::Result<Ready> {
    let sockets = [Some(below), above].into_iter().flatten().map(|peer| peer.stream().as_fd());
    let mut fds: Vec<PollFd<'_>> = sockets.map(|socket| PollFd::new(socket, PollFlags::POLLIN)).collect();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, timeout) {
            Ok(0) if Instant::now() < deadline => {}
            Ok(_) => break,
            Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let ready = |fd: &PollFd<'_>| fd.any().unwrap_or(true);
    Ok(Ready { below: fds.first().is_some_and(ready), above: fds.get(1).is_some_and(ready) })
}
