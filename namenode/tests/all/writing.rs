//! Files with blocks: written, read, mended, cut, joined, removed.

use std::time::Duration;

use trellis_metastore::schema::{Block, BlockState, CommandKind, Ordered, Replica, ReplicaState, TableId};
use trellis_namenode::config::Config;
use trellis_namenode::datanodes::view::Liveness;
use trellis_namenode::ops::add_block::{GetAdditionalDatanode, get_additional_datanode};
use trellis_namenode::ops::replicas;
use trellis_namenode::ops::write::BlockName;
use trellis_proto::exception::Kind;

use crate::calls::{As, assert_sound, new_file, refusal, root, written};
use crate::files::{BLOCK, cluster, give_datanodes, named, places, show, storage, uuid};
use crate::reap::{partitions, reap_all};
use crate::support::{Namenode, pass_time};

const FINALIZED: ReplicaState = ReplicaState::Finalized;

pub async fn a_file_is_written_block_by_block() {
    let nn = cluster().await;
    let su = root(&nn);
    let id = su.begin("/d/f", "c1").await;
    let first = su.add_block("/d/f", id, "c1", None).await.unwrap();
    assert_eq!((first.block.id, first.block.stamp, first.offset), (id, 1001, 0));
    assert_eq!(places(&first), [0, 1, 2]);
    // The same call again, from a client that missed the answer.
    assert_eq!(su.add_block("/d/f", id, "c1", None).await.unwrap(), first);
    assert_eq!(su.must("/d/f").await.inode.unfinished, Some(0));
    assert_sound(&nn).await;
    // The first block is committed, and none of its replicas is reported yet.
    let said = named(&first.block, BLOCK);
    let second = su.add_block("/d/f", id, "c1", Some(said.clone())).await.unwrap();
    assert_eq!((second.block.id, second.offset), (1 << 40 | id, BLOCK));
    assert_eq!(su.blocks(id).await[0].state(), BlockState::Committed);
    assert_eq!(su.add_block("/d/f", id, "c1", Some(said)).await.unwrap(), second);
    assert_sound(&nn).await;
    // A third has to wait for that; so has the end of the file.
    let said = named(&second.block, 1000);
    let third = su.add_block("/d/f", id, "c1", Some(said.clone())).await;
    assert_eq!(refusal(third), "NotReplicatedYetException: Not replicated yet: /d/f");
    assert_eq!(su.close("/d/f", id, "c1", Some(said.clone())).await, Ok(false));
    su.report(&first.block, BLOCK, FINALIZED, &[0, 1, 2]).await;
    assert_eq!(su.close("/d/f", id, "c1", Some(said.clone())).await, Ok(false));
    let committed = su.blocks(id).await;
    assert_eq!((committed[0].state(), committed[1].state()), (BlockState::Complete, BlockState::Committed));
    assert_eq!((committed[1].length, su.must("/d/f").await.inode.length), (1000, BLOCK + 1000));
    assert_eq!(su.concern(id).await, None);
    assert_sound(&nn).await;
    // One replica of three is enough to close; somebody must look at it.
    su.report(&second.block, 1000, FINALIZED, &[1]).await;
    assert_eq!(su.close("/d/f", id, "c1", Some(said.clone())).await, Ok(true));
    assert!(su.concern(id).await.is_some());
    assert_eq!(su.close("/d/f", id, "c1", Some(said)).await, Ok(true));
    let inode = su.must("/d/f").await.inode;
    assert_eq!(
        (inode.length, inode.block_count, inode.unfinished, inode.open),
        (BLOCK + 1000, 2, None, None)
    );
    assert_eq!(su.close("/d/f", id, "c1", None).await.unwrap_err().kind, Kind::LeaseExpired);
    assert_sound(&nn).await;
}

