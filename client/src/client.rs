//! A client of one file system, for one user.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use prost::Message;
use tokio::runtime::Handle;
use tokio::time::Instant;
use trellis_proto::hdfs::client_namenode_protocol;
use trellis_proto::methods::Rpc;
use trellis_proto::presence::Checked;

use crate::block::Datanodes;
use crate::conf::{Conf, ConfError, Target};
use crate::config::{ConnectionConfig, DataConfig, RetryPolicy};
use crate::connection::{Dial, Identity};
use crate::error::Result;
use crate::failover::Failover;
use crate::lease::Leases;
use crate::namenode::Namenode;
use crate::tally::Answers;
use crate::types::ServerDefaults;
use crate::uri::Address;
use crate::user::default_user;

/// What clients call a namenode with, unless another umask is set.
const DEFAULT_UMASK: u16 = 0o022;
/// Stock renews at half the soft limit, which is 60 s.
const LEASE_RENEW_INTERVAL: Duration = Duration::from_secs(30);

/// A client of one file system, for one user. Clones share everything; a client may be used by any number of tasks at
/// once, inside one tokio runtime (or, with [`Builder::runtime`], several). Nothing is connected before the first call.
#[derive(Debug, Clone)]
pub struct Client(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    failover: Failover,
    identity: Arc<Identity>,
    /// The holder of this client's leases.
    pub name: String,
    pub umask: u16,
    pub leases: Leases,
    pub datanodes: Datanodes,
    runtime: Option<Handle>,
    /// And when they were asked for.
    pub defaults: Mutex<Option<(Instant, ServerDefaults)>>,
}

/// What a client did to get its calls answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// It went over to another namenode.
    pub failovers: u64,
    /// A call was sent once more.
    pub resends: u64,
}

/// Settings of a new [`Client`].
#[derive(Debug, Clone)]
pub struct Builder {
    namenodes: Vec<Address>,
    random_order: bool,
    user: Option<String>,
    umask: u16,
    caller_context: Option<String>,
    connection: ConnectionConfig,
    data: DataConfig,
    retry: RetryPolicy,
    lease_renew_interval: Duration,
    count_answers: bool,
    runtime: Option<Handle>,
}

/// A client needs at least one namenode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no namenode is named: give at least one HOST:PORT")]
pub struct NoNamenodes;

impl Builder {
    /// The user that the namenode sees; without it [`default_user`].
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Taken off the mode of what is created; 022 without it.
    pub fn umask(mut self, umask: u16) -> Self {
        self.umask = umask & 0o777;
        self
    }

    /// Goes into the namenode's audit log; the stock shell sends `CLI`.
    pub fn caller_context(mut self, context: impl Into<String>) -> Self {
        self.caller_context = Some(context.into());
        self
    }

    /// Whether to begin with any of the namenodes (the default: many clients then spread over them) or the first.
    pub fn random_order(mut self, random: bool) -> Self {
        self.random_order = random;
        self
    }

    /// Time-outs and bounds of connections.
    pub fn connection(mut self, config: ConnectionConfig) -> Self {
        self.connection = config;
        self
    }

    /// Time-outs and bounds of connections to datanodes.
    pub fn data(mut self, config: DataConfig) -> Self {
        self.data = config;
        self
    }

    /// How often a call is tried.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// How often leases of open files are renewed; at most 30 s.
    pub fn lease_renew_interval(mut self, interval: Duration) -> Self {
        self.lease_renew_interval = interval.min(LEASE_RENEW_INTERVAL);
        self
    }

    /// Whether answers are counted by method, for [`Client::answers`]; they are not by default.
    pub fn count_answers(mut self, count: bool) -> Self {
        self.count_answers = count;
        self
    }

    /// Where its connections to namenodes run, wherever calls come from: calls from there need no other thread. Without it,
    /// where the call comes from that needs one.
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// The client. Fails only for want of namenodes.
    pub fn build(self) -> std::result::Result<Client, NoNamenodes> {
        if self.namenodes.is_empty() {
            return Err(NoNamenodes);
        }
        let user = self.user.unwrap_or_else(default_user);
        let identity = Arc::new(Identity::new(user, self.caller_context));
        let dial = |address| {
            Namenode::new(Dial {
                address,
                service: &client_namenode_protocol::SERVICE,
                identity: identity.clone(),
                config: self.connection.clone(),
                runtime: self.runtime.clone(),
            })
        };
        let namenodes: Vec<_> = self.namenodes.into_iter().map(dial).collect();
        let first = if self.random_order { rand::random_range(0..namenodes.len()) } else { 0 };
        Ok(Client(Arc::new(Inner {
            failover: Failover::new(namenodes, first, identity.clone(), self.retry, self.count_answers),
            identity,
            name: format!("trellis_{}", uuid::Uuid::new_v4().simple()),
            umask: self.umask,
            leases: Leases::new(self.lease_renew_interval),
            datanodes: Datanodes::new(self.data),
            runtime: self.runtime,
            defaults: Mutex::new(None),
        })))
    }
}

impl Client {
    /// Settings for a client of these namenodes, all of one file system.
    pub fn builder(namenodes: Vec<Address>) -> Builder {
        Builder {
            namenodes,
            random_order: true,
            user: None,
            umask: DEFAULT_UMASK,
            caller_context: None,
            connection: ConnectionConfig::default(),
            data: DataConfig::default(),
            retry: RetryPolicy::default(),
            lease_renew_interval: LEASE_RENEW_INTERVAL,
            count_answers: false,
            runtime: None,
        }
    }

    /// Settings for a client of what `uri` names (see [`Conf::target`]), with the configuration's umask and its wishes
    /// about datanodes.
    /// Also gives the target, for its path.
    pub fn from_conf(conf: &Conf, uri: Option<&str>) -> std::result::Result<(Builder, Target), ConfError> {
        let target = conf.target(uri)?;
        let mut builder = Self::builder(target.namenodes.clone()).random_order(target.random_order);
        if let Some(umask) = conf.umask()? {
            builder = builder.umask(umask);
        }
        builder.data.use_datanode_hostname = conf.flag("dfs.client.use.datanode.hostname")?;
        builder.data.replace_best_effort =
            conf.flag("dfs.client.block.write.replace-datanode-on-failure.best-effort")?;
        Ok((builder, target))
    }

    /// Calls any method, as often as it takes. Errors carry no path: add it when showing them.
    pub async fn call<Request: Message, Response: Checked>(
        &self,
        rpc: &Rpc<Request, Response>,
        request: &Request,
    ) -> Result<Response> {
        self.0.failover.call(rpc, request).await
    }

    /// The namenodes that this client knows.
    pub fn namenodes(&self) -> Vec<Namenode> {
        self.0.failover.namenodes()
    }

    /// How often calls had to be repeated so far.
    pub fn counts(&self) -> Counts {
        let (failovers, resends) = self.0.failover.counts();
        Counts { failovers, resends }
    }

    /// How its calls were answered so far, by method, those included that its writers make by themselves; empty unless they
    /// are counted ([`Builder::count_answers`]).
    pub fn answers(&self) -> BTreeMap<&'static str, Answers> {
        self.0.failover.answers()
    }

    /// Where its connections to namenodes run, if that was said.
    pub fn runtime(&self) -> Option<&Handle> {
        self.0.runtime.as_ref()
    }

    /// The user that the namenode sees.
    pub fn user(&self) -> &str {
        &self.0.identity.user
    }

    /// This client's name, under which it holds leases.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Where relative paths begin: `/user/NAME`.
    pub fn home(&self) -> String {
        format!("/user/{}", self.user())
    }
}
