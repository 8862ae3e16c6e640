//! The load generator from outside: what it writes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod browser;
mod hostile;
mod pages;
