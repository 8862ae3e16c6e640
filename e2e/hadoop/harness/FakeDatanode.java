import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.crypto.CryptoProtocolVersion;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.AddBlockFlag;
import org.apache.hadoop.hdfs.protocol.BlockListAsLongs;
import org.apache.hadoop.hdfs.protocol.BlockListAsLongs.BlockReportReplica;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.apache.hadoop.hdfs.protocol.DatanodeID;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;
import org.apache.hadoop.hdfs.protocolPB.DatanodeProtocolClientSideTranslatorPB;
import org.apache.hadoop.hdfs.security.token.block.ExportedBlockKeys;
import org.apache.hadoop.hdfs.server.datanode.DataStorage;
import org.apache.hadoop.hdfs.server.protocol.BlockReportContext;
import org.apache.hadoop.hdfs.server.protocol.DatanodeRegistration;
import org.apache.hadoop.hdfs.server.protocol.DatanodeStorage;
import org.apache.hadoop.hdfs.server.protocol.NamespaceInfo;
import org.apache.hadoop.hdfs.server.protocol.ReceivedDeletedBlockInfo;
import org.apache.hadoop.hdfs.server.protocol.SlowDiskReports;
import org.apache.hadoop.hdfs.server.protocol.SlowPeerReports;
import org.apache.hadoop.hdfs.server.protocol.StorageBlockReport;
import org.apache.hadoop.hdfs.server.protocol.StorageReceivedDeletedBlocks;
import org.apache.hadoop.hdfs.server.protocol.StorageReport;
import org.apache.hadoop.io.EnumSetWritable;
import org.apache.hadoop.net.NetUtils;
import org.apache.hadoop.util.VersionInfo;

/**
 * A datanode that has no bytes: it registers, sends heartbeats, and says that it holds every block that it is given. Makes
 * files of 100 blocks of 1 KB, then reports all of them as often as it is told. Commands on stdin: `report`, each answered
 * with `right SECONDS`; `right BLOCKS` comes first, when the files are there. It must be the only datanode.
 *
 * <p>usage: hdfs probe FakeDatanode BLOCKS
 */
public final class FakeDatanode {
  private static final int PER_FILE = 100, GROUP = 50, THREADS = 4, LENGTH = 1024, COMPLETE_TRIES = 100;
  private static final long CAPACITY = 1L << 40;

  private final DatanodeProtocolClientSideTranslatorPB namenode;
  private final ClientProtocol client;
  private final DatanodeRegistration me;
  private final DatanodeStorage storage = new DatanodeStorage("DS-" + UUID.randomUUID());
  private final String pool;
  private final List<BlockReportReplica> held = new ArrayList<>();
  private long reports;

  private FakeDatanode(Configuration conf) throws Exception {
    var address = NetUtils.createSocketAddr(FileSystem.getDefaultUri(conf).getAuthority(), 8020);
    namenode = new DatanodeProtocolClientSideTranslatorPB(address, conf);
    client = Probe.as(conf, FileSystem.getDefaultUri(conf), Probe.SUPER);
    NamespaceInfo info = namenode.versionRequest();
    pool = info.getBlockPoolID();
    DatanodeID id = new DatanodeID("127.0.0.1", "127.0.0.1", UUID.randomUUID().toString(), 1, 2, 0, 3);
    me = namenode.registerDatanode(new DatanodeRegistration(id, new DataStorage(info), new ExportedBlockKeys(), VersionInfo.getVersion()));
    me.setNamespaceInfo(info);
    heartbeat(false);
    report();
    Thread beats = new Thread(() -> {
      try {
        while (true) {
          Thread.sleep(1000);
          heartbeat(false);
        }
      } catch (Exception e) {
        System.out.println("wrong: heartbeat: " + e);
        System.exit(1);
      }
    });
    beats.setDaemon(true);
    beats.start();
  }

  /** The lease for a full report, if one is asked for. */
  private long heartbeat(boolean lease) throws Exception {
    StorageReport[] storages = {new StorageReport(storage, false, CAPACITY, 0, CAPACITY, 0, 0)};
    return namenode.sendHeartbeat(me, storages, 0, 0, 0, 0, 0, null, lease, SlowPeerReports.EMPTY_REPORT, SlowDiskReports.EMPTY_REPORT)
        .getFullBlockReportLeaseId();
  }

  private double report() throws Exception {
    BlockListAsLongs.Builder all = BlockListAsLongs.builder();
    for (BlockReportReplica b : held) all.add(b);
    StorageBlockReport[] report = {new StorageBlockReport(storage, all.build())};
    long lease = heartbeat(true), start = System.nanoTime();
    namenode.blockReport(me, pool, report, new BlockReportContext(1, 0, ++reports, lease));
    return (System.nanoTime() - start) / 1e9;
  }

  /** A group of files grows block by block, so that one incremental report tells of a block of each. */
  private void group(String dir) throws Exception {
    ExtendedBlock[] last = new ExtendedBlock[GROUP];
    for (int f = 0; f < GROUP; f++) {
      client.create(dir + "/f" + f, new FsPermission((short) 0644), "fake", new EnumSetWritable<>(EnumSet.of(CreateFlag.CREATE)), true, (short) 1, LENGTH,
          CryptoProtocolVersion.supported(), null, null);
    }
    for (int n = 0; n < PER_FILE; n++) {
      ReceivedDeletedBlockInfo[] received = new ReceivedDeletedBlockInfo[GROUP];
      for (int f = 0; f < GROUP; f++) {
        last[f] = client.addBlock(dir + "/f" + f, "fake", last[f], null, HdfsConstants.GRANDFATHER_INODE_ID, null, EnumSet.noneOf(AddBlockFlag.class)).getBlock();
        last[f].setNumBytes(LENGTH);
        received[f] = new ReceivedDeletedBlockInfo(last[f].getLocalBlock(), ReceivedDeletedBlockInfo.BlockStatus.RECEIVED_BLOCK, null);
      }
      namenode.blockReceivedAndDeleted(me, pool, new StorageReceivedDeletedBlocks[] {new StorageReceivedDeletedBlocks(storage, received)});
      synchronized (held) {
        for (ExtendedBlock b : last) held.add(new BlockReportReplica(b.getLocalBlock()));
      }
    }
    for (int f = 0; f < GROUP; f++) {
      // false: what was reported last is not counted yet, as clients know
      for (int tries = 0; !client.complete(dir + "/f" + f, "fake", last[f], HdfsConstants.GRANDFATHER_INODE_ID); tries++) {
        if (tries == COMPLETE_TRIES) throw new IllegalStateException("complete answers false");
        Thread.sleep(100);
      }
    }
  }

  public static void main(String[] args) throws Exception {
    int groups = Integer.parseInt(args[0]) / (GROUP * PER_FILE);
    FakeDatanode datanode = new FakeDatanode(Probe.conf());
    ExecutorService threads = Executors.newFixedThreadPool(THREADS);
    AtomicInteger next = new AtomicInteger();
    List<Future<?>> all = new ArrayList<>();
    for (int i = 0; i < THREADS; i++) {
      all.add(threads.submit(() -> {
        for (int n; (n = next.getAndIncrement()) < groups; ) datanode.group("/fake/" + n);
        return null;
      }));
    }
    for (Future<?> f : all) f.get();
    System.out.println("right " + datanode.held.size());
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = in.readLine()) != null && line.equals("report"); ) System.out.println("right " + datanode.report());
    System.exit(0);
  }
}
