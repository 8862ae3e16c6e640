//! A namenode that does as the test says, and remembers what it heard.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use trellis_client::uri::Address;
use trellis_proto::exception::{Kind, RpcError};
use trellis_proto::hdfs::datanode::*;
use trellis_proto::hdfs::nnha_status_heartbeat_proto::State;
use trellis_proto::hdfs::{
    NamespaceInfoProto, NnhaStatusHeartbeatProto, StorageInfoProto, VersionResponseProto,
};
use trellis_proto::methods::Service;
use trellis_proto::rpc::{Event, ServerConn, reply};

pub const POOL: &str = "BP-1-127.0.0.1-2";
static SERVICES: &[&Service] = &[&datanode_protocol_service::SERVICE];
/// Nothing here takes longer; a test that waits so long has failed.
pub const LONG: Duration = Duration::from_secs(30);

/// What becomes of a call.
#[derive(Debug, Clone)]
pub enum Fault {
    /// It is answered so.
    Exception(Kind),
    /// It is carried out, and the connection closed without an answer.
    Drop,
}

#[derive(Debug)]
struct Script {
    state: State,
    txid: u64,
    lease: u64,
    cluster: String,
    commands: VecDeque<DatanodeCommandProto>,
    faults: HashMap<&'static str, VecDeque<Fault>>,
    heard: Vec<(&'static str, Bytes)>,
}

/// A namenode.
#[derive(Clone)]
pub struct Namenode {
    pub address: Address,
    script: Arc<Mutex<Script>>,
    /// Counts what was heard.
    count: Arc<watch::Sender<usize>>,
}

impl Namenode {
    /// Active, with txid 1, granting leases.
    pub async fn start() -> Namenode {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Address::new("127.0.0.1", listener.local_addr().unwrap().port());
        let script = Script {
            state: State::Active,
            txid: 1,
            lease: 7,
            cluster: "CID-test".to_owned(),
            commands: VecDeque::new(),
            faults: HashMap::new(),
            heard: Vec::new(),
        };
        let (script, count) = (Arc::new(Mutex::new(script)), Arc::new(watch::Sender::new(0)));
        let namenode = Namenode { address, script, count };
        let server = namenode.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(server.clone().serve(stream));
            }
        });
        namenode
    }

    pub fn claim(&self, state: State, txid: u64) {
        let mut script = self.script.lock().unwrap();
        (script.state, script.txid) = (state, txid);
    }

    pub fn set_cluster(&self, cluster: &str) {
        cluster.clone_into(&mut self.script.lock().unwrap().cluster);
    }

    pub fn set_lease(&self, lease: u64) {
        self.script.lock().unwrap().lease = lease;
    }

    /// Given with the next heartbeat's answer.
    pub fn command(&self, command: DatanodeCommandProto) {
        self.script.lock().unwrap().commands.push_back(command);
    }

    /// The next call of this method fails.
    pub fn fail(&self, method: &'static str, fault: Fault) {
        self.script.lock().unwrap().faults.entry(method).or_default().push_back(fault);
    }

    /// What was heard of a method so far.
    pub fn heard<M: Message + Default>(&self, method: &str) -> Vec<M> {
        let script = self.script.lock().unwrap();
        let of_method = script.heard.iter().filter(|(name, _)| *name == method);
        of_method.map(|(_, body)| M::decode(body.clone()).unwrap()).collect()
    }

    /// Waits until what was heard of a method is as `enough` wants it.
    pub async fn wait<M: Message + Default + std::fmt::Debug>(
        &self,
        method: &str,
        enough: impl Fn(&[M]) -> bool,
    ) -> Vec<M> {
        let mut count = self.count.subscribe();
        let waiting = async {
            loop {
                count.borrow_and_update();
                let heard = self.heard(method);
                if enough(&heard) {
                    return heard;
                }
                count.changed().await.unwrap();
            }
        };
        match tokio::time::timeout(LONG, waiting).await {
            Ok(heard) => heard,
            Err(_) => panic!("{method} was not heard as wanted: {:?}", self.heard::<M>(method)),
        }
    }

    async fn serve(self, mut stream: TcpStream) {
        let mut protocol = ServerConn::new(SERVICES, 1 << 26, 1);
        let (mut input, mut output) = (BytesMut::new(), BytesMut::new());
        loop {
            while let Some(event) = protocol.next_event(&mut input) {
                match event {
                    Event::Call(call) => {
                        let fault = self
                            .script
                            .lock()
                            .unwrap()
                            .faults
                            .get_mut(call.method.name)
                            .and_then(VecDeque::pop_front);
                        if let Some(Fault::Exception(kind)) = fault {
                            reply::put_error(&mut output, &call.id, &RpcError::new(kind, "as told"));
                            continue;
                        }
                        self.answer(&call, &mut output);
                        if fault.is_some() {
                            return;
                        }
                    }
                    Event::Reply(frame) => output.extend_from_slice(&frame),
                    Event::ReplyAndClose(_) => return,
                    Event::Context(_) | Event::Ping => {}
                }
            }
            if stream.write_all(&output.split()).await.is_err() {
                return;
            }
            if !matches!(stream.read_buf(&mut input).await, Ok(1..)) {
                return;
            }
        }
    }

    fn answer(&self, call: &trellis_proto::rpc::Call, out: &mut BytesMut) {
        let mut script = self.script.lock().unwrap();
        script.heard.push((call.method.name, call.body.clone()));
        let status = NnhaStatusHeartbeatProto { state: script.state.into(), txid: script.txid };
        match call.method.name {
            "versionRequest" => {
                let info = NamespaceInfoProto {
                    build_version: "x".to_owned(),
                    block_pool_id: POOL.to_owned(),
                    storage_info: StorageInfoProto {
                        layout_version: -67i32 as u32,
                        namespce_id: 5,
                        cluster_id: script.cluster.clone(),
                        c_time: 0,
                    },
                    software_version: "3.4.2".to_owned(),
                    capabilities: Some(1),
                    state: Some(status.state),
                    ..Default::default()
                };
                reply::put_success(out, &call.id, &VersionResponseProto { info });
            }
            "registerDatanode" => {
                let registration =
                    RegisterDatanodeRequestProto::decode(call.body.clone()).unwrap().registration;
                reply::put_success(out, &call.id, &RegisterDatanodeResponseProto { registration });
            }
            "sendHeartbeat" => {
                let request = HeartbeatRequestProto::decode(call.body.clone()).unwrap();
                let response = HeartbeatResponseProto {
                    cmds: script.commands.drain(..).collect(),
                    ha_status: status,
                    full_block_report_lease_id: Some(if request.request_full_block_report_lease() {
                        script.lease
                    } else {
                        0
                    }),
                    ..Default::default()
                };
                reply::put_success(out, &call.id, &response);
            }
            // The other answers are empty.
            _ => reply::put_success(out, &call.id, &BlockReportResponseProto::default()),
        }
        drop(script);
        self.count.send_modify(|count| *count += 1);
    }
}
