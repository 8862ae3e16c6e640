//! What becomes of files whose writers are gone, when their last blocks are unfinished.

use std::time::Duration;

use trellis_metastore::schema::{Block, BlockState, CommandKind, ReplicaState};
use trellis_namenode::datanodes::view::Liveness;
use trellis_namenode::jobs::lease_expiry::{Expired, round};
use trellis_namenode::jobs::replication::Replication;
use trellis_namenode::ops::write::BlockName;
use trellis_proto::exception::Kind;

use crate::calls::{assert_sound, refusal, root};
use crate::files::{BLOCK, cluster, named, show, storage};
use crate::support::pass_time;

const SOFT: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_millis(1);
const AGAIN: Duration = Duration::from_secs(30);
/// The leader looks after files that were noted earlier than this.
const CHECK: Duration = Duration::from_secs(4);

/// Case E4.
pub async fn recover_lease_has_the_last_block_recovered() {
    let nn = cluster().await;
    let su = root(&nn);
    let id = su.begin("/f", "c1").await;
    let first = su.add_block("/f", id, "c1", None).await.unwrap().block;
    su.report(&first, BLOCK, ReplicaState::Finalized, &[0, 1, 2]).await;
    let last = su.add_block("/f", id, "c1", Some(named(&first, BLOCK))).await.unwrap().block;
    su.sync("/f", id, "c1", 904).await.unwrap();
    assert_eq!(su.recover("/f", "c2").await, Ok(false));
    assert_sound(&nn).await;
    assert_eq!(su.append("/f", "c2", false).await.unwrap_err().kind, Kind::AlreadyBeingCreated);
    assert_eq!(
        refusal(su.append("/f", "c4", false).await),
        "RecoveryInProgressException: Failed to APPEND_FILE /f for c4 on 127.0.0.1 because another recovery is in \
         progress by c2 on 127.0.0.1"
    );
    // The writer has lost it.
    assert_eq!(su.sync("/f", id, "c1", 1000).await.unwrap_err().kind, Kind::LeaseExpired);
    assert_eq!(
        su.close("/f", id, "c1", Some(named(&last, 1000))).await.unwrap_err().kind,
        Kind::LeaseExpired
    );
    let block = su.blocks(id).await.pop().unwrap();
    let recovery = block.recovery.clone().unwrap();
    assert_eq!((block.state(), recovery.stamp), (BlockState::UnderRecovery, 1002));
    let told = su.told(recovery.primary - 10, CommandKind::Recover, block.id).await.unwrap();
    assert_eq!((told.stamp, told.old_stamp, told.length, told.cut_to), (1002, 1001, 904, None));
    assert_eq!(told.storages.len(), 3);
    // Asked again, it waits for that recovery.
    assert_eq!(su.recover("/f", "c2").await, Ok(false));
    assert_eq!(su.blocks(id).await.pop().unwrap().last_stamp, 1002);
    let name = named(&block, 904);
    assert_eq!(
        refusal(su.recovered(name.clone(), 1009, 1000, false, &[0]).await),
        format!("IOException: The recovery id 1009 does not match current recovery id 1002 for block {name}")
    );
    su.recovered(name.clone(), 1002, 1000, false, &[0, 2]).await.unwrap();
    assert_eq!(su.recover("/f", "c2").await, Ok(true));
    let inode = su.must("/f").await.inode;
    assert_eq!((inode.length, inode.open, inode.unfinished), (BLOCK + 1000, None, None));
    let placed = su.locations("/f", BLOCK as i64, 1).await.unwrap().blocks.remove(0);
    assert_eq!((placed.block.stamp, placed.storages.len()), (1002, 2));
    assert!(su.concern(id).await.is_some());
    // The same answer again, and one that comes too late.
    su.recovered(name.clone(), 1002, 1000, false, &[0, 2]).await.unwrap();
    su.recovered(name.clone(), 1001, 5, false, &[1]).await.unwrap();
    assert_eq!(su.must("/f").await.inode.length, BLOCK + 1000);
    let gone = BlockName { id: 77 << 40 | id, ..name };
    su.recovered(gone.clone(), 1002, 0, true, &[]).await.unwrap();
    let text = format!("IOException: Block (={gone}) not found");
    assert_eq!(refusal(su.recovered(gone, 1002, 0, false, &[]).await), text);
    assert_sound(&nn).await;
}

