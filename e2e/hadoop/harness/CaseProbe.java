import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.crypto.CryptoProtocolVersion;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.Rename;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsCreateModes;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.apache.hadoop.hdfs.protocol.DirectoryListing;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;
import org.apache.hadoop.io.EnumSetWritable;
import org.apache.hadoop.ipc.Client;

/**
 * Cases from the field, as steps on the raw RPC. Output, tab-separated, one header line: case, step, result (OK or the
 * exception's class), value, first_line (for people, not compared).
 *
 * <p>usage: hdfs probe CaseProbe [hdfs://HOST:PORT ...] With several namenodes the steps go to them in turn, a replay goes
 * to another one than the first call, and what runs at the same instant runs on two of them. The namespace below /t is
 * the probe's. ../wire/cases.tsv is the output against the stock NameNode without a datanode.
 */
public final class CaseProbe {
  private static final FsPermission P755 = new FsPermission((short) 0755), P644 = new FsPermission((short) 0644);
  private static final long ANY = HdfsConstants.GRANDFATHER_INODE_ID;
  private static final int TRIES = Integer.getInteger("tries", 100);

  private final Configuration conf = Probe.conf();
  private final List<URI> namenodes;
  private final List<ClientProtocol> first = new ArrayList<>(), second = new ArrayList<>(), alice = new ArrayList<>(), bob = new ArrayList<>();
  private final ExecutorService pool = Executors.newFixedThreadPool(8);
  private int turn;
  private String name;

  private CaseProbe(String[] args) throws Exception {
    namenodes = Probe.namenodes(conf, args);
    for (URI n : namenodes) {
      first.add(Probe.as(conf, n, Probe.SUPER));
      second.add(Probe.as(conf, n, Probe.SUPER)); // a second connection: two calls of one id must not share one
      alice.add(Probe.as(conf, n, "alice"));
      bob.add(Probe.as(conf, n, "bob"));
    }
  }

  private ClientProtocol next(List<ClientProtocol> of) {
    return of.get(turn++ % of.size());
  }

  private ClientProtocol nn() {
    return next(first);
  }

  private void row(String step, Probe.Op op) {
    System.out.println(name + "\t" + Probe.clean(step) + "\t" + Probe.answer(op));
  }

  interface Call {
    void run() throws Exception;
  }

  private void ok(String step, Call call) {
    row(step, () -> {
      call.run();
      return "";
    });
  }

  private void fresh() throws Exception {
    nn().delete("/t", true);
    nn().mkdirs("/t", P755, true);
  }

  private void mkdir(String... paths) throws Exception {
    for (String p : paths) nn().mkdirs(p, P755, true);
  }

  private HdfsFileStatus create(ClientProtocol c, String path, FsPermission mode, boolean parents, CreateFlag... flags) throws Exception {
    return c.create(path, mode, "case", new EnumSetWritable<>(EnumSet.copyOf(Arrays.asList(flags))), parents, (short) 1, 1 << 20, CryptoProtocolVersion.supported(), null, null);
  }

  private void file(String... paths) throws Exception {
    for (String p : paths) {
      create(nn(), p, P644, true, CreateFlag.CREATE);
      nn().complete(p, "case", null, ANY);
    }
  }

  private String stat(String path) throws Exception {
    return Probe.status(nn().getFileInfo(path));
  }

  private String mode(String path) throws Exception {
    HdfsFileStatus s = nn().getFileInfo(path);
    return s == null ? "absent" : Probe.mode(s.getPermission()) + " " + Probe.owner(s.getOwner()) + ":" + s.getGroup();
  }

  private static String page(DirectoryListing d) {
    if (d == null) return "absent";
    HdfsFileStatus[] e = d.getPartialListing();
    String ends = e.length == 0 ? "" : " " + e[0].getLocalName() + ".." + e[e.length - 1].getLocalName();
    return e.length + ends + " remaining=" + d.getRemainingEntries();
  }

