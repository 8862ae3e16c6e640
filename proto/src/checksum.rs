//! Checksums of a block, as they stand on the wire and in a replica's `.meta` file: one big-endian CRC for each chunk
//! of data, the last chunk as long as what is left. And what is made of those sums: a block's and a file's checksum.

use crc_fast::{CrcAlgorithm, checksum_combine, crc32_iscsi, crc32_iso_hdlc};
use md5::{Digest, Md5};

use crate::data_transfer::{CHECKSUM_BYTES, MAX_PACKET_BYTES};
use crate::hdfs::{ChecksumProto, ChecksumTypeProto};

/// Bytes of an MD5 digest.
pub const MD5_BYTES: usize = 16;

/// Which CRC. The codes are Hadoop's, on the wire and on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChecksumType {
    /// None: there are no sums.
    Null = 0,
    /// CRC-32 of zip and Ethernet.
    Crc32 = 1,
    /// CRC-32 of Castagnoli, HDFS's default.
    Crc32C = 2,
}

impl ChecksumType {
    /// The type of a code.
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            0 => Some(Self::Null),
            1 => Some(Self::Crc32),
            2 => Some(Self::Crc32C),
            _ => None,
        }
    }

    /// The CRC of `data`; 0 for [`ChecksumType::Null`].
    pub fn sum(self, data: &[u8]) -> u32 {
        match self {
            Self::Null => 0,
            Self::Crc32 => crc32_iso_hdlc(data),
            Self::Crc32C => crc32_iscsi(data),
        }
    }

    /// The CRC of some bytes (`first`) followed by `len` others (`second`).
    pub fn combine(self, first: u32, second: u32, len: u64) -> u32 {
        let algorithm = match self {
            Self::Null => return 0,
            Self::Crc32 => CrcAlgorithm::Crc32IsoHdlc,
            Self::Crc32C => CrcAlgorithm::Crc32Iscsi,
        };
        checksum_combine(algorithm, first.into(), second.into(), len) as u32
    }
}

/// Why a checksum cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChecksumError {
    /// A code that is none of [`ChecksumType`]'s.
    #[error("unknown checksum type {0}")]
    Type(i32),
    /// Zero, or larger than a packet.
    #[error("{0} bytes per checksum")]
    BytesPerChecksum(u32),
    /// There are not as many sums as chunks.
    #[error("{sums} bytes of checksums for {data} bytes of data")]
    Count {
        /// Bytes of sums.
        sums: usize,
        /// Bytes of data.
        data: usize,
    },
    /// The data is not what the sum was made of.
    #[error("wrong checksum of the chunk at byte {at}: {found:#010x} where {expected:#010x} is expected")]
    Mismatch {
        /// Where the chunk begins in the data that was verified.
        at: usize,
        /// The sum that came with the data.
        expected: u32,
        /// The sum that the data has.
        found: u32,
    },
}

/// How data is cut into chunks, and which CRC each has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Checksum {
    kind: ChecksumType,
    bytes_per_checksum: u32,
}

impl Checksum {
    /// CRC32C of 512 bytes each, HDFS's default.
    pub const DEFAULT: Checksum = Checksum { kind: ChecksumType::Crc32C, bytes_per_checksum: 512 };

    /// Chunks of 1 byte to a packet's largest size.
    pub fn new(kind: ChecksumType, bytes_per_checksum: u32) -> Result<Self, ChecksumError> {
        if bytes_per_checksum == 0 || bytes_per_checksum as usize > MAX_PACKET_BYTES {
            return Err(ChecksumError::BytesPerChecksum(bytes_per_checksum));
        }
        Ok(Checksum { kind, bytes_per_checksum })
    }

