//! A simulated datanode's life with one namenode, as a real one lives it: it introduces itself, heartbeats, tells what
//! changed, and lists what it holds.
//!
//! One call at a time: what happens meanwhile goes with the next one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prost::Message;
use tokio::time::{Instant, sleep, sleep_until};
use trellis_client::namenode::Namenode;
use trellis_proto::exception::Kind;
use trellis_proto::hdfs::VersionRequestProto;
use trellis_proto::hdfs::datanode::datanode_command_proto::Type as CommandType;
use trellis_proto::hdfs::datanode::datanode_protocol_service as protocol;
use trellis_proto::hdfs::datanode::{
    BlockReceivedAndDeletedRequestProto, BlockReportContextProto, BlockReportRequestProto,
    DatanodeCommandProto, DatanodeRegistrationProto, HeartbeatRequestProto, ReceivedDeletedBlockInfoProto,
    RegisterDatanodeRequestProto,
};
use trellis_proto::hdfs::nnha_status_heartbeat_proto::State;
use trellis_proto::methods::Rpc;
use trellis_proto::presence::Checked;
use trellis_proto::registration::{is_recent, registration};

use super::node::Node;
use super::obey::obey;
use super::outbox::Outbox;
use super::round::Round;
use super::{Shared, add};

/// As of real datanodes.
const HEARTBEAT: Duration = Duration::from_secs(3);
/// While its full report is due: a run waits for it.
const FIRST_HEARTBEATS: Duration = Duration::from_millis(500);
/// Between failed calls.
const PAUSE: Duration = Duration::from_secs(1);

/// In place of a namenode's leave for a full report: as real datanodes have it when an operator makes them report.
const WITHOUT_LEAVE: u64 = 0;

/// What stands in the way of a call.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Try again.
    Passing(String),
    /// It does not want this full report now.
    Unwanted(String),
    /// It does not want this datanode, or this datanode not it.
    ForGood(String),
}

/// One datanode and one of its namenodes.
pub(super) struct Actor {
    pub(super) shared: Arc<Shared>,
    pub(super) node: Arc<Node>,
    /// Place of the namenode.
    index: usize,
    link: Namenode,
    /// The namenode has heard of it before.
    was_heard: AtomicBool,
}

/// While the namenode knows the datanode.
struct Session<'a> {
    actor: &'a Actor,
    registration: DatanodeRegistrationProto,
    pool: String,
    next_heartbeat: Instant,
    /// A full report is to be sent.
    is_due: bool,
    /// The namenode wants to be introduced again.
    is_forgotten: bool,
}

impl Actor {
    pub(super) fn new(shared: Arc<Shared>, node: Arc<Node>, index: usize, link: Namenode) -> Actor {
        Actor { shared, node, index, link, was_heard: AtomicBool::new(false) }
    }

    /// Runs until it is dropped, or until one of the two wants no more of the other.
    pub(super) async fn run(self) {
        loop {
            match self.life().await {
                // One that forgets at once is not asked as fast as it answers.
                Ok(()) => sleep(FIRST_HEARTBEATS).await,
                Err(Trouble::Passing(why) | Trouble::Unwanted(why)) => {
                    self.shared.note_trouble(why);
                    sleep(PAUSE).await;
                }
                Err(Trouble::ForGood(why)) => {
                    let address = self.link.address();
                    return self.shared.give_up(format!("{address} and a simulated datanode part: {why}"));
                }
            }
        }
    }

