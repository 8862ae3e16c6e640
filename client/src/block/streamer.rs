//! The task behind a writer: blocks from the namenode, packets to the datanodes, acks back, heartbeats between.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, watch};
use tokio::time::{self, Instant};
use trellis_proto::checksum::Checksum;
use trellis_proto::common::TokenProto;
use trellis_proto::data_transfer::HEARTBEAT_SEQNO;
use trellis_proto::exception::Kind;
use trellis_proto::hdfs;

use super::connection::{Connection, DataFault};
use super::datanodes::is_local;
use super::packet::{Packet, heartbeat};
use super::pipeline::{Broken, Outgoing, Target, judge};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::types::Block;

/// What a writer knows of its file.
#[derive(Debug)]
pub(super) struct File {
    pub client: Client,
    pub path: String,
    pub file_id: u64,
    pub replication: u16,
    pub block_size: u64,
    pub checksum: Checksum,
    /// Somebody relies on what was written so far.
    pub flushed: AtomicBool,
}

impl File {
    pub fn error(&self, text: impl Into<String>) -> Error {
        Error::local("write", &self.path, Kind::Io, text)
    }
}

/// What became of a writer's packets.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    /// The last packet that all datanodes have; 0 is the first, -1 none.
    pub acked: i64,
    /// The current block, or the last one, with the bytes that all its datanodes have.
    pub block: Option<Block>,
    /// How many blocks the namenode gave.
    pub blocks: u64,
    /// Nothing more can be written.
    pub failure: Option<Error>,
}

/// The block that is written.
#[derive(Debug)]
pub(super) struct Current {
    /// Its length: bytes that all datanodes have.
    pub block: Block,
    pub token: TokenProto,
    pub targets: Vec<Target>,
    /// None: to be set up (again).
    pub connection: Option<Connection>,
    /// Bytes of the block that were sent, at most.
    pub sent: u64,
    /// It goes on after what others wrote.
    pub appended: bool,
    /// Its pipeline stood once.
    pub stood: bool,
    /// Its end was sent.
    pub closing: bool,
    /// Datanodes that failed while it was written.
    pub failed: Vec<Target>,
    /// Mended so often since the last packet was acknowledged.
    pub recoveries: u32,
    /// A datanode that restarts: its uuid, and how long it is waited for.
    pub restarting: Option<(String, Instant)>,
}

impl Current {
    /// Whether the datanode at this place restarts and is waited for, so that it keeps its place: it said so, and it is
    /// on this machine, where the best copy is, or there is no other.
    fn waits_for(&mut self, broken: &Broken, timeout: Duration) -> bool {
        let alone = self.targets.len() == 1;
        let Some(target) = self.targets.get(broken.bad) else { return false };
        let uuid = &target.node.id.datanode_uuid;
        let says_so = matches!(broken.why, DataFault::Refused { status: hdfs::Status::OobRestart, .. });
        if says_so && (alone || is_local(&target.node)) {
            self.restarting = Some((uuid.clone(), Instant::now() + timeout));
        }
        self.restarting.as_ref().is_some_and(|(node, until)| node == uuid && Instant::now() < *until)
    }
}

/// The state of the task.
#[derive(Debug)]
pub(super) struct Streamer {
    pub file: Arc<File>,
    packets: mpsc::UnboundedReceiver<Packet>,
    progress: watch::Sender<Progress>,
    /// To be sent next.
    queue: VecDeque<Packet>,
    /// Sent, and not known to be everywhere.
    unacked: VecDeque<Packet>,
    pub current: Option<Current>,
    /// The block before, for the namenode.
    pub previous: Option<Block>,
    /// Datanodes that could not be used, and since when.
    pub excluded: Vec<(Instant, hdfs::DatanodeInfoProto)>,
}

/// How a while of streaming ended well.
enum Pause {
    /// All datanodes have the whole block.
    BlockDone,
    /// The writer was dropped.
    WriterGone,
}

impl Streamer {
    /// `current`: the block that an append goes on with; `previous`: the block before the first new one.
    pub fn new(
        file: Arc<File>,
        packets: mpsc::UnboundedReceiver<Packet>,
        progress: watch::Sender<Progress>,
        current: Option<Current>,
        previous: Option<Block>,
    ) -> Self {
        Self {
            file,
            packets,
            progress,
            queue: VecDeque::new(),
            unacked: VecDeque::new(),
            current,
            previous,
            excluded: Vec::new(),
        }
    }

