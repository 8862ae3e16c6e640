//! A namenode that knows nothing: to each call of ClientProtocol it answers the same, whatever the path. It shares the
//! machine with the load generator whose limit is looked for, and so is to cost little: answers are encoded beforehand, and
//! each connection has a thread that reads and writes, many calls at a time.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use bytes::{Bytes, BytesMut};
use prost::Message;
use trellis_proto::exception::{Kind, RpcError};
use trellis_proto::frame::MAX_FRAME_BYTES;
use trellis_proto::hdfs;
use trellis_proto::hdfs::client_namenode_protocol::SERVICE;
use trellis_proto::methods::Service;
use trellis_proto::rpc::{Call, Event, ServerConn, reply};

static SERVICES: &[&Service] = &[&SERVICE];
/// Entries in each listing: as in a directory of the usual namespace.
const ENTRIES: usize = 18;
const BUFFER_BYTES: usize = 64 << 10;

/// Answers on a listener, as long as this process lives.
pub fn serve(listener: &TcpListener) -> io::Result<Infallible> {
    serve_these(listener, Answers::new())
}

fn serve_these(listener: &TcpListener, answers: Answers) -> io::Result<Infallible> {
    let answers = Arc::new(answers);
    loop {
        let (stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let answers = answers.clone();
        // A connection that has ended has nothing to say.
        thread::Builder::new().name("connection".into()).spawn(move || answer(stream, &answers))?;
    }
}

fn answer(mut stream: TcpStream, answers: &Answers) -> io::Result<()> {
    let mut connection = ServerConn::new(SERVICES, MAX_FRAME_BYTES, 0);
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut received, mut out) = (BytesMut::new(), BytesMut::new());
    while !connection.is_closed() {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        received.extend_from_slice(&buffer[..count]);
        while let Some(event) = connection.next_event(&mut received) {
            match event {
                Event::Call(call) => answers.put(&mut out, &call),
                Event::Reply(bytes) | Event::ReplyAndClose(bytes) => out.extend_from_slice(&bytes),
                Event::Context(_) | Event::Ping => {}
            }
        }
        stream.write_all(&out)?;
        out.clear();
    }
    Ok(())
}

/// What is answered, by the name of the method.
struct Answers(Vec<(&'static str, Bytes)>);

impl Answers {
    fn new() -> Answers {
        let status = hdfs::HdfsFileStatusProto {
            file_type: hdfs::hdfs_file_status_proto::FileType::IsFile as i32,
            path: Bytes::from_static(b"file-with-a-name-of-34-characters!"),
            owner: "owner".to_owned(),
            group: "group".to_owned(),
            block_replication: Some(1),
            blocksize: Some(128 << 20),
            file_id: Some(1 << 20),
            children_num: Some(0),
            ..hdfs::HdfsFileStatusProto::default()
        };
        let locations = hdfs::LocatedBlocksProto { is_last_block_complete: true, ..Default::default() };
        let partial_listing = vec![status.clone(); ENTRIES];
        let dir_list = hdfs::DirectoryListingProto { partial_listing, remaining_entries: 0 };
        let server_defaults = hdfs::FsServerDefaultsProto {
            block_size: 128 << 20,
            bytes_per_checksum: 512,
            write_packet_size: 64 << 10,
            replication: 1,
            file_buffer_size: 4096,
            ..Default::default()
        };
        let file_info = hdfs::GetFileInfoResponseProto { fs: Some(status.clone()) };
        let append = hdfs::AppendResponseProto { block: None, stat: Some(status.clone()) };
        // Those that are asked most first.
        Answers(vec![
            encoded(
                "getBlockLocations",
                &hdfs::GetBlockLocationsResponseProto { locations: Some(locations) },
            ),
            encoded("getFileInfo", &file_info),
            encoded("getListing", &hdfs::GetListingResponseProto { dir_list: Some(dir_list) }),
            encoded("create", &hdfs::CreateResponseProto { fs: Some(status) }),
            encoded("complete", &hdfs::CompleteResponseProto { result: true }),
            encoded("rename2", &hdfs::Rename2ResponseProto {}),
            encoded("delete", &hdfs::DeleteResponseProto { result: true }),
            encoded("setOwner", &hdfs::SetOwnerResponseProto {}),
            encoded("setReplication", &hdfs::SetReplicationResponseProto { result: true }),
            encoded("setPermission", &hdfs::SetPermissionResponseProto {}),
            encoded("mkdirs", &hdfs::MkdirsResponseProto { result: true }),
            encoded("append", &append),
            encoded("getServerDefaults", &hdfs::GetServerDefaultsResponseProto { server_defaults }),
        ])
    }

    fn put(&self, out: &mut BytesMut, call: &Call) {
        let method = call.method.name;
        match self.0.iter().find(|(name, _)| *name == method) {
            Some((_, answer)) => reply::put_encoded(out, &call.id, answer),
            None => {
                let why = format!("{method} has no constant answer");
                reply::put_error(out, &call.id, &RpcError::new(Kind::UnsupportedOperation, why));
            }
        }
    }
}

fn encoded(method: &'static str, answer: &impl Message) -> (&'static str, Bytes) {
    (method, answer.encode_to_vec().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::distribution::Distribution;
    use crate::files::{Data, NewFile};
    use crate::mix::OPS;
    use crate::namespace::Spec;
    use crate::ops::{End, Task, perform};
    use crate::target::Target;

    /// Serves them; where.
    fn served(answers: Answers) -> String {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("bound");
        thread::spawn(move || serve_these(&listener, answers));
        format!("hdfs://{address}")
    }

    #[tokio::test]
    async fn every_operation_is_answered() {
        let target = Target::parse(&served(Answers::new())).expect("a list");
        let client = target.clients(1).expect("there is a namenode").remove(0);
        let new_file =
            NewFile { replication: 1, block_size: 1 << 20, sizes: Distribution::fixed(0), data: Data::None };
        for row in OPS {
            let task = Task { op: row.op, path: "/load/a".into(), to: Some("/load/b".into()), variation: 1 };
            let done = perform(&client, &task, &new_file).await;
            assert!(matches!(done.end, End::Success), "{}: {done:?}", row.name);
        }
    }

    #[tokio::test]
    async fn a_self_test_needs_nothing_but_successes() {
        let spotify = "spotify".parse().expect("one");
        let config = |target: String| Config {
            clients: 4,
            connections: 2,
            duration_s: 1.0,
            ..Config::new(target, "/load", spotify)
        };
        let spec = Spec { files: 100, ..Spec::default() };
        let offered = crate::selftest::run(&config(served(Answers::new())), &spec).await.expect("successes");
        assert!(offered.ops_per_s > 0.0 && offered.cpu_us_per_op > 0.0, "{offered:?}");

        let mut answers = Answers::new();
        answers.0.retain(|(method, _)| *method != "getFileInfo");
        let error = crate::selftest::run(&config(served(answers)), &spec).await.expect_err("no answer");
        assert!(error.to_string().contains("getFileInfo has no constant answer"), "{error}");
    }
}
