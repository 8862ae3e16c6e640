import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.util.Random;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;

/**
 * Writers killed with SIGKILL after hflush: another client recovers the lease, and finds all that was flushed and nothing
 * that was not written. The next writer starts while the last one writes, since a JVM takes a second to start.
 *
 * <p>usage: hdfs probe Flushed. Each line on stdin is a round, answered with `right`, how much was known to be flushed and
 * how much was found, or with `wrong` and what is.
 */
public final class Flushed {
  private static final int WRITES = 40, MOST = 9000, PATIENCE = 120;

  private Flushed() {}

  public static void main(String[] args) throws Exception {
    Configuration conf = Probe.conf();
    conf.setLong("dfs.blocksize", 65536);
    URI uri = FileSystem.getDefaultUri(conf);
    Random random = new Random(7);
    Writer.Child next = new Writer.Child(uri.toString(), "/flushed/0");
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (int round = 0; in.readLine() != null; round++) {
      Path path = new Path("/flushed/" + round);
      try (Writer.Child writer = next; DistributedFileSystem fs = (DistributedFileSystem) FileSystem.newInstance(uri, conf)) {
        writer.created();
        next = new Writer.Child(uri.toString(), "/flushed/" + (round + 1));
        System.out.println("right " + kill(writer, fs, path, random));
      } catch (Exception e) {
        System.out.println("wrong: " + path + ": " + e.toString().replace('\n', ' '));
        break;
      }
    }
    next.close();
    System.exit(0);
  }

  private static String kill(Writer.Child writer, DistributedFileSystem fs, Path path, Random random) throws Exception {
    long flushed = Long.parseLong(writer.ask("write 100").split(" ")[1]), told = flushed;
    for (int i = 0; i < WRITES; i++) {
      int count = 1 + random.nextInt(MOST);
      writer.tell("write " + count);
      told += count;
    }
    Thread.sleep(random.nextInt(150));
    writer.signal("KILL");
    flushed = Math.max(flushed, writer.lastLength());
    boolean closed = false;
    for (int i = 0; i < PATIENCE && !closed; i++) {
      closed = fs.recoverLease(path);
      if (!closed) Thread.sleep(250);
    }
    if (!closed) throw new IllegalStateException("not recovered");
    long length = fs.getFileStatus(path).getLen(), read = Bytes.check(fs, path, path.toString());
    if (read != length || length < flushed || length > told) {
      throw new IllegalStateException("length " + length + ", read " + read + ", flushed " + flushed + ", told " + told);
    }
    return flushed + " " + length;
  }
}
