//! A client of the data port that speaks its packets by hand, step by step. It blocks.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use bytes::{BufMut, BytesMut};
use prost::Message;
use trellis_proto::checksum::Checksum;
use trellis_proto::common::TokenProto;
use trellis_proto::data_transfer::{
    Op, Packet, put_message, put_op, put_packet_head, take_message, take_op, take_packet,
};
use trellis_proto::hdfs::op_write_block_proto::BlockConstructionStage as Stage;
use trellis_proto::hdfs::*;
use trellis_proto::presence::{Checked, decode_request};

use crate::namenode::{LONG, POOL};

/// A connection to a datanode, or from one.
pub struct Peer {
    pub stream: TcpStream,
    input: BytesMut,
}

/// A block of the test's pool.
pub fn block(id: u64, stamp: u64, len: u64) -> ExtendedBlockProto {
    ExtendedBlockProto {
        pool_id: POOL.to_owned(),
        block_id: id,
        generation_stamp: stamp,
        num_bytes: Some(len),
    }
}

fn base(block: ExtendedBlockProto) -> BaseHeaderProto {
    BaseHeaderProto { block, token: Some(TokenProto::default()), trace_info: None }
}

pub fn header(block: ExtendedBlockProto, client: &str) -> ClientOperationHeaderProto {
    ClientOperationHeaderProto { base_header: base(block), client_name: client.to_owned() }
}

/// What a client asks for that writes a new block.
pub fn write_op(id: u64, stamp: u64, targets: &[DatanodeIdProto]) -> OpWriteBlockProto {
    let targets = targets.iter().map(|id| DatanodeInfoProto { id: id.clone(), ..Default::default() });
    let targets: Vec<_> = targets.collect();
    OpWriteBlockProto {
        header: header(block(id, stamp, 0), "test"),
        pipeline_size: targets.len() as u32 + 1,
        target_storage_types: vec![StorageTypeProto::Disk.into(); targets.len()],
        target_storage_ids: vec![String::new(); targets.len()],
        targets,
        stage: Stage::PipelineSetupCreate.into(),
        requested_checksum: Checksum::DEFAULT.to_proto(),
        ..Default::default()
    }
}

impl Peer {
    pub fn connect(address: SocketAddr) -> Peer {
        Peer::over(TcpStream::connect(address).unwrap())
    }

    /// Takes a connection that a datanode makes.
    pub fn accept(listener: &TcpListener) -> Peer {
        Peer::over(listener.accept().unwrap().0)
    }

    /// Another handle on the same connection, to send with.
    pub fn twin(&self) -> Peer {
        Peer::over(self.stream.try_clone().unwrap())
    }

    fn over(stream: TcpStream) -> Peer {
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_nodelay(true).unwrap();
        Peer { stream, input: BytesMut::new() }
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub fn op<M: Message>(&mut self, op: Op, message: &M) {
        let mut out = BytesMut::new();
        put_op(&mut out, op, message);
        self.send(&out).unwrap();
    }

    pub fn message<M: Message>(&mut self, message: &M) {
        let mut out = BytesMut::new();
        put_message(&mut out, message);
        self.send(&out).unwrap();
    }

    fn take<T>(&mut self, mut take: impl FnMut(&mut BytesMut) -> Option<T>) -> io::Result<T> {
        loop {
            if let Some(taken) = take(&mut self.input) {
                return Ok(taken);
            }
            let mut more = [0; 64 << 10];
            match self.stream.read(&mut more)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.input.extend_from_slice(&more[..read]),
            }
        }
    }

    pub fn try_answer<M: Checked>(&mut self) -> io::Result<M> {
        let bytes = self.take(|input| take_message(input).unwrap())?;
        Ok(decode_request(bytes).unwrap())
    }

    pub fn answer<M: Checked>(&mut self) -> M {
        self.try_answer().unwrap()
    }

    pub fn take_op<M: Checked>(&mut self) -> (Op, M) {
        let (op, bytes) = self.take(|input| take_op(input).unwrap()).unwrap();
        (op, decode_request(bytes).unwrap())
    }

    pub fn take_packet(&mut self) -> io::Result<Packet> {
        self.take(|input| take_packet(input).unwrap())
    }

