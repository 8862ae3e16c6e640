//! DatanodeProtocol: what datanodes report of their replicas; and what readers do.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::Instant;
use trellis_metastore::schema::Datanode;
use trellis_proto::exception::{Kind, RpcError};
use trellis_proto::hdfs::datanode as wire;
use trellis_proto::hdfs::datanode::received_deleted_block_info_proto::BlockStatus;

use super::block_list;
use super::call::Caller;
use super::datanode::{Answer, check_pool, told};
use super::service::Service;
use crate::datanodes::reports::{self, known, note_storages};
use crate::datanodes::view::View;
use crate::engine::Op;
use crate::ops::datanodes::ToldStorage;
use crate::ops::report::{Applied, Bad, Reported, What, condemn};

/// A report that came without a lease was begun at most so long ago.
const UNLEASED_AGE_MS: i64 = 60_000;
/// Replicas reported as bad that one transaction deals with.
const BAD_AT_ONCE: usize = 100;

/// The numbers of the storages in a report, in its order; those that are new get theirs now.
async fn numbers(service: &Service, uuid: &str, storages: Vec<ToldStorage>) -> Answer<Vec<Option<u32>>> {
    let engine = service.engine();
    let mut row = known(engine, uuid)?;
    let number = |row: &Datanode, uuid: &str| row.storages.iter().find(|s| s.uuid == uuid).map(|s| s.number);
    let new: Vec<ToldStorage> =
        storages.iter().filter(|told| number(&row, &told.uuid).is_none()).cloned().collect();
    if !new.is_empty() {
        row = note_storages(engine, uuid, new, false).await?;
    }
    Ok(storages.iter().map(|told| number(&row, &told.uuid)).collect())
}

pub(super) async fn received_and_deleted(
    service: Arc<Service>,
    _: Caller,
    request: wire::BlockReceivedAndDeletedRequestProto,
) -> Answer<wire::BlockReceivedAndDeletedResponseProto> {
    check_pool(&service, &request.block_pool_id)?;
    let uuid = &request.registration.datanode_id.datanode_uuid;
    #[allow(deprecated, reason = "old software names storages so")]
    let storage =
        |of: &wire::StorageReceivedDeletedBlocksProto| told(of.storage.as_ref(), &of.storage_uuid, false);
    let storages = numbers(&service, uuid, request.blocks.iter().map(storage).collect()).await?;
    let mut replicas = Vec::new();
    for (of, storage) in request.blocks.iter().zip(storages) {
        let Some(storage) = storage else { continue };
        replicas.extend(of.blocks.iter().map(|info| reported(storage, info)));
    }
    service.engine().datanodes().told(uuid, &replicas);
    reports::incremental(service.engine(), uuid, replicas).await?;
    Ok(wire::BlockReceivedAndDeletedResponseProto {})
}

fn reported(storage: u32, info: &wire::ReceivedDeletedBlockInfoProto) -> Reported {
    let what = match info.status() {
        BlockStatus::Receiving => What::Receiving,
        BlockStatus::Received => What::Received(info.delete_hint.clone().filter(|hint| !hint.is_empty())),
        BlockStatus::Deleted => What::Deleted,
    };
    let block = &info.block;
    Reported { storage, block: block.block_id, stamp: block.gen_stamp, length: block.num_bytes(), what }
}

