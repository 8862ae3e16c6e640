//! Acks of a pipeline: what was received here and not yet acked, and what goes up for each ack from below.
//!
//! An ack has one status for each datanode from its sender on. Nothing goes up before this datanode has done its part.

use std::collections::VecDeque;

use trellis_proto::hdfs::{PipelineAckProto, Status};

/// Sequence number of an ack that answers no packet: an error of the pipeline, or a word out of band.
pub(crate) const UNKNOWN_SEQNO: i64 = -2;
/// Packets that may wait for their acks; stock clients have at most 80 on their way.
const MAX_WAITING: usize = 1 << 16;
/// The bits of `flag` that hold a status.
const STATUS_BITS: u32 = 0xf;

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
}

impl Acks {
    /// Notes a packet that was written here. False: too many wait.
    pub(crate) fn push(&mut self, packet: Written) -> bool {
        self.waiting.push_back(packet);
        self.waiting.len() <= MAX_WAITING
    }

    /// Whether acks are due from below.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes an ack from below.
    pub(crate) fn take_ack(&mut self, below: PipelineAckProto) -> Result<Step, AckFault> {
        let statuses = statuses(&below);
        if statuses.first() == Some(&(Status::ErrorChecksum as i32)) {
            return Err(AckFault::SentCorrupt);
        }
        let success = statuses.iter().all(|status| *status == Status::Success as i32);
        let ack = ack(below.seqno, &[&[Status::Success as i32], &statuses[..]].concat(), &below.flag);
        if below.seqno == UNKNOWN_SEQNO {
            return Ok(Step::Relay(ack));
        }
        match self.waiting.front() {
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

/// `below`: the flags of the nodes further down, as they came.
fn ack(seqno: i64, statuses: &[i32], below: &[u32]) -> PipelineAckProto {
    let mut flag: Vec<u32> = statuses.iter().map(|status| *status as u32 & STATUS_BITS).collect();
    for (own, theirs) in flag.iter_mut().skip(1).zip(below) {
        *own = *theirs;
    }
    PipelineAckProto { seqno, reply: statuses.to_vec(), downstream_ack_time_nanos: Some(0), flag }
}

/// The statuses of an ack; where there are flags, they count.
fn statuses(ack: &PipelineAckProto) -> Vec<i32> {
    match ack.flag.is_empty() {
        true => ack.reply.clone(),
        false => ack.flag.iter().map(|flag| (flag & STATUS_BITS) as i32).collect(),
    }
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
    fn what_ends_the_session() {
        let corrupt = acks().take_ack(own_ack(0, Status::ErrorChecksum));
        assert_eq!(corrupt, Err(AckFault::SentCorrupt));
        let early = acks().take_ack(own_ack(1, Status::Success));
        assert_eq!(early, Err(AckFault::Sequence { due: Some(0), got: 1 }));
        let nothing_sent = Acks::default().take_ack(own_ack(0, Status::Success));
        assert_eq!(nothing_sent, Err(AckFault::Sequence { due: None, got: 0 }));
    }
}
