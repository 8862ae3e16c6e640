//! Where a file system is: `hdfs://host:port[,host:port…][/path]`, or the list alone.

use std::fmt;

/// Port of `hdfs://host` (`dfs.namenode.rpc-address`).
pub const DEFAULT_PORT: u16 = 8020;
/// More namenodes than this in one list are refused.
const MAX_NAMENODES: usize = 1024;

/// Host name or IP address, and port, of a namenode's RPC server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// `host` without brackets.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self { host: host.into(), port }
    }

    /// `host`, `host:port`, `[v6]` or `[v6]:port`.
    pub fn parse(text: &str) -> Result<Self, InvalidUri> {
        let invalid = |what| InvalidUri { text: text.to_owned(), what };
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or(invalid("the bracket is not closed"))?;
                match after.strip_prefix(':') {
                    Some(port) => (host, Some(port)),
                    None if after.is_empty() => (host, None),
                    None => return Err(invalid("after the bracket comes :PORT or nothing")),
                }
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        if host.is_empty() || host.contains(['/', '@', ' ', '?', '#', '[', ']', '%']) {
            return Err(invalid("a namenode is HOST or HOST:PORT"));
        }
        let port = match port {
            Some(port) => port.parse().map_err(|_| invalid("the port is not a number below 65536"))?,
            None => DEFAULT_PORT,
        };
        Ok(Self::new(host, port))
    }

    /// Without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// TCP port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// A text that names no file system or path on one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a namenode address: {what}; say hdfs://HOST:PORT[,HOST:PORT...][/PATH]")]
pub struct InvalidUri {
    text: String,
    what: &'static str,
}

/// What a URI says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uri {
    /// At least one, in the order of the text. A nameservice of the configuration (see [`crate::conf`]) looks like a
    /// host without a port.
    pub namenodes: Vec<Address>,
    /// Whether the text named a port; a nameservice has none.
    pub has_port: bool,
    /// The path, beginning with `/`; empty if the text has none. Not percent-decoded: HDFS does not do that.
    pub path: String,
}

impl Uri {
    /// Parses `hdfs://h:p,h2:p2/path`, also without the scheme. Without a port: 8020.
    pub fn parse(text: &str) -> Result<Self, InvalidUri> {
        let invalid = |what| InvalidUri { text: text.to_owned(), what };
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("hdfs") => rest,
            Some(_) => return Err(invalid("the scheme is not hdfs")),
            None => text,
        };
        let (list, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        if list.is_empty() {
            return Err(invalid("no namenode is named"));
        }
        if list.split(',').count() > MAX_NAMENODES {
            return Err(invalid("too many namenodes"));
        }
        let namenodes = list.split(',').map(Address::parse).collect::<Result<Vec<_>, _>>()?;
        let has_port = list.rsplit(']').next().is_some_and(|tail| tail.contains(':'));
        Ok(Self { namenodes, has_port, path: path.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Vec<String>, String) {
        let uri = Uri::parse(text).unwrap();
        (uri.namenodes.iter().map(Address::to_string).collect(), uri.path)
    }

    #[test]
    fn lists_ports_and_paths() {
        let want = |hosts: &[&str], path: &str| {
            (hosts.iter().map(|h| (*h).to_owned()).collect::<Vec<_>>(), path.to_owned())
        };
        assert_eq!(parsed("hdfs://a:1,b:2/x/y"), want(&["a:1", "b:2"], "/x/y"));
        assert_eq!(parsed("a:1,b"), want(&["a:1", "b:8020"], ""));
        assert_eq!(parsed("HDFS://ns"), want(&["ns:8020"], ""));
        assert_eq!(parsed("hdfs://[::1]:9,[fe80::1]/"), want(&["[::1]:9", "[fe80::1]:8020"], "/"));
        assert_eq!(parsed("hdfs://h/a:b,c%20d"), want(&["h:8020"], "/a:b,c%20d"));
        assert!(Uri::parse("h:1").unwrap().has_port && !Uri::parse("hdfs://h/a:1").unwrap().has_port);
        assert_eq!(Uri::parse("[::1]").unwrap().namenodes[0].host(), "::1");
    }

    #[test]
    fn what_is_refused() {
        for text in [
            "",
            "hdfs://",
            "hdfs:///a",
            "webhdfs://h",
            "h:",
            "h:x",
            "h:65536",
            "a,,b",
            "a,",
            "[::1",
            "[::1]x",
            "::1",
            "u@h",
            "a b",
            "/a",
        ] {
            let error = Uri::parse(text).expect_err(text).to_string();
            assert!(error.contains("hdfs://HOST:PORT"), "{error}");
        }
        assert!(Uri::parse(&vec!["h"; MAX_NAMENODES + 1].join(",")).is_err());
    }
}
