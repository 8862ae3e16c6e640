//! A part of a replica on its way out: packets, whose data the kernel takes from the file by itself.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use metrics::Counter;
use nix::sys::sendfile::sendfile;
use nix::sys::socket::{MsgFlags, send};
use trellis_proto::checksum::{Checksum, ChecksumType};
use trellis_proto::data_transfer::put_packet_head;
use trellis_proto::hdfs::{PacketHeaderProto, ReadOpChecksumInfoProto};

use super::fault::Fault;
use super::peer::{Peer, invalid, is_gone};
use super::throttle::Throttle;
use crate::shared::Shared;
use crate::store::{Block, BlockStore, ReplicaReader, ReplicaState};

/// Data of a packet, at most, unless one chunk is larger.
const PACKET_DATA: usize = 512 << 10;
/// Data up to this size goes through a buffer, in one write with all that surrounds it.
const COPIED: usize = 32 << 10;
/// How a sender that sends no sums says so.
const NO_SUMS_CHUNK: u32 = 512;
/// How often and how long a reader waits for bytes that a writer is about to write.
const WAITS: usize = 30;
const WAIT: Duration = Duration::from_millis(100);

/// What of a replica is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    /// The first byte.
    pub(crate) offset: u64,
    /// None: all that is there.
    pub(crate) len: Option<u64>,
}

/// A range of a replica, rounded to chunks.
pub(crate) struct Outgoing {
    store: Arc<dyn BlockStore>,
    reader: Box<dyn ReplicaReader>,
    /// As it is told to the receiver.
    checksum: Checksum,
    /// A chunk's start.
    start: u64,
    /// A chunk's end, or the replica's.
    end: u64,
}

impl Outgoing {
    /// Opens a replica; one that is being written is waited for a short time.
    pub(crate) fn open(
        shared: &Shared,
        block: Block,
        range: Range,
        with_sums: bool,
    ) -> Result<Outgoing, Fault> {
        let wanted = range.offset.saturating_add(range.len.unwrap_or(0));
        let mut reader = shared.store.read(block)?;
        for _ in 0..WAITS {
            let replica = reader.replica();
            if replica.state != ReplicaState::Rbw || replica.len >= wanted {
                break;
            }
            thread::sleep(WAIT);
            reader = shared.store.read(block)?;
        }
        let have = reader.replica().len;
        if wanted > have {
            let Range { offset, len } = range;
            let why = format!(
                " Offset {offset} and length {} don't match block {block} ( blockLen {have} )",
                len.unwrap_or(0)
            );
            return Err(invalid(why).into());
        }
        let on_disk = reader.checksum();
        let checksum = match with_sums {
            true => on_disk,
            false => Checksum::new(ChecksumType::Null, NO_SUMS_CHUNK).map_err(Fault::Checksum)?,
        };
        let chunk = u64::from(checksum.bytes_per_checksum());
        let end = match range.len {
            Some(_) => wanted.checked_next_multiple_of(chunk).unwrap_or(have).min(have),
            None => have,
        };
        let (store, start) = (shared.store.clone(), checksum.chunk_start(range.offset));
        Ok(Outgoing { store, reader, checksum, start, end })
    }

    /// What the receiver is told beforehand.
    pub(crate) fn checksum_info(&self) -> ReadOpChecksumInfoProto {
        ReadOpChecksumInfoProto { checksum: self.checksum.to_proto(), chunk_offset: self.start }
    }

    /// How it is cut into chunks.
    pub(crate) fn checksum(&self) -> Checksum {
        self.checksum
    }

    /// Sends all packets, the empty last one included; `before` goes out in front of the first. Data is counted as it
    /// goes.
    pub(crate) fn send(
        mut self,
        peer: &Peer,
        before: BytesMut,
        throttle: Option<&Throttle>,
        sent: &Counter,
    ) -> Result<(), Fault> {
        let chunk = self.checksum.bytes_per_checksum() as usize;
        let most = (PACKET_DATA / chunk).max(1) * chunk;
        let (mut at, mut seqno, mut out, mut copied) = (self.start, 0, before, 0);
        while at < self.end {
            let len = usize::try_from(self.end - at).unwrap_or(most).min(most);
            self.put_head(&mut out, at, seqno, len)?;
            if len <= COPIED {
                let start = out.len();
                out.resize(start + len, 0);
                copied += len as u64;
                self.reader.read(at, out.get_mut(start..).unwrap_or_default())?;
            } else {
                send_more(peer, &out)?;
                out.clear();
                self.send_file(peer, at, len, sent).inspect_err(|error| self.blame(error))?;
            }
            at += len as u64;
            seqno += 1;
            if let Some(throttle) = throttle {
                throttle.take(len);
            }
        }
        put_packet_head(&mut out, &head(at, seqno, 0), 0, 0).map_err(invalid)?;
        peer.send(&out)?;
        sent.increment(copied);
        Ok(())
    }

    /// Appends header and sums.
    fn put_head(&mut self, out: &mut BytesMut, at: u64, seqno: i64, len: usize) -> Result<(), Fault> {
        let sums = self.checksum.sums_len(len);
        put_packet_head(out, &head(at, seqno, len), sums, len).map_err(invalid)?;
        if sums > 0 {
            let start = out.len();
            out.put_bytes(0, sums);
            self.reader.read_sums(at, out.get_mut(start..).unwrap_or_default())?;
        }
        Ok(())
    }

    /// The kernel does not say whether the socket or the file failed: unless it was the peer for certain, the scanner
    /// looks at the replica.
    fn blame(&self, error: &io::Error) {
        if !is_gone(error) && error.kind() != io::ErrorKind::TimedOut {
            let block = self.reader.replica().block;
            tracing::warn!(%block, %error, "a replica could not be sent: its scanner looks at it");
            self.store.suspect(block.id);
        }
    }

    /// Has the kernel send a part of the file.
    fn send_file(&self, peer: &Peer, at: u64, len: usize, count: &Counter) -> io::Result<()> {
        let mut offset = i64::try_from(at).map_err(invalid)?;
        let mut left = len;
        while left > 0 {
            match sendfile(peer.stream(), self.reader.file(), Some(&mut offset), left) {
                Ok(0) => {
                    return Err(invalid(format!("the file of {} ends early", self.reader.replica().block)));
                }
                Ok(sent) => {
                    count.increment(sent as u64);
                    left -= sent.min(left);
                }
                Err(errno) => again(errno)?,
            }
        }
        Ok(())
    }
}

fn head(at: u64, seqno: i64, len: usize) -> PacketHeaderProto {
    PacketHeaderProto {
        offset_in_block: at as i64,
        seqno,
        last_packet_in_block: len == 0,
        data_len: len as i32,
        sync_block: None,
    }
}

/// Sends what data follows at once.
fn send_more(peer: &Peer, mut bytes: &[u8]) -> io::Result<()> {
    let flags = MsgFlags::from_bits_retain(nix::libc::MSG_MORE) | MsgFlags::MSG_NOSIGNAL;
    while !bytes.is_empty() {
        match send(peer.stream().as_raw_fd(), bytes, flags) {
            Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
            Err(errno) => again(errno)?,
        }
    }
    Ok(())
}

/// Whether to try again.
fn again(errno: nix::errno::Errno) -> io::Result<()> {
    match errno {
        nix::errno::Errno::EINTR => Ok(()),
        nix::errno::Errno::EAGAIN => {
            Err(io::Error::new(io::ErrorKind::TimedOut, "the peer did not take what was sent for too long"))
        }
        errno => Err(errno.into()),
    }
}
