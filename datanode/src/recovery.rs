//! Leads the recovery of a block whose writer is gone (stock's `BlockRecoveryWorker`): makes all its replicas agree on
//! a length, closes them under the recovery's stamp, and tells the active namenode.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::timeout;
use trellis_client::config::ConnectionConfig;
use trellis_client::namenode::Namenode;
use trellis_client::uri::Address;
use trellis_client::user::default_user;
use trellis_proto::exception::Kind;
use trellis_proto::hdfs::datanode::{CommitBlockSynchronizationRequestProto, datanode_protocol_service};
use trellis_proto::hdfs::{
    DatanodeIdProto, InitReplicaRecoveryRequestProto, RecoveringBlockProto,
    UpdateReplicaUnderRecoveryRequestProto, inter_datanode_protocol_service as protocol,
};

use crate::shared::{Shared, blocking};
use crate::store::{Block, RecoveryInfo, ReplicaState, StoreError};

/// How long another datanode may take to stop its writer. One that hangs must not hold up the others until the namenode
/// begins a recovery anew, which would wait for it again.
const STOP: Duration = Duration::from_secs(10);

/// A datanode that has a replica.
enum Holder {
    Here,
    There(Namenode),
}

/// A replica that takes part.
struct Record {
    id: DatanodeIdProto,
    holder: Holder,
    info: RecoveryInfo,
}

/// Why a datanode does not do its part.
#[derive(Debug)]
enum Refusal {
    /// A newer recovery has the block: this one is to end.
    Overtaken(String),
    Failed(String),
}

/// Recovers a block, and says in the log how that went; if it fails, the namenode asks again.
pub(crate) async fn recover(shared: &Arc<Shared>, recovering: RecoveringBlockProto) {
    let block = Block { id: recovering.block.b.block_id, stamp: recovering.block.b.generation_stamp };
    let recovery = Recovery { shared, recovering: &recovering, block };
    match recovery.run().await {
        Ok(()) => {
            shared.metrics.recoveries.increment(1);
            tracing::info!(%block, id = recovering.new_gen_stamp, "recovered");
        }
        Err(why) => {
            shared.metrics.recoveries_failed.increment(1);
            tracing::warn!(%block, id = recovering.new_gen_stamp, why, "a recovery failed");
        }
    }
}

struct Recovery<'a> {
    shared: &'a Arc<Shared>,
    recovering: &'a RecoveringBlockProto,
    block: Block,
}

