//! A namenode that knows nothing: to each call of ClientProtocol it answers the same, whatever the path.

use std::future::Future;

use bytes::{Bytes, BytesMut};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use trellis_proto::exception::{Kind, RpcError};
use trellis_proto::frame::MAX_FRAME_BYTES;
use trellis_proto::hdfs;
use trellis_proto::hdfs::client_namenode_protocol::SERVICE;
use trellis_proto::methods::Service;
use trellis_proto::rpc::{Call, Event, ServerConn, reply};

static SERVICES: &[&Service] = &[&SERVICE];
/// Entries in each listing: as in a directory of the usual namespace.
const ENTRIES: usize = 18;
const BUFFER_BYTES: usize = 256 << 10;

/// Answers on a listener until `end` is ready.
pub async fn serve(listener: TcpListener, end: impl Future<Output = ()>) -> std::io::Result<()> {
    let mut connections = JoinSet::new();
    tokio::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => return Ok(()),
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                stream.set_nodelay(true)?;
                connections.spawn(answer(stream));
            }
            // One that has ended has nothing to say.
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let answers = Answers::new();
    let mut connection = ServerConn::new(SERVICES, MAX_FRAME_BYTES, 0);
    let (mut received, mut out) = (BytesMut::with_capacity(BUFFER_BYTES), BytesMut::new());
    while !connection.is_closed() {
        received.reserve(BUFFER_BYTES);
        if stream.read_buf(&mut received).await? == 0 {
            return Ok(());
        }
        while let Some(event) = connection.next_event(&mut received) {
            match event {
                Event::Call(call) => answers.put(&mut out, &call),
                Event::Reply(bytes) | Event::ReplyAndClose(bytes) => out.extend_from_slice(&bytes),
                Event::Context(_) | Event::Ping => {}
            }
        }
        stream.write_all(&out).await?;
        out.clear();
    }
    Ok(())
}

/// What is answered, made once.
struct Answers {
    file_info: hdfs::GetFileInfoResponseProto,
    listing: hdfs::GetListingResponseProto,
    locations: hdfs::GetBlockLocationsResponseProto,
    create: hdfs::CreateResponseProto,
    append: hdfs::AppendResponseProto,
    defaults: hdfs::GetServerDefaultsResponseProto,
}

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
        Answers {
            file_info: hdfs::GetFileInfoResponseProto { fs: Some(status.clone()) },
            listing: hdfs::GetListingResponseProto { dir_list: Some(dir_list) },
            locations: hdfs::GetBlockLocationsResponseProto { locations: Some(locations) },
            append: hdfs::AppendResponseProto { block: None, stat: Some(status.clone()) },
            create: hdfs::CreateResponseProto { fs: Some(status) },
            defaults: hdfs::GetServerDefaultsResponseProto { server_defaults },
        }
    }

    fn put(&self, out: &mut BytesMut, call: &Call) {
        match call.method.name {
            "getFileInfo" => put(out, call, &self.file_info),
            "getListing" => put(out, call, &self.listing),
            "getBlockLocations" => put(out, call, &self.locations),
            "create" => put(out, call, &self.create),
            "append" => put(out, call, &self.append),
            "getServerDefaults" => put(out, call, &self.defaults),
            "complete" => put(out, call, &hdfs::CompleteResponseProto { result: true }),
            "delete" => put(out, call, &hdfs::DeleteResponseProto { result: true }),
            "mkdirs" => put(out, call, &hdfs::MkdirsResponseProto { result: true }),
            "setReplication" => put(out, call, &hdfs::SetReplicationResponseProto { result: true }),
            "rename2" => put(out, call, &hdfs::Rename2ResponseProto {}),
            "setOwner" => put(out, call, &hdfs::SetOwnerResponseProto {}),
            "setPermission" => put(out, call, &hdfs::SetPermissionResponseProto {}),
            other => {
                let why = format!("{other} has no constant answer");
                reply::put_error(out, &call.id, &RpcError::new(Kind::UnsupportedOperation, why));
            }
        }
    }
}

fn put(out: &mut BytesMut, call: &Call, answer: &impl Message) {
    reply::put_success(out, &call.id, answer);
}
