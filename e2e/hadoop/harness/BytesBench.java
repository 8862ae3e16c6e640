import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * The stock client's speed with data, in one JVM that stays warm. Commands on stdin, one a line, each answered with
 * `right SECONDS`:
 *
 * <ul>
 *   <li>`put PATH MEGABYTES` writes a file from memory, to its close;
 *   <li>`get PATH` reads it all, checksums verified;
 *   <li>`small DIR THREADS FILES BYTES` creates so many files, writes and closes each;
 *   <li>`delete PATH`.
 * </ul>
 *
 * <p>usage: hdfs probe BytesBench
 */
public final class BytesBench {
  private static final int MEGABYTE = 1 << 20;

  private BytesBench() {}

  public static void main(String[] args) throws Exception {
    Configuration conf = Probe.conf();
    FileSystem fs = FileSystem.get(conf);
    byte[] buffer = Bytes.of("bench", 0, MEGABYTE);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = in.readLine()) != null; ) {
      String[] words = line.split(" ");
      long start = System.nanoTime();
      try {
        switch (words[0]) {
          case "put": put(fs, new Path(words[1]), Integer.parseInt(words[2]), buffer); break;
          case "get": get(fs, new Path(words[1])); break;
          case "small": small(fs, words[1], Integer.parseInt(words[2]), Integer.parseInt(words[3]), Integer.parseInt(words[4]), buffer); break;
          case "delete": fs.delete(new Path(words[1]), true); break;
          default: throw new IllegalArgumentException(words[0]);
        }
        System.out.println("right " + (System.nanoTime() - start) / 1e9);
      } catch (Exception e) {
        System.out.println("wrong " + line + ": " + e.toString().replace('\n', ' '));
      }
    }
    System.exit(0);
  }

  private static void put(FileSystem fs, Path path, int megabytes, byte[] buffer) throws Exception {
    try (OutputStream out = fs.create(path, true)) {
      for (int i = 0; i < megabytes; i++) out.write(buffer);
    }
  }

  private static void get(FileSystem fs, Path path) throws Exception {
    byte[] buffer = new byte[MEGABYTE];
    try (InputStream in = fs.open(path)) {
      while (in.read(buffer) >= 0) { }
    }
  }

  private static void small(FileSystem fs, String dir, int threads, int files, int bytes, byte[] buffer) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    AtomicInteger next = new AtomicInteger();
    List<Future<?>> all = new ArrayList<>();
    for (int i = 0; i < threads; i++) {
      all.add(pool.submit(() -> {
        for (int n; (n = next.getAndIncrement()) < files; ) {
          try (OutputStream out = fs.create(new Path(dir + "/f" + n), true)) {
            out.write(buffer, 0, bytes);
          }
        }
        return null;
      }));
    }
    for (Future<?> f : all) f.get();
    pool.shutdown();
  }
}