/// Case E3, as far as operations reach.
pub async fn a_lease_is_taken_over_after_a_recovery() {
    let nn = cluster().await;
    let su = root(&nn);
    let id = su.begin("/f", "sleeper").await;
    let last = su.add_block("/f", id, "sleeper", None).await.unwrap().block;
    su.sync("/f", id, "sleeper", 3000).await.unwrap();
    pass_time(SOFT);
    assert_eq!(su.append("/f", "c2", false).await.unwrap_err().kind, Kind::AlreadyBeingCreated);
    pass_time(MOMENT);
    let why = "RecoveryInProgressException: Failed to APPEND_FILE /f for c2 on 127.0.0.1 because lease recovery is in \
               progress. Try again later.";
    assert_eq!(refusal(su.append("/f", "c2", false).await), why);
    assert_eq!(su.append("/f", "c2", false).await.unwrap_err().kind, Kind::RecoveryInProgress);
    let said = named(&last, 4000);
    assert_eq!(
        refusal(su.close("/f", id, "sleeper", Some(said.clone())).await),
        format!("IOException: Commit or complete block {said}, whereas it is under recovery.")
    );
    su.recovered(named(&last, 3000), 1002, 3000, false, &[0, 1, 2]).await.unwrap();
    let last = su.append("/f", "c2", false).await.unwrap().unwrap();
    assert_eq!((last.block.length, last.block.stamp), (3000, 1002));
    assert_eq!(su.sync("/f", id, "sleeper", 3500).await.unwrap_err().kind, Kind::LeaseExpired);
    assert_sound(&nn).await;
}

pub async fn expiry_recovers_and_does_not_give_up() {
    let nn = cluster().await;
    let su = root(&nn);
    let id = su.begin("/f", "silent").await;
    let block = su.add_block("/f", id, "silent", None).await.unwrap().block;
    su.sync("/f", id, "silent", 10).await.unwrap();
    pass_time(Duration::from_secs(1200) + MOMENT);
    assert_eq!(round(&nn.engine, None).await, Ok(Expired::default()));
    let inode = su.must("/f").await.inode;
    assert_eq!(inode.open.unwrap().holder, "HDFS_NameNode");
    let first = su.blocks(id).await.remove(0).recovery.unwrap();
    // While its primary may answer nothing new is asked.
    pass_time(AGAIN - MOMENT);
    round(&nn.engine, None).await.unwrap();
    assert_eq!(su.blocks(id).await.remove(0).recovery.unwrap(), first);
    pass_time(MOMENT + MOMENT);
    round(&nn.engine, None).await.unwrap();
    let second = su.blocks(id).await.remove(0).recovery.unwrap();
    assert_eq!((first.stamp, second.stamp), (1002, 1003));
    assert_ne!(first.primary, second.primary);
    assert_eq!(su.recovered(named(&block, 10), 1002, 10, false, &[0]).await.unwrap_err().kind, Kind::Io);
    // A primary that died is not waited for.
    let dead = (second.primary - 10) as usize;
    let mut states = [Liveness::Live; 3];
    states[dead] = Liveness::Dead;
    show(&nn, &states);
    pass_time(AGAIN + MOMENT);
    round(&nn.engine, None).await.unwrap();
    let third = su.blocks(id).await.remove(0).recovery.unwrap();
    assert_ne!(third.primary, second.primary);
    su.recovered(named(&block, 10), third.stamp, 20, false, &[0, 1, 2]).await.unwrap();
    assert_eq!((su.must("/f").await.inode.length, su.must("/f").await.inode.open), (20, None));
    assert_sound(&nn).await;
}

