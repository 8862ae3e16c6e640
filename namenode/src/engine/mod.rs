//! Runs operations: path walk, permissions, hints, ids, groups, retry cache. Only the engine talks to the store.

pub mod ctx;
pub mod hints;
pub mod permission;
pub mod tx;
pub mod walk;
pub mod walkjob;
