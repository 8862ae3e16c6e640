//! What each datanode told this namenode, and what this namenode owes it. Pure state: time comes from the caller, rows
//! from operations.

mod owned;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use trellis_metastore::schema::Datanode;

use super::kept::{Age, Kept};
use super::view::{Liveness, Node, Space, View};
use crate::config::Config;
use crate::ops::datanodes::{GivenCommand, ToldStorage};
use crate::ops::report::Reported;

/// The times by which datanodes are judged.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Silent for longer: stale, and let go by its owner.
    pub stale: Duration,
    /// Silent for longer: dead.
    pub dead: Duration,
    /// How long reports that this namenode may not apply are kept, if an owner lives.
    pub kept: Duration,
    /// How long a lease for a full report lasts.
    pub lease: Duration,
    /// Leases at a time.
    pub leases: usize,
    /// After this long a namenode serves, whomever it has heard of.
    pub ready: Duration,
}

impl Timing {
    /// As the settings say; dead by stock's formula.
    pub fn of(config: &Config) -> Timing {
        Timing {
            stale: config.datanode_stale,
            dead: 2 * config.datanode_recheck + 10 * config.datanode_heartbeat,
            kept: config.kept_reports,
            lease: config.full_report_lease,
            leases: config.full_report_leases,
            ready: config.ready_wait,
        }
    }
}

/// What one heartbeat says.
#[derive(Clone, Debug, Default)]
pub struct Beat {
    /// Its storages.
    pub storages: Vec<(ToldStorage, Space)>,
    /// Transfers that it serves.
    pub load: u32,
    /// Copies of its replicas that it sends, or is about to.
    pub copies: u32,
}

/// A lease for a full report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its number; never 0.
    pub id: u64,
    /// When it was granted, ms since the epoch: replicas reported later are not removed by the report.
    pub granted_ms: i64,
    expires: Instant,
}

/// A datanode as this namenode knows it.
#[derive(Debug)]
struct Known {
    row: Arc<Datanode>,
    /// When this namenode learnt of it.
    met: Instant,
    /// It registered here, in this life of the namenode.
    is_registered: bool,
    heard: Option<(Instant, i64)>,
    space: HashMap<String, Space>,
    load: u32,
    copies: u32,
    /// Replicas that this namenode gave it since its last heartbeat, and between the two before, and that are not there.
    scheduled: (u32, u32),
    /// When a full report of it was applied here since it registered, ms since the epoch.
    reported_ms: i64,
    /// What others are to apply, or this namenode once it owns the datanode.
    kept: Kept,
    /// The epoch in which what was kept was applied.
    applied_epoch: u64,
    lease: Option<Lease>,
    /// Since when nobody seems to own it.
    free_since: Option<Instant>,
    /// When another owner of it was seen alive last, or it was met.
    owner_seen: Instant,
    /// Nobody wanted it, and this namenode took it beyond its share: it stays, until the namenodes are others.
    is_left_over: bool,
    /// To be handed out, in this order.
    commands: VecDeque<GivenCommand>,
    /// Handed out; their rows are to be removed.
    delivered: Vec<GivenCommand>,
    /// One report of a datanode is applied after the other.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Known {
    fn new(row: Datanode, now: Instant) -> Known {
        Known {
            row: Arc::new(row),
            met: now,
            is_registered: false,
            heard: None,
            space: HashMap::new(),
            load: 0,
            copies: 0,
            scheduled: (0, 0),
            reported_ms: 0,
            kept: Kept::default(),
            applied_epoch: 0,
            lease: None,
            free_since: None,
            owner_seen: now,
            is_left_over: false,
            commands: VecDeque::new(),
            delivered: Vec::new(),
            turn: Arc::default(),
        }
    }

    fn kept_for(&self, timing: &Timing) -> Age {
        Age { age: timing.kept, owner_seen: self.owner_seen }
    }

