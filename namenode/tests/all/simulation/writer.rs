//! A client that writes files in a directory of its own and knows what must be in them. It goes from one namenode to the
//! next with the same call; its pipelines lose datanodes; now and then it dies, and another has its file recovered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use trellis_metastore::schema::{Block, Blocks};
use trellis_metastore::sim::{self, World};
use trellis_namenode::engine::ctx::CallId;
use trellis_namenode::ops::write::BlockName;
use trellis_proto::exception::{Kind, RpcError};

use super::PATIENCE;
use super::farm::{Farm, Kept};
use crate::calls::{Answered, root};
use crate::files::{BLOCK, named, try_rows};
use crate::support::Namenode;

/// Times that a writer asks again before it gives up; it waits in between.
const TRIES: usize = 600;
const PAUSE: Duration = Duration::from_millis(100);

/// A closed file: its blocks (id, stamp, length), and how many replicas it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub id: u64,
    pub blocks: Vec<(u64, u64, u64)>,
    pub replication: u32,
}

/// A block that is being written, and where.
pub struct Pipeline {
    pub block: Block,
    pub on: Vec<usize>,
}

pub struct Writer {
    pub farm: Arc<Farm>,
    number: u8,
    calls: i64,
    pub holder: String,
    pub files: BTreeMap<String, Written>,
    /// How often what came about.
    pub seen: BTreeMap<&'static str, usize>,
}

impl Writer {
    pub fn new(farm: Arc<Farm>, number: u8) -> Writer {
        let (files, seen) = (BTreeMap::new(), BTreeMap::new());
        Writer { farm, number, calls: 0, holder: format!("writer{number}"), files, seen }
    }

    pub fn home(&self) -> String {
        format!("/w{}", self.number)
    }

    pub(super) fn world(&self) -> &World {
        &self.farm.world
    }

    pub(super) fn chance(&self, percent: u64) -> bool {
        self.world().random(100) < percent
    }

