//! create and the calls of a file's writer.

use trellis_namenode::ops::add_block::add_block;
use trellis_namenode::ops::write::{AbandonBlock, BlockName, Complete, Fsync};
use trellis_namenode::ops::write::{abandon_block, complete, fsync};
use trellis_namenode::user::MAX_NAME_BYTES;
use trellis_proto::exception::Kind;

use crate::calls::{As, assert_sound, new_file, refusal, root, written};
use crate::files::next_block;
use crate::support::{BLOCK_POOL, Namenode, START_MS, path};

pub async fn a_file_is_made_written_and_closed() {
    let nn = Namenode::fresh().await;
    let made = root(&nn).open("/a/b/f", "c1").await.unwrap();
    assert_eq!((made.mode, made.replication, made.block_size), (0o644, 3, 1 << 20));
    assert_eq!((made.owner.as_str(), made.group.as_str()), ("hdfs", "supergroup"));
    assert_eq!((made.mtime_ms, made.atime_ms, made.length), (START_MS, START_MS, 0));
    assert_eq!(made.open.as_ref().map(|writer| writer.holder.as_str()), Some("c1"));
    assert_eq!(root(&nn).must("/a/b").await.children, 1);
    assert_eq!(root(&nn).must("/a").await.children, 1);
    assert_sound(&nn).await;
    assert_eq!(root(&nn).complete("/a/b/f", made.id, "c1").await, Ok(true));
    assert_eq!(root(&nn).must("/a/b/f").await.inode.open, None);
    assert_eq!(root(&nn).complete("/a/b/f", made.id, "c1").await, Ok(true));
    let lazy = root(&nn).create_as(new_file("/a/lazy", "c1", 1 | 16)).await.unwrap();
    assert_eq!(lazy.policy, 15);
    let mut call = new_file("/a/cold", "c1", 1 | 128);
    call.storage_policy = "cold".into();
    assert_eq!(root(&nn).create_as(call).await.unwrap().policy, 2);
    assert_sound(&nn).await;
}

pub async fn names_that_no_row_can_hold_are_refused() {
    let nn = Namenode::fresh().await;
    root(&nn).chmod("/", 0o777).await.unwrap();
    let long = "n".repeat(100_000);
    let stranger = As { nn: &nn, user: &long };
    let refused = [
        (refusal(root(&nn).open("/f", &long).await), "client"),
        (refusal(stranger.open("/f", "c1").await), "user"),
        (refusal(stranger.mk("/d").await), "user"),
    ];
    for (why, what) in refused {
        let want = format!("HadoopIllegalArgumentException: The {what} name nnnn");
        assert!(why.starts_with(&want) && why.contains("100000 bytes, limit=1024"), "{why}");
    }
    let longest = "n".repeat(MAX_NAME_BYTES);
    As { nn: &nn, user: &longest }.open("/f", &longest).await.unwrap();
    assert_sound(&nn).await;
}

pub async fn a_file_costs_one_fetch_and_one_commit() {
    let nn = Namenode::fresh().await;
    root(&nn).touch("/1/2/3/4/5/6/f").await.unwrap();
    let counters = || nn.engine.backend().counters().read();
    let before = counters();
    let made = root(&nn).open("/1/2/3/4/5/6/g", "toucher").await.unwrap();
    let created = counters();
    root(&nn).complete("/1/2/3/4/5/6/g", made.id, "toucher").await.unwrap();
    let completed = counters();
    root(&nn).renew("toucher").await.unwrap();
    let renewed = counters();
    root(&nn).rm("/1/2/3/4/5/6/g", false).await.unwrap();
    let removed = counters();
    root(&nn).chmod("/1/2/3/4/5/6/f", 0o600).await.unwrap();
    let changed = counters();
    root(&nn).utimes("/1/2/3/4/5/6", 5, 6).await.unwrap();
    let touched = counters();
    root(&nn).open("/1/2/3/4/5/6/new1/new2/f", "toucher").await.unwrap();
    let deep = counters();
    root(&nn).create_as(new_file("/1/2/3/4/5/6/f", "toucher", 3)).await.unwrap();
    let overwritten = counters();
    root(&nn).mv("/1/2/3/4/5/6/f", "/1/2/3/f").await.unwrap();
    let moved = counters();
    let steps = [before, created, completed, renewed, removed, changed, touched, deep, overwritten, moved];
    for (i, pair) in steps.windows(2).enumerate() {
        let spent = pair[1].since(&pair[0]);
        assert_eq!((spent.fetches, spent.commits, spent.round_trips), (1, 1, 2), "step {i}");
    }
}