/// Numbers and lists from the wire cost no more than they are long.
pub async fn a_request_for_very_many_datanodes() {
    let nn = cluster().await;
    let su = root(&nn);
    let id = su.begin("/f", "c1").await;
    let block = su.add_block("/f", id, "c1", None).await.unwrap().block;
    let ask = async |existing: Vec<String>, excluded: Vec<String>| {
        let (file, block) = (written("/f", id, "c1"), named(&block, 0));
        let count = u32::MAX as usize;
        let call = GetAdditionalDatanode { file, block, existing, excluded, count };
        nn.read(su.user, move |tx| get_additional_datanode(tx, &call)).await
    };
    assert_eq!(places(&ask(vec![uuid(0)], Vec::new()).await.unwrap()), [0, 1, 2]);
    let nobody: Vec<String> = (0..100_000).map(|i| format!("DN-x{i}")).chain(["DN-1".into()]).collect();
    assert_eq!(places(&ask(vec![uuid(0)], nobody).await.unwrap()), [0, 2]);
    assert_eq!(ask(vec![uuid(0); 513], Vec::new()).await.unwrap_err().kind, Kind::Io);
    let said = su.recovered(named(&block, 0), 1002, 1, false, &[0; 513]).await.unwrap_err();
    assert!(said.message.contains("513 storages"), "{said}");
    let again = BlockName { stamp: 1002, ..named(&block, 0) };
    assert_eq!(su.new_pipeline(named(&block, 0), again, "c1", &[0; 513]).await.unwrap_err().kind, Kind::Io);
}

pub async fn refusals_of_the_next_block() {
    let config = Config { max_blocks_per_file: 2, ..Config::default() };
    let nn = Namenode::fresh_with(config).await;
    give_datanodes(&nn).await;
    let su = root(&nn);
    let id = su.begin("/f", "c1").await;
    let first = su.add_block("/f", id, "c1", None).await.unwrap().block;
    let odd = BlockName { stamp: 1002, ..named(&first, 5) };
    let place = |block: &Block| format!("blk_{}_{}", block.id, block.stamp);
    assert_eq!(
        refusal(su.add_block("/f", id, "c1", Some(odd.clone())).await),
        format!(
            "IOException: Cannot allocate block in /f: passed 'previous' block {odd} does not match actual last block \
             in file {}",
            place(&first)
        )
    );
    let other_pool = BlockName { pool: "BP-2".into(), ..named(&first, 5) };
    let text = "IOException: Unexpected BlockPoolId BP-2 - expected BP-test";
    assert_eq!(refusal(su.add_block("/f", id, "c1", Some(other_pool.clone())).await), text);
    assert_eq!(refusal(su.close("/f", id, "c1", Some(other_pool)).await), text);
    for bytes in [BLOCK + 1, u64::MAX] {
        let answer = su.add_block("/f", id, "c1", Some(named(&first, bytes))).await;
        assert_eq!(answer.unwrap_err().kind, Kind::Io);
    }
    su.sync("/f", id, "c1", 7).await.unwrap();
    assert_eq!(
        refusal(su.add_block("/f", id, "c1", None).await),
        format!(
            "IOException: Request looked like a retry to allocate block {} but it already contains 7 bytes",
            place(&first)
        )
    );
    assert_eq!(su.add_block("/f", id, "c1", Some(named(&first, 6))).await.unwrap_err().kind, Kind::Io);
    su.report(&first, 7, FINALIZED, &[0]).await;
    let second = su.add_block("/f", id, "c1", Some(named(&first, 7))).await.unwrap().block;
    su.report(&second, BLOCK, FINALIZED, &[0]).await;
    assert_eq!(
        refusal(su.add_block("/f", id, "c1", Some(named(&second, BLOCK))).await),
        "IOException: File has reached the limit on maximum number of blocks \
         (dfs.namenode.fs-limits.max-blocks-per-file): 2 >= 2"
    );
    show(&nn, &[Liveness::Dead, Liveness::Stale, Liveness::Dead]);
    let id = su.begin("/g", "c1").await;
    assert_eq!(
        refusal(su.add_block("/g", id, "c1", None).await),
        "IOException: File /g could only be written to 0 of the 1 minReplication nodes. There are 1 datanode(s) running \
         and 0 node(s) are excluded in this operation. 10.0.0.0:9866: it is dead. 10.0.0.1:9866: it is stale. \
         10.0.0.2:9866: it is dead."
    );
    assert_sound(&nn).await;
}

