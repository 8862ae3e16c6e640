//! The program as people run it: real processes, free ports, temporary directories.
//!
//! - [`support`]: a cluster started by `trellis up`
//! - [`cluster`]: `up`: death, restart, stop, the second start
//! - [`load`]: the load generator, held against what the servers count; [`load_disturbed`]: when it, or they, are disturbed
//! - [`load_blocks`]: with blocks; [`load_cached`]: its rate is the servers' own; [`load_config`]: its configuration
//! - [`replay`]: replays of audit logs, in which every line is accounted for; [`replay_case`]: case G3, step by step
//! - [`scale`]: more and more namenodes, started by the load generator
//! - [`stores`]: `store init`, cut short anywhere; `check`; `dump`
//! - [`verbs`]: `fs`, with the stock shell's exit codes

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod admin;
mod cluster;
mod load;
mod load_blocks;
mod load_cached;
mod load_config;
mod load_disturbed;
mod load_outputs;
mod replay;
mod replay_case;
mod scale;
mod stores;
mod support;
mod verbs;
