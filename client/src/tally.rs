//! How the calls of a client were answered, by method.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use trellis_proto::hdfs::client_namenode_protocol::SERVICE;

/// How calls of a method were answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answers {
    /// Without an exception.
    pub ok: u64,
    /// With one.
    pub exceptions: u64,
}

/// Counters for each method of ClientProtocol, at its place in the table.
#[derive(Debug)]
pub(crate) struct Tally(Vec<[AtomicU64; 2]>);

impl Default for Tally {
    fn default() -> Self {
        Tally(SERVICE.methods.iter().map(|_| Default::default()).collect())
    }
}

impl Tally {
    /// Notes an answer; of methods of other protocols nothing is kept.
    pub(crate) fn note(&self, method: &str, is_ok: bool) {
        let place = SERVICE.methods.binary_search_by(|row| row.name.cmp(method)).ok();
        if let Some([ok, exceptions]) = place.and_then(|place| self.0.get(place)) {
            let counter = if is_ok { ok } else { exceptions };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Of all methods that were answered.
    pub(crate) fn read(&self) -> BTreeMap<&'static str, Answers> {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts =
            self.0.iter().map(|[ok, exceptions]| Answers { ok: load(ok), exceptions: load(exceptions) });
        let named = SERVICE.methods.iter().map(|row| row.name).zip(counts);
        named.filter(|(_, answers)| *answers != Answers::default()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_method() {
        let tally = Tally::default();
        for (method, is_ok) in
            [("mkdirs", true), ("mkdirs", false), ("mkdirs", true), ("sendHeartbeat", true)]
        {
            tally.note(method, is_ok);
        }
        let read: Vec<_> = tally.read().into_iter().collect();
        assert_eq!(read, [("mkdirs", Answers { ok: 2, exceptions: 1 })]);
    }
}
