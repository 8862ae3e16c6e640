import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.crypto.CryptoProtocolVersion;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.Options.Rename;
import org.apache.hadoop.fs.permission.FsAction;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.protocol.BatchedDirectoryListing;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.apache.hadoop.hdfs.protocol.DirectoryListing;
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.DatanodeReportType;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.SafeModeAction;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;
import org.apache.hadoop.hdfs.protocol.HdfsPartialListing;
import org.apache.hadoop.hdfs.protocol.LocatedBlocks;
import org.apache.hadoop.hdfs.protocol.OpenFilesIterator;
import org.apache.hadoop.io.EnumSetWritable;

/**
 * Who may do what: every operation of the namespace as superuser, owner, member of the group and stranger, over small
 * trees that the superuser builds. Each operation that changed something is followed by a fresh set-up.
 *
 * <p>Output, tab-separated, one header line: case, operation, users (those that get this answer, by commas), result (OK
 * or the exception's class), value (what was answered and, after a change, what the superuser then sees), first_line
 * (for people, not compared; U stands for the user). Actors that get the same answer share a row.
 *
 * <p>usage: hdfs probe WhoMay [hdfs://HOST:PORT ...] With several namenodes the calls of a user go to them in turn.
 * ../wire/whomay.tsv is the output against the stock NameNode without a datanode. It removes and makes /who-*.
 *
 * <p>Simple authentication believes the user's name; the groups are those that the namenode's host gives it. So the
 * actors are users of every Debian: daemon (owner), nobody (its only group is nogroup, the group of the trees), and
 * alice, who does not exist there and is in no group.
 */
public final class WhoMay {
  private static final String OWNER = "daemon", GROUP = "nogroup", MEMBER = "nobody", STRANGER = "alice";
  private static final String[] USERS = {Probe.SUPER, OWNER, MEMBER, STRANGER};
  private static final List<String> ROLES = List.of("super", "owner", "member", "stranger");
  private static final long BLOCK = 1 << 20;
  private static final FsPermission P755 = new FsPermission((short) 0755), P644 = new FsPermission((short) 0644);

  /** A call as a user on the paths of one tree; what it answers becomes the value. */
  interface Call {
    Object run(ClientProtocol c, String user) throws Exception;
  }

  /** An operation: what is called, and the path whose status the superuser reads after a change; null for a read. */
  record Operation(String name, String after, Call call) {}

  /** A tree: how it is made below its own base, and what is tried on it. */
  record Tree(String name, Build build, List<Operation> operations) {}

  interface Build {
    void make(Maker m) throws Exception;
  }

  private final Configuration conf;
  private final List<URI> namenodes;
  private final Map<String, List<ClientProtocol>> proxies = new LinkedHashMap<>();

  private WhoMay(String[] args) throws Exception {
    conf = Probe.conf();
    namenodes = Probe.namenodes(conf, args);
    for (String u : USERS) {
      List<ClientProtocol> each = new ArrayList<>();
      for (URI n : namenodes) each.add(Probe.as(conf, n, u));
      proxies.put(u, each);
    }
  }

  private ClientProtocol as(String user, int turn) {
    List<ClientProtocol> each = proxies.get(user);
    return each.get(Math.floorMod(turn, each.size()));
  }

  /** Makes entries as the superuser and gives them away. Modes are exact: nothing is masked. */
  final class Maker {
    private final ClientProtocol root;
    private final String base;

    Maker(ClientProtocol root, String base) {
      this.root = root;
      this.base = base;
    }

    void dir(String path, int mode, String owner, String group) throws Exception {
      root.mkdirs(base + path, P755, true);
      give(path, mode, owner, group);
    }

    void file(String path, int mode, String owner, String group) throws Exception {
      create(root, base + path, "maker", false);
      root.complete(base + path, "maker", null, HdfsConstants.GRANDFATHER_INODE_ID);
      give(path, mode, owner, group);
    }

    void open(String path, String holder, String owner, String group) throws Exception {
      create(root, base + path, holder, false);
      root.setOwner(base + path, owner, group);
    }

    private void give(String path, int mode, String owner, String group) throws Exception {
      root.setPermission(base + path, new FsPermission((short) mode));
      root.setOwner(base + path, owner, group);
    }

