//! One simulated datanode: who it is, what it holds, what its namenodes are still to be told.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use trellis_proto::active::Active;
use trellis_proto::block_report::{Listed, ReplicaList};
use trellis_proto::hdfs::datanode::received_deleted_block_info_proto::BlockStatus;
use trellis_proto::hdfs::datanode::{
    ReceivedDeletedBlockInfoProto, StorageBlockReportProto, StorageReceivedDeletedBlocksProto,
};
use trellis_proto::hdfs::{
    BlockProto, DatanodeIdProto, DatanodeStorageProto, StorageReportProto, StorageTypeProto,
};
use trellis_proto::registration::storage_proto;

use super::outbox::Outbox;
use crate::namespace::{hashed, mixed};

/// How much each datanode says that it has room for, bytes: never full.
const CAPACITY: u64 = 1 << 50;
/// The first of their data ports; the n-th datanode has the n-th after it, and nobody listens there. They are above those
/// that Linux gives to clients.
const FIRST_PORT: u32 = 61_000;
/// Uuids of simulated datanodes begin so.
const MARK: &str = "10ad0000";

/// A replica as it would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Replica {
    pub(super) stamp: u64,
    pub(super) len: u64,
}

/// What a datanode holds.
#[derive(Debug, Default)]
struct Held {
    replicas: HashMap<u64, Replica>,
    bytes: u64,
}

/// A datanode.
#[derive(Debug)]
pub(super) struct Node {
    /// As it registers; namenodes put its address in.
    pub(super) id: DatanodeIdProto,
    pub(super) storage: DatanodeStorageProto,
    held: Mutex<Held>,
    active: Mutex<Active>,
    /// A namenode has its full report.
    pub(super) has_reported: AtomicBool,
    /// For each namenode.
    pub(super) outboxes: Vec<Outbox>,
}

/// A uuid that is a function of these alone.
fn uuid(base: &str, seed: u64, index: u32, what: u64) -> String {
    let name = hashed(base) ^ mixed(seed ^ mixed(u64::from(index) << 8 | what));
    let [high, low] = [mixed(name ^ 1), mixed(name ^ 2)];
    let (a, b, c, d) = (high & 0xffff, high >> 16 & 0xfff, low & 0xfff, low >> 16);
    format!("{MARK}-{a:04x}-4{b:03x}-8{c:03x}-{d:012x}")
}

/// Whether a datanode with this uuid is a simulated one, of whatever run.
pub(super) fn is_simulated(uuid: &str) -> bool {
    uuid.starts_with(MARK)
}

impl Node {
    /// The datanode number `index` of the namespace in `base`, on this machine.
    pub(super) fn new(base: &str, seed: u64, index: u32, host: &str, namenodes: usize) -> Node {
        let id = DatanodeIdProto {
            ip_addr: host.to_owned(),
            host_name: host.to_owned(),
            datanode_uuid: uuid(base, seed, index, 0),
            xfer_port: FIRST_PORT + index,
            info_port: 0,
            ipc_port: 0,
            info_secure_port: Some(0),
        };
        let storage = format!("DS-{}", uuid(base, seed, index, 1));
        Node {
            id,
            storage: storage_proto(&storage, StorageTypeProto::Disk),
            held: Mutex::default(),
            active: Mutex::default(),
            has_reported: AtomicBool::new(false),
            outboxes: (0..namenodes).map(|_| Outbox::default()).collect(),
        }
    }

    /// Holds a replica from now on; nobody is told.
    pub(super) fn hold(&self, block: u64, replica: Replica) {
        let mut held = self.held();
        let before = held.replicas.insert(block, replica).map_or(0, |before| before.len);
        held.bytes = held.bytes.saturating_sub(before).saturating_add(replica.len);
    }

    /// The replica that it holds of a block.
    pub(super) fn replica(&self, block: u64) -> Option<Replica> {
        self.held().replicas.get(&block).copied()
    }

    /// How many replicas it holds.
    pub(super) fn count(&self) -> u64 {
        self.held().replicas.len() as u64
    }

    /// A replica came whole: its namenodes are told at once. The number of this change for the namenode `index`.
    pub(super) fn receive(&self, block: u64, replica: Replica, index: usize) -> u64 {
        self.hold(block, replica);
        let change = change(block, replica, BlockStatus::Received);
        let numbers = self.outboxes.iter().map(|outbox| outbox.put(change.clone(), true));
        numbers.enumerate().filter(|(at, _)| *at == index).map(|(_, number)| number).last().unwrap_or(0)
    }