    /// As a peer asks for it.
    pub fn from_proto(proto: &ChecksumProto) -> Result<Self, ChecksumError> {
        let kind = u8::try_from(proto.r#type).ok().and_then(ChecksumType::from_code);
        Self::new(kind.ok_or(ChecksumError::Type(proto.r#type))?, proto.bytes_per_checksum)
    }

    /// As a peer is told.
    pub fn to_proto(self) -> ChecksumProto {
        ChecksumProto { r#type: self.proto_type().into(), bytes_per_checksum: self.bytes_per_checksum }
    }

    /// The type alone, as a peer is told.
    pub fn proto_type(self) -> ChecksumTypeProto {
        match self.kind {
            ChecksumType::Null => ChecksumTypeProto::ChecksumNull,
            ChecksumType::Crc32 => ChecksumTypeProto::ChecksumCrc32,
            ChecksumType::Crc32C => ChecksumTypeProto::ChecksumCrc32c,
        }
    }

    /// Which CRC.
    pub fn kind(self) -> ChecksumType {
        self.kind
    }

    /// Bytes of a whole chunk.
    pub fn bytes_per_checksum(self) -> u32 {
        self.bytes_per_checksum
    }

    /// Bytes of one sum: 4, or 0 without checksums.
    pub fn sum_bytes(self) -> usize {
        if self.kind == ChecksumType::Null { 0 } else { CHECKSUM_BYTES }
    }

    /// Chunks of `len` bytes, the last one perhaps partial.
    pub fn chunks(self, len: u64) -> u64 {
        len.div_ceil(self.bytes_per_checksum.into())
    }

    /// Bytes of the sums of `len` bytes of data.
    pub fn sums_len(self, len: usize) -> usize {
        len.div_ceil(self.bytes_per_checksum as usize) * self.sum_bytes()
    }

    /// Where the chunk of byte `offset` begins.
    pub fn chunk_start(self, offset: u64) -> u64 {
        offset - offset % u64::from(self.bytes_per_checksum)
    }

    /// Appends the sums of `data`, which begins at a chunk's start.
    pub fn compute(self, data: &[u8], sums: &mut Vec<u8>) {
        if self.kind == ChecksumType::Null {
            return;
        }
        sums.reserve(self.sums_len(data.len()));
        for chunk in data.chunks(self.bytes_per_checksum as usize) {
            sums.extend_from_slice(&self.kind.sum(chunk).to_be_bytes());
        }
    }

    /// Checks `data`, which begins at a chunk's start, against its sums, and names the first chunk that is wrong.
    pub fn verify(self, data: &[u8], sums: &[u8]) -> Result<(), ChecksumError> {
        if sums.len() != self.sums_len(data.len()) {
            return Err(ChecksumError::Count { sums: sums.len(), data: data.len() });
        }
        if self.kind == ChecksumType::Null {
            return Ok(());
        }
        let chunk_bytes = self.bytes_per_checksum as usize;
        let (sums, _) = sums.as_chunks::<CHECKSUM_BYTES>();
        for (index, (chunk, sum)) in data.chunks(chunk_bytes).zip(sums).enumerate() {
            let (found, expected) = (self.kind.sum(chunk), u32::from_be_bytes(*sum));
            if found != expected {
                return Err(ChecksumError::Mismatch { at: index * chunk_bytes, expected, found });
            }
        }
        Ok(())
    }
}

/// MD5 over the sums of a block (`BLOCK_CHECKSUM` with MD5CRC), or over the MD5s of a file's blocks (the file's
/// checksum, "MD5-of-0MD5-of-512CRC32C"). Fed in pieces.
#[derive(Clone, Default)]
pub struct Md5OfSums(Md5);

impl Md5OfSums {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all that was taken.
    pub fn finish(self) -> [u8; MD5_BYTES] {
        self.0.finalize().into()
    }
}

/// The CRC of data whose pieces' CRCs are known (`BLOCK_CHECKSUM` with COMPOSITE_CRC, and the file's checksum over its
/// blocks). It does not depend on the sizes of chunks and blocks.
#[derive(Debug, Clone, Copy)]
pub struct CompositeCrc {
    kind: ChecksumType,
    sum: u32,
}

impl CompositeCrc {
    /// Of no bytes yet.
    pub fn new(kind: ChecksumType) -> Self {
        CompositeCrc { kind, sum: 0 }
    }

    /// Takes the next `len` bytes, whose CRC is `sum`.
    pub fn update(&mut self, sum: u32, len: u64) {
        self.sum = self.kind.combine(self.sum, sum, len);
    }

    /// The CRC of all that was taken.
    pub fn finish(self) -> u32 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes without a pattern.
    fn bytes(len: usize) -> Vec<u8> {
        (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
    }

    #[test]
    fn codes_and_known_sums() {
        for (code, kind) in [(0, ChecksumType::Null), (1, ChecksumType::Crc32), (2, ChecksumType::Crc32C)] {
            assert_eq!((ChecksumType::from_code(code), kind as u8), (Some(kind), code));
            let both = Checksum::new(kind, 512).unwrap();
            assert_eq!(Checksum::from_proto(&both.to_proto()), Ok(both));
        }
        assert_eq!(ChecksumType::from_code(3), None);
        assert_eq!(ChecksumType::Crc32.sum(b"123456789"), 0xcbf4_3926);
        assert_eq!(ChecksumType::Crc32C.sum(b"123456789"), 0xe306_9283);
        let proto = ChecksumProto { r#type: 7, bytes_per_checksum: 512 };
        assert_eq!(Checksum::from_proto(&proto), Err(ChecksumError::Type(7)));
        for size in [0, MAX_PACKET_BYTES as u32 + 1, u32::MAX] {
            assert_eq!(Checksum::new(ChecksumType::Crc32C, size), Err(ChecksumError::BytesPerChecksum(size)));
        }
    }

    #[test]
    fn a_wrong_chunk_is_named() {
        let data = bytes(3 * 512 + 7);
        let mut sums = Vec::new();
        Checksum::DEFAULT.compute(&data, &mut sums);
        assert_eq!((sums.len(), Checksum::DEFAULT.sums_len(data.len())), (16, 16));
        assert_eq!(Checksum::DEFAULT.verify(&data, &sums), Ok(()));
        assert_eq!(Checksum::DEFAULT.verify(&[], &[]), Ok(()));
        for (at, chunk) in [(0, 0), (511, 0), (512, 512), (1536, 1536), (1542, 1536)] {
            let mut bad = data.clone();
            bad[at] ^= 1;
            let error = Checksum::DEFAULT.verify(&bad, &sums).unwrap_err();
            assert!(matches!(error, ChecksumError::Mismatch { at, .. } if at == chunk), "{at}: {error}");
        }
        let error = Checksum::DEFAULT.verify(&data, &sums[4..]).unwrap_err();
        assert_eq!(error, ChecksumError::Count { sums: 12, data: data.len() });
        let none = Checksum::new(ChecksumType::Null, 512).unwrap();
        assert_eq!(none.verify(&data, &[]), Ok(()));
        assert!(none.verify(&data, &sums).is_err());
    }

    #[test]
    fn sums_of_pieces_make_the_sum_of_the_whole() {
        let data = bytes(10_000);
        for kind in [ChecksumType::Crc32, ChecksumType::Crc32C] {
            let mut whole = CompositeCrc::new(kind);
            for piece in data.chunks(700) {
                whole.update(kind.sum(piece), piece.len() as u64);
            }
            assert_eq!(whole.finish(), kind.sum(&data));
        }
        assert_eq!(CompositeCrc::new(ChecksumType::Crc32C).finish(), 0);
    }

    #[test]
    fn a_blocks_checksum_is_what_a_stock_datanode_says() {
        // dtprobe.txt: 3000 zero bytes in chunks of 512, CRC32C.
        let mut sums = Vec::new();
        Checksum::DEFAULT.compute(&[0; 3000], &mut sums);
        let mut block = Md5OfSums::default();
        block.update(&sums[..4]);
        block.update(&sums[4..]);
        assert_eq!(u128::from_be_bytes(block.finish()), 0x8896_7485_424e_37c2_e96f_65cf_891c_d5dd);
    }
}