    /** What all trees have: a place to move things from and to that is open to everyone. */
    void common() throws Exception {
      root.mkdirs(base, P755, true);
      dir("/out", 0777, OWNER, GROUP);
      file("/out/there", 0644, OWNER, GROUP);
      dir("/out/full/k", 0777, OWNER, GROUP);
    }
  }

  static HdfsFileStatus create(ClientProtocol c, String path, String holder, boolean overwrite) throws Exception {
    EnumSet<CreateFlag> flags = overwrite ? EnumSet.of(CreateFlag.CREATE, CreateFlag.OVERWRITE) : EnumSet.of(CreateFlag.CREATE);
    return c.create(path, P644, holder, new EnumSetWritable<>(flags), true, (short) 1, BLOCK, CryptoProtocolVersion.supported(), null, null);
  }

  // ---- the operations ----

  private static List<Operation> reads(String b, String p) {
    String s = b + p;
    List<Operation> l = new ArrayList<>();
    l.add(new Operation("getFileInfo " + p, null, (c, u) -> Probe.status(c.getFileInfo(s))));
    l.add(new Operation("getFileLinkInfo " + p, null, (c, u) -> Probe.status(c.getFileLinkInfo(s))));
    l.add(new Operation("getLocatedFileInfo " + p, null, (c, u) -> Probe.status(c.getLocatedFileInfo(s, false))));
    l.add(new Operation("getBlockLocations " + p, null, (c, u) -> blocks(c.getBlockLocations(s, 0, 10))));
    l.add(new Operation("isFileClosed " + p, null, (c, u) -> c.isFileClosed(s)));
    l.add(new Operation("getListing " + p, null, (c, u) -> names(c.getListing(s, new byte[0], false))));
    l.add(new Operation("getListing located " + p, null, (c, u) -> names(c.getListing(s, new byte[0], true))));
    l.add(new Operation("getBatchedListing " + p, null, (c, u) -> batched(c.getBatchedListing(new String[] {b + "/out", s}, new byte[0], false))));
    l.add(new Operation("getContentSummary " + p, null, (c, u) -> {
      var x = c.getContentSummary(s);
      return "dirs=" + x.getDirectoryCount() + " files=" + x.getFileCount() + " length=" + x.getLength() + " space=" + x.getSpaceConsumed();
    }));
    l.add(new Operation("getQuotaUsage " + p, null, (c, u) -> {
      var x = c.getQuotaUsage(s);
      return "names=" + x.getFileAndDirectoryCount() + " quota=" + x.getQuota() + " space=" + x.getSpaceConsumed();
    }));
    l.add(new Operation("getPreferredBlockSize " + p, null, (c, u) -> c.getPreferredBlockSize(s)));
    for (FsAction a : new FsAction[] {FsAction.NONE, FsAction.READ, FsAction.WRITE, FsAction.EXECUTE, FsAction.ALL}) {
      l.add(new Operation("checkAccess " + a + " " + p, null, (c, u) -> {
        c.checkAccess(s, a);
        return "";
      }));
    }
    return l;
  }