    /// Runs until the writer is gone or nothing more can be written.
    pub async fn run(mut self) {
        if let Err(error) = self.stream().await {
            tracing::debug!(path = self.file.path, %error, "writing ends");
            self.progress.send_modify(|progress| progress.failure = Some(error));
        }
    }

    async fn stream(&mut self) -> Result<()> {
        // Nothing is asked for before there is something to write.
        while let Some(packet) = self.packets.recv().await {
            self.queue.push_back(packet);
            if self.current.is_none() {
                let current = self.next_block().await?;
                self.progress.send_modify(|progress| progress.blocks += 1);
                self.current = Some(current);
            }
            loop {
                self.mend().await?;
                self.tell();
                match self.pump().await {
                    Ok(Pause::WriterGone) => return Ok(()),
                    Ok(Pause::BlockDone) => break,
                    Err(broken) => self.note(broken)?,
                }
                // Its end was sent, so mending it is all that is left to do.
                if self.current.as_ref().is_some_and(|current| current.closing) {
                    self.mend().await?;
                    self.finish_closing();
                    break;
                }
            }
            self.previous = self.current.take().map(|current| current.block);
        }
        Ok(())
    }

    /// The block to the writer, without acks.
    fn tell(&self) {
        let block = self.current.as_ref().map(|current| current.block.clone());
        self.progress.send_modify(|progress| progress.block = block);
    }

    /// A pipeline that was mended after the block's end was sent has closed the block: no packet is sent again.
    fn finish_closing(&mut self) {
        let acked = self.unacked.drain(..).map(|packet| packet.seqno).max();
        self.tell();
        self.progress.send_modify(|progress| progress.acked = progress.acked.max(acked.unwrap_or(-1)));
    }

    /// What was sent and not acknowledged is sent again.
    fn requeue(&mut self) {
        while let Some(packet) = self.unacked.pop_back() {
            self.queue.push_front(packet);
        }
    }

    /// Sends packets and takes acks until the block is done or its pipeline breaks.
    async fn pump(&mut self) -> std::result::Result<Pause, Broken> {
        let Self { file, packets, progress, queue, unacked, current, .. } = self;
        let Some(current) = current else { return Ok(Pause::BlockDone) };
        let Current { block, targets, connection, sent, closing, recoveries, .. } = current;
        let Some(connection) = connection else {
            return Err(Broken::first(DataFault::Nonsense("the pipeline is not set up".into())));
        };
        let limit = connection.read_timeout();
        let interval = file.client.0.datanodes.config.heartbeat_interval;
        let (mut incoming, mut writer) = connection.split();
        let mut out = nothing();
        let mut clock = Clock { waiting_since: None, sent_at: Instant::now() };
        // Why nothing can be written any more. Only an ack that came before that tells which datanode failed.
        let mut unwritable = None;
        loop {
            if !out.has_remaining() && !*closing {
                out = next_outgoing(queue, unacked, sent, closing);
                if out.has_remaining() {
                    clock.sent();
                }
            }
            let wants_more = !out.has_remaining() && queue.is_empty() && !*closing;
            tokio::select! {
                ack = incoming.message::<hdfs::PipelineAckProto>() => {
                    let ack = ack.map_err(|fault| Broken::first(unwritable.take().unwrap_or(fault)))?;
                    judge(&ack, targets.len())?;
                    if ack.seqno != HEARTBEAT_SEQNO {
                        let packet = expected(unacked, ack.seqno)?;
                        block.length = block.length.max(packet.end);
                        *recoveries = 0;
                        progress.send_modify(|progress| {
                            progress.acked = packet.seqno;
                            if let Some(told) = &mut progress.block {
                                told.length = block.length;
                            }
                        });
                        if packet.last {
                            return Ok(Pause::BlockDone);
                        }
                    }
                    clock.heard(!unacked.is_empty());
                }
                written = writer.write_buf(&mut out), if out.has_remaining() && unwritable.is_none() => match written {
                    Ok(1..) => {}
                    Ok(0) => unwritable = Some(DataFault::Closed),
                    Err(error) => unwritable = Some(error.into()),
                },
                packet = packets.recv(), if wants_more => match packet {
                    Some(packet) => queue.push_back(packet),
                    None => return Ok(Pause::WriterGone),
                },
                () = time::sleep_until(clock.next(limit, interval)) => {
                    if clock.is_overdue(limit) {
                        return Err(Broken::first(DataFault::Silent(limit)));
                    }
                    if !out.has_remaining() {
                        out = heartbeat().map_err(Broken::first)?.chain(Bytes::new());
                    }
                    clock.sent();
                }
            }
        }
    }

