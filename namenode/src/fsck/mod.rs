//! `GET /fsck`: looks at the files below a path and their replicas, and says what it finds in the words of stock's fsck,
//! which its client reads (Java: NamenodeFsck, tools.DFSck).
//!
//! - [`request`]: what is asked for
//! - [`lines`]: text on its way to a reader who may be slow, or gone
//! - `walk`: the namespace below a path, in stock's order, in bounded memory
//! - `report`: what is said of a file, and of all together
//! - `blocks`: lists of blocks in trouble, blocks by their ids
//! - [`admin`]: what `trellis admin` asks for, in the same way
//!
//! The caller sees what its user may list and read. It reads in many batches, each of its own instant: of what moves
//! meanwhile it may tell twice, or not at all.
//!
//! Differs: it changes nothing (`-move`, `-delete` are refused), and storage policies and upgrade domains are not looked
//! at. All datanodes are on one rack. A cookie of `-list-corruptfileblocks` is an inode id.

pub mod admin;
mod blocks;
pub mod lines;
mod report;
pub mod request;
mod walk;

use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use self::lines::{Lines, Lost};
use self::request::Request;
use crate::audit::{Said, Trail};
use crate::datanodes::view::Liveness;
use crate::engine::Op;
use crate::engine::ctx::Ctx;
use crate::path::Path;
use crate::refusal::{Kind, RpcError};
use crate::rpc::call::Caller;
use crate::rpc::service::Service;

/// Why a fsck ended before its last line.
enum Ended {
    /// Nobody reads any more.
    Lost,
    /// It could not go on.
    Failed(RpcError),
}

impl From<Lost> for Ended {
    fn from(_: Lost) -> Self {
        Ended::Lost
    }
}

impl From<RpcError> for Ended {
    fn from(error: RpcError) -> Self {
        Ended::Failed(error)
    }
}

type Done<T> = Result<T, Ended>;

/// A fsck under way.
struct Fsck<'s> {
    service: &'s Arc<Service>,
    caller: Caller,
    request: Request,
    out: Lines,
}

/// Answers a request, in lines, until the last one is said or nobody reads any more.
pub async fn run(service: &Arc<Service>, caller: Caller, request: Request, out: Lines) {
    let mut fsck = Fsck { service, caller, request, out };
    let begun = Instant::now();
    match fsck.look(begun).await {
        Ok(()) | Err(Ended::Lost) => {}
        Err(Ended::Failed(error)) => fsck.fail(begun, &error),
    }
    if fsck.out.flush().await.is_err() {
        tracing::debug!(path = fsck.request.path, "whoever asked for a fsck has gone");
    }
}

impl Fsck<'_> {
    async fn look(&mut self, begun: Instant) -> Done<()> {
        let (ugi, machine) = (self.caller.ugi.clone(), self.caller.machine.clone());
        let began = format!("FSCK started by {ugi} from /{machine}");
        let said = Said::Allowed;
        let trail = Trail { said, command: "fsck".into(), src: self.request.path.clone(), dst: None };
        self.service.audit(&trail, &self.caller, b"");
        if !self.request.block_ids.is_empty() {
            put(&mut self.out, format_args!("{began} at {}\n", now()));
            return self.blocks_by_id().await;
        }
        put(&mut self.out, format_args!("{began} for path {} at {}\n", self.request.path, now()));
        if let Some(option) = self.request.refused {
            let why = format!("This namenode's fsck does not know {option}.");
            return Err(Ended::Failed(RpcError::new(Kind::UnsupportedOperation, why)));
        }
        let path = Path::parse(&self.request.path)?;
        let Some(status) = self.status(&path).await? else {
            put(&mut self.out, format_args!("\n\nPath '{}' does not exist", self.request.path));
            return Ok(());
        };
        if self.request.corrupt_blocks {
            return self.corrupt_blocks(path).await;
        }
        put(&mut self.out, format_args!("\n"));
        let totals = self.walk(path, status).await?;
        let view = self.service.engine().datanodes().view();
        let nodes = view.nodes().iter().filter(|node| node.liveness != Liveness::Dead).count();
        put(
            &mut self.out,
            format_args!("\n{}", totals.shown(nodes, self.service.engine().config().replication)),
        );
        let took = begun.elapsed().as_millis();
        let (path, verdict) = (&self.request.path, if totals.is_healthy() { "HEALTHY" } else { "CORRUPT" });
        let end = format!("FSCK ended at {} in {took} milliseconds\n", now());
        put(&mut self.out, format_args!("{end}\n\nThe filesystem under path '{path}' is {verdict}"));
        Ok(())
    }

    /// Says why it failed; the last line tells the client.
    fn fail(&mut self, begun: Instant, error: &RpcError) {
        let took = begun.elapsed().as_millis();
        let end = format!("FSCK ended at {} in {took} milliseconds\n{}", now(), error.message);
        put(&mut self.out, format_args!("{end}\n\n\nFsck on path '{}' FAILED", self.request.path));
    }

    /// What each of its reads carries.
    fn ctx(&self) -> Ctx {
        self.service.engine().ctx(self.caller.user.clone(), self.caller.machine.clone(), None)
    }

    /// Makes one read.
    async fn read<A: Send + 'static>(&self, op: Op<A>) -> Done<A> {
        Ok(self.service.engine().read_wait(self.ctx(), 0, op).await?)
    }
}

/// Writes to the lines, which keep it until they are sent.
fn put(out: &mut Lines, text: std::fmt::Arguments<'_>) {
    // Writing to memory does not fail.
    let _ = out.write_fmt(text);
}

/// Now, as Java writes dates.
fn now() -> String {
    java_date(SystemTime::now())
}

/// `Tue Dec 01 15:21:10 UTC 2026`.
fn java_date(at: SystemTime) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let weekday = DAYS[(since.as_secs() / 86_400 % 7) as usize];
    // 2026-12-01T15:21:10Z
    let text = humantime::format_rfc3339_seconds(at).to_string();
    let month = text.get(5..7).and_then(|month| MONTHS.get(month.parse::<usize>().ok()?.checked_sub(1)?));
    let part = |range| text.get(range).unwrap_or_default();
    format!("{weekday} {} {} {} UTC {}", month.unwrap_or(&""), part(8..10), part(11..19), part(0..4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_as_java_writes_them() {
        let at = |seconds| java_date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "Thu Jan 01 00:00:00 UTC 1970");
        assert_eq!(at(1_796_138_470), "Tue Dec 01 15:21:10 UTC 2026");
    }
}
