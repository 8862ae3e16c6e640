import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.BlockLocation;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;

/**
 * Writes and reads files as it is told, so that something can be killed meanwhile. Commands on stdin, one a line; each is
 * answered with a line that begins with `right`, or with `wrong` and why:
 *
 * <ul>
 *   <li>`write PATH LENGTH BLOCK_SIZE REPLICATION MILLIS`: a file of {@link Bytes}, written in pieces over about so many
 *       milliseconds; `right begun` comes before the first byte, a second answer when it is closed.
 *   <li>`check PATH`: reads it all and compares; answers the length.
 *   <li>`replicas PATH`: the fewest locations that a block of it has.
 *   <li>`recover PATH`: recovers its lease; answers the length.
 * </ul>
 *
 * <p>usage: hdfs probe Files
 */
public final class Files {
  private static final int PIECES = 200;

  private Files() {}

  public static void main(String[] args) throws Exception {
    Configuration conf = Probe.conf();
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = in.readLine()) != null; ) {
      String[] words = line.split(" ");
      try (DistributedFileSystem fs = (DistributedFileSystem) DistributedFileSystem.newInstance(conf)) {
        System.out.println("right " + run(fs, words));
      } catch (Exception e) {
        e.printStackTrace();
        System.out.println("wrong " + line + ": " + e.toString().replace('\n', ' '));
      }
    }
    System.exit(0);
  }

  private static Object run(DistributedFileSystem fs, String[] words) throws Exception {
    Path path = new Path(words[1]);
    switch (words[0]) {
      case "write":
        write(fs, path, Long.parseLong(words[2]), Long.parseLong(words[3]), Short.parseShort(words[4]), Long.parseLong(words[5]));
        return "written";
      case "check": return Bytes.check(fs, path, words[1]);
      case "replicas": {
        BlockLocation[] all = fs.getFileBlockLocations(path, 0, Long.MAX_VALUE);
        return Arrays.stream(all).mapToInt(b -> b.isCorrupt() ? 0 : hosts(b)).min().orElse(0);
      }
      case "recover":
        for (int i = 0; i < 120 && !fs.recoverLease(path); i++) Thread.sleep(500);
        return fs.getFileStatus(path).getLen();
      default: throw new IllegalArgumentException(words[0]);
    }
  }

  private static int hosts(BlockLocation block) {
    try {
      return block.getNames().length;
    } catch (java.io.IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }

  private static void write(DistributedFileSystem fs, Path path, long length, long blockSize, short replication, long millis) throws Exception {
    FSDataOutputStream out = fs.create(path, true, 4096, replication, blockSize);
    System.out.println("right begun");
    long start = System.nanoTime();
    int piece = (int) ((length + PIECES - 1) / PIECES);
    for (long at = 0; at < length; at += piece) {
      out.write(Bytes.of(path.toString(), at, (int) Math.min(piece, length - at)));
      if (at % (10L * piece) == 0) out.hflush();
      long ahead = at * millis / length - (System.nanoTime() - start) / 1_000_000;
      if (ahead > 0) Thread.sleep(ahead);
    }
    out.close();
  }
}