  /** Operations that change an existing (or missing) entry. */
  private static List<Operation> changes(String b, String p) {
    String s = b + p, out = b + "/out/x", mate = s + ".new";
    List<Operation> l = new ArrayList<>();
    l.add(new Operation("delete recursive " + p, s, (c, u) -> c.delete(s, true)));
    l.add(new Operation("delete " + p, s, (c, u) -> c.delete(s, false)));
    l.add(new Operation("rename out " + p, out, (c, u) -> c.rename(s, out)));
    l.add(new Operation("rename beside " + p, mate, (c, u) -> c.rename(s, mate)));
    l.add(new Operation("rename into full dir " + p, b + "/out/full", (c, u) -> c.rename(s, b + "/out/full")));
    l.add(new Operation("rename onto file " + p, b + "/out/there", (c, u) -> c.rename(s, b + "/out/there")));
    l.add(new Operation("rename2 out " + p, out, (c, u) -> {
      c.rename2(s, out);
      return "";
    }));
    l.add(new Operation("rename2 overwriting a file " + p, b + "/out/there", (c, u) -> {
      c.rename2(s, b + "/out/there", Rename.OVERWRITE);
      return "";
    }));
    l.add(new Operation("rename2 overwriting it " + p, s, (c, u) -> {
      c.rename2(b + "/out/there", s, Rename.OVERWRITE);
      return "";
    }));
    l.add(new Operation("rename2 to trash " + p, out, (c, u) -> {
      c.rename2(s, out, Rename.TO_TRASH);
      return "";
    }));
    for (int mode : new int[] {0700, 01751}) {
      l.add(new Operation("setPermission " + Integer.toOctalString(mode) + " " + p, s, (c, u) -> {
        c.setPermission(s, new FsPermission((short) mode));
        return "";
      }));
    }
    String[][] owners = {{"nobody", null}, {"daemon", null}, {null, "nogroup"}, {null, "bin"}, {"daemon", "nogroup"}};
    for (String[] o : owners) {
      l.add(new Operation("setOwner " + o[0] + " " + o[1] + " " + p, s, (c, u) -> {
        c.setOwner(s, o[0], o[1]);
        return "";
      }));
    }
    l.add(new Operation("setTimes " + p, s, (c, u) -> {
      c.setTimes(s, 1000, 2000);
      return "";
    }));
    l.add(new Operation("setReplication " + p, s, (c, u) -> c.setReplication(s, (short) 2)));
    l.add(new Operation("create " + p, s, (c, u) -> Probe.status(create(c, s, "h-" + u, false))));
    l.add(new Operation("create overwriting " + p, s, (c, u) -> Probe.status(create(c, s, "h-" + u, true))));
    l.add(new Operation("mkdirs " + p, s, (c, u) -> c.mkdirs(s, P755, true)));
    l.add(new Operation("recoverLease " + p, s, (c, u) -> c.recoverLease(s, "h-" + u)));
    return l;
  }

  /** Operations that make something inside a directory. */
  private static List<Operation> makes(String b, String p) {
    String s = b + p;
    List<Operation> l = new ArrayList<>();
    l.add(new Operation("mkdirs in " + p, s + "/new", (c, u) -> c.mkdirs(s + "/new", P755, false)));
    l.add(new Operation("mkdirs two in " + p, s + "/new/er", (c, u) -> c.mkdirs(s + "/new/er", P755, true)));
    l.add(new Operation("create in " + p, s + "/new", (c, u) -> Probe.status(create(c, s + "/new", "h-" + u, false))));
    l.add(new Operation("create deep in " + p, s + "/a", (c, u) -> Probe.status(create(c, s + "/a/new", "h-" + u, false))));
    l.add(new Operation("rename into " + p, s + "/there", (c, u) -> c.rename(b + "/out/there", s)));
    l.add(new Operation("rename2 into " + p, s + "/new", (c, u) -> {
      c.rename2(b + "/out/there", s + "/new");
      return "";
    }));
    return l;
  }

  private static List<Operation> openFile(String b, String p) {
    String s = b + p;
    long any = HdfsConstants.GRANDFATHER_INODE_ID;
    List<Operation> l = new ArrayList<>(reads(b, p));
    l.addAll(changes(b, p));
    l.add(new Operation("complete as its holder " + p, s, (c, u) -> c.complete(s, "writer", null, any)));
    l.add(new Operation("complete as another " + p, s, (c, u) -> c.complete(s, "h-" + u, null, any)));
    l.add(new Operation("fsync as its holder " + p, s, (c, u) -> {
      c.fsync(s, any, "writer", -1);
      return "";
    }));
    l.add(new Operation("abandonBlock as its holder " + p, s, (c, u) -> {
      c.abandonBlock(new ExtendedBlock("none", 1, 0, 1), any, s, "writer");
      return "";
    }));
    l.add(new Operation("abandonBlock as another " + p, s, (c, u) -> {
      c.abandonBlock(new ExtendedBlock("none", 1, 0, 1), any, s, "h-" + u);
      return "";
    }));
    l.add(new Operation("renewLease " + p, s, (c, u) -> {
      c.renewLease("writer", null);
      return "";
    }));
    return l;
  }