pub(super) async fn block_report(
    service: Arc<Service>,
    _: Caller,
    request: wire::BlockReportRequestProto,
) -> Answer<wire::BlockReportResponseProto> {
    check_pool(&service, &request.block_pool_id)?;
    let engine = service.engine();
    let uuid = &request.registration.datanode_id.datanode_uuid;
    let lease_id = request.context.as_ref().map_or(0, wire::BlockReportContextProto::lease_id);
    let row = known(engine, uuid)?;
    let granted_ms = match lease_id {
        0 => engine.now_ms().saturating_sub(UNLEASED_AGE_MS),
        id => match engine.datanodes().registry().lease(uuid, id, Instant::now()) {
            Some(lease) => lease.granted_ms,
            None => {
                let why = format!("block report lease 0x{id:x} of {uuid} is not valid any more");
                return Err(RpcError::new(Kind::InvalidBlockReportLease, why));
            }
        },
    };
    if row.owner != engine.member() {
        // It sends this to its owner as well; here it is to come again if this one owns it.
        let why = format!("{uuid} has another owner");
        return Err(RpcError::new(Kind::InvalidBlockReportLease, why));
    }
    let closed = |_| RpcError::new(Kind::Retriable, "this namenode ends");
    let _leave = engine.datanodes().full_reports().acquire().await.map_err(closed)?;
    let storages = request.reports.iter().map(|report| told(Some(&report.storage), "", false)).collect();
    let numbers = numbers(&service, uuid, storages).await?;
    for (report, storage) in request.reports.into_iter().zip(numbers) {
        let Some(storage) = storage else { continue };
        // Millions of blocks are sorted: no other connection waits for that.
        let reading = tokio::task::spawn_blocking(move || block_list::replicas(&report));
        let listed = reading.await.map_err(|_| RpcError::new(Kind::Retriable, "this namenode ends"))??;
        let compared = reports::full(engine, uuid, storage, &listed, granted_ms).await?;
        tracing::info!(
            uuid,
            storage,
            listed = listed.len(),
            compared.rows,
            compared.differing,
            "a full report"
        );
    }
    let is_last = |context: &wire::BlockReportContextProto| context.cur_rpc + 1 >= context.total_rpcs;
    if request.context.as_ref().is_none_or(is_last) {
        engine.datanodes().registry().reported(uuid, engine.now_ms());
    }
    Ok(wire::BlockReportResponseProto { cmd: None })
}

/// Centralized caching is not supported: there is nothing to note.
pub(super) fn cache_report(
    service: &Service,
    _: &Caller,
    request: wire::CacheReportRequestProto,
) -> Answer<wire::CacheReportResponseProto> {
    check_pool(service, &request.block_pool_id)?;
    Ok(wire::CacheReportResponseProto { cmd: None })
}

pub(super) async fn report_bad_blocks(
    service: Arc<Service>,
    _: Caller,
    request: wire::ReportBadBlocksRequestProto,
) -> Answer<wire::ReportBadBlocksResponseProto> {
    note_bad(&service, &request.blocks).await?;
    Ok(wire::ReportBadBlocksResponseProto {})
}

/// The same from a reader.
pub(super) async fn client_reports_bad_blocks(
    service: Arc<Service>,
    _: Caller,
    request: trellis_proto::hdfs::ReportBadBlocksRequestProto,
) -> Answer<trellis_proto::hdfs::ReportBadBlocksResponseProto> {
    note_bad(&service, &request.blocks).await?;
    Ok(trellis_proto::hdfs::ReportBadBlocksResponseProto {})
}

/// Notes replicas whose bytes are not what they were, in bounded batches.
async fn note_bad(service: &Service, blocks: &[trellis_proto::hdfs::LocatedBlockProto]) -> Answer<()> {
    let engine = service.engine();
    let view = engine.datanodes().view();
    let mut bad = blocks.iter().flat_map(|located| {
        let (block, stamp) = (located.b.block_id, located.b.generation_stamp);
        storages_named(&view, located).into_iter().map(move |storage| Bad { block, stamp, storage })
    });
    loop {
        let call: Vec<Bad> = bad.by_ref().take(BAD_AT_ONCE).collect();
        if call.is_empty() {
            return Ok(());
        }
        let op: Op<Applied> = Box::new(move |tx| condemn(tx, &call));
        let done = engine.write_wait(engine.own_ctx(), 0, 0, false, op).await?;
        engine.datanodes().counts().applied(&done);
        tracing::info!(done.condemned, "corrupt replicas were reported");
    }
}

/// The storages whose replicas are meant, each once. Stock readers name the datanode alone: then it is whichever of its
/// storages has one.
fn storages_named(view: &View, located: &trellis_proto::hdfs::LocatedBlockProto) -> BTreeSet<u32> {
    let number = |uuid: &String| view.storage_by_uuid(uuid).map(|storage| storage.row().number);
    let named: BTreeSet<u32> = located.storage_i_ds.iter().filter_map(number).collect();
    if !named.is_empty() {
        return named;
    }
    let nodes = located.locs.iter().filter_map(|node| view.node(&node.id.datanode_uuid));
    nodes.flat_map(|node| node.row.storages.iter().map(|storage| storage.number)).collect()
}
