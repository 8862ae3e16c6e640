//! Every method of every protocol we know: names, versions, message types.
//!
//! The tables are generated from the `service`s in `proto/*.proto`.

use std::marker::PhantomData;

use crate::{common, hdfs};

/// A protocol as it is named on the wire.
#[derive(Debug, PartialEq, Eq)]
pub struct Service {
    /// Full protobuf name of the service.
    pub name: &'static str,
    /// `RequestHeaderProto.declaringClassProtocolName`, a Java interface.
    pub protocol: &'static str,
    /// `RequestHeaderProto.clientProtocolVersion`.
    pub version: u64,
    /// Sorted by name.
    pub methods: &'static [Method],
}

/// One method of a [`Service`].
#[derive(Debug, PartialEq, Eq)]
pub struct Method {
    /// `RequestHeaderProto.methodName`.
    pub name: &'static str,
    /// Full protobuf name of the request message.
    pub request: &'static str,
    /// Full protobuf name of the response message.
    pub response: &'static str,
}

/// A method with the Rust types of its messages; the constants stand in the modules of the services.
#[derive(Debug)]
pub struct Rpc<Request, Response> {
    /// The protocol that declares it.
    pub service: &'static Service,
    /// `RequestHeaderProto.methodName`.
    pub name: &'static str,
    types: PhantomData<fn(Request) -> Response>,
}

impl<Request, Response> Rpc<Request, Response> {
    pub(crate) const fn new(service: &'static Service, name: &'static str) -> Self {
        Self { service, name, types: PhantomData }
    }
}

impl<Request, Response> Clone for Rpc<Request, Response> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Request, Response> Copy for Rpc<Request, Response> {}

impl Service {
    /// The method of this wire name.
    pub fn method(&self, name: &str) -> Option<&'static Method> {
        self.methods.binary_search_by(|m| m.name.cmp(name)).ok().and_then(|at| self.methods.get(at))
    }
}

/// All services, the busiest first.
pub static SERVICES: &[&Service] = &[
    &hdfs::client_namenode_protocol::SERVICE,
    &hdfs::datanode::datanode_protocol_service::SERVICE,
    &hdfs::namenode::namenode_protocol_service::SERVICE,
    &hdfs::client_datanode_protocol_service::SERVICE,
    &hdfs::inter_datanode_protocol_service::SERVICE,
    &hdfs::reconfiguration_protocol_service::SERVICE,
    &common::ha_service_protocol_service::SERVICE,
    &common::get_user_mappings_protocol_service::SERVICE,
    &common::refresh_user_mappings_protocol_service::SERVICE,
    &common::refresh_authorization_policy_protocol_service::SERVICE,
    &common::refresh_call_queue_protocol_service::SERVICE,
    &common::generic_refresh_protocol_service::SERVICE,
    &common::protocol_info_service::SERVICE,
];

/// The service of this Java protocol name.
pub fn service(protocol: &str) -> Option<&'static Service> {
    SERVICES.iter().find(|s| s.protocol == protocol).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_services_and_methods_by_wire_name() {
        let client = service("org.apache.hadoop.hdfs.protocol.ClientProtocol").unwrap();
        assert_eq!((client.version, client.methods.len()), (1, 111));
        assert_eq!(client.method("create").unwrap().request, "hadoop.hdfs.CreateRequestProto");
        assert_eq!(client.method("nope"), None);
        assert_eq!(service("org.x.Y"), None);
        assert_eq!(
            client.method(hdfs::client_namenode_protocol::GET_FS_EC_BLOCK_GROUP_STATS.name).unwrap().name,
            "getFsECBlockGroupStats"
        );
    }

    #[test]
    fn every_service_is_sorted_and_listed_once() {
        for (i, s) in SERVICES.iter().enumerate() {
            assert!(s.methods.is_sorted_by(|a, b| a.name < b.name), "{}", s.name);
            assert!(SERVICES.iter().skip(i + 1).all(|t| t.protocol != s.protocol), "{}", s.name);
        }
    }
}