  /** Calls on no path. Those that only the superuser may make are not tried as superuser where they would change the server. */
  private static List<Operation> globals() {
    List<Operation> l = new ArrayList<>();
    l.add(new Operation("setSafeMode GET", null, (c, u) -> c.setSafeMode(SafeModeAction.SAFEMODE_GET, false)));
    l.add(new Operation("setSafeMode LEAVE", null, (c, u) -> c.setSafeMode(SafeModeAction.SAFEMODE_LEAVE, false)));
    l.add(new Operation("not super: setSafeMode ENTER", null, (c, u) -> c.setSafeMode(SafeModeAction.SAFEMODE_ENTER, false)));
    l.add(new Operation("saveNamespace outside safe mode", null, (c, u) -> c.saveNamespace(0, 0)));
    l.add(new Operation("refreshNodes", null, (c, u) -> {
      c.refreshNodes();
      return "";
    }));
    l.add(new Operation("listOpenFiles", null, (c, u) -> c.listOpenFiles(0, EnumSet.of(OpenFilesIterator.OpenFilesType.ALL_OPEN_FILES), "/who-nothing").size()));
    l.add(new Operation("getFsStats", null, (c, u) -> c.getStats().length));
    l.add(new Operation("getReplicatedBlockStats", null, (c, u) -> c.getReplicatedBlockStats() != null));
    l.add(new Operation("getDatanodeReport", null, (c, u) -> c.getDatanodeReport(DatanodeReportType.DEAD).length));
    l.add(new Operation("getDatanodeStorageReport", null, (c, u) -> c.getDatanodeStorageReport(DatanodeReportType.DEAD).length));
    l.add(new Operation("getSlowDatanodeReport", null, (c, u) -> c.getSlowDatanodeReport().length));
    l.add(new Operation("getServerDefaults", null, (c, u) -> c.getServerDefaults() != null));
    l.add(new Operation("renewLease of nobody", null, (c, u) -> {
      c.renewLease("who-nobody", null);
      return "";
    }));
    l.add(new Operation("not super: metaSave", null, (c, u) -> {
      c.metaSave("who-may");
      return "";
    }));
    l.add(new Operation("not super: finalizeUpgrade", null, (c, u) -> {
      c.finalizeUpgrade();
      return "";
    }));
    l.add(new Operation("not super: rollEdits", null, (c, u) -> c.rollEdits()));
    l.add(new Operation("not super: restoreFailedStorage", null, (c, u) -> c.restoreFailedStorage("check")));
    l.add(new Operation("not super: setBalancerBandwidth", null, (c, u) -> {
      c.setBalancerBandwidth(1 << 20);
      return "";
    }));
    return l;
  }

  private static String names(DirectoryListing d) {
    if (d == null) return "absent";
    return Arrays.stream(d.getPartialListing()).map(HdfsFileStatus::getLocalName).toList() + " remaining=" + d.getRemainingEntries();
  }

  private static String blocks(LocatedBlocks b) {
    return "length=" + b.getFileLength() + " open=" + b.isUnderConstruction() + " blocks=" + b.locatedBlockCount();
  }

  private static String batched(BatchedDirectoryListing d) {
    List<String> each = new ArrayList<>();
    for (HdfsPartialListing p : d.getListings()) {
      if (p.getException() != null) {
        each.add(p.getParentIdx() + ":" + p.getException().getClassName());
      } else {
        each.add(p.getParentIdx() + ":" + p.getPartialListing().stream().map(HdfsFileStatus::getLocalName).toList());
      }
    }
    return each + " more=" + d.hasMore();
  }

  // ---- the trees ----