pub async fn refusals_of_stock() {
    let nn = Namenode::fresh().await;
    let (su, bob) = (root(&nn), As { nn: &nn, user: "bob" });
    su.touch("/e/f").await.unwrap();
    su.mk("/e/d").await.unwrap();
    let not_parent = |text: &str| {
        let mut call = new_file(text, "c1", 1);
        call.create_parent = false;
        call
    };
    for (call, why) in [
        (new_file("/e/f", "c1", 1), "FileAlreadyExistsException: /e/f for client 127.0.0.1 already exists"),
        (new_file("/e/d", "c1", 3), "FileAlreadyExistsException: /e/d already exists as a directory"),
        (new_file("/", "c1", 3), "FileAlreadyExistsException: / already exists as a directory"),
        (not_parent("/nope/f"), "FileNotFoundException: Parent directory doesn't exist: /nope"),
        (new_file("/e/f/x", "c1", 1), "ParentNotDirectoryException: /e/f (is not a directory)"),
        (new_file("/e/new", "c1", 2), "FileNotFoundException: Can't overwrite non-existent /e/new"),
        (new_file("/e/a:b", "c1", 1), "InvalidPathException: Invalid path name /e/a:b"),
        (new_file("/.reserved", "c1", 1), "InvalidPathException: Invalid path name /.reserved"),
        (new_file("/.reserved/x", "c1", 1), "InvalidPathException: Invalid path name /.reserved/x"),
        (
            new_file("/e/.snapshot", "c1", 1),
            "HadoopIllegalArgumentException: \".snapshot\" is a reserved name.",
        ),
    ] {
        assert_eq!(refusal(su.create_as(call).await), why);
    }
    let mut call = new_file("/e/r", "c1", 1);
    call.block_size = 512;
    assert_eq!(
        refusal(su.create_as(call.clone()).await),
        "IOException: Specified block size 512 is less than configured minimum value \
         dfs.namenode.fs-limits.min-block-size=1024"
    );
    (call.block_size, call.replication) = (1024, 0);
    assert_eq!(
        refusal(su.create_as(call.clone()).await),
        "IOException: Requested replication factor of 0 is less than the required minimum of 1 for /e/r, \
         clientName=127.0.0.1"
    );
    call.replication = 600;
    assert_eq!(
        refusal(su.create_as(call.clone()).await),
        "IOException: Requested replication factor of 600 exceeds maximum of 512 for /e/r, clientName=127.0.0.1"
    );
    (call.replication, call.ec_policy) = (1, "RS-6-3-1024k".into());
    assert_eq!(su.create_as(call).await.unwrap_err().kind, Kind::HadoopIllegalArgument);
    assert_eq!(
        refusal(bob.open("/e/g", "c1").await),
        "AccessControlException: Permission denied: user=bob, access=WRITE, \
         inode=\"/e\":hdfs:supergroup:drwxr-xr-x"
    );
    su.chmod("/e", 0o777).await.unwrap();
    assert_eq!(
        refusal(bob.create_as(new_file("/e/f", "c1", 3)).await),
        "AccessControlException: Permission denied: user=bob, access=WRITE, \
         inode=\"/e/f\":hdfs:supergroup:-rw-r--r--"
    );
    let long = format!("/e/{}", "n".repeat(256));
    assert_eq!(su.open(&long, "c1").await.unwrap_err().kind, Kind::PathComponentTooLong);
    assert_sound(&nn).await;
}

pub async fn modes_of_parents_made_on_the_way() {
    let nn = Namenode::fresh().await;
    let (su, bob) = (root(&nn), As { nn: &nn, user: "bob" });
    su.mkdirs("/s", 0o1777, true).await.unwrap();
    su.chmod("/s", 0o1777).await.unwrap();
    let mut call = new_file("/s/a/b/f", "c1", 1);
    call.mode = 0o4640;
    let made = bob.create_as(call).await.unwrap();
    assert_eq!((made.mode, made.owner.as_str(), made.group.as_str()), (0o640, "bob", "supergroup"));
    for directory in ["/s/a", "/s/a/b"] {
        let made = su.must(directory).await.inode;
        assert_eq!((made.mode, made.owner.as_str()), (0o777, "bob"), "{directory}");
    }
    su.chmod("/s", 0o1750).await.unwrap();
    su.open("/s/c/f", "c1").await.unwrap();
    assert_eq!(su.must("/s/c").await.inode.mode, 0o750);
    su.mkdirs("/s/x/y", 0o000, true).await.unwrap();
    assert_eq!(su.must("/s/x").await.inode.mode, 0o300);
    assert_eq!(su.must("/s/x/y").await.inode.mode, 0);
    let mut call = new_file("/s/all", "c1", 1);
    call.mode = 0o7777;
    assert_eq!(su.create_as(call).await.unwrap().mode, 0o1777);
    assert_sound(&nn).await;
}

