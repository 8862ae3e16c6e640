//! Decoding with the checks that prost leaves out: all required fields are there, in nested messages too.
//!
//! prost takes a missing `required` field for its default; to Hadoop it is an error, and to a file system the
//! difference between "no path" and "". So the encoded bytes are checked first, in one pass that allocates nothing.

use bytes::Bytes;
use prost::{Message, Name};

use crate::exception::{Kind as Exception, RpcError};
use crate::wire::{MAX_DEPTH, Reader, Value, WireError};

include!(concat!(env!("OUT_DIR"), "/presence_table.rs"));

/// A message may hold this many repeated strings, byte strings and messages, at all depths together: what it takes
/// in memory is many times what it takes on the wire.
const MAX_ELEMENTS: u32 = 1 << 20;
/// An error lists this many missing fields at most.
const MAX_MISSING: usize = 32;

/// What the check knows of a message. Fields are sorted by number.
struct Shape {
    /// Of required fields, by position in `fields`.
    mask: u64,
    /// These positions, in the order of declaration.
    required: &'static [u8],
    fields: &'static [Field],
}

struct Field {
    number: u32,
    name: &'static str,
    repeated: bool,
    kind: Kind,
}

enum Kind {
    Varint,
    Fixed32,
    Fixed64,
    String,
    Bytes,
    /// Known numbers; others read as an absent field.
    Enum(&'static [i32]),
    /// Index in `SHAPES`.
    Message(u16),
}

/// Any message of `proto/*.proto` that is not nested in another.
pub trait Checked: Message + Name + Default {}
impl<M: Message + Name + Default> Checked for M {}

/// Decodes a message as strictly as Hadoop does; errors have its class and text.
///
/// Stricter in two points: strings must be UTF-8 (Java replaces what is not), and a message field that is not
/// repeated must not come twice (Java would merge; no encoder writes this).
pub fn decode_request<M: Checked>(bytes: Bytes) -> Result<M, RpcError> {
    let shape = const { shape_of(M::PACKAGE, M::NAME) };
    let mut check = Check { elements: 0 };
    if !check.message(&bytes, shape, 0)? {
        return Err(missing_fields(&bytes, shape));
    }
    M::decode(bytes).map_err(|error| RpcError::new(Exception::InvalidProtocolBuffer, error.to_string()))
}

/// Runs at compile time; an unknown message does not compile.
#[allow(clippy::panic)]
const fn shape_of(package: &str, name: &str) -> u16 {
    let mut i = 0;
    while i < NAMES.len() {
        if same(NAMES[i].1.as_bytes(), name.as_bytes()) && same(NAMES[i].0.as_bytes(), package.as_bytes()) {
            return i as u16;
        }
        i += 1;
    }
    panic!("not a top-level message of proto/*.proto")
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while a.len() == b.len() && i < a.len() && a[i] == b[i] {
        i += 1;
    }
    a.len() == b.len() && i == a.len()
}

fn shape(index: u16) -> &'static Shape {
    // The indexes come from the same table.
    &SHAPES[usize::from(index)]
}

impl Shape {
    /// Position of a field. Numbers are dense as a rule, so its own place is tried first.
    #[inline]
    fn find(&self, number: u32) -> Option<(usize, &'static Field)> {
        let guess = number as usize - 1;
        if let Some(field) = self.fields.get(guess)
            && field.number == number
        {
            return Some((guess, field));
        }
        let at = self.fields.binary_search_by_key(&number, |f| f.number).ok()?;
        self.fields.get(at).map(|field| (at, field))
    }
}

struct Check {
    elements: u32,
}