impl Recovery<'_> {
    async fn run(&self) -> Result<(), String> {
        if self.recovering.ec_policy.is_some() {
            return Err("erasure coding is not supported".to_owned());
        }
        let records = self.collect().await?;
        if records.is_empty() {
            // Nobody has a byte of it.
            return self.commit(0, true, Vec::new(), Vec::new()).await;
        }
        let truncate = self.recovering.truncate_block.as_ref();
        let (len, taking_part) = agree(&records, truncate.map(|block| block.num_bytes()))?;
        let new_block_id = truncate.map_or(self.block.id, |block| block.block_id);
        let (mut ids, mut storages, mut failures) = (Vec::new(), Vec::new(), Vec::new());
        let updates = taking_part
            .into_iter()
            .map(|record| async move { (record, self.update(record, new_block_id, len).await) });
        for (record, updated) in join_all(updates).await {
            match updated {
                Ok(storage) => {
                    ids.push(record.id.clone());
                    storages.push(storage);
                }
                Err(Refusal::Overtaken(why) | Refusal::Failed(why)) => {
                    failures.push(format!("{}: {why}", record.id.ip_addr));
                }
            }
        }
        if ids.is_empty() {
            return Err(format!("no datanode could end it: {}", failures.join("; ")));
        }
        for failure in failures {
            tracing::warn!(block = %self.block, failure, "a datanode takes no part in the end of a recovery");
        }
        self.commit(len, false, ids, storages).await
    }

    /// Stops all writers, and gathers what each datanode has: replicas that count.
    async fn collect(&self) -> Result<Vec<Record>, String> {
        let (mut records, mut failures, mut unfit) = (Vec::new(), Vec::new(), 0);
        let nodes = &self.recovering.block.locs;
        let asked = nodes.iter().map(|node| async move {
            let holder = match node.id.datanode_uuid == self.shared.id.datanode_uuid {
                true => Holder::Here,
                false => Holder::There(self.connect(&node.id)),
            };
            let found = self.init(&holder).await;
            (node.id.clone(), holder, found)
        });
        for (id, holder, found) in join_all(asked).await {
            match found {
                Ok(Some(info)) if info.block.stamp >= self.block.stamp && info.len > 0 => match info.state {
                    ReplicaState::Finalized | ReplicaState::Rbw | ReplicaState::Rwr => {
                        records.push(Record { id, holder, info });
                    }
                    _ => unfit += 1,
                },
                Ok(_) => {}
                Err(Refusal::Overtaken(why)) => return Err(format!("a newer one is under way: {why}")),
                Err(Refusal::Failed(why)) => failures.push(format!("{}: {why}", id.ip_addr)),
            }
        }
        if !nodes.is_empty() && failures.len() == nodes.len() {
            return Err(format!("all datanodes failed: {}", failures.join("; ")));
        }
        if records.is_empty() && unfit > 0 {
            return Err(format!("{unfit} replicas were found, none of them RWR or better"));
        }
        for failure in failures {
            tracing::warn!(block = %self.block, failure, "a datanode takes no part in a recovery");
        }
        Ok(records)
    }

    fn connect(&self, id: &DatanodeIdProto) -> Namenode {
        let config = &self.shared.config;
        let host = if config.use_hostnames { &id.host_name } else { &id.ip_addr };
        // A port that is none cannot be connected to, and that is told then.
        let address = Address::new(host, u16::try_from(id.ipc_port).unwrap_or(0));
        let connection = ConnectionConfig { call_timeout: config.rpc_timeout, ..ConnectionConfig::default() };
        Namenode::alone(address, &protocol::SERVICE, default_user(), connection)
    }

    async fn init(&self, holder: &Holder) -> Result<Option<RecoveryInfo>, Refusal> {
        let (block, id) = (self.block, self.recovering.new_gen_stamp);
        let link = match holder {
            Holder::Here => return self.here(move |shared| shared.store.init_recovery(block, id)).await,
            Holder::There(link) => link,
        };
        let request = InitReplicaRecoveryRequestProto { block: self.recovering.clone() };
        let answer = timeout(STOP, link.call_once(&protocol::INIT_REPLICA_RECOVERY, &request)).await;
        let late = |_| Refusal::Failed(format!("no answer for {} s", STOP.as_secs()));
        let answer = answer.map_err(late)?.map_err(refusal)?;
        Ok(answer.block.filter(|_| answer.replica_found).map(|found| RecoveryInfo {
            block: Block { id: found.block_id, stamp: found.gen_stamp },
            len: found.num_bytes(),
            state: answer.state(),
        }))
    }

    /// Closes a replica; answers the uuid of its storage.
    async fn update(&self, record: &Record, new_block_id: u64, len: u64) -> Result<String, Refusal> {
        let (block, id) = (record.info.block, self.recovering.new_gen_stamp);
        match &record.holder {
            Holder::Here => {
                let update = move |shared: &Shared| {
                    let replica = shared.store.update_recovery(block, id, new_block_id, len)?;
                    shared.namenodes.received(&replica, None);
                    Ok(replica.storage.to_string())
                };
                self.here(update).await
            }
            Holder::There(link) => {
                let request = UpdateReplicaUnderRecoveryRequestProto {
                    block: self.shared.extended(block, record.info.len),
                    recovery_id: id,
                    new_length: len,
                    new_block_id: Some(new_block_id),
                };
                let answer = link.call_once(&protocol::UPDATE_REPLICA_UNDER_RECOVERY, &request).await;
                Ok(answer.map_err(refusal)?.storage_uuid.unwrap_or_default())
            }
        }
    }

    /// Does something with this datanode's own replica.
    async fn here<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Refusal> {
        let done = blocking(self.shared, work).await;
        done.map_err(|error| Refusal::Failed(error.to_string()))?.map_err(|error| match error {
            StoreError::RecoveryInProgress { .. } => Refusal::Overtaken(error.to_string()),
            other => Refusal::Failed(other.to_string()),
        })
    }

    async fn commit(
        &self,
        len: u64,
        delete: bool,
        ids: Vec<DatanodeIdProto>,
        storages: Vec<String>,
    ) -> Result<(), String> {
        let Some(namenode) = self.shared.namenodes.active() else {
            return Err("no namenode is active".to_owned());
        };
        let request = CommitBlockSynchronizationRequestProto {
            block: self.recovering.block.b.clone(),
            new_gen_stamp: self.recovering.new_gen_stamp,
            new_length: len,
            close_file: true,
            delete_block: delete,
            new_taragets: ids,
            new_target_storages: storages,
        };
        let call = namenode.call_once(&datanode_protocol_service::COMMIT_BLOCK_SYNCHRONIZATION, &request);
        call.await.map(drop).map_err(|error| error.to_string())
    }
}

