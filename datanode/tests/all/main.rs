//! A datanode in this process: in front of it a client that speaks the wire by hand, behind it namenodes that do as
//! the test says. And its store alone.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod actors;

mod copies;
mod failures;
mod garbage;
mod namenode;
mod peer;
mod reads;
mod recovery;
mod store;
mod support;
mod writes;
