//! The form with a log in front of the tree.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use libtest_mimic::Trial;
use prost::Message;
use tokio::runtime::Runtime;
use trellis_metastore::change::{Change, Check};
use trellis_metastore::group::GroupConfig;
use trellis_metastore::key::Scan;
use trellis_metastore::lmdb::{Form, Lmdb, LmdbConfig, Writer};
use trellis_metastore::schema::{Inode, Kind, TableId};
use trellis_metastore::store::{Scanned, Store, StoreError};
use trellis_metastore::tx::{Versions, View};
use trellis_metastore::work::{End, Unfenced};

use super::crash::{blind, key};
use super::process::{Process, say, wait_for_parent};
use super::{Ends, increment, number, open, open_as, refusal, rows, send, start, trial};
use crate::backends::{merging, runtime, small_lmdb, with_log};

pub fn trials() -> Vec<Trial> {
    vec![
        trial("log_what_a_killed_process_left_is_put_into_the_tree", left_behind),
        trial("log_closing_leaves_a_plain_store", closed),
        trial("log_closes_after_the_last_operation_whoever_drops_its_writer", closed_by_an_operation),
        trial("log_and_others_exclude_each_other", excluded),
        trial("log_a_bystander_sees_what_was_merged_and_writes_nothing", bystander),
        trial("log_damage_is_refused_and_nothing_is_lost", damaged),
        trial("log_writes_wait_for_merges_and_memory_is_bounded", back_pressure),
        trial("log_a_map_that_is_full_refuses_writes_and_keeps_the_answered_ones", full_map),
        trial("log_readers_never_see_half_a_group", whole_groups),
        trial("log_what_threads_remember_is_never_older_than_an_answer", remembered),
    ]
}

/// Why a store is not opened, without much waiting.
fn refused(dir: &Path, config: LmdbConfig) -> StoreError {
    refusal(dir, LmdbConfig { open_wait: Duration::from_millis(30), ..config })
}

fn put(runtime: &Runtime, store: &Lmdb, number: u64) {
    runtime.block_on(store.commit(&[blind(key(1, number), vec![number as u8; 300])])).unwrap();
}

/// The numbers that [`put`] wrote, as a scan shows them.
fn numbers(store: &Lmdb) -> Vec<u64> {
    rows(store, 1).iter().map(|(key, _)| u64::from_be_bytes(key.rest().try_into().unwrap())).collect()
}

fn logs(dir: &Path) -> Vec<PathBuf> {
    ["log.0", "log.1"].map(|name| dir.join(name)).into_iter().filter(|path| path.exists()).collect()
}