  private DirectoryListing list(String path, String after) throws Exception {
    return nn().getListing(path, after.getBytes(StandardCharsets.UTF_8), false);
  }

  private String names(String path) throws Exception {
    DirectoryListing d = list(path, "");
    return d == null ? "absent" : Arrays.stream(d.getPartialListing()).map(HdfsFileStatus::getLocalName).toList().toString();
  }

  // ---- R: renames ----

  private void renameTable() throws Exception {
    name = "R1";
    String[][] moves = {
      {"/t/f", "/t/g"}, {"/t/f", "/t/d"}, {"/t/d", "/t/e"}, {"/t/ne", "/t/d"}, {"/t/d", "/t/f"}, {"/t/f", "/t/f"}, {"/t/d", "/t/d"},
      {"/t/nosuch", "/t/z"}, {"/t/nosuch", "/t/f"}, {"/t/f", "/t/nodir/z"}, {"/t/f", "/t/g/z"}, {"/t/deep", "/t/deep/er"},
      {"/t/deep", "/t/deep/er/x"}, {"/", "/t/x"}, {"/t/g", "/"}, {"/t/d", "/t/f/d"}, {"/t/nosuch/k", "/t/z"}, {"/t/f/k", "/t/z"}, {"/t/deep/er", "/t/deep"},
    };
    for (String[] m : moves) {
      renameSetup();
      row("rename " + m[0] + " " + m[1], () -> nn().rename(m[0], m[1]) + " => " + stat(m[0]) + ", " + stat(m[1]) + " " + names("/t"));
      renameSetup();
      ok("rename2 " + m[0] + " " + m[1], () -> nn().rename2(m[0], m[1]));
      renameSetup();
      ok("rename2 overwriting " + m[0] + " " + m[1], () -> nn().rename2(m[0], m[1], Rename.OVERWRITE));
    }
    renameSetup();
    nn().rename("/t/f", "/t/d");
    file("/t/f");
    row("rename /t/f /t/d a second time", () -> nn().rename("/t/f", "/t/d"));
    ok("rename2 overwriting an empty directory by a full one", () -> nn().rename2("/t/ne", "/t/e", Rename.OVERWRITE));
    row("afterwards", () -> names("/t") + names("/t/e"));
    nn().delete("/g", true);
  }

  private void renameSetup() throws Exception {
    nn().delete("/g", true);
    fresh();
    mkdir("/t/d", "/t/e", "/t/ne/k", "/t/deep/er");
    file("/t/f", "/t/g");
  }

  private void ownSubtree() throws Exception {
    name = "R3";
    fresh();
    mkdir("/t/deep/er");
    row("rename to the same prefix", () -> nn().rename("/t/deep", "/t/deeper") + " " + names("/t"));
    ok("rename2 to the same prefix", () -> nn().rename2("/t/deeper", "/t/deep"));
    row("rename below itself", () -> nn().rename("/t/deep", "/t/deep/er/x"));
    ok("rename2 below itself", () -> nn().rename2("/t/deep", "/t/deep/er/x"));
    mkdir("/t/a", "/t/ab");
    row("rename into the sibling of the same prefix", () -> nn().rename("/t/a", "/t/ab/c") + " " + names("/t"));
  }

  private void crossing() throws Exception {
    name = "R4";
    fresh();
    Set<String> old = new java.util.TreeSet<>(), two = new java.util.TreeSet<>();
    for (int i = 0; i < TRIES; i++) {
      old.add(cross((c, a, b) -> c.rename(a, b)));
      two.add(cross((c, a, b) -> {
        c.rename2(a, b);
        return true;
      }));
    }
    row("crossing renames, all tries", () -> old);
    row("crossing renames (rename2), all tries", () -> two);
  }

  interface Move {
    boolean run(ClientProtocol c, String from, String to) throws Exception;
  }

