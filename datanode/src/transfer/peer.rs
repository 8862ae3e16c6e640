//! One end of a data connection: a blocking socket, what was received and not yet used, time limits.
//!
//! The buffer is filled by as few reads as the socket allows, and packets are looked at where they lie in it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, send};
use prost::Message;
use trellis_proto::data_transfer::{
    Op, PacketShape, TransferError, look_at_packet, packet_len, put_message, put_op, take_message, take_op,
};
use trellis_proto::presence::{Checked, decode_request};

use super::large::LargePackets;
use crate::shared::{Registration, Sockets};

/// What a connection's buffer holds while there are only messages.
const SMALL_BYTES: usize = 8 << 10;
/// What it holds while packets come: several usual ones.
const PACKETS_BYTES: usize = 512 << 10;
/// An op or message that announces more is refused: the largest real one names the nodes of a pipeline.
const MAX_MESSAGE_BYTES: usize = 64 << 10;
/// The time limit of a packet is for so many bytes; a larger one has that much more.
const PACKET_UNIT: usize = 64 << 10;

/// How long a peer has to hear why its connection ends.
const SEE_OFF: Duration = Duration::from_secs(1);

/// A socket and its buffer.
#[derive(Debug)]
pub(crate) struct Peer {
    stream: Arc<TcpStream>,
    address: SocketAddr,
    /// `start..end` was received and not yet used.
    input: Vec<u8>,
    start: usize,
    end: usize,
    large: Arc<LargePackets>,
    borrowed: usize,
    read_timeout: Option<Duration>,
    registration: Option<Registration>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.large.give_back(self.borrowed);
    }
}

impl Peer {
    /// Takes over an accepted connection. `write_timeout`: after so long without progress, sending fails.
    pub(crate) fn new(
        stream: TcpStream,
        write_timeout: Duration,
        large: Arc<LargePackets>,
    ) -> io::Result<Peer> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(write_timeout))?;
        let address = stream.peer_addr()?;
        let input = vec![0; SMALL_BYTES];
        let stream = Arc::new(stream);
        Ok(Peer {
            stream,
            address,
            input,
            start: 0,
            end: 0,
            large,
            borrowed: 0,
            read_timeout: None,
            registration: None,
        })
    }

    /// Has this connection closed when those are.
    pub(crate) fn close_with(&mut self, sockets: &Sockets) {
        self.registration = Some(sockets.add(self.handle()));
    }

    /// Connects to a port of a host.
    pub(crate) fn connect(
        address: (&str, u16),
        connect_timeout: Duration,
        write_timeout: Duration,
        large: Arc<LargePackets>,
    ) -> io::Result<Peer> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, format!("{} has no address", address.0));
        for candidate in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&candidate, connect_timeout) {
                Ok(stream) => return Peer::new(stream, write_timeout, large),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// The other end.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The socket.
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The socket as long as this connection lives, to be shut down from elsewhere.
    pub(crate) fn handle(&self) -> Weak<TcpStream> {
        Arc::downgrade(&self.stream)
    }

    /// Sends no more, and drops what still comes, for a short time: a socket that is closed with bytes unread takes the
    /// last words that were sent on it back.
    pub(crate) fn see_off(&mut self) {
        let until = Instant::now() + SEE_OFF;
        if self.stream.shutdown(Shutdown::Write).is_ok() {
            while self.fill_until(until).is_ok() {
                self.consume(self.end - self.start);
            }
        }
    }

    /// What was received and not yet used.
    pub(crate) fn buffered(&self) -> &[u8] {
        self.input.get(self.start..self.end).unwrap_or_default()
    }

    /// Drops the first `len` bytes of what was received.
    pub(crate) fn consume(&mut self, len: usize) {
        self.start = (self.start + len).min(self.end);
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Reads once, and waits for bytes at most until `deadline`.
    pub(crate) fn fill_until(&mut self, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the peer was too slow"));
        }
        self.set_read_timeout(left)?;
        self.fill()
    }

    /// Reads once, and waits at most `timeout` for bytes.
    pub(crate) fn fill_within(&mut self, timeout: Duration) -> io::Result<()> {
        if self.read_timeout != Some(timeout) {
            self.set_read_timeout(timeout)?;
        }
        self.fill()
    }

    fn set_read_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(timeout.max(Duration::from_millis(1))))?;
        self.read_timeout = Some(timeout);
        Ok(())
    }

    /// Reads once; the end of the stream is an error.
    fn fill(&mut self) -> io::Result<()> {
        if self.end == self.input.len() {
            self.make_room(self.input.len() - self.start + 1)?;
        }
        let room = self.input.get_mut(self.end..).unwrap_or_default();
        loop {
            return match (&*self.stream).read(room) {
                Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the peer closed the connection")),
                Ok(read) => {
                    self.end += read;
                    Ok(())
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    Err(io::Error::new(io::ErrorKind::TimedOut, "the peer sent nothing for too long"))
                }
                Err(error) => Err(error),
            };
        }
    }

    /// Sees to it that `len` bytes from `start` on fit.
    fn make_room(&mut self, len: usize) -> io::Result<()> {
        if len > self.input.len() {
            let new = len.next_power_of_two();
            let more = new.saturating_sub(PACKETS_BYTES).saturating_sub(self.borrowed);
            if !self.large.take(more) {
                let why = format!("no memory is left for a packet of {len} bytes: send smaller ones");
                return Err(io::Error::new(io::ErrorKind::OutOfMemory, why));
            }
            self.borrowed += more;
            self.input.resize(new, 0);
        }
        if self.input.len() - self.start < len {
            self.input.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        Ok(())
    }

    /// Prepares for packets.
    pub(crate) fn expect_packets(&mut self) -> io::Result<()> {
        self.make_room(PACKETS_BYTES)
    }

    /// The next op, which begins within `begin` and is whole within `whole` after that. None: the peer has no more.
    pub(crate) fn next_op(&mut self, begin: Duration, whole: Duration) -> io::Result<Option<(Op, Bytes)>> {
        if self.buffered().is_empty()
            && let Err(error) = self.fill_within(begin)
        {
            return match error.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::TimedOut => Ok(None),
                _ => Err(error),
            };
        }
        self.take_within(whole, take_op).map(Some)
    }

    /// The next delimited message, whole within `timeout`.
    pub(crate) fn next_message<M: Checked>(&mut self, timeout: Duration) -> io::Result<M> {
        let bytes = self.take_within(timeout, take_message)?;
        decode_request(bytes).map_err(|error| invalid(TransferError::Decode(error)))
    }

    /// The next delimited message if it is here already.
    pub(crate) fn buffered_message<M: Checked>(&mut self) -> io::Result<Option<M>> {
        let Some(bytes) = self.take_buffered(take_message)? else { return Ok(None) };
        decode_request(bytes).map(Some).map_err(|error| invalid(TransferError::Decode(error)))
    }

    fn take_within<T>(
        &mut self,
        timeout: Duration,
        take: fn(&mut BytesMut) -> Result<Option<T>, TransferError>,
    ) -> io::Result<T> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(taken) = self.take_buffered(take)? {
                return Ok(taken);
            }
            self.fill_until(deadline)?;
        }
    }

    fn take_buffered<T>(
        &mut self,
        take: fn(&mut BytesMut) -> Result<Option<T>, TransferError>,
    ) -> io::Result<Option<T>> {
        let seen = self.buffered().get(..MAX_MESSAGE_BYTES).unwrap_or(self.buffered());
        let before = seen.len();
        let mut copy = BytesMut::from(seen);
        match take(&mut copy).map_err(invalid)? {
            Some(taken) => {
                self.consume(before - copy.len());
                Ok(Some(taken))
            }
            None if before >= MAX_MESSAGE_BYTES => Err(invalid(TransferError::MessageLength(before))),
            None => Ok(None),
        }
    }

    /// The packet at the head of what was received, if it is whole; it is left there.
    pub(crate) fn packet(&self, skip: usize) -> io::Result<Option<PacketShape>> {
        look_at_packet(self.buffered().get(skip..).unwrap_or_default()).map_err(invalid)
    }

    /// Bytes of the packet of which only a part is here, if that many are here that it can be known.
    pub(crate) fn announced(&self) -> io::Result<Option<usize>> {
        packet_len(self.buffered()).map_err(invalid)
    }

    /// Makes room for the packet of which a part is here, and says how long its bytes may take in all.
    pub(crate) fn expect_rest(&mut self, timeout: Duration) -> io::Result<Duration> {
        let Some(len) = self.announced()? else { return Ok(timeout) };
        self.make_room(len)?;
        Ok(timeout.saturating_mul(1 + u32::try_from(len / PACKET_UNIT).unwrap_or(u32::MAX)))
    }

    /// Sends a delimited message.
    pub(crate) fn send_message<M: Message>(&self, message: &M) -> io::Result<()> {
        let mut out = BytesMut::new();
        put_message(&mut out, message);
        self.send(&out)
    }

    /// Sends an op.
    pub(crate) fn send_op<M: Message>(&self, op: Op, message: &M) -> io::Result<()> {
        let mut out = BytesMut::new();
        put_op(&mut out, op, message);
        self.send(&out)
    }

    /// Sends what the socket takes of `bytes` at once, and says how much that is; 0: nothing for now.
    pub(crate) fn send_some(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        loop {
            return match send(self.stream.as_raw_fd(), bytes, flags) {
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => Ok(0),
                sent => Ok(sent?),
            };
        }
    }

    /// Sends all of `bytes`.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        (&*self.stream).write_all(bytes).map_err(too_slow)
    }
}

