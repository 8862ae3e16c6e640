//! What is known of the cluster: datanodes, space, blocks in trouble.

use trellis_metastore::schema::Storage;
use trellis_proto::exception::RpcError;
use trellis_proto::hdfs;
use trellis_proto::hdfs::DatanodeReportTypeProto;

use super::located;
use super::plan::Planned;
use crate::datanodes::View;
use crate::datanodes::view::{Liveness, Node, Space};
use crate::engine::permission::check_superuser;
use crate::engine::tx::Tx;
use crate::ops::statistics::{
    CORRUPT_FILE_BLOCKS, ListConcerns, Totals, Trouble, Troubled, list_concerns, pending_deletions,
    replicas_on, totals,
};
use crate::path::Path;
use crate::refusal::Result;

type Plan<A> = std::result::Result<Planned<A>, RpcError>;

/// The space of all storages that work, of datanodes that are not dead.
fn space(view: &View) -> Space {
    let alive = view.nodes().iter().filter(|node| node.liveness != Liveness::Dead).flat_map(|node| {
        node.space.iter().zip(&node.row.storages).filter(|(_, row)| !row.failed).map(|(space, _)| space)
    });
    alive.fold(Space::default(), |sum, space| Space {
        capacity: sum.capacity.saturating_add(space.capacity),
        used: sum.used.saturating_add(space.used),
        remaining: sum.remaining.saturating_add(space.remaining),
        ..Space::default()
    })
}

pub(super) fn fs_stats(_: hdfs::GetFsStatusRequestProto) -> Plan<hdfs::GetFsStatsResponseProto> {
    Ok(Planned::new("/".to_owned(), |tx| {
        let Totals { under_replicated, corrupt, missing, missing_of_one } = totals(tx)?;
        let Space { capacity, used, remaining, .. } = space(&tx.ctx.datanodes);
        Ok(hdfs::GetFsStatsResponseProto {
            capacity,
            used,
            remaining,
            under_replicated,
            corrupt_blocks: corrupt,
            missing_blocks: missing,
            missing_repl_one_blocks: Some(missing_of_one),
            blocks_in_future: Some(0),
            pending_deletion_blocks: Some(pending_deletions(tx)?),
        })
    }))
}

pub(super) fn replicated_block_stats(
    _: hdfs::GetFsReplicatedBlockStatsRequestProto,
) -> Plan<hdfs::GetFsReplicatedBlockStatsResponseProto> {
    Ok(Planned::new("/".to_owned(), |tx| {
        let Totals { under_replicated, corrupt, missing, missing_of_one } = totals(tx)?;
        Ok(hdfs::GetFsReplicatedBlockStatsResponseProto {
            low_redundancy: under_replicated,
            corrupt_blocks: corrupt,
            missing_blocks: missing,
            missing_repl_one_blocks: missing_of_one,
            blocks_in_future: 0,
            pending_deletion_blocks: pending_deletions(tx)?,
            highest_prio_low_redundancy_blocks: Some(0),
        })
    }))
}

/// Whether a report of this kind tells of a datanode. None is ever taken out of service.
fn is_wanted(kind: DatanodeReportTypeProto, node: &Node) -> bool {
    match kind {
        DatanodeReportTypeProto::All => true,
        DatanodeReportTypeProto::Live => node.liveness != Liveness::Dead,
        DatanodeReportTypeProto::Dead => node.liveness == Liveness::Dead,
        DatanodeReportTypeProto::Decommissioning
        | DatanodeReportTypeProto::EnteringMaintenance
        | DatanodeReportTypeProto::InMaintenance => false,
    }
}

/// The datanodes of a report, each with the number of its replicas.
fn report(tx: &mut Tx<'_, '_>, kind: DatanodeReportTypeProto) -> Result<Vec<(Node, u64)>> {
    let view = tx.ctx.datanodes.clone();
    let nodes: Vec<&Node> = view.nodes().iter().filter(|node| is_wanted(kind, node)).collect();
    let storages = nodes.iter().flat_map(|node| &node.row.storages).map(|storage| storage.number);
    let counts = replicas_on(tx, &storages.collect::<Vec<_>>())?;
    let mut counts = counts.into_iter();
    let mut sum = |node: &Node| counts.by_ref().take(node.row.storages.len()).sum();
    let sums: Vec<u64> = nodes.iter().map(|node| sum(node)).collect();
    Ok(nodes.into_iter().cloned().zip(sums).collect())
}

