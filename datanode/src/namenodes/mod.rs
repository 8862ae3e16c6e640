//! The namenodes of a datanode: what they are told, and which of them is obeyed.
//!
//! | module | what |
//! |---|---|
//! | [`actor`] | a datanode's life with one namenode: registration, heartbeats, reports |
//! | [`outbox`] | what one of them is still to be told |
//! | [`report`], [`registration`] | what it is told |
//! | [`commands`] | what it may demand |

pub(crate) mod actor;
pub(crate) mod commands;
pub(crate) mod outbox;
pub(crate) mod registration;
pub(crate) mod report;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use trellis_client::config::ConnectionConfig;
use trellis_client::namenode::Namenode;
use trellis_client::uri::Address;
use trellis_client::user::default_user;
use trellis_proto::active::Active;
use trellis_proto::common::TokenProto;
use trellis_proto::hdfs::datanode::datanode_protocol_service;
use trellis_proto::hdfs::datanode::error_report_request_proto::ErrorCode;
use trellis_proto::hdfs::datanode::received_deleted_block_info_proto::BlockStatus;
use trellis_proto::hdfs::{DatanodeIdProto, DatanodeInfoProto, ExtendedBlockProto, LocatedBlockProto};

use crate::config::Config;
use crate::shared::extended;
use crate::store::{Block, Event, Pool, Replica, StorageType};
use outbox::{Change, Outbox, Wanted};

/// Deletions at a time of which the namenode wants to hear nothing; of more than these it is told all the same.
const MAX_QUIET: usize = 1 << 20;

/// All namenodes of a datanode.
pub(crate) struct Namenodes {
    all: Vec<(Namenode, Outbox)>,
    active: Mutex<Active>,
    /// This datanode, as a namenode knows it.
    me: Mutex<DatanodeIdProto>,
    /// Known once the store is open.
    pool: OnceLock<Pool>,
    types: OnceLock<HashMap<Arc<str>, StorageType>>,
    /// Blocks that are being deleted, and the namenode knows it.
    quiet: Mutex<HashSet<Block>>,
    /// When a volume failed last, ms since 1970; 0 = never.
    last_failure_ms: AtomicU64,
}

impl Namenodes {
    /// The namenodes of one service.
    pub(crate) fn new(addresses: &[Address], me: DatanodeIdProto, config: &Config) -> Namenodes {
        let connection = ConnectionConfig { call_timeout: config.rpc_timeout, ..ConnectionConfig::default() };
        let link = |address: &Address| {
            let service = &datanode_protocol_service::SERVICE;
            Namenode::alone(address.clone(), service, default_user(), connection.clone())
        };
        Namenodes {
            all: addresses.iter().map(|address| (link(address), Outbox::default())).collect(),
            active: Mutex::default(),
            me: Mutex::new(me),
            pool: OnceLock::new(),
            types: OnceLock::new(),
            quiet: Mutex::default(),
            last_failure_ms: AtomicU64::new(0),
        }
    }