pub async fn overwriting() {
    let nn = Namenode::fresh().await;
    let su = root(&nn);
    let first = su.open("/d/f", "c1").await.unwrap();
    let text = refusal(su.open("/d/f", "c1").await);
    assert_eq!(
        text,
        "AlreadyBeingCreatedException: Failed to CREATE_FILE /d/f for c1 on 127.0.0.1 because c1 is already the \
         current lease holder."
    );
    let text = refusal(su.open("/d/f", "c2").await);
    assert_eq!(
        text,
        "AlreadyBeingCreatedException: Failed to CREATE_FILE /d/f for c2 on 127.0.0.1 because this file lease is \
         currently owned by c1 on 127.0.0.1"
    );
    let second = su.create_as(new_file("/d/f", "c2", 3)).await.unwrap();
    assert_ne!(first.id, second.id);
    assert_eq!(su.complete("/d/f", first.id, "c1").await.unwrap_err().kind, Kind::FileNotFound);
    assert_eq!(su.complete("/d/f", second.id, "c2").await, Ok(true));
    let third = su.create_as(new_file("/d/f", "c1", 3)).await.unwrap();
    assert_eq!(su.must("/d").await.children, 1);
    assert_eq!(su.complete("/d/f", third.id, "c1").await, Ok(true));
    assert_sound(&nn).await;
}

pub async fn calls_of_the_writer() {
    let nn = Namenode::fresh().await;
    let su = root(&nn);
    let open = su.open("/e/uc", "c2").await.unwrap();
    let closed = su.touch("/e/f").await.unwrap();
    su.mk("/e/d").await.unwrap();
    let block = BlockName { pool: BLOCK_POOL.into(), id: 1, stamp: 1001, bytes: 0 };
    let ask = |text: &str, id: u64, holder: &str| {
        let call = next_block(text, id, holder, None);
        su.run(move |tx| add_block(tx, &call).map(drop))
    };
    let no_lease = "Holder c9 does not have any open files.";
    assert_eq!(
        refusal(ask("/e/uc", 0, "c9").await),
        format!(
            "LeaseExpiredException: Client (=c9) is not the lease owner (=c2: /e/uc (inode 0) {no_lease}"
        )
    );
    assert_eq!(
        refusal(ask("/e/f", 0, "c9").await),
        format!("LeaseExpiredException: File is not open for writing: /e/f (inode 0) {no_lease}")
    );
    assert_eq!(
        refusal(ask("/nope", 0, "c9").await),
        format!("FileNotFoundException: File does not exist: /nope (inode 0) {no_lease}")
    );
    assert_eq!(
        refusal(ask("/e/d", 0, "c9").await),
        format!("LeaseExpiredException: INode is not a regular file: /e/d (inode 0) {no_lease}")
    );
    assert_eq!(ask("/e/uc", 999_999, "c2").await.unwrap_err().kind, Kind::FileNotFound);
    let full = "IOException: File /e/uc could only be written to 0 of the 1 minReplication nodes. There are 0 \
                datanode(s) running and 0 node(s) are excluded in this operation.";
    assert_eq!(refusal(ask("/e/uc", open.id, "c2").await), full);
    let odd = next_block("/e/uc", open.id, "c2", Some(block.clone()));
    assert_eq!(
        refusal(su.run(move |tx| add_block(tx, &odd).map(drop)).await),
        "IOException: Cannot allocate block in /e/uc: passed 'previous' block BP-test:blk_1_1001 does not match actual \
         last block in file null"
    );
    let give_up = AbandonBlock { file: written("/e/uc", open.id, "c2"), block: block.clone() };
    assert_eq!(su.run(move |tx| abandon_block(tx, &give_up)).await, Ok(()));
    let sync = Fsync { file: written("/e/uc", open.id, "c2"), last_block_length: -1 };
    assert_eq!(su.run(move |tx| fsync(tx, &sync)).await, Ok(()));
    let sync = Fsync { file: written("/e/uc", open.id, "c9"), last_block_length: -1 };
    assert_eq!(su.run(move |tx| fsync(tx, &sync)).await.unwrap_err().kind, Kind::LeaseExpired);
    // A repeat of complete is welcome, unless the client speaks of another last block.
    assert_eq!(su.complete("/e/f", closed.id, "c9").await, Ok(true));
    let odd = Complete { file: written("/e/f", closed.id, "c9"), last: Some(block) };
    let answer = nn.yes("hdfs", move |tx| complete(tx, &odd)).await;
    assert_eq!(answer.unwrap_err().kind, Kind::LeaseExpired);
    // The path is only a hint; the id counts.
    assert_eq!(su.complete("/e/f", open.id, "c9").await.unwrap_err().kind, Kind::LeaseExpired);
    assert_eq!(su.complete("/nope/x", open.id, "c2").await, Ok(true));
    assert_eq!(path("/e").text(), "/e");
    assert_sound(&nn).await;
}

pub async fn a_deleted_file_cannot_be_completed() {
    let nn = Namenode::fresh().await;
    let su = root(&nn);
    let deep = su.open("/a/b/f", "c1").await.unwrap();
    let flat = su.open("/g", "c1").await.unwrap();
    assert_eq!(su.rm("/a", true).await, Ok(true));
    assert_eq!(su.rm("/g", false).await, Ok(true));
    for (text, id) in [("/a/b/f", deep.id), ("/g", flat.id)] {
        let why =
            format!("FileNotFoundException: File does not exist: {text} (inode {id}) [Lease.  Holder: c1]");
        assert_eq!(refusal(su.complete(text, id, "c1").await), why);
    }
    assert_sound(&nn).await;
}
