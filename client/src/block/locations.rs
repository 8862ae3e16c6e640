//! Where a file's blocks are, asked for page by page.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time;
use trellis_proto::common::TokenProto;
use trellis_proto::exception::Kind;
use trellis_proto::hdfs;
use trellis_proto::hdfs::client_datanode_protocol_service::{GET_REPLICA_VISIBLE_LENGTH, SERVICE};
use trellis_proto::hdfs::client_namenode_protocol as rpc;
use trellis_proto::pipeline::datanode_name;

use super::datanodes::is_local;
use crate::client::Client;
use crate::config::ConnectionConfig;
use crate::error::{Error, Fault, Result};
use crate::namenode::Namenode;
use crate::types::{Block, BlockLocation};

/// Blocks of one page, as in stock (`dfs.client.read.prefetch.size`).
const PAGE_BLOCKS: u64 = 10;
/// While nobody knows how much of a file's open last block can be read, all is asked for again, so often in all
/// (`dfs.client.retry.times.get-last-block-length`).
const LENGTH_TRIES: u32 = 3;

/// A block and its datanodes.
#[derive(Debug, Clone)]
pub(crate) struct Located {
    pub block: Block,
    pub token: TokenProto,
    /// Of its first byte in the file.
    pub offset: u64,
    /// In the order in which they should be asked.
    pub nodes: Vec<hdfs::DatanodeInfoProto>,
    /// All copies are known to be bad.
    pub corrupt: bool,
}

impl Located {
    fn from_wire(wire: hdfs::LocatedBlockProto) -> Self {
        let mut nodes = wire.locs;
        // The namenode's order stays within both parts.
        nodes.sort_by_key(|node| !is_local(node));
        Self {
            block: wire.b.into(),
            token: wire.block_token,
            offset: wire.offset,
            nodes,
            corrupt: wire.corrupt,
        }
    }

    /// Where the next block begins in the file.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.block.length)
    }

    /// What every op on the block begins with.
    pub fn header(&self) -> hdfs::BaseHeaderProto {
        hdfs::BaseHeaderProto {
            block: (&self.block).into(),
            token: Some(self.token.clone()),
            ..Default::default()
        }
    }
}

/// What is known of a file's blocks.
#[derive(Debug, Default)]
pub(super) struct Locations {
    /// By the file offset of their first byte.
    blocks: BTreeMap<u64, Arc<Located>>,
    /// Bytes that can be read.
    pub length: u64,
    /// Somebody may be writing to it.
    pub open: bool,
}

impl Locations {
    /// The known block that holds a byte.
    pub fn block_of(&self, offset: u64) -> Option<Arc<Located>> {
        let (_, located) = self.blocks.range(..=offset).next_back()?;
        (offset < located.end()).then(|| located.clone())
    }

    /// Takes what is known better than before.
    pub fn merge(&mut self, newer: Locations) {
        self.blocks.extend(newer.blocks);
        // A reader that is open sees what was there when it was opened, and what a refresh finds besides.
        self.length = self.length.max(newer.length);
        self.open = newer.open;
    }
}

impl Client {
    /// Where all blocks of a file are; of one that is being written, without the block that is.
    pub async fn get_block_locations(&self, path: &str) -> Result<Vec<BlockLocation>> {
        let mut all = Vec::new();
        let mut offset = 0;
        loop {
            let request =
                hdfs::GetBlockLocationsRequestProto { src: path.to_owned(), offset, length: i64::MAX as u64 };
            let response = self.call_on(path, &rpc::GET_BLOCK_LOCATIONS, &request).await?;
            let Some(wire) = response.locations else {
                let text = format!("File does not exist: {path}");
                return Err(Error::local("getBlockLocations", path, Kind::FileNotFound, text));
            };
            let length = wire.file_length;
            let begun = offset;
            for located in
                wire.blocks.into_iter().filter(|block| block.offset >= begun && block.offset < length)
            {
                offset = located.offset.saturating_add(located.b.num_bytes());
                all.push(BlockLocation {
                    offset: located.offset,
                    datanodes: located.locs.iter().map(|node| datanode_name(&node.id)).collect(),
                    corrupt: located.corrupt,
                    block: located.b.into(),
                });
            }
            // A page without anything new would make no progress.
            if offset >= length || offset == begun {
                return Ok(all);
            }
        }
    }

