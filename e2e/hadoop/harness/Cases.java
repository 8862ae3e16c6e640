import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.crypto.CryptoProtocolVersion;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.apache.hadoop.hdfs.protocol.DirectoryListing;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;
import org.apache.hadoop.io.EnumSetWritable;

/** What the cases share: connections to the namenodes, taken in turn, and short names for what they do all the time. */
abstract class Cases {
  static final FsPermission P755 = new FsPermission((short) 0755), P644 = new FsPermission((short) 0644);
  static final long ANY = HdfsConstants.GRANDFATHER_INODE_ID;
  static final int TRIES = Integer.getInteger("tries", 100);

  final Configuration conf = Probe.conf();
  final List<URI> namenodes;
  final List<ClientProtocol> first = new ArrayList<>(), second = new ArrayList<>(), alice = new ArrayList<>(), bob = new ArrayList<>();
  final ExecutorService pool = Executors.newFixedThreadPool(8);
  int turn;
  String name;

  Cases(String[] args) throws Exception {
    namenodes = Probe.namenodes(conf, args);
    for (URI n : namenodes) {
      first.add(Probe.as(conf, n, Probe.SUPER));
      second.add(Probe.as(conf, n, Probe.SUPER)); // a second connection: two calls of one id must not share one
      alice.add(Probe.as(conf, n, "alice"));
      bob.add(Probe.as(conf, n, "bob"));
    }
  }

  ClientProtocol next(List<ClientProtocol> of) {
    return of.get(turn++ % of.size());
  }

  ClientProtocol nn() {
    return next(first);
  }

  /** A new client of the next namenode, with a lease of its own. */
  DistributedFileSystem client() throws Exception {
    return (DistributedFileSystem) FileSystem.newInstance(namenodes.get(turn++ % namenodes.size()), conf);
  }

  static CryptoProtocolVersion[] versions() {
    return CryptoProtocolVersion.supported();
  }

  void row(String step, Probe.Op op) {
    System.out.println(name + "\t" + Probe.clean(step) + "\t" + Probe.answer(op));
  }

  interface Call {
    void run() throws Exception;
  }

  void ok(String step, Call call) {
    row(step, () -> {
      call.run();
      return "";
    });
  }

  void fresh() throws Exception {
    nn().delete("/t", true);
    nn().mkdirs("/t", P755, true);
  }

  void mkdir(String... paths) throws Exception {
    for (String p : paths) nn().mkdirs(p, P755, true);
  }

  HdfsFileStatus create(ClientProtocol c, String path, FsPermission mode, boolean parents, CreateFlag... flags) throws Exception {
    return c.create(path, mode, "case", new EnumSetWritable<>(EnumSet.copyOf(Arrays.asList(flags))), parents, (short) 1, 1 << 20, versions(), null, null);
  }

  void file(String... paths) throws Exception {
    for (String p : paths) {
      create(nn(), p, P644, true, CreateFlag.CREATE);
      nn().complete(p, "case", null, ANY);
    }
  }

  String stat(String path) throws Exception {
    return Probe.status(nn().getFileInfo(path));
  }

  String mode(String path) throws Exception {
    HdfsFileStatus s = nn().getFileInfo(path);
    return s == null ? "absent" : Probe.mode(s.getPermission()) + " " + Probe.owner(s.getOwner()) + ":" + s.getGroup();
  }

  static String page(DirectoryListing d) {
    if (d == null) return "absent";
    HdfsFileStatus[] e = d.getPartialListing();
    String ends = e.length == 0 ? "" : " " + e[0].getLocalName() + ".." + e[e.length - 1].getLocalName();
    return e.length + ends + " remaining=" + d.getRemainingEntries();
  }

  DirectoryListing list(String path, String after) throws Exception {
    return nn().getListing(path, after.getBytes(StandardCharsets.UTF_8), false);
  }

  String names(String path) throws Exception {
    DirectoryListing d = list(path, "");
    return d == null ? "absent" : Arrays.stream(d.getPartialListing()).map(HdfsFileStatus::getLocalName).toList().toString();
  }

  <T> List<T> together(Callable<T> a, Callable<T> b) throws Exception {
    CyclicBarrier start = new CyclicBarrier(2);
    List<Future<T>> both = new ArrayList<>();
    for (Callable<T> c : List.of(a, b)) {
      both.add(pool.submit(() -> {
        start.await();
        return c.call();
      }));
    }
    return List.of(both.get(0).get(), both.get(1).get());
  }

  /** What this class tries, in order. */
  abstract List<Call> cases();

  /** Runs the cases; where a set-up fails, that case ends and the others still count. */
  void runAll() throws Exception {
    for (Call c : cases()) {
      long start = System.nanoTime();
      try {
        c.run();
        System.err.println(name + ": " + (System.nanoTime() - start) / 1_000_000 + " ms");
      } catch (Exception e) {
        System.out.println(name + "\tset-up\t" + Probe.failure(e));
      }
    }
    nn().delete("/t", true);
  }
}
