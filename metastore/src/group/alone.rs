//! One operation by itself, without lanes: for what runs before a namenode has joined, and for tools.

use std::time::Duration;

use super::cache::{Cache, GroupView, Trace, Wants};
use crate::store::{Store, StoreError};
use crate::tx::{Stop, Tx, Versions};

/// Runs (fetches and lost commits) after which an operation gives up.
const MAX_ATTEMPTS: u32 = 200;
/// Pause after a retryable error; a conflict is tried again at once.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs an operation over what it needs, fetched in one piece, and commits what it wrote; runs it again when rows are
/// missing or changed meanwhile. Not for a store whose connection may break inside a commit: `MaybeCommitted` is
/// returned, the caller knows whether its operation can be repeated.
pub async fn transact<A>(
    store: &dyn Store,
    versions: &Versions,
    mut op: impl FnMut(&mut Tx<'_>) -> Result<A, Stop>,
) -> Result<A, StoreError> {
    let mut wants = Wants::default();
    let mut last = StoreError::Unavailable("an operation kept losing against others".into());
    for _ in 0..MAX_ATTEMPTS {
        let mut cache = Cache::default();
        if !wants.is_empty() {
            let keys: Vec<_> = wants.keys.iter().cloned().collect();
            let scans: Vec<_> = wants.scans.iter().cloned().collect();
            let fetched = store.fetch(&keys, &scans).await?;
            cache.fill(keys, scans, fetched)?;
        }
        let mut trace = Trace::default();
        let (result, changes) = {
            let mut view = GroupView { cache: &cache, trace: &mut trace };
            let mut tx = Tx::read_write(&mut view, versions);
            (op(&mut tx), tx.into_changes())
        };
        wants.add(&trace.wants);
        wants.keys.extend(changes.iter().map(|change| change.key.clone()));
        let answer = match result {
            Ok(answer) => answer,
            Err(Stop::Miss | Stop::Stale) => continue,
            Err(Stop::Fault(why)) => return Err(StoreError::Fatal(why)),
        };
        if changes.iter().all(|change| change.effect == crate::change::Effect::Keep) {
            return Ok(answer);
        }
        match store.commit(&changes).await {
            Ok(()) => return Ok(answer),
            Err(StoreError::Conflict(_)) => {}
            Err(error @ (StoreError::LockTimeout | StoreError::Unavailable(_))) => {
                last = error;
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
    Err(last)
}