/// What a process killed now would leave.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for file in
        std::fs::read_dir(from).unwrap().map(Result::unwrap).filter(|f| f.file_type().unwrap().is_file())
    {
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

fn left_behind(dir: &Path) {
    let (owned, runtime) = (dir.join("owned"), runtime());
    std::fs::create_dir(&owned).unwrap();
    let store = open_as(&owned, with_log());
    (0..5).for_each(|number| put(&runtime, &store, number));
    let delete = Change { effect: trellis_metastore::change::Effect::Delete, ..blind(key(1, 2), vec![]) };
    runtime.block_on(store.commit(&[delete])).unwrap();
    assert_eq!(store.counters().read().merges, 0);
    for (name, config) in [("plain", small_lmdb()), ("log", with_log())] {
        let dir = dir.join(name);
        copy(&owned, &dir);
        // One that opens it finds the log already gone, or the next one would put it back over newer rows.
        let store = open_as(&dir, config.clone());
        assert_eq!(numbers(&store), [0, 1, 3, 4], "{name}");
        put(&runtime, &store, 2);
        drop(store);
        assert_eq!(logs(&dir), [] as [PathBuf; 0], "{name}");
        assert_eq!(numbers(&open(&dir)), [0, 1, 2, 3, 4], "{name}");
    }
}

fn closed(dir: &Path) {
    let runtime = runtime();
    let store = open_as(dir, with_log());
    (0..100).for_each(|number| put(&runtime, &store, number));
    assert_eq!(logs(dir).len(), 2);
    let (writer, _runtime) = start(&store, 1);
    let ends = Ends::new();
    send(&writer, ends.op(0, |tx| increment(tx, "queued")));
    // The writer keeps it open until its queue is empty.
    drop(store);
    drop(writer);
    assert_eq!(ends.next(), (0, End::Answered));
    assert_eq!(logs(dir), [] as [PathBuf; 0]);
    let store = open(dir);
    assert_eq!(numbers(&store), (0..100).collect::<Vec<_>>());
    assert_eq!(number(&store, "queued"), 1);
}

/// The last owner of the writer is an operation, while another still waits behind it.
fn closed_by_an_operation(dir: &Path) {
    let (ends, runtime) = (Ends::new(), runtime());
    let store = open_as(dir, with_log());
    let config = GroupConfig { max_operations: 1, ..GroupConfig::default() };
    let versions = Versions::of_incarnation(1);
    let writer =
        Writer::start(&store, Arc::new(Unfenced), versions, &config, runtime.handle().clone()).unwrap();
    let owned = Arc::new(Mutex::new(None));
    let (release, released) = channel::<()>();
    let owner = owned.clone();
    send(
        &writer,
        ends.op(0, move |tx| {
            let _ = released.recv();
            let _owner = &owner;
            increment(tx, "first")
        }),
    );
    send(&writer, ends.op(1, |tx| increment(tx, "second")));
    *owned.lock().unwrap() = Some(writer);
    drop((owned, store));
    drop(release);
    assert_eq!(ends.take(2), [(0, End::Answered), (1, End::Answered)]);
    let store = open(dir);
    assert_eq!((number(&store, "first"), number(&store, "second")), (1, 1));
}

fn excluded(dir: &Path) {
    let mut owner = Process::start("own-and-wait", dir);
    assert_eq!(owner.line(), "has it");
    for config in [small_lmdb(), with_log()] {
        let why = refused(dir, config).to_string();
        assert!(
            why.contains(&format!("process {} has it alone", owner.id())) && why.contains("--alone"),
            "{why}"
        );
    }
    owner.kill();
    let store = open(dir);
    assert_eq!(number(&store, "owned"), 1, "the log of the killed one was put into the tree");
    let second = Process::start("open-and-wait", dir);
    let why = refused(dir, with_log()).to_string();
    assert!(why.contains("other processes have it open"), "{why}");
    drop(store);
    second.finish();
    drop(open_as(dir, with_log()));
}

/// A child: has a store alone.
pub fn own_and_wait(dir: &Path) {
    let store = open_as(dir, with_log());
    let (writer, _runtime) = start(&store, 2);
    let ends = Ends::new();
    send(&writer, ends.op(0, |tx| increment(tx, "owned")));
    assert_eq!(ends.next().1, End::Answered);
    say("has it");
    wait_for_parent();
}

/// A child: has a store open together with others.
pub fn open_and_wait(dir: &Path) {
    let _store = open(dir);
    wait_for_parent();
}

fn bystander(dir: &Path) {
    let runtime = runtime();
    drop(open(dir));
    let mut owner = Process::start("own-and-wait", dir);
    assert_eq!(owner.line(), "has it");
    let store = open_as(dir, LmdbConfig { form: Form::Behind, ..small_lmdb() });
    assert_eq!(number(&store, "owned"), 0, "not merged yet");
    let refused = runtime.block_on(store.commit(&[blind(key(1, 1), vec![])]));
    assert!(matches!(&refused, Err(StoreError::Fatal(why)) if why.contains("looking")), "{refused:?}");
    let (writer, _runtime) = start(&store, 3);
    let ends = Ends::new();
    send(&writer, ends.op(0, |tx| increment(tx, "other")));
    assert!(matches!(ends.next().1, End::Failed(StoreError::Fatal(_))));
    owner.finish();
    assert_eq!(number(&store, "owned"), 1, "merged when its owner closed it");
}

fn damaged(dir: &Path) {
    let (owned, runtime) = (dir.join("owned"), runtime());
    std::fs::create_dir(&owned).unwrap();
    let store = open_as(&owned, with_log());
    (0..3).for_each(|number| put(&runtime, &store, number));
    let torn = dir.join("torn");
    copy(&owned, &torn);
    let log = torn.join("log.0");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    for config in [small_lmdb(), with_log()] {
        let why = refused(&torn, config).to_string();
        assert!(why.contains("log is damaged") && why.contains("record 1 is not as it was written"), "{why}");
    }
    assert_eq!(std::fs::read(&log).unwrap(), bytes, "left as it was");
    bytes[100] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    assert_eq!(numbers(&open(&torn)), [0, 1, 2]);
}

fn back_pressure(dir: &Path) {
    let runtime = runtime();
    let store = open_as(dir, LmdbConfig { log_bytes: 64 << 10, ..with_log() });
    (0..1000).for_each(|number| put(&runtime, &store, number));
    let counted = store.counters().read();
    // 1000 rows of 300 bytes and more; merges are due when half the room is taken.
    assert!(counted.merges >= 4, "{counted:?}");
    assert_eq!(numbers(&store), (0..1000).collect::<Vec<_>>());
    for log in logs(dir) {
        assert!(log.metadata().unwrap().len() <= 1 << 20, "a file is written again and again");
    }
    // Overwriting one row fills the log, not the layer.
    let before = store.counters().read().merges;
    (0..1000).for_each(|_| put(&runtime, &store, 7));
    assert!(store.counters().read().merges >= before + 4);
}

fn full_map(dir: &Path) {
    let runtime = runtime();
    let small = LmdbConfig { map_bytes: 1 << 20, ..merging() };
    let store = open_as(dir, small.clone());
    let mut answered = 0;
    let error = loop {
        match runtime.block_on(store.commit(&[blind(key(1, answered), vec![1; 8000])])) {
            Ok(()) => answered += 1,
            Err(error) => break error,
        }
        assert!(answered < 10_000, "the map is never full");
    };
    assert!(matches!(&error, StoreError::Full(why) if why.contains("map of 1048576 bytes")), "{error:?}");
    assert_eq!(numbers(&store).len() as u64, answered, "reads go on");
    drop(store);
    assert_eq!(logs(dir).len(), 2, "what could not be merged is kept");
    assert!(matches!(refused(dir, small), StoreError::Full(_)));
    let store = open_as(dir, LmdbConfig { map_bytes: 8 << 20, ..small_lmdb() });
    assert_eq!(numbers(&store).len() as u64, answered, "a larger map takes it");
}

/// Each group writes the same number into rows of two partitions, while the log is merged all the time; whoever reads
/// sees both or none, and never an older one than before.
fn whole_groups(dir: &Path) {
    const GROUPS: u64 = 400;
    let store = open_as(dir, merging());
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let runtime = runtime();
            for number in 1..=GROUPS {
                let value = number.to_be_bytes().to_vec();
                let changes = [blind(key(1, 1), value.clone()), blind(key(2, 2), value)];
                let changes = changes.map(|change| Change { check: Check::Nothing, ..change });
                runtime.block_on(store.commit(&changes)).unwrap();
            }
        });
        let reading = || {
            let (runtime, mut last) = (runtime(), 0);
            while last < GROUPS {
                let scans = [1, 2].map(|partition| Scan::of(TableId::Inodes, partition, 5));
                let fetched = runtime.block_on(store.fetch(&[key(1, 1), key(2, 2)], &scans)).unwrap();
                let seen = fetched.rows.iter().flatten().map(|row| row.value.clone());
                let scanned = fetched.scans.iter().flat_map(|scan| match scan {
                    Scanned::Rows(rows) => rows.iter().map(|(_, row)| row.value.clone()),
                    Scanned::Count(_) => panic!("counted"),
                });
                let seen: Vec<u64> = seen
                    .chain(scanned)
                    .map(|value| u64::from_be_bytes(value[..].try_into().unwrap()))
                    .collect();
                assert!(seen.is_empty() || seen.len() == 4, "{seen:?}");
                assert!(
                    seen.iter().all(|number| *number == seen[0] && *number >= last),
                    "{seen:?} after {last}"
                );
                last = seen.first().copied().unwrap_or(0);
            }
        };
        let readers = [scope.spawn(reading), scope.spawn(reading)];
        writing.join().unwrap();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    assert!(store.counters().read().merges > 1);
}

