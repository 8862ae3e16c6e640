//! The namenodes that are driven, and the clients that drive them.

use std::time::Duration;

use trellis_client::Client;
use trellis_client::client::Builder;
use trellis_client::config::{ConnectionConfig, RetryPolicy};
use trellis_client::uri::{Address, Uri};

use crate::error::{Error, Result};
use crate::loops::event_loop;

/// How long to try until a namenode answers for the first time: a wrong address is to be heard of soon.
const FIRST_ANSWER_WITHIN: Duration = Duration::from_secs(8);
/// Goes into audit logs.
const CALLER_CONTEXT: &str = "trellis-load";

/// Namenodes of one file system.
#[derive(Debug, Clone)]
pub struct Target {
    namenodes: Vec<Address>,
    count_answers: bool,
}

impl Target {
    /// From `hdfs://HOST:PORT[,HOST:PORT…]`.
    pub fn parse(text: &str) -> Result<Target> {
        let uri = Uri::parse(text)?;
        if !["", "/"].contains(&uri.path.as_str()) {
            return Err(Error::refused(format!(
                "{text}: a target has no path; the namespace is where --base says"
            )));
        }
        Ok(Target { namenodes: uri.namenodes, count_answers: false })
    }

    /// The same, of whose clients the answers are counted by method.
    pub fn counting(self, count_answers: bool) -> Target {
        Target { count_answers, ..self }
    }

    /// Where they listen.
    pub fn addresses(&self) -> &[Address] {
        &self.namenodes
    }

    /// So many clients, each with a connection of its own to whichever namenode it uses: the n-th begins with the n-th
    /// namenode, and goes on to the next only when that one fails. They are spread over [`loops`](crate::loops).
    pub fn clients(&self, count: u32) -> Result<Vec<Client>> {
        (0..count as usize).map(|index| self.client(index)).collect()
    }

    fn client(&self, index: usize) -> Result<Client> {
        Ok(self.builder(index)?.build()?)
    }

    /// The same without a umask, as this user if one is given: what they make has exactly the mode that is asked for.
    pub fn client_of(&self, index: usize, user: Option<&str>) -> Result<Client> {
        let builder = self.builder(index)?.umask(0);
        Ok(match user {
            Some(user) => builder.user(user).build()?,
            None => builder.build()?,
        })
    }

    fn builder(&self, index: usize) -> Result<Builder> {
        let mut namenodes = self.namenodes.clone();
        namenodes.rotate_left(index % self.namenodes.len().max(1));
        let retry = RetryPolicy { give_up_unanswered_after: FIRST_ANSWER_WITHIN, ..RetryPolicy::default() };
        let connection =
            ConnectionConfig { connect_timeout: FIRST_ANSWER_WITHIN, ..ConnectionConfig::default() };
        let builder = Client::builder(namenodes).random_order(false).caller_context(CALLER_CONTEXT);
        let builder = builder.runtime(event_loop(index)?);
        Ok(builder.count_answers(self.count_answers).retry(retry).connection(connection))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_spread_over_the_namenodes() {
        let target = Target::parse("hdfs://a:1,b:2,c:3").expect("a list");
        let first = |client: &Client| client.namenodes()[0].address().to_string();
        let clients = target.clients(4).expect("there are namenodes");
        assert_eq!(clients.iter().map(first).collect::<Vec<_>>(), ["a:1", "b:2", "c:3", "a:1"]);
        assert!(Target::parse("hdfs://a:1/x").is_err());
    }
}