  private static List<Tree> trees() {
    List<Tree> all = new ArrayList<>();
    // the mode of a directory: traverse, list, write, sticky, and which class of the mode rules
    for (int mode : new int[] {0755, 0711, 0744, 0770, 01777, 0, 0333, 0070, 0007}) {
      String name = String.format("dir-%04o", mode), b = "/who-" + name;
      List<Operation> ops = new ArrayList<>();
      for (String p : new String[] {"/d", "/d/f", "/d/s/k", "/d/nosuch", "/d/f/below"}) ops.addAll(reads(b, p));
      if (mode != 0711 && mode != 0744 && mode != 0007) { // there, changes would only say what other modes say
        for (String p : new String[] {"/d/f", "/d/s", "/d/e", "/d/nosuch"}) ops.addAll(changes(b, p));
        ops.addAll(makes(b, "/d"));
      }
      all.add(new Tree(name, m -> {
        m.dir("/d/s", 0755, OWNER, GROUP);
        m.file("/d/f", 0644, OWNER, GROUP);
        m.file("/d/s/k", 0644, OWNER, GROUP);
        m.dir("/d/e", 0755, OWNER, GROUP);
        m.give("/d", mode, OWNER, GROUP);
      }, ops));
    }
    // the mode of a file, in a directory open to all
    for (int mode : new int[] {0600, 0640, 0222, 0}) {
      String name = String.format("file-%04o", mode), b = "/who-" + name;
      List<Operation> ops = new ArrayList<>(reads(b, "/d/f"));
      ops.addAll(changes(b, "/d/f"));
      all.add(new Tree(name, m -> {
        m.dir("/d", 0777, OWNER, GROUP);
        m.file("/d/f", mode, OWNER, GROUP);
      }, ops));
    }
    all.add(sticky("sticky-own", OWNER));
    all.add(sticky("sticky-super", Probe.SUPER));
    all.add(inside("foreign-full", m -> {
      m.dir("/d/s/locked/k", 0755, Probe.SUPER, "supergroup");
      m.give("/d/s/locked", 0700, Probe.SUPER, "supergroup");
    }));
    all.add(inside("foreign-empty", m -> m.dir("/d/s/locked", 0700, Probe.SUPER, "supergroup")));
    all.add(inside("foreign-open", m -> {
      m.dir("/d/s/open/k", 0755, Probe.SUPER, "supergroup");
      m.give("/d/s/open", 0777, Probe.SUPER, "supergroup");
    }));
    all.add(inside("own-readonly", m -> {
      m.dir("/d/s/ro/k", 0755, OWNER, GROUP);
      m.give("/d/s/ro", 0555, OWNER, GROUP);
    }));
    all.add(inside("own-readonly-empty", m -> m.dir("/d/s/ro", 0, OWNER, GROUP)));
    all.add(inside("foreign-sticky", m -> {
      m.dir("/d/s/st", 0777, Probe.SUPER, "supergroup");
      m.file("/d/s/st/k", 0666, STRANGER, GROUP);
      m.give("/d/s/st", 01777, Probe.SUPER, "supergroup");
    }));
    all.add(inside("foreign-deep", m -> {
      m.dir("/d/s/a/b/c/k", 0755, OWNER, GROUP);
      m.give("/d/s/a/b/c", 0755, Probe.SUPER, "supergroup");
    }));
    String b = "/who-open";
    all.add(new Tree("open", m -> {
      m.dir("/d", 0755, OWNER, GROUP);
      m.open("/d/f", "writer", OWNER, GROUP);
    }, openFile(b, "/d/f")));
    List<Operation> atRoot = new ArrayList<>(reads("", "/"));
    atRoot.removeIf(o -> o.name().matches("(getListing|getBatched|getContent|getQuota|getFileInfo|getFileLink|getLocated).*"));
    atRoot.add(new Operation("mkdirs /who-may-new", "/who-may-new", (c, u) -> c.mkdirs("/who-may-new", P755, true)));
    atRoot.add(new Operation("delete recursive /", null, (c, u) -> c.delete("/", true)));
    atRoot.add(new Operation("setOwner of / by name it has", null, (c, u) -> {
      c.setOwner("/", null, "supergroup");
      return "";
    }));
    atRoot.add(new Operation("setPermission of / it has", null, (c, u) -> {
      c.setPermission("/", P755);
      return "";
    }));
    all.add(new Tree("root", m -> m.root.delete("/who-may-new", true), atRoot));
    return all;
  }

  /** A sticky directory that belongs to `owner`, with entries of each of the others. */
  private static Tree sticky(String name, String owner) {
    String b = "/who-" + name;
    List<Operation> ops = new ArrayList<>();
    for (String p : new String[] {"/d/of-member", "/d/of-stranger", "/d/of-super"}) {
      for (Operation o : changes(b, p)) {
        if (o.name().matches("(delete|rename|create over).*")) ops.add(o);
      }
    }
    return new Tree(name, m -> {
      m.dir("/d", 0777, OWNER, GROUP);
      m.file("/d/of-member", 0666, MEMBER, GROUP);
      m.dir("/d/of-stranger/k", 0777, STRANGER, "bin");
      m.give("/d/of-stranger", 0777, STRANGER, "bin");
      m.file("/d/of-super", 0644, Probe.SUPER, "supergroup");
      m.give("/d", 01777, owner, GROUP);
    }, ops);
  }

