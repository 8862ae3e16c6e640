//! Entry points for fuzzing: none may panic, loop for ever, or take much more memory than it was given bytes.

use bytes::{Bytes, BytesMut};
use trellis_proto::data_transfer::{take_message, take_op, take_packet};
use trellis_proto::frame::MAX_FRAME_BYTES;
use trellis_proto::hdfs;
use trellis_proto::methods::SERVICES;
use trellis_proto::presence::decode_request;
use trellis_proto::rpc::client::Answer;
use trellis_proto::rpc::{Event, ServerConn};

/// Feeds `data` to a server connection, in pieces of a size that its first byte gives. Returns the number of events.
pub fn server_conn(data: &[u8]) -> usize {
    let Some((step, stream)) = data.split_first() else { return 0 };
    let mut conn = ServerConn::new(SERVICES, MAX_FRAME_BYTES, 1);
    let (mut buf, mut events) = (BytesMut::new(), 0);
    for piece in stream.chunks(usize::from(*step).max(1)) {
        buf.extend_from_slice(piece);
        while let Some(event) = conn.next_event(&mut buf) {
            events += 1;
            if let Event::Call(call) = event {
                requests(call.body);
            }
        }
    }
    // Every event but the last took at least one frame.
    assert!(events <= stream.len() / 4 + 1, "{events} events from {} bytes", stream.len());
    events
}

/// Decodes bytes as requests of several shapes; what is taken must be taken again after encoding.
pub fn requests(bytes: Bytes) {
    again::<hdfs::CreateRequestProto>(&bytes);
    again::<hdfs::AddBlockRequestProto>(&bytes);
    again::<hdfs::SetAclRequestProto>(&bytes);
    again::<hdfs::GetListingResponseProto>(&bytes);
    again::<hdfs::datanode::HeartbeatRequestProto>(&bytes);
    again::<hdfs::datanode::BlockReportRequestProto>(&bytes);
    again::<hdfs::datanode::HeartbeatResponseProto>(&bytes);
    again::<hdfs::OpWriteBlockProto>(&bytes);
}

fn again<M: trellis_proto::presence::Checked>(bytes: &Bytes) {
    if let Ok(message) = decode_request::<M>(bytes.clone()) {
        let encoded = message.encode_to_vec();
        let twice = decode_request::<M>(encoded.clone().into()).map(|m| m.encode_to_vec());
        assert_eq!(twice.as_ref(), Ok(&encoded), "{}", M::full_name());
    }
}

/// Reads bytes as an answer, and as what a data connection carries.
pub fn peers(data: &[u8]) {
    let _ = Answer::read(Bytes::copy_from_slice(data));
    let mut buf = BytesMut::from(data);
    while let Ok(Some(_)) = take_op(&mut buf) {}
    let mut buf = BytesMut::from(data);
    while let Ok(Some(_)) = take_message(&mut buf) {}
    let mut buf = BytesMut::from(data);
    while let Ok(Some(_)) = take_packet(&mut buf) {}
}