    /// Notes whose fault it was that the pipeline broke.
    pub fn note(&mut self, broken: Broken) -> Result<()> {
        let Some(current) = &mut self.current else { return Ok(()) };
        current.connection = None;
        let limit = self.file.client.0.datanodes.config.max_recoveries;
        let waited = current.restarting.is_some();
        if (waited || current.recoveries < limit)
            && current.waits_for(&broken, self.file.client.0.datanodes.config.restart_timeout)
        {
            // Attempts while it is down do not count.
            current.recoveries += u32::from(!waited);
            tracing::info!(path = self.file.path, block = current.block.id, why = %broken.why, "a datanode restarts: waiting");
            if !current.closing {
                self.requeue();
            }
            return Ok(());
        }
        current.recoveries += 1;
        let bad = broken.bad.min(current.targets.len().saturating_sub(1));
        if current.targets.is_empty() {
            return Err(self.file.error(format!("the pipeline has no datanodes: {}", broken.why)));
        }
        let failed = current.targets.remove(bad);
        let (path, node, block) = (&self.file.path, failed.name(), current.block.id);
        tracing::info!(path, node, block, why = %broken.why, left = current.targets.len(), "a datanode of a pipeline failed");
        current.failed.push(failed);
        let text = if current.targets.is_empty() {
            format!("All datanodes of blk_{block} are bad, the last was {node}: {}. Aborting", broken.why)
        } else if current.recoveries > limit {
            format!(
                "the pipeline of blk_{block} broke {limit} times for the same packet, last {node}: {}",
                broken.why
            )
        } else {
            if !current.closing {
                self.requeue();
            }
            return Ok(());
        };
        Err(self.file.error(text))
    }
}

fn nothing() -> Outgoing {
    Bytes::new().chain(Bytes::new())
}

/// The next packet to write; the block's end only when all before it is acknowledged.
fn next_outgoing(
    queue: &mut VecDeque<Packet>,
    unacked: &mut VecDeque<Packet>,
    sent: &mut u64,
    closing: &mut bool,
) -> Outgoing {
    match queue.front() {
        Some(packet) if !packet.last || unacked.is_empty() => {}
        _ => return nothing(),
    }
    let Some(packet) = queue.pop_front() else { return nothing() };
    let out = packet.head.clone().chain(packet.data.clone());
    *sent = (*sent).max(packet.end);
    *closing = packet.last;
    unacked.push_back(packet);
    out
}

/// The packet that an ack is for: acks come in order.
fn expected(unacked: &mut VecDeque<Packet>, seqno: i64) -> std::result::Result<Packet, Broken> {
    match unacked.pop_front() {
        Some(packet) if packet.seqno == seqno => Ok(packet),
        other => {
            let next = other.as_ref().map(|packet| packet.seqno);
            if let Some(packet) = other {
                unacked.push_front(packet);
            }
            let text = format!("an ack is for packet {seqno}, and {next:?} is next");
            Err(Broken::first(DataFault::Nonsense(text)))
        }
    }
}

/// When something has to come, and when something has to be sent.
struct Clock {
    /// Datanodes have owed something since then.
    waiting_since: Option<Instant>,
    sent_at: Instant,
}

impl Clock {
    fn sent(&mut self) {
        self.sent_at = Instant::now();
        self.waiting_since.get_or_insert(self.sent_at);
    }

    fn heard(&mut self, owes_more: bool) {
        self.waiting_since = owes_more.then(Instant::now);
    }

    fn next(&self, limit: Duration, interval: Duration) -> Instant {
        let heartbeat = self.sent_at + interval;
        self.waiting_since.map_or(heartbeat, |since| heartbeat.min(since + limit))
    }

    fn is_overdue(&self, limit: Duration) -> bool {
        self.waiting_since.is_some_and(|since| since.elapsed() >= limit)
    }
}
