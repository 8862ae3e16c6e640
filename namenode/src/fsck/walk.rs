//! The namespace below a path: depth first, the entries of a directory in the order of a listing.
//!
//! On the way down each directory keeps what is left of its page of entries; when that is much in all, the page is dropped
//! and read again on the way back.

use std::collections::VecDeque;

use bytes::Bytes;

use super::report::{FileReport, Totals};
use super::{Done, Ended, Fsck, put};
use crate::engine::permission::{READ, denied, may};
use crate::ops::inspect::{BLOCKS, InspectedFile, inspect, inspect_further};
use crate::ops::list::{GetListing, get_listing};
use crate::ops::status::{FileStatus, get_file_info};
use crate::path::Path;
use crate::refusal::{Kind, RpcError};

/// Files whose blocks are read at once.
const FILES: usize = 64;
/// Entries kept on the way down, beyond which a directory's are read again.
const KEPT: usize = 20_000;

/// A directory on the way.
struct Frame {
    path: Path,
    /// What is left of its page.
    entries: VecDeque<FileStatus>,
    /// The page's last name.
    after: Bytes,
    /// Whether there is a page after it.
    more: bool,
}

impl Frame {
    fn new(path: Path) -> Frame {
        Frame { path, entries: VecDeque::new(), after: Bytes::new(), more: true }
    }

    /// The files that come next, as many as one read takes.
    fn next_files(&mut self) -> Vec<FileStatus> {
        let (mut files, mut blocks) = (Vec::new(), 0u64);
        while files.len() < FILES && blocks < BLOCKS.into() {
            let Some(file) = self.entries.pop_front_if(|entry| !entry.inode.is_dir()) else { break };
            blocks += u64::from(file.inode.block_count);
            files.push(file);
        }
        files
    }
}

impl Fsck<'_> {
    /// What is at a path.
    pub(super) async fn status(&self, path: &Path) -> Done<Option<FileStatus>> {
        let path = path.clone();
        self.read(Box::new(move |tx| get_file_info(tx, &path))).await
    }

    /// Looks at all that is at and below a path.
    pub(super) async fn walk(&mut self, path: Path, status: FileStatus) -> Done<Totals> {
        let mut totals = Totals::default();
        let mut stack = Vec::new();
        if status.inode.is_dir() {
            self.enter(&mut stack, path, &mut totals);
        } else {
            self.files(vec![(path, status)], &mut totals).await?;
        }
        let mut kept = 0;
        while let Some(frame) = stack.last_mut() {
            self.out.pass().await?;
            if frame.entries.is_empty() {
                if !frame.more || !self.next_page(frame).await? {
                    stack.pop();
                    continue;
                }
                kept = stack.iter().map(|frame: &Frame| frame.entries.len()).sum();
                continue;
            }
            let files = frame.next_files();
            if !files.is_empty() {
                let named = |file: FileStatus| (frame.path.child(&file.name), file);
                let files = files.into_iter().map(named).collect();
                self.files(files, &mut totals).await?;
            } else if let Some(directory) = frame.entries.pop_front() {
                let path = frame.path.child(&directory.name);
                if kept > KEPT {
                    frame.entries.clear();
                    (frame.after, frame.more) = (directory.name, true);
                }
                self.enter(&mut stack, path, &mut totals);
            }
        }
        Ok(totals)
    }

    fn enter(&mut self, stack: &mut Vec<Frame>, path: Path, totals: &mut Totals) {
        if self.request.files {
            put(&mut self.out, format_args!("{} <dir>\n", path.text()));
        }
        totals.directories += 1;
        stack.push(Frame::new(path));
    }

    /// Reads a directory's next page; false: it is gone.
    async fn next_page(&self, frame: &mut Frame) -> Done<bool> {
        let call =
            GetListing { path: frame.path.clone(), start_after: frame.after.clone(), with_blocks: false };
        let Some(page) = self.read(Box::new(move |tx| get_listing(tx, &call))).await? else {
            return Ok(false);
        };
        frame.more = page.remaining > 0;
        frame.after = page.entries.last().map(|last| last.name.clone()).unwrap_or_default();
        // The entry of something that is no directory any more has no name.
        frame.entries = page.entries.into_iter().filter(|entry| !entry.name.is_empty()).collect();
        Ok(true)
    }

    /// Looks at files, given with their paths. Who may not read one goes no further, as in stock.
    async fn files(&mut self, files: Vec<(Path, FileStatus)>, totals: &mut Totals) -> Done<()> {
        let ids: Vec<u64> = files.iter().map(|(_, file)| file.inode.id).collect();
        let inspected = self.read(Box::new(move |tx| inspect(tx, &ids))).await?;
        for ((path, status), file) in files.into_iter().zip(inspected) {
            if !may(&self.caller.user, &status.inode, READ) {
                let why = denied(&self.caller.user, path.text(), &status.inode, READ);
                return Err(Ended::Failed(RpcError::new(Kind::AccessControl, why)));
            }
            // Else it was deleted meanwhile.
            if let Some(file) = file {
                self.file(&path, file, totals).await?;
            }
        }
        Ok(())
    }

    async fn file(&mut self, path: &Path, file: InspectedFile, totals: &mut Totals) -> Done<()> {
        if file.inode.open.is_some() && !self.request.open {
            totals.count_open(&file.inode);
            return Ok(());
        }
        let pool = self.service.identity().block_pool_id.clone();
        let view = self.service.engine().datanodes().view();
        let InspectedFile { inode, blocks, more } = file;
        let mut report = FileReport::new(&self.request, &view, &pool, path.text(), &inode);
        report.begin(&mut self.out, totals);
        let mut page = Some((blocks, more));
        while let Some((blocks, more)) = page.take() {
            let last = blocks.last().map(|block| block.ordinal);
            for block in &blocks {
                report.block(&mut self.out, block, totals);
            }
            if let (true, Some(last)) = (more, last) {
                self.out.pass().await?;
                let id = inode.id;
                let further = self.read(Box::new(move |tx| inspect_further(tx, id, last))).await?;
                page = further.map(|file| (file.blocks, file.more));
            }
        }
        report.end(&mut self.out, totals);
        Ok(())
    }
}
