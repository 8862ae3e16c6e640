//! BLOCK_CHECKSUM: one value for a block, from its sums.

use trellis_proto::checksum::{Checksum, CompositeCrc, Md5OfSums};
use trellis_proto::data_transfer::CHECKSUM_BYTES;
use trellis_proto::hdfs::{
    BlockChecksumOptionsProto, BlockChecksumTypeProto, OpBlockChecksumProto, OpBlockChecksumResponseProto,
};

use super::fault::Fault;
use crate::store::{Block, BlockStore, ReplicaReader};

/// Sums that are looked at in one go.
const SUMS_AT_ONCE: usize = 64 << 10;

/// What a value is made with.
enum Digest {
    Md5(Md5OfSums),
    Composite(CompositeCrc),
}

/// The answer for a block, of as many of its bytes as the request names (0: all).
pub(crate) fn block_checksum(
    store: &dyn BlockStore,
    request: &OpBlockChecksumProto,
) -> Result<OpBlockChecksumResponseProto, Fault> {
    let wanted = &request.header.block;
    let block = Block { id: wanted.block_id, stamp: wanted.generation_stamp };
    let visible = store.visible_len(block)?;
    let visible = visible.ok_or_else(|| Fault::Refused(format!("no byte of {block} is visible")))?;
    let mut reader = store.read(block)?;
    let len = match wanted.num_bytes() {
        0 => visible,
        asked => asked.min(visible),
    }
    .min(reader.replica().len);

    let checksum = reader.checksum();
    let options = request.block_checksum_options.unwrap_or_default();
    let kind = options.block_checksum_type();
    let mut digest = match kind {
        BlockChecksumTypeProto::Md5crc => Digest::Md5(Md5OfSums::default()),
        BlockChecksumTypeProto::CompositeCrc if options.stripe_length() > 0 => {
            return Err(Fault::Refused("erasure coding is not supported".to_owned()));
        }
        BlockChecksumTypeProto::CompositeCrc => Digest::Composite(CompositeCrc::new(checksum.kind())),
    };
    if checksum.sum_bytes() > 0 {
        digest.take(&mut *reader, checksum, len)?;
    }
    Ok(OpBlockChecksumResponseProto {
        bytes_per_crc: checksum.bytes_per_checksum(),
        crc_per_block: if checksum.sum_bytes() > 0 { checksum.chunks(len) } else { 0 },
        block_checksum: digest.finish().into(),
        crc_type: Some(checksum.proto_type().into()),
        block_checksum_options: Some(BlockChecksumOptionsProto {
            block_checksum_type: Some(kind.into()),
            stripe_length: Some(0),
        }),
    })
}

impl Digest {
    /// Takes the sums of the first `len` bytes. That of a partial last chunk which is whole on disk is made anew.
    fn take(&mut self, reader: &mut dyn ReplicaReader, checksum: Checksum, len: u64) -> Result<(), Fault> {
        let chunk = u64::from(checksum.bytes_per_checksum());
        let cut = len < reader.replica().len && !len.is_multiple_of(chunk);
        let with_sums = if cut { checksum.chunk_start(len) } else { len };
        let mut sums = vec![0; SUMS_AT_ONCE];
        let mut at = 0;
        while at < with_sums {
            let most = (SUMS_AT_ONCE / CHECKSUM_BYTES) as u64 * chunk;
            let part = (with_sums - at).min(most);
            let bytes = checksum.chunks(part) as usize * CHECKSUM_BYTES;
            let sums = sums.get_mut(..bytes).unwrap_or_default();
            reader.read_sums(at, sums)?;
            self.update(sums, part, chunk);
            at += part;
        }
        if cut {
            let mut data = vec![0; (len - with_sums) as usize];
            reader.read(with_sums, &mut data)?;
            let mut sum = Vec::new();
            checksum.compute(&data, &mut sum);
            self.update(&sum, len - with_sums, chunk);
        }
        Ok(())
    }

    fn update(&mut self, sums: &[u8], mut len: u64, chunk: u64) {
        match self {
            Digest::Md5(md5) => md5.update(sums),
            Digest::Composite(crc) => {
                for sum in sums.as_chunks::<CHECKSUM_BYTES>().0 {
                    crc.update(u32::from_be_bytes(*sum), len.min(chunk));
                    len = len.saturating_sub(chunk);
                }
            }
        }
    }

    fn finish(self) -> Vec<u8> {
        match self {
            Digest::Md5(md5) => md5.finish().to_vec(),
            Digest::Composite(crc) => crc.finish().to_be_bytes().to_vec(),
        }
    }
}