pub async fn a_block_is_given_up() {
    let nn = cluster().await;
    let su = root(&nn);
    let id = su.begin("/f", "c1").await;
    let first = su.add_block("/f", id, "c1", None).await.unwrap().block;
    su.report(&first, 0, ReplicaState::BeingWritten, &[1]).await;
    su.abandon("/f", id, "c1", named(&first, 0)).await.unwrap();
    su.abandon("/f", id, "c1", named(&first, 0)).await.unwrap();
    assert_eq!(su.must("/f").await.inode.block_count, 0);
    assert_sound(&nn).await;
    // Its id is never given out again.
    let second = su.add_block("/f", id, "c1", None).await.unwrap().block;
    assert_ne!(first.id, second.id);
    reap_all(&nn).await;
    assert_eq!(partitions(&nn, TableId::Replicas).await, Vec::<u64>::new());
    for i in 0..3 {
        let told = su.told(i, CommandKind::Invalidate, first.id).await.unwrap();
        assert!(told.silent && told.storages.len() == 1, "{told:?}");
        assert_eq!(su.told(i, CommandKind::Invalidate, second.id).await, None);
    }
    // What was committed stays.
    su.report(&second, 5, FINALIZED, &[1]).await;
    let third = su.add_block("/f", id, "c1", Some(named(&second, 5))).await.unwrap().block;
    su.abandon("/f", id, "c1", named(&second, 5)).await.unwrap();
    su.abandon("/f", id, "c1", named(&third, 0)).await.unwrap();
    su.abandon("/f", id, "c1", named(&second, 5)).await.unwrap();
    assert_eq!(su.blocks(id).await.len(), 1);
    assert_eq!(su.close("/f", id, "c1", Some(named(&second, 5))).await, Ok(true));
    assert_sound(&nn).await;
}

pub async fn a_pipeline_is_mended() {
    let nn = cluster().await;
    let su = root(&nn);
    let id = su.begin("/f", "c1").await;
    let block = su.add_block("/f", id, "c1", None).await.unwrap().block;
    let old = named(&block, 100);
    assert_eq!(su.next_stamp(old.clone(), "c1").await, Ok(1002));
    assert_eq!(su.next_stamp(old.clone(), "c1").await, Ok(1003));
    assert_eq!(su.next_stamp(old.clone(), "c2").await.unwrap_err().kind, Kind::LeaseExpired);
    let gone = BlockName { id: 9 << 40 | id, ..old.clone() };
    let text = format!("IOException: {gone} does not exist.");
    assert_eq!(refusal(su.next_stamp(gone, "c1").await), text);
    let new = BlockName { stamp: 1003, ..old.clone() };
    let later = BlockName { stamp: 1004, ..old.clone() };
    assert_eq!(
        su.new_pipeline(old.clone(), later, "c1", &[0, 2]).await.unwrap_err().kind,
        Kind::Io,
        "a stamp that was not given out"
    );
    let unknown = su.new_pipeline(old.clone(), new.clone(), "c1", &[7]).await;
    assert_eq!(unknown.unwrap_err().kind, Kind::Retriable);
    su.new_pipeline(old.clone(), new.clone(), "c1", &[0, 2]).await.unwrap();
    assert_eq!(
        refusal(su.new_pipeline(old.clone(), new.clone(), "c1", &[0, 2]).await),
        format!("IOException: Update {old} (size=100) to an older state: {new} (size=100)")
    );
    let now = su.blocks(id).await.remove(0);
    assert_eq!((now.stamp, now.length, now.expected), (1003, 100, vec![100, 102]));
    assert_eq!(su.must("/f").await.inode.length, 100);
    // The old replica does not count.
    su.report(&block, 100, FINALIZED, &[1]).await;
    assert_eq!(su.close("/f", id, "c1", Some(new.clone())).await, Ok(false));
    su.report(&Block { stamp: 1003, ..block }, 100, FINALIZED, &[0, 2]).await;
    assert_eq!(su.close("/f", id, "c1", Some(new.clone())).await, Ok(true));
    assert_eq!(
        refusal(su.next_stamp(new.clone(), "c1").await),
        format!("IOException: Unexpected BlockUCState: {new} is COMPLETE but not UNDER_CONSTRUCTION")
    );
    assert!(su.concern(id).await.is_some());
    assert_sound(&nn).await;
}

