//! File operations over rows. The only crate that knows both the wire and the rows.
//!
//! - [`ops`]: the operations, one file per family
//! - [`engine`]: runs them: path walk, permissions, groups, retry cache, membership
//! - [`datanodes`]: what their heartbeats say; where new replicas may go
//! - [`check`]: whether the rows of a store fit together
//! - [`fsck`]: files and their replicas, looked at while it serves; the lists of administrators
//! - [`http`]: the HTTP port
//! - [`jobs`]: what a namenode does unasked: reaping, lease expiry, sweeps
//! - [`membership`]: which namenodes live, who leads
//! - [`store`]: a store as a whole: made ready, looked at
//! - [`path`], [`user`], [`policy`], [`config`], [`refusal`]: what they speak of
//! - [`rpc`]: Hadoop RPC in front of the engine; the method tables
//! - [`audit`], [`metrics`]: what happened, and how often

pub mod audit;
pub mod check;
pub mod config;
pub mod datanodes;
pub mod engine;
pub mod fsck;
pub mod http;
pub mod jobs;
pub mod membership;
pub mod metrics;
pub mod ops;
pub mod path;
pub mod policy;
pub mod refusal;
pub mod rpc;
pub mod server;
pub mod store;
pub mod user;
