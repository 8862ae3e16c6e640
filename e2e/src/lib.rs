//! End-to-end tests: real processes, and the stock Hadoop 3.4.2 clients against them.
//!
//! - [`server`]: what a test talks to, a Trellis cluster or, with `E2E_TARGET=stock`, the stock NameNode. Each test is
//!   thus itself tested: what it demands of Trellis, the stock NameNode must fulfil.
//! - [`cluster`]: a Trellis cluster, started by `trellis up` and killed piece by piece.
//! - [`stock`]: the stock NameNode and DataNode on loopback.
//! - [`hadoop`]: the stock programs and recorders of `hadoop/harness`.
//! - [`table`]: answers compared with the tables recorded from stock, less a checked-in list of exclusions.
//! - [`surefire`]: the reports of Hadoop's contract suites.
//! - [`metrics`]: what a namenode counts.
//! - [`bench`]: what the measurements in `bin/` share.

pub mod bench;
pub mod cluster;
pub mod hadoop;
pub mod metrics;
pub mod server;
pub mod stock;
pub mod surefire;
pub mod table;