    /// From an introduction until the namenode wants another.
    async fn life(&self) -> Result<(), Trouble> {
        let mut session = self.introduce().await?;
        while !session.is_forgotten {
            match session.turn().await {
                Ok(()) => tokio::select! {
                    () = sleep_until(session.next_heartbeat) => {}
                    () = self.outbox()?.woken() => {}
                },
                Err(Trouble::Passing(why) | Trouble::Unwanted(why)) => {
                    self.shared.note_trouble(why);
                    sleep(PAUSE).await;
                }
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(())
    }

    fn outbox(&self) -> Result<&Outbox, Trouble> {
        let outbox = self.node.outboxes.get(self.index);
        outbox.ok_or_else(|| Trouble::ForGood("there is no such namenode".to_owned()))
    }

    async fn introduce(&self) -> Result<Session<'_>, Trouble> {
        let info = self.call(&protocol::VERSION_REQUEST, &VersionRequestProto {}).await?.info;
        if !is_recent(&info) {
            return Err(Trouble::ForGood(format!("its version {:?} is too old", info.software_version)));
        }
        let pool = self.shared.pool.get_or_init(|| info.block_pool_id.clone());
        if *pool != info.block_pool_id {
            let why = format!("its blocks are of pool {}, other namenodes' of {pool}", info.block_pool_id);
            return Err(Trouble::ForGood(why));
        }
        // An absent state reads as active.
        let claims = info.state.is_none_or(|state| state == State::Active as i32);
        self.node.choice().at_start(self.index, claims);
        let wanted = registration(self.node.id.clone(), info.storage_info);
        let request = RegisterDatanodeRequestProto { registration: wanted };
        let registration = self.call(&protocol::REGISTER_DATANODE, &request).await?.registration;
        Ok(Session {
            actor: self,
            registration,
            pool: info.block_pool_id,
            next_heartbeat: Instant::now(),
            is_due: true,
            is_forgotten: false,
        })
    }

    pub(super) async fn call<Request: Message, Response: Checked>(
        &self,
        rpc: &Rpc<Request, Response>,
        request: &Request,
    ) -> Result<Response, Trouble> {
        let counts = &self.shared.counts;
        self.link.call_once(rpc, request).await.map_err(|error| {
            let why = error.to_string();
            // Reports are for the owner, and that may have changed since the datanode asked.
            if error.kind() == Some(Kind::InvalidBlockReportLease) {
                add(&counts.refused_reports, 1);
                return Trouble::Unwanted(why);
            }
            add(&counts.failed_calls, 1);
            self.shared.note_failure(why.clone());
            match error.kind() {
                Some(Kind::UnregisteredNode | Kind::DisallowedDatanode | Kind::IncorrectVersion) => {
                    Trouble::ForGood(why)
                }
                _ => Trouble::Passing(why),
            }
        })
    }
}

impl Session<'_> {
    /// Does what is due.
    async fn turn(&mut self) -> Result<(), Trouble> {
        let Actor { shared, .. } = self.actor;
        let outbox = self.actor.outbox()?;
        self.is_due |= outbox.has_gap();
        let wants_lease = self.is_due && *shared.may_report.borrow();
        if outbox.take_wanted_beat() {
            self.next_heartbeat = Instant::now();
        }
        let beats = Instant::now() >= self.next_heartbeat;
        let mut lease = None;
        if beats {
            // Also after a failure: the next one is due a heartbeat later.
            self.next_heartbeat = Instant::now() + if wants_lease { FIRST_HEARTBEATS } else { HEARTBEAT };
            lease = self.heartbeat(wants_lease).await?;
            outbox.beaten();
        } else if wants_lease && self.next_heartbeat > Instant::now() + FIRST_HEARTBEATS {
            // It may report only since just now.
            self.next_heartbeat = Instant::now();
        }
        if self.is_forgotten {
            return Ok(());
        }
        let rounds = outbox.take_rounds();
        let unasked = (!rounds.is_empty()).then(|| Wanted { outbox, rounds });
        // What happened before a full report is told before it.
        if beats || outbox.is_urgent() || unasked.is_some() {
            self.tell_changes(outbox).await?;
        }
        if let Some(wanted) = unasked {
            match self.full_report(outbox, WITHOUT_LEAVE).await {
                Err(Trouble::Unwanted(_)) => wanted.was_sent(Round::refused),
                sent => {
                    sent?;
                    wanted.was_sent(Round::answered);
                }
            }
        }
        if let Some(lease) = lease {
            self.full_report(outbox, lease).await?;
        }
        Ok(())
    }

