//! `trellis load` with blocks: on datanodes that it plays itself, and on real ones.

use std::fs;

use serde_json::Value;

use crate::load::{answered, assert_workload_counts, build, built, built_with, counted, run};
use crate::support::{Up, complaint, output, wait_for};

const SIMULATED: [&str; 10] = [
    "--files",
    "200",
    "--blocks",
    "simulated",
    "--sizes",
    "0:1,1k-40k:9",
    "--block-size",
    "16k",
    "--datanodes",
    "4",
];

/// What fsck says of everything, with the places of blocks.
fn fsck(up: &Up) -> String {
    let said = output(&["fsck", "/", "--http", &up.http.join(","), "--files", "--blocks", "--locations"]);
    String::from_utf8(said.stdout).unwrap()
}

/// Every block has its replicas, each on a datanode of its own. Namenodes tell one another what they heard, so it is waited
/// for; what nobody was told does not come: the datanodes are gone.
fn assert_healthy(up: &Up, replication: usize) {
    let is_whole = |block: &str| block.matches("DatanodeInfoWithStorage").count() == replication;
    let said = wait_for(
        || fsck(up),
        |said| {
            let mut blocks = said.lines().filter(|line| line.contains(":blk_"));
            said.contains("is HEALTHY") && blocks.all(is_whole)
        },
    );
    assert!(said.matches(":blk_").count() > 100, "{said}");
}

#[test]
fn simulated_datanodes_hold_what_clients_write() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &["--namenodes", "2", "--set", "replication=3"]);
    let said = built_with(&up, &SIMULATED);
    assert!(said.contains("4 simulated datanodes hold "), "{said}");
    assert_healthy(&up, 3);
    // Whatever makes blocks, stamps them anew, or has them deleted; each run brings the datanodes back.
    for workload in ["create", "append", "open", "rename", "pangu"] {
        let report = assert_workload_counts(&up, workload, &["--warm-up", "0s"]);
        assert_eq!(
            (&report["metadata_only"], &report["contents"]["blocks"]),
            (&true.into(), &"simulated".into())
        );
        let work = |name: &str| report["simulated_datanodes"][name].as_u64().unwrap();
        let said = format!("{workload}: {:#} {:#}", report["simulated_datanodes"], report["notes"]);
        assert!(work("datanodes") == 4 && work("replicas") > 0 && work("failed_calls") == 0, "{said}");
        match workload {
            "create" => {
                assert_eq!(work("received"), 3 * answered(&report, "addBlock"));
                assert!(answered(&report, "addBlock") > answered(&report, "create") / 2, "{report:#}");
            }
            "append" => {
                let renewed = answered(&report, "updateBlockForPipeline");
                assert!(renewed > 0 && renewed == answered(&report, "updatePipeline"), "{report:#}");
            }
            _ => {}
        }
    }
    assert_healthy(&up, 3);
}

/// How many full reports all namenodes have taken.
fn full_reports(up: &Up) -> u64 {
    up.http.iter().map(|http| counted(http, "blockReport\",outcome=\"ok")).sum()
}

#[test]
fn all_simulated_datanodes_report_at_once() {
    for namenodes in [1, 2] {
        let dir = tempfile::tempdir().unwrap();
        let args = ["--namenodes", &namenodes.to_string(), "--set", "replication=2"];
        report_at_once(&Up::start(&dir.path().join("data"), &args), namenodes);
    }
}

const OPEN: [&str; 8] = ["--workload", "open", "--clients", "4", "--warm-up", "0s", "--duration", "2s"];

fn report_at_once(up: &Up, namenodes: u64) {
    built_with(up, &SIMULATED);
    let before = full_reports(up);
    let report = run(up, &[&OPEN[..], &["--disturb", "report@500ms"]].concat());
    let episode = &report["episodes"][1];
    assert_eq!(episode["begins_with"], "report");
    let reports = &episode["block_reports"];
    let [due, answered, refused] = ["due", "answered", "refused"].map(|name| reports[name].as_u64().unwrap());
    // One namenode takes those of a datanode, and none while it has no owner: then it reports again by itself.
    assert_eq!((due, answered + refused), (4 * namenodes, due), "{report:#}");
    assert!(if namenodes == 1 { refused == 0 } else { answered <= 4 }, "{report:#}");
    // Each when it knew what it holds, and once more.
    let taken = full_reports(up) - before;
    assert!(if namenodes == 1 { taken == 8 } else { taken >= 4 + answered }, "{taken}: {report:#}");
    assert!(report["episodes"][0]["block_reports"].is_null());
    let disturbance = &report["disturbances"][0];
    let outcome = disturbance["outcome"].as_str().unwrap();
    if namenodes == 1 {
        assert!(reports["last_after_s"].as_f64().unwrap() > 0.0 && disturbance["done"] == true);
        assert!(disturbance["ended_s"].as_f64() > disturbance["begun_s"].as_f64());
        assert!(outcome.starts_with("4 of 4 full reports were answered, the last "), "{outcome}");
    }
    assert_eq!(report["total"]["errors"], 0);
    // What they hold is not lost by it.
    assert_healthy(up, 2);
}

