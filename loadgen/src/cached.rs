//! Whether the servers did what clients were answered: calls of all methods as both counted them. A cache on the way answers
//! without asking a server, and its rate is none of theirs.

use std::collections::BTreeMap;

use crate::report::{Calls, Report};

/// Sums that differ by more, in percent of what clients saw, are not of the same operations.
pub const TOLERATED_PERCENT: f64 = 1.0;

/// Calls of all methods that were answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// As clients saw it.
    pub clients: u64,
    /// As the servers counted it; None: they do not tell.
    pub servers: Option<u64>,
}

impl Counted {
    /// The sums of these.
    pub fn of(calls: &BTreeMap<String, Calls>) -> Counted {
        let known = |calls: &Calls| calls.servers_ok.zip(calls.servers_exceptions);
        let told: Vec<(u64, u64)> = calls.values().filter_map(known).collect();
        Counted {
            clients: calls.values().map(|calls| calls.ok + calls.exceptions).sum(),
            servers: (!told.is_empty()).then(|| told.iter().map(|(ok, exceptions)| ok + exceptions).sum()),
        }
    }

    /// How much more the servers counted, in percent of what clients saw; negative: less. Infinite: clients saw nothing.
    pub fn difference_percent(self) -> Option<f64> {
        let (servers, clients) = (self.servers?, self.clients);
        if servers == clients {
            return Some(0.0);
        }
        Some((servers as f64 - clients as f64) * 100.0 / clients as f64)
    }

    /// Both are known and differ by more than [`TOLERATED_PERCENT`].
    pub fn is_cached(self) -> bool {
        self.difference_percent().is_some_and(|percent| percent.abs() > TOLERATED_PERCENT)
    }

    /// What a reader must know when it [is so](Counted::is_cached).
    pub fn warning(self) -> Option<String> {
        let (servers, percent) = self.servers.zip(self.difference_percent())?;
        let why = match percent < 0.0 {
            true => "something on the way answered in their place",
            false => "somebody else was at work, or calls were sent more than once",
        };
        let part = match percent.is_finite() {
            true => {
                format!("{:.1} % {}", percent.abs(), if percent < 0.0 { "fewer" } else { "more" })
            }
            false => "clients none".to_owned(),
        };
        self.is_cached().then(|| {
            format!(
                "cached: clients saw {} calls answered, servers counted {servers} ({part}): {why}. Rates are those that \
                 clients saw, not what servers did",
                self.clients
            )
        })
    }
}

impl Report {
    /// What clients and servers counted.
    pub fn counted(&self) -> Counted {
        Counted::of(&self.calls)
    }

    /// What its rate is called: that of a cached run is not the servers'.
    pub(crate) fn rate_name(&self) -> &'static str {
        if self.counted().is_cached() { "operations/s that clients saw" } else { "operations/s" }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use trellis_client::client::Counts;

    use super::*;
    use crate::contents::Contents;
    use crate::drive::Outcome;
    use crate::error::{Error, Result};
    use crate::files::Answers;
    use crate::mix::Op;
    use crate::ops::{Done, End};
    use crate::page;
    use crate::record::{Recorder, Times};
    use crate::report::tests::sample;
    use crate::servers::{self, Growth};
    use crate::summary::{self, Measured};
    use crate::watch::Watched;

    /// What clients saw answered.
    const SEEN: u64 = 1000;

    /// A run of so many answers, and of what the servers counted meanwhile; its report's marks.
    fn marked(growth: Option<Result<Growth>>) -> (bool, Vec<String>) {
        let mut recorder = Recorder::default();
        let at = Duration::from_millis(1);
        for _ in 0..SEEN {
            let done = Done { answers: Answers::of_first(1), end: End::Success };
            recorder.note(Op::StatFile, Times { intended: at, begun: at, ended: at }, &done);
        }
        let mut config = crate::config::tests::config();
        config.metrics = vec!["h:1".into()];
        let outcome = Outcome { recorder, elapsed: at, intended: 0, exhausted: false, stopped_at: None };
        let measured = Measured {
            config: &config,
            shares: &[(Op::StatFile, 1.0)],
            outcome: &outcome,
            offered_s: None,
            watched: Watched {
                growth,
                client_cpu_s: 0.0,
                machine_busy_percent: None,
                counts: [Counts::default(), Counts::default()],
                answers: BTreeMap::new(),
            },
            costs: &BTreeMap::new(),
            conducted: None,
            contents: &Contents::default(),
        };
        (summary::counted(&measured).is_cached(), summary::notes(&measured))
    }