impl Check {
    /// Whether all required fields are there.
    fn message(&mut self, bytes: &[u8], index: u16, depth: u32) -> Result<bool, WireError> {
        if depth >= MAX_DEPTH {
            return Err(WireError::TooDeep);
        }
        let shape = shape(index);
        let mut seen = 0u64;
        let mut complete = true;
        let mut reader = Reader::new(bytes);
        while let Some(on_wire) = reader.field()? {
            let Some((at, field)) = shape.find(on_wire.number) else { continue };
            if field.repeated && matches!(on_wire.value, Value::Bytes(_)) {
                self.elements += 1;
                if self.elements > MAX_ELEMENTS {
                    return Err(WireError::TooManyElements);
                }
            }
            let present = match (&field.kind, on_wire.value) {
                (Kind::Message(inner), Value::Bytes(bytes)) => {
                    if !field.repeated && seen & 1 << at != 0 {
                        return Err(WireError::RepeatedMessage);
                    }
                    complete &= self.message(bytes, *inner, depth + 1)?;
                    true
                }
                (Kind::String, Value::Bytes(bytes)) => match std::str::from_utf8(bytes) {
                    Ok(_) => true,
                    Err(_) => return Err(WireError::InvalidUtf8),
                },
                (kind, value) => present(kind, value),
            };
            seen |= u64::from(present) << at;
        }
        Ok(complete && seen & shape.mask == shape.mask)
    }
}

/// Whether a value on the wire counts as a value of this field; unknown enum numbers and other wire types do not.
fn present(kind: &Kind, value: Value<'_>) -> bool {
    match (kind, value) {
        (Kind::Varint, Value::Varint(_))
        | (Kind::Fixed32, Value::Fixed32)
        | (Kind::Fixed64, Value::Fixed64)
        | (Kind::String | Kind::Bytes | Kind::Message(_), Value::Bytes(_)) => true,
        (Kind::Enum(numbers), Value::Varint(v)) => numbers.contains(&(v as i32)),
        _ => false,
    }
}

/// The error for bytes that the check found incomplete.
#[cold]
fn missing_fields(bytes: &[u8], index: u16) -> RpcError {
    let mut missing = Missing { names: Vec::new(), more: false };
    // The same bytes were read without an error before.
    let _ = missing.message(bytes, index, "");
    let more = if missing.more { ", ..." } else { "" };
    let text = format!("Message missing required fields: {}{more}", missing.names.join(", "));
    RpcError::new(Exception::InvalidProtocolBuffer, text)
}

struct Missing {
    names: Vec<String>,
    more: bool,
}

impl Missing {
    /// As protobuf-java lists them: first a message's own, as declared, then those of its fields, by number.
    fn message(&mut self, bytes: &[u8], index: u16, prefix: &str) -> Result<(), WireError> {
        let shape = shape(index);
        let mut seen = 0u64;
        let mut reader = Reader::new(bytes);
        while let Some(on_wire) = reader.field()? {
            if let Some((at, field)) = shape.find(on_wire.number) {
                seen |= u64::from(present(&field.kind, on_wire.value)) << at;
            }
        }
        for at in shape.required.iter().filter(|at| seen & 1 << **at == 0) {
            self.more |= self.names.len() >= MAX_MISSING;
            if let Some(field) = shape.fields.get(usize::from(*at)).filter(|_| !self.more) {
                self.names.push(format!("{prefix}{}", field.name));
            }
        }
        for (at, field) in shape.fields.iter().enumerate() {
            if let Kind::Message(inner) = field.kind
                && seen & 1 << at != 0
            {
                self.inside(bytes, field, inner, prefix)?;
            }
        }
        Ok(())
    }

