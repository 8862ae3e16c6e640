//! What is said of a file, and of all together, in stock's words.

use std::fmt::{self, Write};

use trellis_metastore::schema::Inode;

use super::lines::Lines;
use super::put;
use super::request::{Places, Request};
use crate::datanodes::View;
use crate::datanodes::view::{Liveness, Storage};
use crate::ops::inspect::Inspected;
use crate::ops::replicas::{Worth, is_complete};

/// Replicas that a block must have to be there at all (`dfs.namenode.replication.min`).
const MIN_REPLICATION: usize = 1;

/// The names of storage types, by their numbers on the wire.
const STORAGE_TYPES: [&str; 6] = ["DISK", "SSD", "ARCHIVE", "RAM_DISK", "PROVIDED", "NVDIMM"];

/// Everything below the path, added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Directories.
    pub directories: u64,
    files: u64,
    bytes: u64,
    blocks: u64,
    open_files: u64,
    open_bytes: u64,
    open_blocks: u64,
    /// Files with missing or corrupt blocks.
    bad_files: u64,
    missing: u64,
    missing_bytes: u64,
    corrupt: u64,
    corrupt_bytes: u64,
    under_minimum: u64,
    at_minimum: u64,
    over: u64,
    under: u64,
    replicas: u64,
    replicas_wanted: u64,
    replicas_lacking: u64,
}

impl Totals {
    /// Whether no block is missing or corrupt.
    pub fn is_healthy(&self) -> bool {
        self.missing == 0 && self.corrupt == 0
    }

    /// Counts a file that is being written, and is not looked at.
    pub fn count_open(&mut self, inode: &Inode) {
        self.open_files += 1;
        self.open_bytes += inode.length;
        self.open_blocks += u64::from(inode.block_count);
    }

    /// All of it as text. `nodes`: datanodes that live; `replication`: what new files get.
    pub fn shown(&self, nodes: usize, replication: u32) -> String {
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = self.write(&mut text, nodes, replication);
        text
    }

    fn write(&self, out: &mut String, nodes: usize, replication: u32) -> fmt::Result {
        let state = if self.is_healthy() { "HEALTHY" } else { "CORRUPT" };
        write!(out, "Status: {state}\n Number of data-nodes:\t{nodes}\n")?;
        write!(out, " Number of racks:\t\t{}\n Total dirs:\t\t\t{}\n", nodes.min(1), self.directories)?;
        write!(out, " Total symlinks:\t\t0\n\nReplicated Blocks:\n Total size:\t{} B", self.bytes)?;
        if self.open_bytes > 0 {
            write!(out, " (Total open files size: {} B)", self.open_bytes)?;
        }
        write!(out, "\n Total files:\t{}", self.files)?;
        if self.open_files > 0 {
            write!(out, " (Files currently being written: {})", self.open_files)?;
        }
        write!(out, "\n Total blocks (validated):\t{}", self.blocks)?;
        if let Some(average) = self.bytes.checked_div(self.blocks) {
            write!(out, " (avg. block size {average} B)")?;
        }
        if self.open_blocks > 0 {
            write!(out, " (Total open file blocks (not validated): {})", self.open_blocks)?;
        }
        self.write_bad(out)?;
        let average = float(self.replicas as f32 / self.blocks.max(1) as f32);
        write!(out, "\n Minimally replicated blocks:\t{}{}", self.at_minimum, self.share(self.at_minimum))?;
        write!(out, "\n Over-replicated blocks:\t{}{}", self.over, self.share(self.over))?;
        write!(out, "\n Under-replicated blocks:\t{}{}", self.under, self.share(self.under))?;
        write!(out, "\n Mis-replicated blocks:\t\t0{}", self.share(0))?;
        write!(out, "\n Default replication factor:\t{replication}\n Average block replication:\t{average}")?;
        write!(out, "\n Missing blocks:\t\t{}\n Corrupt blocks:\t\t{}", self.missing, self.corrupt)?;
        write!(out, "\n Missing replicas:\t\t{}", self.replicas_lacking)?;
        if self.replicas > 0 {
            write!(out, "{}", share(self.replicas_lacking, self.replicas_wanted))?;
        }
        out.write_str("\n Blocks queued for replication:\t0\n\n")?;
        out.write_str(NO_ERASURE_CODING)
    }