    /// Forgets a replica, unless a newer one is there. Namenodes are told with the next heartbeat, unless `quietly`.
    pub(super) fn delete(&self, block: u64, stamp: u64, quietly: bool) -> bool {
        let mut held = self.held();
        let Some(replica) = held.replicas.get(&block).copied().filter(|replica| replica.stamp <= stamp)
        else {
            return false;
        };
        held.replicas.remove(&block);
        held.bytes = held.bytes.saturating_sub(replica.len);
        drop(held);
        if !quietly {
            let change = change(block, replica, BlockStatus::Deleted);
            self.outboxes.iter().for_each(|outbox| _ = outbox.put(change.clone(), false));
        }
        true
    }

    /// Which namenode is obeyed, to be looked at and changed.
    pub(super) fn choice(&self) -> MutexGuard<'_, Active> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its storage as a heartbeat tells of it.
    #[allow(deprecated, reason = "Hadoop still demands the old field")]
    pub(super) fn storage_report(&self) -> StorageReportProto {
        let used = self.held().bytes;
        StorageReportProto {
            storage_uuid: self.storage.storage_uuid.clone(),
            failed: Some(false),
            capacity: Some(CAPACITY),
            dfs_used: Some(used),
            remaining: Some(CAPACITY.saturating_sub(used)),
            block_pool_used: Some(used),
            storage: Some(self.storage.clone()),
            non_dfs_used: Some(0),
            mount: None,
        }
    }

    /// All that it holds, for a full report.
    pub(super) fn full_report(&self) -> StorageBlockReportProto {
        let mut list = ReplicaList::default();
        for (id, replica) in &self.held().replicas {
            // Every replica is whole.
            list.put(Listed { id: *id, len: replica.len, stamp: replica.stamp, state: 0 });
        }
        list.into_proto(self.storage.clone())
    }

    /// Changes as a call carries them.
    #[allow(deprecated, reason = "Hadoop still demands the old field")]
    pub(super) fn on_storage(
        &self,
        blocks: Vec<ReceivedDeletedBlockInfoProto>,
    ) -> StorageReceivedDeletedBlocksProto {
        let storage_uuid = self.storage.storage_uuid.clone();
        StorageReceivedDeletedBlocksProto { storage_uuid, blocks, storage: Some(self.storage.clone()) }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn change(block: u64, replica: Replica, status: BlockStatus) -> ReceivedDeletedBlockInfoProto {
    ReceivedDeletedBlockInfoProto {
        block: BlockProto { block_id: block, gen_stamp: replica.stamp, num_bytes: Some(replica.len) },
        delete_hint: None,
        status: status.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn who_it_is_depends_on_base_seed_and_number_alone() {
        let of = |base, seed, index| Node::new(base, seed, index, "h", 1);
        let names = |node: Node| [node.id.datanode_uuid, node.storage.storage_uuid];
        assert_eq!(names(of("/load", 1, 0)), names(of("/load", 1, 0)));
        let all = [of("/load", 1, 0), of("/load", 1, 1), of("/load", 2, 0), of("/other", 1, 0)];
        let all: HashSet<String> = all.into_iter().flat_map(names).collect();
        assert_eq!(all.len(), 8);
        let uuid = of("/load", 1, 0).id.datanode_uuid;
        assert!(is_simulated(&uuid) && uuid.len() == 36, "{uuid}");
        assert!(!is_simulated("a26a86e9-10ad-4000-8000-000000000000"));
    }

    #[test]
    fn room_follows_what_it_holds() {
        let node = Node::new("/load", 1, 0, "h", 2);
        let used = || node.storage_report().dfs_used;
        node.hold(7, Replica { stamp: 1001, len: 10 });
        node.receive(7, Replica { stamp: 1002, len: 12 }, 1);
        assert_eq!((used(), node.count()), (Some(12), 1));
        // An order about an older replica takes nothing.
        assert!(!node.delete(7, 1001, true) && !node.delete(8, 1001, true));
        assert!(node.delete(7, 1002, false));
        assert_eq!((used(), node.replica(7)), (Some(0), None));
        let told = node.outboxes.iter().map(|outbox| outbox.take().iter().map(|c| c.status()).collect());
        let wanted = vec![BlockStatus::Received, BlockStatus::Deleted];
        assert_eq!(told.collect::<Vec<Vec<_>>>(), [wanted.clone(), wanted]);
        // Whoever is wanted to be silent is.
        node.hold(9, Replica { stamp: 1, len: 1 });
        assert!(node.delete(9, 1, true) && node.outboxes[0].take().is_empty());
    }
}
