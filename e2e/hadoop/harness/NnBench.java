import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.apache.hadoop.hdfs.server.namenode.NNThroughputBenchmark;
import org.apache.hadoop.util.ToolRunner;
import org.apache.log4j.AppenderSkeleton;
import org.apache.log4j.Logger;
import org.apache.log4j.spi.LoggingEvent;

/**
 * The stock NNThroughputBenchmark, many runs in one JVM, against fs.defaultFS over RPC.
 *
 * <p>usage: hdfs probe NnBench SERVER_PID THREADS NUMBER, operations on stdin, one a line: create mkdirs open fileStatus
 * rename delete. A create closes its file, too. Prints a line each: operation, exit code, operations per second as the
 * benchmark says, CPU microseconds that the server spent per operation (from its /proc entry, so it must run on this
 * machine; pid 0: not measured), and the same over the whole run. The first two are taken over the timed part only: what
 * prepares it, the removal of what the last run left included, is over before it begins, in the background too; and
 * what the server puts off until later counts: its CPU time is read when it has come to rest. The last one counts the
 * preparation and the removal of all that the run made as well.
 */
public final class NnBench {
  private static final Pattern START = Pattern.compile("Starting \\d+ \\w+\\(s\\)\\.");
  private static final Pattern DONE = Pattern.compile("# operations: (\\d+)");
  private static final Pattern RATE = Pattern.compile("Ops per sec: ([0-9.E]+)");
  private static final long TICK_US = 10_000; // of /proc/PID/stat
  private static final long REST_MS = 300;

  private NnBench() {}

  private interface Ear extends java.lang.reflect.InvocationHandler {}

  /** Hears what the benchmark logs: it keeps its figures to itself, and says when the timed part begins and ends. */
  private static final class Listener extends AppenderSkeleton {
    private final String pid;
    private double rate, operations;
    private long start, timed;

    Listener(String pid) {
      this.pid = pid;
    }

    @Override
    protected void append(LoggingEvent event) {
      String message = String.valueOf(event.getMessage());
      if (START.matcher(message).matches()) {
        hearRemoval();
        start = idleCpuMicros(pid); // that of its preparation comes first, and is overwritten
      }
      Matcher m = DONE.matcher(message);
      if (m.matches()) operations = Double.parseDouble(m.group(1));
      m = RATE.matcher(message);
      if (m.find()) rate = Double.parseDouble(m.group(1));
    }

    /** The benchmark says that it is done only after it has removed what it made: its removal is waited for as well. */
    private void hearRemoval() {
      try {
        Field field = NNThroughputBenchmark.class.getDeclaredField("clientProto");
        field.setAccessible(true);
        ClientProtocol server = (ClientProtocol) field.get(null);
        if (Proxy.isProxyClass(server.getClass()) && Proxy.getInvocationHandler(server) instanceof Ear) return;
        Ear ear = (proxy, method, args) -> {
          if (method.getName().equals("delete") && (Boolean) args[1]) timed = idleCpuMicros(pid) - start;
          try {
            return method.invoke(server, args);
          } catch (InvocationTargetException e) {
            throw e.getCause();
          }
        };
        field.set(null, Proxy.newProxyInstance(NnBench.class.getClassLoader(), new Class<?>[] {ClientProtocol.class}, ear));
      } catch (ReflectiveOperationException e) {
        throw new IllegalStateException(e);
      }
    }

    @Override
    public void close() {}

    @Override
    public boolean requiresLayout() {
      return false;
    }
  }

  public static void main(String[] args) throws Exception {
    Constructor<NNThroughputBenchmark> make = NNThroughputBenchmark.class.getDeclaredConstructor(Configuration.class);
    make.setAccessible(true); // its runBenchmark() drops the exit code
    Listener listener = new Listener(args[0]);
    Logger logger = Logger.getLogger(NNThroughputBenchmark.class);
    logger.addAppender(listener);
    logger.setAdditivity(false);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String operation; (operation = in.readLine()) != null; ) {
      String many = operation.equals("mkdirs") ? "-dirs" : "-files", each = operation.equals("mkdirs") ? "-dirsPerDir" : "-filesPerDir";
      List<String> line = new ArrayList<>(List.of("-op", operation, "-threads", args[1], many, args[2], each, "32"));
      if (operation.equals("create")) line.add("-close");
      listener.rate = 0;
      long before = idleCpuMicros(args[0]);
      int exit = ToolRunner.run(make.newInstance(Probe.conf()), line.toArray(new String[0]));
      long whole = idleCpuMicros(args[0]) - before;
      double n = listener.operations;
      System.out.printf("%s\t%d\t%.0f\t%.1f\t%.1f%n", operation, exit, listener.rate, listener.timed / n, whole / n);
    }
    System.exit(0);
  }

  /** The server's CPU time once it has come to rest; one that does not within half a minute counts as it is. */
  private static long idleCpuMicros(String pid) {
    long now = cpuMicros(pid);
    for (int waits = 0; waits < 100; waits++) {
      try {
        Thread.sleep(REST_MS);
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      }
      long before = now;
      now = cpuMicros(pid);
      if (now - before <= TICK_US) break;
    }
    return now;
  }

  private static long cpuMicros(String pid) {
    if (pid.equals("0")) return 0;
    try {
      String stat = Files.readString(Path.of("/proc/" + pid + "/stat"));
      String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
      return (Long.parseLong(fields[11]) + Long.parseLong(fields[12])) * TICK_US;
    } catch (IOException e) {
      throw new java.io.UncheckedIOException("the server's CPU time", e);
    }
  }
}