    fn write_bad(&self, out: &mut String) -> fmt::Result {
        if self.bad_files == 0 && self.under_minimum == 0 {
            return Ok(());
        }
        out.write_str("\n  ********************************")?;
        if self.under_minimum > 0 {
            let share = self.share(self.under_minimum);
            write!(out, "\n  UNDER MIN REPL'D BLOCKS:\t{}{share}", self.under_minimum)?;
            write!(out, "\n  MINIMAL BLOCK REPLICATION:\t{MIN_REPLICATION}")?;
        }
        if self.bad_files > 0 {
            write!(out, "\n  CORRUPT FILES:\t{}", self.bad_files)?;
        }
        if self.missing > 0 {
            write!(out, "\n  MISSING BLOCKS:\t{}", self.missing)?;
            write!(out, "\n  MISSING SIZE:\t\t{} B", self.missing_bytes)?;
        }
        if self.corrupt > 0 {
            write!(out, "\n  CORRUPT BLOCKS: \t{}", self.corrupt)?;
            write!(out, "\n  CORRUPT SIZE:\t\t{} B", self.corrupt_bytes)?;
        }
        out.write_str("\n  ********************************")
    }

    fn share(&self, blocks: u64) -> String {
        if self.blocks == 0 { String::new() } else { share(blocks, self.blocks) }
    }
}

/// Stock's part about what there is none of.
const NO_ERASURE_CODING: &str = "Erasure Coded Block Groups:
 Total size:\t0 B
 Total files:\t0
 Total block groups (validated):\t0
 Minimally erasure-coded block groups:\t0
 Over-erasure-coded block groups:\t0
 Under-erasure-coded block groups:\t0
 Unsatisfactory placement block groups:\t0
 Average block group size:\t0.0
 Missing block groups:\t\t0
 Corrupt block groups:\t\t0
 Missing internal blocks:\t0
 Blocks queued for replication:\t0
";

fn share(part: u64, whole: u64) -> String {
    format!(" ({} %)", float((part * 100) as f32 / whole.max(1) as f32))
}

/// A number as Java writes a `float`.
fn float(number: f32) -> String {
    if number == 0.0 || (1e-3..1e7).contains(&number) {
        return format!("{number:?}");
    }
    let text = format!("{number:E}");
    match text.split_once('E') {
        Some((digits, power)) if !digits.contains('.') => format!("{digits}.0E{power}"),
        _ => text,
    }
}

/// What is said of one file.
pub struct FileReport<'f> {
    request: &'f Request,
    view: &'f View,
    pool: &'f str,
    path: &'f str,
    inode: &'f Inode,
    /// Lines about its blocks.
    blocks: String,
    count: u64,
    missing: (u64, u64),
    corrupt: (u64, u64),
    under: u64,
}

impl<'f> FileReport<'f> {
    /// A report on a file, whose blocks come one after the other.
    pub fn new(request: &'f Request, view: &'f View, pool: &'f str, path: &'f str, inode: &'f Inode) -> Self {
        let (blocks, missing, corrupt) = (String::new(), (0, 0), (0, 0));
        FileReport { request, view, pool, path, inode, blocks, count: 0, missing, corrupt, under: 0 }
    }

    /// Before its blocks.
    pub fn begin(&self, out: &mut Lines, totals: &mut Totals) {
        let Inode { length, replication, block_count, .. } = self.inode;
        totals.files += 1;
        totals.bytes += length;
        totals.blocks += u64::from(*block_count);
        let is_open = self.inode.open.is_some();
        if is_open || self.request.files {
            let open = if is_open { ", OPENFORWRITE" } else { "" };
            let what = format!("replicated: replication={replication}, {block_count} block(s){open}: ");
            put(out, format_args!("{} {length} bytes, {what}", self.path));
        }
    }

    /// The next block.
    pub fn block(&mut self, out: &mut Lines, found: &Inspected, totals: &mut Totals) {
        let block = &found.block;
        let name = format!("{}:blk_{}_{}", self.pool, block.id, block.stamp);
        if !is_complete(block) {
            let expected = block.expected.len();
            let line = format!("{}. {name} len={} Expected_repl={expected}", self.count, block.length);
            let places = self.places(block.expected.iter().map(|storage| (*storage, Worth::Unfinished)));
            let _ = write!(self.blocks, "\nUnder Construction Block:\n{line}{places}");
            self.count += 1;
            return;
        }
        let (live, wanted) = (found.count(Worth::Live), self.inode.replication as usize);
        totals.replicas += live as u64;
        totals.replicas_wanted += wanted as u64;
        totals.under_minimum += u64::from(live < MIN_REPLICATION);
        totals.at_minimum += u64::from(live >= MIN_REPLICATION);
        totals.over += u64::from(live > wanted);
        let is_corrupt = found.is_corrupt();
        if is_corrupt {
            self.corrupt = (self.corrupt.0 + 1, self.corrupt.1 + block.length);
            let what = format!("CORRUPT blockpool {} block blk_{}", self.pool, block.id);
            put(out, format_args!("\n{}: {what}\n", self.path));
        }
        if live < wanted && live > 0 {
            totals.replicas_lacking += (wanted - live) as u64;
            totals.under += 1;
            self.under += 1;
            self.tell_under(out, &name, live);
        }
        let _ = write!(self.blocks, "{}. {name} len={}", self.count, block.length);
        if live == 0 && !is_corrupt {
            self.missing = (self.missing.0 + 1, self.missing.1 + block.length);
            self.blocks.push_str(" MISSING!");
        } else {
            let _ = write!(self.blocks, " Live_repl={live}{}", self.places(found.replicas.iter().copied()));
        }
        self.blocks.push('\n');
        self.count += 1;
        if !self.request.files || !self.request.blocks {
            self.blocks.clear();
        }
    }

