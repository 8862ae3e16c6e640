//! The client against namenodes made by hand, and, if `TRELLIS_TEST_NAMENODE` names one, against a real one.
#![allow(clippy::unwrap_used, clippy::panic)]

mod fake;

mod connection;
mod failover;
mod namespace;
mod stock;
mod table;
