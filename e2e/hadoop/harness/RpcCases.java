import java.util.ArrayList;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.crypto.CryptoProtocolVersion;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options.Rename;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;
import org.apache.hadoop.io.EnumSetWritable;
import org.apache.hadoop.ipc.Client;

/** A1, A2, A4, A6: wrong kinds, limits, replayed calls, times and replication. */
final class RpcCases extends Cases {
  RpcCases(String[] args) throws Exception {
    super(args);
  }

  @Override
  List<Call> cases() {
    return List.of(this::fileForDirectory, this::limits, this::replays, this::times);
  }

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
}
