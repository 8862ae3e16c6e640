//! Integration tests of the datanode, by part.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod store;
