//! Which namenodes live: heartbeats, member rows, eviction, the leader and its term.
//!
//! Each start of a namenode draws an incarnation, its id for as long as it lives. It has a heartbeat row, whose counter
//! it moves, and one member row per lane, which every group of that lane holds at the version learnt when it joined.
//! Anybody who sees a heartbeat counter stand still for `member_timeout` of their own monotonic clock deletes those
//! rows: a namenode that was frozen can write nothing when it wakes. The lowest live id leads; the leader's term grows
//! in the commit that takes leadership, and its housekeeping holds the term's row.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::Instant;
use trellis_metastore::change::Hold;
use trellis_metastore::group::transact;
use trellis_metastore::key::{Key, Scan};
use trellis_metastore::schema::{
    Member, Members, Setting, TableId, TableKey, lane_in, member, member_lane, members_partition, setting,
};
use trellis_metastore::store::{Store, StoreError};
use trellis_metastore::tx::{Record, Stop, Tx, Versions};
use trellis_metastore::work::{Fence, Verdict};

use crate::engine::ctx::Term;

/// The setting that counts incarnations.
pub const NEXT_INCARNATION: &str = "next_incarnation";
/// The setting that names the leader (`text`: its id) and its term (`number`).
pub const LEADER: &str = "leader";
/// Incarnations fit in the upper 24 bits of a row version; the first is 1.
const MAX_INCARNATION: u64 = (1 << 24) - 1;
/// Rows of members that are read at once; more namenodes than this divided by their lanes are not looked at.
const MAX_MEMBER_ROWS: u32 = 2000;

/// Where a namenode can be reached.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Addresses {
    /// RPC, as clients reach it: host:port.
    pub rpc: String,
    /// HTTP.
    pub http: String,
}

/// A namenode as others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    /// Its id and incarnation.
    pub id: u64,
    /// Its heartbeat counter.
    pub heartbeat: u64,
    /// Where it can be reached.
    pub addresses: Addresses,
}

/// This namenode's place in the cluster.
pub struct Membership {
    id: u64,
    versions: Versions,
    lanes: Mutex<Vec<u64>>,
    term: Mutex<Option<Term>>,
    evicted: watch::Sender<bool>,
    store: Arc<dyn Fn() -> Arc<dyn Store> + Send + Sync>,
}

impl Membership {
    /// Draws an incarnation and writes this namenode's rows. `lanes`: how many lanes will write.
    pub async fn join(
        store: Arc<dyn Store>,
        lanes: usize,
        addresses: &Addresses,
    ) -> Result<Arc<Membership>, StoreError> {
        let before = Versions::before_joining();
        let id = transact(store.as_ref(), &before, |tx| join(tx, lanes, addresses)).await?;
        let keys: Vec<Key> = (0..lanes).map(|lane| member_lane(id, lane as u32).key).collect();
        let rows = store.fetch(&keys, &[]).await?.rows;
        let versions: Option<Vec<u64>> = rows.into_iter().map(|row| row.map(|row| row.version)).collect();
        let versions = versions.ok_or_else(|| StoreError::Unavailable("evicted while joining".into()))?;
        Ok(Arc::new(Membership {
            id,
            versions: Versions::of_incarnation(id),
            lanes: Mutex::new(versions),
            term: Mutex::new(None),
            evicted: watch::Sender::new(false),
            store: Arc::new(move || store.clone()),
        }))
    }

    /// The id drawn for this life.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The row versions of this life.
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// Becomes true, once, when this namenode finds itself evicted.
    pub fn evicted(&self) -> watch::Receiver<bool> {
        self.evicted.subscribe()
    }

    /// The term, while this namenode leads. Its holder's operations hold its row.
    pub fn term(&self) -> Option<Term> {
        *self.term.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the heartbeat counter, watches the others, evicts the silent, takes the lead; until `stop` or eviction.
    pub async fn keep(self: Arc<Self>, every: Duration, timeout: Duration, mut stop: watch::Receiver<bool>) {
        let mut seen: HashMap<u64, (u64, Instant)> = HashMap::new();
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
            match self.beat(&mut seen, timeout).await {
                Ok(true) => {}
                Ok(false) => {
                    tracing::warn!(
                        id = self.id,
                        "this namenode was evicted: it drops its queue and joins anew"
                    );
                    self.evicted.send_replace(true);
                    return;
                }
                Err(error) => tracing::warn!(%error, "a heartbeat failed; it is tried again"),
            }
        }
    }

