//! How to reach datanodes, and connections to them that wait for their next op.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Instant;

use nix::ifaddrs::getifaddrs;
use trellis_proto::hdfs::DatanodeInfoProto;

use super::connection::{Connection, DataFault};
use crate::config::DataConfig;
use crate::uri::Address;

/// Addresses of this machine.
static OWN_ADDRESSES: LazyLock<Vec<IpAddr>> = LazyLock::new(|| {
    let interfaces = getifaddrs().into_iter().flatten();
    let address = |interface: nix::ifaddrs::InterfaceAddress| {
        let address = interface.address?;
        let v4 = address.as_sockaddr_in().map(|v4| IpAddr::from(v4.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::from(v6.ip())))
    };
    interfaces.filter_map(address).collect()
});

/// Whether a datanode runs on this machine.
pub(super) fn is_local(node: &DatanodeInfoProto) -> bool {
    node.id.ip_addr.parse().is_ok_and(|address| OWN_ADDRESSES.contains(&address))
}

/// The way to all datanodes, shared by all files of a client.
#[derive(Debug)]
pub(crate) struct Datanodes {
    pub config: DataConfig,
    idle: Mutex<HashMap<Address, Vec<(Instant, Connection)>>>,
}

impl Datanodes {
    pub fn new(config: DataConfig) -> Self {
        Self { config, idle: Mutex::default() }
    }

    /// Where a datanode's data port is.
    pub fn transfer_address(&self, node: &DatanodeInfoProto) -> Result<Address, DataFault> {
        self.address(node, node.id.xfer_port)
    }

    /// Where its RPC server is.
    pub fn rpc_address(&self, node: &DatanodeInfoProto) -> Result<Address, DataFault> {
        self.address(node, node.id.ipc_port)
    }

    fn address(&self, node: &DatanodeInfoProto, port: u32) -> Result<Address, DataFault> {
        let id = &node.id;
        let host = if self.config.use_datanode_hostname { &id.host_name } else { &id.ip_addr };
        let port = u16::try_from(port)
            .map_err(|_| DataFault::Nonsense(format!("the namenode says that {host} has port {port}")))?;
        Ok(Address::new(host.as_str(), port))
    }

    pub async fn connect(&self, node: &DatanodeInfoProto) -> Result<Connection, DataFault> {
        Connection::open(&self.transfer_address(node)?, &self.config).await
    }

    /// An idle connection, which the datanode may have closed meanwhile.
    pub fn take_idle(&self, node: &DatanodeInfoProto) -> Option<Connection> {
        let address = self.transfer_address(node).ok()?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        self.expire(&mut idle);
        // The one used last.
        idle.get_mut(&address)?.pop().map(|(_, connection)| connection)
    }

    /// Keeps a connection whose op has ended.
    pub fn keep(&self, node: &DatanodeInfoProto, connection: Connection) {
        let Ok(address) = self.transfer_address(node) else { return };
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        self.expire(&mut idle);
        if idle.values().map(Vec::len).sum::<usize>() < self.config.max_idle {
            idle.entry(address).or_default().push((Instant::now(), connection));
        }
    }

    fn expire(&self, idle: &mut HashMap<Address, Vec<(Instant, Connection)>>) {
        idle.retain(|_, connections| {
            connections.retain(|(since, _)| since.elapsed() < self.config.keep_idle);
            !connections.is_empty()
        });
    }
}
