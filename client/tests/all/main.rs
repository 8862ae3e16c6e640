//! The client against namenodes made by hand. Against real ones it is tested in `e2e`.
#![allow(clippy::unwrap_used, clippy::panic)]

mod fake;

mod connection;
mod data;
mod datanodes;
mod failover;
mod namespace;
mod table;
