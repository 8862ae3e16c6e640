//! `trellis admin status`: which namenodes live, who leads.
//!
//! A namenode's id is drawn at each start; the numbers that `trellis up` gives are places in its list, so they are shown
//! beside it. The store holds a counter for each namenode, not a time: whether a namenode lives can only be seen by looking twice.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, anyhow};
use prost::Message;
use trellis_metastore::open::StoreUrl;
use trellis_metastore::schema::{Setting, setting};
use trellis_metastore::store::{Store, StoreError};
use trellis_namenode::membership::{LEADER, MemberInfo, live};
use trellis_namenode::ops::format::{CLUSTER_ID, FORMAT_NUMBER};

use crate::output::print;
use crate::store::look_at;
use crate::up::data_dir;

const EXAMPLE: &str = "\
Examples:
  trellis admin status --data trellis-data
  trellis admin status --store lmdb:/srv/names/store --watch 10s

A namenode whose heartbeat counter stands still is dead or frozen; the others take it out of the cluster after \
member_timeout. Exit code 0 when at least one namenode lives, else 1.";

/// Options of `trellis admin status`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The store [default: lmdb:DATA/store]
    #[arg(long, value_name = "URL", env = "TRELLIS_STORE")]
    store: Option<StoreUrl>,
    /// The data directory of a `trellis up`
    #[arg(long, value_name = "DIR", env = "TRELLIS_DATA", default_value = "trellis-data")]
    data: PathBuf,
    /// How long to watch the heartbeat counters
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    watch: Duration,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode> {
    let url = args.store.unwrap_or_else(|| StoreUrl::Lmdb(args.data.join("store")));
    let opened = look_at(&url)?;
    let store = opened.store();
    let failed = |error| anyhow!("{url}: {error}");
    let before = live(store).await.map_err(failed)?;
    if !before.is_empty() {
        tokio::time::sleep(args.watch).await;
    }
    let after = live(store).await.map_err(failed)?;
    let [cluster, format, leader] = settings(store).await.map_err(failed)?;
    print(format_args!("store {url}, cluster {}, format {}", cluster.text, format.number))?;
    // Namenodes that no `up` has started have no number.
    let numbers = data_dir::live(&args.data).unwrap_or_default();
    let mut alive = 0;
    for member in &after {
        let moved = moved(&before, member);
        alive += usize::from(moved != Some(0));
        let number = numbers.iter().find(|(_, its)| its.main.to_string() == member.addresses.rpc);
        let leads = leader.text == member.id.to_string();
        print(line(member, number.map(|(number, _)| *number), moved, leads, args.watch))?;
    }
    match alive {
        0 => print(format_args!("no namenode lives; start one with 'trellis up' or 'trellis namenode'"))?,
        _ => print(format_args!("leader id {}, term {}", leader.text, leader.number))?,
    }
    Ok(if alive > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Cluster id, format, leader; what is missing is empty.
async fn settings(store: &dyn Store) -> Result<[Setting; 3], StoreError> {
    let keys = [CLUSTER_ID, FORMAT_NUMBER, LEADER].map(|name| setting(name).key);
    let mut rows = store.fetch(&keys, &[]).await?.rows.into_iter();
    Ok([(); 3].map(|()| {
        let row = rows.next().flatten();
        row.and_then(|row| Setting::decode(row.value).ok()).unwrap_or_default()
    }))
}

/// How far a member's counter moved; none when it was not there before.
fn moved(before: &[MemberInfo], member: &MemberInfo) -> Option<u64> {
    let earlier = before.iter().find(|earlier| earlier.id == member.id)?;
    Some(member.heartbeat.wrapping_sub(earlier.heartbeat))
}

fn line(
    member: &MemberInfo,
    number: Option<usize>,
    moved: Option<u64>,
    leads: bool,
    watch: Duration,
) -> String {
    let MemberInfo { id, heartbeat, addresses } = member;
    let life = match moved {
        None => "just joined".to_owned(),
        Some(0) => format!("NOT MOVING for {}: dead or frozen", humantime::format_duration(watch)),
        Some(beats) => format!("alive, {beats} heartbeats in {}", humantime::format_duration(watch)),
    };
    let role = if leads { ", leads" } else { "" };
    let number = number.map(|number| format!(" (namenode {number} of trellis up)")).unwrap_or_default();
    format!(
        "namenode id {id}{number}: hdfs://{}, http://{}, heartbeat {heartbeat}, {life}{role}",
        addresses.rpc, addresses.http
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: u64, heartbeat: u64) -> MemberInfo {
        MemberInfo { id, heartbeat, addresses: trellis_namenode::membership::Addresses::default() }
    }

    #[test]
    fn a_counter_that_stands_still_is_told() {
        let before = [member(1, 5), member(2, 9)];
        assert_eq!(moved(&before, &member(1, 7)), Some(2));
        assert_eq!(moved(&before, &member(3, 1)), None);
        let watch = Duration::from_secs(2);
        let still = line(&member(2, 9), None, moved(&before, &member(2, 9)), true, watch);
        assert!(still.contains("NOT MOVING for 2s") && still.ends_with("leads"), "{still}");
        let numbered = line(&member(2, 9), Some(0), Some(1), false, watch);
        assert!(numbered.starts_with("namenode id 2 (namenode 0 of trellis up): hdfs://"), "{numbered}");
    }
}
