import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;

/**
 * Writers and readers of data that go on while anything is killed, and know which bytes must be there. Each worker has a
 * directory of its own and a ledger of it: a file's bytes follow from the name it was made under ({@link Bytes}) and its
 * length. A write that fails leaves a file of which everything that was flushed is there and nothing that was not written:
 * the worker recovers its lease, reads it, and enters what it found.
 *
 * <p>usage: hdfs probe Load SEED. Reads `count`, `check` and `end` from stdin, as {@link Crash} does. `check` waits for the
 * operations in flight and then reads everything.
 */
public final class Load {
  private static final int WORKERS = 4, FILES = 25, BLOCK = 65536, MOST = 3 * BLOCK;
  private static final long PATIENCE_MS = 120_000;

  private final Configuration conf = Probe.conf();
  private final ReentrantReadWriteLock quiet = new ReentrantReadWriteLock(true); // workers share it, a check excludes them
  private final AtomicLong acknowledged = new AtomicLong(), bytes = new AtomicLong(), failed = new AtomicLong();
  private volatile boolean ended;

  private Load() {
    conf.setLong("dfs.blocksize", BLOCK);
  }

  /** What a file must hold: so many bytes of that name. */
  private record Held(String name, long length) {}

  private final class Worker {
    private final Path base;
    private final TreeMap<String, Held> ledger = new TreeMap<>();
    private final Random random;
    private final DistributedFileSystem fs;
    private int serial;

    Worker(int index, long seed) throws Exception {
      base = new Path("/load/w" + index);
      random = new Random(seed * 1000 + index);
      fs = (DistributedFileSystem) FileSystem.newInstance(conf);
      fs.mkdirs(base);
    }

    void run() throws Exception {
      while (!ended) {
        quiet.readLock().lock();
        try {
          step();
          acknowledged.incrementAndGet();
        } finally {
          quiet.readLock().unlock();
        }
      }
    }

    private void step() throws Exception {
      int dice = ledger.isEmpty() ? 0 : random.nextInt(100);
      if (dice < 35 && ledger.size() < FILES) {
        String name = "f" + serial++;
        write(name, new Held(base + "/" + name, 0), false);
      } else if (dice < 55) {
        String name = any();
        write(name, ledger.get(name), true);
      } else if (dice < 62) { // over an old one
        String name = any();
        write(name, new Held(base + "/" + name + "#" + serial++, 0), false);
      } else if (dice < 72) {
        rename(any(), "r" + serial++);
      } else if (dice < 85) {
        String name = any();
        read(name, ledger.get(name));
      } else {
        delete(any());
      }
    }

    /** Creates or appends; some bytes are flushed on the way. */
    private void write(String name, Held before, boolean append) throws Exception {
      Path path = new Path(base, name);
      int count = random.nextInt(MOST), half = count / 2;
      Held old = ledger.get(name);
      long flushed = append ? before.length : -1;
      try {
        FSDataOutputStream out = append ? fs.append(path) : fs.create(path, true);
        if (!append) flushed = 0;
        out.write(Bytes.of(before.name, before.length, half));
        if (random.nextBoolean()) {
          out.hflush();
          flushed = before.length + half;
        }
        out.write(Bytes.of(before.name, before.length + half, count - half));
        out.close();
        ledger.put(name, new Held(before.name, before.length + count));
        bytes.addAndGet(count);
      } catch (IOException e) {
        failed.incrementAndGet();
        settle(name, path, old, before, flushed, before.length + count, e);
      }
    }

