//! Opening: what is refused, and how it is said.

use std::path::Path;
use std::time::Duration;

use libtest_mimic::Trial;
use trellis_metastore::change::{Change, Check, Effect, Row};
use trellis_metastore::key::{Key, Scan};
use trellis_metastore::lmdb::LmdbConfig;
use trellis_metastore::schema::TableId;
use trellis_metastore::store::{Scanned, Store, StoreError};
use trellis_metastore::tx::Stop;

use super::{open, open_as, refusal, rows, trial};
use crate::backends::{runtime, small_lmdb};

pub fn trials() -> Vec<Trial> {
    vec![
        trial("open_twice_in_one_process_is_refused", twice),
        trial("open_does_not_wait_for_ever_for_another_that_opens", while_another_opens),
        trial("open_says_what_is_wrong_with_a_directory", wrong_directories),
        trial("open_refuses_foreign_and_damaged_files", foreign_files),
        trial("open_a_damaged_row_is_named", damaged_row),
        trial("open_refuses_a_file_that_was_cut", cut_file),
        trial("open_makes_a_file_longer_that_lacks_empty_pages", short_file),
        trial("open_with_the_default_map_takes_no_space", default_map),
    ]
}

/// Why a store will never be opened.
fn fault(dir: &Path) -> String {
    match refusal(dir, small_lmdb()) {
        StoreError::Fatal(why) => why,
        other => panic!("{other:?}"),
    }
}

fn twice(dir: &Path) {
    let store = open(dir);
    assert!(fault(dir).contains("this process has it open already"));
    std::os::unix::fs::symlink(dir, dir.join("again")).unwrap();
    assert!(fault(&dir.join("again")).contains("this process has it open already"), "by another name");
    let clone = store.clone();
    drop(store);
    assert!(fault(dir).contains("already"), "a clone lives");
    drop(clone);
    drop(open(dir));
}

/// Another process that was stopped while it opens.
fn while_another_opens(dir: &Path) {
    drop(open(dir));
    let other = std::fs::File::open(dir.join("open.lock")).unwrap();
    other.lock().unwrap();
    let config = LmdbConfig { open_wait: Duration::from_millis(50), ..small_lmdb() };
    match refusal(dir, config) {
        StoreError::Unavailable(why) => assert!(why.contains("another process has been opening it")),
        other => panic!("{other:?}"),
    }
    drop(other);
    drop(open(dir));
}

fn wrong_directories(dir: &Path) {
    assert!(fault(&dir.join("none")).contains("no such directory"));
    std::fs::write(dir.join("file"), "x").unwrap();
    assert!(fault(&dir.join("file")).contains("not a directory"));
    assert!(fault(Path::new("/proc")).contains("cannot write here"), "a file system that takes no files");
}

fn foreign_files(dir: &Path) {
    for (name, bytes) in [("garbage", vec![0xa5; 20_000]), ("short", b"hello".to_vec())] {
        let dir = dir.join(name);
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("data.mdb"), &bytes).unwrap();
        assert!(fault(&dir).contains("not a file of this engine"), "{}", fault(&dir));
        assert_eq!(std::fs::read(dir.join("data.mdb")).unwrap(), bytes, "left as it was");
    }
    // Another program's environment: sound, but other entries.
    let foreign = dir.join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    rewrite_first_key(&foreign, |key| key[8] = 0xee);
    assert!(fault(&foreign).contains("other than rows of this store"));
}

/// Makes a store with one row and changes the bytes of its key in the file.
fn rewrite_first_key(dir: &Path, change: fn(&mut [u8])) {
    write_rows(dir, &[b"marker-of-the-key"]);
    let file = dir.join("data.mdb");
    let mut bytes = std::fs::read(&file).unwrap();
    let at: Vec<usize> =
        (9..bytes.len() - 17).filter(|i| &bytes[*i..i + 17] == b"marker-of-the-key").collect();
    assert!(!at.is_empty());
    at.into_iter().for_each(|i| change(&mut bytes[i - 9..i]));
    std::fs::write(&file, bytes).unwrap();
}

fn write_rows(dir: &Path, rests: &[&[u8]]) -> Vec<Key> {
    let store = open(dir);
    let keys: Vec<Key> = rests.iter().map(|rest| Key::new(3, TableId::Inodes, rest)).collect();
    let row = Row { version: 1, max: 0, add: 0, value: bytes::Bytes::from_static(b"marker-of-the-value") };
    let insert =
        |key: &Key| Change { key: key.clone(), check: Check::Absent, effect: Effect::Insert(row.clone()) };
    let changes: Vec<Change> = keys.iter().map(insert).collect();
    runtime().block_on(store.commit(&changes)).unwrap();
    keys
}

