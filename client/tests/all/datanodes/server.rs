//! One datanode's data port.

use bytes::{BufMut, BytesMut};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use trellis_proto::checksum::Checksum;
use trellis_proto::data_transfer::{
    HEARTBEAT_SEQNO, Op, Packet, put_message, put_packet_head, take_message, take_op, take_packet,
};
use trellis_proto::hdfs::{self, Status, op_write_block_proto::BlockConstructionStage as Stage};

use super::{Do, Shared, When};

pub(super) async fn accept(listener: TcpListener, index: usize, state: Shared) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap(); // as datanodes do: else an ack may wait, and go when the connection is reset
        state.lock().unwrap().connections += 1;
        let datanode = Datanode { index, state: state.clone(), stream, buf: BytesMut::new() };
        tokio::spawn(async move {
            let state = datanode.state.clone();
            datanode.serve().await;
            state.lock().unwrap().ended += 1;
        });
    }
}

/// One connection of a datanode.
struct Datanode {
    index: usize,
    state: Shared,
    stream: TcpStream,
    buf: BytesMut,
}

impl Datanode {
    /// What goes wrong now, if anything does.
    fn fault(&self, now: When) -> Option<Do> {
        let mut state = self.state.lock().unwrap();
        let at = state.faults.iter().position(|(node, when, _)| *node == self.index && *when == now)?;
        Some(state.faults.remove(at).2)
    }

    async fn more(&mut self) -> Option<()> {
        matches!(self.stream.read_buf(&mut self.buf).await, Ok(1..)).then_some(())
    }

    async fn send<M: Message>(&mut self, message: &M) -> Option<()> {
        let mut out = BytesMut::new();
        put_message(&mut out, message);
        self.stream.write_all(&out).await.ok()
    }

    async fn serve(mut self) {
        while self.op().await.is_some() {}
    }

    async fn op(&mut self) -> Option<()> {
        let (op, message) = loop {
            match take_op(&mut self.buf).unwrap() {
                Some(op) => break op,
                None => self.more().await?,
            }
        };
        self.state.lock().unwrap().ops.push(op);
        match op {
            Op::WriteBlock => self.write(hdfs::OpWriteBlockProto::decode(message).unwrap()).await,
            Op::ReadBlock => self.read(hdfs::OpReadBlockProto::decode(message).unwrap()).await,
            Op::TransferBlock => {
                let status = match self.fault(When::Transfer) {
                    None => Status::Success,
                    Some(_) => Status::Error,
                };
                self.send(&hdfs::BlockOpResponseProto { status: status.into(), ..Default::default() }).await
            }
            other => panic!("{other:?} is not scripted"),
        }
    }

    async fn write(&mut self, op: hdfs::OpWriteBlockProto) -> Option<()> {
        let id = op.header.base_header.block.block_id;
        let ok = hdfs::BlockOpResponseProto {
            status: Status::Success.into(),
            first_bad_link: Some(String::new()),
            ..Default::default()
        };
        let bad = hdfs::BlockOpResponseProto { status: Status::Error.into(), ..ok.clone() };
        match self.fault(When::Setup) {
            Some(Do::Refuse) => return self.send(&bad).await.and(None),
            Some(Do::BadLink(at)) => {
                let id = &op.targets[at - 1].id;
                let first_bad_link = Some(format!("{}:{}", id.ip_addr, id.xfer_port));
                return self.send(&hdfs::BlockOpResponseProto { first_bad_link, ..bad }).await.and(None);
            }
            Some(Do::Close) => return None,
            Some(Do::Silence) => return self.silent().await,
            Some(other) => panic!("{other:?} at a set-up"),
            None => {}
        }
        self.check_setup(&op, id);
        self.send(&ok).await?;
        if op.stage() == Stage::PipelineCloseRecovery {
            self.state.lock().unwrap().replicas.get_mut(&id).unwrap().finalized = true;
            return None;
        }
        let pipeline = op.targets.len() + 1;
        loop {
            let packet = loop {
                match take_packet(&mut self.buf).unwrap() {
                    Some(packet) => break packet,
                    None => self.more().await?,
                }
            };
            let last = packet.header.last_packet_in_block;
            self.packet(id, packet, pipeline).await?;
            if last {
                return Some(());
            }
        }
    }

    fn check_setup(&self, op: &hdfs::OpWriteBlockProto, id: u64) {
        let mut state = self.state.lock().unwrap();
        state.stages.push(op.stage());
        let replica = state.replicas.get_mut(&id).unwrap();
        let stamp = replica.generation_stamp;
        match op.stage() {
            Stage::PipelineSetupCreate => assert_eq!(op.latest_generation_stamp, stamp),
            _ => assert_eq!(op.latest_generation_stamp, stamp + 1),
        }
        let have = replica.data.len() as u64;
        assert!(
            op.min_bytes_rcvd <= have && op.max_bytes_rcvd >= op.min_bytes_rcvd,
            "{op:?} for {have} bytes"
        );
        assert_eq!(op.pipeline_size as usize, op.targets.len() + 1);
    }