fn info((node, replicas): &(Node, u64)) -> hdfs::DatanodeInfoProto {
    let num_blocks = match node.liveness {
        Liveness::Dead => 0,
        _ => u32::try_from(*replicas).unwrap_or(u32::MAX),
    };
    hdfs::DatanodeInfoProto { num_blocks: Some(num_blocks), ..located::datanode(node) }
}

pub(super) fn datanode_report(
    request: hdfs::GetDatanodeReportRequestProto,
) -> Plan<hdfs::GetDatanodeReportResponseProto> {
    Ok(Planned::new("/".to_owned(), move |tx| {
        check_superuser(&tx.ctx.user, "datanodeReport")?;
        let di = report(tx, request.r#type())?.iter().map(info).collect();
        Ok(hdfs::GetDatanodeReportResponseProto { di })
    }))
}

pub(super) fn datanode_storage_report(
    request: hdfs::GetDatanodeStorageReportRequestProto,
) -> Plan<hdfs::GetDatanodeStorageReportResponseProto> {
    Ok(Planned::new("/".to_owned(), move |tx| {
        check_superuser(&tx.ctx.user, "getDatanodeStorageReport")?;
        let datanode_storage_reports = report(tx, request.r#type())?
            .iter()
            .map(|counted| hdfs::DatanodeStorageReportProto {
                datanode_info: info(counted),
                storage_reports: storage_reports(&counted.0),
            })
            .collect();
        Ok(hdfs::GetDatanodeStorageReportResponseProto { datanode_storage_reports })
    }))
}

#[expect(deprecated, reason = "stock's readers demand the uuid in both places")]
fn storage_reports(node: &Node) -> Vec<hdfs::StorageReportProto> {
    let report = |(row, space): (&Storage, Space)| hdfs::StorageReportProto {
        storage_uuid: row.uuid.clone(),
        failed: Some(row.failed),
        capacity: Some(space.capacity),
        dfs_used: Some(space.used),
        remaining: Some(space.remaining),
        block_pool_used: Some(space.pool_used),
        storage: Some(hdfs::DatanodeStorageProto {
            storage_uuid: row.uuid.clone(),
            state: None,
            storage_type: Some(row.kind),
        }),
        non_dfs_used: Some(space.other_used),
        mount: None,
    };
    let space = |place: usize| node.space.get(place).copied().unwrap_or_default();
    node.row.storages.iter().enumerate().map(|(place, row)| report((row, space(place)))).collect()
}

/// Files with blocks that have no live replica, each named once for each such block, as in stock. The cookie is the id
/// of the last file.
pub(super) fn corrupt_file_blocks(
    request: hdfs::ListCorruptFileBlocksRequestProto,
) -> Plan<hdfs::ListCorruptFileBlocksResponseProto> {
    let cookie = request.cookie.unwrap_or_else(|| "0".to_owned());
    let call = ListConcerns {
        trouble: Trouble::Missing,
        after: cookie.parse().unwrap_or(0),
        under: Path::parse(&request.path)?,
        blocks: CORRUPT_FILE_BLOCKS,
    };
    Ok(Planned::new(request.path, move |tx| {
        let page = list_concerns(tx, &call, "listCorruptFileBlocks")?;
        let cookie = page.files.last().map_or_else(|| cookie.clone(), |file| file.id.to_string());
        let times = |file: Troubled| std::iter::repeat_n(file.path, file.blocks as usize);
        let files = page.files.into_iter().flat_map(times).collect();
        Ok(hdfs::ListCorruptFileBlocksResponseProto {
            corrupt: hdfs::CorruptFileBlocksProto { files, cookie },
        })
    }))
}