fn too_slow(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => {
            io::Error::new(io::ErrorKind::TimedOut, "the peer did not take what was sent for too long")
        }
        _ => error,
    }
}

/// Whether the peer has closed the connection.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::NotConnected
    )
}

/// A peer that does not keep to the protocol.
pub(crate) fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use trellis_proto::hdfs::{ClientReadStatusProto, Status};

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn pair(large: usize) -> (Peer, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let near = listener.accept().unwrap().0;
        (Peer::new(near, LONG, LargePackets::new(large)).unwrap(), far)
    }

    #[test]
    fn messages_and_ops_one_after_the_other() {
        let (mut peer, far) = pair(0);
        let status = ClientReadStatusProto { status: Status::ChecksumOk.into() };
        let mut wire = BytesMut::new();
        put_message(&mut wire, &status);
        put_op(&mut wire, Op::ReadBlock, &status);
        for piece in wire.chunks(3) {
            (&far).write_all(piece).unwrap();
        }
        drop(far);
        assert_eq!(peer.next_message::<ClientReadStatusProto>(LONG).unwrap(), status);
        assert_eq!(peer.next_op(LONG, LONG).unwrap().unwrap().0, Op::ReadBlock);
        assert!(peer.next_op(LONG, LONG).unwrap().is_none());
    }

    #[test]
    fn what_is_too_large_is_refused() {
        let (mut peer, far) = pair(1 << 20);
        // a message that announces 1 MiB
        (&far).write_all(b"\x80\x80\x40").unwrap();
        let sender = std::thread::spawn(move || {
            let _ = (&far).write_all(&vec![0; 1 << 20]);
            far
        });
        assert_eq!(
            peer.next_message::<ClientReadStatusProto>(LONG).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        drop(peer);
        drop(sender.join().unwrap());
    }
}