    async fn packet(&mut self, id: u64, packet: Packet, pipeline: usize) -> Option<()> {
        let header = &packet.header;
        if header.seqno == HEARTBEAT_SEQNO {
            self.state.lock().unwrap().heartbeats += 1;
            return self.ack(HEARTBEAT_SEQNO, pipeline, None).await;
        }
        Checksum::DEFAULT.verify(&packet.data, &packet.checksums).unwrap();
        let mut when = self.fault(When::Packet(header.seqno));
        if header.last_packet_in_block {
            when = when.or_else(|| self.fault(When::Last));
        }
        {
            let mut state = self.state.lock().unwrap();
            state.packets.push((header.offset_in_block, header.data_len, header.sync_block()));
            let replica = state.replicas.get_mut(&id).unwrap();
            let at = header.offset_in_block as usize;
            assert!(at <= replica.data.len(), "a hole before {at}");
            replica.data.truncate(at);
            replica.data.extend_from_slice(&packet.data);
            replica.finalized |= header.last_packet_in_block && when.is_none();
        }
        match when {
            None => self.ack(header.seqno, pipeline, None).await,
            Some(Do::Close) => None,
            Some(Do::Nack(bad)) => {
                self.ack(header.seqno, pipeline, Some((bad, Status::Error))).await.and(None)
            }
            Some(Do::Restart(at)) => self.ack(-2, pipeline, Some((at, Status::OobRestart))).await.and(None),
            Some(Do::Silence) => self.silent().await,
            Some(other) => panic!("{other:?} at a packet"),
        }
    }

    async fn ack(&mut self, seqno: i64, pipeline: usize, bad: Option<(usize, Status)>) -> Option<()> {
        let status = |at| bad.filter(|(bad, _)| *bad == at).map_or(Status::Success, |(_, status)| status);
        // As a stock datanode: what is behind a bad one is not known.
        let known = bad.map_or(pipeline, |(bad, _)| bad + 1);
        let reply: Vec<i32> = (0..known).map(|at| status(at).into()).collect();
        let flag = reply.iter().map(|status| *status as u32).collect();
        self.send(&hdfs::PipelineAckProto { seqno, reply, flag, ..Default::default() }).await
    }

    /// Takes everything and says nothing.
    async fn silent(&mut self) -> Option<()> {
        loop {
            self.buf.clear();
            self.more().await?;
        }
    }

    async fn read(&mut self, op: hdfs::OpReadBlockProto) -> Option<()> {
        let fault = self.fault(When::Read);
        if fault == Some(Do::Close) {
            return None;
        }
        let data = {
            let state = self.state.lock().unwrap();
            state.replicas[&op.header.base_header.block.block_id].data.clone()
        };
        let start = Checksum::DEFAULT.chunk_start(op.offset);
        let end = (op.offset + op.len).next_multiple_of(512).min(data.len() as u64);
        let refused = fault == Some(Do::Refuse);
        self.send(&hdfs::BlockOpResponseProto {
            status: if refused { Status::Error } else { Status::Success }.into(),
            read_op_checksum_info: Some(hdfs::ReadOpChecksumInfoProto {
                checksum: Checksum::DEFAULT.to_proto(),
                chunk_offset: start,
            }),
            ..Default::default()
        })
        .await?;
        if refused {
            return None;
        }
        let mut out = BytesMut::new();
        let mut seqno = 0;
        while fault == Some(Do::NothingForEver) {
            let header =
                hdfs::PacketHeaderProto { offset_in_block: start as i64, seqno, ..Default::default() };
            put_packet_head(&mut out, &header, 0, 0).unwrap();
            self.stream.write_all(&out.split()).await.ok()?;
            seqno += 1;
        }
        let pieces = data[start as usize..end as usize].chunks(4096);
        let count = pieces.len();
        for (at, piece) in pieces.enumerate() {
            let mut sums = Vec::new();
            Checksum::DEFAULT.compute(piece, &mut sums);
            if fault == Some(Do::Corrupt) && at + 1 == count {
                sums[0] ^= 1;
            }
            let header = hdfs::PacketHeaderProto {
                offset_in_block: start as i64 + at as i64 * 4096,
                seqno,
                data_len: piece.len() as i32,
                ..Default::default()
            };
            put_packet_head(&mut out, &header, sums.len(), piece.len()).unwrap();
            out.put_slice(&sums);
            out.put_slice(piece);
            seqno += 1;
            if fault == Some(Do::CloseMidway) && at == 2 {
                return self.stream.write_all(&out).await.ok().and(None);
            }
        }
        let last = hdfs::PacketHeaderProto {
            offset_in_block: end as i64,
            seqno,
            last_packet_in_block: true,
            ..Default::default()
        };
        put_packet_head(&mut out, &last, 0, 0).unwrap();
        self.stream.write_all(&out).await.ok()?;
        loop {
            match take_message(&mut self.buf).unwrap() {
                Some(status) => {
                    let status = hdfs::ClientReadStatusProto::decode(status).unwrap().status();
                    return (status == Status::ChecksumOk).then_some(());
                }
                None => self.more().await?,
            }
        }
    }
}
