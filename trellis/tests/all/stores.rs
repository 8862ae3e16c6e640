//! `trellis store`.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::support::{complaint, output, trellis};

fn url(dir: &Path) -> String {
    format!("lmdb:{}", dir.join("store").display())
}

fn dump(url: &str) -> String {
    let dumped = output(&["store", "dump", "--store", url]);
    assert!(dumped.status.success(), "{}", complaint(&dumped));
    String::from_utf8(dumped.stdout).unwrap()
}

fn check(url: &str) {
    let checked = output(&["store", "check", "--store", url]);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success(), "{said} {}", complaint(&checked));
}

#[test]
fn done_twice_it_says_so_and_another_id_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let url = url(dir.path());
    let first = output(&["store", "init", "--store", &url, "--cluster-id", "CID-one"]);
    assert!(first.status.success(), "{}", complaint(&first));
    let made = dump(&url);
    assert!(made.contains("CID-one"), "{made}");
    let again = output(&["store", "init", "--store", &url]);
    let said = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(again.status.success() && said.contains("already") && said.contains("CID-one"), "{said}");
    let other = output(&["store", "init", "--store", &url, "--cluster-id", "CID-two"]);
    let why = complaint(&other);
    assert!(
        other.status.code() == Some(1) && why.contains("CID-one") && why.contains("nothing was changed"),
        "{why}"
    );
    assert_eq!(dump(&url), made);
    check(&url);
}

/// Case I1: cut short at any moment, done again, the store is whole.
#[test]
fn cut_short_anywhere_it_can_be_done_again() {
    let whole = {
        let dir = tempfile::tempdir().unwrap();
        let begin = Instant::now();
        assert!(output(&["store", "init", "--store", &url(dir.path())]).status.success());
        begin.elapsed()
    };
    for moment in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let url = url(dir.path());
        let mut command = trellis(&["store", "init", "--store", &url]);
        let mut init = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // The moments cover the time that a whole run takes, and a little more.
        sleep(whole.max(Duration::from_millis(20)) * moment / 18);
        init.kill().unwrap();
        init.wait().unwrap();
        let again = output(&["store", "init", "--store", &url]);
        assert!(again.status.success(), "moment {moment}: {}", complaint(&again));
        let rows = dump(&url);
        assert_eq!(rows.lines().filter(|row| row.contains("\"cluster_id\"")).count(), 1, "{rows}");
        check(&url);
    }
}

#[test]
fn a_namenode_serves_no_store_that_was_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let store = format!("lmdb:{}", empty.display());
    let refused = output(&["namenode", "--store", &store, "--rpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    let why = complaint(&refused);
    assert!(refused.status.code() == Some(1) && why.contains("trellis store init"), "{why}");
}

#[test]
fn what_is_no_store_is_told_with_what_to_do() {
    let cases = [
        ("lmdb:/nowhere/at/all", "trellis store init"),
        ("mem:", "lmdb:DIR"),
        ("mysql://x", "lmdb:DIR"),
        ("rubbish", "lmdb:DIR"),
    ];
    for (url, hint) in cases {
        let refused = output(&["store", "dump", "--store", url]);
        let why = complaint(&refused);
        assert!(!refused.status.success() && why.contains(hint), "{url}: {why}");
    }
}

#[test]
fn a_damaged_store_is_found_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let url = url(dir.path());
    assert!(output(&["store", "init", "--store", &url]).status.success());
    let data = dir.path().join("store/data.mdb");
    File::options().write(true).open(&data).unwrap().set_len(2 * 4096).unwrap();
    let cut = output(&["store", "check", "--store", &url]);
    let why = complaint(&cut);
    assert!(cut.status.code() == Some(1) && why.contains("data.mdb is damaged, or was cut"), "{why}");
    std::fs::write(&data, b"no such format at all").unwrap();
    let refused = output(&["store", "check", "--store", &url]);
    let why = complaint(&refused);
    assert!(refused.status.code() == Some(1) && why.contains("damaged"), "{why}");
}

/// What was asked for and could not be written is no success; a reader that has gone is none of its business.
#[test]
fn output_that_is_lost_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let url = url(dir.path());
    assert!(output(&["store", "init", "--store", &url]).status.success());
    let commands: [&[&str]; 4] = [
        &["store", "check", "--store", &url],
        &["store", "dump", "--store", &url],
        &["admin", "settings"],
        &["admin", "client-config", "--namenode", "127.0.0.1:8020"],
    ];
    for command in commands {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let lost = trellis(command).stdout(full).output().unwrap();
        let why = complaint(&lost);
        assert!(lost.status.code() == Some(1) && why.contains("No space left"), "{command:?}: {why}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let unread = trellis(command).stdout(writer).output().unwrap();
        assert!(unread.status.success(), "{command:?}: {}", complaint(&unread));
    }
}

#[test]
fn a_cluster_id_is_one_word() {
    let dir = tempfile::tempdir().unwrap();
    for id in ["", "a b", "a\nb"] {
        let refused = output(&["store", "init", "--store", &url(dir.path()), "--cluster-id", id]);
        let why = complaint(&refused);
        assert!(refused.status.code() == Some(1) && why.contains("--cluster-id"), "{id:?}: {why}");
    }
    assert!(!dir.path().join("store").exists());
}
