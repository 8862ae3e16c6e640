//! A capacity model: how many operations a cluster could do that nobody has at hand.
//!
//! Clients of a closed loop go round a network of stations: cores of namenodes, cores of the store's nodes, round trips, the
//! turnstile of an embedded store. What an operation demands of each is measured in a run ([`calibrate`]) or stated.
//!
//! - [`mva`]: the network, solved; its bounds
//! - [`writer`]: writes on one embedded store that several namenodes share
//! - [`demands`]: what an operation demands, from a report; [`calibrate`]: and what is left
//! - [`cluster`]: where everything runs, as a network
//! - [`check`]: what the model says of runs that were measured
//! - [`report`]: `model.json`, described in docs/LOAD.md; [`show`]: as tables

pub mod calibrate;
pub mod check;
pub mod cluster;
pub mod demands;
pub mod mva;
pub mod report;
pub mod show;
pub mod writer;