/// The length that all are to have, and whose replicas can have it. Finished ones rule; else those being written, down
/// to the shortest; else those found at a restart.
///
/// Finished ones differ when an earlier recovery ended for some of them only, and the namenode never heard of it. To be
/// cut, each that has what stays will do, whether it was cut already or not. Otherwise the longest ones rule: what was
/// acknowledged is in each of them, unless it lost bytes, and then it is short. (Stock's primary refuses both, for ever.)
fn agree(records: &[Record], cut_to: Option<u64>) -> Result<(u64, Vec<&Record>), String> {
    let of = |state: ReplicaState| records.iter().filter(move |record| record.info.state == state);
    if let Some(len) = cut_to {
        let has_it = |record: &&Record| record.info.len >= len;
        let written = of(ReplicaState::Finalized).chain(of(ReplicaState::Rbw));
        let mut taking_part: Vec<&Record> = written.filter(has_it).collect();
        if taking_part.is_empty() {
            taking_part.extend(of(ReplicaState::Rwr).filter(has_it));
        }
        return match taking_part.is_empty() {
            true => Err(format!("no replica has the {len} bytes that are to stay")),
            false => Ok((len, taking_part)),
        };
    }
    if let Some(len) = of(ReplicaState::Finalized).map(|record| record.info.len).max() {
        let as_long = |state| of(state).filter(move |record| record.info.len == len);
        return Ok((len, as_long(ReplicaState::Finalized).chain(as_long(ReplicaState::Rbw)).collect()));
    }
    for state in [ReplicaState::Rbw, ReplicaState::Rwr] {
        if let Some(len) = of(state).map(|record| record.info.len).min() {
            return Ok((len, of(state).collect()));
        }
    }
    Err("no replica can be recovered".to_owned())
}

fn refusal(error: trellis_client::Error) -> Refusal {
    match error.kind() {
        Some(Kind::RecoveryInProgress) => Refusal::Overtaken(error.to_string()),
        _ => Refusal::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(state: ReplicaState, len: u64) -> Record {
        let info = RecoveryInfo { block: Block { id: 1, stamp: 1 }, len, state };
        Record { id: DatanodeIdProto::default(), holder: Holder::Here, info }
    }

    fn agreed(records: &[(ReplicaState, u64)], cut_to: Option<u64>) -> Result<(u64, Vec<u64>), String> {
        let records: Vec<_> = records.iter().map(|(state, len)| record(*state, *len)).collect();
        let lens = |all: Vec<&Record>| all.iter().map(|record| record.info.len).collect();
        agree(&records, cut_to).map(|(len, all)| (len, lens(all)))
    }

    #[test]
    fn rules_of_precedence() {
        use ReplicaState::{Finalized, Rbw, Rwr};
        let agreed = |records: &[_]| agreed(records, None);
        assert_eq!(agreed(&[(Finalized, 9), (Rbw, 9), (Rbw, 12), (Rwr, 9)]), Ok((9, vec![9, 9])));
        assert_eq!(agreed(&[(Rbw, 9), (Rbw, 5), (Rwr, 3)]), Ok((5, vec![9, 5])));
        assert_eq!(agreed(&[(Rwr, 7), (Rwr, 8)]), Ok((7, vec![7, 8])));
        assert_eq!(agreed(&[(Finalized, 8), (Finalized, 9), (Rbw, 8)]), Ok((9, vec![9])));
        assert!(agreed(&[]).is_err());
    }

    #[test]
    fn a_cut_that_ended_for_some_replicas_ends_for_the_others() {
        use ReplicaState::{Finalized, Rbw, Rwr};
        let agreed = |records: &[_]| agreed(records, Some(5));
        assert_eq!(agreed(&[(Finalized, 5), (Finalized, 9)]), Ok((5, vec![5, 9])));
        assert_eq!(agreed(&[(Finalized, 9), (Rbw, 6), (Rbw, 4), (Rwr, 9)]), Ok((5, vec![9, 6])));
        assert_eq!(agreed(&[(Finalized, 4), (Rwr, 9)]), Ok((5, vec![9])));
        assert!(agreed(&[(Finalized, 4), (Rwr, 3)]).is_err());
    }
}
