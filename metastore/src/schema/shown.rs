//! What is shown of an inode, borrowed from where its row lies.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::{Inode, Kind, delimited};

/// What a listing shows of an inode. A directory's modification time and children are not in its row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown<'a> {
    /// See [`Inode::id`].
    pub id: u64,
    /// See [`Inode::kind`].
    pub kind: i32,
    /// See [`Inode::mode`].
    pub mode: u32,
    /// See [`Inode::owner`].
    pub owner: &'a str,
    /// See [`Inode::group`].
    pub group: &'a str,
    /// See [`Inode::mtime_ms`].
    pub mtime_ms: i64,
    /// See [`Inode::atime_ms`].
    pub atime_ms: i64,
    /// See [`Inode::length`].
    pub length: u64,
    /// See [`Inode::block_count`].
    pub block_count: u32,
    /// See [`Inode::replication`].
    pub replication: u32,
    /// See [`Inode::block_size`].
    pub block_size: u64,
    /// See [`Inode::policy`].
    pub policy: u32,
}

impl<'a> Shown<'a> {
    /// Reads an [`Inode`] value; `None` when it is broken.
    pub fn read(mut value: &'a [u8]) -> Option<Shown<'a>> {
        let mut shown = Shown::default();
        while !value.is_empty() {
            match decode_key(&mut value).ok()? {
                (tag @ (4 | 5), WireType::LengthDelimited) => {
                    let name = std::str::from_utf8(delimited(&mut value)?).ok()?;
                    *(if tag == 4 { &mut shown.owner } else { &mut shown.group }) = name;
                }
                (tag @ (1..=3 | 6..=12), WireType::Varint) => {
                    let number = decode_varint(&mut value).ok()?;
                    match tag {
                        1 => shown.id = number,
                        2 => shown.kind = number as i32,
                        3 => shown.mode = number as u32,
                        6 => shown.mtime_ms = number as i64,
                        7 => shown.atime_ms = number as i64,
                        8 => shown.length = number,
                        9 => shown.block_count = number as u32,
                        10 => shown.replication = number as u32,
                        11 => shown.block_size = number,
                        _ => shown.policy = number as u32,
                    }
                }
                (1..=12, _) => return None,
                (tag, wire_type) => skip_field(wire_type, tag, &mut value, DecodeContext::default()).ok()?,
            }
        }
        Some(shown)
    }

    /// Whether this is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == Kind::Directory as i32
    }
}

impl<'a> From<&'a Inode> for Shown<'a> {
    fn from(inode: &'a Inode) -> Self {
        Shown {
            id: inode.id,
            kind: inode.kind,
            mode: inode.mode,
            owner: &inode.owner,
            group: &inode.group,
            mtime_ms: inode.mtime_ms,
            atime_ms: inode.atime_ms,
            length: inode.length,
            block_count: inode.block_count,
            replication: inode.replication,
            block_size: inode.block_size,
            policy: inode.policy,
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::super::Writer;
    use super::*;

    #[test]
    fn what_is_shown_is_what_the_inode_says() {
        let whole = Inode {
            id: u64::MAX,
            kind: Kind::File as i32,
            mode: 0o1777,
            owner: "ö".into(),
            group: "g".into(),
            mtime_ms: -1,
            atime_ms: i64::MAX,
            length: 1 << 60,
            block_count: 3,
            replication: 2,
            block_size: 128 << 20,
            policy: 7,
            open: Some(Writer { holder: "h".into(), machine: "m".into() }),
            next_block: 4,
            unfinished: Some(0),
        };
        for inode in [whole.clone(), Inode::default(), Inode { owner: String::new(), ..whole.clone() }] {
            assert_eq!(Shown::read(&inode.encode_to_vec()), Some(Shown::from(&inode)));
        }
        // Whatever it is cut to, and whichever byte is another, it is broken for both or reads the same.
        let value = whole.encode_to_vec();
        for end in 0..value.len() {
            for byte in 0..=u8::MAX {
                let mut other = value.clone();
                other[end] = byte;
                for bytes in [&other[..], &value[..end]] {
                    // What has only fields that are not shown wrong in it is no matter here.
                    if let Ok(inode) = Inode::decode(bytes) {
                        assert_eq!(Shown::read(bytes), Some(Shown::from(&inode)), "{bytes:?}");
                    }
                }
            }
        }
        assert_eq!(Shown::read(b"\x22\x05own"), None);
        assert_eq!(Shown::read(b"\x22\x01\xff"), None);
        assert_eq!(Shown::read(b"\x0a\x01x"), None);
    }
}
