import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.crypto.CryptoProtocolVersion;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.apache.hadoop.hdfs.protocol.DirectoryListing;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;
import org.apache.hadoop.io.EnumSetWritable;
import org.apache.hadoop.ipc.Client;
import org.apache.hadoop.ipc.RemoteException;

/**
 * Writers that go on while namenodes are killed or frozen, and know what must be there. Each writer has a directory of
 * its own and a model of it; a call whose answer did not come is sent again, with the same call id, to the next namenode,
 * and must give the answer that the model expects: exactly once.
 *
 * <p>usage: hdfs probe Crash SEED hdfs://HOST:PORT ... Reads `count`, `check` and `end` from stdin, one a line. `count`
 * prints `right` and how much was acknowledged. `check` also waits for the calls in flight, compares the tree with the
 * models through every namenode, and prints `right` with counts, or `wrong` and what is. A writer that finds a wrong
 * answer, or none for two minutes, prints `wrong` at once.
 */
public final class Crash {
  private static final int WRITERS = 6, ENTRIES = 150;
  private static final long PATIENCE_MS = 120_000;

  private final Configuration conf = Probe.conf();
  private final List<URI> namenodes;
  private final ReentrantReadWriteLock quiet = new ReentrantReadWriteLock(true); // writers share it, a check excludes them
  private final AtomicLong acknowledged = new AtomicLong(), again = new AtomicLong();
  private volatile boolean ended;

  private Crash(String[] urls) {
    namenodes = Probe.namenodes(conf, urls);
    conf.setInt("ipc.client.connect.max.retries", 0);
    conf.setInt("ipc.client.connect.timeout", 2000);
    conf.setInt("ipc.client.connect.max.retries.on.timeouts", 0);
    conf.setInt("ipc.client.rpc-timeout.ms", 5000); // a frozen namenode does not answer: go on to the next
  }

  /** A client that goes from namenode to namenode until one answers. */
  private final class Sender {
    private final List<ClientProtocol> proxies = new ArrayList<>();
    private int at;

    Sender(int first) throws Exception {
      for (URI n : namenodes) proxies.add(Probe.as(conf, n, Probe.SUPER));
      at = first;
    }

    interface Send<T> {
      T run(ClientProtocol c) throws IOException;
    }

    <T> T send(Send<T> call) throws Exception {
      int id = Client.nextCallId();
      long deadline = System.currentTimeMillis() + PATIENCE_MS;
      for (int retry = 0; ; retry++) {
        try {
          Client.setCallIdAndRetryCount(id, retry, null);
          return call.run(proxies.get(at % proxies.size()));
        } catch (IOException e) {
          String remote = e instanceof RemoteException ? ((RemoteException) e).getClassName() : "";
          boolean other = remote.isEmpty() || remote.endsWith("StandbyException") || remote.endsWith("RetriableException") || remote.endsWith("SafeModeException");
          if (!other || System.currentTimeMillis() > deadline) throw e;
          again.incrementAndGet();
          at++;
          Thread.sleep(retry < namenodes.size() ? 1 : 50);
        }
      }
    }
  }

  /** One writer: its directory, its model (path below the directory to "d" or "f" and the mode), its client. */
  private final class Writer {
    private final String base;
    private final TreeMap<String, String> model = new TreeMap<>();
    private final Sender sender;
    private final Random random;
    private int serial;

    Writer(int index, long seed) throws Exception {
      base = "/crash/w" + index;
      sender = new Sender(index);
      random = new Random(seed * 1000 + index);
      expect("mkdirs", true, sender.send(c -> c.mkdirs(base, new FsPermission((short) 0755), true)));
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
      int dice = model.size() > ENTRIES ? 90 : random.nextInt(100);
      if (dice < 25) {
        String p = fresh();
        expect("mkdirs " + p, true, sender.send(c -> c.mkdirs(base + p, new FsPermission((short) 0755), false)));
        model.put(p, "d 0755");
      } else if (dice < 60) {
        create(fresh());
      } else if (dice < 80 && !model.isEmpty()) {
        rename(any(), fresh());
      } else if (dice < 88 && !model.isEmpty()) {
        String p = any();
        int mode = random.nextInt(2) == 0 ? 0700 : 0751;
        sender.send(c -> {
          c.setPermission(base + p, new FsPermission((short) mode));
          return "";
        });
        model.put(p, model.get(p).substring(0, 2) + Probe.mode(new FsPermission((short) mode)));
      } else if (!model.isEmpty()) {
        String p = any();
        expect("delete " + p, true, sender.send(c -> c.delete(base + p, true)));
        model.keySet().removeIf(k -> k.equals(p) || k.startsWith(p + "/"));
      }
    }

