//! Turns each `service` into a module with its `SERVICE` and one typed constant per method.

use std::fmt::Write as _;

use prost_build::{Service, ServiceGenerator};

/// The name and version that calls of a service carry in `RequestHeaderProto`. In Hadoop they come from annotations
/// on Java interfaces, so no descriptor has them. A service that is missing here does not compile.
const PROTOCOLS: &[(&str, &str, u64)] = &[
    ("hadoop.hdfs.ClientNamenodeProtocol", "org.apache.hadoop.hdfs.protocol.ClientProtocol", 1),
    (
        "hadoop.hdfs.datanode.DatanodeProtocolService",
        "org.apache.hadoop.hdfs.server.protocol.DatanodeProtocol",
        1,
    ),
    (
        "hadoop.hdfs.namenode.NamenodeProtocolService",
        "org.apache.hadoop.hdfs.server.protocol.NamenodeProtocol",
        1,
    ),
    (
        "hadoop.hdfs.ClientDatanodeProtocolService",
        "org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol",
        1,
    ),
    (
        "hadoop.hdfs.InterDatanodeProtocolService",
        "org.apache.hadoop.hdfs.server.protocol.InterDatanodeProtocol",
        1,
    ),
    (
        "hadoop.hdfs.ReconfigurationProtocolService",
        "org.apache.hadoop.hdfs.protocol.ReconfigurationProtocol",
        1,
    ),
    ("hadoop.common.HAServiceProtocolService", "org.apache.hadoop.ha.HAServiceProtocol", 1),
    ("hadoop.common.GetUserMappingsProtocolService", "org.apache.hadoop.tools.GetUserMappingsProtocol", 1),
    (
        "hadoop.common.RefreshUserMappingsProtocolService",
        "org.apache.hadoop.security.RefreshUserMappingsProtocol",
        1,
    ),
    (
        "hadoop.common.RefreshAuthorizationPolicyProtocolService",
        "org.apache.hadoop.security.authorize.RefreshAuthorizationPolicyProtocol",
        1,
    ),
    ("hadoop.common.RefreshCallQueueProtocolService", "org.apache.hadoop.ipc.RefreshCallQueueProtocol", 1),
    ("hadoop.common.GenericRefreshProtocolService", "org.apache.hadoop.ipc.GenericRefreshProtocol", 1),
    ("hadoop.common.ProtocolInfoService", "org.apache.hadoop.ipc.ProtocolMetaInfoPB", 1),
];

/// Writes the method modules into prost's output, where the message types are in reach.
pub struct TypedMethods;

impl ServiceGenerator for TypedMethods {
    fn generate(&mut self, service: Service, buf: &mut String) {
        // An error here can only be a mistake in this file or in proto/; the compiler then points at it.
        if let Err(why) = write_module(&service, buf) {
            let _ = writeln!(buf, "compile_error!({why:?});");
        }
    }
}

fn write_module(service: &Service, buf: &mut String) -> Result<(), String> {
    let full = format!("{}.{}", service.package, service.proto_name);
    let Some((_, protocol, version)) = PROTOCOLS.iter().find(|(name, ..)| *name == full) else {
        return Err(format!("service {full} is not in build/methods.rs"));
    };
    let mut methods: Vec<_> = service.methods.iter().collect();
    methods.sort_by(|a, b| a.proto_name.cmp(&b.proto_name));
    write_all(service, &full, protocol, *version, &methods, buf).map_err(|e| e.to_string())
}

fn write_all(
    service: &Service,
    full: &str,
    protocol: &str,
    version: u64,
    methods: &[&prost_build::Method],
    buf: &mut String,
) -> std::fmt::Result {
    writeln!(buf, "/// Methods of `{protocol}`, as typed constants.")?;
    writeln!(buf, "pub mod {} {{", snake(&service.name))?;
    writeln!(buf, "use crate::methods::{{Method, Rpc, Service}};")?;
    writeln!(buf, "pub static SERVICE: Service = Service {{ name: {full:?}, protocol: {protocol:?}, ")?;
    writeln!(buf, "version: {version}, methods: &[")?;
    for m in methods {
        let (request, response) =
            (m.input_proto_type.trim_start_matches('.'), m.output_proto_type.trim_start_matches('.'));
        let name = &m.proto_name;
        writeln!(buf, "Method {{ name: {name:?}, request: {request:?}, response: {response:?} }},")?;
    }
    writeln!(buf, "] }};")?;
    for m in methods {
        writeln!(
            buf,
            "pub const {}: Rpc<super::{}, super::{}> = Rpc::new(&SERVICE, {:?});",
            snake(&m.proto_name).to_uppercase(),
            m.input_type,
            m.output_type,
            m.proto_name
        )?;
    }
    writeln!(buf, "}}")
}

/// `getFsECBlockGroupStats` to `get_fs_ec_block_group_stats`: a word starts at an upper-case letter that follows a
/// lower-case one, or that a lower-case one follows.
fn snake(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut out = String::new();
    for (i, c) in chars.iter().enumerate() {
        let after_lower = i > 0 && !chars[i - 1].is_uppercase();
        let before_lower = i > 0 && chars.get(i + 1).is_some_and(|n| n.is_lowercase());
        if c.is_uppercase() && (after_lower || before_lower) {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}
