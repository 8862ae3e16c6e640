//! Integration tests of the store.

fn main() {}
