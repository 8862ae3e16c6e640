//! Files' data: what goes to datanodes, and what follows when they fail. Every path counts its calls.

use std::time::Duration;

use tokio::time::timeout;
use trellis_client::types::CreateOptions;
use trellis_client::{Client, FileWriter};
use trellis_proto::data_transfer::Op;
use trellis_proto::exception::Kind;
use trellis_proto::hdfs;
use trellis_proto::hdfs::op_write_block_proto::BlockConstructionStage as Stage;

use crate::datanodes::{BLOCK_SIZE, Cluster, Do, When};
use crate::fake::{request, run, until};

/// What fits into a packet of 64 KiB: 126 chunks.
const PACKET: usize = 64512;

fn bytes(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

fn options() -> CreateOptions {
    CreateOptions { replication: Some(3), block_size: Some(BLOCK_SIZE), ..CreateOptions::default() }
}

async fn create(client: &Client) -> FileWriter {
    client.create("/f", &options()).await.unwrap()
}

async fn read(client: &Client) -> trellis_client::Result<Vec<u8>> {
    let mut stream = client.open("/f").await?.stream_all();
    let mut all = Vec::new();
    while let Some(bytes) = stream.next().await? {
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

#[test]
fn blocks_and_packets_of_a_file() {
    run(async {
        let cluster = Cluster::start(3).await;
        let client = cluster.client(|_| {});
        let data = bytes(2 * BLOCK_SIZE as usize + 1000);
        let mut file = create(&client).await;
        for piece in data.chunks(10_000) {
            file.write(piece).await.unwrap();
        }
        assert_eq!(file.position(), data.len() as u64);
        file.close().await.unwrap();
        assert_eq!(cluster.data(), data);
        let methods = ["create", "getServerDefaults", "addBlock", "addBlock", "addBlock", "complete"];
        assert_eq!(cluster.namenode.methods(), methods);
        let seen = cluster.namenode.seen();
        let lengths: Vec<_> = seen
            .iter()
            .filter(|call| call.method == "addBlock")
            .map(|call| request::<hdfs::AddBlockRequestProto>(call).previous.map(|block| block.num_bytes()))
            .collect();
        assert_eq!(lengths, [None, Some(BLOCK_SIZE), Some(BLOCK_SIZE)]);
        let complete = request::<hdfs::CompleteRequestProto>(seen.last().unwrap());
        assert_eq!(complete.last.map(|block| block.num_bytes()), Some(1000));
        let packets = cluster.lock().packets.clone();
        let rest = BLOCK_SIZE as usize - 4 * PACKET;
        let block = [PACKET, PACKET, PACKET, PACKET, rest, 0];
        let lengths: Vec<_> = packets.iter().map(|(_, len, _)| *len as usize).collect();
        assert_eq!(lengths, [&block[..], &block, &[1000, 0]].concat());

        let before = cluster.lock().connections;
        assert_eq!(read(&client).await.unwrap(), data);
        let file = client.open("/f").await.unwrap();
        for (offset, len) in
            [(0, 1), (511, 3), (BLOCK_SIZE as usize - 1, 2), (100, data.len()), (data.len(), 1)]
        {
            let want = &data[offset..data.len().min(offset + len)];
            assert_eq!(&file.read_at(offset as u64, len).await.unwrap()[..], want, "{len} from {offset}");
        }
        assert_eq!(cluster.lock().connections, before + 1, "one connection, op after op");
    });
}

#[test]
fn datanodes_that_cannot_be_connected_are_left_out() {
    run(async {
        for what in [Do::Refuse, Do::BadLink(2), Do::Close] {
            let cluster = Cluster::start(5).await;
            cluster.fail(0, When::Setup, what);
            let client = cluster.client(|_| {});
            let mut file = create(&client).await;
            file.write(&bytes(100)).await.unwrap();
            file.close().await.unwrap();
            assert_eq!(cluster.data(), bytes(100));
            assert_eq!((cluster.calls("addBlock"), cluster.calls("abandonBlock")), (2, 1), "{what:?}");
            let seen = cluster.namenode.seen();
            let again = seen.iter().filter(|call| call.method == "addBlock").nth(1).unwrap();
            let excluded = request::<hdfs::AddBlockRequestProto>(again).exclude_nodes;
            let names: Vec<_> = excluded.iter().map(|node| node.id.datanode_uuid.as_str()).collect();
            assert_eq!(names, [if what == Do::BadLink(2) { "uuid-2" } else { "uuid-0" }], "{what:?}");
        }
        // Not for ever.
        let cluster = Cluster::start(8).await;
        for node in 0..8 {
            cluster.fail(node, When::Setup, Do::Refuse);
        }
        let client = cluster.client(|_| {});
        let mut file = create(&client).await;
        file.write(&bytes(100)).await.unwrap();
        let error = file.close().await.unwrap_err();
        assert!(error.to_string().contains("Unable to create new block"), "{error}");
        assert_eq!((cluster.calls("addBlock"), cluster.calls("abandonBlock")), (4, 4));
        assert_eq!(file.write(b"x").await.unwrap_err().to_string(), error.to_string());
    });
}

#[test]
fn a_pipeline_that_breaks_is_mended() {
    run(async {
        let faults = [
            (When::Packet(0), Do::Close),
            (When::Packet(2), Do::Close),
            (When::Packet(2), Do::Nack(0)),
            (When::Packet(2), Do::Nack(1)),
            (When::Packet(2), Do::Nack(2)),
            (When::Packet(2), Do::Silence),
            (When::Last, Do::Close),
            (When::Last, Do::Nack(1)),
            (When::Last, Do::Silence),
        ];
        for (when, what) in faults {
            let cluster = Cluster::start(3).await;
            cluster.fail(0, when, what);
            let client = cluster.client(|config| {
                // Others must not seem silent on a busy machine.
                if what == Do::Silence {
                    config.read_timeout = Duration::from_millis(300);
                    config.timeout_per_node = Duration::ZERO;
                }
            });
            let data = bytes(BLOCK_SIZE as usize + 70_000);
            let mut file = create(&client).await;
            file.write(&data).await.unwrap();
            file.close().await.unwrap();
            assert_eq!(cluster.data(), data, "{when:?} {what:?}");
            let calls = ["addBlock", "updateBlockForPipeline", "updatePipeline", "getAdditionalDatanode"];
            assert_eq!(calls.map(|call| cluster.calls(call)), [2, 1, 1, 0], "{when:?} {what:?}");
            let stage = match when {
                When::Last => Stage::PipelineCloseRecovery,
                _ => Stage::PipelineSetupStreamingRecovery,
            };
            let state = cluster.lock();
            assert_eq!(state.stages, [Stage::PipelineSetupCreate, stage, Stage::PipelineSetupCreate]);
            let first = &state.replicas[&state.blocks[0]];
            assert_eq!((first.nodes.len(), first.finalized, first.generation_stamp), (2, true, 1001));
            let bad = match what {
                Do::Nack(bad) => bad,
                _ => 0,
            };
            assert!(!first.nodes.contains(&format!("uuid-{bad}")), "{what:?}: {:?}", first.nodes);
        }
    });
}

/// Which of the two comes first is left to chance: that nothing can be written any more, or the ack.
#[test]
fn the_ack_that_names_the_failed_one_is_heard_though_the_connection_is_gone() {
    run(async {
        for _ in 0..24 {
            let cluster = Cluster::start(3).await;
            cluster.fail(0, When::Packet(0), Do::Nack(1));
            let client = cluster.client(|config| config.timeout_per_node = Duration::ZERO);
            let mut file = create(&client).await;
            file.write(&bytes(BLOCK_SIZE as usize)).await.unwrap();
            file.close().await.unwrap();
            let state = cluster.lock();
            assert_eq!(state.replicas[&state.blocks[0]].nodes, ["uuid-0", "uuid-2"]);
        }
    });
}

#[test]
fn mending_may_fail_and_ends() {
    run(async {
        // The second datanode fails while the pipeline is mended, the third is enough.
        let cluster = Cluster::start(3).await;
        cluster.fail(0, When::Packet(1), Do::Close);
        cluster.fail(1, When::Setup, Do::Refuse);
        let client = cluster.client(|config| config.replace_best_effort = true);
        let data = bytes(200_000);
        let mut file = create(&client).await;
        file.write(&data).await.unwrap();
        file.close().await.unwrap();
        assert_eq!(cluster.data(), data);
        assert_eq!((cluster.calls("updateBlockForPipeline"), cluster.calls("updatePipeline")), (2, 1));

        // And when all fail, the writer does.
        let cluster = Cluster::start(3).await;
        cluster.fail(0, When::Packet(1), Do::Close);
        for node in 1..3 {
            cluster.fail(node, When::Setup, Do::Close);
        }
        let client = cluster.client(|config| config.replace_best_effort = true);
        let mut file = create(&client).await;
        let written = async {
            file.write(&data).await?;
            file.hflush().await
        };
        let error = written.await.unwrap_err();
        assert!(error.to_string().contains("are bad") && error.kind() == Some(Kind::Io), "{error}");
        assert_eq!(file.close().await.unwrap_err().to_string(), error.to_string());
        assert_eq!((cluster.calls("updatePipeline"), cluster.calls("complete")), (0, 0));
    });
}

#[test]
fn a_datanode_that_restarts_is_waited_for() {
    run(async {
        let data = bytes(200_000);
        let written = async |cluster: &Cluster, restart_timeout, faults: &[(When, Do, usize)]| {
            let client = cluster.client(|config| {
                config.restart_timeout = restart_timeout;
                (config.max_recoveries, config.replace_best_effort) = (2, true);
            });
            let mut file = create(&client).await;
            file.write(&data[..1000]).await?;
            file.hflush().await?;
            for (when, what, times) in faults {
                (0..*times).for_each(|_| cluster.fail(0, *when, *what));
            }
            file.write(&data[1000..]).await?;
            file.close().await
        };
        let (short, long) = (Duration::from_millis(80), Duration::from_secs(4));
        let restarts = |at, times| (When::Packet(1), Do::Restart(at), times);
        let is_down = |times| (When::Setup, Do::Close, times);

        // The only one, down for a while: more often than a pipeline may break.
        let cluster = Cluster::start(1).await;
        written(&cluster, long, &[restarts(0, 1), is_down(3)]).await.unwrap();
        assert_eq!((cluster.data() == data, cluster.calls("updatePipeline")), (true, 1));

        // One of three, on this machine; it restarts while the block is closed, too.
        let cluster = Cluster::start(3).await;
        written(&cluster, short, &[restarts(1, 1), (When::Last, Do::Restart(1), 1)]).await.unwrap();
        assert!(cluster.data() == data);
        {
            let state = cluster.lock();
            assert_eq!(state.replicas[&state.blocks[0]].nodes, ["uuid-0", "uuid-1", "uuid-2"]);
        }
        assert_eq!(cluster.calls("updatePipeline"), 2);

        // It does not come back; it says so for ever.
        for faults in [[restarts(0, 1), is_down(50)], [restarts(0, 50), is_down(0)]] {
            let cluster = Cluster::start(1).await;
            let error = written(&cluster, short, &faults).await.unwrap_err();
            assert!(error.to_string().contains("All datanodes of"), "{error}");
        }
    });
}

#[test]
fn a_datanode_takes_the_place_of_a_failed_one() {
    run(async {
        let written = async |cluster: &Cluster| {
            let client = cluster.client(|_| {});
            let mut file = create(&client).await;
            file.write(&bytes(1000)).await?;
            file.hflush().await?;
            file.write(&bytes(100_000)).await?;
            file.close().await
        };
        // After a flush; the first candidate cannot be copied to.
        let cluster = Cluster::start(5).await;
        cluster.fail(0, When::Packet(1), Do::Close);
        cluster.fail(1, When::Transfer, Do::Refuse);
        written(&cluster).await.unwrap();
        assert_eq!(cluster.data(), [bytes(1000), bytes(100_000)].concat());
        assert_eq!((cluster.calls("getAdditionalDatanode"), cluster.calls("updatePipeline")), (2, 1));
        {
            let state = cluster.lock();
            assert_eq!(state.replicas[&state.blocks[0]].nodes, ["uuid-1", "uuid-2", "uuid-4"]);
            assert_eq!(state.ops.iter().filter(|op| **op == Op::TransferBlock).count(), 2);
        }
        // There is none: that is an error, unless best effort will do.
        let cluster = Cluster::start(3).await;
        cluster.fail(0, When::Packet(1), Do::Close);
        let error = written(&cluster).await.unwrap_err();
        assert!(error.to_string().contains("Failed to replace a bad datanode"), "{error}");
    });
}

#[test]
fn flushes_send_partial_chunks_and_send_them_again() {
    run(async {
        let cluster = Cluster::start(3).await;
        let client = cluster.client(|_| {});
        let data = bytes(1300);
        let mut file = create(&client).await;
        file.hflush().await.unwrap();
        assert_eq!(cluster.calls("addBlock"), 0);
        file.write(&data[..700]).await.unwrap();
        file.hflush().await.unwrap();
        assert_eq!(cluster.data(), &data[..700]);
        file.hflush().await.unwrap();
        file.hsync(false).await.unwrap();
        file.write(&data[700..1024]).await.unwrap();
        file.hsync(true).await.unwrap();
        file.write(&data[1024..]).await.unwrap();
        file.close().await.unwrap();
        assert_eq!(cluster.data(), data);
        let packets =
            [(0, 700, false), (700, 0, true), (512, 512, true), (1024, 276, false), (1300, 0, false)];
        assert_eq!(cluster.lock().packets, packets);
        // Once for the new block, once for the length.
        let lengths: Vec<_> = cluster
            .namenode
            .seen()
            .iter()
            .filter(|call| call.method == "fsync")
            .map(|call| request::<hdfs::FsyncRequestProto>(call).last_block_length())
            .collect();
        assert_eq!(lengths, [700, 1024]);
    });
}

#[test]
fn an_append_goes_on_in_the_last_block() {
    run(async {
        let cluster = Cluster::start(3).await;
        let client = cluster.client(|_| {});
        let data = bytes(BLOCK_SIZE as usize + 9);
        let mut at = 0;
        for upto in [100, 300, 600, 1024, 1030, BLOCK_SIZE as usize, data.len()] {
            let mut file = match at {
                0 => create(&client).await,
                _ => client.append("/f", false).await.unwrap(),
            };
            assert_eq!(file.position(), at as u64);
            cluster.lock().packets.clear();
            file.write(&data[at..upto]).await.unwrap();
            file.close().await.unwrap();
            assert_eq!(cluster.data(), &data[..upto]);
            let packets = cluster.lock().packets.clone();
            // The rest of a chunk goes alone.
            if at % 512 != 0 {
                let rest = (512 - at % 512).min(upto - at);
                assert_eq!(packets[0], (at as i64, rest as i32, false), "at {at}");
            }
            at = upto;
        }
        {
            let state = cluster.lock();
            assert_eq!(state.stages.iter().filter(|s| **s == Stage::PipelineSetupAppend).count(), 5);
            assert_eq!(state.stages.iter().filter(|s| **s == Stage::PipelineSetupCreate).count(), 2);
            assert_eq!(state.replicas[&state.blocks[0]].generation_stamp, 1005);
        }
        assert_eq!((cluster.calls("updateBlockForPipeline"), cluster.calls("updatePipeline")), (5, 5));

        // Its pipeline may fail before anything is sent.
        cluster.fail(0, When::Setup, Do::BadLink(1));
        let client = cluster.client(|config| config.replace_best_effort = true);
        let mut file = client.append("/f", false).await.unwrap();
        file.write(b"more").await.unwrap();
        file.close().await.unwrap();
        assert_eq!(cluster.data(), [&data[..], b"more"].concat());
        assert_eq!(cluster.lock().stages.last(), Some(&Stage::PipelineSetupAppendRecovery));
    });
}

#[test]
fn a_block_that_comes_too_early_is_asked_for_again() {
    run(async {
        let cluster = Cluster::start(3).await;
        cluster.lock().too_early = 3;
        let client = cluster.client(|_| {});
        let mut file = create(&client).await;
        file.write(b"x").await.unwrap();
        file.close().await.unwrap();
        assert_eq!(cluster.calls("addBlock"), 4);
        cluster.lock().too_early = 99;
        let mut file = create(&client).await;
        file.write(b"x").await.unwrap();
        assert_eq!(file.close().await.unwrap_err().kind(), Some(Kind::NotReplicatedYet));
        assert_eq!(cluster.calls("addBlock"), 10);
    });
}

#[test]
fn a_writer_waits_for_acks_says_that_it_lives_and_ends_when_dropped() {
    run(async {
        let cluster = Cluster::start(3).await;
        cluster.fail(0, When::Packet(0), Do::Silence);
        let client = cluster.client(|config| config.max_unacked_packets = 3);
        let mut file = create(&client).await;
        let data = bytes(BLOCK_SIZE as usize);
        assert!(timeout(Duration::from_millis(300), file.write(&data)).await.is_err(), "too much was taken");
        assert!(file.position() <= 4 * PACKET as u64, "{file:?}");
        let ended = cluster.lock().ended;
        drop(file);
        until("the end of the connection", || cluster.lock().ended > ended).await;
        assert_eq!(cluster.calls("complete"), 0);

        let client = cluster.client(|config| config.heartbeat_interval = Duration::from_millis(10));
        let mut file = create(&client).await;
        file.write(b"x").await.unwrap();
        file.hflush().await.unwrap();
        until("heartbeats", || cluster.lock().heartbeats > 2).await;
        file.close().await.unwrap();
    });
}

/// A cluster with a file.
async fn with_file(len: usize) -> (Cluster, Vec<u8>) {
    let cluster = Cluster::start(3).await;
    let data = bytes(len);
    let mut file = create(&cluster.client(|_| {})).await;
    file.write(&data).await.unwrap();
    file.close().await.unwrap();
    (cluster, data)
}

#[test]
fn reads_go_on_elsewhere() {
    run(async {
        for what in [Do::Close, Do::Refuse, Do::CloseMidway, Do::Corrupt, Do::NothingForEver] {
            let (cluster, data) = with_file(100_000).await;
            for node in 0..2 {
                cluster.fail(node, When::Read, what);
            }
            assert_eq!(read(&cluster.client(|_| {})).await.unwrap(), data, "{what:?}");
            let reported = cluster.lock().reported.clone();
            let want: &[&str] = if what == Do::Corrupt { &["uuid-0", "uuid-1"] } else { &[] };
            assert_eq!(reported, want, "{what:?}");
            assert_eq!(cluster.calls("getBlockLocations"), 1);
        }
    });
}

#[test]
fn a_block_that_nobody_gives_is_asked_for_again_and_then_given_up() {
    run(async {
        let (cluster, data) = with_file(10_000).await;
        // Two rounds over all datanodes.
        for node in [0, 1, 2, 0, 1, 2] {
            cluster.fail(node, When::Read, Do::Close);
        }
        let client = cluster.client(|_| {});
        assert_eq!(read(&client).await.unwrap(), data);
        assert_eq!(cluster.calls("getBlockLocations"), 3);

        for node in 0..3 {
            for _ in 0..9 {
                cluster.fail(node, When::Read, Do::Corrupt);
            }
        }
        let error = read(&client).await.map(drop).unwrap_err();
        assert!(error.to_string().contains("Could not obtain block"), "{error}");
        assert_eq!(cluster.calls("getBlockLocations"), 3 + 4);
        // The last of three is as likely to be right as this machine: it is not reported.
        assert_eq!(cluster.lock().reported.len(), 2 * 4);
    });
}

#[test]
fn an_open_file_is_as_long_as_its_datanodes_say() {
    run(async {
        let (cluster, data) = with_file(BLOCK_SIZE as usize + 5000).await;
        let client = cluster.client(|_| {});
        cluster.lock().visible = Some(3000);
        let file = client.open("/f").await.unwrap();
        assert!(file.is_open());
        assert_eq!(file.len(), BLOCK_SIZE + 3000);
        assert_eq!(read(&client).await.unwrap(), &data[..BLOCK_SIZE as usize + 3000]);
        cluster.lock().visible = Some(5000);
        assert_eq!(file.refresh().await.unwrap(), data.len() as u64);
        // -1: all have stopped meanwhile, and none knows what was acked.
        cluster.lock().visible = Some(u64::MAX);
        let error = client.open("/f").await.map(drop).unwrap_err();
        assert!(error.to_string().contains("Cannot obtain block length"), "{error}");
        assert_eq!(
            &file.read_at(BLOCK_SIZE + 2900, 9999).await.unwrap()[..],
            &data[BLOCK_SIZE as usize + 2900..]
        );
    });
}