    /** Enters what a failed write left. `flushed` is -1 while the create may not even have been done. */
    private void settle(String name, Path path, Held old, Held now, long flushed, long written, IOException why) throws Exception {
      long length = patiently(() -> {
        if (!fs.exists(path)) return -1L;
        if (!fs.recoverLease(path)) throw new IOException(path + " is not recovered yet");
        return fs.getFileStatus(path).getLen();
      });
      if (length < 0) {
        if (flushed >= 0 || old != null) throw new IllegalStateException(path + " is gone after " + why);
        return;
      }
      boolean isOld = flushed < 0 && old != null && old.length == length && holds(path, old.name, length);
      if (!isOld) {
        if (length < flushed || length > written) {
          throw new IllegalStateException(path + " has " + length + " bytes, flushed " + flushed + ", written " + written + ", after " + why);
        }
        read(name, new Held(now.name, length));
      }
      ledger.put(name, new Held(isOld ? old.name : now.name, length));
    }

    private boolean holds(Path path, String name, long length) throws Exception {
      return patiently(() -> {
        try {
          return Bytes.check(fs, path, name) == length;
        } catch (IllegalStateException e) {
          return false;
        }
      });
    }

    private void read(String name, Held held) throws Exception {
      Path path = new Path(base, name);
      long length = patiently(() -> Bytes.check(fs, path, held.name));
      if (length != held.length) throw new IllegalStateException(path + " has " + length + " bytes, not " + held.length);
    }

    private void rename(String from, String to) throws Exception {
      Path source = new Path(base, from), target = new Path(base, to);
      boolean done = patiently(() -> fs.rename(source, target) || (fs.exists(target) && !fs.exists(source)));
      if (!done) throw new IllegalStateException("rename of " + source + " answered false");
      ledger.put(to, ledger.remove(from));
    }

    private void delete(String name) throws Exception {
      Path path = new Path(base, name);
      boolean done = patiently(() -> fs.delete(path, false) || !fs.exists(path));
      if (!done) throw new IllegalStateException("delete of " + path + " answered false");
      ledger.remove(name);
    }

    private String any() {
      return new ArrayList<>(ledger.keySet()).get(random.nextInt(ledger.size()));
    }

    void check() throws Exception {
      TreeMap<String, Long> found = new TreeMap<>(), wanted = new TreeMap<>();
      for (FileStatus s : patiently(() -> fs.listStatus(base))) found.put(s.getPath().getName(), s.getLen());
      ledger.forEach((name, held) -> wanted.put(name, held.length));
      if (!found.equals(wanted)) throw new IllegalStateException(base + " has " + found + ", not " + wanted);
      for (Map.Entry<String, Held> e : ledger.entrySet()) read(e.getKey(), e.getValue());
    }
  }

  private interface Call<T> {
    T run() throws Exception;
  }

  /** Tries again until it goes: whatever was killed comes back. */
  private static <T> T patiently(Call<T> call) throws Exception {
    long deadline = System.currentTimeMillis() + PATIENCE_MS;
    while (true) {
      try {
        return call.run();
      } catch (IOException e) {
        if (System.currentTimeMillis() > deadline) throw e;
        Thread.sleep(200);
      }
    }
  }

  public static void main(String[] args) throws Exception {
    Load load = new Load();
    List<Worker> workers = new ArrayList<>();
    for (int i = 0; i < WORKERS; i++) workers.add(load.new Worker(i, Long.parseLong(args[0])));
    for (Worker w : workers) {
      Thread t = new Thread(() -> {
        try {
          w.run();
        } catch (Throwable e) {
          System.out.println("wrong: " + w.base + ": " + e.toString().replace('\n', ' '));
          e.printStackTrace();
          System.exit(1);
        }
      });
      t.setDaemon(true);
      t.start();
    }
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = in.readLine()) != null && !line.equals("end"); ) {
      String answer = "right: ";
      if (!line.equals("count")) {
        load.quiet.writeLock().lock();
        try {
          for (Worker w : workers) w.check();
        } catch (Exception e) {
          answer = "wrong: " + e.toString().replace('\n', ' ') + " ";
        } finally {
          load.quiet.writeLock().unlock();
        }
      }
      System.out.println(answer + "acknowledged=" + load.acknowledged + " bytes=" + load.bytes + " failed writes=" + load.failed);
    }
    System.exit(0);
  }
}
