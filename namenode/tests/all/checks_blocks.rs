//! The store check finds what is damaged of blocks, replicas and datanodes.

use trellis_metastore::change::{Change, Check, Effect, Hold, Row};
use trellis_metastore::key::Key;
use trellis_metastore::schema::{
    self, Block, BlockFile, BlockState, Blocks, Command, CommandKind, Concern, Inode, Inodes, ROOT_ID,
    Recovery, Replica, TableId, TableKey, attention, block, block_file, block_id, command, command_partition,
    datanode, dir_stat, inode, parts_of_block, replica, setting, storage_partition, storage_replica,
};
use trellis_namenode::check::{check, check_with_all_live};
use trellis_namenode::datanodes::view::Liveness;
use trellis_namenode::ops::replicas::{self, note_attention};

use crate::blocks::{STAMP, complete, datanode_row, datanodes, give, hide, storage_number, whole};
use crate::calls::{assert_sound, assert_sound_and_noted, root};
use crate::checks::{Damage, assert_found, lost, wrong};
use crate::support::Namenode;

/// What [`store`] made.
struct Made {
    nn: Namenode,
    /// The directory of all files.
    d: u64,
    /// Closed: two blocks; and one that came from [`Made::gone`].
    file: Inode,
    /// Open: one block complete, one being written.
    open: Inode,
    /// Closed: two blocks without replicas.
    half: u64,
    /// Was appended to `file`.
    gone: u64,
}

/// A healthy store of two datanodes and files in every state.
async fn store() -> Made {
    let nn = Namenode::fresh().await;
    let su = root(&nn);
    datanodes(&nn, &[Liveness::Live; 3]).await;
    let gone = su.touch("/gone").await.unwrap().id;
    assert!(su.rm("/gone", false).await.unwrap());
    let id = su.touch("/d/file").await.unwrap().id;
    su.setrep("/d/file", 2).await.unwrap();
    let on = |block: &Block| vec![(storage_number(0), whole(block)), (storage_number(1), whole(block))];
    let blocks = [complete(id, 0, 10), complete(id, 1, 7), complete(gone, 3, 5)];
    let file = give(&nn, "/d/file", blocks.iter().map(|block| (block.clone(), on(block))).collect()).await;
    let moved = BlockFile { inode: id, ordinal: 2 };
    su.run(move |tx| Ok(tx.insert(&block_file(block_id(gone, 3)), &moved)?)).await.unwrap();
    let id = su.open("/d/open", "c1").await.unwrap().id;
    su.setrep("/d/open", 2).await.unwrap();
    let written = Block {
        state: BlockState::UnderConstruction as i32,
        expected: vec![storage_number(0)],
        ..complete(id, 1, 4)
    };
    let whole_one = complete(id, 0, 10);
    let open =
        give(&nn, "/d/open", vec![(whole_one.clone(), on(&whole_one)), (written.clone(), on(&written))])
            .await;
    let id = su.touch("/d/half").await.unwrap().id;
    let blocks = [complete(id, 0, 10), complete(id, 1, 7)];
    let half = give(&nn, "/d/half", blocks.into_iter().map(|block| (block, vec![])).collect()).await;
    // It has no replicas.
    let half = half.id;
    su.run(move |tx| note_attention(tx, half)).await.unwrap();
    assert_sound(&nn).await;
    let d = su.must("/d").await.inode.id;
    Made { nn, d, file, open, half, gone }
}

impl Made {
    fn row_of(&self, name: &str) -> TableKey<Inodes> {
        inode(self.d, name.as_bytes())
    }
}

