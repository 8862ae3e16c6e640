//! Acks of a pipeline: what was received here and not yet acked, and what goes up for each ack from below.
//!
//! An ack has one status for each datanode from its sender on. Nothing goes up before this datanode has done its part.

use std::collections::VecDeque;

use trellis_proto::hdfs::{PipelineAckProto, Status};
use trellis_proto::pipeline::{UNKNOWN_SEQNO, ack, is_success, statuses};

/// Packets that may wait for their acks; stock clients have at most 80 on their way.
const MAX_WAITING: usize = 1 << 16;

/// A packet that was written here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) seqno: i64,
    /// Where its data ends in the block.
    pub(crate) end: u64,
    /// Nothing comes after it.
    pub(crate) last: bool,
}

/// What an ack from below leads to.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// The packet was taken by everybody below if `success`. Send `ack` up, after finishing the replica if it is the
    /// last one.
    Packet { packet: Written, success: bool, ack: PipelineAckProto },
    /// It answers no packet: send it up.
    Relay(PipelineAckProto),
    /// It was kept until its packet is written here.
    Early,
}

/// Why no ack can go up any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AckFault {
    /// The next datanode found that what it got from here does not match its checksums: this one is the bad one.
    #[error("the next datanode found wrong checksums in what was sent to it")]
    SentCorrupt,
    /// The next datanode acks a packet that is not due.
    #[error("packet {due:?} is due, but {got} was acked")]
    Sequence {
        /// Which is due, if any.
        due: Option<i64>,
        /// Which was acked.
        got: i64,
    },
}

/// The packets that wait for their acks.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    waiting: VecDeque<Written>,
    /// Packets that go on and are not written here yet.
    ahead: usize,
    /// Their acks.
    early: VecDeque<PipelineAckProto>,
}

impl Acks {
    /// So many more packets go on to the next datanode before they are written here.
    pub(crate) fn go_ahead(&mut self, packets: usize) {
        self.ahead += packets;
    }

    /// Notes a packet that was written here. False: too many wait.
    pub(crate) fn push(&mut self, packet: Written) -> bool {
        self.ahead = self.ahead.saturating_sub(1);
        self.waiting.push_back(packet);
        self.waiting.len() <= MAX_WAITING
    }

    /// Whether acks are due from below.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The next ack that came early and whose packet was written here meanwhile: to be taken before all others.
    pub(crate) fn next_early(&mut self) -> Option<PipelineAckProto> {
        self.early.pop_front_if(|_| !self.waiting.is_empty())
    }

    /// Takes an ack from below.
    pub(crate) fn take_ack(&mut self, below: PipelineAckProto) -> Result<Step, AckFault> {
        let statuses = statuses(&below);
        if statuses.first() == Some(&(Status::ErrorChecksum as i32)) {
            return Err(AckFault::SentCorrupt);
        }
        let success = statuses.iter().all(|status| is_success(*status));
        let ack = ack(below.seqno, &[&[Status::Success as i32], &statuses[..]].concat(), &below.flag);
        if below.seqno == UNKNOWN_SEQNO {
            return Ok(Step::Relay(ack));
        }
        match self.waiting.front() {
            None if self.early.len() < self.ahead => {
                self.early.push_back(below);
                Ok(Step::Early)
            }
            Some(packet) if packet.seqno == below.seqno => {
                let packet = *packet;
                self.waiting.pop_front();
                Ok(Step::Packet { packet, success, ack })
            }
            due => Err(AckFault::Sequence { due: due.map(|packet| packet.seqno), got: below.seqno }),
        }
    }
}

/// The ack of the last datanode of a pipeline.
pub(crate) fn own_ack(seqno: i64, status: Status) -> PipelineAckProto {
    ack(seqno, &[status as i32], &[])
}

/// What goes up when the next datanode fails: it is the bad one.
pub(crate) fn mirror_failed() -> PipelineAckProto {
    ack(UNKNOWN_SEQNO, &[Status::Success as i32, Status::Error as i32], &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: i32 = Status::Success as i32;
    const BAD: i32 = Status::Error as i32;

    fn acks() -> Acks {
        let mut acks = Acks::default();
        for seqno in 0..3 {
            assert!(acks.push(Written { seqno, end: 100 * (seqno as u64 + 1), last: seqno == 2 }));
        }
        acks
    }

    #[test]
    fn each_datanode_puts_itself_in_front() {
        let mut acks = acks();
        let below = own_ack(0, Status::Success);
        let Ok(Step::Packet { packet, success: true, ack }) = acks.take_ack(below) else { panic!() };
        assert_eq!((packet.end, packet.last, ack.seqno, &ack.reply[..]), (100, false, 0, &[OK, OK][..]));
        // A slow node says so in the higher bits of its flag.
        let slow = PipelineAckProto { flag: vec![0, 2 << 7], ..ack };
        let Ok(Step::Packet { success: true, ack, .. }) =
            acks.take_ack(PipelineAckProto { seqno: 1, ..slow })
        else {
            panic!()
        };
        assert_eq!((ack.flag, ack.reply), (vec![0, 0, 2 << 7], vec![OK, OK, OK]));
    }

    #[test]
    fn failures_further_down_go_up_with_their_place() {
        let mut acks = acks();
        let Ok(Step::Relay(ack)) = acks.take_ack(mirror_failed()) else { panic!() };
        assert_eq!((ack.seqno, ack.reply), (UNKNOWN_SEQNO, vec![OK, OK, BAD]));
        assert!(!acks.is_empty());
        let restarting = own_ack(UNKNOWN_SEQNO, Status::OobRestart);
        let Ok(Step::Relay(ack)) = acks.take_ack(restarting) else { panic!() };
        assert_eq!(ack.reply, [OK, Status::OobRestart as i32]);
        let Ok(Step::Packet { success: false, .. }) = acks.take_ack(own_ack(0, Status::Error)) else {
            panic!()
        };
    }

    #[test]
    fn an_ack_that_comes_before_its_packet_is_written_here_waits_for_that() {
        let (mut acks, ok) = (Acks::default(), |seqno| own_ack(seqno, Status::Success));
        acks.go_ahead(2);
        assert_eq!((acks.take_ack(ok(0)), acks.take_ack(ok(1))), (Ok(Step::Early), Ok(Step::Early)));
        let third = acks.take_ack(ok(2));
        assert_eq!(third, Err(AckFault::Sequence { due: None, got: 2 }), "it was not sent");
        assert_eq!(acks.take_ack(own_ack(1, Status::ErrorChecksum)), Err(AckFault::SentCorrupt));
        assert_eq!(acks.next_early(), None, "none of them is written here");
        for seqno in 0..2 {
            assert!(acks.push(Written { seqno, end: 0, last: false }));
            let early = acks.next_early().unwrap();
            let Ok(Step::Packet { packet, success: true, .. }) = acks.take_ack(early) else { panic!() };
            assert_eq!((packet.seqno, acks.next_early()), (seqno, None));
        }
    }

    #[test]
    fn what_ends_the_session() {
        let corrupt = acks().take_ack(own_ack(0, Status::ErrorChecksum));
        assert_eq!(corrupt, Err(AckFault::SentCorrupt));
        let early = acks().take_ack(own_ack(1, Status::Success));
        assert_eq!(early, Err(AckFault::Sequence { due: Some(0), got: 1 }));
        let nothing_sent = Acks::default().take_ack(own_ack(0, Status::Success));
        assert_eq!(nothing_sent, Err(AckFault::Sequence { due: None, got: 0 }));
    }
}
