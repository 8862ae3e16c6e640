//! A datanode's life with one namenode: it introduces itself, then heartbeats, tells what changed, and now and then
//! lists all its replicas.
//!
//! One call at a time, so that what is told later is newer. What could not be told is told again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prost::Message;
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::Instant;
use trellis_client::namenode::Namenode;
use trellis_proto::active::Verdict;
use trellis_proto::exception::Kind;
use trellis_proto::hdfs::VersionRequestProto;
use trellis_proto::hdfs::datanode::datanode_command_proto::Type as CommandType;
use trellis_proto::hdfs::datanode::datanode_protocol_service as protocol;
use trellis_proto::hdfs::datanode::{
    BlockReceivedAndDeletedRequestProto, BlockReportContextProto, BlockReportRequestProto,
    DatanodeCommandProto, DatanodeRegistrationProto, ErrorReportRequestProto, RegisterDatanodeRequestProto,
    ReportBadBlocksRequestProto, StorageBlockReportProto,
};
use trellis_proto::hdfs::nnha_status_heartbeat_proto::State;

use trellis_proto::methods::Rpc;
use trellis_proto::presence::Checked;

use super::outbox::{Changes, Outbox, Wanted};
use super::registration::{check_pool, pool_of, registration};
use super::report::{by_storage, full_report, heartbeat_request};
use crate::node::Node;
use crate::shared::{Shared, blocking};

/// The pause after a failed call; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What stands in the way of a call.
#[derive(Debug)]
enum Trouble {
    /// Try again.
    Passing(String),
    /// It does not want this datanode, or this datanode not it.
    ForGood(String),
}

/// One namenode.
pub(crate) struct Actor {
    index: usize,
    node: Arc<Node>,
    /// It has heard this datanode before.
    known: AtomicBool,
}

/// What is known while the namenode knows this datanode.
struct Registered<'a> {
    actor: &'a Actor,
    shared: Arc<Shared>,
    registration: DatanodeRegistrationProto,
    next_heartbeat: Instant,
    /// When the next full report is due.
    report_due: Instant,
    /// It is sent now, with this lease; 0 = without.
    lease: Option<u64>,
    /// The first report after registering was sent.
    reported: bool,
    /// The namenode wants to be introduced again.
    forgotten: bool,
}

impl Actor {
    /// The namenode of this place in the list.
    pub(crate) fn new(index: usize, node: Arc<Node>) -> Actor {
        Actor { index, node, known: AtomicBool::new(false) }
    }