pub async fn damage_to_files_is_found() {
    let made = store().await;
    let (file, open) = (&made.file, &made.open);
    let with = |block: Block| wrong::<Blocks>(block_key(&block), block, 0, "");
    let but = |damage: Damage, words| (damage.0, damage.1, words);
    let last = complete(file.id, 1, 7);
    let recovery = Recovery { stamp: STAMP + 9, ..Recovery::default() };
    let recovered = Block { state: BlockState::UnderRecovery as i32, ..last.clone() };
    let says = |what: Inode, words| wrong(made.row_of("file"), what, 0, words);
    let stray = complete(file.id, 9, 0);
    let first = BlockFile { inode: file.id, ordinal: 0 };
    assert_found(
        &made.nn,
        &[
            lost(block(file.id, 1), "has 2 blocks and counts 3"),
            lost(block(file.id, 1), "its blocks come to 15 bytes, its length is 22"),
            lost(made.row_of("file"), "blocks of a file that does not exist"),
            says(Inode { block_count: 0, ..file.clone() }, "blocks of a file that counts none"),
            says(Inode { next_block: 2, ..file.clone() }, "the file says that 2 comes next"),
            says(Inode { unfinished: Some(5), ..file.clone() }, "its last block leaves None unfinished"),
            wrong(block(file.id, 9), stray, 0, "has 4 blocks and counts 3"),
            wrong(block(made.gone, 3), complete(made.gone, 3, 5), 0, "lies in its first place, too"),
            lost(block_file(block_id(made.gone, 3)), "no row in block_files"),
            wrong(block_file(block_id(made.gone, 3)), first, 0, "which is not it"),
            wrong(block_file(last.id), BlockFile { inode: file.id, ordinal: 1 }, 0, "it never moved"),
            but(with(Block { state: BlockState::Committed as i32, ..last.clone() }), "and others follow it"),
            but(with(Block { state: 9, ..last.clone() }), "unknown state 9"),
            but(with(Block { last_stamp: STAMP - 1, ..last.clone() }), "the last one given out is 1000"),
            but(with(recovered.clone()), "does not go with its recovery"),
            but(with(Block { recovery: Some(recovery), ..recovered }), "which was not given out for it"),
            wrong(
                made.row_of("open"),
                Inode { open: None, ..open.clone() },
                0,
                "is closed, and its last block",
            ),
        ],
    )
    .await;
    let bad = Key::new(file.id, TableId::Blocks, b"odd");
    put_raw(&made.nn, bad, "is not the key of a block").await;
    // A reaper that is not done with a file is no damage.
    hide_half(&made).await;
    assert_sound(&made.nn).await;
}

async fn hide_half(made: &Made) {
    let su = root(&made.nn);
    let half = su.must("/d/half").await.inode.id;
    hide(&made.nn, half, 1).await;
    su.run({
        let d = made.d;
        move |tx| {
            let key = dir_stat(ROOT_ID, b"d");
            assert_eq!(tx.get(&key, Hold::Loose)?.unwrap().value.id, d);
            Ok(tx.merge(&key, 0, -1)?)
        }
    })
    .await
    .unwrap();
}

/// The place of a block that never moved.
fn block_key(block: &Block) -> TableKey<Blocks> {
    let (inode, ordinal) = parts_of_block(block.id);
    schema::block(inode, ordinal)
}

/// A row under a key that no operation makes is found.
async fn put_raw(nn: &Namenode, key: Key, words: &str) {
    let store = nn.engine.backend().store();
    let change = |effect| Change { key: key.clone(), check: Check::Nothing, effect };
    let row = Row { version: 1 << 50, ..Row::default() };
    store.commit(&[change(Effect::Put(row))]).await.unwrap();
    let found = check(store).await.unwrap();
    assert!(found.iter().any(|finding| finding.what.contains(words)), "{words}: {found:?}");
    store.commit(&[change(Effect::Delete)]).await.unwrap();
    assert_sound(nn).await;
}