    /// Deletes this namenode's rows: the others need not wait for its time-out.
    pub async fn leave(&self) -> Result<(), StoreError> {
        transact((self.store)().as_ref(), &self.versions, |tx| evict(tx, self.id, None)).await.map(drop)
    }

    /// One heartbeat. False = this namenode's row is gone.
    async fn beat(
        &self,
        seen: &mut HashMap<u64, (u64, Instant)>,
        timeout: Duration,
    ) -> Result<bool, StoreError> {
        let store = (self.store)();
        if !transact(store.as_ref(), &self.versions, |tx| move_counter(tx, self.id)).await? {
            return Ok(false);
        }
        let now = Instant::now();
        let members = live(store.as_ref()).await?;
        seen.retain(|id, _| members.iter().any(|member| member.id == *id));
        let mut lowest = self.id;
        for other in members.iter().filter(|member| member.id != self.id) {
            let (heartbeat, since) = *seen.entry(other.id).or_insert((other.heartbeat, now));
            if heartbeat != other.heartbeat {
                seen.insert(other.id, (other.heartbeat, now));
            } else if now.duration_since(since) >= timeout {
                let gone =
                    transact(store.as_ref(), &self.versions, |tx| evict(tx, other.id, Some(heartbeat)))
                        .await?;
                if gone {
                    tracing::warn!(
                        id = other.id,
                        rpc = other.addresses.rpc,
                        "evicted a namenode that stood still"
                    );
                    seen.remove(&other.id);
                    continue;
                }
            }
            lowest = lowest.min(other.id);
        }
        let mut term = None;
        if lowest == self.id {
            transact(store.as_ref(), &self.versions, |tx| lead(tx, self.id)).await?;
            term = self.learn_term(store.as_ref()).await?;
        }
        *self.term.lock().unwrap_or_else(PoisonError::into_inner) = term;
        Ok(true)
    }

    /// The term as it is stored, if it is this namenode's: only a read tells the version that a commit gave the row.
    async fn learn_term(&self, store: &dyn Store) -> Result<Option<Term>, StoreError> {
        let own = self.id.to_string();
        let read = |tx: &mut Tx<'_>| tx.get(&setting(LEADER), Hold::Loose);
        let leader = transact(store, &self.versions, read).await?.filter(|leader| leader.value.text == own);
        Ok(leader.map(|leader| Term { number: leader.value.number, version: leader.version }))
    }
}

impl Fence for Membership {
    fn holds(&self, lane: usize) -> Vec<(Key, u64)> {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.get(lane).map(|version| (member_lane(self.id, lane as u32).key, *version)).into_iter().collect()
    }

    fn moved<'a>(&'a self, lane: usize, key: &'a Key) -> BoxFuture<'a, Verdict> {
        async move {
            let store = (self.store)();
            loop {
                match store.fetch(std::slice::from_ref(key), &[]).await {
                    Ok(fetched) => match fetched.rows.into_iter().next().flatten() {
                        Some(row) => {
                            let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
                            if let Some(version) = lanes.get_mut(lane) {
                                *version = row.version;
                            }
                            return Verdict::Again;
                        }
                        None => {
                            self.evicted.send_replace(true);
                            return Verdict::Fenced;
                        }
                    },
                    Err(error) if error.is_retryable() => tokio::time::sleep(Duration::from_millis(20)).await,
                    Err(error) => {
                        tracing::error!(%error, "a member row cannot be read: this namenode takes itself out");
                        self.evicted.send_replace(true);
                        return Verdict::Fenced;
                    }
                }
            }
        }
        .boxed()
    }

    fn bar(&self, lane: usize) -> BoxFuture<'_, bool> {
        async move {
            let (store, key) = ((self.store)(), member_lane(self.id, lane as u32));
            match transact(store.as_ref(), &self.versions, |tx| rewrite(tx, &key)).await {
                Ok(version) => {
                    let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
                    if let (Some(held), Some(version)) = (lanes.get_mut(lane), version) {
                        *held = version;
                    }
                    true
                }
                Err(error) => {
                    tracing::warn!(%error, "a commit that may still land is not barred yet; it is tried again");
                    false
                }
            }
        }
        .boxed()
    }
}