/// Two directories are written again and again, while threads read them as they remember them: as rows, as numbers that
/// follow from both, and as pages that show what is in a partition.
fn remembered(dir: &Path) {
    const ROUNDS: u64 = 2000;
    let directory = |number| {
        let inode = Inode { kind: Kind::Directory as i32, length: number, ..Inode::default() };
        inode.encode_to_vec()
    };
    let store = open_as(dir, merging());
    let (keys, answered) = ([key(1, 1), key(2, 2)], AtomicU64::new(0));
    let write = |runtime: &Runtime, number| {
        let changes =
            keys.clone().map(|key| Change { check: Check::Nothing, ..blind(key, directory(number)) });
        runtime.block_on(store.commit(&changes)).unwrap();
        answered.store(number, Ordering::SeqCst);
    };
    write(&runtime(), 1);
    let numbers_in = |view: &mut dyn View| {
        keys.each_ref().map(|key| {
            let mut number = None;
            view.read(key, &mut |row| number = row.map(|row| Inode::decode(row.value).unwrap().length))
                .unwrap();
            number.unwrap()
        })
    };
    let (recalled, pages) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let reading = || {
            let mut last = 0;
            while last < ROUNDS {
                let floor = answered.load(Ordering::SeqCst);
                let (noted, page, read) = store
                    .read(|view| {
                        let noted = view.recall(b"both").map(<[u64]>::to_vec);
                        let page = view.recall_page(2, 7);
                        let read = numbers_in(view);
                        view.note(b"both", &keys, &read);
                        view.note_page(2, 7, &Bytes::copy_from_slice(&read[1].to_be_bytes()));
                        (noted, page, read)
                    })
                    .unwrap();
                assert!(read[0] == read[1] && read[0] >= floor, "{read:?} after {floor}");
                assert!(noted.as_ref().is_none_or(|noted| *noted == read), "{noted:?}, {read:?}");
                assert!(
                    page.as_ref().is_none_or(|page| page[..] == read[1].to_be_bytes()),
                    "{page:?}, {read:?}"
                );
                recalled.fetch_add(u64::from(noted.is_some()), Ordering::Relaxed);
                pages.fetch_add(u64::from(page.is_some()), Ordering::Relaxed);
                last = read[0];
            }
        };
        let readers = [scope.spawn(reading), scope.spawn(reading)];
        let runtime = runtime();
        for number in 2..=ROUNDS {
            write(&runtime, number);
            // Time for the tree to have it, now and then.
            if number % 20 == 0 {
                std::thread::sleep(Duration::from_millis(4));
            }
        }
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    assert!(recalled.into_inner() > 0 && pages.into_inner() > 0);
}
