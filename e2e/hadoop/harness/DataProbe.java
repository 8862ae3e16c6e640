import java.util.List;

/**
 * Cases from the field that need data, as steps; output as that of {@link CaseProbe}. `-Dsoft=MS` in HADOOP_OPTS: the
 * namenode's soft limit of leases (default 60000).
 *
 * <p>usage: hdfs probe DataProbe [hdfs://HOST:PORT ...] The namespace below /t is the probe's. ../wire/datacases.tsv is the
 * output against the stock NameNode with three DataNodes.
 */
public final class DataProbe {
  private DataProbe() {}

  public static void main(String[] args) throws Exception {
    System.out.println("case\tstep\tresult\tvalue\tfirst_line");
    for (Cases c : List.of(new LeaseCases(args), new DataCases(args))) c.runAll();
    System.exit(0);
  }
}
