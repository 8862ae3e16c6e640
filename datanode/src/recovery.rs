//! Leads the recovery of a block whose writer is gone (stock's `BlockRecoveryWorker`): makes all its replicas agree on
//! a length, closes them under the recovery's stamp, and tells the active namenode.

use std::sync::Arc;

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
        let (len, taking_part) = agree(&records)?;
        let truncate = self.recovering.truncate_block.as_ref();
        let len = truncate.map_or(len, |block| block.num_bytes());
        let new_block_id = truncate.map_or(self.block.id, |block| block.block_id);
        let (mut ids, mut storages, mut failures) = (Vec::new(), Vec::new(), Vec::new());
        for record in taking_part {
            match self.update(record, new_block_id, len).await {
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
        for node in nodes {
            let id = node.id.clone();
            let holder = match id.datanode_uuid == self.shared.id.datanode_uuid {
                true => Holder::Here,
                false => Holder::There(self.connect(&id)),
            };
            match self.init(&holder).await {
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
        let answer = link.call_once(&protocol::INIT_REPLICA_RECOVERY, &request).await.map_err(refusal)?;
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
fn agree(records: &[Record]) -> Result<(u64, Vec<&Record>), String> {
    let of = |state: ReplicaState| records.iter().filter(move |record| record.info.state == state);
    let mut finished = of(ReplicaState::Finalized).map(|record| record.info.len);
    if let Some(len) = finished.next() {
        if finished.any(|other| other != len) {
            return Err("finished replicas differ in length".to_owned());
        }
        let as_long = of(ReplicaState::Rbw).filter(|record| record.info.len == len);
        return Ok((len, of(ReplicaState::Finalized).chain(as_long).collect()));
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

    fn agreed(records: &[(ReplicaState, u64)]) -> Result<(u64, usize), String> {
        let records: Vec<_> = records.iter().map(|(state, len)| record(*state, *len)).collect();
        agree(&records).map(|(len, all)| (len, all.len()))
    }

    #[test]
    fn stocks_rules_of_precedence() {
        use ReplicaState::{Finalized, Rbw, Rwr};
        assert_eq!(agreed(&[(Finalized, 9), (Rbw, 9), (Rbw, 12), (Rwr, 9)]), Ok((9, 2)));
        assert_eq!(agreed(&[(Rbw, 9), (Rbw, 5), (Rwr, 3)]), Ok((5, 2)));
        assert_eq!(agreed(&[(Rwr, 7), (Rwr, 8)]), Ok((7, 2)));
        assert!(agreed(&[(Finalized, 9), (Finalized, 8)]).is_err());
        assert!(agreed(&[]).is_err());
    }
}
