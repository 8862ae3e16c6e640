//! Checksums of whole files, made of what datanodes say of their blocks.

use std::fmt;

use trellis_proto::checksum::{MD5_BYTES, Md5OfSums};
use trellis_proto::data_transfer::Op;
use trellis_proto::exception::Kind;
use trellis_proto::hdfs::{self, ChecksumTypeProto, DatanodeInfoProto, OpBlockChecksumResponseProto};
use trellis_proto::pipeline::datanode_name;

use super::connection::DataFault;
use super::locations::Located;
use crate::client::Client;
use crate::error::{Error, Result};

/// What the buffer of the blocks' digests holds at first in Hadoop; it doubles. Its unused end is digested too.
const HADOOP_BUFFER_BYTES: usize = 32;

/// MD5 of the MD5s of all blocks' CRCs (Hadoop's default, `dfs.checksum.combine.mode=MD5MD5CRC`). Equal for equal
/// bytes only where block sizes and chunk sizes are equal too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChecksum {
    /// Bytes of a chunk; 0 for an empty file.
    pub bytes_per_crc: u32,
    /// Chunks of a block; 0 for a file of one block.
    pub crc_per_block: u64,
    /// `CRC32` or `CRC32C`.
    pub crc: &'static str,
    /// The digest.
    pub md5: [u8; MD5_BYTES],
}

impl FileChecksum {
    /// `MD5-of-0MD5-of-512CRC32C`
    pub fn algorithm(&self) -> String {
        format!("MD5-of-{}MD5-of-{}{}", self.crc_per_block, self.bytes_per_crc, self.crc)
    }

    /// As Hadoop writes it: chunk size (4 bytes), chunks of a block (8 bytes), digest.
    pub fn bytes(&self) -> Vec<u8> {
        [&self.bytes_per_crc.to_be_bytes()[..], &self.crc_per_block.to_be_bytes(), &self.md5].concat()
    }
}

/// As the stock shell prints it: algorithm, tab, bytes in hexadecimal.
impl fmt::Display for FileChecksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\t", self.algorithm())?;
        self.bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Client {
    /// The checksum of a file that nobody is writing to.
    ///
    /// # Errors
    /// FileNotFoundException; IOException when no datanode answers for a block, blocks differ in their chunks, or the
    /// file is being written.
    pub async fn get_file_checksum(&self, path: &str) -> Result<FileChecksum> {
        let refused = |text: String| Error::local("getFileChecksum", path, Kind::Io, text);
        let block_size = self.get_server_defaults().await.map_err(|error| error.on(path))?.block_size;
        let mut digests = Vec::new();
        let mut sum: Option<FileChecksum> = None;
        let (mut offset, mut blocks) = (0, 0);
        loop {
            let page = self.locations(path, offset, block_size).await?;
            if page.open {
                return Err(refused(format!(
                    "Fail to get checksum, since file {path} is under construction."
                )));
            }
            if page.length == 0 {
                let mut md5 = Md5OfSums::default();
                md5.update(&[0; HADOOP_BUFFER_BYTES]);
                return Ok(FileChecksum {
                    bytes_per_crc: 0,
                    crc_per_block: 0,
                    crc: "CRC32",
                    md5: md5.finish(),
                });
            }
            let begun = offset;
            while let Some(located) = page.block_of(offset) {
                let answer = self.block_checksum(path, &located).await?;
                digests.extend_from_slice(&answer.block_checksum);
                let crc = match answer.crc_type() {
                    ChecksumTypeProto::ChecksumCrc32c => "CRC32C",
                    ChecksumTypeProto::ChecksumCrc32 => "CRC32",
                    ChecksumTypeProto::ChecksumNull => "NULL",
                };
                let first = sum.get_or_insert(FileChecksum {
                    bytes_per_crc: answer.bytes_per_crc,
                    crc_per_block: answer.crc_per_block,
                    crc,
                    md5: [0; MD5_BYTES],
                });
                if (first.bytes_per_crc, first.crc) != (answer.bytes_per_crc, crc) {
                    return Err(refused(format!("the blocks of {path} have checksums of different kinds")));
                }
                (offset, blocks) = (located.end(), blocks + 1);
            }
            if offset >= page.length {
                break;
            }
            if offset == begun {
                return Err(refused(format!("no block of {path} has byte {offset}")));
            }
        }
        let mut sum = sum.ok_or_else(|| refused(format!("{path} has no blocks")))?;
        if blocks < 2 {
            sum.crc_per_block = 0;
        }
        let mut md5 = Md5OfSums::default();
        md5.update(&padded(digests));
        sum.md5 = md5.finish();
        Ok(sum)
    }

    /// What one datanode says of a block; each is asked until one does.
    async fn block_checksum(&self, path: &str, located: &Located) -> Result<OpBlockChecksumResponseProto> {
        let mut why = "no live datanode has it".to_owned();
        for node in &located.nodes {
            match self.ask_checksum(node, located).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => why = format!("{}: {fault}", datanode_name(&node.id)),
            }
        }
        let text = format!("Fail to get block MD5 for blk_{}: {why}", located.block.id);
        Err(Error::local("getFileChecksum", path, Kind::Io, text))
    }

    async fn ask_checksum(
        &self,
        node: &DatanodeInfoProto,
        located: &Located,
    ) -> std::result::Result<OpBlockChecksumResponseProto, DataFault> {
        let datanodes = &self.0.datanodes;
        let request = hdfs::OpBlockChecksumProto { header: located.header(), block_checksum_options: None };
        let mut connection = datanodes.connect(node).await?;
        let answer = connection.op(Op::BlockChecksum, &request).await?;
        datanodes.keep(node, connection);
        answer
            .checksum_response
            .filter(|answer| answer.block_checksum.len() == MD5_BYTES)
            .ok_or_else(|| DataFault::Nonsense("it did not say the block's checksum".into()))
    }
}

/// The digests in the buffer that Hadoop gathers them in, with its unused end.
fn padded(mut digests: Vec<u8>) -> Vec<u8> {
    let mut size = HADOOP_BUFFER_BYTES;
    while size < digests.len() {
        size *= 2;
    }
    digests.resize(size, 0);
    digests
}