#[test]
fn reports_of_datanodes_need_datanodes() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &[]);
    built(&up, "20");
    // A run without datanodes is refused before anything is done.
    let path = dir.path().join("refused.json");
    let refused = ["load", "run", "--target", &up.fs, "--blocks", "none", "--disturb", "report@500ms"];
    let refused = output(&[&refused[..], &OPEN, &["--report", path.to_str().unwrap()]].concat());
    assert!(complaint(&refused).contains("-triggerBlockReport"), "{}", complaint(&refused));
    assert!(!refused.status.success() && !fs::exists(&path).unwrap());
}

#[test]
fn a_build_mends_what_was_left_unfinished() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &["--set", "replication=2"]);
    let sized = [&SIMULATED[..5], &["1k-40k"], &SIMULATED[6..]].concat();
    built_with(&up, &sized);
    let listed = String::from_utf8(up.fs(&["ls", "-C", "-R", "/load"]).stdout).unwrap();
    let files: Vec<&str> =
        listed.lines().filter(|path| path.rsplit('/').next().unwrap().starts_with("f-")).collect();
    // One is gone; one is there, without data; as a build that is killed leaves them.
    assert!(up.fs(&["rm", "-skipTrash", files[0], files[1]]).status.success());
    assert!(up.fs(&["touchz", files[1]]).status.success());
    let said = built_with(&up, &sized);
    assert!(said.contains("where 199 files were there already\n2 of 200 files made"), "{said}");
    assert!(said.contains("1 of them were there, but unfinished"), "{said}");
    assert!(built_with(&up, &sized).contains("where 200 files were there already\n0 of 200 files made"));
    assert_healthy(&up, 2);
    // Other contents make another namespace.
    let other = build(&up, &SIMULATED);
    assert!(complaint(&other).contains("holds another namespace"), "{}", complaint(&other));
}

#[test]
fn real_datanodes_get_the_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &["--datanodes", "1"]);
    let real = ["--files", "120", "--blocks", "real", "--sizes", "1k-40k", "--block-size", "16k"];
    built_with(&up, &real);
    assert_healthy(&up, 1);
    for workload in ["create", "append", "spotify"] {
        let report = assert_workload_counts(&up, workload, &["--warm-up", "0s"]);
        assert_eq!((&report["metadata_only"], &report["simulated_datanodes"]), (&false.into(), &Value::Null));
        match workload {
            "create" => assert!(answered(&report, "addBlock") >= answered(&report, "create"), "{report:#}"),
            // The mix wants more replicas than there are datanodes.
            "append" => assert_healthy(&up, 1),
            _ => {}
        }
    }
    // The bytes are there.
    let listed = String::from_utf8(up.fs(&["ls", "-C", "-R", "/load"]).stdout).unwrap();
    let file = listed.lines().find(|path| path.contains("/f-")).unwrap();
    let read = up.fs(&["cat", file]).stdout;
    assert!((1024..=40 << 10).contains(&read.len()), "{} bytes", read.len());
    // Blocks would go to the real datanode, too; and what is real does not become simulated.
    let beside = build(&up, &[&SIMULATED[..], &["--base", "/beside"]].concat());
    assert!(
        complaint(&beside).contains("simulated datanodes must be the only ones"),
        "{}",
        complaint(&beside)
    );
    let report = dir.path().join("report.json");
    let args = ["load", "run", "--target", &up.fs, "--workload", "open", "--blocks", "simulated", "--report"];
    let run = output(&[&args[..], &[report.to_str().unwrap()]].concat());
    assert!(complaint(&run).contains("the namespace has real blocks"), "{}", complaint(&run));
    assert!(!fs::exists(&report).unwrap());
}

#[test]
fn a_namespace_is_like_an_image() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &[]);
    let table = concat!(env!("CARGO_MANIFEST_DIR"), "/../loadgen/src/like/recorded.tsv");
    let like = ["--like", table, "--files", "100"];
    let said = built_with(&up, &like);
    assert!(
        said.contains("the image has 54 files in 20 directories on 7 levels; 0 lines were skipped"),
        "{said}"
    );
    assert!(said.contains("100 of 100 files made in "), "{said}");
    // A run knows the namespace without the table, and so does a build that goes on.
    let report = assert_workload_counts(&up, "open", &["--warm-up", "0s", "--hot", "80/20"]);
    assert_eq!(report["namespace"]["files_present"], 100);
    assert!(built_with(&up, &like).contains("where 100 files were there already"));
    let other = build(&up, &["--like", table, "--files", "101"]);
    assert!(complaint(&other).contains("holds another namespace"), "{}", complaint(&other));
    let shaped = build(&up, &["--like", table, "--depth", "3"]);
    assert!(complaint(&shaped).contains("cannot be used with"), "{}", complaint(&shaped));
    let image = build(&up, &["--like", "/proc/self/exe"]);
    assert!(complaint(&image).contains("is no table of an fsimage"), "{}", complaint(&image));
}
