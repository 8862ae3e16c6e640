import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.AddBlockFlag;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlocks;
import org.apache.hadoop.io.EnumSetWritable;
import org.apache.hadoop.ipc.Client;

/** E7 concat, L4 listings of files, A4 replays and A6 times of files with data. */
final class DataCases extends Cases {
  private final DistributedFileSystem fs;

  DataCases(String[] args) throws Exception {
    super(args);
    conf.setLong("dfs.blocksize", 4096);
    fs = client();
  }

  @Override
  List<Call> cases() {
    return List.of(this::concat, this::listings, this::replays, this::times, this::truncate);
  }

  /** A file of so many bytes, named by its path. */
  private void data(String path, int bytes, int replication, long blockSize) throws Exception {
    try (FSDataOutputStream out = fs.create(new Path(path), true, 4096, (short) replication, blockSize)) {
      out.write(Bytes.of("x", 0, bytes));
    }
  }

  private void data(String path, int bytes) throws Exception {
    data(path, bytes, 3, 4096);
  }

  private void concat() throws Exception {
    name = "E7";
    fresh();
    mkdir("/t/other");
    for (String p : new String[] {"/t/a", "/t/b", "/t/c", "/t/d", "/t/other/f"}) data(p, 4096);
    data("/t/part", 1000);
    data("/t/large", 8192, 3, 8192);
    data("/t/small", 2048, 3, 2048);
    data("/t/rep2", 4096, 2, 4096);
    file("/t/empty", "/t/empty2");
    concat("onto an empty file", "/t/empty", "/t/a");
    concat("an empty source", "/t/empty", "/t/empty2");
    concat("the same source twice", "/t/b", "/t/c", "/t/c");
    concat("the target as source", "/t/b", "/t/b");
    concat("a source of larger blocks", "/t/b", "/t/large");
    concat("a source of smaller blocks", "/t/b", "/t/small");
    concat("a source of fewer replicas", "/t/b", "/t/rep2");
    concat("a source of another directory", "/t/b", "/t/other/f");
    concat("a missing source", "/t/b", "/t/missing");
    concat("a directory as source", "/t/b", "/t/other");
    concat("no sources", "/t/b");
    concat("a missing target", "/t/missing", "/t/c");
    concat("a directory as target", "/t/other", "/t/c");
    concat("a source whose last block is short, in the middle", "/t/b", "/t/part", "/t/c");
    concat("onto a target whose last block is short", "/t/b", "/t/d");
    row("what is left", () -> names("/t"));
    row("bytes of b", () -> {
      byte[] all = fs.open(new Path("/t/b")).readAllBytes(), block = Bytes.of("x", 0, 4096);
      int at = 0;
      for (int part : new int[] {4096, 2048, 4096, 1000, 4096, 4096}) {
        if (at + part <= all.length && !Arrays.equals(all, at, at + part, block, 0, part)) return "wrong in the part at " + at;
        at += part;
      }
      return all.length;
    });
    row("its blocks", () -> blocks("/t/b"));
    FSDataOutputStream out = fs.create(new Path("/t/open"));
    out.write(Bytes.of("x", 0, 100));
    out.hflush();
    data("/t/e", 4096);
    concat("an open target", "/t/open", "/t/e");
    concat("an open source", "/t/e", "/t/open");
    out.close();
    row("append to what was concatenated", () -> {
      try (FSDataOutputStream more = fs.append(new Path("/t/b"))) {
        more.write(1);
      }
      return stat("/t/b");
    });
    row("content summary of all", () -> nn().getContentSummary("/t").getLength() + " " + nn().getContentSummary("/t").getSpaceConsumed());
  }

  private void concat(String step, String target, String... sources) {
    row(step, () -> {
      nn().concat(target, sources);
      return stat(target) + " sources " + Arrays.stream(sources).map(s -> {
        try {
          return nn().getFileInfo(s) == null ? "gone" : "there";
        } catch (Exception e) {
          return e.toString();
        }
      }).toList();
    });
  }

