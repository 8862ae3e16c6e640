//! Settings and the retry cache.

use trellis_metastore::schema::{FIRST_FREE_ID, FORMAT, RetryCache, retry_entry, retry_in, setting};
use trellis_metastore::store::{Store, StoreError};

use super::Findings;
use super::rows::{Walk, read};

/// Checks the settings that every store has; answers the first inode id that was not given out.
pub async fn settings(store: &dyn Store, findings: &mut Findings) -> Result<u64, StoreError> {
    let names = ["cluster_id", "format", "next_inode_id"];
    let rows = read(store, &names.map(setting)).await?;
    for (name, row) in names.iter().zip(&rows) {
        if row.is_none() {
            findings.add(format!("setting {name}"), "is missing; was 'trellis store init' cut short?");
        }
    }
    let number = |i: usize| rows.get(i).and_then(|row| row.as_ref()).map(|(_, setting)| setting.number);
    if let Some((_, id)) = rows.first().and_then(|row| row.as_ref())
        && id.text.is_empty()
    {
        findings.add("setting cluster_id", "is empty");
    }
    if number(1).is_some_and(|format| !(1..=u64::from(FORMAT)).contains(&format)) {
        let what = format!("is {:?}, this program knows up to {FORMAT}", number(1));
        findings.add("setting format", what);
    }
    let next = number(2).unwrap_or(FIRST_FREE_ID);
    if next < FIRST_FREE_ID {
        findings.add("setting next_inode_id", format!("{next} is below the first free id"));
    }
    Ok(next)
}

/// Walks the retry cache: keys are a client id and a call id, in their bucket.
pub async fn retry_cache(store: &dyn Store, findings: &mut Findings) -> Result<(), StoreError> {
    let mut walk = Walk::<RetryCache>::new();
    while let Some(batch) = walk.next(store, findings).await? {
        for found in batch {
            let place = retry_in(found.key.rest()).map(|(client, call)| retry_entry(&client, call).key);
            if place.as_ref() != Some(&found.key) {
                findings.add(
                    format!("{:?}", found.key),
                    "is not the key of a kept answer, or in the wrong bucket",
                );
            }
        }
    }
    Ok(())
}
