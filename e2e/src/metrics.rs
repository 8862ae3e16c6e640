//! What a namenode counts: a reading of its `/metrics`.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// How long a namenode may take to answer.
const LIMIT: Duration = Duration::from_secs(20);

/// All metrics without labels, as they stood when they were read.
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Asks the namenode whose HTTP server listens at `HOST:PORT`.
    pub fn read(address: &str) -> Result<Metrics> {
        let answer = get(address).with_context(|| format!("reading http://{address}/metrics"))?;
        let Some((head, body)) = answer.split_once("\r\n\r\n") else { bail!("no HTTP answer: {answer:?}") };
        let status = head.lines().next().unwrap_or_default();
        ensure!(status.split(' ').nth(1) == Some("200"), "http://{address}/metrics answered {status}");
        Ok(Metrics::parse(body))
    }

    fn parse(text: &str) -> Metrics {
        let metric = |line: &str| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Metrics(text.lines().filter(|line| !line.starts_with('#')).filter_map(metric).collect())
    }

    /// How much a counter grew since an earlier reading.
    pub fn since(&self, earlier: &Metrics, name: &str) -> Result<f64> {
        let of = |metrics: &Metrics| {
            metrics.0.get(name).copied().with_context(|| format!("/metrics has no {name}"))
        };
        Ok(of(self)? - of(earlier)?)
    }
}

/// The whole answer. HTTP/1.0, so that it is in one piece and ends with the connection.
fn get(address: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::Metrics;

    #[test]
    #[allow(clippy::float_cmp)] // small whole numbers
    fn counters_grow() {
        let text =
            "# TYPE trellis_store_commits_total counter\ntrellis_store_commits_total 7\nother{a=\"b c\"} 1\n";
        let (earlier, later) = (Metrics::parse(text), Metrics::parse("trellis_store_commits_total 12"));
        assert_eq!(later.since(&earlier, "trellis_store_commits_total").expect("both have it"), 5.0);
        let error = later.since(&earlier, "other").expect_err("neither has it");
        assert_eq!(error.to_string(), "/metrics has no other");
    }
}