  private String blocks(String path) throws Exception {
    LocatedBlocks all = nn().getBlockLocations(path, 0, Long.MAX_VALUE);
    List<String> each = new ArrayList<>();
    for (LocatedBlock b : all.getLocatedBlocks()) each.add(b.getStartOffset() + "+" + b.getBlockSize());
    return each + " length=" + all.getFileLength() + " complete=" + all.isLastBlockComplete();
  }

  private void listings() throws Exception {
    name = "L4";
    fresh();
    data("/t/f", 5000);
    mkdir("/t/d");
    HdfsFileStatus f = nn().getFileInfo("/t/f"), t = nn().getFileInfo("/t");
    row("listing of a file", () -> page(list("/t/f", "")));
    row("located listing of a file", () -> {
      var l = nn().getListing("/t/f", new byte[0], true);
      return ((org.apache.hadoop.hdfs.protocol.HdfsLocatedFileStatus) l.getPartialListing()[0]).getLocatedBlocks().locatedBlockCount();
    });
    row("listing of a missing path", () -> page(list("/t/missing", "")));
    row("listing of /.reserved", () -> names("/.reserved"));
    row("the inode by its id", () -> stat("/.reserved/.inodes/" + f.getFileId()));
    row("a child by the id of its parent", () -> stat("/.reserved/.inodes/" + t.getFileId() + "/f"));
    row("the parent by an id", () -> stat("/.reserved/.inodes/" + nn().getFileInfo("/t/d").getFileId() + "/.."));
    row("listing of the ids", () -> page(list("/.reserved/.inodes", "")));
    row("an unknown id", () -> stat("/.reserved/.inodes/999999999"));
    row("read by id", () -> Bytes.check(fs, new Path("/.reserved/.inodes/" + f.getFileId()), "x"));
    row("delete of /.reserved", () -> nn().delete("/.reserved", true));
    row("delete of / without recursion", () -> nn().delete("/", false));
    row("delete of /", () -> nn().delete("/", true));
    row("what is left", () -> names("/t"));
  }

  private interface Send {
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

  private void replays() throws Exception {
    name = "A4 with data";
    fresh();
    for (String p : new String[] {"/t/append", "/t/truncate", "/t/boundary", "/t/target", "/t/s1", "/t/s2", "/t/overwritten"}) data(p, 8192);
    data("/t/short", 1000);
    replay("append", c -> LeaseCases.append(c, "/t/append", "case"));
    replay("append within a block", c -> LeaseCases.append(c, "/t/short", "case"));
    replay("concat", c -> {
      c.concat("/t/target", new String[] {"/t/s1", "/t/s2"});
      return stat("/t/target");
    });
    replay("truncate to a boundary", c -> c.truncate("/t/boundary", 4096, "case"));
    replay("truncate to its own length", c -> c.truncate("/t/truncate", 8192, "case"));
    long[] id = new long[1];
    replay("create over data", c -> {
      long now = create(c, "/t/overwritten", P644, true, CreateFlag.CREATE, CreateFlag.OVERWRITE).getFileId();
      if (id[0] == 0) id[0] = now;
      return now == id[0] ? "the same inode" : "another inode";
    });
    create(nn(), "/t/blocks", P644, true, CreateFlag.CREATE);
    long[] block = new long[1];
    replay("addBlock", c -> {
      long now = c.addBlock("/t/blocks", "case", null, null, ANY, null, EnumSet.noneOf(AddBlockFlag.class)).getBlock().getBlockId();
      if (block[0] == 0) block[0] = now;
      return now == block[0] ? "the same block" : "another block";
    });
    nn().delete("/t/blocks", false);
    row("stat of what was appended to", () -> stat("/t/append") + " closed=" + nn().isFileClosed("/t/append"));
  }