pub async fn where_blocks_are() {
    let nn = cluster().await;
    let su = root(&nn);
    su.write_file("/f", &[BLOCK, 10, BLOCK]).await;
    let all = su.locations("/f", 0, i64::MAX).await.unwrap();
    let offsets = |blocks: &[trellis_namenode::ops::replicas::Located]| {
        blocks.iter().map(|block| block.offset).collect::<Vec<_>>()
    };
    assert_eq!(offsets(&all.blocks), [0, BLOCK, BLOCK + 10]);
    assert_eq!((all.length, all.under_construction, all.last_block_complete), (2 * BLOCK + 10, false, true));
    assert_eq!(all.last_block.as_ref(), all.blocks.last());
    assert_eq!(places(&all.blocks[1]), [0, 1, 2]);
    for (offset, length, found) in [
        (0, 1, vec![0]),
        (0, 0, vec![0]),
        (BLOCK as i64, 10, vec![BLOCK]),
        (BLOCK as i64 + 9, 2, vec![BLOCK, BLOCK + 10]),
        (2 * BLOCK as i64 + 10, 1, vec![]),
    ] {
        let part = su.locations("/f", offset, length).await.unwrap();
        assert_eq!(offsets(&part.blocks), found, "{offset} {length}");
        assert_eq!(part.last_block.unwrap().block, all.blocks[2].block);
    }
    // A dead datanode is not told, a stale one last; what is corrupt is told only when there is nothing else.
    show(&nn, &[Liveness::Stale, Liveness::Live, Liveness::Dead]);
    let block = su.locations("/f", 0, 1).await.unwrap().blocks.remove(0);
    assert_eq!((block.storages, block.corrupt), (vec![101, 100], false));
    show(&nn, &[Liveness::Live; 3]);
    su.report(&Block { stamp: 1000, ..block.block.clone() }, 1, FINALIZED, &[1]).await;
    let block = su.locations("/f", 0, 1).await.unwrap().blocks.remove(0);
    assert_eq!((places(&block), block.corrupt), (vec![0, 2], false));
    su.report(&Block { stamp: 1000, ..block.block.clone() }, 1, FINALIZED, &[0, 2]).await;
    let block = su.locations("/f", 0, 1).await.unwrap().blocks.remove(0);
    assert_eq!((places(&block), block.corrupt), (vec![0, 1, 2], true));
    // The last block of a file that is being written is told on its own.
    let id = su.begin("/g", "c1").await;
    su.add_block("/g", id, "c1", None).await.unwrap();
    let open = su.locations("/g", 0, 10).await.unwrap();
    assert_eq!((open.blocks.len(), open.length, open.last_block_complete), (0, 0, false));
    assert_eq!(places(&open.last_block.unwrap()), [0, 1, 2]);
    su.sync("/g", id, "c1", 100).await.unwrap();
    let open = su.locations("/g", 0, 10).await.unwrap();
    assert_eq!((open.blocks.len(), open.length, open.last_block.unwrap().block.length), (1, 0, 100));
    su.sync("/g", id, "c1", 50).await.unwrap();
    assert_eq!(su.must("/g").await.inode.length, 100);
    su.setrep("/f", 2).await.unwrap();
    assert_sound(&nn).await;
}

pub async fn a_long_file_is_found_everywhere() {
    let nn = cluster().await;
    let su = root(&nn);
    let lengths: Vec<u64> = (0..70).map(|i| 1 + i).collect();
    su.write_file("/long", &lengths).await;
    let all = su.locations("/long", 0, i64::MAX).await.unwrap();
    assert_eq!(all.blocks.len(), 70);
    assert!(all.blocks.iter().all(|block| places(block) == [0, 1, 2]));
    let mut start = 0;
    for (length, block) in lengths.iter().zip(&all.blocks) {
        assert_eq!((block.offset, block.block.length), (start, *length));
        let one = su.locations("/long", (start + length - 1) as i64, 1).await.unwrap();
        assert_eq!((one.blocks.len(), one.blocks[0].offset), (1, start));
        assert_eq!(one.last_block.unwrap().offset, all.blocks[69].offset);
        start += length;
    }
}

