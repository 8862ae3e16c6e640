//! setPermission, setOwner, setTimes, setReplication.

use trellis_namenode::user::MAX_NAME_BYTES;
use trellis_proto::exception::Kind;

use crate::calls::{As, assert_sound, refusal, root};
use crate::support::{Namenode, START_MS};

pub async fn modes_and_owners() {
    let nn = Namenode::fresh().await;
    let (su, bob) = (root(&nn), As { nn: &nn, user: "bob" });
    su.touch("/d/f").await.unwrap();
    for (asked, kept) in [(0o4755, 0o755), (0o1644, 0o1644), (0o7777, 0o1777), (0o700, 0o700)] {
        for target in ["/d/f", "/d", "/"] {
            su.chmod(target, asked).await.unwrap();
            assert_eq!(su.must(target).await.inode.mode, kept);
        }
    }
    su.chmod("/", 0o755).await.unwrap();
    su.chmod("/d", 0o755).await.unwrap();
    assert_eq!(
        refusal(bob.chmod("/d/f", 0o777).await),
        "AccessControlException: Permission denied. user=bob is not the owner of inode=/d/f"
    );
    assert_eq!(
        refusal(su.chmod("/nope", 0o777).await),
        "FileNotFoundException: Directory/File does not exist /nope"
    );
    assert_eq!(su.chmod("/.reserved", 0o777).await.unwrap_err().kind, Kind::InvalidPath);
    su.chown("/d/f", Some("bob"), Some("crew")).await.unwrap();
    let now = su.must("/d/f").await.inode;
    assert_eq!((now.owner.as_str(), now.group.as_str()), ("bob", "crew"));
    su.chown("/d/f", None, None).await.unwrap();
    bob.chown("/d/f", Some("bob"), None).await.unwrap();
    assert_eq!(
        refusal(bob.chown("/d/f", Some("eve"), None).await),
        "AccessControlException: User bob is not a super user (non-super user cannot change owner)."
    );
    assert_eq!(
        refusal(bob.chown("/d/f", None, Some("other")).await),
        "AccessControlException: User bob does not belong to other"
    );
    bob.chmod("/d/f", 0o600).await.unwrap();
    assert_eq!(su.must("/d").await.mtime_ms, START_MS);
    let (longest, too_long) = ("u".repeat(MAX_NAME_BYTES), "u".repeat(100_000));
    su.chown("/d/f", Some(&longest), Some(&longest)).await.unwrap();
    for (owner, group, what) in [(Some(&too_long), None, "user"), (None, Some(&too_long), "group")] {
        let why = refusal(su.chown("/d/f", owner.map(String::as_str), group.map(String::as_str)).await);
        let want =
            format!("HadoopIllegalArgumentException: The {what} name uuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu... is");
        assert!(why.starts_with(&want) && why.ends_with("too long: 100000 bytes, limit=1024"), "{why}");
    }
    assert_sound(&nn).await;
}

pub async fn times() {
    let nn = Namenode::fresh().await;
    let (su, bob) = (root(&nn), As { nn: &nn, user: "bob" });
    su.touch("/d/f").await.unwrap();
    assert_eq!(su.must("/d").await.inode.atime_ms, 0);
    su.utimes("/d/f", -1, 5000).await.unwrap();
    let file = su.must("/d/f").await;
    assert_eq!((file.mtime_ms, file.inode.atime_ms), (START_MS, 5000));
    su.utimes("/d", 7000, 6000).await.unwrap();
    let directory = su.must("/d").await;
    assert_eq!((directory.mtime_ms, directory.inode.atime_ms, directory.children), (7000, 6000, 1));
    su.utimes("/d", -1, -1).await.unwrap();
    assert_eq!(su.must("/d").await.mtime_ms, 7000);
    su.utimes("/d", 10, -1).await.unwrap();
    assert_eq!(su.must("/d").await.mtime_ms, 10);
    su.utimes("/", 11, 12).await.unwrap();
    assert_eq!(su.must("/").await.mtime_ms, 11);
    su.touch("/d/g").await.unwrap();
    assert_eq!(su.must("/d").await.mtime_ms, START_MS);
    assert_eq!(
        refusal(su.utimes("/nope", 1, 1).await),
        "FileNotFoundException: File/Directory /nope does not exist."
    );
    assert_eq!(
        refusal(bob.utimes("/d/f", 1, 1).await),
        "AccessControlException: Permission denied: user=bob, access=WRITE, \
         inode=\"/d/f\":hdfs:supergroup:-rw-r--r--"
    );
    assert_sound(&nn).await;
}

pub async fn replication() {
    let nn = Namenode::fresh().await;
    let (su, bob) = (root(&nn), As { nn: &nn, user: "bob" });
    su.touch("/d/f").await.unwrap();
    assert_eq!(su.setrep("/d/f", 2).await, Ok(true));
    assert_eq!(su.setrep("/d/f", 2).await, Ok(true));
    assert_eq!(su.must("/d/f").await.inode.replication, 2);
    assert_eq!(su.setrep("/d", 2).await, Ok(false));
    assert_eq!(su.setrep("/nope", 2).await, Ok(false));
    assert_eq!(
        refusal(su.setrep("/d/f", 600).await),
        "IOException: Requested replication factor of 600 exceeds maximum of 512 for /d/f"
    );
    assert_eq!(
        refusal(su.setrep("/d/f", 0).await),
        "IOException: Requested replication factor of 0 is less than the required minimum of 1 for /d/f"
    );
    assert_eq!(bob.setrep("/d/f", 1).await.unwrap_err().kind, Kind::AccessControl);
    assert_sound(&nn).await;
}
