//! A datanode: keeps blocks on disk, as stock HDFS lays them out, and serves them.
//!
//! | module | what |
//! |---|---|
//! | [`server`] | a datanode's life: ports, start, stop |
//! | `transfer` | the data port: writes, reads, copies |
//! | `namenodes` | registration, heartbeats, reports, commands |
//! | `recovery` | leads the recovery of a block whose writer is gone |
//! | `rpc`, `http` | the two other ports |
//! | [`store`] | [`store::BlockStore`]: what a datanode does with replicas, and the words for it |
//! | [`disk`] | the store on folders that a stock DataNode can serve too |
//! | [`config`], [`metrics`] | settings; what is counted |
//!
//! Never here: names of files, which only namenodes know.

pub mod server;

mod node;
mod shared;

mod transfer;

mod namenodes;
mod recovery;

mod http;
mod refusal;
mod rpc;

pub mod disk;
pub mod store;

pub mod config;
pub mod metrics;
