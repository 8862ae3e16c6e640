//! Rows, transactions, backends. Knows rows, never paths.
//!
//! - [`schema`]: every table, its key and its value
//! - [`key`]: primary keys, their order, scans
//! - [`change`]: rows, checks, effects, and how changes fold
//! - [`store`]: the contract of a backend
//! - [`tx`]: what one run of an operation sees and writes
//! - [`work`]: an operation on its way through a lane
//! - [`group`]: lanes that run waiting operations as one group: one fetch, one commit
//! - [`counters`]: what a store did, counted where it happens
//! - [`delayed`]: any store, further away
//! - [`mem`]: the backend in memory
//! - [`open`]: stores by their URL
//! - [`lmdb`]: the embedded backend, the default
//!
//! For tests, behind the feature `sim`: `faulty` (any store, going wrong as its seed says) and `sim` (many namenodes in
//! one process on a virtual clock).

pub mod schema;

pub mod change;
pub mod key;

pub mod counters;
pub mod delayed;
pub mod store;

pub mod group;
pub mod tx;
pub mod work;

pub mod lmdb;
pub mod mem;
pub mod open;

#[cfg(feature = "sim")]
pub mod faulty;
#[cfg(feature = "sim")]
pub mod sim;