pub async fn damage_to_replicas_is_found() {
    let made = store().await;
    let (nn, id) = (&made.nn, block_id(made.file.id, 0));
    let (near, own) = (storage_number(0), whole(&complete(made.file.id, 0, 10)));
    let mut twin = datanode_row(1);
    twin.storages[0].number = near;
    let far = datanode_row(7);
    let never = block_id(1 << 39, 0);
    assert_found(
        nn,
        &[
            lost(replica(id, near), "is not among the replicas of its block"),
            lost(storage_replica(near, id), "is not among the replicas of its storage"),
            wrong(replica(id, near), Replica { length: 9, ..own.clone() }, 0, "by block it is"),
            wrong(replica(id, near), Replica { state: 9, ..own.clone() }, 0, "unknown state 9"),
            wrong(replica(id, near), Replica { ordered: 9, ..own.clone() }, 0, "unknown order 9"),
            wrong(replica(id, near), Replica { ordered: 1, ..own.clone() }, 0, "nobody looks after its file"),
            wrong(replica(id, 99), own.clone(), 0, "no datanode has this storage"),
            wrong(replica(never, near), own.clone(), 0, "the block was never given out"),
            wrong(replica(block_id(made.file.id, 5), near), own, 0, "the block was never given out"),
            wrong(datanode("node-1"), twin, 0, "is another's, too"),
            wrong(datanode("node-1"), datanode_row(0), 0, "is the row of datanode node-0"),
            wrong(datanode("node-7"), far, 0, "its number 15 was never given out (the next one is 7)"),
            lost(setting("next_datanode_number"), "was never given out (the next one is 0)"),
            wrong(
                command(99, CommandKind::Transfer, id),
                Command::default(),
                0,
                "no datanode has the number 99",
            ),
            wrong(attention(1 << 39), Concern::default(), 0, "its id was never given out"),
            lost(attention(made.half), "has 0 replicas of 3, and the file is not noted"),
        ],
    )
    .await;
    put_raw(nn, Key::new(made.file.id, TableId::Replicas, b"odd"), "is not the key of a replica").await;
    let odd = Key::new(storage_partition(near), TableId::StorageReplicas, b"odd");
    put_raw(nn, odd, "is not the key of a storage's replica").await;
    put_raw(nn, Key::new(made.file.id, TableId::BlockFiles, b"odd"), "is not the key of a moved block").await;
    let odd = Key::new(command_partition(1), TableId::Commands, b"\x0912345678");
    put_raw(nn, odd, "is not the key of a command").await;
    let elsewhere = Key::new(
        attention(made.file.id).key.partition() + 1,
        TableId::Attention,
        &made.file.id.to_be_bytes(),
    );
    put_raw(nn, elsewhere, "lies in the wrong bucket").await;
}

/// Too many replicas and corrupt ones matter where their datanodes live: whether these do, rows do not say.
pub async fn what_nobody_looks_after_is_found() {
    let made = store().await;
    let (nn, id) = (&made.nn, made.file.id);
    let su = root(nn);
    assert_sound_and_noted(nn).await;
    let found = async |words: &str| {
        assert_sound(nn).await;
        let found = check_with_all_live(nn.engine.backend().store()).await.unwrap();
        assert!(found.iter().any(|finding| finding.what.contains(words)), "{words}: {found:?}");
    };
    let bad = Replica { corrupt: true, ..whole(&complete(id, 0, 10)) };
    let extra = storage_number(2);
    su.run(move |tx| replicas::put(tx, block_id(id, 0), extra, &bad)).await.unwrap();
    found("is not as it is").await;
    let good = whole(&complete(id, 0, 10));
    su.run(move |tx| replicas::put(tx, block_id(id, 0), extra, &good)).await.unwrap();
    found("has 3 replicas, 2 are wanted").await;
    // Nobody looks after what is detached, and nobody has to.
    assert_eq!(su.rm("/d", true).await, Ok(true));
    assert_sound_and_noted(nn).await;
}

/// A replica that was reported while its block was taken away goes with the next report; not from a failed storage.
pub async fn leftovers_that_a_report_clears_are_none() {
    let made = store().await;
    let su = root(&made.nn);
    let id = block_id(made.gone, 0);
    let left = whole(&complete(made.gone, 0, 10));
    for storage in [storage_number(0), storage_number(1)] {
        let left = left.clone();
        su.run(move |tx| {
            tx.insert(&replica(id, storage), &left)?;
            Ok(tx.insert(&storage_replica(storage, id), &left)?)
        })
        .await
        .unwrap();
    }
    assert_sound(&made.nn).await;
    let mut failed = datanode_row(1);
    failed.storages[0].failed = true;
    assert_found(&made.nn, &[wrong(datanode("node-1"), failed, 0, "nothing will clear it")]).await;
}
