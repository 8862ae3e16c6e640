import java.util.List;

/**
 * Cases from the field, as steps on the raw RPC. Output, tab-separated, one header line: case, step, result (OK or the
 * exception's class), value, first_line (for people, not compared).
 *
 * <p>usage: hdfs probe CaseProbe [hdfs://HOST:PORT ...] With several namenodes the steps go to them in turn, a replay goes
 * to another one than the first call, and what runs at the same instant runs on two of them. The namespace below /t is
 * the probe's. ../wire/cases.tsv is the output against the stock NameNode without a datanode.
 */
public final class CaseProbe {
  private CaseProbe() {}

  public static void main(String[] args) throws Exception {
    System.out.println("case\tstep\tresult\tvalue\tfirst_line");
    for (Cases c : List.of(new RenameCases(args), new RpcCases(args), new TreeCases(args))) c.runAll();
    System.exit(0);
  }
}
