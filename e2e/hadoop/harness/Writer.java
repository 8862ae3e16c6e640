import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * A process that writes one file as it is told, so that it can be stopped and killed. Reads commands from stdin, one a
 * line: `write N` (N more bytes of {@link Bytes}, hflushed) and `close`; answers `ok LENGTH` or `failed CLASS`. Ends
 * without closing at the end of stdin.
 *
 * <p>usage: hdfs probe Writer URI PATH
 */
public final class Writer {
  private Writer() {}

  public static void main(String[] args) throws Exception {
    Configuration conf = Probe.conf();
    FileSystem fs = FileSystem.get(new Path(args[0]).toUri(), conf);
    FSDataOutputStream out = fs.create(new Path(args[1]));
    System.out.println("ok 0");
    long length = 0;
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = in.readLine()) != null; ) {
      try {
        if (line.equals("close")) {
          out.close();
        } else {
          int count = Integer.parseInt(line.substring("write ".length()));
          out.write(Bytes.of(args[1], length, count));
          out.hflush();
          length += count;
        }
        System.out.println("ok " + length);
      } catch (IOException e) {
        System.out.println("failed " + Bytes.kind(e));
      }
    }
    Runtime.getRuntime().halt(0); // the shutdown hook would close the file
  }

  /** Such a process, seen from the one that started it. */
  static final class Child implements AutoCloseable {
    private final Process process;
    private final BufferedReader answers;

    Child(String uri, String path) throws IOException {
      String java = ProcessHandle.current().info().command().orElse("java");
      ProcessBuilder builder = new ProcessBuilder(java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
          "-Djava.net.preferIPv4Stack=true", "--add-opens=java.base/java.lang=ALL-UNNAMED",
          "-cp", System.getProperty("java.class.path"), "Writer", uri, path);
      process = builder.redirectError(ProcessBuilder.Redirect.DISCARD).start();
      answers = process.inputReader();
    }

    /** Waits until the file is there. */
    void created() throws IOException {
      String line = answers.readLine();
      if (!"ok 0".equals(line)) throw new IOException("the writer says " + line);
    }

    String ask(String command) throws IOException {
      tell(command);
      return answers.readLine();
    }

    void tell(String command) throws IOException {
      process.outputWriter().write(command + "\n");
      process.outputWriter().flush();
    }

    /** The last answer `ok LENGTH` that came before its end; 0 of none. */
    long lastLength() throws IOException {
      long last = 0;
      for (String line; (line = answers.readLine()) != null; ) {
        if (line.startsWith("ok ")) last = Long.parseLong(line.substring(3));
      }
      return last;
    }

    /** Sends KILL, STOP or CONT. */
    void signal(String name) throws Exception {
      if (!Set.of("KILL", "STOP", "CONT").contains(name)) throw new IllegalArgumentException(name);
      new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).start().waitFor();
    }

    @Override
    public void close() throws Exception {
      process.destroyForcibly().waitFor(10, TimeUnit.SECONDS);
    }
  }
}
