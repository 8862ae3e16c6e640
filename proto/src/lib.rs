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
//! Beside them each service has a module of typed methods, e.g. [`hdfs::client_namenode_protocol::CREATE`].

pub mod exception;
pub mod frame;
pub mod methods;
pub mod presence;
pub mod rpc;
mod wire;

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
