import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import org.apache.hadoop.fs.Options.Rename;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;

/** R1, R3, R4: renames, by table, by prefix, and crossing. */
final class RenameCases extends Cases {
  RenameCases(String[] args) throws Exception {
    super(args);
  }

  @Override
  List<Call> cases() {
    return List.of(this::renameTable, this::ownSubtree, this::crossing);
  }

  private void renameTable() throws Exception {
    name = "R1";
    String[][] moves = {
      {"/t/f", "/t/g"}, {"/t/f", "/t/d"}, {"/t/d", "/t/e"}, {"/t/ne", "/t/d"}, {"/t/d", "/t/f"}, {"/t/f", "/t/f"}, {"/t/d", "/t/d"},
      {"/t/nosuch", "/t/z"}, {"/t/nosuch", "/t/f"}, {"/t/f", "/t/nodir/z"}, {"/t/f", "/t/g/z"}, {"/t/deep", "/t/deep/er"},
      {"/t/deep", "/t/deep/er/x"}, {"/", "/t/x"}, {"/t/g", "/"}, {"/t/d", "/t/f/d"}, {"/t/nosuch/k", "/t/z"}, {"/t/f/k", "/t/z"}, {"/t/deep/er", "/t/deep"},
    };
    for (String[] m : moves) {
      renameSetup();
      row("rename " + m[0] + " " + m[1], () -> nn().rename(m[0], m[1]) + " => " + stat(m[0]) + ", " + stat(m[1]) + " " + names("/t"));
      renameSetup();
      ok("rename2 " + m[0] + " " + m[1], () -> nn().rename2(m[0], m[1]));
      renameSetup();
      ok("rename2 overwriting " + m[0] + " " + m[1], () -> nn().rename2(m[0], m[1], Rename.OVERWRITE));
    }
    renameSetup();
    nn().rename("/t/f", "/t/d");
    file("/t/f");
    row("rename /t/f /t/d a second time", () -> nn().rename("/t/f", "/t/d"));
    ok("rename2 overwriting an empty directory by a full one", () -> nn().rename2("/t/ne", "/t/e", Rename.OVERWRITE));
    row("afterwards", () -> names("/t") + names("/t/e"));
    nn().delete("/g", true);
  }

  private void renameSetup() throws Exception {
    nn().delete("/g", true);
    fresh();
    mkdir("/t/d", "/t/e", "/t/ne/k", "/t/deep/er");
    file("/t/f", "/t/g");
  }

  private void ownSubtree() throws Exception {
    name = "R3";
    fresh();
    mkdir("/t/deep/er");
    row("rename to the same prefix", () -> nn().rename("/t/deep", "/t/deeper") + " " + names("/t"));
    ok("rename2 to the same prefix", () -> nn().rename2("/t/deeper", "/t/deep"));
    row("rename below itself", () -> nn().rename("/t/deep", "/t/deep/er/x"));
    ok("rename2 below itself", () -> nn().rename2("/t/deep", "/t/deep/er/x"));
    mkdir("/t/a", "/t/ab");
    row("rename into the sibling of the same prefix", () -> nn().rename("/t/a", "/t/ab/c") + " " + names("/t"));
  }

  private void crossing() throws Exception {
    name = "R4";
    fresh();
    Set<String> old = new java.util.TreeSet<>(), two = new java.util.TreeSet<>();
    for (int i = 0; i < TRIES; i++) {
      old.add(cross((c, a, b) -> c.rename(a, b)));
      two.add(cross((c, a, b) -> {
        c.rename2(a, b);
        return true;
      }));
    }
    row("crossing renames, all tries", () -> old);
    row("crossing renames (rename2), all tries", () -> two);
  }

  interface Move {
    boolean run(ClientProtocol c, String from, String to) throws Exception;
  }

  private String cross(Move move) throws Exception {
    nn().delete("/t/l", true);
    mkdir("/t/l/a/x/y", "/t/l/c/d/e");
    List<Boolean> done = together(
        () -> won(() -> move.run(first.get(0), "/t/l/a", "/t/l/c/d/e/a")),
        () -> won(() -> move.run(second.get(second.size() - 1), "/t/l/c", "/t/l/a/x/y/c")));
    int wins = (done.get(0) ? 1 : 0) + (done.get(1) ? 1 : 0);
    return "winners=" + wins + " directories=" + nn().getContentSummary("/t/l").getDirectoryCount();
  }

  private static boolean won(Callable<Boolean> call) throws Exception {
    try {
      return call.call();
    } catch (org.apache.hadoop.ipc.RemoteException e) {
      if (e.getClassName().equals("java.io.IOException") || e.getClassName().equals("java.io.FileNotFoundException")) return false;
      throw e;
    }
  }
}
