import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import org.apache.hadoop.crypto.CryptoProtocolVersion;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.Options.Rename;
import org.apache.hadoop.fs.permission.FsAction;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.AddBlockFlag;
import org.apache.hadoop.hdfs.protocol.BatchedDirectoryListing;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
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

/** The operations that {@link WhoMay} tries: on a path `p` below the base `b` of a tree, or on none. */
final class Operations {
  private static final long BLOCK = 1 << 20;
  private static final FsPermission P755 = new FsPermission((short) 0755), P644 = new FsPermission((short) 0644);

  private Operations() {}

  /** A call as a user on the paths of one tree; what it answers becomes the value. */
  interface Call {
    Object run(ClientProtocol c, String user) throws Exception;
  }

  /** An operation: what is called, and the path whose status the superuser reads after a change; null for a read. */
  record Operation(String name, String after, Call call) {}

  static HdfsFileStatus create(ClientProtocol c, String path, String holder, boolean overwrite) throws Exception {
    EnumSet<CreateFlag> flags = overwrite ? EnumSet.of(CreateFlag.CREATE, CreateFlag.OVERWRITE) : EnumSet.of(CreateFlag.CREATE);
    return c.create(path, P644, holder, new EnumSetWritable<>(flags), true, (short) 1, BLOCK, CryptoProtocolVersion.supported(), null, null);
  }


  static List<Operation> reads(String b, String p) {
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
  static List<Operation> changes(String b, String p) {
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
    l.add(new Operation("append " + p, s, (c, u) -> {
      var last = c.append(s, "h-" + u, new EnumSetWritable<>(EnumSet.of(CreateFlag.APPEND)));
      return Probe.status(last.getFileStatus()) + " block=" + (last.getLastBlock() != null);
    }));
    l.add(new Operation("truncate " + p, s, (c, u) -> c.truncate(s, 0, "h-" + u)));
    l.add(new Operation("concat onto " + p, s, (c, u) -> {
      c.concat(s, new String[] {out});
      return "";
    }));
    l.add(new Operation("concat from " + p, s, (c, u) -> {
      c.concat(b + "/out/there", new String[] {s});
      return "";
    }));
    return l;
  }

  /** Operations that make something inside a directory. */
  static List<Operation> makes(String b, String p) {
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

  static List<Operation> openFile(String b, String p) {
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
    for (String holder : new String[] {"writer", "another"}) {
      ExtendedBlock none = new ExtendedBlock("none", 1, 0, 1);
      l.add(new Operation("addBlock as " + holder + " " + p, s, (c, u) -> c.addBlock(s, holder, null, null, any, null, EnumSet.noneOf(AddBlockFlag.class)) != null));
      l.add(new Operation("getAdditionalDatanode as " + holder + " " + p, s,
          (c, u) -> c.getAdditionalDatanode(s, any, none, new DatanodeInfo[0], new String[0], new DatanodeInfo[0], 1, holder) != null));
      l.add(new Operation("updateBlockForPipeline as " + holder + " " + p, s, (c, u) -> c.updateBlockForPipeline(none, holder) != null));
    }
    l.add(new Operation("renewLease " + p, s, (c, u) -> {
      c.renewLease("writer", null);
      return "";
    }));
    return l;
  }

  /** Calls on no path. Those that only the superuser may make are not tried as superuser where they would change the server. */
  static List<Operation> globals() {
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

  static String names(DirectoryListing d) {
    if (d == null) return "absent";
    return Arrays.stream(d.getPartialListing()).map(HdfsFileStatus::getLocalName).toList() + " remaining=" + d.getRemainingEntries();
  }

  static String blocks(LocatedBlocks b) {
    return "length=" + b.getFileLength() + " open=" + b.isUnderConstruction() + " blocks=" + b.locatedBlockCount();
  }

  static String batched(BatchedDirectoryListing d) {
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
}
