//! Writes the table by which `src/presence.rs` checks a message before prost decodes it: prost takes a missing
//! required field for its default and says nothing.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet};

/// One bit per field in the checker's masks.
const MAX_FIELDS: usize = 64;

#[derive(Default)]
struct Types<'a> {
    /// Full name to package (empty for nested ones: only their parents find them) and message, sorted.
    messages: BTreeMap<String, (String, &'a DescriptorProto)>,
    enums: HashMap<String, &'a EnumDescriptorProto>,
}

/// The Rust source of the table.
pub fn table(files: &FileDescriptorSet) -> Result<String, Box<dyn std::error::Error>> {
    let mut types = Types::default();
    for file in &files.file {
        types.collect(&format!(".{}", file.package()), file.package(), &file.message_type, &file.enum_type);
    }
    let index: HashMap<&str, usize> =
        types.messages.keys().enumerate().map(|(i, k)| (k.as_str(), i)).collect();

    let mut names = String::new();
    let mut shapes = String::new();
    for (full, (package, message)) in &types.messages {
        writeln!(names, "({package:?}, {:?}),", if package.is_empty() { "" } else { message.name() })?;
        let mut fields: Vec<_> = message.field.iter().collect();
        fields.sort_by_key(|f| f.number());
        if fields.len() > MAX_FIELDS {
            return Err(format!("{full} has more than {MAX_FIELDS} fields").into());
        }
        let required: Vec<usize> = (message.field.iter())
            .filter(|f| f.label() == Label::Required)
            .filter_map(|f| fields.iter().position(|g| g.number() == f.number()))
            .collect();
        let mask = required.iter().fold(0u64, |mask, at| mask | 1 << at);
        writeln!(shapes, "Shape {{ mask: {mask}, required: &{required:?}, fields: &[")?;
        for field in fields {
            let (number, name, kind) = (field.number(), field.name(), types.kind(field, &index)?);
            let repeated = field.label() == Label::Repeated;
            writeln!(
                shapes,
                "Field {{ number: {number}, name: {name:?}, repeated: {repeated}, kind: {kind} }},"
            )?;
        }
        writeln!(shapes, "] }},")?;
    }
    Ok(format!("const NAMES: &[(&str, &str)] = &[{names}];\nstatic SHAPES: &[Shape] = &[{shapes}];\n"))
}

impl<'a> Types<'a> {
    fn collect(
        &mut self,
        prefix: &str,
        package: &str,
        messages: &'a [DescriptorProto],
        enums: &'a [EnumDescriptorProto],
    ) {
        for e in enums {
            self.enums.insert(format!("{prefix}.{}", e.name()), e);
        }
        for m in messages {
            let full = format!("{prefix}.{}", m.name());
            self.collect(&full, "", &m.nested_type, &m.enum_type);
            self.messages.insert(full, (package.to_owned(), m));
        }
    }

    fn kind(&self, field: &FieldDescriptorProto, index: &HashMap<&str, usize>) -> Result<String, String> {
        let unknown = || format!("{} has an unknown type {}", field.name(), field.type_name());
        Ok(match field.r#type() {
            Type::Message => format!("Kind::Message({})", index.get(field.type_name()).ok_or_else(unknown)?),
            Type::Enum => {
                let values = &self.enums.get(field.type_name()).ok_or_else(unknown)?.value;
                format!("Kind::Enum(&{:?})", values.iter().map(|v| v.number()).collect::<Vec<_>>())
            }
            Type::String => "Kind::String".to_owned(),
            Type::Bytes => "Kind::Bytes".to_owned(),
            Type::Fixed32 | Type::Sfixed32 | Type::Float => "Kind::Fixed32".to_owned(),
            Type::Fixed64 | Type::Sfixed64 | Type::Double => "Kind::Fixed64".to_owned(),
            Type::Group => return Err(format!("{}: groups are not supported", field.name())),
            _ => "Kind::Varint".to_owned(),
        })
    }
}