    /// Runs until `stop` (None), or until one of the two wants no more of the other: why.
    pub(crate) async fn run(self, mut stop: watch::Receiver<bool>) -> Option<String> {
        let why = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return None,
            why = self.live() => why,
        };
        tracing::error!(namenode = %self.name(), why, "this datanode serves the namenode no more");
        Some(why)
    }

    fn link(&self) -> Result<&Namenode, Trouble> {
        let link = self.node.namenodes.link(self.index);
        link.ok_or_else(|| Trouble::ForGood("there is no such namenode".to_owned()))
    }

    fn outbox(&self) -> Result<&Outbox, Trouble> {
        let outbox = self.node.namenodes.outbox(self.index);
        outbox.ok_or_else(|| Trouble::ForGood("there is no such namenode".to_owned()))
    }

    fn name(&self) -> String {
        self.link().map(|link| link.address().to_string()).unwrap_or_default()
    }

    async fn live(&self) -> String {
        let mut pause = FIRST_PAUSE;
        let mut silent = false;
        loop {
            let trouble = match self.introduce().await {
                Ok(mut registered) => {
                    (pause, silent) = (FIRST_PAUSE, false);
                    match registered.serve().await {
                        Ok(()) => {
                            // One that forgets at once is not asked as fast as it answers.
                            tokio::time::sleep(FIRST_PAUSE).await;
                            continue;
                        }
                        Err(trouble) => trouble,
                    }
                }
                Err(trouble) => trouble,
            };
            match trouble {
                Trouble::ForGood(why) => return why,
                Trouble::Passing(why) => {
                    if !silent {
                        tracing::warn!(namenode = %self.name(), why, "cannot register; trying again until it works");
                        silent = true;
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Asks which cluster it is, opens the store of that, and registers.
    async fn introduce(&self) -> Result<Registered<'_>, Trouble> {
        let info = self.call(&protocol::VERSION_REQUEST, &VersionRequestProto {}).await?.info;
        let for_good = |error: String| Trouble::ForGood(error);
        let pool = pool_of(&info).map_err(|error| for_good(error.to_string()))?;
        let shared = self.node.open(&pool).await.map_err(for_good)?;
        check_pool(&pool, shared.store.pool()).map_err(|error| for_good(error.to_string()))?;
        // An absent state reads as active.
        let claims = info.state.is_none_or(|state| state == State::Active as i32);
        if self.node.namenodes.choice().at_start(self.index, claims) == Verdict::Taken {
            tracing::info!(namenode = %self.name(), "obeyed from now on");
        }
        let request = RegisterDatanodeRequestProto { registration: registration(shared.id.clone(), &pool) };
        let registration = self.call(&protocol::REGISTER_DATANODE, &request).await?.registration;
        let known = registration.datanode_id.datanode_uuid == shared.id.datanode_uuid;
        if !known {
            let uuid = &registration.datanode_id.datanode_uuid;
            return Err(Trouble::ForGood(format!("it calls this datanode {uuid}")));
        }
        tracing::info!(namenode = %self.name(), uuid = shared.id.datanode_uuid, "registered");
        self.node.namenodes.known_as(&registration.datanode_id);
        let now = Instant::now();
        Ok(Registered {
            actor: self,
            shared,
            registration,
            next_heartbeat: now,
            report_due: now,
            lease: None,
            reported: false,
            forgotten: false,
        })
    }

    async fn call<Request: Message, Response: Checked>(
        &self,
        rpc: &Rpc<Request, Response>,
        request: &Request,
    ) -> Result<Response, Trouble> {
        self.link()?.call_once(rpc, request).await.map_err(|error| {
            self.node.metrics.reports_failed.increment(1);
            match error.kind() {
                Some(Kind::UnregisteredNode | Kind::DisallowedDatanode | Kind::IncorrectVersion) => {
                    Trouble::ForGood(error.to_string())
                }
                _ => Trouble::Passing(error.to_string()),
            }
        })
    }
}

impl Registered<'_> {
    /// Runs until the namenode has forgotten this datanode, or wants no more of it.
    async fn serve(&mut self) -> Result<(), Trouble> {
        let mut silent = false;
        while !self.forgotten {
            match self.turn().await {
                Ok(()) => {
                    if silent {
                        tracing::info!(namenode = %self.actor.name(), "the namenode answers again");
                        silent = false;
                    }
                    tokio::select! {
                        () = tokio::time::sleep_until(self.next_heartbeat) => {}
                        () = self.actor.outbox()?.filled() => {}
                    }
                }
                Err(Trouble::Passing(why)) => {
                    if !silent {
                        tracing::warn!(namenode = %self.actor.name(), why, "a call failed; trying again until it works");
                        silent = true;
                    }
                    let pause = self.shared.config.heartbeat.min(Duration::from_secs(1));
                    tokio::time::sleep(pause).await;
                }
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(())
    }

    /// Does what is due.
    async fn turn(&mut self) -> Result<(), Trouble> {
        let outbox = self.actor.outbox()?;
        if let Some(wanted) = outbox.take_full_report() {
            self.report_due = Instant::now();
            if wanted == Wanted::Now {
                self.lease = Some(0);
            }
        }
        let beats = Instant::now() >= self.next_heartbeat;
        if beats {
            // Also after a failure: the next one is due a heartbeat later.
            self.next_heartbeat = Instant::now() + self.shared.config.heartbeat;
            self.heartbeat().await?;
        }
        if self.forgotten {
            return Ok(());
        }
        let reports = self.lease.is_some() && Instant::now() >= self.report_due;
        // What happened before a full report is told before it.
        if beats || reports || outbox.is_urgent() {
            self.tell_changes(outbox).await?;
        }
        self.tell_notes(outbox).await?;
        if reports && let Some(lease) = self.lease.take() {
            self.full_report(lease).await?;
        }
        Ok(())
    }

    async fn heartbeat(&mut self) -> Result<(), Trouble> {
        let storages = blocking(&self.shared, |shared| shared.store.storages()).await?;
        let due = self.lease.is_none() && Instant::now() >= self.report_due;
        let request = heartbeat_request(&self.registration, &self.shared, &storages, due);
        let response = self.actor.call(&protocol::SEND_HEARTBEAT, &request).await?;
        self.shared.metrics.heartbeats.increment(1);
        if due && let Some(lease) = response.full_block_report_lease_id.filter(|lease| *lease != 0) {
            self.lease = Some(lease);
        }
        let (index, namenode) = (self.actor.index, self.actor.name());
        let verdict = self.actor.node.namenodes.choice().at_heartbeat(index, &response.ha_status);
        let txid = response.ha_status.txid;
        match verdict {
            Verdict::Same => {}
            Verdict::Taken => tracing::info!(namenode, txid, "obeyed from now on"),
            Verdict::GivenUp => tracing::info!(namenode, "not obeyed any more: it is not active now"),
            Verdict::Refused(seen) => {
                tracing::debug!(namenode, txid, seen, "claims to be active with a txid that is too low");
            }
        }
        response.cmds.into_iter().for_each(|command| self.command(command));
        // Now it knows the room here, too, and may give blocks.
        if !self.forgotten && !self.actor.known.swap(true, Ordering::Relaxed) {
            self.actor.node.known.send_modify(|count| *count += 1);
        }
        Ok(())
    }

    /// Takes a command: to be introduced again from anybody, all else from the active namenode only.
    fn command(&mut self, command: DatanodeCommandProto) {
        let metrics = &self.shared.metrics;
        match command.cmd_type() {
            CommandType::RegisterCommand => self.forgotten = true,
            CommandType::NullDatanodeCommand => {}
            // There are no keys: block tokens are not supported.
            CommandType::KeyUpdateCommand => {}
            kind if self.actor.node.namenodes.choice().held() != Some(self.actor.index) => {
                metrics.commands_ignored.increment(1);
                let namenode = self.actor.name();
                tracing::warn!(namenode, ?kind, "a command of a namenode that is not obeyed was dropped");
            }
            kind => {
                if self.actor.node.commands.try_send(command).is_err() {
                    metrics.commands_ignored.increment(1);
                    tracing::warn!(
                        ?kind,
                        "too many commands wait: one more was dropped; the namenode will repeat it"
                    );
                }
            }
        }
    }

    /// Tells what changed.
    async fn tell_changes(&self, outbox: &Outbox) -> Result<(), Trouble> {
        loop {
            let changes = outbox.take_changes();
            if changes.is_empty() {
                return Ok(());
            }
            let request = BlockReceivedAndDeletedRequestProto {
                registration: self.registration.clone(),
                block_pool_id: self.shared.store.pool().id.clone(),
                blocks: by_storage(&self.shared, &changes),
            };
            let guard = PutBack { outbox, changes: Some(changes) };
            self.actor.call(&protocol::BLOCK_RECEIVED_AND_DELETED, &request).await?;
            guard.told();
        }
    }

    /// Tells bad blocks and errors.
    async fn tell_notes(&self, outbox: &Outbox) -> Result<(), Trouble> {
        while let Some(block) = outbox.take_bad() {
            let request = ReportBadBlocksRequestProto { blocks: vec![block.clone()] };
            let told = self.actor.call(&protocol::REPORT_BAD_BLOCKS, &request).await;
            told.inspect_err(|_| outbox.bad(block))?;
        }
        while let Some((error_code, msg)) = outbox.take_note() {
            let registration = self.registration.clone();
            let request =
                ErrorReportRequestProto { registartion: registration, error_code, msg: msg.clone() };
            let told = self.actor.call(&protocol::ERROR_REPORT, &request).await;
            told.inspect_err(|_| outbox.note((error_code, msg)))?;
        }
        Ok(())
    }

    /// Lists all replicas, under a lease.
    async fn full_report(&mut self, lease: u64) -> Result<(), Trouble> {
        let (storages, total) = blocking(&self.shared, |shared| full_report(&*shared.store)).await?;
        let parts: Vec<Vec<StorageBlockReportProto>> = match total > self.shared.config.report_split {
            true => storages.into_iter().map(|storage| vec![storage]).collect(),
            false => vec![storages],
        };
        let (total_rpcs, id) = (parts.len() as i32, rand::random_range(1..i64::MAX));
        for (cur_rpc, reports) in (0..).zip(parts) {
            let request = BlockReportRequestProto {
                registration: self.registration.clone(),
                block_pool_id: self.shared.store.pool().id.clone(),
                reports,
                context: Some(BlockReportContextProto { total_rpcs, cur_rpc, id, lease_id: Some(lease) }),
            };
            let response = self.actor.call(&protocol::BLOCK_REPORT, &request).await?;
            response.cmd.into_iter().for_each(|command| self.command(command));
        }
        tracing::info!(namenode = %self.actor.name(), replicas = total, "a full report was taken");
        self.shared.metrics.full_reports.increment(1);
        // The second one comes at any time of the period, so that datanodes started together spread.
        let period = self.shared.config.full_report;
        let next = if self.reported { period } else { period.mul_f64(rand::random_range(0.0..=1.0)) };
        self.reported = true;
        self.report_due = Instant::now() + next;
        Ok(())
    }
}

/// Changes on their way; they go back into the outbox unless the namenode took them.
struct PutBack<'a> {
    outbox: &'a Outbox,
    changes: Option<Changes>,
}

impl PutBack<'_> {
    fn told(mut self) {
        self.changes = None;
    }
}

impl Drop for PutBack<'_> {
    fn drop(&mut self) {
        if let Some(changes) = self.changes.take() {
            self.outbox.put_back(changes);
        }
    }
}

impl From<JoinError> for Trouble {
    fn from(error: JoinError) -> Trouble {
        Trouble::Passing(error.to_string())
    }
}
