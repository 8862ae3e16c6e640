//! Words of a pipeline in which a block is written: whose status is which, and which datanode is meant.

use crate::hdfs::{DatanodeIdProto, PipelineAckProto, Status};

/// Sequence number of an ack that answers no packet: an error of the pipeline, or a word out of band.
pub const UNKNOWN_SEQNO: i64 = -2;
/// The bits of an ack's `flag` that hold a status.
const STATUS_BITS: u32 = 0xf;

/// An ack with these statuses, one for each datanode from its sender on. `below`: the flags of the nodes further down,
/// as they came; their statuses count no more.
pub fn ack(seqno: i64, statuses: &[i32], below: &[u32]) -> PipelineAckProto {
    let mut flag: Vec<u32> = statuses.iter().map(|status| *status as u32 & STATUS_BITS).collect();
    for (own, theirs) in flag.iter_mut().skip(1).zip(below) {
        *own = *theirs;
    }
    PipelineAckProto { seqno, reply: statuses.to_vec(), downstream_ack_time_nanos: Some(0), flag }
}

/// The statuses of an ack, numbers of [`Status`]; where there are flags, they count: old datanodes send replies only.
pub fn statuses(ack: &PipelineAckProto) -> Vec<i32> {
    match ack.flag.is_empty() {
        true => ack.reply.clone(),
        false => ack.flag.iter().map(|flag| (flag & STATUS_BITS) as i32).collect(),
    }
}

/// Whether a status is a success.
pub fn is_success(status: i32) -> bool {
    status == Status::Success as i32
}

/// What a datanode is called in the answers to WRITE_BLOCK (`firstBadLink`), as `DatanodeID.getXferAddr` of stock: also
/// an IPv6 address stands there without brackets.
pub fn datanode_name(id: &DatanodeIdProto) -> String {
    format!("{}:{}", id.ip_addr, id.xfer_port)
}

/// Whether a `firstBadLink` means this datanode; newer stock datanodes put an IPv6 address in brackets.
pub fn is_called(id: &DatanodeIdProto, link: &str) -> bool {
    let (host, port) = link.rsplit_once(':').unwrap_or((link, ""));
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host == id.ip_addr && port.parse() == Ok(id.xfer_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datanode_is_known_by_the_name_that_it_is_given() {
        let id = |ip: &str| DatanodeIdProto { ip_addr: ip.to_owned(), xfer_port: 9866, ..Default::default() };
        let (v4, v6) = (id("10.0.0.9"), id("fe80::1"));
        assert_eq!((datanode_name(&v4), datanode_name(&v6)), ("10.0.0.9:9866".into(), "fe80::1:9866".into()));
        for id in [&v4, &v6] {
            assert!(is_called(id, &datanode_name(id)));
        }
        assert!(is_called(&v6, "[fe80::1]:9866"));
        for other in ["", "10.0.0.9", "10.0.0.9:98", "10.0.0.90:9866", "[fe80::2]:9866", "fe80::1"] {
            assert!(!is_called(&v4, other) && !is_called(&v6, other), "{other}");
        }
    }

    #[test]
    fn flags_count_where_there_are_some() {
        let (ok, bad) = (Status::Success as i32, Status::Error as i32);
        // A slow node says so in the higher bits of its flag.
        let slow = ack(1, &[ok, bad], &[(2 << 7) | 1]);
        assert_eq!((slow.flag.clone(), statuses(&slow)), (vec![0, (2 << 7) | 1], vec![ok, bad]));
        let old = PipelineAckProto { flag: Vec::new(), reply: vec![bad, ok], ..slow };
        assert_eq!(statuses(&old), [bad, ok]);
    }
}
