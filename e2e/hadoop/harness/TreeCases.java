import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Future;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.Options.Rename;
import org.apache.hadoop.fs.permission.FsCreateModes;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;

/** L1, P3, P5: paging, and permissions of trees. */
final class TreeCases extends Cases {
  TreeCases(String[] args) throws Exception {
    super(args);
  }

  @Override
  List<Call> cases() {
    return List.of(this::pages, this::recursiveDelete, this::parentsModes);
  }

  private void pages() throws Exception {
    name = "L1";
    fresh();
    mkdir("/t/big");
    List<Future<Boolean>> all = new ArrayList<>();
    for (int i = 0; i < 2050; i++) {
      String p = String.format("/t/big/d%04d", i);
      ClientProtocol c = first.get(i % first.size());
      all.add(pool.submit(() -> c.mkdirs(p, P755, false)));
    }
    for (Future<Boolean> f : all) f.get();
    row("page 1", () -> page(list("/t/big", "")));
    row("delete the cursor's entry", () -> nn().delete("/t/big/d0999", false));
    mkdir("/t/big/d0999x", "/t/big/a-before");
    row("page 2", () -> page(list("/t/big", "d0999")));
    row("page 3", () -> page(list("/t/big", "d1998")));
    row("after a name that never was", () -> page(list("/t/big", "d2048zzz")));
    row("after the end", () -> page(list("/t/big", "zzz")));
    row("before the beginning", () -> page(list("/t/big", "A")));
    row("children", () -> nn().getFileInfo("/t/big").getChildrenNum());
    row("delete all between two pages", () -> nn().delete("/t/big", true));
    row("next page of what is gone", () -> page(list("/t/big", "d0999")));
    file("/t/f");
    row("a file", () -> page(list("/t/f", "")));
    row("a file after its own name", () -> page(list("/t/f", "f")));
    row("a missing path", () -> page(list("/t/missing", "")));
    for (String n : new String[] {"Z", "a", "\u00e9", "\u20ac", "~", "!", "\ud83d\ude00", "a0", "A"}) mkdir("/t/order/" + n);
    row("order of names", () -> names("/t/order"));
    row("after a name in the middle of that order", () -> page(list("/t/order", "\u20ac")));
  }

  private void recursiveDelete() throws Exception {
    name = "P3";
    fresh();
    mkdir("/t/u/del/m/n", "/t/u/del/locked", "/t/u/into/sub");
    for (int i = 0; i < 5; i++) file("/t/u/del/f" + i);
    file("/t/u/del/locked/f");
    nn().setPermission("/t/u/del/locked", new FsPermission((short) 0700));
    for (String p : new String[] {"/t/u", "/t/u/del", "/t/u/del/m", "/t/u/del/m/n", "/t/u/into", "/t/u/into/sub"}) nn().setOwner(p, "alice", null);
    row("alice deletes the tree", () -> next(alice).delete("/t/u/del", true));
    row("what is left", () -> names("/t/u/del"));
    row("alice's content summary", () -> next(alice).getContentSummary("/t/u/del").getFileCount());
    row("alice moves it to the trash", () -> {
      next(alice).rename2("/t/u/del", "/t/u/trash", Rename.TO_TRASH);
      return "";
    });
    row("alice renames it", () -> next(alice).rename("/t/u/del", "/t/u/moved"));
    row("alice renames it over a full directory", () -> {
      next(alice).rename2("/t/u/moved", "/t/u/into", Rename.OVERWRITE);
      return "";
    });
    row("alice renames it back", () -> next(alice).rename("/t/u/moved", "/t/u/del"));
    nn().delete("/t/u/del/locked/f", false);
    row("alice deletes m", () -> next(alice).delete("/t/u/del/m", true));
    row("bob deletes the tree", () -> next(bob).delete("/t/u/del", true));
    row("alice deletes the tree with an empty foreign directory", () -> next(alice).delete("/t/u/del", true));
    row("what is left", () -> names("/t/u"));
  }

  private void parentsModes() throws Exception {
    name = "P5";
    fresh();
    mkdir("/t/p1750", "/t/p1777");
    nn().setPermission("/t/p1750", new FsPermission((short) 01750));
    nn().setOwner("/t/p1750", "alice", "bin");
    nn().setPermission("/t/p1777", new FsPermission((short) 01777));
    create(next(alice), "/t/p1750/a/b/f", masked(0666, 022), true, CreateFlag.CREATE);
    row("01750, create a/b/f", () -> mode("/t/p1750/a") + ", " + mode("/t/p1750/a/b") + ", " + mode("/t/p1750/a/b/f"));
    next(alice).mkdirs("/t/p1750/c/d", masked(0777, 022), true);
    row("01750, mkdirs c/d", () -> mode("/t/p1750/c") + ", " + mode("/t/p1750/c/d"));
    create(next(bob), "/t/p1777/a/f", masked(0666, 027), true, CreateFlag.CREATE);
    row("01777, create a/f with umask 027", () -> mode("/t/p1777/a") + ", " + mode("/t/p1777/a/f"));
    next(bob).mkdirs("/t/p1777/x/y", masked(0777, 0777), true);
    row("01777, mkdirs x/y with umask 777", () -> mode("/t/p1777/x") + ", " + mode("/t/p1777/x/y"));
    create(next(bob), "/t/p1777/g", masked(0777, 022), true, CreateFlag.CREATE);
    row("create with 0777 and umask 022", () -> mode("/t/p1777/g"));
    create(next(bob), "/t/p1777/h", new FsPermission((short) 0777), true, CreateFlag.CREATE);
    row("create with 0777 and no umask", () -> mode("/t/p1777/h"));
    create(next(bob), "/t/p1777/i", new FsPermission((short) 01777), true, CreateFlag.CREATE);
    row("create with 01777", () -> mode("/t/p1777/i"));
    next(bob).mkdirs("/t/p1777/sticky", new FsPermission((short) 01777), false);
    row("mkdirs with 01777", () -> mode("/t/p1777/sticky"));
    next(bob).mkdirs("/t/p1777/m/n", new FsPermission((short) 0700), true);
    row("mkdirs m/n with 0700", () -> mode("/t/p1777/m") + ", " + mode("/t/p1777/m/n"));
    for (int m : new int[] {04755, 02755, 01644, 07777}) {
      nn().setPermission("/t/p1777/g", new FsPermission((short) m));
      row("setPermission " + Integer.toOctalString(m) + " on a file", () -> mode("/t/p1777/g"));
      nn().setPermission("/t/p1777/sticky", new FsPermission((short) m));
      row("setPermission " + Integer.toOctalString(m) + " on a directory", () -> mode("/t/p1777/sticky"));
    }
    row("new inode of the superuser", () -> {
      mkdir("/t/p1750/of-super");
      return mode("/t/p1750/of-super");
    });
  }

  private static FsPermission masked(int mode, int umask) {
    return FsCreateModes.applyUMask(new FsPermission((short) mode), new FsPermission((short) umask));
  }
}
