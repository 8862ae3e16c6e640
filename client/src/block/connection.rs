//! One connection to a datanode's data port: ops, messages, packets. No retries.

use std::fmt;
use std::io;
use std::time::Duration;

use bytes::BytesMut;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time;
use trellis_proto::data_transfer::{
    Op, Packet, TransferError, put_message, put_op, take_message, take_packet,
};
use trellis_proto::exception::RpcError;
use trellis_proto::hdfs::{BlockOpResponseProto, Status};
use trellis_proto::presence::{Checked, decode_request};

use crate::config::DataConfig;
use crate::uri::Address;

/// What one read may bring when packets come; several of them.
const PACKET_READ_BYTES: usize = 512 << 10;
/// And when messages come.
const MESSAGE_READ_BYTES: usize = 4 << 10;

/// Why a datanode could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DataFault {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it closed the connection")]
    Closed,
    #[error("it was silent for {0:?}")]
    Silent(Duration),
    #[error("it sent what no datanode sends: {0}")]
    Transfer(#[from] TransferError),
    #[error("it sent what no datanode sends: {0}")]
    Message(#[from] RpcError),
    #[error("{}: {message}", status.as_str_name())]
    Refused { status: Status, message: String },
    /// A chunk differs from its checksum.
    #[error("its data differs from its checksum at offset {0} of the block")]
    Checksum(u64),
    /// It contradicts itself or the request.
    #[error("{0}")]
    Nonsense(String),
}

/// A connection between two ops, or in one.
pub(crate) struct Connection {
    stream: TcpStream,
    /// Received and not yet taken.
    received: BytesMut,
    read_timeout: Duration,
    write_timeout: Duration,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Connection({:?})", self.stream.peer_addr().ok())
    }
}

impl Connection {
    pub async fn open(address: &Address, config: &DataConfig) -> Result<Self, DataFault> {
        let connecting = TcpStream::connect((address.host(), address.port()));
        let stream = time::timeout(config.connect_timeout, connecting)
            .await
            .map_err(|_| DataFault::Silent(config.connect_timeout))??;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            received: BytesMut::new(),
            read_timeout: config.read_timeout,
            write_timeout: config.write_timeout,
        })
    }

    /// Waits so much longer for what the datanode says.
    pub fn wait_longer(&mut self, by: Duration) {
        self.read_timeout += by;
    }

    /// Sends an op and waits for its answer, which is an error if it does not say SUCCESS.
    pub async fn op<M: Message>(&mut self, op: Op, message: &M) -> Result<BlockOpResponseProto, DataFault> {
        let answer = self.ask(op, message).await?;
        match answer.status() {
            Status::Success => Ok(answer),
            status => Err(DataFault::Refused { status, message: answer.message.unwrap_or_default() }),
        }
    }

    /// Sends an op and waits for its answer, whatever that says.
    pub async fn ask<M: Message>(&mut self, op: Op, message: &M) -> Result<BlockOpResponseProto, DataFault> {
        let mut out = BytesMut::new();
        put_op(&mut out, op, message);
        self.write(&out).await?;
        self.message().await
    }

    /// Sends a delimited message.
    pub async fn send<M: Message>(&mut self, message: &M) -> Result<(), DataFault> {
        let mut out = BytesMut::new();
        put_message(&mut out, message);
        self.write(&out).await
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), DataFault> {
        let limit = self.write_timeout;
        Ok(time::timeout(limit, self.stream.write_all(bytes))
            .await
            .map_err(|_| DataFault::Silent(limit))??)
    }

    /// The next delimited message.
    pub async fn message<M: Checked>(&mut self) -> Result<M, DataFault> {
        loop {
            if let Some(bytes) = take_message(&mut self.received)? {
                return Ok(decode_request(bytes)?);
            }
            self.receive(MESSAGE_READ_BYTES).await?;
        }
    }

    /// The next packet. Cancelled, it can be asked for again.
    pub async fn packet(&mut self) -> Result<Packet, DataFault> {
        loop {
            if let Some(packet) = take_packet(&mut self.received)? {
                return Ok(packet);
            }
            self.receive(PACKET_READ_BYTES).await?;
        }
    }

    async fn receive(&mut self, room: usize) -> Result<(), DataFault> {
        let limit = self.read_timeout;
        // What is left of the last piece is used first: each new one costs an allocation and a copy of what came of the
        // next packet.
        if self.received.capacity() - self.received.len() < room / 8 {
            self.received.reserve(room);
        }
        match time::timeout(limit, self.stream.read_buf(&mut self.received)).await {
            Ok(Ok(0)) => Err(DataFault::Closed),
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(DataFault::Silent(limit)),
        }
    }

    /// Both directions at once, without time-outs.
    pub fn split(&mut self) -> (Incoming<'_>, WriteHalf<'_>) {
        let (reader, writer) = self.stream.split();
        (Incoming { reader, received: &mut self.received }, writer)
    }

    /// How long to wait for what the datanode has to say.
    pub fn read_timeout(&self) -> Duration {
        self.read_timeout
    }
}

/// What comes over a connection that is also written to.
pub(crate) struct Incoming<'a> {
    reader: ReadHalf<'a>,
    received: &'a mut BytesMut,
}

impl Incoming<'_> {
    /// The next delimited message. Cancelled, it can be asked for again.
    pub async fn message<M: Checked>(&mut self) -> Result<M, DataFault> {
        loop {
            if let Some(bytes) = take_message(self.received)? {
                return Ok(decode_request(bytes)?);
            }
            self.received.reserve(MESSAGE_READ_BYTES);
            if self.reader.read_buf(self.received).await? == 0 {
                return Err(DataFault::Closed);
            }
        }
    }
}