/// A file that cannot be closed yet is passed by: those of others are closed, and their holders forgotten.
pub async fn expiry_passes_a_file_by_that_waits_for_a_replica() {
    let nn = cluster().await;
    let su = root(&nn);
    let id = su.begin("/committed", "c1").await;
    let block = su.add_block("/committed", id, "c1", None).await.unwrap().block;
    assert_eq!(su.close("/committed", id, "c1", Some(named(&block, 5))).await, Ok(false));
    // In every bucket, so also in those behind it.
    for i in 0..80 {
        su.begin(&format!("/f{i}"), &format!("silent{i}")).await;
    }
    pass_time(Duration::from_secs(1200) + MOMENT);
    assert_eq!(round(&nn.engine, None).await, Ok(Expired { files: 80, holders: 80, passed: 1 }));
    assert_eq!(round(&nn.engine, None).await, Ok(Expired { files: 0, holders: 0, passed: 1 }));
    su.report(&block, 5, ReplicaState::Finalized, &[0]).await;
    assert_eq!(round(&nn.engine, None).await, Ok(Expired { files: 1, holders: 1, passed: 0 }));
    assert_sound(&nn).await;
}

/// A truncate whose primary is gone goes on, though its holder renews its lease and nobody asks for the file.
pub async fn a_truncate_goes_on_without_anybody_asking() {
    let nn = cluster().await;
    let su = root(&nn);
    let id = su.write_file("/f", &[1000]).await;
    let mut job = Replication::default();
    let mut look = async |after: Duration| {
        pass_time(after);
        su.renew("c1").await.unwrap();
        job.round(&nn.engine, None).await.unwrap();
        su.blocks(id).await.remove(0)
    };
    assert_eq!(su.truncate("/f", 600, "c1").await, Ok(false));
    let first = look(CHECK).await;
    assert_eq!(first.recovery.as_ref().unwrap().stamp, 1002, "its primary has time");
    let second = look(AGAIN).await;
    let [before, now] = [&first, &second].map(|block| block.recovery.clone().unwrap());
    assert_eq!((now.stamp, now.cut_to), (1003, Some(600)));
    assert_ne!(now.primary, before.primary);
    // Two were cut by the first, and that is all that was heard of it.
    let cut = Block { stamp: 1002, ..first };
    su.report(&cut, 600, ReplicaState::Finalized, &[0, 2]).await;
    let third = look(AGAIN).await.recovery.unwrap();
    let told = su.told(third.primary - 10, CommandKind::Recover, cut.id).await.unwrap();
    assert_eq!((told.stamp, told.cut_to, told.storages), (1004, Some(600), vec![storage(0), storage(2)]));
    assert_sound(&nn).await;
    // One of them dies, and the other is not heard of: whoever has it all must do.
    show(&nn, &[Liveness::Dead, Liveness::Live, Liveness::Stale]);
    let fourth = look(MOMENT).await.recovery.unwrap();
    let told = su.told(fourth.primary - 10, CommandKind::Recover, cut.id).await.unwrap();
    assert_eq!(
        (told.stamp, told.storages),
        if third.primary == 10 { (1005, vec![storage(2)]) } else { (1004, vec![storage(0), storage(2)]) }
    );
    su.recovered(named(&cut, 1000), fourth.stamp, 600, false, &[2]).await.unwrap();
    assert_eq!((su.must("/f").await.inode.length, su.must("/f").await.inode.open), (600, None));
    assert_sound(&nn).await;
}

/// A primary is not sent to datanodes that it would wait for, unless there is hardly another.
pub async fn the_silent_take_no_part_in_a_recovery() {
    use Liveness::{Live, Stale};
    for (i, (states, asked)) in [
        ([Live, Stale, Live], vec![0, 2]),
        ([Live, Stale, Stale], vec![0, 1, 2]),
        ([Stale, Stale, Stale], vec![0, 1, 2]),
    ]
    .into_iter()
    .enumerate()
    {
        let nn = cluster().await;
        let (su, path) = (root(&nn), format!("/f{i}"));
        let id = su.begin(&path, "c1").await;
        let block = su.add_block(&path, id, "c1", None).await.unwrap().block;
        show(&nn, &states);
        assert_eq!(su.recover(&path, "c2").await, Ok(false));
        let recovery = su.blocks(id).await.remove(0).recovery.unwrap();
        let told = su.told(recovery.primary - 10, CommandKind::Recover, block.id).await.unwrap();
        let mut storages = told.storages;
        storages.sort_unstable();
        assert_eq!(storages, asked.into_iter().map(storage).collect::<Vec<_>>(), "{states:?}");
    }
}