    fn silent_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.heard.map_or(self.met, |(heard, _)| heard))
    }

    fn liveness(&self, timing: &Timing, now: Instant) -> Liveness {
        match self.silent_for(now) {
            silent if silent > timing.dead => Liveness::Dead,
            silent if silent > timing.stale || self.heard.is_none() => Liveness::Stale,
            _ => Liveness::Live,
        }
    }

    fn node(&self, timing: &Timing, now: Instant) -> Node {
        let space = self.row.storages.iter().map(|s| self.space.get(&s.uuid).copied().unwrap_or_default());
        Node {
            liveness: self.liveness(timing, now),
            space: space.collect(),
            load: self.load,
            copies: self.copies,
            scheduled: self.scheduled.0.saturating_add(self.scheduled.1),
            heard_ms: self.heard.map_or(0, |(_, ms)| ms),
            reported_ms: self.reported_ms,
            row: self.row.clone(),
        }
    }
}

/// What a heartbeat of a datanode that registered here came to.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Its row, as this namenode knows it.
    pub row: Arc<Datanode>,
    /// Whether its storages are others than the row says.
    pub storages_changed: bool,
    /// Whether it told its room for the first time: from now on it can be given replicas.
    pub is_first: bool,
}

/// What a new owner has to make up for.
#[derive(Debug, Default)]
pub struct Inherited {
    /// The datanode's row, with the epoch since which it is owned.
    pub row: Arc<Datanode>,
    /// Reports that were kept, oldest first.
    pub reports: Vec<Vec<Reported>>,
    /// Some were lost, and no full report is to come by itself: the datanode must register anew.
    pub has_gap: bool,
}

/// All datanodes that this namenode knows of.
#[derive(Debug)]
pub struct Registry {
    member: u64,
    timing: Timing,
    nodes: HashMap<String, Known>,
    /// Live namenodes; this one alone until it looked.
    members: Vec<u64>,
    /// When it looked for datanodes first: until then it cannot know whom it does not hear.
    looked: Option<Instant>,
}

impl Registry {
    /// Nobody was heard of yet. `member`: this namenode's id.
    pub fn new(member: u64, timing: Timing) -> Registry {
        Registry { member, timing, nodes: HashMap::new(), members: vec![member], looked: None }
    }

    /// Takes a row as the truth, unless a later one was seen: it may have been read before that was written.
    pub fn adopt(&mut self, row: Datanode) -> Arc<Datanode> {
        let known =
            self.nodes.entry(row.uuid.clone()).or_insert_with(|| Known::new(row.clone(), Instant::now()));
        let age = |row: &Datanode| (row.epoch, row.changes);
        if age(&row) >= age(&known.row) && *known.row != row {
            known.row = Arc::new(row);
        }
        if known.row.owner != self.member {
            known.lease = None;
            known.commands.clear();
            known.delivered.clear();
        }
        known.row.clone()
    }

    /// Who the live namenodes are, as the rows of members say, read with those of all datanodes.
    pub fn looked(&mut self, mut members: Vec<u64>, now: Instant) {
        self.looked.get_or_insert(now);
        if !members.contains(&self.member) {
            members.push(self.member);
        }
        let is_as_before = members == self.members;
        self.members = members;
        for known in self.nodes.values_mut() {
            known.is_left_over &= is_as_before;
            let owner = known.row.owner;
            if owner != self.member && self.members.contains(&owner) {
                known.owner_seen = now;
            }
        }
    }

    /// A datanode registered here: full reports and incremental ones follow.
    pub fn registered(&mut self, row: Datanode, now: Instant, now_ms: i64) -> Arc<Datanode> {
        let row = self.adopt(row);
        if let Some(known) = self.nodes.get_mut(&row.uuid) {
            known.is_registered = true;
            known.heard = Some((now, now_ms));
            known.reported_ms = 0;
            known.lease = None;
        }
        row
    }

    /// A datanode that registered here is to register anew: what it told so far has a gap.
    pub fn must_register(&mut self, uuid: &str) {
        if let Some(known) = self.nodes.get_mut(uuid) {
            known.is_registered = false;
        }
    }

