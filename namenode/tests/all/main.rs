//! Integration tests of the namenode.

fn main() {}
