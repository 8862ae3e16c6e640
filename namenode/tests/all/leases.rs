//! Leases: renewal, take-over, recovery, expiry.

use std::time::Duration;

use trellis_namenode::jobs::lease_expiry::{Expired, round};
use trellis_namenode::ops::lease::{RenewLease, renew_lease};
use trellis_proto::exception::Kind;

use crate::calls::{As, assert_sound, refusal, root};
use crate::support::{Namenode, pass_time};

const SOFT: Duration = Duration::from_secs(60);
const HARD: Duration = Duration::from_secs(1200);
const MOMENT: Duration = Duration::from_millis(1);

pub async fn renewal_and_soft_limit() {
    let nn = Namenode::fresh().await;
    let su = root(&nn);
    su.renew("nobody").await.unwrap();
    let odd = RenewLease { holder: "c1".into(), namespaces: vec!["ns".into()] };
    assert_eq!(
        refusal(su.run(move |tx| renew_lease(tx, &odd)).await),
        "IOException: namespaces([ns]) should be null or empty"
    );
    let file = su.open("/f", "c1").await.unwrap();
    pass_time(SOFT);
    assert_eq!(su.open("/f", "c2").await.unwrap_err().kind, Kind::AlreadyBeingCreated);
    su.renew("c1").await.unwrap();
    pass_time(SOFT);
    assert_eq!(su.open("/f", "c2").await.unwrap_err().kind, Kind::AlreadyBeingCreated);
    pass_time(MOMENT);
    // Past the soft limit the file is closed, and then it simply exists.
    assert_eq!(
        refusal(su.open("/f", "c2").await),
        "FileAlreadyExistsException: /f for client 127.0.0.1 already exists"
    );
    assert_eq!(su.must("/f").await.inode.open, None);
    assert_eq!(su.complete("/f", file.id, "c1").await, Ok(true));
    assert_sound(&nn).await;
}

pub async fn recovery() {
    let nn = Namenode::fresh().await;
    let (su, bob) = (root(&nn), As { nn: &nn, user: "bob" });
    su.open("/d/f", "c1").await.unwrap();
    assert_eq!(bob.recover("/d/f", "c2").await.unwrap_err().kind, Kind::AccessControl);
    assert_eq!(su.recover("/d/f", "c2").await, Ok(true));
    assert_eq!(su.must("/d/f").await.inode.open, None);
    assert_eq!(bob.recover("/d/f", "c2").await, Ok(true));
    assert_eq!(refusal(su.recover("/nope", "c2").await), "FileNotFoundException: File does not exist: /nope");
    assert_eq!(refusal(su.recover("/d", "c2").await), "FileNotFoundException: Path is not a file: /d");
    assert_sound(&nn).await;
}

pub async fn expiry() {
    let nn = Namenode::fresh().await;
    let su = root(&nn);
    su.open("/d/e/silent", "silent").await.unwrap();
    su.open("/d/other", "silent").await.unwrap();
    su.open("/d/e/lively", "lively").await.unwrap();
    su.open("/gone/f", "silent").await.unwrap();
    su.rm("/gone", true).await.unwrap();
    pass_time(HARD);
    assert_eq!(round(&nn.engine, None).await, Ok(Expired::default()));
    su.renew("lively").await.unwrap();
    pass_time(MOMENT);
    // The detached file is the reaper's; until it is gone its holder is needed.
    assert_eq!(round(&nn.engine, None).await, Ok(Expired { files: 2, holders: 0, passed: 0 }));
    assert_eq!(su.must("/d/e/silent").await.inode.open, None);
    assert!(su.must("/d/e/lively").await.inode.open.is_some());
    let (_stop, stopped) = tokio::sync::watch::channel(false);
    while trellis_namenode::jobs::reaper::round(&nn.engine, &stopped).await.unwrap() > 0 {}
    assert_eq!(round(&nn.engine, None).await, Ok(Expired { files: 0, holders: 1, passed: 0 }));
    assert_eq!(round(&nn.engine, None).await, Ok(Expired::default()));
    su.open("/d/again", "silent").await.unwrap();
    assert_sound(&nn).await;
}

pub async fn a_rename_keeps_the_lease() {
    let nn = Namenode::fresh().await;
    let su = root(&nn);
    let file = su.open("/x/f", "c1").await.unwrap();
    assert_eq!(su.mv("/x/f", "/x/f2").await, Ok(true));
    su.mk("/y").await.unwrap();
    assert_eq!(su.mv("/x", "/y").await, Ok(true));
    assert_eq!(su.open("/y/x/f2", "c2").await.unwrap_err().kind, Kind::AlreadyBeingCreated);
    assert_sound(&nn).await;
    assert_eq!(su.complete("/x/f", file.id, "c1").await, Ok(true));
    assert_eq!(su.must("/y/x/f2").await.inode.open, None);
    assert_sound(&nn).await;
}