/// Each recovery has its own time: one file that cannot be recovered holds nobody up.
pub async fn all_recoveries_of_expiry_are_begun_again() {
    let nn = cluster().await;
    let su = root(&nn);
    let mut files = Vec::new();
    let stamps = async |files: &[u64]| {
        let mut stamps = Vec::new();
        for id in files {
            stamps.push(su.blocks(*id).await.remove(0).last_stamp);
        }
        stamps
    };
    for i in 0..10 {
        let (name, holder) = (format!("/f{i}"), format!("c{i}"));
        let id = su.begin(&name, &holder).await;
        su.add_block(&name, id, &holder, None).await.unwrap();
        su.sync(&name, id, &holder, 10).await.unwrap();
        files.push(id);
    }
    pass_time(Duration::from_secs(1200) + MOMENT);
    for stamp in [1002, 1003, 1004] {
        round(&nn.engine, None).await.unwrap();
        assert_eq!(stamps(&files).await, vec![stamp; 10]);
        round(&nn.engine, None).await.unwrap();
        // The holders are forgotten by now; what is under way is looked at without a write.
        let (_, spent) = nn.spent(round(&nn.engine, None)).await;
        assert_eq!((stamps(&files).await, spent.rows_written), (vec![stamp; 10], 0));
        pass_time(AGAIN);
    }
    // One file is asked about again and again: the others are not held up.
    for _ in 0..3 {
        pass_time(AGAIN);
        assert_eq!(su.append("/f0", "c99", false).await.unwrap_err().kind, Kind::RecoveryInProgress);
    }
    round(&nn.engine, None).await.unwrap();
    assert!(stamps(&files).await.iter().skip(1).all(|stamp| *stamp == 1005));
    // Nobody to ask: nothing is written until there is.
    show(&nn, &[Liveness::Dead; 3]);
    round(&nn.engine, None).await.unwrap();
    let before = stamps(&files).await;
    pass_time(AGAIN);
    let (_, spent) = nn.spent(round(&nn.engine, None)).await;
    assert_eq!((stamps(&files).await, spent.rows_written), (before.clone(), 0));
    show(&nn, &[Liveness::Live; 3]);
    round(&nn.engine, None).await.unwrap();
    assert!(stamps(&files).await.iter().zip(before).all(|(now, then)| *now > then));
    assert_sound(&nn).await;
}

