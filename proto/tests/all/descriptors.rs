//! Our `.proto` files against the descriptors of the stock jars, in both directions.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use trellis_proto::methods::SERVICES;

use crate::stock::rows;

/// Full name to fields; a field is `name number label type default options`.
type Messages = BTreeMap<String, BTreeSet<String>>;
/// Full name to `value number`.
type Enums = BTreeMap<String, BTreeSet<String>>;

/// Files all of whose messages we declare, beside what the services reach.
const WHOLE_FILES: &[&str] = &[
    "RpcHeader.proto",
    "IpcConnectionContext.proto",
    "ProtobufRpcEngine2.proto",
    "Security.proto",
    "datatransfer.proto",
];

fn ours() -> (Messages, Enums) {
    let files = FileDescriptorSet::decode(trellis_proto::DESCRIPTORS).unwrap();
    let (mut messages, mut enums) = (Messages::new(), Enums::new());
    for file in &files.file {
        collect(file.package(), &file.message_type, &file.enum_type, &mut messages, &mut enums);
    }
    (messages, enums)
}

fn collect(
    prefix: &str,
    messages: &[DescriptorProto],
    enums: &[EnumDescriptorProto],
    into: &mut Messages,
    into_enums: &mut Enums,
) {
    for e in enums {
        let values = e.value.iter().map(|v| format!("{} {}", v.name(), v.number())).collect();
        into_enums.insert(format!("{prefix}.{}", e.name()), values);
    }
    for m in messages {
        let full = format!("{prefix}.{}", m.name());
        collect(&full, &m.nested_type, &m.enum_type, into, into_enums);
        into.insert(full, m.field.iter().map(field).collect());
    }
}

fn field(f: &FieldDescriptorProto) -> String {
    let label = match f.label() {
        Label::Required => "required",
        Label::Optional => "optional",
        Label::Repeated => "repeated",
    };
    let name = f.type_name().trim_start_matches('.');
    let kind = match f.r#type() {
        Type::Message => format!("message:{name}"),
        Type::Enum => format!("enum:{name}"),
        other => other.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
    };
    let options = f.options.clone().unwrap_or_default();
    let options = [("packed", options.packed()), ("deprecated", options.deprecated())];
    let options: Vec<&str> = options.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
    format!("{} {} {label} {kind} {} {}", f.name(), f.number(), f.default_value(), options.join(","))
}

/// The tables in the same form, and the messages of [`WHOLE_FILES`].
fn theirs() -> (Messages, Enums, BTreeSet<String>) {
    let (mut messages, mut enums, mut whole) = (Messages::new(), Enums::new(), BTreeSet::new());
    for row in rows("messages.tsv", 9) {
        let full = format!("{}.{}", row[1], row[2]);
        if WHOLE_FILES.contains(&row[0].as_str()) {
            whole.insert(full.clone());
        }
        let fields = messages.entry(full).or_default();
        if !row[3].is_empty() {
            fields.insert(row[3..].join(" "));
        }
    }
    for row in rows("enums.tsv", 5) {
        enums.entry(format!("{}.{}", row[1], row[2])).or_default().insert(row[3..].join(" "));
    }
    (messages, enums, whole)
}

#[test]
fn everything_we_declare_is_as_stock_declares_it() {
    let ((messages, enums), (stock_messages, stock_enums, _)) = (ours(), theirs());
    for (name, fields) in &messages {
        assert_eq!(Some(fields), stock_messages.get(name), "message {name}");
    }
    for (name, values) in &enums {
        assert_eq!(Some(values), stock_enums.get(name), "enum {name}");
    }
    assert!(messages.len() > 400 && enums.len() > 30, "{} messages, {} enums", messages.len(), enums.len());
}

#[test]
fn everything_that_the_protocols_reach_is_declared() {
    let ((messages, enums), (stock_messages, _, whole)) = (ours(), theirs());
    let mut wanted: Vec<String> = whole.into_iter().collect();
    for method in SERVICES.iter().flat_map(|s| s.methods) {
        wanted.extend([method.request.to_owned(), method.response.to_owned()]);
    }
    let mut reached = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        assert!(messages.contains_key(&name), "message {name} is missing");
        if !reached.insert(name.clone()) {
            continue;
        }
        for word in stock_messages[&name].iter().flat_map(|field| field.split(' ')) {
            if let Some(name) = word.strip_prefix("message:") {
                wanted.push(name.to_owned());
            } else if let Some(name) = word.strip_prefix("enum:") {
                assert!(enums.contains_key(name), "enum {name} is missing");
            }
        }
    }
    assert!(reached.len() > 400, "only {}", reached.len());
}

#[test]
fn methods_are_those_of_stock() {
    let mut stock: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in rows("methods.tsv", 6) {
        stock.entry(row[..3].join(" ")).or_default().insert(row[3..].join(" "));
    }
    for s in SERVICES {
        let ours = s.methods.iter().map(|m| format!("{} {} {}", m.name, m.request, m.response)).collect();
        let name = format!("{} {} {}", s.name, s.protocol, s.version);
        assert_eq!(stock.remove(&name), Some(ours), "{name}");
    }
    // What is left belongs to daemons that Trellis does not have.
    let left: Vec<&str> = stock.keys().map(|k| k.split(' ').next().unwrap()).collect();
    assert_eq!(
        left,
        [
            "hadoop.common.TraceAdminService",
            "hadoop.common.ZKFCProtocolService",
            "hadoop.hdfs.AliasMapProtocolService",
            "hadoop.hdfs.JournalProtocolService",
            "hadoop.hdfs.datanodelifeline.DatanodeLifelineProtocolService",
            "hadoop.hdfs.qjournal.InterQJournalProtocolService",
            "hadoop.hdfs.qjournal.QJournalProtocolService",
        ]
    );
}