pub async fn deleted_files_give_their_blocks_back() {
    let nn = cluster().await;
    let su = root(&nn);
    let long = su.write_file("/d/long", &[BLOCK; 45]).await;
    let short = su.write_file("/d/short", &[1]).await;
    let over = su.write_file("/over", &[2, 3]).await;
    let open = su.begin("/d/open", "c1").await;
    su.add_block("/d/open", open, "c1", None).await.unwrap();
    su.setrep("/d/short", 2).await.unwrap();
    let kept = su.write_file("/kept", &[4]).await;
    su.rm("/d", true).await.unwrap();
    su.create_as(new_file("/over", "c2", 3)).await.unwrap();
    let last = su.blocks(open).await.remove(0);
    for answer in [
        su.add_block("/d/open", open, "c1", Some(named(&last, 5))).await.map(drop),
        su.close("/d/open", open, "c1", Some(named(&last, 5))).await.map(drop),
    ] {
        assert_eq!(answer.unwrap_err().kind, Kind::FileNotFound);
    }
    assert_eq!(su.next_stamp(named(&last, 5), "c1").await.unwrap_err().kind, Kind::Io);
    let (_stop, stopped) = tokio::sync::watch::channel(false);
    while trellis_namenode::jobs::reaper::round(&nn.engine, &stopped).await.unwrap() > 0 {
        assert_sound(&nn).await;
    }
    assert_eq!(partitions(&nn, TableId::Blocks).await, [kept]);
    assert_eq!(partitions(&nn, TableId::Replicas).await, [kept]);
    assert_eq!(partitions(&nn, TableId::StorageReplicas).await.len(), 3);
    assert_eq!(partitions(&nn, TableId::Attention).await, Vec::<u64>::new());
    assert_eq!(su.commands(1).await.len(), 45 + 1 + 2 + 1);
    for id in [long, short, over, open] {
        assert!(su.told(2, CommandKind::Invalidate, id).await.unwrap().silent);
    }
    assert_sound(&nn).await;
}

pub async fn appending() {
    let nn = cluster().await;
    let (su, bob) = (root(&nn), As { nn: &nn, user: "bob" });
    let id = su.write_file("/f", &[BLOCK, 10]).await;
    assert_eq!(bob.append("/f", "c1", false).await.unwrap_err().kind, Kind::AccessControl);
    let last = su.append("/f", "c1", false).await.unwrap().unwrap();
    assert_eq!((last.offset, last.block.length, places(&last)), (BLOCK, 10, vec![0, 1, 2]));
    assert_eq!(last.block.state(), BlockState::UnderConstruction);
    assert_sound(&nn).await;
    assert_eq!(
        refusal(su.append("/f", "c1", false).await),
        "AlreadyBeingCreatedException: Failed to APPEND_FILE /f for c1 on 127.0.0.1 because c1 is already the current \
         lease holder."
    );
    assert_eq!(
        refusal(su.append("/f", "c2", false).await),
        "AlreadyBeingCreatedException: Failed to APPEND_FILE /f for c2 on 127.0.0.1 because this file lease is \
         currently owned by c1 on 127.0.0.1"
    );
    let stamp = su.next_stamp(named(&last.block, 10), "c1").await.unwrap();
    let new = BlockName { stamp, ..named(&last.block, 10) };
    su.new_pipeline(named(&last.block, 10), new.clone(), "c1", &[0, 1, 2]).await.unwrap();
    let new = BlockName { bytes: BLOCK, ..new };
    su.report(&Block { stamp, ..last.block }, BLOCK, FINALIZED, &[0, 1, 2]).await;
    assert_eq!(su.close("/f", id, "c1", Some(new)).await, Ok(true));
    assert_eq!(su.must("/f").await.inode.length, 2 * BLOCK);
    // A full last block is not told; the next call for a block names none before it.
    assert_eq!(su.append("/f", "c1", false).await.unwrap(), None);
    let third = su.add_block("/f", id, "c1", None).await.unwrap();
    assert_eq!((third.offset, third.block.id), (2 * BLOCK, 2 << 40 | id));
    su.report(&third.block, 7, FINALIZED, &[0, 1, 2]).await;
    assert_eq!(su.close("/f", id, "c1", Some(named(&third.block, 7))).await, Ok(true));
    // A new block is asked for, whatever room there is: the last one is told without places.
    let last = su.append("/f", "c1", true).await.unwrap().unwrap();
    assert!(last.storages.is_empty() && last.block.id == third.block.id);
    let fourth = su.add_block("/f", id, "c1", Some(named(&last.block, 7))).await.unwrap();
    assert_eq!(fourth.offset, 2 * BLOCK + 7);
    assert_sound(&nn).await;
    show(&nn, &[Liveness::Live, Liveness::Dead, Liveness::Dead]);
    let block = su.write_file("/one", &[5]).await;
    su.report(&Block { id: block, stamp: 1000, ..Block::default() }, 5, FINALIZED, &[0]).await;
    assert_eq!(
        refusal(su.append("/one", "c1", false).await),
        format!(
            "IOException: append: lastBlock=blk_{block}_1001 of src=/one is not sufficiently replicated yet."
        )
    );
    for (text, why) in [
        ("/", "FileAlreadyExistsException: Cannot append to directory /; already exists as a directory."),
        ("/no", "FileNotFoundException: Failed to append to non-existent file /no for client 127.0.0.1"),
    ] {
        assert_eq!(refusal(su.append(text, "c1", false).await), why);
    }
    assert_sound(&nn).await;
}

