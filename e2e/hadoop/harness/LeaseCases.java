import java.util.EnumSet;
import java.util.List;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.client.HdfsDataOutputStream;
import org.apache.hadoop.hdfs.client.HdfsDataOutputStream.SyncFlag;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.apache.hadoop.io.EnumSetWritable;

/** E1, E3, E4, E5: files that are open, and what others may do with them and see of them. */
final class LeaseCases extends Cases {
  private static final long SOFT_MS = Long.getLong("soft", 60_000);
  private static final int PATIENCE = 60;

  LeaseCases(String[] args) throws Exception {
    super(args);
    conf.setLong("dfs.blocksize", 4096);
    conf.setLong("dfs.bytes-per-checksum", 512);
  }

  @Override
  List<Call> cases() {
    return List.of(this::openTwice, this::sleeper, this::recover, this::visible);
  }

  static Object append(ClientProtocol c, String path, String holder) throws Exception {
    return c.append(path, holder, new EnumSetWritable<>(EnumSet.of(CreateFlag.APPEND))).getFileStatus().getLen();
  }

  private void openTwice() throws Exception {
    name = "E1";
    fresh();
    mkdir("/t/x");
    DistributedFileSystem fs = client();
    String me = fs.getClient().getClientName(), f = "/t/x/f", f2 = "/t/x/f2";
    FSDataOutputStream out = fs.create(new Path(f));
    out.write(Bytes.of("f", 0, 100));
    out.hflush();
    row("another creates", () -> create(nn(), f, P644, true, CreateFlag.CREATE).getLen());
    row("another appends", () -> append(nn(), f, "case"));
    row("another truncates", () -> nn().truncate(f, 10, "case"));
    row("another sets the replication", () -> nn().setReplication(f, (short) 2));
    ok("another sets the permission", () -> nn().setPermission(f, new FsPermission((short) 0600)));
    row("the writer creates it again", () -> nn().create(f, P644, me, new EnumSetWritable<>(EnumSet.of(CreateFlag.CREATE)), true, (short) 3, 4096, versions(), null, null).getLen());
    row("the writer appends", () -> append(nn(), f, me));
    row("the writer truncates", () -> nn().truncate(f, 10, me));
    row("another renames", () -> nn().rename(f, f2));
    row("the writer closes", () -> {
      out.write(Bytes.of("f", 100, 50));
      out.close();
      return stat(f2);
    });
    row("the old name", () -> stat(f));
    row("all bytes", () -> Bytes.check(fs, new Path(f2), "f"));
    row("append of a missing file", () -> append(nn(), "/t/x/missing", "case"));
    row("append of a directory", () -> append(nn(), "/t/x", "case"));
    row("truncate of a missing file", () -> nn().truncate("/t/x/missing", 0, "case"));
    row("truncate to more than it has", () -> nn().truncate(f2, 1000, "case"));
    fs.close();
  }

  private void sleeper() throws Exception {
    name = "E3";
    fresh();
    String f = "/t/sleeper";
    DistributedFileSystem fs = client();
    try (Writer.Child writer = new Writer.Child(namenodes.get(0).toString(), f)) {
      writer.created();
      row("the writer flushes", () -> writer.ask("write 3000"));
      writer.signal("STOP");
      long stopped = System.nanoTime();
      row("another appends before the soft limit", () -> append(nn(), f, "case"));
      Thread.sleep(SOFT_MS + SOFT_MS / 12 - (System.nanoTime() - stopped) / 1_000_000);
      row("another appends after it", () -> append(nn(), f, "case"));
      row("and again until it may", () -> patiently(() -> {
        FSDataOutputStream out = fs.append(new Path(f));
        out.write(Bytes.of(f, 3000, 10));
        out.close();
      }));
      row("the length", () -> nn().getFileInfo(f).getLen());
      writer.signal("CONT");
      row("the sleeper writes", () -> writer.ask("write 1000").split(" ")[0]);
      row("the sleeper closes", () -> writer.ask("close").split(" ")[0]);
      row("the length then", () -> nn().getFileInfo(f).getLen());
      row("all bytes", () -> Bytes.check(fs, new Path(f), f));
    }
    fs.close();
  }

