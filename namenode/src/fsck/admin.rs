//! The lists of `trellis admin`: blocks in trouble, datanodes.

use std::fmt::Write;
use std::sync::Arc;

use trellis_metastore::key::Scan;
use trellis_metastore::schema::{Member, Members, Table, members_partition};

use super::lines::Lines;
use super::request::Request;
use super::{Done, Ended, Fsck, put};
use crate::datanodes::view::{Liveness, Node, Space};
use crate::engine::Op;
use crate::ops::replicas::Worth;
use crate::ops::statistics::{ConcernsPage, ListConcerns, Trouble, list_concerns, replicas_on};
use crate::path::Path;
use crate::rpc::call::Caller;
use crate::rpc::service::Service;

/// Blocks of one page.
const PAGE: u64 = 500;
/// What the last line begins with when a list could not be told to its end.
pub const FAILED: &str = "FAILED: ";

/// A list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Blocks in trouble.
    Blocks(Trouble),
    /// Datanodes and their storages.
    Datanodes,
}

impl List {
    /// The list with this name.
    pub fn named(name: &str) -> Option<List> {
        Some(match name {
            "under-replicated" => List::Blocks(Trouble::UnderReplicated),
            "missing" => List::Blocks(Trouble::Missing),
            "corrupt" => List::Blocks(Trouble::Corrupt),
            "datanodes" => List::Datanodes,
            _ => return None,
        })
    }
}

/// Tells a list, until its end or nobody reads any more.
pub async fn run(service: &Arc<Service>, caller: Caller, list: List, out: Lines) {
    let mut fsck = Fsck { service, caller, request: Request::default(), out };
    let outcome = match list {
        List::Blocks(trouble) => fsck.blocks_in(trouble).await,
        List::Datanodes => fsck.datanodes().await,
    };
    if let Err(Ended::Failed(error)) = &outcome {
        put(&mut fsck.out, format_args!("{FAILED}{}\n", error.message));
    }
    if fsck.out.flush().await.is_err() {
        tracing::debug!(?list, "whoever asked for a list has gone");
    }
}

impl Fsck<'_> {
    async fn blocks_in(&mut self, trouble: Trouble) -> Done<()> {
        let (mut after, mut blocks) = (0, 0u64);
        let root = Path::parse("/")?;
        loop {
            let call = ListConcerns { trouble, after, under: root.clone(), blocks: PAGE };
            let page: ConcernsPage =
                self.read(Box::new(move |tx| list_concerns(tx, &call, "listBlocks"))).await?;
            for file in &page.files {
                for (block, wanted) in self.troubled(file, trouble).await? {
                    let (live, corrupt) = (block.count(Worth::Live), block.count(Worth::Corrupt));
                    let name = format!("blk_{}_{}", block.block.id, block.block.stamp);
                    let replicas = format!("{live} of {wanted} replicas live, {corrupt} corrupt");
                    put(
                        &mut self.out,
                        format_args!("{name}\t{} B\t{replicas}\t{}\n", block.block.length, file.path),
                    );
                    blocks += 1;
                }
                self.out.pass().await?;
            }
            match page.next {
                Some(next) => after = next,
                None => break,
            }
        }
        put(&mut self.out, format_args!("{blocks} blocks\n"));
        Ok(())
    }

    async fn datanodes(&mut self) -> Done<()> {
        let view = self.service.engine().datanodes().view();
        let members: Op<Vec<Vec<_>>> = Box::new(|tx| {
            Ok(tx.scan_all::<Members>(&[Scan::of(Members::ID, members_partition(), Scan::MAX_ROWS)])?)
        });
        let members = self.read(members).await?.into_iter().flatten();
        let members: Vec<Member> = members.map(|(_, row)| row.value).collect();
        for node in view.nodes() {
            let numbers: Vec<u32> = node.row.storages.iter().map(|storage| storage.number).collect();
            let counts = self.read(Box::new(move |tx| replicas_on(tx, &numbers))).await?;
            let now_ms = self.service.engine().now_ms();
            let text = shown(node, &members, &counts, now_ms);
            put(&mut self.out, format_args!("{text}"));
            self.out.pass().await?;
        }
        put(&mut self.out, format_args!("{} datanodes\n", view.nodes().len()));
        Ok(())
    }
}

/// A datanode in lines.
fn shown(node: &Node, members: &[Member], counts: &[u64], now_ms: i64) -> String {
    let row = &node.row;
    let state = match node.liveness {
        Liveness::Live => "live",
        Liveness::Stale => "stale",
        Liveness::Dead => "dead",
    };
    let owner = match members.iter().find(|member| member.incarnation == row.owner && !member.rpc.is_empty())
    {
        Some(member) => format!("owner {} ({})", row.owner, member.rpc),
        None if row.owner == 0 => "no owner".to_owned(),
        None => format!("owner {}, which is gone", row.owner),
    };
    let ago = |at_ms: i64| match at_ms {
        0 => "never".to_owned(),
        at_ms => format!("{} s ago", now_ms.saturating_sub(at_ms).max(0) / 1000),
    };
    let mut text = format!("{}:{} ({}) {}: {state}, {owner}", row.ip, row.data_port, row.host, row.uuid);
    // Writing to a String does not fail.
    let _ = writeln!(text, ", heard {}, full report {}", ago(node.heard_ms), ago(node.reported_ms));
    for (place, storage) in row.storages.iter().enumerate() {
        let Space { capacity, used, remaining, .. } = node.space.get(place).copied().unwrap_or_default();
        let failed = if storage.failed { ", failed" } else { "" };
        let replicas = counts.get(place).copied().unwrap_or_default();
        let space = format!("{used} B used, {remaining} B free of {capacity} B");
        let _ = writeln!(text, "  {}: {space}, {replicas} replicas{failed}", storage.uuid);
    }
    text
}
