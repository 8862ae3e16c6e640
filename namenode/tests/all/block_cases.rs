//! Cases from the field about files with blocks, and who may do what to them; answers are stock's.

use std::sync::Arc;
use std::time::Duration;

use trellis_metastore::mem::Mem;
use trellis_metastore::schema::ReplicaState;
use trellis_namenode::config::Config;
use trellis_namenode::datanodes::view::Liveness;
use trellis_proto::exception::Kind;

use crate::actor::Actor;
use crate::calls::{As, assert_sound, root};
use crate::files::{BLOCK, cluster, give_datanodes, named, show};
use crate::support::{Namenode, SUPERUSER, pass_time};

const OWNER: &str = "daemon";
const GROUP: &str = "nogroup";
/// Users, and where their rights stand in a mode.
const ROLES: [(&str, Option<u32>); 4] =
    [(SUPERUSER, None), (OWNER, Some(6)), ("nobody", Some(3)), ("alice", Some(0))];
const READ: u32 = 4;
const WRITE: u32 = 2;

/// Case A4: the same call again, at another namenode, is answered as the first was.
pub async fn a4_the_same_call_sent_twice() {
    let store = Arc::new(Mem::new());
    let one = Namenode::start(store.clone(), 1, Config::default()).await;
    let two = Namenode::start(store, 2, Config::default()).await;
    give_datanodes(&one).await;
    show(&two, &[Liveness::Live; 3]);
    let su = root(&one);
    su.write_file("/t/f", &[BLOCK, 10]).await;
    for name in ["/t/a", "/t/b"] {
        su.write_file(name, &[5]).await;
    }
    let first = root(&one.repeating(1)).append("/t/f", "c1", false).await.unwrap().unwrap();
    let again = root(&two.repeating(1)).append("/t/f", "c1", false).await.unwrap().unwrap();
    assert_eq!((&first.block, first.offset, first.block.length), (&again.block, again.offset, 10));
    assert_eq!(su.append("/t/f", "c1", false).await.unwrap_err().kind, Kind::AlreadyBeingCreated);
    assert_eq!(root(&one.repeating(2)).concat("/t/a", &["/t/b"]).await, Ok(()));
    assert_eq!(root(&two.repeating(2)).concat("/t/a", &["/t/b"]).await, Ok(()));
    assert_eq!(su.concat("/t/a", &["/t/b"]).await.unwrap_err().kind, Kind::FileNotFound);
    assert_eq!((su.must("/t/a").await.inode.length, su.must("/t").await.children), (10, 2));
    // A cut inside a block goes on; the repeat says so as well, also when it is done.
    assert_eq!(root(&one.repeating(3)).truncate("/t/a", 7, "c1").await, Ok(false));
    let block = su.blocks(su.must("/t/a").await.inode.id).await.pop().unwrap();
    su.recovered(named(&block, 5), block.recovery.unwrap().stamp, 2, false, &[0, 1, 2]).await.unwrap();
    assert_eq!(root(&two.repeating(3)).truncate("/t/a", 7, "c1").await, Ok(false));
    assert_eq!(su.truncate("/t/a", 7, "c1").await, Ok(true));
    assert_sound(&one).await;
}

/// Case A6: an append moves a file's modification time, one of no bytes too; its directory's stays.
pub async fn a6_an_append_moves_the_time() {
    let nn = cluster().await;
    let su = root(&nn);
    let id = su.write_file("/d/f", &[10]).await;
    for bytes in [10, 12] {
        let (before, directory) = (su.must("/d/f").await.mtime_ms, su.must("/d").await.mtime_ms);
        pass_time(Duration::from_secs(1));
        let last = su.append("/d/f", "c1", false).await.unwrap().unwrap().block;
        su.report(&last, bytes, ReplicaState::Finalized, &[0, 1, 2]).await;
        assert_eq!(su.close("/d/f", id, "c1", Some(named(&last, bytes))).await, Ok(true));
        assert_eq!(su.must("/d/f").await.mtime_ms, before + 1000);
        assert_eq!(su.must("/d").await.mtime_ms, directory);
    }
}

