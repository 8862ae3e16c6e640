//! What a writer does to a file that it closed: writes on, cuts it off, joins, deletes.

use trellis_metastore::schema::Block;
use trellis_proto::exception::{Kind, RpcError};

use super::writer::{Pipeline, Writer, Written};
use crate::calls::root;
use crate::files::{BLOCK, named};

impl Writer {
    /// Writes behind the end of a file.
    pub(super) async fn append(&mut self, text: &str) {
        let mut written = self.files[text].clone();
        let (holder, new_block) = (self.holder.clone(), self.chance(30));
        let opened = self.once(|nn| {
            let (text, holder) = (text.to_owned(), holder.clone());
            async move { root(&nn).append(&text, &holder, new_block).await }
        });
        let opened = match opened.await {
            // No replica of its last block is on a datanode that lives.
            Err(RpcError { kind: Kind::Io, .. }) => return,
            opened => opened.unwrap_or_else(|error| panic!("{text}: append: {error}")),
        };
        let previous = written
            .blocks
            .last()
            .map(|(id, stamp, length)| named(&Block { id: *id, stamp: *stamp, ..Block::default() }, *length));
        let line = match opened.filter(|_| !new_block) {
            Some(located) => {
                let (id, _, length) = written.blocks.pop().expect("a block to write on");
                assert_eq!((located.block.id, located.block.length), (id, length), "{text}");
                self.note("a partial block");
                self.write_on(located.block, &located.storages).await
            }
            None => {
                let length = 1 + self.world().random(BLOCK);
                let line = self.next_block(text, written.id, previous, length).await;
                line.map(|(line, flushed)| (line, flushed, length))
            }
        };
        let Some((line, flushed, length)) = line else {
            // Nothing of it is lost, whatever becomes of its last block.
            return self.die_after_append(text, written.id).await;
        };
        if self.chance(10) {
            self.farm.forget(line.block.id);
            return self.die(text, written, Some((line, flushed))).await;
        }
        self.farm.forget(line.block.id);
        let last = self.finish(&line, length).await;
        written.blocks.push((last.id, last.stamp, last.bytes));
        self.close(text, written.id, Some(last)).await;
        self.keep(text, written);
        self.note("appended");
    }

    /// Writes on in a block that has room, under a new stamp, wherever its replicas are.
    async fn write_on(&mut self, block: Block, storages: &[u32]) -> Option<(Pipeline, u64, u64)> {
        let had = block.length;
        let on: Vec<usize> = storages.iter().map(|number| self.farm.of_storage(*number)).collect();
        let kept = self.farm.kept(block.id);
        let is_ready =
            |dn: &usize| !self.farm.is_silent(*dn) && kept[*dn].is_some_and(|kept| kept.stamp == block.stamp);
        let left: Vec<usize> = on.into_iter().filter(is_ready).collect();
        if left.is_empty() {
            return None;
        }
        let line = self.rebuild(Pipeline { block, on: left.clone() }, left, had).await?;
        let to = had + 1 + self.world().random(BLOCK - had);
        let to = to.min(BLOCK);
        let (line, flushed) = self.fill(line, had, to).await?;
        Some((line, flushed, to))
    }

    async fn die_after_append(&mut self, text: &str, id: u64) {
        let before = self.let_go(text).expect("it was there");
        self.recover(text).await;
        let found = self.blocks_of(id).await;
        let blocks: Vec<_> = found.iter().map(|block| (block.id, block.stamp, block.length)).collect();
        for (was, is) in before.blocks.iter().zip(&blocks) {
            assert!(was.0 == is.0 && was.2 <= is.2, "{text}: {before:?}, now {blocks:?}");
        }
        assert!(blocks.len() >= before.blocks.len(), "{text}: {before:?}, now {blocks:?}");
        self.keep(text, Written { blocks, ..before });
    }

    pub(super) async fn truncate(&mut self, text: &str) {
        let mut written = self.let_go(text).expect("it is there");
        let lengths =
            |count: usize| written.blocks.iter().take(count).map(|(_, _, length)| length).sum::<u64>();
        // Where a block ends there is nothing to recover.
        let to = match self.chance(40) {
            true => lengths(self.world().random(1 + written.blocks.len() as u64) as usize),
            false => self.world().random(1 + lengths(written.blocks.len())),
        };
        let holder = self.holder.clone();
        let cut = self.once(|nn| {
            let (text, holder) = (text.to_owned(), holder.clone());
            async move { root(&nn).truncate(&text, to as i64, &holder).await }
        });
        match cut.await.unwrap_or_else(|error| panic!("{text}: truncate: {error}")) {
            true => self.note("cut off"),
            false => {
                self.recover(text).await;
                self.note("cut inside");
            }
        }
        let id = written.id;
        let found = self.blocks_of(id).await;
        let is = found.iter().map(|block| block.length).sum::<u64>();
        assert_eq!(is, to, "{text}: {written:?}, now {found:?}");
        written.blocks = found.iter().map(|block| (block.id, block.stamp, block.length)).collect();
        self.keep(text, written);
    }

    pub(super) async fn set_replication(&mut self, text: &str) {
        let replication = 1 + self.world().random(super::farm::DATANODES as u64) as u32;
        let said = self.once(|nn| {
            let text = text.to_owned();
            async move { root(&nn).setrep(&text, replication).await }
        });
        assert_eq!(said.await, Ok(true), "{text}");
        self.files.get_mut(text).expect("it is there").replication = replication;
        self.note("another replication");
    }

    /// Joins another of its files to this one.
    pub(super) async fn join(&mut self, text: &str) {
        // One without blocks is refused.
        let mut others =
            self.files.iter().filter(|(other, written)| *other != text && !written.blocks.is_empty());
        let Some(source) = others.next().map(|(other, _)| other.clone()) else { return };
        let joined = self.once(|nn| {
            let (text, source) = (text.to_owned(), source.clone());
            async move { root(&nn).concat(&text, &[&source]).await }
        });
        joined.await.unwrap_or_else(|error| panic!("concat {source} to {text}: {error}"));
        let moved = self.files.remove(&source).expect("it is there").blocks;
        self.files.get_mut(text).expect("it is there").blocks.extend(moved);
        self.note("joined");
    }

    pub(super) async fn remove(&mut self, text: &str) {
        self.let_go(text);
        let said = self.once(|nn| {
            let text = text.to_owned();
            async move { root(&nn).rm(&text, false).await }
        });
        assert_eq!(said.await, Ok(true), "{text}");
        self.note("deleted");
    }
}
