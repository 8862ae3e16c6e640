//! The protobuf wire format, read in place: no allocation, no panic, errors worded as Hadoop's protobuf words them.

use crate::exception::{Kind, RpcError};

/// Nested messages and groups deeper than this are refused (protobuf-java's limit).
pub(crate) const MAX_DEPTH: u32 = 100;

/// What can be wrong with encoded bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The input ends inside a field.
    #[error(
        "While parsing a protocol message, the input ended unexpectedly in the middle of a field.  This could mean \
         either that the input has been truncated or that an embedded message misreported its own length."
    )]
    Truncated,
    /// More than ten bytes with the continuation bit.
    #[error("CodedInputStream encountered a malformed varint.")]
    MalformedVarint,
    /// A length above 2^31 - 1.
    #[error(
        "CodedInputStream encountered an embedded string or message which claimed to have negative size."
    )]
    NegativeSize,
    /// Field number 0.
    #[error("Protocol message contained an invalid tag (zero).")]
    InvalidTag,
    /// Wire types 6 and 7 do not exist.
    #[error("Protocol message tag had invalid wire type.")]
    InvalidWireType,
    /// A group is closed that was not opened.
    #[error("Protocol message end-group tag did not match expected tag.")]
    InvalidEndTag,
    /// More than 100 levels.
    #[error(
        "Protocol message had too many levels of nesting.  May be malicious.  Use setRecursionLimit() to increase the \
         recursion depth limit."
    )]
    TooDeep,
    /// A message field that is not repeated comes twice.
    #[error("Protocol message has a message field twice that is not repeated.")]
    RepeatedMessage,
    /// More repeated fields than we are willing to hold.
    #[error("Protocol message has too many repeated fields: send it in several parts.")]
    TooManyElements,
    /// A string that is not UTF-8.
    #[error("Protocol message had invalid UTF-8.")]
    InvalidUtf8,
}

impl From<WireError> for RpcError {
    fn from(error: WireError) -> Self {
        RpcError::new(Kind::InvalidProtocolBuffer, error.to_string())
    }
}

/// One field as it stands on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    pub number: u32,
    pub value: Value<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64,
    Bytes(&'a [u8]),
    Group,
    Fixed32,
}

/// Reads the fields of one message from a slice. What is done for each field is inlined always: its result is many times as
/// large as what the reader needs of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline(always)]
    pub fn varint(&mut self) -> Result<u64, WireError> {
        // One-byte varints are most of all tags and lengths.
        if let [first, rest @ ..] = self.rest
            && *first < 0x80
        {
            self.rest = rest;
            return Ok(u64::from(*first));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0u64;
        for (i, byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * i as u32);
            if *byte < 0x80 {
                self.rest = self.rest.get(i + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(if self.rest.len() >= 10 { WireError::MalformedVarint } else { WireError::Truncated })
    }

    /// A length and that many bytes.
    #[inline(always)]
    pub fn delimited(&mut self) -> Result<&'a [u8], WireError> {
        // Lengths are 32 bits wide on the wire; higher bits are cut off, as in Java.
        let len = self.varint()? as u32;
        if len > i32::MAX as u32 {
            return Err(WireError::NegativeSize);
        }
        self.take(len as usize)
    }

    #[inline(always)]
    fn take(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next field, or None at the end. Groups (which no message of ours has) are stepped over.
    #[inline(always)]
    pub fn field(&mut self) -> Result<Option<Field<'a>>, WireError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, wire_type) = self.tag()?;
        if wire_type == 4 {
            return Err(WireError::InvalidEndTag);
        }
        let value = self.value(number, wire_type, 0)?;
        Ok(Some(Field { number, value }))
    }

    #[inline(always)]
    fn tag(&mut self) -> Result<(u32, u8), WireError> {
        let tag = self.varint()? as u32;
        let number = tag >> 3;
        if number == 0 { Err(WireError::InvalidTag) } else { Ok((number, (tag & 7) as u8)) }
    }

    #[inline(always)]
    fn value(&mut self, number: u32, wire_type: u8, depth: u32) -> Result<Value<'a>, WireError> {
        Ok(match wire_type {
            0 => Value::Varint(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed64)?,
            2 => Value::Bytes(self.delimited()?),
            3 => self.skip_group(number, depth + 1).map(|()| Value::Group)?,
            5 => self.take(4).map(|_| Value::Fixed32)?,
            _ => return Err(WireError::InvalidWireType),
        })
    }

    fn skip_group(&mut self, group: u32, depth: u32) -> Result<(), WireError> {
        if depth > MAX_DEPTH {
            return Err(WireError::TooDeep);
        }
        loop {
            match self.tag()? {
                (number, 4) if number == group => return Ok(()),
                (_, 4) => return Err(WireError::InvalidEndTag),
                (number, wire_type) => self.value(number, wire_type, depth).map(|_| ())?,
            }
        }
    }
}

/// The zigzag coding of sint32 and sint64.
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints() {
        for (bytes, want) in [
            (&b"\x00"[..], Ok(0)),
            (b"\x7f", Ok(127)),
            (b"\xac\x02", Ok(300)),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", Ok(u64::MAX)),
            (b"", Err(WireError::Truncated)),
            (b"\x80", Err(WireError::Truncated)),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", Err(WireError::MalformedVarint)),
        ] {
            assert_eq!(Reader::new(bytes).varint(), want, "{bytes:?}");
        }
        assert_eq!([0u64, 1, 2, 65, u64::MAX].map(unzigzag), [0, -1, 1, -33, i64::MIN]);
    }

    #[test]
    fn fields_and_their_faults() {
        let mut ok = Reader::new(b"\x08\x05\x12\x02hi\x1d\x01\x02\x03\x04\x23\x08\x01\x24");
        assert_eq!(ok.field(), Ok(Some(Field { number: 1, value: Value::Varint(5) })));
        assert_eq!(ok.field(), Ok(Some(Field { number: 2, value: Value::Bytes(b"hi") })));
        assert_eq!(ok.field(), Ok(Some(Field { number: 3, value: Value::Fixed32 })));
        assert_eq!(ok.field(), Ok(Some(Field { number: 4, value: Value::Group })));
        assert_eq!(ok.field(), Ok(None));
        for (bytes, want) in [
            (&b"\x12\x05hi"[..], WireError::Truncated),
            (b"\x12\xff\xff\xff\xff\x0f", WireError::NegativeSize),
            (b"\x00", WireError::InvalidTag),
            (b"\x0e", WireError::InvalidWireType),
            (b"\x0c", WireError::InvalidEndTag),
            (b"\x0b\x14", WireError::InvalidEndTag),
            (b"\x0b", WireError::Truncated),
            (&[0x0b; 500], WireError::TooDeep),
        ] {
            assert_eq!(Reader::new(bytes).field(), Err(want), "{bytes:?}");
        }
    }
}