/// Case E5: what is known of a file while it is written, and the space that it takes.
pub async fn e5_lengths_while_writing() {
    let nn = cluster().await;
    let (su, actor) = (root(&nn), Actor::superuser(&nn));
    let id = su.begin("/f", "c1").await;
    let first = su.add_block("/f", id, "c1", None).await.unwrap().block;
    su.sync("/f", id, "c1", 100).await.unwrap();
    assert_eq!(su.must("/f").await.inode.length, 100);
    // What is flushed without a word of its length is read from the datanodes.
    su.sync("/f", id, "c1", -1).await.unwrap();
    let open = su.locations("/f", 0, 1000).await.unwrap();
    assert_eq!((open.length, open.under_construction), (0, true));
    assert_eq!(open.last_block.map(|last| (last.block.length, last.storages.len())), Some((100, 3)));
    su.sync("/f", id, "c1", 200).await.unwrap();
    assert_eq!(su.must("/f").await.inode.length, 200);
    su.report(&first, BLOCK, ReplicaState::Finalized, &[0, 1, 2]).await;
    let last = su.add_block("/f", id, "c1", Some(named(&first, BLOCK))).await.unwrap().block;
    su.sync("/f", id, "c1", 6000 - BLOCK as i64).await.unwrap();
    assert_eq!(su.must("/f").await.inode.length, 6000);
    let summary = actor.content_summary("/f").await.unwrap();
    assert!(summary.contains("24576") && summary.contains("6000"), "{summary}");
    su.report(&last, 6000 - BLOCK, ReplicaState::Finalized, &[0, 1, 2]).await;
    assert_eq!(su.close("/f", id, "c1", Some(named(&last, 6000 - BLOCK))).await, Ok(true));
    let summary = actor.content_summary("/f").await.unwrap();
    assert!(summary.contains("18000") && !summary.contains("24576"), "{summary}");
}

/// What a call on a file with blocks asks for: bits of the file, and whether its directory must be writable.
const CALLS: [(&str, u32); 5] = [
    ("append", WRITE),
    ("truncate", WRITE),
    ("setReplication", WRITE),
    ("getBlockLocations", READ),
    ("concat to it", WRITE),
];

async fn ask(at: As<'_>, call: &str, file: &str) -> Result<(), Kind> {
    let answer = match call {
        "append" => at.append(file, "c1", false).await.map(drop),
        "truncate" => at.truncate(file, 1, "c1").await.map(drop),
        "setReplication" => at.setrep(file, 2).await.map(drop),
        "getBlockLocations" => at.locations(file, 0, 1).await.map(drop),
        "concat to it" => at.concat(file, &[&format!("{file}.source")]).await,
        _ => panic!("{call} is not known here"),
    };
    answer.map_err(|error| error.kind)
}

/// A written file of the owner's with this mode.
async fn given(su: As<'_>, file: &str, mode: u32) {
    su.write_file(file, &[5]).await;
    su.chown(file, Some(OWNER), Some(GROUP)).await.unwrap();
    su.chmod(file, mode).await.unwrap();
}

/// Each call as superuser, owner, member of the group and stranger, over modes of the file.
pub async fn who_may_change_and_read_blocks() {
    let nn = cluster().await;
    let su = root(&nn);
    su.mkdirs("/d", 0o777, true).await.unwrap();
    su.chmod("/d", 0o777).await.unwrap();
    for mode in [0o000, 0o200, 0o400, 0o600, 0o640, 0o620, 0o660, 0o604, 0o602, 0o666, 0o066] {
        for (user, shift) in ROLES {
            for (call, bits) in CALLS {
                let file = format!("/d/{mode:o}-{user}-{}", call.replace(' ', "-"));
                given(su, &file, mode).await;
                if call.starts_with("concat") {
                    given(su, &format!("{file}.source"), 0o444).await;
                }
                let may = shift.is_none_or(|shift| mode >> shift & bits == bits);
                let expected = if may { Ok(()) } else { Err(Kind::AccessControl) };
                assert_eq!(
                    ask(As { nn: &nn, user }, call, &file).await,
                    expected,
                    "{call} {mode:o} by {user}"
                );
            }
        }
    }
    assert_sound(&nn).await;
}

/// Whoever joins files must be able to read the sources and to take them out of their directory.
pub async fn who_may_join_files() {
    let nn = cluster().await;
    let su = root(&nn);
    for (n, (directory, mode)) in
        [(0o777, 0o644), (0o777, 0o640), (0o777, 0o600), (0o755, 0o644)].iter().enumerate()
    {
        for (user, shift) in ROLES {
            let home = format!("/d{n}-{user}");
            su.mk(&home).await.unwrap();
            let (target, source) = (format!("{home}/target"), format!("{home}/source"));
            given(su, &target, 0o666).await;
            given(su, &source, *mode).await;
            su.chmod(&home, *directory).await.unwrap();
            let reads = shift.is_none_or(|shift| mode >> shift & READ == READ);
            let takes = user == SUPERUSER || directory & WRITE == WRITE;
            let expected = if reads && takes { Ok(()) } else { Err(Kind::AccessControl) };
            let answer = As { nn: &nn, user }.concat(&target, &[&source]).await.map_err(|error| error.kind);
            assert_eq!(answer, expected, "{directory:o} {mode:o} by {user}");
        }
    }
    assert_sound(&nn).await;
}