    /// A heartbeat; `None` from one that did not register here, was dead since, or is another than registered.
    pub fn hear(&mut self, said: &Datanode, beat: &Beat, now: Instant, now_ms: i64) -> Option<Heard> {
        let known = self.nodes.get_mut(&said.uuid).filter(|known| known.is_registered)?;
        if !is_same(&known.row, said) {
            return None;
        }
        if known.liveness(&self.timing, now) == Liveness::Dead {
            // What it was to be told while it was dead is forgotten: it registers anew, and reports in full.
            known.is_registered = false;
            return None;
        }
        let is_first = known.space.is_empty();
        known.heard = Some((now, now_ms));
        (known.load, known.copies) = (beat.load, beat.copies);
        // Those given just before it was sent are not in it yet.
        known.scheduled = (0, known.scheduled.0);
        known.space = beat.storages.iter().map(|(told, space)| (told.uuid.clone(), *space)).collect();
        let told: Vec<&ToldStorage> = beat.storages.iter().map(|(told, _)| told).collect();
        Some(Heard { storages_changed: differ(&known.row, &told), row: known.row.clone(), is_first })
    }

    /// A datanode was given one replica more.
    pub fn schedule(&mut self, uuid: &str) {
        if let Some(known) = self.nodes.get_mut(uuid) {
            known.scheduled.0 = known.scheduled.0.saturating_add(1);
        }
    }

    /// So many replicas that a datanode was given are there: the room that its heartbeats tell counts them.
    pub fn arrived(&mut self, uuid: &str, count: u32) {
        if let Some(known) = self.nodes.get_mut(uuid) {
            let (now, before) = known.scheduled;
            let left = count.saturating_sub(before);
            known.scheduled = (now.saturating_sub(left), before.saturating_sub(count));
        }
    }

    /// The row of a datanode that registered here.
    pub fn row(&self, uuid: &str) -> Option<Arc<Datanode>> {
        self.nodes.get(uuid).filter(|known| known.is_registered).map(|known| known.row.clone())
    }

    /// Whose turn it is to apply a report of a datanode.
    pub fn turn(&self, uuid: &str) -> Option<Arc<tokio::sync::Mutex<()>>> {
        self.nodes.get(uuid).map(|known| known.turn.clone())
    }

    /// All datanodes as of now.
    pub fn view(&self, now: Instant) -> View {
        let mut nodes: Vec<Node> = self.nodes.values().map(|known| known.node(&self.timing, now)).collect();
        nodes.sort_by_key(|node| node.row.number);
        View::new(nodes).early(self.is_early(now))
    }

    /// Whether most of the storages that work were not heard of yet; not for ever.
    fn is_early(&self, now: Instant) -> bool {
        if self.looked.is_none_or(|at| now.saturating_duration_since(at) >= self.timing.ready) {
            return false;
        }
        let (mut all, mut heard) = (0, 0);
        for known in self.nodes.values() {
            let works = known.row.storages.iter().filter(|storage| !storage.failed).count();
            all += works;
            // One that registered and sent no heartbeat yet has not told its room: it can be given nothing.
            heard += if known.heard.is_some() && !known.space.is_empty() { works } else { 0 };
        }
        heard * 2 < all
    }

    /// A datanode says that it ends: it is silent from now on.
    pub fn lost(&mut self, uuid: &str) {
        if let Some(known) = self.nodes.get_mut(uuid) {
            known.heard = None;
        }
    }
}

/// Whether a datanode still is where it registered. The address that it is seen at is not what it says.
fn is_same(row: &Datanode, said: &Datanode) -> bool {
    let ports = |row: &Datanode| (row.data_port, row.ipc_port, row.http_port);
    row.host == said.host && ports(row) == ports(said)
}

/// Whether what a datanode tells of its storages is not in its row.
fn differ(row: &Datanode, told: &[&ToldStorage]) -> bool {
    let is_told = |uuid: &str| told.iter().any(|storage| storage.uuid == uuid);
    let is_known = |told: &ToldStorage| {
        let mut all = row.storages.iter();
        all.any(|s| (&s.uuid, s.kind, s.failed) == (&told.uuid, told.kind, told.failed))
    };
    !told.is_empty()
        && (told.iter().any(|told| !is_known(told))
            || row.storages.iter().any(|s| !s.failed && !is_told(&s.uuid)))
}