    /// Nothing more comes: the other end has closed.
    pub fn is_closed(&mut self) -> bool {
        let mut rest = [0; 1];
        self.input.is_empty() && !matches!(self.stream.read(&mut rest), Ok(1..))
    }

    /// Begins a write; the answer says whether all are ready.
    pub fn write(address: SocketAddr, op: &OpWriteBlockProto) -> (Peer, BlockOpResponseProto) {
        let mut peer = Peer::connect(address);
        peer.op(Op::WriteBlock, op);
        let answer = peer.answer();
        (peer, answer)
    }

    /// Sends a packet with the right sums.
    pub fn packet(&mut self, seqno: i64, offset: u64, data: &[u8], sync: bool) {
        let mut sums = Vec::new();
        Checksum::DEFAULT.compute(data, &mut sums);
        self.packet_with(seqno, offset, data, &sums, sync, data.is_empty() && seqno >= 0);
    }

    pub fn packet_with(&mut self, seqno: i64, offset: u64, data: &[u8], sums: &[u8], sync: bool, last: bool) {
        let mut out = BytesMut::new();
        let header = PacketHeaderProto {
            offset_in_block: offset as i64,
            seqno,
            last_packet_in_block: last,
            data_len: data.len() as i32,
            sync_block: sync.then_some(true),
        };
        put_packet_head(&mut out, &header, sums.len(), data.len()).unwrap();
        out.put_slice(sums);
        out.put_slice(data);
        // The other end may have hung up, which the test then sees.
        let _ = self.send(&out);
    }

    /// The next ack: its number and the statuses.
    pub fn ack(&mut self) -> (i64, Vec<Status>) {
        let ack: PipelineAckProto = self.answer();
        let statuses = ack.flag.iter().map(|flag| Status::try_from((flag & 15) as i32).unwrap());
        (ack.seqno, statuses.collect())
    }

    /// Writes a whole block and closes it.
    pub fn write_block(address: SocketAddr, op: &OpWriteBlockProto, data: &[u8]) {
        let (mut peer, answer) = Peer::write(address, op);
        assert_eq!(answer.status(), Status::Success, "{answer:?}");
        let mut seqno = 0;
        for piece in data.chunks(64 << 10) {
            peer.packet(seqno, seqno as u64 * (64 << 10), piece, false);
            seqno += 1;
        }
        peer.packet(seqno, data.len() as u64, b"", false);
        let good = vec![Status::Success; op.targets.len() + 1];
        for expected in 0..=seqno {
            assert_eq!(peer.ack(), (expected, good.clone()));
        }
        assert!(peer.is_closed());
    }

    /// Asks for a range.
    pub fn read(&mut self, block: ExtendedBlockProto, offset: u64, len: u64) -> BlockOpResponseProto {
        let op = OpReadBlockProto {
            header: header(block, "test"),
            offset,
            len,
            send_checksums: Some(true),
            ..Default::default()
        };
        self.op(Op::ReadBlock, &op);
        self.answer()
    }

    /// The packets of a read to the last, verified: where the data begins, and the data.
    pub fn read_data(&mut self) -> (u64, Vec<u8>) {
        let (mut start, mut data) = (None, Vec::new());
        loop {
            let packet = self.take_packet().unwrap();
            let at = packet.header.offset_in_block as u64;
            assert_eq!(at, *start.get_or_insert(at) + data.len() as u64);
            if packet.header.last_packet_in_block {
                assert!(packet.data.is_empty());
                self.message(&ClientReadStatusProto { status: Status::ChecksumOk.into() });
                return (start.unwrap_or(at), data);
            }
            if !packet.checksums.is_empty() {
                Checksum::DEFAULT.verify(&packet.data, &packet.checksums).unwrap();
            }
            data.extend_from_slice(&packet.data);
        }
    }

    /// Reads a whole block.
    pub fn read_block(address: SocketAddr, block: ExtendedBlockProto) -> Vec<u8> {
        let mut peer = Peer::connect(address);
        let len = block.num_bytes();
        let answer = peer.read(block, 0, len);
        assert_eq!(answer.status(), Status::Success, "{answer:?}");
        peer.read_data().1
    }
}