    /// The blocks of a page that begins at a byte, and of the last block if that is open for writing.
    pub(super) async fn locations(&self, path: &str, offset: u64, block_size: u64) -> Result<Locations> {
        let length = block_size.max(1).saturating_mul(PAGE_BLOCKS).min(i64::MAX as u64);
        let request = hdfs::GetBlockLocationsRequestProto { src: path.to_owned(), offset, length };
        let mut tries = 0;
        loop {
            let response = self.call_on(path, &rpc::GET_BLOCK_LOCATIONS, &request).await?;
            let Some(wire) = response.locations else {
                let text = format!("File does not exist: {path}");
                return Err(Error::local("getBlockLocations", path, Kind::FileNotFound, text));
            };
            if wire.ec_policy.is_some() || wire.file_encryption_info.is_some() {
                let text = format!("{path} is erasure coded or encrypted, which this client cannot read");
                return Err(Error::local("getBlockLocations", path, Kind::UnsupportedOperation, text));
            }
            let complete = wire.file_length;
            let of_complete = wire.blocks.into_iter().filter(|block| block.offset < complete);
            let mut found = Locations {
                blocks: of_complete.map(Located::from_wire).map(|b| (b.offset, Arc::new(b))).collect(),
                length: complete,
                open: wire.under_construction,
            };
            let Some(last) = wire.last_block.filter(|_| !wire.is_last_block_complete) else {
                return Ok(found);
            };
            let mut last = Located::from_wire(last);
            tries += 1;
            match self.visible_length(&last).await {
                Ok(visible) => last.block.length = visible,
                // Its writer may be closing it just now, or setting it up.
                Err(_) if tries < LENGTH_TRIES => {
                    time::sleep(self.0.datanodes.config.acquire_wait * tries).await;
                    continue;
                }
                Err(why) => {
                    let text = format!(
                        "Cannot obtain block length for blk_{}, which is being written: {why}; the lease of \
                         its writer may have to be recovered",
                        last.block.id
                    );
                    return Err(Error::local("open", path, Kind::Io, text));
                }
            }
            found.length = complete.saturating_add(last.block.length);
            if last.block.length > 0 {
                found.blocks.insert(last.offset, Arc::new(last));
            }
            return Ok(found);
        }
    }

    /// Bytes of an open block that a reader may see, or why no datanode says it.
    async fn visible_length(&self, last: &Located) -> std::result::Result<u64, String> {
        let mut why = "no datanode is known to have it".to_owned();
        let mut not_found = 0;
        for node in &last.nodes {
            match self.ask_length(node, &last.block).await {
                // -1: it stopped while the block was written, and does not know what was acked.
                Ok(length) if i64::try_from(length).is_err() => {
                    why = format!("{}: no byte of its replica is visible", datanode_name(&node.id));
                }
                Ok(length) => return Ok(length),
                Err(fault) => {
                    let gone =
                        matches!(&fault, Fault::Exception(error) if error.kind == Kind::ReplicaNotFound);
                    not_found += usize::from(gone);
                    why = format!("{}: {fault}", datanode_name(&node.id));
                }
            }
        }
        // Its writer has not reached the datanodes yet.
        if not_found > 0 && not_found == last.nodes.len() { Ok(0) } else { Err(why) }
    }

    async fn ask_length(
        &self,
        node: &hdfs::DatanodeInfoProto,
        block: &Block,
    ) -> std::result::Result<u64, Fault> {
        let data = &self.0.datanodes;
        let address = data.rpc_address(node).map_err(|fault| Fault::Unusable(fault.to_string()))?;
        let config = ConnectionConfig {
            connect_timeout: data.config.connect_timeout,
            call_timeout: data.config.read_timeout,
            ..ConnectionConfig::default()
        };
        let datanode = Namenode::alone(address, &SERVICE, self.user().to_owned(), config);
        let request = hdfs::GetReplicaVisibleLengthRequestProto { block: block.into() };
        let answer = datanode.call_once(&GET_REPLICA_VISIBLE_LENGTH, &request).await;
        answer.map(|answer| answer.length).map_err(|error| error.fault().clone())
    }
}