  private void recover() throws Exception {
    name = "E4";
    fresh();
    String f = "/t/f";
    DistributedFileSystem fs = client(), other = client();
    FSDataOutputStream out = fs.create(new Path(f));
    out.write(Bytes.of("f", 0, 5000));
    out.hflush();
    row("recoverLease", () -> nn().recoverLease(f, "case"));
    row("append at once", () -> append(nn(), f, "case"));
    row("recoverLease until it is closed", () -> patiently(() -> {
      if (!nn().recoverLease(f, "case")) throw new java.io.IOException("not yet");
    }));
    row("afterwards", () -> nn().getFileInfo(f).getLen() + " closed=" + nn().isFileClosed(f));
    row("the writer flushes", () -> {
      out.write(Bytes.of("f", 5000, 100));
      out.hflush();
      return "";
    });
    row("the writer closes", () -> {
      out.close();
      return "";
    });
    row("all bytes", () -> Bytes.check(other, new Path(f), "f"));
    row("recoverLease of a closed file", () -> nn().recoverLease(f, "case"));
    row("recoverLease of a missing file", () -> nn().recoverLease("/t/missing", "case"));
    row("recoverLease of a directory", () -> nn().recoverLease("/t", "case"));
    create(nn(), "/t/empty", P644, true, CreateFlag.CREATE);
    row("recoverLease of a file without a block", () -> nn().recoverLease("/t/empty", "other") + " closed=" + nn().isFileClosed("/t/empty"));
    fs.close();
    other.close();
  }

  private void visible() throws Exception {
    name = "E5";
    fresh();
    DistributedFileSystem fs = client(), reader = client();
    Path f = new Path("/t/f"), g = new Path("/t/g");
    HdfsDataOutputStream out = (HdfsDataOutputStream) fs.create(f);
    for (int i = 0; i < 2; i++) {
      out.write(Bytes.of("f", i * 100, 100));
      out.hflush();
      row("length after hflush " + (i + 1), () -> nn().getFileInfo("/t/f").getLen());
    }
    row("a reader sees", () -> Bytes.check(reader, f, "f"));
    row("visible length", () -> reader.getClient().open("/t/f").getFileLength());
    out.hsync(EnumSet.of(SyncFlag.UPDATE_LENGTH));
    row("length after hsync with UPDATE_LENGTH", () -> nn().getFileInfo("/t/f").getLen());
    row("isFileClosed", () -> nn().isFileClosed("/t/f"));
    row("a reader of what it opened before sees no more", () -> {
      try (var in = reader.open(f)) {
        out.write(Bytes.of("f", 200, 100));
        out.hflush();
        return in.readAllBytes().length;
      }
    });
    out.close();
    row("isFileClosed then", () -> nn().isFileClosed("/t/f") + " " + nn().getFileInfo("/t/f").getLen());
    FSDataOutputStream big = fs.create(g);
    big.write(Bytes.of("g", 0, 6000));
    big.hflush();
    row("length in the second block", () -> nn().getFileInfo("/t/g").getLen());
    row("content summary while open", () -> summary("/t/g"));
    big.close();
    row("content summary", () -> summary("/t/g"));
    row("all bytes", () -> Bytes.check(reader, g, "g"));
    fs.close();
    reader.close();
  }

  private String summary(String path) throws Exception {
    var s = nn().getContentSummary(path);
    return "length=" + s.getLength() + " space=" + s.getSpaceConsumed();
  }

  /** Tries until it goes, for as many seconds as there is patience. */
  private static String patiently(Call call) throws Exception {
    Exception last = null;
    for (int i = 0; i < PATIENCE; i++) {
      try {
        call.run();
        return "done";
      } catch (Exception e) {
        last = e;
        Thread.sleep(1000);
      }
    }
    throw last;
  }
}