    private void create(String p) throws Exception {
      sender.send(c -> c.create(base + p, new FsPermission((short) 0644), base, new EnumSetWritable<>(EnumSet.of(CreateFlag.CREATE)), false, (short) 1,
          1 << 20, CryptoProtocolVersion.supported(), null, null));
      expect("complete " + p, true, sender.send(c -> c.complete(base + p, base, null, HdfsConstants.GRANDFATHER_INODE_ID)));
      model.put(p, "f 0644");
    }

    private void rename(String from, String to) throws Exception {
      boolean below = to.startsWith(from + "/"); // into itself: refused
      expect("rename " + from + " " + to, !below, sender.send(c -> c.rename(base + from, base + to)));
      if (below) return;
      TreeMap<String, String> moved = new TreeMap<>();
      model.forEach((k, v) -> moved.put(k.equals(from) || k.startsWith(from + "/") ? to + k.substring(from.length()) : k, v));
      model.clear();
      model.putAll(moved);
    }

    /** A new name in an existing directory. */
    private String fresh() {
      List<String> directories = new ArrayList<>(List.of(""));
      model.forEach((k, v) -> {
        if (v.startsWith("d") && k.length() < 200) directories.add(k);
      });
      return directories.get(random.nextInt(directories.size())) + "/n" + serial++;
    }

    private String any() {
      return new ArrayList<>(model.keySet()).get(random.nextInt(model.size()));
    }
  }

  private static void expect(String what, Object wanted, Object got) {
    if (!wanted.equals(got)) throw new IllegalStateException(what + " answered " + got + ", not " + wanted);
  }

  private void tree(Sender sender, String path, Map<String, String> into, String below) throws Exception {
    byte[] after = new byte[0];
    for (boolean more = true; more; ) {
      byte[] from = after;
      DirectoryListing page = sender.send(c -> c.getListing(path, from, false));
      for (HdfsFileStatus s : page.getPartialListing()) {
        String p = below + "/" + s.getLocalName();
        into.put(p, (s.isDirectory() ? "d " : "f ") + Probe.mode(s.getPermission()));
        if (s.isDirectory()) tree(sender, path + "/" + s.getLocalName(), into, p);
      }
      after = page.getLastName();
      more = page.hasMore();
    }
  }

  private String check(List<Writer> writers) throws Exception {
    int entries = 0;
    for (int i = 0; i < namenodes.size(); i++) {
      entries = 0;
      Sender sender = new Sender(i);
      for (Writer w : writers) {
        TreeMap<String, String> found = new TreeMap<>();
        tree(sender, w.base, found, "");
        if (!found.equals(w.model)) return "wrong through namenode " + i + ": " + w.base + " " + difference(w.model, found);
        var sum = sender.send(c -> c.getContentSummary(w.base));
        if (sum.getFileCount() + sum.getDirectoryCount() != found.size() + 1) return "wrong: content summary of " + w.base;
        entries += found.size();
      }
    }
    return "right: " + count() + " entries=" + entries;
  }

  private String count() {
    return "acknowledged=" + acknowledged + " sent again=" + again;
  }

  private static String difference(Map<String, String> model, Map<String, String> found) {
    List<String> d = new ArrayList<>();
    model.forEach((k, v) -> {
      if (!v.equals(found.get(k))) d.add(k + ": " + v + " is " + found.get(k));
    });
    found.forEach((k, v) -> {
      if (!model.containsKey(k)) d.add(k + ": nothing is " + v);
    });
    return d.subList(0, Math.min(5, d.size())).toString();
  }

  public static void main(String[] args) throws Exception {
    long seed = Long.parseLong(args[0]);
    Crash crash = new Crash(Arrays.copyOfRange(args, 1, args.length));
    List<Writer> writers = new ArrayList<>();
    crash.new Sender(0).send(c -> c.delete("/crash", true));
    for (int i = 0; i < WRITERS; i++) writers.add(crash.new Writer(i, seed));
    for (Writer w : writers) {
      Thread t = new Thread(() -> {
        try {
          w.run();
        } catch (Throwable e) {
          System.out.println("wrong: " + w.base + ": " + e.toString().replace('\n', ' '));
          System.exit(1);
        }
      });
      t.setDaemon(true);
      t.start();
    }
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = in.readLine()) != null && !line.equals("end"); ) {
      if (line.equals("count")) {
        System.out.println("right: " + crash.count());
        continue;
      }
      crash.quiet.writeLock().lock();
      try {
        System.out.println(crash.check(writers));
      } finally {
        crash.quiet.writeLock().unlock();
      }
    }
    System.exit(0);
  }
}
