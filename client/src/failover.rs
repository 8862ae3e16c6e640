//! A call over several namenodes: stays with one, goes on to the next when it must, loses no call and sends none
//! twice that must not be.
//!
//! | what happened | then |
//! |---|---|
//! | nothing was sent: refused, unreachable, closed before | the next namenode |
//! | the call was sent and no answer came | the next namenode, if [`Repeat`] allows it; else it fails |
//! | an exception | by the last column but one of [`trellis_proto::exception::TABLE`] |
//!
//! As stock's `FailoverOnNetworkExceptionRetry` does it, but for a connection that is closed after a call was sent:
//! stock sends every call again then, we only those that may be. Every send of a call has the same client and call
//! id, so that the retry cache, which all namenodes share, knows it again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use prost::Message;
use tokio::time::{self, Instant};
use trellis_proto::exception::Retry;
use trellis_proto::methods::Rpc;
use trellis_proto::presence::Checked;
use trellis_proto::rpc::CallId;

use crate::config::RetryPolicy;
use crate::connection::Identity;
use crate::error::{Error, Fault, Result};
use crate::namenode::{Namenode, decode};
use crate::semantics::Repeat;
use crate::tally::{Answers, Tally};

/// The namenodes of one file system, and which of them is asked.
#[derive(Debug)]
pub(crate) struct Failover {
    /// Never empty.
    namenodes: Vec<Namenode>,
    /// Position of the one that is asked.
    current: AtomicUsize,
    identity: Arc<Identity>,
    policy: RetryPolicy,
    made: Instant,
    /// A namenode has answered, be it with an exception.
    answered: AtomicBool,
    failovers: AtomicU64,
    resends: AtomicU64,
    tally: Option<Tally>,
}

/// Attempts of one call so far.
#[derive(Debug, Default)]
struct Tries {
    sends: u32,
    failovers: u32,
    retries: u32,
}

/// What follows a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    GiveUp,
    SameLater,
    Another,
}

/// Whoever waits longer for the next attempt wants to know why.
const WORTH_SAYING: Duration = Duration::from_secs(1);

impl Step {
    fn after(fault: &Fault, repeat: Repeat) -> Step {
        match fault {
            Fault::NotSent(_) => Step::Another,
            Fault::Lost(_) if repeat.is_safe() => Step::Another,
            Fault::Lost(_) | Fault::Unusable(_) => Step::GiveUp,
            Fault::Exception(error) => match error.kind.retry() {
                Retry::Never => Step::GiveUp,
                Retry::SameLater => Step::SameLater,
                Retry::Another => Step::Another,
            },
        }
    }
}

impl Failover {
    /// `first` is the position of the namenode to begin with.
    pub fn new(
        namenodes: Vec<Namenode>,
        first: usize,
        identity: Arc<Identity>,
        policy: RetryPolicy,
        count_answers: bool,
    ) -> Self {
        Self {
            current: AtomicUsize::new(if first < namenodes.len() { first } else { 0 }),
            namenodes,
            identity,
            policy,
            made: Instant::now(),
            answered: AtomicBool::new(false),
            failovers: AtomicU64::new(0),
            resends: AtomicU64::new(0),
            tally: count_answers.then(Tally::default),
        }
    }

    pub fn namenodes(&self) -> Vec<Namenode> {
        self.namenodes.clone()
    }

    /// How often the client went over to another namenode, and how often a call was sent again.
    pub fn counts(&self) -> (u64, u64) {
        (self.failovers.load(Ordering::Relaxed), self.resends.load(Ordering::Relaxed))
    }