  private void times() throws Exception {
    name = "A6 with data";
    fresh();
    mkdir("/t/d", "/t/other");
    data("/t/d/f", 100);
    moved("append of bytes, not closed", () -> {
      FSDataOutputStream out = fs.append(new Path("/t/d/f"));
      out.write(1);
      out.hflush();
      held = out;
    });
    moved("close", () -> held.close());
    moved("append of nothing", () -> fs.append(new Path("/t/d/f")).close());
    moved("setReplication", () -> nn().setReplication("/t/d/f", (short) 2));
    moved("truncate", () -> nn().truncate("/t/d/f", 0, "case"));
    moved("rename", () -> nn().rename("/t/d/f", "/t/other/f"));
    moved("rename back", () -> nn().rename("/t/other/f", "/t/d/f"));
    data("/t/d/f", 5000);
    row("setTimes, access time long ago", () -> {
      nn().setTimes("/t/d/f", -1, 5000);
      return nn().getFileInfo("/t/d/f").getAccessTime();
    });
    row("first read moves the access time", () -> {
      Bytes.check(fs, new Path("/t/d/f"), "x");
      return nn().getFileInfo("/t/d/f").getAccessTime() > 5000;
    });
    row("second read does not", () -> {
      long a = nn().getFileInfo("/t/d/f").getAccessTime();
      Thread.sleep(3);
      Bytes.check(fs, new Path("/t/d/f"), "x");
      return nn().getFileInfo("/t/d/f").getAccessTime() == a;
    });
  }

  private FSDataOutputStream held;

  private void moved(String step, Call call) {
    row(step, () -> {
      long[] before = mtimes();
      Thread.sleep(3);
      call.run();
      long[] after = mtimes();
      List<String> moved = new ArrayList<>();
      for (int i = 0; i < before.length; i++) if (before[i] != after[i]) moved.add(new String[] {"d", "other", "f"}[i]);
      return "moved=" + moved;
    });
  }

  private long[] mtimes() throws Exception {
    HdfsFileStatus f = nn().getFileInfo("/t/d/f");
    if (f == null) f = nn().getFileInfo("/t/other/f");
    return new long[] {nn().getFileInfo("/t/d").getModificationTime(), nn().getFileInfo("/t/other").getModificationTime(), f.getModificationTime()};
  }

  private void truncate() throws Exception {
    name = "truncate";
    fresh();
    data("/t/f", 10000);
    row("to a block's end", () -> nn().truncate("/t/f", 8192, "case") + " " + stat("/t/f"));
    row("into a block", () -> nn().truncate("/t/f", 5000, "case"));
    row("append while it goes on", () -> LeaseCases.append(nn(), "/t/f", "other"));
    row("until it is closed", () -> {
      for (int i = 0; i < 300 && !nn().isFileClosed("/t/f"); i++) Thread.sleep(100);
      return nn().isFileClosed("/t/f") + " " + stat("/t/f");
    });
    row("bytes", () -> Bytes.check(fs, new Path("/t/f"), "x"));
    row("to its own length", () -> nn().truncate("/t/f", 5000, "case"));
    row("to a negative length", () -> nn().truncate("/t/f", -1, "case"));
    row("of a directory", () -> nn().truncate("/t", 0, "case"));
    row("to nothing", () -> nn().truncate("/t/f", 0, "case") + " " + stat("/t/f") + " " + blocks("/t/f"));
    row("append then", () -> {
      try (FSDataOutputStream out = fs.append(new Path("/t/f"))) {
        out.write(Bytes.of("x", 0, 4097));
      }
      return Bytes.check(fs, new Path("/t/f"), "x") + " " + blocks("/t/f");
    });
    row("append of a new block", () -> {
      try (FSDataOutputStream out = fs.append(new Path("/t/f"), EnumSet.of(CreateFlag.APPEND, CreateFlag.NEW_BLOCK), 4096, null)) {
        out.write(Bytes.of("x", 4097, 10));
      }
      return Bytes.check(fs, new Path("/t/f"), "x") + " " + blocks("/t/f");
    });
  }
}