/// A file of 5 bytes that is closed when one datanode of three has told of them: its id and block.
async fn closed_early(su: As<'_>) -> (u64, Block) {
    let id = su.begin("/f", "c1").await;
    let block = su.add_block("/f", id, "c1", None).await.unwrap().block;
    su.report(&block, 5, FINALIZED, &[1]).await;
    assert_eq!(su.close("/f", id, "c1", Some(named(&block, 5))).await, Ok(true));
    (id, block)
}

/// A namenode that is held up keeps the reports of its datanodes to itself; the others know who wrote.
pub async fn appending_before_all_is_reported() {
    let nn = cluster().await;
    let su = root(&nn);
    let (id, first) = closed_early(su).await;
    assert_eq!(su.blocks(id).await[0].expected.len(), 2, "those that have not told");
    let read = su.locations("/f", 0, 5).await.unwrap().blocks;
    assert_eq!(places(&read[0]), [1], "readers go where it is known to be");
    // A copy was ordered there meanwhile, and is not needed.
    su.report(&first, 5, FINALIZED, &[2]).await;
    su.run(move |tx| {
        let coming = Replica { ordered: Ordered::Copy as i32, stamp: first.stamp, ..Replica::default() };
        replicas::put(tx, first.id, storage(0), &coming)
    })
    .await
    .unwrap();
    let last = su.append("/f", "c1", false).await.unwrap().unwrap();
    assert_eq!(places(&last), [0, 1, 2]);
    // The next pipeline is closed, too, before one of its datanodes is heard of: what it told before is old.
    let stamp = su.next_stamp(named(&last.block, 5), "c1").await.unwrap();
    let new = BlockName { stamp, ..named(&last.block, 5) };
    su.new_pipeline(named(&last.block, 5), new.clone(), "c1", &[0, 1, 2]).await.unwrap();
    su.report(&Block { stamp, ..last.block.clone() }, 9, FINALIZED, &[0, 1]).await;
    assert_eq!(su.close("/f", id, "c1", Some(BlockName { bytes: 9, ..new })).await, Ok(true));
    let cut = su.truncate("/f", 7, "c1").await;
    assert_eq!(cut, Ok(false));
    let mut given = su.blocks(id).await[0].expected.clone();
    given.sort_unstable();
    assert_eq!(given, [0, 1, 2].map(storage));
}

