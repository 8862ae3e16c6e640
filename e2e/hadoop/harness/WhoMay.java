import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;

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
  private static final FsPermission P755 = new FsPermission((short) 0755);

  /** A tree: how it is made below its own base, and what is tried on it. */
  record Tree(String name, Build build, List<Operations.Operation> operations) {}

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
      Operations.create(root, base + path, "maker", false);
      root.complete(base + path, "maker", null, HdfsConstants.GRANDFATHER_INODE_ID);
      give(path, mode, owner, group);
    }

    void open(String path, String holder, String owner, String group) throws Exception {
      Operations.create(root, base + path, holder, false);
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

  // ---- the trees ----

  private static List<Tree> trees() {
    List<Tree> all = new ArrayList<>();
    // the mode of a directory: traverse, list, write, sticky, and which class of the mode rules
    for (int mode : new int[] {0755, 0711, 0744, 0770, 01777, 0, 0333, 0070, 0007}) {
      String name = String.format("dir-%04o", mode), b = "/who-" + name;
      List<Operations.Operation> ops = new ArrayList<>();
      for (String p : new String[] {"/d", "/d/f", "/d/s/k", "/d/nosuch", "/d/f/below"}) ops.addAll(Operations.reads(b, p));
      if (mode != 0711 && mode != 0744 && mode != 0007) { // there, changes would only say what other modes say
        for (String p : new String[] {"/d/f", "/d/s", "/d/e", "/d/nosuch"}) ops.addAll(Operations.changes(b, p));
        ops.addAll(Operations.makes(b, "/d"));
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
      List<Operations.Operation> ops = new ArrayList<>(Operations.reads(b, "/d/f"));
      ops.addAll(Operations.changes(b, "/d/f"));
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
    }, Operations.openFile(b, "/d/f")));
    List<Operations.Operation> atRoot = new ArrayList<>(Operations.reads("", "/"));
    atRoot.removeIf(o -> o.name().matches("(getListing|getBatched|getContent|getQuota|getFileInfo|getFileLink|getLocated).*"));
    atRoot.add(new Operations.Operation("mkdirs /who-may-new", "/who-may-new", (c, u) -> c.mkdirs("/who-may-new", P755, true)));
    atRoot.add(new Operations.Operation("delete recursive /", null, (c, u) -> c.delete("/", true)));
    atRoot.add(new Operations.Operation("setOwner of / by name it has", null, (c, u) -> {
      c.setOwner("/", null, "supergroup");
      return "";
    }));
    atRoot.add(new Operations.Operation("setPermission of / it has", null, (c, u) -> {
      c.setPermission("/", P755);
      return "";
    }));
    all.add(new Tree("root", m -> m.root.delete("/who-may-new", true), atRoot));
    return all;
  }

  /** A sticky directory that belongs to `owner`, with entries of each of the others. */
  private static Tree sticky(String name, String owner) {
    String b = "/who-" + name;
    List<Operations.Operation> ops = new ArrayList<>();
    for (String p : new String[] {"/d/of-member", "/d/of-stranger", "/d/of-super"}) {
      for (Operations.Operation o : Operations.changes(b, p)) {
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
    List<Operations.Operation> ops = new ArrayList<>();
    for (String p : new String[] {"/d", "/d/s"}) {
      for (Operations.Operation o : Operations.changes(b, p)) {
        if (o.name().matches("(delete|rename).*")) ops.add(o);
      }
      for (Operations.Operation o : Operations.reads(b, p)) {
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
      for (Operations.Operation o : tree.operations()) {
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
      for (Operations.Operation o : Operations.globals()) {
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
