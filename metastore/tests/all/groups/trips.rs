//! What operations cost when they share their trips.

use super::*;

/// Runs 64 clients, each `calls` calls one after another with a short pause between; gives round trips per call.
async fn trips_per_call(
    bench: Arc<Bench>,
    calls: u64,
    call: fn(Arc<Bench>, u64, u64) -> BoxFuture<'static, End>,
) -> f64 {
    const CLIENTS: u64 = 64;
    let before = bench.world.mem().counters().read();
    let clients = (0..CLIENTS).map(|client| {
        let bench = bench.clone();
        tokio::spawn(async move {
            for n in 0..calls {
                assert_eq!(call(bench.clone(), client, n).await, End::Answered);
                sleep(Duration::from_micros(bench.world.random(2000))).await;
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
    let did = bench.world.mem().counters().read().since(&before);
    did.round_trips as f64 / (CLIENTS * calls) as f64
}

pub async fn reads_share_their_trips() {
    let bench = Arc::new(Bench::with(GroupConfig::default(), Arc::new(Unfenced)));
    for name in 0..=255 {
        bench.touch(&file(name).key).await;
    }
    let trips = trips_per_call(bench, 20, |bench, client, n| {
        Box::pin(async move {
            let name = (client * 20 + n) as u8;
            let (work, ended) =
                sim::work(Instant::now() + HOUR, move |tx| Ok((Ran::Done, exists(tx, name)?)));
            assert!(bench.lanes.read(client, work).is_ok());
            let (end, found) = end_of(ended).await;
            assert_eq!(found, Some(true));
            end
        })
    });
    let trips = trips.await;
    assert!(trips < 0.2, "{trips} round trips per read");
}

pub async fn creates_share_their_trips() {
    let bench = Arc::new(Bench::with(GroupConfig::default(), Arc::new(Unfenced)));
    for parent in 0..8u8 {
        bench.touch(&dir_stat(DIRECTORY, &[parent]).key).await;
    }
    let trips = trips_per_call(bench.clone(), 20, |bench, client, n| {
        Box::pin(async move {
            let parent = client % 8;
            let (work, ended) = sim::work(Instant::now() + HOUR, move |tx| {
                let stat = dir_stat(DIRECTORY, &[parent as u8]);
                let file = inode(DIRECTORY + 1 + parent, &[client as u8, n as u8]);
                let retry = retry_entry(&[client as u8; 16], n as i64);
                tx.want(&stat);
                tx.want(&file);
                let earlier = tx.get(&retry, Hold::Loose)?;
                assert!(earlier.is_none() && tx.get(&stat, Hold::Loose)?.is_some());
                assert!(tx.get(&file, Hold::Loose)?.is_none());
                tx.insert(&file, &id(n))?;
                tx.merge(&stat, n as i64, 1)?;
                tx.insert(&retry, &RetryEntry::default())?;
                Ok((Ran::Done, ()))
            });
            assert!(bench.lanes.write(DIRECTORY + 1 + parent, work).is_ok());
            end_of(ended).await.0
        })
    });
    let trips = trips.await;
    let children: i64 = (0..8u8).map(|p| bench.stored(&dir_stat(DIRECTORY, &[p]).key).unwrap().add).sum();
    assert_eq!(children, 64 * 20);
    let did = bench.world.mem().counters().read();
    assert_eq!((did.conflicts, did.retries), (0, 0), "parents are checked, not rewritten");
    assert!(trips < 0.2, "{trips} round trips per create");
}
