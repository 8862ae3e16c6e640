//! Hadoop's wire, without IO: messages, RPC frames, data-transfer packets, and the table of exceptions.
//!
//! The messages are generated from `proto/*.proto`, one module per protobuf package:
//!
//! | module | package | what |
//! |---|---|---|
//! | [`common`] | `hadoop.common` | RPC headers, tokens, the small administrative protocols |
//! | [`hdfs`] | `hadoop.hdfs` | ClientProtocol, what it shares with the others, data transfer |
//! | [`hdfs::datanode`] | `hadoop.hdfs.datanode` | DatanodeProtocol |
//! | [`hdfs::namenode`] | `hadoop.hdfs.namenode` | NamenodeProtocol |
//!
//! Each service also has a module of typed methods, e.g. [`hdfs::client_namenode_protocol::CREATE`].
//!
//! | by hand | what |
//! |---|---|
//! | [`exception`] | THE table: Java class, error detail, errno, retry, log level; [`exception::RpcError`] |
//! | [`methods`] | every protocol and method by its wire name |
//! | [`presence`] | [`presence::decode_request`]: decoding as strict as Hadoop's |
//! | [`frame`] | a byte stream cut into frames |
//! | [`rpc`] | a connection: [`rpc::ServerConn`], [`rpc::reply`], [`rpc::client`] |
//! | [`data_transfer`] | ops and packets of the datanode's data port |
//! | [`pipeline`] | acks of a block's pipeline, names of its datanodes |
//! | [`checksum`] | checksums of blocks: chunks, MD5 of sums, composites |
//! | [`registration`], [`block_report`], [`active`] | what a datanode tells namenodes, and which of them it obeys |
//!
//! Never here: sockets, clocks, random numbers, logging.

pub mod exception;
pub mod methods;

mod wire;

pub mod presence;

pub mod frame;
pub mod rpc;

pub mod data_transfer;
pub mod pipeline;

pub mod checksum;

pub mod active;
pub mod block_report;
pub mod registration;

/// Package `hadoop.common`.
#[allow(missing_docs, clippy::all)]
pub mod common {
    include!(concat!(env!("OUT_DIR"), "/hadoop.common.rs"));
}

/// Package `hadoop.hdfs` and those below it.
#[allow(missing_docs, clippy::all)]
pub mod hdfs {
    include!(concat!(env!("OUT_DIR"), "/hadoop.hdfs.rs"));

    /// Package `hadoop.hdfs.datanode`.
    pub mod datanode {
        include!(concat!(env!("OUT_DIR"), "/hadoop.hdfs.datanode.rs"));
    }

    /// Package `hadoop.hdfs.namenode`.
    pub mod namenode {
        include!(concat!(env!("OUT_DIR"), "/hadoop.hdfs.namenode.rs"));
    }
}

/// The compiled `.proto` files, an encoded `google.protobuf.FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
