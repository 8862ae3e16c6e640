import java.net.URI;
import java.security.PrivilegedExceptionAction;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.NameNodeProxiesClient;
import org.apache.hadoop.hdfs.protocol.ClientProtocol;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;
import org.apache.hadoop.ipc.RemoteException;
import org.apache.hadoop.net.NetUtils;
import org.apache.hadoop.security.UserGroupInformation;

/** What the recorders share: configuration, one raw proxy per user and namenode, and how an answer is printed. */
final class Probe {
  private Probe() {}

  interface Op {
    Object run() throws Exception;
  }

  /** The superuser: whoever runs this, as it is whoever runs the namenode. */
  static final String SUPER = System.getProperty("user.name");

  static Configuration conf() {
    String dir = System.getenv("HADOOP_CONF_DIR");
    if (dir == null) {
      System.err.println("HADOOP_CONF_DIR is not set: make one with mkconf");
      System.exit(2);
    }
    Configuration c = new HdfsConfiguration();
    c.addResource(new Path(dir, "core-site.xml"));
    c.addResource(new Path(dir, "hdfs-site.xml"));
    return c;
  }

  /** The namenodes named on the command line, else that of fs.defaultFS. */
  static List<URI> namenodes(Configuration c, String[] args) {
    List<URI> all = new ArrayList<>();
    for (String a : args) all.add(URI.create(a));
    if (all.isEmpty()) all.add(FileSystem.getDefaultUri(c));
    return all;
  }

  /** ClientProtocol as that user, on a connection of its own, without the client's retries. */
  static ClientProtocol as(Configuration c, URI namenode, String user) throws Exception {
    UserGroupInformation ugi = UserGroupInformation.createRemoteUser(user);
    return ugi.doAs((PrivilegedExceptionAction<ClientProtocol>) () ->
        NameNodeProxiesClient.createNonHAProxyWithClientProtocol(
            NetUtils.createSocketAddr(namenode.getAuthority(), 8020), c, ugi, false, null));
  }

  /** The answer of the server: "OK TAB value TAB", or "exception class TAB TAB first line"; LOCAL when the client threw. */
  static String answer(Op op) {
    try {
      return "OK\t" + clean(String.valueOf(op.run())) + "\t";
    } catch (Throwable e) {
      return failure(e);
    }
  }

  static String failure(Throwable e) {
    for (Throwable x = e; x != null; x = x.getCause()) {
      if (x instanceof RemoteException) return ((RemoteException) x).getClassName() + "\t\t" + firstLine(x.getMessage());
    }
    return "LOCAL " + e.getClass().getName() + "\t\t" + firstLine(e.getMessage());
  }

  static String firstLine(String s) {
    return clean(String.valueOf(s).lines().findFirst().orElse(""));
  }

  /** One line without tabs, long repetitions cut, the superuser's name masked where it is an owner. */
  static String clean(String s) {
    return s.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replaceAll("(..?)\\1{29,}", "$1..")
        .replace(":" + SUPER + ":", ":super:").replaceAll("DFSClient_NONMAPREDUCE_[-0-9]+_\\d+", "DFSClient");
  }

  static String owner(String name) {
    return name.equals(SUPER) ? "super" : name;
  }

  static String status(HdfsFileStatus s) {
    if (s == null) return "absent";
    String kind = s.isDirectory() ? "d" : "f";
    String size = s.isDirectory() ? "children=" + s.getChildrenNum() : "repl=" + s.getReplication() + " bs=" + s.getBlockSize() + " len=" + s.getLen();
    return kind + " " + mode(s.getPermission()) + " " + owner(s.getOwner()) + ":" + s.getGroup() + " " + size;
  }

  static String mode(FsPermission p) {
    return String.format("%04o", p.toShort());
  }
}
