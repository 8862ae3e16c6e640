//! Which crate may use which: the table of ARCHITECTURE.md. An edge that it does not allow is a failure.

use anyhow::{Context, Result, bail};
use cargo_metadata::{DependencyKind, MetadataCommand};

use crate::root;

/// (crate, what it may use).
const MAY_USE: &[(&str, &[&str])] = &[
    ("trellis-proto", &[]),
    ("trellis-metastore", &[]),
    ("trellis-namenode", &["trellis-proto", "trellis-metastore"]),
    ("trellis-client", &["trellis-proto"]),
    ("trellis-datanode", &["trellis-proto", "trellis-client"]),
    ("trellis-loadgen", &["trellis-proto", "trellis-client"]),
    (
        "trellis",
        &[
            "trellis-proto",
            "trellis-metastore",
            "trellis-namenode",
            "trellis-client",
            "trellis-datanode",
            "trellis-loadgen",
        ],
    ),
    ("trellis-e2e", &["trellis-proto", "trellis-client", "trellis-loadgen"]),
    ("xtask", &[]),
];

/// Edges that only tests have: (crate, what its tests may use besides).
const TESTS_MAY_USE: &[(&str, &[&str])] = &[
    // Its own interfaces, with the faults and stores that are for tests.
    ("trellis-namenode", &["trellis-namenode"]),
    ("trellis-metastore", &["trellis-metastore"]),
];

/// Fails on the first edges that the table does not allow, naming all of them.
pub fn check() -> Result<()> {
    let metadata = MetadataCommand::new().no_deps().current_dir(root()).exec().context("cargo metadata")?;
    let ours: Vec<&str> = metadata.packages.iter().map(|package| package.name.as_str()).collect();
    let mut wrong = Vec::new();
    for package in &metadata.packages {
        let Some(allowed) = of(MAY_USE, &package.name) else {
            wrong.push(format!(
                "{}: a crate that the table in xtask/src/edges.rs does not have",
                package.name
            ));
            continue;
        };
        for dependency in &package.dependencies {
            let for_tests = dependency.kind == DependencyKind::Development;
            let extra = of(TESTS_MAY_USE, &package.name).filter(|_| for_tests).unwrap_or_default();
            let name = dependency.name.as_str();
            if ours.contains(&name) && !allowed.contains(&name) && !extra.contains(&name) {
                wrong.push(format!("{} uses {name} ({:?})", package.name, dependency.kind));
            }
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    bail!(
        "edges between crates that the table in xtask/src/edges.rs does not allow:\n  {}",
        wrong.join("\n  ")
    );
}

fn of(table: &[(&str, &'static [&'static str])], name: &str) -> Option<&'static [&'static str]> {
    table.iter().find(|(of, _)| *of == name).map(|(_, allowed)| *allowed)
}

#[test]
fn crates_use_only_what_they_may() {
    check().unwrap();
}