    pub(super) fn note(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    /// Sends a call under one identity until some namenode answers.
    pub(super) async fn once<T, F: Future<Output = Answered<T>>>(
        &mut self,
        ask: impl Fn(Namenode) -> F,
    ) -> Answered<T> {
        self.calls += 1;
        let id = CallId { client: [self.number + 1; 16], call: self.calls };
        self.send(Some(id), ask).await
    }

    /// Sends a call that may be run again: it has no identity.
    pub(super) async fn again<T, F: Future<Output = Answered<T>>>(
        &mut self,
        ask: impl Fn(Namenode) -> F,
    ) -> Answered<T> {
        self.send(None, ask).await
    }

    async fn send<T, F: Future<Output = Answered<T>>>(
        &self,
        id: Option<CallId>,
        ask: impl Fn(Namenode) -> F,
    ) -> Answered<T> {
        let nodes = &self.farm.nodes;
        let first = self.world().random(nodes.len() as u64) as usize;
        let answer = sim::failover(nodes.len(), first, PATIENCE, TRIES, |node| {
            let asked = ask(Namenode::of(nodes[node].engine.clone(), id));
            async move {
                match asked.await {
                    Err(error) if is_passing(&error) => {
                        sleep(PAUSE).await;
                        None
                    }
                    answer => Some(answer),
                }
            }
        });
        answer.await.unwrap_or_else(|| panic!("{}: no namenode answers", self.holder))
    }

    pub async fn work(&mut self, rounds: usize) {
        let home = self.home();
        self.once(|nn| async {
            let (nn, home) = (nn, home.clone());
            root(&nn).mk(&home).await
        })
        .await
        .unwrap();
        for _ in 0..rounds {
            sleep(Duration::from_millis(self.world().random(2_000))).await;
            let text = format!("{home}/f{}", self.world().random(3));
            match (self.world().random(10), self.files.contains_key(&text)) {
                (0..4, _) | (_, false) => self.write(&text).await,
                (4..6, _) => self.append(&text).await,
                (6, _) => self.truncate(&text).await,
                (7, _) => self.set_replication(&text).await,
                (8, _) => self.join(&text).await,
                _ => self.remove(&text).await,
            }
        }
    }

    /// What a file has is given up before it goes.
    pub(super) fn let_go(&mut self, text: &str) -> Option<Written> {
        let old = self.files.remove(text)?;
        old.blocks.iter().for_each(|(block, ..)| self.farm.forget(*block));
        Some(old)
    }

    pub(super) fn keep(&mut self, text: &str, written: Written) {
        for (block, stamp, length) in &written.blocks {
            self.farm.promise(*block, *stamp, *length);
        }
        self.files.insert(text.to_owned(), written);
    }

    /// A new file of up to three blocks, in place of an older one.
    async fn write(&mut self, text: &str) {
        self.let_go(text);
        let holder = self.holder.clone();
        let made = self.once(|nn| {
            let mut call = crate::calls::new_file(text, &holder, 3);
            call.block_size = BLOCK;
            async move { root(&nn).create_as(call).await }
        });
        let id = made.await.unwrap().id;
        let (mut blocks, mut previous) = (Vec::new(), None);
        for _ in 0..self.world().random(4) {
            let length = [9, 100, BLOCK][self.world().random(3) as usize];
            let Some(last) = self.next_block(text, id, previous.clone(), length).await else {
                return self.die(text, Written { id, blocks, replication: 3 }, None).await;
            };
            if self.chance(10) {
                // What it flushed is on all datanodes of the pipeline.
                let flushed = last.1;
                return self.die(text, Written { id, blocks, replication: 3 }, Some((last.0, flushed))).await;
            }
            let name = self.finish(&last.0, length).await;
            blocks.push((name.id, name.stamp, name.bytes));
            previous = Some(name);
        }
        self.close(text, id, previous).await;
        self.keep(text, Written { id, blocks, replication: 3 });
        self.note("written");
    }

    /// Another block of a file with so many bytes, of which some were flushed: its pipeline, and how many.
    pub(super) async fn next_block(
        &mut self,
        text: &str,
        id: u64,
        previous: Option<BlockName>,
        length: u64,
    ) -> Option<(Pipeline, u64)> {
        let holder = self.holder.clone();
        loop {
            let asked = self.again(|nn| {
                let (text, holder, previous) = (text.to_owned(), holder.clone(), previous.clone());
                async move { root(&nn).add_block(&text, id, &holder, previous).await }
            });
            let located = asked.await.unwrap_or_else(|error| panic!("{text}: the next block: {error}"));
            let block = located.block;
            let on: Vec<usize> =
                located.storages.iter().map(|number| self.farm.of_storage(*number)).collect();
            // A pipeline that cannot be built is given up, and the next one asked for.
            if on.iter().all(|dn| self.farm.is_silent(*dn)) || self.chance(10) {
                let name = named(&block, 0);
                let given_up = self.again(|nn| {
                    let (text, holder, name) = (text.to_owned(), holder.clone(), name.clone());
                    async move { root(&nn).abandon(&text, id, &holder, name).await }
                });
                given_up.await.unwrap();
                self.note("abandoned");
                sleep(PAUSE).await;
                continue;
            }
            return self.fill(Pipeline { block, on }, 0, length).await;
        }
    }

    /// Writes to a pipeline, which may lose datanodes. Answers how many bytes were flushed; `None`: it lost all.
    pub(super) async fn fill(&mut self, mut line: Pipeline, from: u64, to: u64) -> Option<(Pipeline, u64)> {
        let flushed = from + self.world().random(to - from + 1);
        self.put(&line, flushed, false);
        let (farm, some) = (self.farm.clone(), self.chance(20));
        let fails = line.on.iter().any(|dn| farm.is_silent(*dn)) || some;
        if fails {
            let last = line.on.len() - 1;
            let mut left: Vec<usize> = line.on.iter().copied().filter(|dn| !farm.is_silent(*dn)).collect();
            if some && left.len() > 1 && left.len() > last {
                left.remove(self.world().random(left.len() as u64) as usize);
            }
            if left.is_empty() {
                return None;
            }
            line = self.rebuild(line, left, flushed).await?;
            self.note("a new pipeline");
        }
        Some((line, flushed))
    }

    /// What is on the datanodes of a pipeline that hear.
    fn put(&self, line: &Pipeline, length: u64, is_whole: bool) {
        let kept = Kept { stamp: line.block.stamp, length, is_whole };
        for dn in line.on.iter().filter(|dn| !self.farm.is_silent(**dn)) {
            self.farm.put(*dn, line.block.id, kept);
        }
    }

    /// The same block with its next stamp, on the datanodes that are left.
    pub(super) async fn rebuild(
        &mut self,
        line: Pipeline,
        left: Vec<usize>,
        length: u64,
    ) -> Option<Pipeline> {
        let (holder, old) = (self.holder.clone(), named(&line.block, length));
        let asked = self.again(|nn| {
            let (holder, old) = (holder.clone(), old.clone());
            async move { root(&nn).next_stamp(old, &holder).await }
        });
        let stamp = asked.await.unwrap_or_else(|error| panic!("a stamp for {old}: {error}"));
        let line = Pipeline { block: Block { stamp, ..line.block }, on: left };
        self.put(&line, length, false);
        let new = named(&line.block, length);
        let on: Vec<u32> = line.on.iter().map(|dn| *dn as u32).collect();
        let told = self.once(|nn| {
            let (holder, old, new, on) = (holder.clone(), old.clone(), new.clone(), on.clone());
            async move { root(&nn).new_pipeline(old, new, &holder, &on).await }
        });
        told.await.unwrap_or_else(|error| panic!("a pipeline for {old}: {error}"));
        Some(line)
    }

    /// Ends a block: its datanodes have all of it.
    pub(super) async fn finish(&mut self, line: &Pipeline, length: u64) -> BlockName {
        let kept = Kept { stamp: line.block.stamp, length, is_whole: true };
        // Those that fell silent since had it before.
        line.on.iter().for_each(|dn| self.farm.put(*dn, line.block.id, kept));
        named(&line.block, length)
    }

    pub(super) async fn close(&mut self, text: &str, id: u64, last: Option<BlockName>) {
        let holder = self.holder.clone();
        for _ in 0..TRIES {
            let asked = self.once(|nn| {
                let (text, holder, last) = (text.to_owned(), holder.clone(), last.clone());
                async move { root(&nn).close(&text, id, &holder, last).await }
            });
            if asked.await.unwrap_or_else(|error| panic!("{text}: complete: {error}")) {
                return;
            }
            self.note("waited for replicas");
            sleep(PAUSE).await;
        }
        panic!("{text} is never closed");
    }

    /// The writer of a file is gone, and another has it recovered: what was flushed must be there.
    pub(super) async fn die(&mut self, text: &str, mut written: Written, last: Option<(Pipeline, u64)>) {
        for dn in last.iter().flat_map(|(line, _)| line.on.clone()) {
            // Datanodes are at different places behind what was flushed.
            let (line, flushed) = last.as_ref().expect("it has datanodes");
            if self.chance(50) && !self.farm.is_silent(dn) {
                let length = (*flushed + self.world().random(20)).min(BLOCK);
                self.farm.put(dn, line.block.id, Kept { stamp: line.block.stamp, length, is_whole: false });
            }
        }
        self.recover(text).await;
        self.note("recovered");
        let found = self.blocks_of(written.id).await;
        let (head, tail) = found.split_at(written.blocks.len().min(found.len()));
        let names: Vec<_> = head.iter().map(|block| (block.id, block.stamp, block.length)).collect();
        assert_eq!(names, written.blocks, "{text}");
        match (tail, &last) {
            ([], None) => {}
            ([], Some((line, flushed))) => {
                assert_eq!(*flushed, 0, "{text}: {} of block {} is gone", flushed, line.block.id);
            }
            ([block], Some((line, flushed))) => {
                assert_eq!(block.id, line.block.id, "{text}");
                assert!((*flushed..=BLOCK).contains(&block.length), "{text}: {flushed} of {block:?}");
            }
            ([block], None) => assert_eq!(block.length, 0, "{text}"),
            _ => panic!("{text}: {tail:?}"),
        }
        written.blocks.extend(tail.iter().map(|block| (block.id, block.stamp, block.length)));
        self.keep(text, written);
    }

    /// The blocks of a file.
    pub(super) async fn blocks_of(&mut self, id: u64) -> Vec<Block> {
        self.again(|nn| async move { try_rows::<Blocks>(&nn, id).await }).await.unwrap()
    }

    /// Asks until the file is closed.
    pub(super) async fn recover(&mut self, text: &str) {
        for _ in 0..TRIES {
            let asked = self.once(|nn| {
                let text = text.to_owned();
                async move { root(&nn).recover(&text, "another").await }
            });
            match asked.await {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) if error.kind == Kind::AlreadyBeingCreated => {}
                Err(error) => panic!("{text}: recoverLease: {error}"),
            }
            sleep(PAUSE * 5).await;
        }
        panic!("{text} is never recovered");
    }
}

/// What another try may get past.
fn is_passing(error: &RpcError) -> bool {
    matches!(error.kind, Kind::Retriable | Kind::Standby | Kind::NotReplicatedYet)
        || error.message.contains("could only be written to")
}