/// Writes a row again as it is; answers its new version. `None` = it is gone.
fn rewrite(tx: &mut Tx<'_>, key: &TableKey<Members>) -> Result<Option<u64>, Stop> {
    let Some(row) = tx.get(key, Hold::Held)? else { return Ok(None) };
    tx.put(key, &row.value)?;
    Ok(tx.get(key, Hold::Held)?.map(|row| row.version))
}

/// The live namenodes, lowest id first.
pub async fn live(store: &dyn Store) -> Result<Vec<MemberInfo>, StoreError> {
    let scan = Scan::of(TableId::Members, members_partition(), MAX_MEMBER_ROWS);
    let versions = Versions::before_joining();
    let rows = transact(store, &versions, |tx| tx.scan_all::<Members>(std::slice::from_ref(&scan))).await?;
    let heartbeat_rows = rows.into_iter().flatten().filter(|(key, _)| key.len() == 8);
    Ok(heartbeat_rows.map(|(_, row)| info(row)).collect())
}

fn info(row: Record<Members>) -> MemberInfo {
    let Member { incarnation, heartbeat, rpc, http } = row.value;
    MemberInfo { id: incarnation, heartbeat, addresses: Addresses { rpc, http } }
}

fn join(tx: &mut Tx<'_>, lanes: usize, addresses: &Addresses) -> Result<u64, Stop> {
    let counter = setting(NEXT_INCARNATION);
    let id = match tx.get(&counter, Hold::Held)? {
        Some(next) => {
            tx.put(&counter, &Setting { number: next.value.number + 1, text: String::new() })?;
            next.value.number
        }
        None => {
            tx.insert(&counter, &Setting { number: 2, text: String::new() })?;
            1
        }
    };
    if id > MAX_INCARNATION {
        return Err(Stop::Fault(format!("all {MAX_INCARNATION} incarnations of namenodes are used up")));
    }
    let Addresses { rpc, http } = addresses.clone();
    let row = Member { incarnation: id, heartbeat: 1, rpc, http };
    tx.insert(&member(id), &row)?;
    let lane_row = Member { incarnation: id, ..Member::default() };
    (0..lanes).try_for_each(|lane| tx.insert(&member_lane(id, lane as u32), &lane_row))?;
    Ok(id)
}

/// False when the row is gone.
fn move_counter(tx: &mut Tx<'_>, id: u64) -> Result<bool, Stop> {
    let key = member(id);
    let Some(row) = tx.get(&key, Hold::Held)? else { return Ok(false) };
    tx.put(&key, &Member { heartbeat: row.value.heartbeat + 1, ..row.value })?;
    Ok(true)
}

/// Deletes a namenode's rows, if its heartbeat counter still is what it was. True = its rows are gone.
fn evict(tx: &mut Tx<'_>, id: u64, heartbeat: Option<u64>) -> Result<bool, Stop> {
    let scan = Scan::of(TableId::Members, members_partition(), MAX_MEMBER_ROWS).after(&id.to_be_bytes());
    tx.want(&member(id));
    tx.want_scan(&scan);
    let rows = tx.scan_all::<Members>(std::slice::from_ref(&scan))?;
    if let Some(row) = tx.get(&member(id), Hold::Held)? {
        if heartbeat.is_some_and(|heartbeat| heartbeat != row.value.heartbeat) {
            return Ok(false);
        }
        tx.delete(&member(id))?;
    }
    let own = rows.into_iter().flatten().filter(|(_, row)| row.value.incarnation == id);
    let lanes: Vec<TableKey<Members>> =
        own.filter_map(|(key, _)| Some(member_lane(id, lane_in(&key)?.1))).collect();
    tx.get_all(&lanes, Hold::Loose)?;
    lanes.iter().try_for_each(|lane| tx.delete(lane))?;
    Ok(true)
}

/// Takes the lead, unless this namenode has it: the term grows in the commit that takes it.
fn lead(tx: &mut Tx<'_>, id: u64) -> Result<(), Stop> {
    let (key, text) = (setting(LEADER), id.to_string());
    tx.want(&member(id));
    let leader = tx.get(&key, Hold::Held)?;
    if tx.get(&member(id), Hold::Held)?.is_none() {
        return Err(Stop::Fault("an evicted namenode cannot lead".into()));
    }
    match leader {
        Some(leader) if leader.value.text == text => Ok(()),
        Some(leader) => tx.put(&key, &Setting { number: leader.value.number + 1, text }),
        None => tx.insert(&key, &Setting { number: 1, text }),
    }
}
