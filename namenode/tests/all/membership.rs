//! Several namenodes over one store: who lives, who leads, who can write.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use trellis_metastore::change::{Change, Check, Effect, Row};
use trellis_metastore::mem::Mem;
use trellis_metastore::open::Opened;
use trellis_metastore::schema::member_lane;
use trellis_metastore::store::Store;
use trellis_namenode::config::Config;
use trellis_namenode::membership::{Addresses, Membership, live};
use trellis_namenode::ops::mkdirs::{Mkdirs, mkdirs};
use trellis_proto::exception::{Kind, RpcError};

use crate::support::{Answer, Namenode, SUPERUSER, path};

const BEAT: Duration = Duration::from_millis(5);
const SILENCE: Duration = Duration::from_millis(60);
const LANES: usize = 2;

struct Joined {
    membership: Arc<Membership>,
    nn: Namenode,
    stop: watch::Sender<bool>,
}

async fn join(mem: &Mem) -> Joined {
    let store: Arc<dyn Store> = Arc::new(mem.clone());
    let addresses = Addresses { rpc: "127.0.0.1:1".into(), http: "127.0.0.1:2".into() };
    let membership = Membership::join(store.clone(), LANES, &addresses).await.unwrap();
    let (id, versions) = (membership.id(), membership.versions().clone());
    let nn = Namenode::over(&Opened::Other(store), membership.clone(), versions, id, Config::default()).await;
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(membership.clone().keep(BEAT, SILENCE, stopped));
    Joined { membership, nn, stop }
}

fn call(text: &str) -> Mkdirs {
    Mkdirs { path: path(text), mode: 0o755, create_parent: true }
}

async fn mk(nn: &Namenode, text: &str) -> Result<bool, RpcError> {
    let call = call(text);
    nn.yes(SUPERUSER, move |tx| mkdirs(tx, &call)).await
}

async fn until(mut condition: impl AsyncFnMut() -> bool) {
    while !condition().await {
        tokio::time::sleep(BEAT).await;
    }
}

pub async fn a_silent_namenode_is_evicted_and_can_write_nothing() {
    let mem = Mem::new();
    let (first, second) = (join(&mem).await, join(&mem).await);
    assert_eq!(live(&mem).await.unwrap().len(), 2);
    assert_eq!(mk(&first.nn, "/before").await, Ok(true));
    first.stop.send_replace(true);
    until(async || live(&mem).await.unwrap().len() == 1).await;
    let evicted = first.membership.evicted();
    assert!(!*evicted.borrow());
    let lost = mk(&first.nn, "/after").await.unwrap_err();
    assert_eq!(lost.kind, Kind::Standby);
    assert!(*evicted.borrow());
    assert_eq!(mk(&second.nn, "/after/x").await, Ok(true));
    // It joins anew under another id, and is well.
    let again = join(&mem).await;
    assert!(again.membership.id() > second.membership.id());
    assert_eq!(mk(&again.nn, "/after/y").await, Ok(true));
}

pub async fn the_lowest_id_leads_and_terms_grow() {
    let mem = Mem::new();
    let (first, second) = (join(&mem).await, join(&mem).await);
    until(async || first.membership.term().is_some()).await;
    let term = first.membership.term().unwrap();
    assert_eq!(second.membership.term(), None);
    first.stop.send_replace(true);
    until(async || second.membership.term().is_some()).await;
    assert_eq!(second.membership.term().unwrap().number, term.number + 1);
    // What the old term holds is gone: its housekeeping does not go through.
    let late = second.nn.write::<Answer>(SUPERUSER, move |tx| {
        tx.hold_term(term)?;
        mkdirs(tx, &call("/late"))?;
        Ok(Answer::default())
    });
    assert!(late.await.is_err());
    let term = second.membership.term().unwrap();
    let timely = second.nn.write::<Answer>(SUPERUSER, move |tx| {
        tx.hold_term(term)?;
        mkdirs(tx, &call("/timely"))?;
        Ok(Answer::default())
    });
    assert!(timely.await.is_ok());
}

pub async fn a_rewritten_member_row_is_a_barrier() {
    let mem = Mem::new();
    let joined = join(&mem).await;
    assert_eq!(mk(&joined.nn, "/a").await, Ok(true));
    for lane in 0..LANES as u32 {
        let key = member_lane(joined.membership.id(), lane).key;
        let row = mem.fetch(std::slice::from_ref(&key), &[]).await.unwrap().rows.remove(0).unwrap();
        let rewritten = Row { version: joined.membership.versions().next(), ..row.clone() };
        let change = Change { key, check: Check::Version(row.version), effect: Effect::Put(rewritten) };
        mem.commit(&[change]).await.unwrap();
    }
    assert_eq!(mk(&joined.nn, "/b").await, Ok(true));
    assert!(!*joined.membership.evicted().borrow());
}
