//! Blocks in trouble, and blocks by their ids.

use super::{Done, Fsck, put};
use crate::engine::Op;
use crate::engine::permission::check_superuser;
use crate::ops::inspect::{Inspected, InspectedFile, inspect, inspect_block, inspect_further};
use crate::ops::replicas::{Worth, is_complete};
use crate::ops::statistics::{
    CORRUPT_FILE_BLOCKS, ConcernsPage, ListConcerns, Trouble, Troubled, list_concerns,
};
use crate::path::Path;

/// What an id of a block begins with.
const PREFIX: &str = "blk_";

/// Whether a block is in this trouble. One that is being written is in none.
fn has(trouble: Trouble, block: &Inspected, replication: u32) -> bool {
    let live = block.count(Worth::Live);
    is_complete(&block.block)
        && match trouble {
            Trouble::UnderReplicated => live > 0 && live < replication as usize,
            Trouble::Missing => live == 0,
            Trouble::Corrupt => block.count(Worth::Corrupt) > 0,
        }
}

impl Fsck<'_> {
    /// A page of the blocks without a live replica.
    pub(super) async fn corrupt_blocks(&mut self, under: Path) -> Done<()> {
        let (mut after, mut told, mut text) = (self.request.start_after, 0, String::new());
        loop {
            let call = ListConcerns {
                trouble: Trouble::Missing,
                after,
                under: under.clone(),
                blocks: CORRUPT_FILE_BLOCKS,
            };
            let op: Op<ConcernsPage> = Box::new(move |tx| list_concerns(tx, &call, "listCorruptFileBlocks"));
            let page = self.read(op).await?;
            for file in &page.files {
                after = file.id;
                for (block, replication) in self.troubled(file, Trouble::Missing).await? {
                    told += 1;
                    text += &format!("{PREFIX}{}\t{replication}\t{}\n", block.block.id, file.path);
                }
            }
            match page.next {
                Some(next) if told == 0 => after = next,
                _ => break,
            }
        }
        let count = match told {
            0 if self.request.start_after == 0 => "no".to_owned(),
            0 => "no more".to_owned(),
            told => told.to_string(),
        };
        put(&mut self.out, format_args!("Cookie:\t{after}\n{text}"));
        let path = &self.request.path;
        put(
            &mut self.out,
            format_args!("\n\nThe filesystem under path '{path}' has {count} CORRUPT files\n\n"),
        );
        Ok(())
    }

    /// The blocks of a file that are in this trouble now, each with the file's replication.
    pub(super) async fn troubled(&self, file: &Troubled, trouble: Trouble) -> Done<Vec<(Inspected, u32)>> {
        let (id, mut all) = (file.id, Vec::new());
        let first: Vec<Option<InspectedFile>> = self.read(Box::new(move |tx| inspect(tx, &[id]))).await?;
        let mut page = first.into_iter().flatten().next();
        while let Some(InspectedFile { inode, blocks, more }) = page.take() {
            let last = blocks.last().map(|block| block.ordinal);
            let in_trouble = blocks.into_iter().filter(|block| has(trouble, block, inode.replication));
            all.extend(in_trouble.map(|block| (block, inode.replication)));
            if let (true, Some(last)) = (more, last) {
                page = self.read(Box::new(move |tx| inspect_further(tx, id, last))).await?;
            }
        }
        Ok(all)
    }

    /// The blocks that are asked for by name.
    pub(super) async fn blocks_by_id(&mut self) -> Done<()> {
        check_superuser(&self.caller.user, "fsck")?;
        for name in self.request.block_ids.clone() {
            let Some(number) = name.strip_prefix(PREFIX) else {
                put(&mut self.out, format_args!("Incorrect blockId format: {name}\n"));
                continue;
            };
            put(&mut self.out, format_args!("\n"));
            // blk_ID or blk_ID_STAMP.
            let id = number.split('_').next().and_then(|id| id.parse().ok());
            let found = match id {
                Some(id) => self.read(Box::new(move |tx| inspect_block(tx, id))).await?,
                None => None,
            };
            match found {
                None => put(&mut self.out, format_args!("Block {name} does not exist\n")),
                Some((path, inode, block)) => {
                    let wanted = inode.replication as usize;
                    put(&mut self.out, format_args!("Block Id: {name}\nBlock belongs to: {}\n", path.text()));
                    self.tell_replicas(&block, wanted);
                }
            }
            self.out.pass().await?;
        }
        Ok(())
    }

    fn tell_replicas(&mut self, block: &Inspected, wanted: usize) {
        let live = block.count(Worth::Live);
        let numbers = [
            ("Expected", wanted),
            ("live", live),
            ("excess", live.saturating_sub(wanted) + block.count(Worth::Leaving)),
            ("stale", 0),
            ("decommissioned", 0),
            ("decommissioning", 0),
            ("corrupted", block.count(Worth::Corrupt)),
        ];
        for (what, number) in numbers {
            put(&mut self.out, format_args!("No. of {what} Replica: {number}\n"));
        }
        let view = self.service.engine().datanodes().view();
        for (number, worth) in &block.replicas {
            let is_there = !matches!(worth, Worth::Gone | Worth::Coming);
            let Some(storage) = view.storage(*number).filter(|_| is_there) else { continue };
            let state = if *worth == Worth::Corrupt {
                "CORRUPT\t ReasonCode: CORRUPTION_REPORTED"
            } else {
                "HEALTHY"
            };
            let host = &storage.node.row.host;
            put(
                &mut self.out,
                format_args!("Block replica on datanode/rack: {host}/default-rack is {state}\n"),
            );
        }
    }
}
