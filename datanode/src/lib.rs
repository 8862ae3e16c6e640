//! A datanode: keeps blocks on disk, as stock HDFS lays them out, and serves them.
//!
//! | module | what |
//! |---|---|
//! | [`store`] | [`store::BlockStore`]: what a datanode does with replicas, and the words for it |
//! | [`disk`] | the store on folders that a stock DataNode can serve too |
//!
//! Never here: names of files, which only namenodes know.

pub mod disk;
pub mod store;
