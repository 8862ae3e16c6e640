import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.ipc.RemoteException;

/** The bytes that a file must have: they follow from its name and the offset, so that nobody has to keep them. */
final class Bytes {
  private Bytes() {}

  /** `count` bytes of the file of that name, from `offset`. */
  static byte[] of(String name, long offset, int count) {
    byte[] bytes = new byte[count];
    long seed = name.hashCode() * 0x9E3779B97F4A7C15L;
    for (int i = 0; i < count; i++) {
      long at = offset + i;
      long word = (seed + (at >>> 3) + 1) * 0xBF58476D1CE4E5B9L;
      word ^= word >>> 31;
      bytes[i] = (byte) (word >>> ((at & 7) * 8));
    }
    return bytes;
  }

  /** Reads a file to its end and compares; the answer is its length, an error says where it differs. */
  static long check(FileSystem fs, Path path, String name) throws IOException {
    return check(fs, path, name, Long.MAX_VALUE);
  }

  /** The same of its first `limit` bytes at most. */
  static long check(FileSystem fs, Path path, String name, long limit) throws IOException {
    byte[] buffer = new byte[1 << 16];
    long at = 0;
    try (FSDataInputStream in = fs.open(path)) {
      for (int n; at < limit && (n = fill(in, buffer)) > 0; at += n) {
        byte[] want = of(name, at, n), got = Arrays.copyOf(buffer, n);
        int differs = Arrays.mismatch(want, got);
        if (differs >= 0) throw new IllegalStateException(path + " has a wrong byte at " + (at + differs));
      }
    }
    return at;
  }

  private static int fill(InputStream in, byte[] buffer) throws IOException {
    return in.readNBytes(buffer, 0, buffer.length);
  }

  /** The server's exception class when it is one, else the client's. */
  static String kind(Throwable e) {
    for (Throwable x = e; x != null; x = x.getCause()) {
      if (x instanceof RemoteException) return ((RemoteException) x).getClassName();
    }
    return e.getClass().getName();
  }
}
