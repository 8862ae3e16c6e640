//! What becomes of a datanode that registers here and tells that it lives: who owns it, what it is told.

use std::sync::Arc;

use tokio::time::Instant;
use trellis_metastore::schema::Datanode;
use trellis_proto::exception::RpcError;

use super::registry::{Beat, Lease};
use super::reports::{inherit, note_storages, take_over};
use crate::engine::{Engine, Op};
use crate::ops::datanodes::{GivenCommand, Register, ToldStorage, register as register_op};

/// What a heartbeat is answered with.
#[derive(Clone, Debug, Default)]
pub struct Answered {
    /// The datanode is to register, anew or at all.
    pub must_register: bool,
    /// The epoch in which this namenode owns it; none = another does.
    pub epoch: Option<u64>,
    /// Leave for a full report.
    pub lease: Option<Lease>,
    /// What it is to do.
    pub commands: Vec<GivenCommand>,
}

/// A datanode registers here; this namenode owns it if nobody does. Answers its row.
pub async fn register(engine: &Arc<Engine>, said: Datanode) -> Result<Arc<Datanode>, RpcError> {
    let claims = engine.datanodes().registry().wants(&said.uuid, Instant::now());
    let call = Register { said, claims };
    let op: Op<Datanode> = Box::new(move |tx| register_op(tx, &call));
    let row = engine.write_wait(engine.own_ctx(), 0, 0, false, op).await?;
    let row = engine.datanodes().registry().registered(row, Instant::now(), engine.now_ms());
    engine.datanodes().show();
    Ok(row)
}

/// A datanode lives, and says how it is. `lease`: it asks leave for a full report; the number, never used before, that
/// the leave would have. `most`: commands at once.
pub async fn heartbeat(
    engine: &Arc<Engine>,
    said: &Datanode,
    beat: &Beat,
    lease: Option<u64>,
    most: usize,
) -> Result<Answered, RpcError> {
    let datanodes = engine.datanodes();
    let uuid = &said.uuid;
    let heard = datanodes.registry().hear(said, beat, Instant::now(), engine.now_ms());
    let Some(heard) = heard else {
        return Ok(Answered { must_register: true, ..Answered::default() });
    };
    let mut row = heard.row;
    if heard.storages_changed {
        let storages: Vec<ToldStorage> = beat.storages.iter().map(|(storage, _)| storage.clone()).collect();
        row = note_storages(engine, uuid, storages, true).await?;
    }
    match heard.is_first {
        true => datanodes.show(),
        false => datanodes.show_soon(),
    }
    let claim = datanodes.registry().wants(uuid, Instant::now());
    if let Some(claim) = claim {
        row = take_over(engine, uuid, claim).await?;
        if row.owner == engine.member() {
            tracing::info!(uuid, row.epoch, "took over a datanode that had no owner");
        }
    }
    if row.owner != engine.member() {
        return Ok(Answered::default());
    }
    let must_register = inherit(engine, uuid).await?;
    let lease = lease.and_then(|id| datanodes.registry().grant(uuid, id, Instant::now(), engine.now_ms()));
    let commands = datanodes.registry().hand_out(uuid, most);
    Ok(Answered { must_register, epoch: Some(row.epoch), lease, commands })
}
