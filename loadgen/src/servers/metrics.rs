//! What a namenode counts: a reading of its `/metrics`.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

/// How long a namenode may take to answer.
const LIMIT: Duration = Duration::from_secs(20);
/// How long until it is tried again.
const PAUSE: Duration = Duration::from_millis(500);
/// No longer answer is read.
const MAX_BYTES: u64 = 16 << 20;

/// All metrics as they stood when they were read. Those with labels go by name and labels, as the text has them.
#[derive(Debug)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Asks the namenode whose HTTP server listens at `HOST:PORT`.
    pub fn read(address: &str) -> Result<Metrics> {
        let answer = get(address).map_err(Error::io(format!("reading http://{address}/metrics")))?;
        let unreadable =
            |what: String| Error::Unreadable(format!("http://{address}/metrics answered {what}"));
        let (head, body) =
            answer.split_once("\r\n\r\n").ok_or_else(|| unreadable(format!("no HTTP: {answer:?}")))?;
        let status = head.lines().next().unwrap_or_default();
        match status.split(' ').nth(1) {
            Some("200") => Ok(Metrics::parse(body)),
            _ => Err(unreadable(status.to_owned())),
        }
    }

    pub(super) fn parse(text: &str) -> Metrics {
        let metric = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        Metrics(text.lines().filter(|line| !line.starts_with('#')).filter_map(metric).collect())
    }

    /// One metric.
    pub fn value(&self, name: &str) -> Result<f64> {
        let missing = || Error::Unreadable(format!("/metrics has no {name}"));
        self.0.get(name).copied().ok_or_else(missing)
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// How much a counter grew since an earlier reading.
    pub fn since(&self, earlier: &Metrics, name: &str) -> Result<f64> {
        Ok(self.value(name)? - earlier.value(name)?)
    }
}

/// A label of a metric's full name. Values with quotation marks do not occur.
pub fn label<'a>(name: &'a str, label: &str) -> Option<&'a str> {
    let (_, labels) = name.trim_end_matches('}').split_once('{')?;
    let value = labels.split(',').find_map(|pair| pair.strip_prefix(label)?.strip_prefix("=\""))?;
    value.strip_suffix('"')
}

/// The whole answer. HTTP/1.0, so that it is in one piece and ends with the connection.
fn get(address: &str) -> std::io::Result<String> {
    let not_found = || std::io::Error::other("the name has no address");
    let mut stream = connect(&address.to_socket_addrs()?.next().ok_or_else(not_found)?)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(MAX_BYTES).read_to_string(&mut answer)?;
    Ok(answer)
}

/// Connects. While all of this machine's ports for it are taken, by connections that ended a moment ago, it is tried again.
fn connect(address: &SocketAddr) -> std::io::Result<TcpStream> {
    let begun = Instant::now();
    loop {
        match TcpStream::connect_timeout(address, LIMIT) {
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable && begun.elapsed() < LIMIT => {
                std::thread::sleep(PAUSE);
            }
            connected => return connected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::float_cmp)] // small whole numbers
    fn counters_grow() {
        let text =
            "# TYPE trellis_store_commits_total counter\ntrellis_store_commits_total 7\nother{a=\"b c\"} 1\n";
        let (earlier, later) = (Metrics::parse(text), Metrics::parse("trellis_store_commits_total 12"));
        assert_eq!(later.since(&earlier, "trellis_store_commits_total").expect("both have it"), 5.0);
        assert_eq!(earlier.value("other{a=\"b c\"}").expect("it has it"), 1.0);
        let error = later.since(&earlier, "other").expect_err("neither has it");
        assert_eq!(error.to_string(), "/metrics has no other");
    }

    #[test]
    fn labels_are_found() {
        let name = "calls{protocol=\"P\",method=\"m\",outcome=\"ok\"}";
        assert_eq!(
            ["protocol", "method", "outcome"].map(|of| label(name, of)),
            [Some("P"), Some("m"), Some("ok")]
        );
        assert_eq!((label(name, "out"), label("plain", "method")), (None, None));
    }
}
