//! A namenode over an embedded store that is a round trip away (`store_delay`).

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;
use trellis_metastore::lmdb::LmdbConfig;
use trellis_metastore::open::{Opened, StoreUrl};
use trellis_metastore::tx::Versions;
use trellis_metastore::work::Unfenced;
use trellis_namenode::config::Config;

use crate::actor::Actor;
use crate::support::Namenode;

const DELAY: Duration = Duration::from_millis(20);
/// Calls at once.
const MANY: u32 = 64;

/// Every trip of every kind of call waits once before it; calls wait beside each other, not one after another. On a virtual
/// clock.
pub async fn every_round_trip_of_a_call_waits_once() {
    tokio::time::pause();
    let dir = tempfile::tempdir().unwrap();
    let url = StoreUrl::Lmdb(dir.path().to_path_buf());
    let lmdb = LmdbConfig { map_bytes: 256 << 20, ..LmdbConfig::default() };
    let opened = Opened::open_delayed(&url, lmdb, DELAY).unwrap();
    let versions = Versions::of_incarnation(1);
    let nn = Namenode::over(&opened, Arc::new(Unfenced), versions, 1, Config::default()).await;
    let (root, ann) = (Actor::superuser(&nn), Actor::new(&nn, "ann"));
    root.give_dir("/u", 0o777, "ann", "bin").await;
    ann.mkdirs("/u/a/b/c", 0o755, true).await.unwrap();
    ann.rename("/u/a/b", "/u/d").await.unwrap();
    // These read without a bound first.
    ann.content_summary("/u").await.unwrap();
    ann.delete("/u/a", true).await.unwrap();
    ann.delete("/u/d", true).await.unwrap();

    let begun = Instant::now();
    let (found, spent) = nn.spent(join_all((0..MANY).map(|_| ann.status("/u")))).await;
    assert!(found.iter().all(|status| status.as_ref().unwrap().is_some()));
    assert_eq!((spent.round_trips, spent.delays), (u64::from(MANY), u64::from(MANY)));
    let took = begun.elapsed();
    assert!(took >= DELAY && took < 2 * DELAY, "they waited one after another: {took:?}");

    let all = nn.engine.backend().counters().read();
    assert_eq!(all.delays, all.round_trips);
    assert!(all.delays > u64::from(MANY) + 10 && all.delay_us >= all.delays * DELAY.as_micros() as u64);
}