    /// Says that it lives, and does what it is told; leave for a full report, if it got that.
    async fn heartbeat(&mut self, wants_lease: bool) -> Result<Option<u64>, Trouble> {
        let Actor { shared, node, index, .. } = self.actor;
        let request = HeartbeatRequestProto {
            registration: self.registration.clone(),
            reports: vec![node.storage_report()],
            request_full_block_report_lease: Some(wants_lease),
            ..Default::default()
        };
        let response = self.actor.call(&protocol::SEND_HEARTBEAT, &request).await?;
        node.choice().at_heartbeat(*index, &response.ha_status);
        if !self.actor.was_heard.swap(true, Ordering::Relaxed) {
            shared.heard.send_modify(|count| *count += 1);
        }
        for command in response.cmds {
            self.command(command).await?;
        }
        Ok(response.full_block_report_lease_id.filter(|lease| wants_lease && *lease != 0))
    }

    /// Takes a command: to be introduced again from anybody, all else from the active namenode only.
    async fn command(&mut self, command: DatanodeCommandProto) -> Result<(), Trouble> {
        let is_obeyed = self.actor.node.choice().held() == Some(self.actor.index);
        match command.cmd_type() {
            CommandType::RegisterCommand => self.is_forgotten = true,
            _ if is_obeyed => obey(self.actor, command).await?,
            _ => {}
        }
        Ok(())
    }

    async fn tell_changes(&self, outbox: &Outbox) -> Result<(), Trouble> {
        loop {
            let taken = Taken { outbox, changes: outbox.take() };
            if taken.changes.is_empty() {
                return Ok(());
            }
            let request = BlockReceivedAndDeletedRequestProto {
                registration: self.registration.clone(),
                block_pool_id: self.pool.clone(),
                blocks: vec![self.actor.node.on_storage(taken.changes.clone())],
            };
            self.actor.call(&protocol::BLOCK_RECEIVED_AND_DELETED, &request).await?;
            add(&self.actor.shared.counts.reports, 1);
            taken.were_told();
        }
    }

    async fn full_report(&mut self, outbox: &Outbox, lease: u64) -> Result<(), Trouble> {
        let Actor { shared, node, .. } = self.actor;
        if outbox.has_gap() {
            outbox.supersede();
            // Also if this one is not taken.
            self.is_due = true;
        }
        let request = BlockReportRequestProto {
            registration: self.registration.clone(),
            block_pool_id: self.pool.clone(),
            reports: vec![node.full_report()],
            context: Some(BlockReportContextProto {
                total_rpcs: 1,
                cur_rpc: 0,
                id: rand::random_range(1..i64::MAX),
                lease_id: Some(lease),
            }),
        };
        let response = self.actor.call(&protocol::BLOCK_REPORT, &request).await?;
        self.is_due = false;
        if !node.has_reported.swap(true, Ordering::Relaxed) {
            shared.reported.send_modify(|count| *count += 1);
        }
        match response.cmd {
            Some(command) => self.command(command).await,
            None => Ok(()),
        }
    }
}

/// Changes on their way; they go back into the outbox unless the namenode took them.
struct Taken<'a> {
    outbox: &'a Outbox,
    changes: Vec<ReceivedDeletedBlockInfoProto>,
}

impl Taken<'_> {
    fn were_told(mut self) {
        self.changes.clear();
        self.outbox.told();
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if !self.changes.is_empty() {
            self.outbox.put_back(std::mem::take(&mut self.changes));
        }
    }
}

/// A full report on its way that nobody asked for; it is wanted again unless the namenode answered.
struct Wanted<'a> {
    outbox: &'a Outbox,
    rounds: Vec<Arc<Round>>,
}

impl Wanted<'_> {
    fn was_sent(mut self, note: impl Fn(&Round)) {
        self.rounds.drain(..).for_each(|round| note(&round));
    }
}

impl Drop for Wanted<'_> {
    fn drop(&mut self) {
        if !self.rounds.is_empty() {
            self.outbox.want_reports(self.rounds.drain(..));
        }
    }
}