  private String cross(Move move) throws Exception {
    nn().delete("/t/l", true);
    mkdir("/t/l/a/x/y", "/t/l/c/d/e");
    List<Boolean> done = together(
        () -> won(() -> move.run(first.get(0), "/t/l/a", "/t/l/c/d/e/a")),
        () -> won(() -> move.run(second.get(second.size() - 1), "/t/l/c", "/t/l/a/x/y/c")));
    int wins = (done.get(0) ? 1 : 0) + (done.get(1) ? 1 : 0);
    return "winners=" + wins + " directories=" + nn().getContentSummary("/t/l").getDirectoryCount();
  }

  private static boolean won(Callable<Boolean> call) throws Exception {
    try {
      return call.call();
    } catch (org.apache.hadoop.ipc.RemoteException e) {
      if (e.getClassName().equals("java.io.IOException") || e.getClassName().equals("java.io.FileNotFoundException")) return false;
      throw e;
    }
  }

  private <T> List<T> together(Callable<T> a, Callable<T> b) throws Exception {
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

  // ---- A: the client's RPC ----

  private void fileForDirectory() throws Exception {
    name = "A1";
    fresh();
    file("/t/f");
    mkdir("/t/d");
    row("mkdirs under a file", () -> nn().mkdirs("/t/f/x", P755, true));
    row("mkdirs over a file", () -> nn().mkdirs("/t/f", P755, true));
    row("create under a file", () -> create(nn(), "/t/f/y", P644, true, CreateFlag.CREATE).getLocalName());
    row("create over a directory", () -> create(nn(), "/t/d", P644, true, CreateFlag.CREATE, CreateFlag.OVERWRITE).getLocalName());
    row("getFileInfo under a file", () -> stat("/t/f/z"));
    row("getListing under a file", () -> page(list("/t/f/z", "")));
    row("delete under a file", () -> nn().delete("/t/f/z", true));
    row("getContentSummary under a file", () -> nn().getContentSummary("/t/f/z").getFileCount());
    row("mkdirs of an existing directory", () -> nn().mkdirs("/t/d", P755, true));
    row("mkdirs without parent", () -> nn().mkdirs("/t/no/x", P755, false));
    row("mkdirs without createParent of an existing directory", () -> nn().mkdirs("/t/d", P755, false));
    row("mkdirs without createParent over a file", () -> nn().mkdirs("/t/f", P755, false));
    row("create without createParent", () -> create(nn(), "/t/no/f", P644, false, CreateFlag.CREATE).getLocalName());
    row("create without CREATE", () -> create(nn(), "/t/new", P644, false, CreateFlag.OVERWRITE).getLocalName());
    row("afterwards", () -> names("/t"));
  }

  private void limits() throws Exception {
    name = "A2";
    fresh();
    String deep = "/t" + "/x".repeat(999), euro = "\u20ac";
    String long8000 = "/t" + ("/" + "b".repeat(198)).repeat(40) + "/" + "b".repeat(37);
    String[][] made = {
      {"255 bytes", "/t/" + "a".repeat(255)}, {"256 bytes", "/t/" + "a".repeat(256)}, {"255 bytes of 3-byte characters", "/t/" + euro.repeat(85)},
      {"258 bytes of 3-byte characters", "/t/" + euro.repeat(86)}, {"depth 1000", deep}, {"depth 1001", deep + "/x"}, {long8000.length() + " characters", long8000},
      {long8000.length() + 1 + " characters", long8000 + "b"}, {"empty component", "/t//b"}, {"dot", "/t/./b"}, {"dot dot", "/t/../b"}, {"colon", "/t/a:b"}, {"relative", "t/rel"}, {"nothing", ""},
      {"trailing slash", "/t/a/"}, {"space", "/t/sp ace"}, {"percent", "/t/a%20b"}, {"plus", "/t/a+b"}, {"star", "/t/*"}, {"backslash", "/t/back\\slash"}, {"newline", "/t/new\nline"}, {"dots in a name", "/t/..."},
      {"snapshot directory", "/t/.snapshot"}, {"below a snapshot directory", "/t/.snapshot/x"}, {"reserved", "/.reserved/x"}, {"reserved itself", "/.reserved"}, {"reserved elsewhere", "/t/.reserved"},
    };
    for (String[] m : made) {
      row("mkdirs " + m[0], () -> nn().mkdirs(m[1], P755, true) + " => " + stat(m[1]));
      if (m[1].length() > 1000) nn().delete("/t/x", true);
    }
    for (String[] m : made) {
      if (m[1].length() < 1000) row("getFileInfo " + m[0], () -> stat(m[1]));
      if (m[1].length() < 1000) row("delete " + m[0], () -> nn().delete(m[1], true));
    }
    file("/t/f");
    String n256 = "/t/" + "n".repeat(256);
    row("create 256 bytes", () -> create(nn(), n256, P644, true, CreateFlag.CREATE).getLocalName());
    row("rename to 256 bytes", () -> nn().rename("/t/f", n256));
    ok("rename2 to 256 bytes", () -> nn().rename2("/t/f", n256));
    for (short replication : new short[] {0, 1, 512, 513, 600}) row("create with replication " + replication, () -> sized("/t/r" + replication, replication, 1 << 20));
    for (long size : new long[] {0, 512, 1023, 1024, 1025, 1537, 1L << 40}) row("create with block size " + size, () -> sized("/t/b" + size, (short) 1, size));
    row("block size 1537 through the client", () -> FileSystem.newInstance(conf).create(new Path("/t/c1537"), true, 512, (short) 1, 1537));
    row("afterwards", () -> names("/t"));
    for (String p : new String[] {"/.reserved", "/.reserved/.inodes", "/.reserved/raw", "/.reserved/.inodes/16385", "/.reserved/.inodes/16385/t/f", "/.reserved/.inodes/99999999", "/.reserved/raw/t/f"}) {
      row("getFileInfo " + p, () -> nn().getFileInfo(p) == null ? "absent" : "found");
      row("getListing " + p, () -> p.contains("16385") || p.equals("/.reserved/raw") ? list(p, "") != null : names(p));
    }
    row("getFileInfo of the parent of /t by id", () -> nn().getFileInfo("/.reserved/.inodes/" + nn().getFileInfo("/t").getFileId() + "/..").getFileId());
    row("getFileInfo of a child by id", () -> stat("/.reserved/.inodes/" + nn().getFileInfo("/t").getFileId() + "/f"));
    row("delete /.reserved", () -> nn().delete("/.reserved", true));
    row("rename to reserved", () -> nn().rename("/t/f", "/.reserved/f"));
    row("delete / not recursive", () -> nn().delete("/", false));
  }

  private String sized(String path, short replication, long blockSize) throws Exception {
    return Probe.status(nn().create(path, P644, "case", new EnumSetWritable<>(EnumSet.of(CreateFlag.CREATE)), true, replication, blockSize, CryptoProtocolVersion.supported(), null, null));
  }

  /** The same call again on another namenode, and as a new call. */
  private void replays() throws Exception {
    name = "A4";
    fresh();
    for (String p : new String[] {"rename", "rename2", "delete"}) file("/t/" + p);
    mkdir("/t/full/k", "/t/modes");
    replay("rename", c -> c.rename("/t/rename", "/t/renamed"));
    replay("rename2", c -> {
      c.rename2("/t/rename2", "/t/renamed2");
      return "";
    });
    replay("rename2 overwriting", c -> {
      c.rename2("/t/renamed2", "/t/renamed", Rename.OVERWRITE);
      return "";
    });
    replay("delete", c -> c.delete("/t/delete", false));
    replay("delete recursive", c -> c.delete("/t/full", true));
    replay("delete of a missing path", c -> c.delete("/t/missing", true));
    long[] id = new long[1];
    replay("create", c -> {
      long now = create(c, "/t/create", P644, true, CreateFlag.CREATE).getFileId();
      if (id[0] == 0) id[0] = now;
      return now == id[0] ? "the same inode" : "another inode";
    });
    row("create, once completed, replayed", () -> {
      int call = Client.nextCallId();
      Client.setCallIdAndRetryCount(call, 0, null);
      long a = create(first.get(0), "/t/create2", P644, true, CreateFlag.CREATE).getFileId();
      nn().complete("/t/create2", "case", null, ANY);
      Client.setCallIdAndRetryCount(call, 1, null);
      return create(second.get(second.size() - 1), "/t/create2", P644, true, CreateFlag.CREATE).getFileId() == a ? "the same inode" : "another inode";
    });
    replay("mkdirs", c -> c.mkdirs("/t/mkdirs", P755, true));
    replay("setPermission", c -> {
      c.setPermission("/t/modes", new FsPermission((short) 0711));
      return "";
    });
    for (String kind : new String[] {"rename", "rename2", "delete", "create"}) {
      Set<String> seen = new java.util.TreeSet<>();
      for (int i = 0; i < TRIES; i++) seen.add(hedge(kind, i));
      row("hedged " + kind + ", all tries", () -> seen);
    }
  }

  interface Send {
    Object run(ClientProtocol c) throws Exception;
  }

  private void replay(String what, Send send) {
    int call = Client.nextCallId();
    sent(what + ": first", call, 0, first.get(0), send);
    sent(what + ": the same call", call, 1, second.get(second.size() - 1), send);
    sent(what + ": as a new call", Client.nextCallId(), 0, nn(), send);
  }

  private void sent(String step, int call, int retry, ClientProtocol c, Send send) {
    row(step, () -> {
      Client.setCallIdAndRetryCount(call, retry, null);
      return send.run(c);
    });
  }

  /** One call, retry count 0 in both, to two namenodes at once, as RequestHedgingProxyProvider sends it. */
  private String hedge(String kind, int i) throws Exception {
    String p = "/t/hedge-" + kind + "-" + i;
    if (!kind.equals("create")) file(p);
    int call = Client.nextCallId();
    Send send = c -> {
      Client.setCallIdAndRetryCount(call, 0, null);
      switch (kind) {
        case "rename": return c.rename(p, p + "x");
        case "delete": return c.delete(p, false);
        case "rename2":
          c.rename2(p, p + "x");
          return "";
        default: return create(c, p, P644, true, CreateFlag.CREATE).getFileId();
      }
    };
    List<String> both = together(() -> Probe.answer(() -> send.run(first.get(0))), () -> Probe.answer(() -> send.run(second.get(second.size() - 1))));
    String a = both.get(0).replace("\t", " ").trim(), b = both.get(1).replace("\t", " ").trim();
    if (kind.equals("create")) return a.equals(b) && a.startsWith("OK ") ? "the same inode" : a + " / " + b;
    return a + " / " + b;
  }

  private void times() throws Exception {
    name = "A6";
    fresh();
    mkdir("/t/d/sub", "/t/other");
    file("/t/d/f", "/t/d/gone");
    moved("create a child", () -> file("/t/d/new"));
    moved("delete a child", () -> nn().delete("/t/d/gone", false));
    moved("rename a child in place", () -> nn().rename("/t/d/new", "/t/d/newer"));
    moved("mkdirs a child", () -> mkdir("/t/d/dir"));
    moved("rename2 a child onto another", () -> nn().rename2("/t/d/newer", "/t/d/f", Rename.OVERWRITE));
    moved("setPermission of the file", () -> nn().setPermission("/t/d/f", P755));
    moved("setOwner of the file", () -> nn().setOwner("/t/d/f", "alice", "bin"));
    moved("setReplication of the file", () -> nn().setReplication("/t/d/f", (short) 2));
    moved("setPermission of the directory", () -> nn().setPermission("/t/d", P755));
    moved("create in a grandchild", () -> file("/t/d/sub/g"));
    moved("delete in a grandchild", () -> nn().delete("/t/d/sub/g", false));
    moved("rename the file away", () -> nn().rename("/t/d/f", "/t/other/f"));
    moved("rename the file back", () -> nn().rename("/t/other/f", "/t/d/f"));
    moved("rename refused", () -> nn().rename("/t/d/f", "/t/nosuch/f"));
    moved("mkdirs existing", () -> mkdir("/t/d/dir"));
    moved("create over the file", () -> {
      create(nn(), "/t/d/f", P644, true, CreateFlag.CREATE, CreateFlag.OVERWRITE);
      Thread.sleep(3);
    });
    moved("complete the file", () -> nn().complete("/t/d/f", "case", null, ANY));
    row("setTimes, access time only", () -> {
      long m = nn().getFileInfo("/t/d/f").getModificationTime();
      nn().setTimes("/t/d/f", -1, 5000);
      HdfsFileStatus s = nn().getFileInfo("/t/d/f");
      return "mtime " + (s.getModificationTime() == m ? "same" : "moved") + " atime " + s.getAccessTime();
    });
    row("first read", () -> {
      nn().getBlockLocations("/t/d/f", 0, 1);
      return "atime " + (nn().getFileInfo("/t/d/f").getAccessTime() == 5000 ? "same" : "moved");
    });
    row("second read", () -> {
      long a = nn().getFileInfo("/t/d/f").getAccessTime();
      Thread.sleep(3);
      nn().getBlockLocations("/t/d/f", 0, 1);
      return "atime " + (nn().getFileInfo("/t/d/f").getAccessTime() == a ? "same" : "moved");
    });
    row("access time of a directory", () -> nn().getFileInfo("/t/d").getAccessTime());
    row("setTimes of a directory", () -> {
      nn().setTimes("/t/d", 7000, 6000);
      HdfsFileStatus s = nn().getFileInfo("/t/d");
      return s.getModificationTime() + " " + s.getAccessTime();
    });
    row("setTimes backwards of a file", () -> {
      nn().setTimes("/t/d/f", 7000, -1);
      return nn().getFileInfo("/t/d/f").getModificationTime();
    });
    row("setTimes of both -1", () -> {
      nn().setTimes("/t/d/f", -1, -1);
      return nn().getFileInfo("/t/d/f").getModificationTime();
    });
    row("a child after setTimes moves the directory again", () -> {
      file("/t/d/last");
      return nn().getFileInfo("/t/d").getModificationTime() > 7000;
    });
    row("setReplication of a directory", () -> nn().setReplication("/t/d", (short) 2));
    row("setReplication of a missing path", () -> nn().setReplication("/t/nosuch", (short) 2));
    row("setReplication 0", () -> nn().setReplication("/t/d/f", (short) 0));
    row("setReplication same", () -> nn().setReplication("/t/d/f", (short) 1));
    row("setReplication 3", () -> nn().setReplication("/t/d/f", (short) 3) + " => " + stat("/t/d/f"));
  }

  /** Does the modification time of /t/d, /t/d/sub, /t/other or the file move? The clock is given time to tick. */
  private void moved(String step, Call call) {
    row(step, () -> {
      long[] before = mtimes();
      Thread.sleep(3);
      call.run();
      long[] after = mtimes();
      List<String> moved = new ArrayList<>();
      for (int i = 0; i < before.length; i++) {
        if (before[i] != after[i]) moved.add(i < 3 ? new String[] {"d", "sub", "other"}[i] : "f");
      }
      return "moved=" + moved;
    });
  }

  private long[] mtimes() throws Exception {
    long[] t = new long[4];
    String[] paths = {"/t/d", "/t/d/sub", "/t/other"};
    for (int i = 0; i < 3; i++) t[i] = nn().getFileInfo(paths[i]).getModificationTime();
    HdfsFileStatus f = nn().getFileInfo("/t/d/f");
    t[3] = f != null ? f.getModificationTime() : nn().getFileInfo("/t/other/f").getModificationTime();
    return t;
  }

  // ---- L: listings ----

  private void pages() throws Exception {
    name = "L1";
    fresh();
    mkdir("/t/big");
    List<Future<Boolean>> all = new ArrayList<>();
    for (int i = 0; i < 2050; i++) {
      String p = String.format("/t/big/d%04d", i);
      ClientProtocol c = first.get(i % first.size());
      all.add(pool.submit(() -> c.mkdirs(p, P755, false)));
    }
    for (Future<Boolean> f : all) f.get();
    row("page 1", () -> page(list("/t/big", "")));
    row("delete the cursor's entry", () -> nn().delete("/t/big/d0999", false));
    mkdir("/t/big/d0999x", "/t/big/a-before");
    row("page 2", () -> page(list("/t/big", "d0999")));
    row("page 3", () -> page(list("/t/big", "d1998")));
    row("after a name that never was", () -> page(list("/t/big", "d2048zzz")));
    row("after the end", () -> page(list("/t/big", "zzz")));
    row("before the beginning", () -> page(list("/t/big", "A")));
    row("children", () -> nn().getFileInfo("/t/big").getChildrenNum());
    row("delete all between two pages", () -> nn().delete("/t/big", true));
    row("next page of what is gone", () -> page(list("/t/big", "d0999")));
    file("/t/f");
    row("a file", () -> page(list("/t/f", "")));
    row("a file after its own name", () -> page(list("/t/f", "f")));
    row("a missing path", () -> page(list("/t/missing", "")));
    for (String n : new String[] {"Z", "a", "\u00e9", "\u20ac", "~", "!", "\ud83d\ude00", "a0", "A"}) mkdir("/t/order/" + n);
    row("order of names", () -> names("/t/order"));
    row("after a name in the middle of that order", () -> page(list("/t/order", "\u20ac")));
  }

  // ---- P: permissions ----

  private void recursiveDelete() throws Exception {
    name = "P3";
    fresh();
    mkdir("/t/u/del/m/n", "/t/u/del/locked", "/t/u/into/sub");
    for (int i = 0; i < 5; i++) file("/t/u/del/f" + i);
    file("/t/u/del/locked/f");
    nn().setPermission("/t/u/del/locked", new FsPermission((short) 0700));
    for (String p : new String[] {"/t/u", "/t/u/del", "/t/u/del/m", "/t/u/del/m/n", "/t/u/into", "/t/u/into/sub"}) nn().setOwner(p, "alice", null);
    row("alice deletes the tree", () -> next(alice).delete("/t/u/del", true));
    row("what is left", () -> names("/t/u/del"));
    row("alice's content summary", () -> next(alice).getContentSummary("/t/u/del").getFileCount());
    row("alice moves it to the trash", () -> {
      next(alice).rename2("/t/u/del", "/t/u/trash", Rename.TO_TRASH);
      return "";
    });
    row("alice renames it", () -> next(alice).rename("/t/u/del", "/t/u/moved"));
    row("alice renames it over a full directory", () -> {
      next(alice).rename2("/t/u/moved", "/t/u/into", Rename.OVERWRITE);
      return "";
    });
    row("alice renames it back", () -> next(alice).rename("/t/u/moved", "/t/u/del"));
    nn().delete("/t/u/del/locked/f", false);
    row("alice deletes m", () -> next(alice).delete("/t/u/del/m", true));
    row("bob deletes the tree", () -> next(bob).delete("/t/u/del", true));
    row("alice deletes the tree with an empty foreign directory", () -> next(alice).delete("/t/u/del", true));
    row("what is left", () -> names("/t/u"));
  }

  private void parentsModes() throws Exception {
    name = "P5";
    fresh();
    mkdir("/t/p1750", "/t/p1777");
    nn().setPermission("/t/p1750", new FsPermission((short) 01750));
    nn().setOwner("/t/p1750", "alice", "bin");
    nn().setPermission("/t/p1777", new FsPermission((short) 01777));
    create(next(alice), "/t/p1750/a/b/f", masked(0666, 022), true, CreateFlag.CREATE);
    row("01750, create a/b/f", () -> mode("/t/p1750/a") + ", " + mode("/t/p1750/a/b") + ", " + mode("/t/p1750/a/b/f"));
    next(alice).mkdirs("/t/p1750/c/d", masked(0777, 022), true);
    row("01750, mkdirs c/d", () -> mode("/t/p1750/c") + ", " + mode("/t/p1750/c/d"));
    create(next(bob), "/t/p1777/a/f", masked(0666, 027), true, CreateFlag.CREATE);
    row("01777, create a/f with umask 027", () -> mode("/t/p1777/a") + ", " + mode("/t/p1777/a/f"));
    next(bob).mkdirs("/t/p1777/x/y", masked(0777, 0777), true);
    row("01777, mkdirs x/y with umask 777", () -> mode("/t/p1777/x") + ", " + mode("/t/p1777/x/y"));
    create(next(bob), "/t/p1777/g", masked(0777, 022), true, CreateFlag.CREATE);
    row("create with 0777 and umask 022", () -> mode("/t/p1777/g"));
    create(next(bob), "/t/p1777/h", new FsPermission((short) 0777), true, CreateFlag.CREATE);
    row("create with 0777 and no umask", () -> mode("/t/p1777/h"));
    create(next(bob), "/t/p1777/i", new FsPermission((short) 01777), true, CreateFlag.CREATE);
    row("create with 01777", () -> mode("/t/p1777/i"));
    next(bob).mkdirs("/t/p1777/sticky", new FsPermission((short) 01777), false);
    row("mkdirs with 01777", () -> mode("/t/p1777/sticky"));
    next(bob).mkdirs("/t/p1777/m/n", new FsPermission((short) 0700), true);
    row("mkdirs m/n with 0700", () -> mode("/t/p1777/m") + ", " + mode("/t/p1777/m/n"));
    for (int m : new int[] {04755, 02755, 01644, 07777}) {
      nn().setPermission("/t/p1777/g", new FsPermission((short) m));
      row("setPermission " + Integer.toOctalString(m) + " on a file", () -> mode("/t/p1777/g"));
      nn().setPermission("/t/p1777/sticky", new FsPermission((short) m));
      row("setPermission " + Integer.toOctalString(m) + " on a directory", () -> mode("/t/p1777/sticky"));
    }
    row("new inode of the superuser", () -> {
      mkdir("/t/p1750/of-super");
      return mode("/t/p1750/of-super");
    });
  }

  private static FsPermission masked(int mode, int umask) {
    return FsCreateModes.applyUMask(new FsPermission((short) mode), new FsPermission((short) umask));
  }

  public static void main(String[] args) throws Exception {
    CaseProbe p = new CaseProbe(args);
    System.out.println("case\tstep\tresult\tvalue\tfirst_line");
    List<Call> cases = List.of(p::renameTable, p::ownSubtree, p::crossing, p::fileForDirectory, p::limits, p::replays, p::times, p::pages, p::recursiveDelete, p::parentsModes);
    for (Call c : cases) {
      long start = System.nanoTime();
      try {
        c.run();
        System.err.println(p.name + ": " + (System.nanoTime() - start) / 1_000_000 + " ms");
      } catch (Exception e) { // a set-up that failed: its case ends here, the others still count
        System.out.println(p.name + "\tset-up\t" + Probe.failure(e));
      }
    }
    p.nn().delete("/t", true);
    System.exit(0);
  }
}
