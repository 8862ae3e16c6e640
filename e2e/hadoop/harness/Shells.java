import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.PrivilegedExceptionAction;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FsShell;
import org.apache.hadoop.hdfs.tools.DFSAdmin;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;

/**
 * Many shell commands in one JVM. Reads command lines from stdin (`dfs ARGS` or `dfsadmin ARGS`, 'quoted' where need be,
 * `USER> ` in front to act as that user, # for comments) and prints a transcript: the comment or command, its exit code,
 * what it printed (`| ` stdout, `! ` stderr), with dates, ports and the superuser's name masked and usage texts cut.
 *
 * <p>../wire/shell.txt is such a transcript of the stock NameNode without a datanode; it can itself be the input, since
 * its answers are skipped.
 *
 * <p>usage: hdfs probe Shells [hdfs://HOST:PORT ...] < COMMANDS. With several namenodes the commands go to them in turn.
 */
public final class Shells {
  private static final Pattern WORD = Pattern.compile("'([^']*)'|(\\S+)");

  private Shells() {}

  public static void main(String[] args) throws Exception {
    Configuration conf = Probe.conf();
    List<URI> namenodes = Probe.namenodes(conf, args);
    PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8), realErr = System.err;
    int turn = 0;
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = lines.readLine()) != null; ) {
      if (line.isBlank() || line.startsWith("#") || line.startsWith("|") || line.startsWith("!") || line.startsWith("=")) {
        if (line.startsWith("#")) out.println(line);
        out.flush();
        continue; // answers are skipped, so that a transcript can itself be run again
      }
      Configuration c = new Configuration(conf);
      c.set("fs.defaultFS", namenodes.get(turn++ % namenodes.size()).toString());
      out.println(line);
      run(c, line, out);
    }
    System.setErr(realErr);
    out.flush();
    System.exit(0);
  }

  private static void run(Configuration c, String line, PrintStream out) throws Exception {
    int at = line.indexOf("> ");
    String user = at > 0 && line.substring(0, at).matches("\\w+") ? line.substring(0, at) : Probe.SUPER;
    String command = at > 0 && line.substring(0, at).matches("\\w+") ? line.substring(at + 2) : line;
    List<String> words = new ArrayList<>();
    for (Matcher m = WORD.matcher(command); m.find(); ) words.add(m.group(1) != null ? m.group(1) : m.group(2));
    String[] argv = words.subList(1, words.size()).toArray(new String[0]);
    ByteArrayOutputStream stdout = new ByteArrayOutputStream(), stderr = new ByteArrayOutputStream();
    System.setOut(new PrintStream(stdout, true, StandardCharsets.UTF_8));
    System.setErr(new PrintStream(stderr, true, StandardCharsets.UTF_8));
    System.setIn(new ByteArrayInputStream(new byte[0]));
    UserGroupInformation ugi = UserGroupInformation.createRemoteUser(user);
    int exit = ugi.doAs((PrivilegedExceptionAction<Integer>) () -> {
      try {
        if (words.get(0).equals("dfsadmin")) return ToolRunner.run(new DFSAdmin(c), argv);
        FsShell shell = new FsShell(c);
        try {
          return ToolRunner.run((Tool) shell, argv);
        } finally {
          shell.close();
        }
      } catch (Exception e) { // as the shell's main would end
        System.err.println(e);
        return 1;
      } finally {
        FileSystem.closeAllForUGI(ugi);
      }
    });
    out.println("= " + (exit & 0xff));
    print(out, "| ", stdout);
    print(out, "! ", stderr);
  }

  private static void print(PrintStream out, String mark, ByteArrayOutputStream bytes) {
    String text = bytes.toString(StandardCharsets.UTF_8).replace('\0', '\n');
    for (String l : text.lines().toList()) {
      if (l.startsWith("Usage: ")) break; // the client's own help, long and none of the server's
      if (l.startsWith("WARNING: the waiting time") || l.matches("[. ]+done")) continue; // only where there was a wait
      out.println((mark + mask(l)).stripTrailing());
    }
  }

  private static String mask(String line) {
    // stock sends stack traces, so that the client shows what it appends to a message only where there is none
    return line.replace(". Consider using -skipTrash option", "").replaceAll("hdfs://[^/' ]+", "hdfs://NN")
        .replaceAll("(Waiting for \\S+) .*", "$1 ...").replace(System.getProperty("user.dir") + "/", "LOCAL/")
        .replaceAll("\\d{4}-\\d{2}-\\d{2} \\d{2}:\\d{2}(:\\d{2})?", "DATE")
        .replaceAll("(?<!\\d)\\d{13}(?!\\d)", "MILLIS")
        .replaceAll("(?<!\\d)\\d{12}(?!\\d)", "CHECKPOINT")
        .replaceAll("(?<=[ /])" + Pattern.quote(Probe.SUPER) + "(?=[ /]|$)", "super")
        .replaceAll("user=" + Pattern.quote(Probe.SUPER) + "\\b", "user=super").replace(":" + Probe.SUPER + ":", ":super:")
        .replaceAll(" {2,}", " ");
  }
}
