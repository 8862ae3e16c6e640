//! `trellis fsck` and `trellis admin` against a running cluster.

use crate::support::{Up, complaint, output};

/// Exit code and stdout of a command that asks an HTTP port.
fn asks(up: &Up, args: &[&str]) -> (Option<i32>, String) {
    let addresses = std::fs::read_to_string(up.data.join("run/namenode-0.addr")).unwrap();
    let http = addresses.lines().nth(1).unwrap();
    let told = output(&[args, &["--http", http]].concat());
    (told.status.code(), String::from_utf8_lossy(&told.stdout).into_owned())
}

#[test]
fn a_cluster_is_looked_at_and_its_files_are_closed() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &[]);
    assert!(up.fs(&["mkdir", "-p", "/a/b"]).status.success());
    assert!(up.fs(&["touchz", "/a/f"]).status.success());
    let (code, text) = asks(&up, &["fsck", "/a", "-files", "-blocks"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("/a/b <dir>\n/a/f 0 bytes, replicated: replication="), "{text}");
    assert!(text.ends_with("The filesystem under path '/a' is HEALTHY\n"), "{text}");
    let (code, text) = asks(&up, &["fsck", "/none"]);
    assert_eq!((code, text.contains("Path '/none' does not exist")), (Some(2), true), "{text}");
    let (code, text) = asks(&up, &["fsck", "--list-corruptfileblocks"]);
    assert_eq!((code, text.as_str()), (Some(0), "The filesystem under path '/' has 0 CORRUPT blocks\n"));
    for list in ["under-replicated", "missing", "corrupt"] {
        assert_eq!(asks(&up, &["admin", list]), (Some(0), "0 blocks\n".to_owned()), "{list}");
    }
    let (code, text) = asks(&up, &["admin", "datanodes"]);
    assert!(code == Some(0) && text.ends_with(" datanodes\n"), "{text}");
    let open = output(&["admin", "open-files", "--fs", &up.fs]);
    assert_eq!(String::from_utf8_lossy(&open.stdout), "0 open files\n", "{}", complaint(&open));
    let closed = output(&["admin", "close", "/a/f", "--fs", &up.fs]);
    assert_eq!(String::from_utf8_lossy(&closed.stdout), "/a/f is closed\n", "{}", complaint(&closed));
}

#[test]
fn a_namenode_that_is_not_there_is_told() {
    let refused = output(&["fsck", "/", "--http", "127.0.0.1:1"]);
    let why = complaint(&refused);
    assert!(
        refused.status.code() == Some(2) && why.contains("127.0.0.1:1") && why.contains("--http"),
        "{why}"
    );
    let refused = output(&["admin", "missing", "--http", "127.0.0.1:1"]);
    assert_eq!(refused.status.code(), Some(1), "{}", complaint(&refused));
}