/// What the pipeline had is not told where it cannot be there, or would be too much.
pub async fn appending_to_what_is_left() {
    for (case, want) in [("dead", vec![1, 2]), ("old", vec![1]), ("enough", vec![1]), ("deleted", vec![1, 2])]
    {
        let nn = cluster().await;
        let su = root(&nn);
        let (_, block) = closed_early(su).await;
        match case {
            "dead" => show(&nn, &[Liveness::Dead, Liveness::Live, Liveness::Live]),
            "old" => pass_time(Duration::from_secs(61)),
            "enough" => assert!(su.setrep("/f", 1).await.unwrap()),
            _ => su
                .run(move |tx| {
                    let (stamp, ordered) = (block.stamp, Ordered::Deletion as i32);
                    let going = Replica { stamp, ordered, ..Replica::default() };
                    replicas::put(tx, block.id, storage(0), &going)
                })
                .await
                .unwrap(),
        }
        let last = su.append("/f", "c1", false).await.unwrap().unwrap();
        assert_eq!(places(&last), want, "{case}");
    }
}

pub async fn truncating() {
    let nn = cluster().await;
    let (su, bob) = (root(&nn), As { nn: &nn, user: "bob" });
    let id = su.write_file("/f", &[BLOCK, BLOCK, BLOCK, 10]).await;
    assert_eq!(bob.truncate("/f", 0, "c1").await.unwrap_err().kind, Kind::AccessControl);
    assert_eq!(su.truncate("/f", 3 * BLOCK as i64 + 10, "c1").await, Ok(true));
    for (text, length, why) in [
        (
            "/f",
            1 << 40,
            "HadoopIllegalArgumentException: Cannot truncate to a larger file size. Current size: 12298, truncate \
             size: 1099511627776.",
        ),
        ("/f", -1, "HadoopIllegalArgumentException: Cannot truncate to a negative file size: -1."),
        ("/", 0, "FileNotFoundException: Path is not a file: /"),
        ("/no", 0, "FileNotFoundException: File does not exist: /no"),
    ] {
        assert_eq!(refusal(su.truncate(text, length, "c1").await), why);
    }
    assert_eq!(su.truncate("/f", 2 * BLOCK as i64, "c1").await, Ok(true));
    let inode = su.must("/f").await.inode;
    assert_eq!((inode.length, inode.block_count, inode.open), (2 * BLOCK, 2, None));
    assert_sound(&nn).await;
    reap_all(&nn).await;
    assert_eq!(su.commands(0).await.len(), 2);
    // Inside a block a datanode has to cut it first.
    assert_eq!(su.truncate("/f", BLOCK as i64 + 5, "c1").await, Ok(false));
    assert_sound(&nn).await;
    assert_eq!(su.truncate("/f", BLOCK as i64 + 5, "c1").await, Ok(false));
    assert_eq!(
        refusal(su.truncate("/f", BLOCK as i64, "c2").await),
        "RecoveryInProgressException: Failed to TRUNCATE_FILE /f for c2 on 127.0.0.1 because another recovery is in \
         progress by c1 on 127.0.0.1"
    );
    let block = su.blocks(id).await.pop().unwrap();
    let recovery = block.recovery.clone().unwrap();
    let told = su.told(recovery.primary - 10, CommandKind::Recover, block.id).await.unwrap();
    assert_eq!((told.cut_to, told.stamp, told.old_stamp, told.length), (Some(5), 1002, 1001, BLOCK));
    su.recovered(named(&block, BLOCK), 1002, 5, false, &[0, 1, 2]).await.unwrap();
    let inode = su.must("/f").await.inode;
    assert_eq!((inode.length, inode.block_count, inode.open), (BLOCK + 5, 2, None));
    assert_sound(&nn).await;
    assert_eq!(su.truncate("/f", 0, "c1").await, Ok(true));
    reap_all(&nn).await;
    assert_eq!(partitions(&nn, TableId::Replicas).await, Vec::<u64>::new());
    assert_sound(&nn).await;
}