    /// The store is open: what it holds, and the types of its storages.
    pub(crate) fn opened(&self, pool: &Pool, types: HashMap<Arc<str>, StorageType>) {
        // It is opened once.
        let _ = self.pool.set(pool.clone());
        let _ = self.types.set(types);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// One of them.
    pub(crate) fn link(&self, index: usize) -> Option<&Namenode> {
        self.all.get(index).map(|(link, _)| link)
    }

    /// What one of them is still to be told.
    pub(crate) fn outbox(&self, index: usize) -> Option<&Outbox> {
        self.all.get(index).map(|(_, outbox)| outbox)
    }

    /// What all of them are still to be told.
    pub(crate) fn outboxes(&self) -> impl Iterator<Item = &Outbox> {
        self.all.iter().map(|(_, outbox)| outbox)
    }

    /// The namenode that is obeyed.
    pub(crate) fn active(&self) -> Option<&Namenode> {
        let held = self.choice().held()?;
        self.link(held)
    }

    /// Which one is obeyed, to be looked at and changed.
    pub(crate) fn choice(&self) -> MutexGuard<'_, Active> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This datanode, as the namenode that answered last knows it.
    pub(crate) fn me(&self) -> DatanodeIdProto {
        self.me.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A namenode knows this datanode so.
    pub(crate) fn known_as(&self, id: &DatanodeIdProto) {
        self.me.lock().unwrap_or_else(PoisonError::into_inner).clone_from(id);
    }

    /// The type of a storage.
    pub(crate) fn storage_type(&self, storage: &str) -> StorageType {
        self.types.get().and_then(|types| types.get(storage)).copied().unwrap_or(StorageType::Disk)
    }

    /// A replica is being written.
    pub(crate) fn receiving(&self, replica: &Replica) {
        self.change(replica, BlockStatus::Receiving, None);
    }

    /// A replica is complete; it replaces that of the datanode `delete_hint`, if any.
    pub(crate) fn received(&self, replica: &Replica, delete_hint: Option<&str>) {
        self.change(replica, BlockStatus::Received, delete_hint);
    }

    /// A replica is bad.
    pub(crate) fn bad(&self, replica: &Replica) {
        let storage_type = self.storage_type(&replica.storage);
        let pool = self.pool.get().map_or("", |pool| &pool.id);
        let located = LocatedBlockProto {
            storage_types: vec![storage_type.into()],
            storage_i_ds: vec![replica.storage.to_string()],
            ..located(extended(pool, replica.block, replica.len), self.me())
        };
        self.outboxes().for_each(|outbox| outbox.bad(located.clone()));
    }

    /// Another datanode's replica is bad.
    pub(crate) fn bad_elsewhere(&self, block: &ExtendedBlockProto, holder: &DatanodeInfoProto) {
        let located = located(block.clone(), holder.id.clone());
        self.outboxes().for_each(|outbox| outbox.bad(located.clone()));
    }

    /// When a volume failed last, ms since 1970; 0 = never.
    pub(crate) fn last_failure_ms(&self) -> u64 {
        self.last_failure_ms.load(Ordering::Relaxed)
    }

    /// Something went wrong that namenodes are to know.
    pub(crate) fn note(&self, code: ErrorCode, text: &str) {
        self.outboxes().for_each(|outbox| outbox.note((code as u32, text.to_owned())));
    }

    /// The namenode has these deleted and wants to hear no more of them.
    pub(crate) fn quietly(&self, blocks: impl Iterator<Item = Block>) {
        let mut quiet = self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_QUIET.saturating_sub(quiet.len());
        quiet.extend(blocks.take(room));
    }

    /// A block is not being deleted (any more). Whether the namenode wants to hear no more of it.
    pub(crate) fn is_quiet(&self, block: Block) -> bool {
        self.quiet.lock().unwrap_or_else(PoisonError::into_inner).remove(&block)
    }

    /// Takes what happened in the store.
    pub(crate) fn event(&self, event: &Event) {
        match event {
            Event::Deleted(replica) if self.is_quiet(replica.block) => {}
            Event::Deleted(replica) | Event::Missing(replica) => {
                self.change(replica, BlockStatus::Deleted, None);
            }
            Event::Corrupt(replica) => self.bad(replica),
            Event::VolumeFailed { storage, reason } => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                self.last_failure_ms.store(now.as_millis() as u64, Ordering::Relaxed);
                self.note(ErrorCode::DiskError, &format!("storage {storage} failed: {reason}"));
                self.outboxes().for_each(|outbox| outbox.want_full_report(Wanted::Soon));
            }
        }
    }

    fn change(&self, replica: &Replica, status: BlockStatus, delete_hint: Option<&str>) {
        // It came back: its next deletion is another one.
        if status != BlockStatus::Deleted {
            self.is_quiet(replica.block);
        }
        let change = Change::of(replica, status, delete_hint);
        self.outboxes().for_each(|outbox| outbox.change(&replica.storage, change.clone()));
    }
}

/// A block on one datanode.
fn located(block: ExtendedBlockProto, holder: DatanodeIdProto) -> LocatedBlockProto {
    LocatedBlockProto {
        b: block,
        locs: vec![DatanodeInfoProto { id: holder, ..Default::default() }],
        block_token: TokenProto::default(),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ReplicaState;

    #[test]
    fn only_the_deletion_that_is_to_be_quiet_is() {
        let address = Address::parse("127.0.0.1:1").unwrap();
        let namenodes = Namenodes::new(&[address], DatanodeIdProto::default(), &Config::default());
        let replica = |stamp| Replica {
            block: Block { id: 1, stamp },
            len: 5,
            state: ReplicaState::Finalized,
            storage: "DS-1".into(),
        };
        let told = || namenodes.outboxes().next().unwrap().take_changes().len();
        let quietly = |stamp| namenodes.quietly(std::iter::once(replica(stamp).block));
        quietly(5);
        namenodes.event(&Event::Deleted(replica(5)));
        assert_eq!(told(), 0);
        // It is there again before its files are gone, so that the store tells of no deletion; then it is deleted.
        quietly(5);
        namenodes.received(&replica(5), None);
        assert_eq!(told(), 1);
        namenodes.event(&Event::Deleted(replica(5)));
        assert_eq!(told(), 1);
        quietly(5);
        namenodes.event(&Event::Deleted(replica(6)));
        assert_eq!(told(), 1, "another stamp");
    }
}
