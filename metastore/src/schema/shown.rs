//! What is shown of an inode, borrowed from where its row lies.

use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::{Inode, Kind, delimited};

/// Numbers of fields that are texts, and of all that are shown.
const OWNER: u32 = 4;
const GROUP: u32 = 5;
const LAST: u32 = 12;

/// What a listing shows of an inode, with texts as `T`. A directory's modification time and children are not in its row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown<T> {
    /// See [`Inode::id`].
    pub id: u64,
    /// See [`Inode::kind`].
    pub kind: i32,
    /// See [`Inode::mode`].
    pub mode: u32,
    /// See [`Inode::owner`].
    pub owner: T,
    /// See [`Inode::group`].
    pub group: T,
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

impl<'a> Shown<&'a str> {
    /// Reads an [`Inode`] value; `None` when it is broken.
    pub fn read(mut value: &'a [u8]) -> Option<Shown<&'a str>> {
        let mut shown = Shown::<&str>::default();
        while !value.is_empty() {
            match key(&mut value)? {
                (tag @ (OWNER | GROUP), WireType::LengthDelimited) => {
                    let name = std::str::from_utf8(delimited(&mut value)?).ok()?;
                    *(if tag == OWNER { &mut shown.owner } else { &mut shown.group }) = name;
                }
                (tag @ (1..OWNER | 6..=LAST), WireType::Varint) => {
                    let number = varint(&mut value)?;
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
                (1..=LAST, _) => return None,
                (tag, wire_type) => skip_field(wire_type, tag, &mut value, DecodeContext::default()).ok()?,
            }
        }
        Some(shown)
    }
}

impl<T> Shown<T> {
    /// The same with texts that are made of these.
    pub fn map<U>(self, text: impl Fn(T) -> U) -> Shown<U> {
        Shown {
            id: self.id,
            kind: self.kind,
            mode: self.mode,
            owner: text(self.owner),
            group: text(self.group),
            mtime_ms: self.mtime_ms,
            atime_ms: self.atime_ms,
            length: self.length,
            block_count: self.block_count,
            replication: self.replication,
            block_size: self.block_size,
            policy: self.policy,
        }
    }

    /// Whether this is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind == Kind::Directory as i32
    }
}

/// A field's number and form; one byte for all fields that there are.
fn key(rest: &mut &[u8]) -> Option<(u32, WireType)> {
    match **rest {
        [byte @ ..0x80, ref after @ ..] if byte >= 8 => {
            *rest = after;
            Some((u32::from(byte >> 3), WireType::try_from(u64::from(byte & 7)).ok()?))
        }
        _ => decode_key(rest).ok(),
    }
}

/// Most numbers are short.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    match **rest {
        [byte @ ..0x80, ref after @ ..] => {
            *rest = after;
            Some(byte.into())
        }
        [low, high @ ..0x80, ref after @ ..] => {
            *rest = after;
            Some(u64::from(low & 0x7f) | u64::from(high) << 7)
        }
        _ => decode_varint(rest).ok(),
    }
}

impl<'a> From<&'a Inode> for Shown<&'a str> {
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
