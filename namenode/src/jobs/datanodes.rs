//! Looks at the rows of datanodes again and again: who owns which, which namenodes live, what the own ones are to be
//! told. Leaves those that others should own. On every namenode; one read for all datanodes together.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;
use trellis_metastore::schema::{CommandKind, Datanode};

use super::pause;
use crate::engine::{Engine, Op};
use crate::ops::datanodes::{Forgotten, GivenCommand, PAGE, Survey, forget_commands, release, survey};
use crate::refusal::RpcError;

/// Commands of one datanode that are looked at.
const COMMANDS: u32 = 1000;
/// Rows of commands that all datanodes together bring in one read.
const ALL_COMMANDS: u32 = 20_000;
/// Rows of delivered commands that one transaction removes.
const FORGOTTEN: usize = 1000;

/// Rounds every `datanode_poll`, until `stop`.
pub async fn run(engine: Arc<Engine>, mut stop: watch::Receiver<bool>) {
    loop {
        if let Err(error) = round(&engine).await {
            tracing::warn!(%error, "looking at datanodes failed; it is tried again");
        }
        if !pause(engine.config().datanode_poll, &mut stop).await {
            return;
        }
    }
}

/// One round.
pub async fn round(engine: &Arc<Engine>) -> Result<(), RpcError> {
    forget(engine).await?;
    look(engine).await?;
    let silent = engine.datanodes().registry().to_release(Instant::now());
    for uuid in silent {
        let (member, of) = (engine.member(), uuid.clone());
        let op: Op<Datanode> = Box::new(move |tx| release(tx, &of, member));
        let row = engine.write_wait(engine.own_ctx(), 0, 0, false, op).await?;
        engine.datanodes().registry().adopt(row);
        tracing::info!(uuid, "a datanode is left to other namenodes");
    }
    engine.datanodes().show();
    Ok(())
}

/// Reads what others may have changed.
async fn look(engine: &Arc<Engine>) -> Result<(), RpcError> {
    let owned = engine.datanodes().registry().owned();
    let limit = COMMANDS.min(ALL_COMMANDS / (owned.len().max(1) as u32)).max(1);
    let mut after: Option<String> = None;
    loop {
        // Commands come with the first page.
        let of = if after.is_none() { owned.clone() } else { Vec::new() };
        let from = after.take();
        let op: Op<Survey> = Box::new(move |tx| survey(tx, from.as_deref(), &of, limit));
        let found = engine.read_wait(engine.own_ctx(), 0, op).await?;
        let last = found.datanodes.last().map(|row| row.uuid.clone());
        let is_full = found.datanodes.len() == PAGE as usize;
        let mut registry = engine.datanodes().registry();
        found.datanodes.into_iter().for_each(|row| drop(registry.adopt(row)));
        found.commands.into_iter().for_each(|(number, given)| registry.set_commands(number, given));
        match last.filter(|_| is_full) {
            Some(last) => after = Some(last),
            None => {
                registry.looked(found.members, Instant::now());
                return Ok(());
            }
        }
    }
}

/// Removes the rows of commands that were delivered.
async fn forget(engine: &Arc<Engine>) -> Result<(), RpcError> {
    let delivered = engine.datanodes().registry().delivered();
    for batch in delivered.chunks(FORGOTTEN) {
        let row = |(number, given): &(u32, GivenCommand)| (*number, given.kind, given.block, given.version);
        let rows: Vec<(u32, CommandKind, u64, u64)> = batch.iter().map(row).collect();
        let op: Op<Forgotten> = Box::new(move |tx| forget_commands(tx, &rows));
        engine.write_wait(engine.own_ctx(), 0, 0, false, op).await?;
        engine.datanodes().registry().forget(batch);
    }
    Ok(())
}