pub async fn joining() {
    let nn = cluster().await;
    let su = root(&nn);
    let target = su.write_file("/d/t", &[BLOCK, 10]).await;
    su.write_file("/d/a", &[BLOCK, 20]).await;
    su.write_file("/d/c", &[30]).await;
    su.setrep("/d/c", 2).await.unwrap();
    su.concat("/d/t", &["/d/a", "/d/c"]).await.unwrap();
    let inode = su.must("/d/t").await.inode;
    assert_eq!((inode.length, inode.block_count), (2 * BLOCK + 60, 5));
    assert_eq!(su.must("/d").await.children, 1);
    assert!(su.concern(target).await.is_some());
    assert_sound(&nn).await;
    let all = su.locations("/d/t", 0, i64::MAX).await.unwrap();
    let lengths: Vec<u64> = all.blocks.iter().map(|block| block.block.length).collect();
    assert_eq!(lengths, [BLOCK, 10, BLOCK, 20, 30]);
    assert!(all.blocks.iter().all(|block| places(block) == [0, 1, 2]));
    // A block that came from elsewhere can be written on, mended and moved again.
    let last = su.append("/d/t", "c1", false).await.unwrap().unwrap().block;
    let stamp = su.next_stamp(named(&last, 30), "c1").await.unwrap();
    let new = BlockName { stamp, ..named(&last, 30) };
    su.new_pipeline(named(&last, 30), new.clone(), "c1", &[0, 1]).await.unwrap();
    su.report(&Block { stamp, ..last }, 40, FINALIZED, &[0, 1]).await;
    assert_eq!(su.close("/d/t", target, "c1", Some(BlockName { bytes: 40, ..new })).await, Ok(true));
    su.write_file("/d/t2", &[1]).await;
    su.concat("/d/t2", &["/d/t"]).await.unwrap();
    assert_eq!(su.must("/d/t2").await.inode.length, 2 * BLOCK + 71);
    assert_sound(&nn).await;
    su.rm("/d", true).await.unwrap();
    reap_all(&nn).await;
    for table in [TableId::Blocks, TableId::BlockFiles, TableId::Replicas, TableId::StorageReplicas] {
        assert_eq!(partitions(&nn, table).await, Vec::<u64>::new(), "{table:?}");
    }
    assert_sound(&nn).await;
}

/// Case E7.
pub async fn what_cannot_be_joined() {
    let nn = cluster().await;
    let (su, bob) = (root(&nn), As { nn: &nn, user: "bob" });
    su.write_file("/d/t", &[1]).await;
    su.write_file("/d/a", &[2]).await;
    su.write_file("/e/x", &[3]).await;
    let large = su.create_as(new_file("/d/large", "writer", 1)).await.unwrap().id;
    su.write_and_close("/d/large", large, &[1]).await;
    su.write_file("/d/empty", &[]).await;
    su.begin("/d/open", "c1").await;
    let illegal = "HadoopIllegalArgumentException: ";
    for (target, sources, why) in [
        ("/d/t", vec![], "IllegalArgumentException: No sources given".to_owned()),
        ("/d/t", vec!["/no"], "FileNotFoundException: File does not exist: /no".to_owned()),
        ("/no", vec!["/d/a"], "FileNotFoundException: File does not exist: /no".to_owned()),
        (
            "/d/t",
            vec!["/e/x"],
            format!("{illegal}Source file /e/x is not in the same directory with the target /d/t"),
        ),
        (
            "/d/t",
            vec!["/d/a", "/d/a"],
            format!("{illegal}concat: at least two of the source files are the same"),
        ),
        (
            "/d/t",
            vec!["/d/t"],
            format!("{illegal}concat: the src file /d/t is the same with the target file /d/t"),
        ),
        (
            "/d/t",
            vec!["/d/large"],
            format!(
                "{illegal}concat: source file /d/large has preferred block size 1048576 which is greater than the \
                 target file's preferred block size 4096"
            ),
        ),
        (
            "/d/t",
            vec!["/d/open"],
            format!("{illegal}concat: source file /d/open is invalid or empty or underConstruction"),
        ),
        (
            "/d/t",
            vec!["/d/a", "/d/empty"],
            format!("{illegal}concat: source file /d/empty is invalid or empty or underConstruction"),
        ),
        ("/d/open", vec!["/d/a"], format!("{illegal}concat: target file /d/open is under construction")),
    ] {
        assert_eq!(refusal(su.concat(target, &sources).await), why, "{target} {sources:?}");
    }
    assert_eq!(bob.concat("/d/t", &["/d/a"]).await.unwrap_err().kind, Kind::AccessControl);
    assert_eq!(su.must("/d/t").await.inode.length, 1);
    assert_sound(&nn).await;
}
