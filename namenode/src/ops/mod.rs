//! The file operations: one file per family, one repeatable function per operation. What they share is here.
//!
//! The head of each file says what its operations hold, touch and cost; tests compare it with what the store counts.

pub mod add_block;
pub mod append;
pub mod attributes;
pub mod blocks;
pub mod concat;
pub mod create;
pub mod datanodes;
pub mod delete;
pub mod format;
pub mod inspect;
pub mod lease;
pub mod list;
pub mod listed;
pub mod locations;
pub mod mkdirs;
pub mod open_files;
pub mod pipeline;
pub mod reap;
pub mod recovery;
pub mod redundancy;
pub mod rename;
pub mod replicas;
pub mod report;
pub mod statistics;
pub mod status;
pub mod summary;
pub mod truncate;
pub mod write;

mod entries;
mod judged;
mod orders;

pub use entries::retire;
