//! A client writes: packets come down, go on to the next datanode and to the disk, and acks go up.
//!
//! One thread does it all. It waits for whichever has something to say, the sender above or the datanode below, and
//! what has gathered meanwhile is handled at once: packets of one read go on in one write, acks too. An ack goes up
//! after the packet was written here, and after every datanode below acked it.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

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

/// How long what a datanode sent before it hung up is waited for: it is here already.
const LAST_WORDS: Duration = Duration::from_millis(1);

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
    /// When something last came from below. As in stock, idle time counts too: the client's own time limit began with
    /// the ack that it got last, and when that is over it blames the first datanode.
    heard_below: Instant,
}

/// Which sides have something to say.
#[derive(Clone, Copy)]
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
        if self.mirror.is_some() {
            self.acks.go_ahead(packets.shapes.len());
            self.forward(packets.len)?;
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
        self.take_acks()?;
        self.send_up()?;
        // However long all this took, the sender is not to blame.
        self.whole = Instant::now();
        self.heard = self.whole;
        Ok(())
    }

    /// Passes the first `len` bytes that came from above on, as fast as they are taken, and takes acks meanwhile.
    fn forward(&mut self, len: usize) -> Result<(), Fault> {
        let mut sent = 0;
        while sent < len
            && let Some(mirror) = &mut self.mirror
        {
            match mirror.forward(self.peer.buffered().get(sent..len).unwrap_or_default()) {
                Ok(0) => {
                    let deadline = self.heard_below + mirror.timeout;
                    let both = PollFlags::POLLIN | PollFlags::POLLOUT;
                    let mut fds = [PollFd::new(mirror.peer.stream().as_fd(), both)];
                    let ready = wait_until(&mut fds, deadline)?;
                    let [below] = fds.map(|fd| fd.revents().unwrap_or(PollFlags::empty()));
                    if !ready {
                        self.mirror_failed(&timed_out("it takes nothing and acks nothing for too long"))?;
                    } else if below != PollFlags::POLLOUT {
                        self.hear_below()?;
                    }
                }
                Ok(some) => sent += some,
                Err(error) => {
                    // What it said before it hung up counts.
                    if mirror.peer.fill_within(LAST_WORDS).is_ok() {
                        self.take_acks()?;
                    }
                    self.mirror_failed(&error)?;
                }
            }
        }
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
                return Err(timed_out("the sender is too slow").into());
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
            self.mirror_failed(&timed_out("no ack came for too long"))?;
            self.send_up()?;
            return Ok(ready);
        }
        Err(timed_out("the sender was silent for too long").into())
    }

    /// Reads what has come from below.
    fn hear_below(&mut self) -> Result<(), Fault> {
        let Some(mirror) = &mut self.mirror else { return Ok(()) };
        if let Err(error) = mirror.peer.fill_within(mirror.timeout) {
            self.mirror_failed(&error)?;
            return self.send_up();
        }
        self.heard_below = Instant::now();
        self.take_acks()?;
        self.send_up()
    }

    /// Takes the acks that have come from below.
    fn take_acks(&mut self) -> Result<(), Fault> {
        while let Some(mirror) = &mut self.mirror {
            let next = match self.acks.next_early() {
                Some(early) => Ok(Some(early)),
                None => mirror.peer.buffered_message::<PipelineAckProto>(),
            };
            let step = match next {
                Ok(None) => break,
                Ok(Some(ack)) => self.acks.take_ack(ack),
                Err(error) => return self.mirror_failed(&error),
            };
            match step {
                Ok(Step::Packet { packet, success, ack }) => {
                    if success || packet.last {
                        self.acked(packet)?;
                    }
                    self.say(&ack);
                }
                Ok(Step::Relay(ack)) => self.say(&ack),
                Ok(Step::Early) => {}
                Err(fault @ super::acks::AckFault::SentCorrupt) => return Err(fault.into()),
                Err(fault) => self.mirror_failed(&super::peer::invalid(fault))?,
            }
        }
        Ok(())
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
    wait_until(&mut fds, deadline)?;
    let ready = |fd: &PollFd<'_>| fd.any().unwrap_or(true);
    Ok(Ready { below: fds.first().is_some_and(ready), above: fds.get(1).is_some_and(ready) })
}

/// Waits until one of them is ready; false: none was until `deadline`.
fn wait_until(fds: &mut [PollFd<'_>], deadline: Instant) -> io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(fds, timeout) {
            Ok(0) if Instant::now() < deadline => {}
            Ok(ready) => return Ok(ready > 0),
            Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn timed_out(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, why)
}
