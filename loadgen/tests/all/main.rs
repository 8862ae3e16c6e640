//! The load generator from outside: what it writes.

mod browser;
mod pages;