  /** A directory /d/s of the owner with something special inside: what recursion must look at first. */
  private static Tree inside(String name, Build special) {
    String b = "/who-" + name;
    List<Operation> ops = new ArrayList<>();
    for (String p : new String[] {"/d", "/d/s"}) {
      for (Operation o : changes(b, p)) {
        if (o.name().matches("(delete|rename).*")) ops.add(o);
      }
      for (Operation o : reads(b, p)) {
        if (o.name().matches("(getContent|getQuota).*")) ops.add(o);
      }
    }
    return new Tree(name, m -> {
      m.dir("/d/s", 0755, OWNER, GROUP);
      m.file("/d/s/f", 0644, OWNER, GROUP);
      special.make(m);
      m.give("/d", 0777, OWNER, GROUP);
    }, ops);
  }

  // ---- the run ----

  private List<String> run(Tree tree, int turn) throws Exception {
    String base = "/who-" + tree.name();
    Rows rows = new Rows(tree.name());
    ClientProtocol root = as(Probe.SUPER, turn);
    boolean fresh = false;
    for (String user : USERS) {
      for (Operation o : tree.operations()) {
        turn++;
        if (!fresh) {
          root.delete(base, true);
          Maker m = new Maker(root, base);
          m.common();
          tree.build().make(m);
          fresh = true;
        }
        ClientProtocol c = as(user, turn);
        String answer = Probe.answer(() -> {
          Object value = o.call().run(c, user);
          if (o.after() == null) return value;
          HdfsFileStatus now = root.getFileInfo(o.after());
          String times = o.name().startsWith("setTimes") ? " " + now.getModificationTime() + " " + now.getAccessTime() : "";
          return value + " => " + Probe.status(now) + times;
        });
        if (o.after() != null && answer.startsWith("OK")) fresh = false;
        rows.add(o.name(), user, answer.replace(base, ""));
      }
    }
    root.delete(base, true);
    return rows.print();
  }

  private List<String> runGlobals() {
    Rows rows = new Rows("global");
    int turn = 0;
    for (String user : USERS) {
      for (Operation o : globals()) {
        if (user.equals(Probe.SUPER) && o.name().startsWith("not super")) continue;
        ClientProtocol c = as(user, turn++);
        rows.add(o.name(), user, Probe.answer(() -> o.call().run(c, user)));
      }
    }
    return rows.print();
  }

  /** The answers of one tree, by operation in their order, and in each the users by their answer. */
  private static final class Rows {
    private final String tree;
    private final Map<String, Map<String, List<String>>> answers = new LinkedHashMap<>();

    Rows(String tree) {
      this.tree = tree;
    }

    void add(String operation, String user, String answer) {
      String role = ROLES.get(Arrays.asList(USERS).indexOf(user));
      String masked = answer.replace("user=" + user, "user=U").replace("for user " + user, "for user U").replace("User " + user + " ", "User U ");
      answers.computeIfAbsent(operation, k -> new LinkedHashMap<>()).computeIfAbsent(masked, k -> new ArrayList<>()).add(role);
    }

    List<String> print() {
      List<String> lines = new ArrayList<>();
      answers.forEach((operation, by) -> by.forEach((answer, roles) ->
          lines.add(tree + "\t" + operation + "\t" + String.join(",", roles) + "\t" + answer)));
      return lines;
    }
  }

  public static void main(String[] args) throws Exception {
    WhoMay w = new WhoMay(args);
    ExecutorService pool = Executors.newFixedThreadPool(8); // trees are independent; the rows keep their order
    List<Future<List<String>>> parts = new ArrayList<>();
    int turn = 0;
    for (Tree t : trees()) {
      int first = turn++;
      parts.add(pool.submit(() -> w.run(t, first)));
    }
    System.out.println("case\toperation\tusers\tresult\tvalue\tfirst_line");
    for (Future<List<String>> p : parts) p.get().forEach(System.out::println);
    w.runGlobals().forEach(System.out::println);
    System.exit(0);
  }
}
