//! The crate against the tables and recordings of a stock Hadoop 3.4.2 in `e2e/hadoop/wire`, and against broken input.

// Clippy's leave for tests covers only test functions, not the helpers beside them.
#![allow(clippy::unwrap_used, clippy::panic)]

mod descriptors;
mod exceptions;
mod mutations;
mod rpcprobe;
mod stock;

/// The same entry point that the fuzzer uses.
#[path = "../../fuzz/src/lib.rs"]
mod fuzz;