    /// The servers counted so many calls of two methods.
    fn growth(stats: u64, exceptions: u64, others: u64) -> Option<Result<Growth>> {
        let calls = [
            ("getFileInfo".to_owned(), servers::Answers { ok: stats, exceptions }),
            ("getListing".to_owned(), servers::Answers { ok: others, exceptions: 0 }),
        ];
        Some(Ok(Growth { calls: calls.into(), ..Growth::default() }))
    }

    /// Case G1: more than 1 % apart, in either direction, over all methods together.
    #[test]
    fn g1_a_run_that_servers_did_not_see_is_marked() {
        for (stats, exceptions, others) in
            [(SEEN, 0, 0), (990, 0, 0), (1010, 0, 0), (500, 490, 0), (600, 0, 400), (0, 0, 1000)]
        {
            let (is_cached, notes) = marked(growth(stats, exceptions, others));
            assert!(!is_cached, "{stats} {exceptions} {others}");
            assert!(!notes.iter().any(|note| note.starts_with("cached")), "{notes:?}");
        }
        for (stats, others, says) in [
            (989, 0, "clients saw 1000 calls answered, servers counted 989 (1.1 % fewer)"),
            (7, 1, "servers counted 8 (99.2 % fewer): something on the way answered"),
            (0, 0, "servers counted 0 (100.0 % fewer)"),
            (1011, 0, "servers counted 1011 (1.1 % more): somebody else was at work"),
            (1000, 500, "servers counted 1500 (50.0 % more)"),
        ] {
            let (is_cached, notes) = marked(growth(stats, 0, others));
            assert!(is_cached, "{stats} {others}");
            assert!(
                notes.iter().any(|note| note.starts_with("cached: ") && note.contains(says)),
                "{notes:?}"
            );
        }
    }

    /// Case G1: what nobody counted is not judged.
    #[test]
    fn g1_without_the_servers_counters_nothing_is_claimed() {
        assert!(!marked(None).0);
        assert!(!marked(Some(Err(Error::Unreadable("restarted".into())))).0);
        let unseen = Counted { clients: 0, servers: Some(5) };
        assert!(unseen.is_cached() && unseen.warning().is_some_and(|text| text.contains("(clients none)")));
        assert!(!Counted { clients: 0, servers: Some(0) }.is_cached());
    }

    /// A report of a run in which servers saw a hundredth of the calls, or all of them.
    fn report(is_cached: bool) -> Report {
        let mut report = sample();
        let servers_ok = Some(if is_cached { 10 } else { SEEN });
        let calls = Calls { ok: SEEN, exceptions: 0, servers_ok, servers_exceptions: Some(0) };
        report.calls = [("getFileInfo".to_owned(), calls)].into();
        report.cached = is_cached;
        report
    }

    /// Case G1: both counts stand beside each other, and a rate that is not the servers' is not called theirs.
    #[test]
    fn g1_reports_say_whose_rate_it_is() {
        let (own, cached) = (report(false), report(true));
        let (shown, marked) = (crate::show::show(&own), crate::show::show(&cached));
        assert!(shown.contains("calls: clients saw 1000 answers, servers counted 1000"), "{shown}");
        assert!(shown.contains("total: 10.0 ops/s,") && !shown.contains("cached"), "{shown}");
        assert!(marked.contains("calls: clients saw 1000 answers, servers counted 10;"), "{marked}");
        assert!(marked.contains("total: 10.0 ops/s that clients saw (cached),"), "{marked}");
        assert!(
            marked.contains("\ncached: clients saw 1000 calls answered, servers counted 10 (99.0 % fewer)")
        );

        let (shown, marked) = (page::run::page(&own), page::run::page(&cached));
        assert!(shown.contains("<dt>operations/s</dt>") && !shown.contains("cached"), "{shown}");
        assert!(!marked.contains("operations/s</dt>") && !marked.contains("per CPU second"), "{marked}");
        assert!(marked.contains("<dt>operations/s that clients saw</dt>"), "{marked}");
        assert!(marked.contains("class=\"warning\">cached: clients saw 1000"), "{marked}");
        // Names of the rate in drawings, too.
        assert!(!marked.contains(">operations/s<") && marked.contains(">operations/s that clients saw<"));

        let compared = crate::compare::compare(&own, &cached);
        assert!(compared.contains("B is cached: clients saw") && !compared.contains("A is"), "{compared}");
        let pair = page::pair::page([&own, &cached], ["a", "b"]);
        assert!(pair.contains("<dt>operations/s that clients saw</dt>"), "{pair}");
        assert!(pair.contains("B is cached: clients saw") && !pair.contains("A is cached"), "{pair}");
    }
}
