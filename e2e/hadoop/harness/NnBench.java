import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.server.namenode.NNThroughputBenchmark;
import org.apache.hadoop.util.ToolRunner;

/**
 * The stock NNThroughputBenchmark, several operations in one JVM, against fs.defaultFS over RPC.
 *
 * <p>usage: hdfs probe NnBench THREADS NUMBER OPERATION ... (create mkdirs open delete rename fileStatus). Prints a line per
 * operation: its name, its exit code, operations per second. Every exit code must be 0.
 */
public final class NnBench {
  private NnBench() {}

  public static void main(String[] args) throws Exception {
    boolean failed = false;
    Constructor<NNThroughputBenchmark> make = NNThroughputBenchmark.class.getDeclaredConstructor(Configuration.class);
    make.setAccessible(true); // its runBenchmark() drops the exit code
    for (String operation : Arrays.copyOfRange(args, 2, args.length)) {
      String many = operation.equals("mkdirs") ? "-dirs" : "-files";
      String each = operation.equals("mkdirs") ? "-dirsPerDir" : "-filesPerDir";
      List<String> line = new ArrayList<>(List.of("-op", operation, "-threads", args[0], many, args[1], each, "32"));
      long start = System.nanoTime();
      int exit = ToolRunner.run(make.newInstance(Probe.conf()), line.toArray(new String[0]));
      double seconds = (System.nanoTime() - start) / 1e9;
      System.out.println(operation + "\t" + exit + "\t" + Math.round(Integer.parseInt(args[1]) / seconds));
      failed |= exit != 0;
    }
    System.exit(failed ? 1 : 0);
  }
}