pub async fn files_of_which_nothing_is_left_are_closed() {
    let nn = cluster().await;
    let su = root(&nn);
    // No block at all.
    su.begin("/empty", "c1").await;
    assert_eq!(su.recover("/empty", "c2").await, Ok(true));
    // A committed block waits for its replicas.
    let id = su.begin("/committed", "c1").await;
    let block = su.add_block("/committed", id, "c1", None).await.unwrap().block;
    assert_eq!(su.close("/committed", id, "c1", Some(named(&block, 5))).await, Ok(false));
    assert_eq!(
        refusal(su.recover("/committed", "c2").await),
        "AlreadyBeingCreatedException: DIR* NameSystem.internalReleaseLease: Failed to release lease for file \
         /committed. Committed blocks are waiting to be minimally replicated."
    );
    su.report(&block, 5, ReplicaState::Finalized, &[0]).await;
    assert_eq!(su.recover("/committed", "c2").await, Ok(true));
    assert_eq!(su.must("/committed").await.inode.length, 5);
    // So does one before a last block that was recovered.
    let id = su.begin("/before", "c1").await;
    let first = su.add_block("/before", id, "c1", None).await.unwrap().block;
    let last = su.add_block("/before", id, "c1", Some(named(&first, BLOCK))).await.unwrap().block;
    assert_eq!(su.recover("/before", "c2").await, Ok(false));
    su.recovered(named(&last, 0), 1002, 9, false, &[0, 1, 2]).await.unwrap();
    assert_eq!(su.recover("/before", "c2").await.unwrap_err().kind, Kind::AlreadyBeingCreated);
    assert_eq!(su.must("/before").await.inode.open.unwrap().holder, "c2");
    assert_sound(&nn).await;
    su.report(&first, BLOCK, ReplicaState::Finalized, &[0, 1, 2]).await;
    assert_eq!(su.recover("/before", "c2").await, Ok(true));
    assert_eq!(su.must("/before").await.inode.length, BLOCK + 9);
    // Datanodes that answer that there is nothing.
    let id = su.begin("/nothing", "c1").await;
    let block = su.add_block("/nothing", id, "c1", None).await.unwrap().block;
    assert_eq!(su.recover("/nothing", "c2").await, Ok(false));
    su.recovered(named(&block, 0), 1002, 0, true, &[]).await.unwrap();
    assert_eq!(su.recover("/nothing", "c2").await, Ok(true));
    assert_eq!(su.must("/nothing").await.inode.block_count, 0);
    // They may only be the wrong ones, where it is known that there was something.
    let id = su.begin("/something", "c1").await;
    let block = su.add_block("/something", id, "c1", None).await.unwrap().block;
    su.sync("/something", id, "c1", 5).await.unwrap();
    assert_eq!(su.recover("/something", "c2").await, Ok(false));
    let said = su.recovered(named(&block, 5), 1002, 0, true, &[]).await;
    assert_eq!(said.unwrap_err().kind, Kind::Io);
    su.recovered(named(&block, 5), 1002, 5, false, &[1]).await.unwrap();
    assert_eq!(su.must("/something").await.inode.length, 5);
    // A block that no datanode ever had.
    let id = su.begin("/nowhere", "c1").await;
    let block = su.add_block("/nowhere", id, "c1", None).await.unwrap().block;
    let stamp = su.next_stamp(named(&block, 0), "c1").await.unwrap();
    let new = BlockName { stamp, ..named(&block, 0) };
    su.new_pipeline(named(&block, 0), new, "c1", &[]).await.unwrap();
    assert_eq!(su.recover("/nowhere", "c2").await, Ok(true));
    assert_eq!(su.must("/nowhere").await.inode.block_count, 0);
    assert_sound(&nn).await;
}

/// Whoever flushed need not have told a length, and nobody may have heard of a replica.
pub async fn what_may_have_been_flushed_is_waited_for() {
    let nn = cluster().await;
    let su = root(&nn);
    let mut files = Vec::new();
    for (name, known) in [("/silent", -1), ("/known", 1)] {
        let id = su.begin(name, "c1").await;
        su.add_block(name, id, "c1", None).await.unwrap();
        su.sync(name, id, "c1", known).await.unwrap();
        files.push((name, id));
    }
    show(&nn, &[Liveness::Dead; 3]);
    for (name, id) in &files {
        assert_eq!(su.recover(name, "c2").await, Ok(false));
        assert_eq!(su.recover(name, "c2").await, Ok(false));
        assert_eq!(su.must(name).await.inode.block_count, 1, "{id}");
    }
    assert_sound(&nn).await;
    show(&nn, &[Liveness::Dead, Liveness::Live, Liveness::Dead]);
    for (name, id) in &files {
        assert_eq!(su.recover(name, "c2").await, Ok(false));
        let block = su.blocks(*id).await.remove(0);
        let recovery = block.recovery.clone().unwrap();
        assert_eq!(recovery.primary, 11);
        let told = su.told(1, CommandKind::Recover, block.id).await.unwrap();
        assert_eq!((told.stamp, told.storages), (recovery.stamp, vec![storage(1)]));
        su.recovered(named(&block, 0), recovery.stamp, 9, false, &[1]).await.unwrap();
        assert_eq!(su.recover(name, "c2").await, Ok(true));
        assert_eq!(su.must(name).await.inode.length, 9);
    }
    assert_sound(&nn).await;
}