fn damaged_row(dir: &Path) {
    let keys = write_rows(dir, &[b"after-it", b"broken", b"zero"]);
    let file = dir.join("data.mdb");
    let mut bytes = std::fs::read(&file).unwrap();
    // A node's data size stands 8 bytes before its key, little-endian: 24 + 19 bytes become 20, too short for a row.
    let mut found = 0;
    for i in 8..bytes.len() - 15 {
        if bytes[i..].starts_with(keys[1].as_bytes()) && bytes[i - 8] == 43 {
            bytes[i - 8] = 20;
            found += 1;
        }
    }
    assert!(found > 0, "the node was not found");
    std::fs::write(&file, bytes).unwrap();
    let store = open(dir);
    let runtime = runtime();
    let damaged = |result: Result<_, StoreError>| match result {
        Err(StoreError::Damaged(key, why)) => {
            assert!(key == keys[1] && why.contains("Inodes[3/broken]"), "{why}");
        }
        other => panic!("{other:?}"),
    };
    damaged(runtime.block_on(store.fetch(&keys, &[])));
    damaged(runtime.block_on(store.fetch(&[], &[Scan::of(TableId::Inodes, 3, 10)])));
    let check = Change { key: keys[1].clone(), check: Check::Version(1), effect: Effect::Keep };
    damaged(runtime.block_on(store.commit(&[check])).map(|()| Default::default()));
    let stop = store.read(|view| view.read(&keys[1], &mut |_| ())).unwrap();
    assert!(matches!(&stop, Err(Stop::Fault(why)) if why.contains("broken")), "{stop:?}");
    let others = [keys[0].clone(), keys[2].clone()];
    assert_eq!(runtime.block_on(store.fetch(&others, &[])).unwrap().rows.iter().flatten().count(), 2);
    let count = Scan::of(TableId::Inodes, 3, 10).count();
    assert_eq!(runtime.block_on(store.fetch(&[], &[count])).unwrap().scans, [Scanned::Count(3)]);
}

fn cut_file(dir: &Path) {
    let names: Vec<String> = (0..4000).map(|i| format!("row-{i:080}")).collect();
    write_rows(dir, &names.iter().map(String::as_bytes).collect::<Vec<_>>());
    let path = dir.join("data.mdb");
    let whole = std::fs::read(&path).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    // The last pages are room; before them the end may be missing, which is another test.
    let last = whole.iter().rposition(|byte| *byte != 0).unwrap() as u64 / 4096;
    assert!(last > 100, "{last}");
    // Two pages say where everything is; cut before, the file is none of the engine's.
    for pages in (1..last - 64).rev() {
        file.set_len(pages * 4096).unwrap();
        let why = fault(dir);
        let want = if pages < 2 { "not a file of this engine" } else { "data.mdb was cut" };
        assert!(why.contains(want), "{pages} pages: {why}");
    }
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(rows(&open(dir), 3).len(), 4000);
}

/// Pages at the end that hold nothing are not missed.
fn short_file(dir: &Path) {
    let names: Vec<String> = (0..4000).map(|i| format!("row-{i}")).collect();
    let keys = write_rows(dir, &names.iter().map(String::as_bytes).collect::<Vec<_>>());
    let store = open(dir);
    let runtime = runtime();
    let delete = |key: &Key| Change { key: key.clone(), check: Check::Version(1), effect: Effect::Delete };
    for some in keys[1..].chunks(500) {
        runtime.block_on(store.commit(&some.iter().map(delete).collect::<Vec<_>>())).unwrap();
    }
    drop(store);
    let path = dir.join("data.mdb");
    let whole = std::fs::read(&path).unwrap();
    let last = whole.iter().rposition(|byte| *byte != 0).unwrap() as u64 / 4096;
    std::fs::File::options().write(true).open(&path).unwrap().set_len((last - 30) * 4096).unwrap();
    let store = open(dir);
    assert!(store.file_bytes().unwrap() >= (last + 1) * 4096, "a page past the end would end the process");
    let rows = runtime.block_on(store.fetch(&keys[..2], &[])).unwrap().rows;
    assert!(rows[0].is_some() && rows[1].is_none());
}

fn default_map(dir: &Path) {
    let store = open_as(dir, LmdbConfig::default());
    assert!(store.file_bytes().unwrap() < 1 << 20);
}
