//! The reaper: walks the hidden partitions and frees what is there. Any namenode runs it, several at once do no harm,
//! and there is nothing to resume: the hidden rows are the whole to-do list.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream;
use tokio::sync::watch;
use trellis_metastore::schema::{Inode, Inodes, hidden_partitions};

use super::{AT_ONCE, Bucket, Passed, buckets, pause};
use crate::engine::{Engine, Op};
use crate::ops::reap::{BLOCKS, FILES, Reaped, reap_directory, reap_files};
use crate::refusal::RpcError;

/// Reaps after every detach on this namenode, and every `reap_every`; until `stop`.
pub async fn run(engine: Arc<Engine>, mut stop: watch::Receiver<bool>) {
    loop {
        while !*stop.borrow() {
            match round(&engine, &stop).await {
                Ok(0) => break,
                Ok(entries) => tracing::debug!(entries, "freed deleted files and directories"),
                Err(error) => {
                    tracing::warn!(%error, "freeing what was deleted failed; it is tried again");
                    break;
                }
            }
        }
        tokio::select! {
            () = engine.detached().notified() => {}
            go_on = pause(engine.config().reap_every, &mut stop) => if !go_on { return },
        }
    }
}

/// One round over all hidden partitions, one read when they are empty; answers how many entries went. Children that
/// come under the hidden parent on the way may have to wait for the next round.
pub async fn round(engine: &Arc<Engine>, stop: &watch::Receiver<bool>) -> Result<u64, RpcError> {
    let mut rounds = stream::iter(buckets(engine, hidden_partitions()).await?)
        .map(|bucket| reap_bucket(engine, bucket, stop.clone()))
        .buffer_unordered(AT_ONCE);
    let mut entries = 0;
    while let Some(freed) = rounds.next().await {
        entries += freed?;
    }
    Ok(entries)
}

async fn reap_bucket(
    engine: &Arc<Engine>,
    mut bucket: Bucket<Inodes>,
    stop: watch::Receiver<bool>,
) -> Result<u64, RpcError> {
    let (partition, mut entries) = (bucket.partition, 0);
    let mut passed = Passed::new("freeing what was deleted");
    while let Some(rows) = bucket.next(engine).await? {
        let inodes: Vec<Inode> = rows.into_iter().map(|(_, row)| row.value).collect();
        let (directories, files): (Vec<Inode>, Vec<Inode>) = inodes.into_iter().partition(Inode::is_dir);
        let mut waiting = VecDeque::from(batches(&files));
        while let Some(ids) = waiting.pop_front() {
            let op = || -> Op<Reaped> {
                let ids = ids.clone();
                Box::new(move |tx| reap_files(tx, &ids))
            };
            let (gone, end) = until_done(engine, partition, op, &stop).await;
            entries += gone;
            if let Err(error) = end {
                passed.by(engine, error)?;
                // It is one of them: each is tried alone.
                waiting.extend(ids.iter().filter(|_| ids.len() > 1).map(|id| vec![*id]));
            }
        }
        for id in directories.into_iter().map(|directory| directory.id) {
            let op = || -> Op<Reaped> { Box::new(move |tx| reap_directory(tx, id)) };
            let (gone, end) = until_done(engine, id, op, &stop).await;
            entries += gone.max(u64::from(end.is_ok()));
            if let Err(error) = end {
                passed.by(engine, error)?;
            }
        }
        if *stop.borrow() {
            break;
        }
    }
    Ok(entries)
}

/// Files that one transaction can deal with, together; one with very many blocks is alone.
fn batches(files: &[Inode]) -> Vec<Vec<u64>> {
    let (mut batches, mut blocks) = (vec![Vec::new()], 0u32);
    for file in files {
        let last = batches.len() - 1;
        blocks = blocks.saturating_add(file.block_count);
        match batches[last].is_empty() || (batches[last].len() < FILES && blocks <= BLOCKS) {
            true => batches[last].push(file.id),
            false => {
                batches.push(vec![file.id]);
                blocks = file.block_count;
            }
        }
    }
    batches.retain(|ids| !ids.is_empty());
    batches
}

/// Runs batches until there is no more to do; answers how many entries went, and why it ended before.
async fn until_done(
    engine: &Arc<Engine>,
    target: u64,
    op: impl Fn() -> Op<Reaped>,
    stop: &watch::Receiver<bool>,
) -> (u64, Result<(), RpcError>) {
    let mut entries = 0;
    loop {
        match engine.write_wait(engine.own_ctx(), target, 0, false, op()).await {
            Ok(Reaped { entries: gone, more }) => {
                entries += gone;
                if !more || *stop.borrow() {
                    return (entries, Ok(()));
                }
            }
            Err(error) => return (entries, Err(error)),
        }
    }
}