    /// How calls were answered, if that is counted.
    pub fn answers(&self) -> BTreeMap<&'static str, Answers> {
        self.tally.as_ref().map(Tally::read).unwrap_or_default()
    }

    /// Calls a method until it is answered, or nothing more can be done.
    pub async fn call<Request: Message, Response: Checked>(
        &self,
        rpc: &Rpc<Request, Response>,
        request: &Request,
    ) -> Result<Response> {
        let id = CallId {
            call_id: self.identity.next_call_id(),
            retry_count: 0,
            client_id: self.identity.client_id.clone(),
        };
        let namenode = self.current();
        match self.send(namenode, rpc, &id, request).await {
            Ok(bytes) => decoded(rpc, bytes, namenode, 1),
            // On the heap: few calls come here, and the others' futures are to be small.
            Err(fault) => Box::pin(self.call_again(rpc, id, request, namenode, fault)).await,
        }
    }

    /// Goes on with a call of which the first attempt failed.
    async fn call_again<'a, Request: Message, Response: Checked>(
        &'a self,
        rpc: &Rpc<Request, Response>,
        mut id: CallId,
        request: &Request,
        mut namenode: &'a Namenode,
        mut fault: Fault,
    ) -> Result<Response> {
        let begun = Instant::now();
        let mut tries = Tries { sends: 1, ..Tries::default() };
        loop {
            let step = Step::after(&fault, Repeat::of(rpc.service, rpc.name));
            let Some(wait) = self.wait_before(step, &mut tries, begun) else {
                return Err(Error::new(rpc.name, namenode.address().to_string(), tries.sends, fault));
            };
            let address = namenode.address();
            if wait < WORTH_SAYING {
                tracing::debug!(method = rpc.name, %address, %fault, ?step, ?wait, "a call failed and is tried again");
            } else {
                let left = self.deadline(begun).saturating_duration_since(Instant::now()).as_secs();
                let wait = wait.as_secs();
                tracing::info!(method = rpc.name, %address, %fault, "no answer; trying again in {wait} s, for {left} s more");
            }
            if step == Step::Another {
                self.leave(namenode);
            }
            if !wait.is_zero() {
                time::sleep(wait).await;
            }
            namenode = self.current();
            id.retry_count += 1;
            tries.sends += 1;
            self.resends.fetch_add(1, Ordering::Relaxed);
            match self.send(namenode, rpc, &id, request).await {
                Ok(bytes) => return decoded(rpc, bytes, namenode, tries.sends),
                Err(new) => fault = new,
            }
        }
    }

    async fn send<Request: Message, Response>(
        &self,
        namenode: &Namenode,
        rpc: &Rpc<Request, Response>,
        id: &CallId,
        request: &Request,
    ) -> std::result::Result<bytes::Bytes, Fault> {
        let answer = namenode.send(rpc, id, request).await;
        // Read first: a store that changes nothing would still take the cache line from all other threads.
        if matches!(answer, Ok(_) | Err(Fault::Exception(_))) && !self.answered.load(Ordering::Relaxed) {
            self.answered.store(true, Ordering::Relaxed);
        }
        if let (Some(tally), Ok(_) | Err(Fault::Exception(_))) = (&self.tally, &answer) {
            tally.note(rpc.name, answer.is_ok());
        }
        answer
    }

    fn current(&self) -> &Namenode {
        // It is always in range; the first is there as well.
        self.namenodes.get(self.current.load(Ordering::Acquire)).unwrap_or(&self.namenodes[0])
    }

    /// Goes on to the next namenode, unless another call has done so already.
    fn leave(&self, failed: &Namenode) {
        let current = self.current.load(Ordering::Acquire);
        let still = self.namenodes.get(current).is_some_and(|current| current.is(failed));
        if !still || self.namenodes.len() == 1 {
            return;
        }
        let next = (current + 1) % self.namenodes.len();
        if self.current.compare_exchange(current, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.failovers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How long to wait before the next attempt; None: enough.
    fn wait_before(&self, step: Step, tries: &mut Tries, begun: Instant) -> Option<Duration> {
        let policy = &self.policy;
        let (count, limit, free) = match step {
            Step::GiveUp => return None,
            Step::SameLater => (&mut tries.retries, policy.max_retries, 0),
            // The others are asked at once.
            Step::Another => (&mut tries.failovers, policy.max_failovers, self.namenodes.len() - 1),
        };
        if *count >= limit {
            return None;
        }
        let doublings = (*count as usize).checked_sub(free);
        *count += 1;
        let wait = doublings.map_or(Duration::ZERO, |n| jittered(policy, n));
        let deadline = if wait.is_zero() { begun + policy.give_up_after } else { self.deadline(begun) };
        (Instant::now() + wait <= deadline).then_some(wait)
    }

    /// When a call that began then is no longer waited for.
    fn deadline(&self, begun: Instant) -> Instant {
        let last = begun + self.policy.give_up_after;
        match self.made.checked_add(self.policy.give_up_unanswered_after) {
            Some(unanswered) if !self.answered.load(Ordering::Relaxed) => last.min(unanswered),
            _ => last,
        }
    }
}

/// Between half and all of the base, doubled `doublings` times, or of the longest wait.
fn jittered(policy: &RetryPolicy, doublings: usize) -> Duration {
    let factor = 1u32 << doublings.min(20);
    let whole = policy.backoff_base.saturating_mul(factor).min(policy.backoff_max);
    whole.mul_f64(rand::random_range(0.5..=1.0))
}

fn decoded<Request, Response: Checked>(
    rpc: &Rpc<Request, Response>,
    bytes: bytes::Bytes,
    namenode: &Namenode,
    sends: u32,
) -> Result<Response> {
    decode(rpc, bytes).map_err(|fault| Error::new(rpc.name, namenode.address().to_string(), sends, fault))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trellis_proto::exception::{Kind, RpcError};

    #[test]
    fn what_follows_what() {
        let exception = |kind| Fault::Exception(RpcError::new(kind, ""));
        let (lost, not_sent) = (Fault::Lost("".into()), Fault::NotSent("".into()));
        for (fault, repeat, want) in [
            (&not_sent, Repeat::Never, Step::Another),
            (&lost, Repeat::Never, Step::GiveUp),
            (&lost, Repeat::ReadOnly, Step::Another),
            (&lost, Repeat::Idempotent, Step::Another),
            (&lost, Repeat::AtMostOnce, Step::Another),
            (&Fault::Unusable(String::new()), Repeat::ReadOnly, Step::GiveUp),
            (&exception(Kind::Standby), Repeat::Never, Step::Another),
            (&exception(Kind::Retriable), Repeat::Never, Step::SameLater),
            (&exception(Kind::AccessControl), Repeat::ReadOnly, Step::GiveUp),
            (&exception(Kind::SafeMode), Repeat::ReadOnly, Step::GiveUp),
        ] {
            assert_eq!(Step::after(fault, repeat), want, "{fault:?} {repeat:?}");
        }
    }

    #[test]
    fn waits_grow_to_a_limit() {
        let policy = RetryPolicy::default();
        for (n, whole) in [(0, 500), (1, 1000), (4, 8000), (5, 15000), (64, 15000)] {
            let wait = jittered(&policy, n).as_millis() as u64;
            assert!((whole / 2..=whole).contains(&wait), "{n}: {wait}");
        }
    }
}