    fn tell_under(&self, out: &mut Lines, name: &str, live: usize) {
        if !self.request.files {
            put(out, format_args!("\n{}: ", self.path));
        }
        let wanted = self.inode.replication;
        let found = format!("Target Replicas is {wanted} but found {live} live replica(s)");
        let others = "0 decommissioned replica(s), 0 decommissioning replica(s)";
        let maintenance = match self.request.maintenance {
            true => "0, entering maintenance replica(s) and 0 in maintenance replica(s)",
            false => "",
        };
        put(out, format_args!(" Under replicated {name}. {found}, {others}{maintenance}.\n"));
    }

    /// Where replicas are, if that is asked for.
    fn places(&self, replicas: impl Iterator<Item = (u32, Worth)>) -> String {
        if self.request.places == Places::None {
            return String::new();
        }
        let place = |(number, worth): (u32, Worth)| {
            let is_there = !matches!(worth, Worth::Gone | Worth::Coming);
            let storage = self.view.storage(number).filter(|_| is_there)?;
            let shown = self.place(storage);
            Some(match self.request.details {
                true => format!("{shown}({})", standing(storage, worth)),
                false => shown,
            })
        };
        format!("  [{}]", replicas.filter_map(place).collect::<Vec<_>>().join(", "))
    }

    fn place(&self, storage: Storage<'_>) -> String {
        let node = &storage.node.row;
        let address = format!("{}:{}", node.ip, node.data_port);
        match self.request.places {
            Places::Racks => format!("/default-rack/{address}"),
            Places::None | Places::Storages => {
                let row = storage.row();
                let kind = usize::try_from(row.kind - 1).ok().and_then(|kind| STORAGE_TYPES.get(kind));
                format!("DatanodeInfoWithStorage[{address},{},{}]", row.uuid, kind.unwrap_or(&"DISK"))
            }
        }
    }

    /// After its blocks.
    pub fn end(self, out: &mut Lines, totals: &mut Totals) {
        let bad = [("MISSING", self.missing), ("CORRUPT", self.corrupt)];
        totals.missing += self.missing.0;
        totals.missing_bytes += self.missing.1;
        totals.corrupt += self.corrupt.0;
        totals.corrupt_bytes += self.corrupt.1;
        let is_bad = bad.iter().any(|(_, (blocks, _))| *blocks > 0);
        totals.bad_files += u64::from(is_bad);
        for (what, (blocks, bytes)) in bad.into_iter().filter(|(_, (blocks, _))| *blocks > 0) {
            let what = format!("{what} {blocks} blocks of total size {bytes} B");
            match self.request.files {
                true => put(out, format_args!(" {what}\n")),
                false => put(out, format_args!("\n{}: {what}.", self.path)),
            }
        }
        if !self.request.files {
            return;
        }
        if !is_bad && self.under == 0 {
            put(out, format_args!(" OK\n"));
        }
        if self.request.blocks {
            put(out, format_args!("{}\n", self.blocks));
        }
    }
}

/// What is known of a replica.
fn standing(storage: Storage<'_>, worth: Worth) -> &'static str {
    match worth {
        Worth::Corrupt => "CORRUPT",
        Worth::Leaving => "EXCESS",
        _ if storage.node.liveness == Liveness::Stale => "STALE_NODE",
        Worth::Live | Worth::Unfinished | Worth::Coming | Worth::Gone => "LIVE",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_java_writes_them() {
        for (number, text) in [
            (100.0, "100.0"),
            (200.0 / 6.0, "33.333332"),
            (0.0, "0.0"),
            (1e-4, "1.0E-4"),
            (2.5e7, "2.5E7"),
            (0.6, "0.6"),
        ] {
            assert_eq!(float(number), text);
        }
    }
}
