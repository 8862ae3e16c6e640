//! `trellis load`: a report holds the configuration as it took effect.

use std::fs;

use serde_json::{Value, json};

use crate::load::{built, run};
use crate::support::{Up, complaint, output};

#[test]
fn a_report_says_all_about_its_run() {
    let dir = tempfile::tempdir().unwrap();
    let up = Up::start(&dir.path().join("data"), &[]);
    built(&up, "200");
    let brief = ["--warm-up", "0s", "--duration", "700ms", "--clients", "4", "--cost-samples", "5"];
    let bursts = run(&up, &[&brief[..], &["--workload", "pangu", "--rate", "300"]].concat());
    let config = &bursts["config"];
    assert_eq!(config["arrivals"], "poisson");
    assert_eq!(config["hot"], json!({"operations_percent": 80.0, "directories_percent": 20.0}));
    let creates = config["create_share"].as_f64().unwrap();
    assert!((creates / 100.0 - bursts["operations"]["create"]["share"].as_f64().unwrap()).abs() < 1e-9);
    assert_eq!(config["cost_samples"], 5);
    let contents = config["contents"].as_object().unwrap();
    for (name, value) in contents.iter().filter(|(name, _)| *name != "datanodes") {
        assert!(!value.is_null() && *value == bursts["contents"][name], "{name}: {value}");
    }
    // A workload by the name that reports give to its operation.
    let young = run(&up, &[&brief[..], &["--workload", "stat_file", "--popularity", "age:1.5"]].concat());
    let config = &young["config"];
    assert_eq!((&config["workload"], &config["popularity"]), (&"fileStatus".into(), &json!({"age": 1.5})));
    assert!(young["operations"]["stat_file"]["count"].as_u64().unwrap() > 0, "{young:#}");
    assert!(config["arrivals"].is_null() && config["hot"].is_null() && config["cost_samples"] == 0);

    // It is shown, and a report of an older program, which says nothing of what was usual, is not different.
    let names = ["bursts.json", "young.json", "old.json"].map(|name| dir.path().join(name));
    let [one, two, three] = names.each_ref().map(|path| path.to_str().unwrap());
    let mut old = bursts.clone();
    for field in ["arrivals", "hot", "create_share"] {
        old["config"][field] = Value::Null;
    }
    for (path, report) in names.iter().zip([&bursts, &young, &old]) {
        fs::write(path, report.to_string()).unwrap();
    }
    let shown = |args: &[&str]| {
        let shown = output(&[&["load", "show"], args].concat());
        assert!(shown.status.success(), "{}", complaint(&shown));
        String::from_utf8(shown.stdout).unwrap()
    };
    for path in [one, three] {
        let text = shown(&[path]);
        assert!(text.starts_with("pangu with 9.5819 % creates, open loop, 300 ops/s (poisson)"), "{text}");
        assert!(text.contains("popularity uniform, hot 80/20"), "{text}");
    }
    assert!(!shown(&[one, three]).contains("differs:"));
    let page = dir.path().join("two.html");
    let text = shown(&[one, two, "--html", page.to_str().unwrap()]);
    for part in ["arrivals: A \"poisson\", B null", "popularity: A \"uniform\", B {\"age\":1.5}"] {
        assert!(text.contains(&format!("differs: {part}")), "{part} in {text}");
    }
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("pangu with 9.5819 % creates, open loop at 300 operations/s (poisson)"), "{page}");
}