    /// Goes into every occurrence of one message field.
    fn inside(&mut self, bytes: &[u8], field: &Field, inner: u16, prefix: &str) -> Result<(), WireError> {
        let mut reader = Reader::new(bytes);
        let mut at = 0u32;
        while let (false, Some(on_wire)) = (self.more, reader.field()?) {
            if let (true, Value::Bytes(bytes)) = (on_wire.number == field.number, on_wire.value) {
                let element = if field.repeated { format!("[{at}]") } else { String::new() };
                self.message(bytes, inner, &format!("{prefix}{}{element}.", field.name))?;
                at += 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{common, hdfs};

    fn fault<M: Checked + std::fmt::Debug>(bytes: &'static [u8]) -> String {
        let error = decode_request::<M>(Bytes::from_static(bytes)).unwrap_err();
        assert_eq!(error.kind, Exception::InvalidProtocolBuffer);
        error.message
    }

    fn lacks<M: Checked + std::fmt::Debug>(bytes: &'static [u8]) -> String {
        fault::<M>(bytes).strip_prefix("Message missing required fields: ").unwrap().to_owned()
    }

    #[test]
    fn names_what_is_missing_as_stock_does() {
        assert_eq!(lacks::<hdfs::GetFileInfoRequestProto>(b""), "src");
        assert_eq!(lacks::<hdfs::MkdirsRequestProto>(b""), "src, masked, createParent");
        // masked = {} lacks its perm
        assert_eq!(lacks::<hdfs::MkdirsRequestProto>(b"\x0a\x01/\x12\x00"), "createParent, masked.perm");
        // aclSpec: one whole entry, one empty one
        assert_eq!(
            lacks::<hdfs::ModifyAclEntriesRequestProto>(b"\x0a\x01/\x12\x06\x08\x00\x10\x00\x18\x00\x12\x00"),
            "aclSpec[1].type, aclSpec[1].scope, aclSpec[1].permissions"
        );
        // An unknown enum number reads as absent.
        assert_eq!(lacks::<hdfs::SetSafeModeRequestProto>(b"\x08\x63"), "action");
        // A required field in the wrong wire type is an unknown field.
        assert_eq!(lacks::<hdfs::GetFileInfoRequestProto>(b"\x08\x01"), "src");
    }

    #[test]
    fn lists_only_so_many() {
        let bytes = [&b"\x0a\x01/"[..], &b"\x12\x00".repeat(1000)].concat();
        let error = decode_request::<hdfs::ModifyAclEntriesRequestProto>(bytes.into()).unwrap_err();
        assert!(error.message.ends_with("aclSpec[10].scope, ..."), "{}", error.message);
    }

    #[test]
    fn takes_what_is_whole() {
        let request =
            decode_request::<hdfs::GetFileInfoRequestProto>(Bytes::from_static(b"\x0a\x00")).unwrap();
        assert_eq!(request.src, "");
        // Unknown fields of all wire types are skipped.
        let odd = b"\xa0\x06\x01\xa1\x0612345678\xa2\x06\x01x\xa3\x06\xa4\x06\xa5\x061234\x0a\x01/";
        assert_eq!(
            decode_request::<hdfs::GetFileInfoRequestProto>(Bytes::from_static(odd)).unwrap().src,
            "/"
        );
        // Packed and not packed alike.
        for bytes in [&b"\x08\x01\x12\x01\x08\x22\x02\x00\x02"[..], b"\x08\x01\x10\x08\x20\x00\x20\x02"] {
            let ack = decode_request::<hdfs::PipelineAckProto>(Bytes::from_static(bytes)).unwrap();
            assert_eq!((ack.reply, ack.flag), (vec![8], vec![0, 2]));
        }
    }

    #[test]
    fn malformed_bytes() {
        assert_eq!(fault::<hdfs::GetFileInfoRequestProto>(b"\x0a\x05/"), WireError::Truncated.to_string());
        assert_eq!(
            fault::<hdfs::GetFileInfoRequestProto>(b"\x0a\x01\xff"),
            WireError::InvalidUtf8.to_string()
        );
        assert_eq!(
            fault::<hdfs::MkdirsRequestProto>(b"\x12\x02\x08\x01\x12\x02\x08\x01"),
            WireError::RepeatedMessage.to_string()
        );
        let many = Bytes::from(b"\x22\x00".repeat(MAX_ELEMENTS as usize + 1));
        let error = decode_request::<common::RpcSaslProto>(many).unwrap_err();
        assert_eq!(error.message, WireError::TooManyElements.to_string());
    }
}
