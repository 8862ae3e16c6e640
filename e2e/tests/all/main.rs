//! The stock Hadoop clients and recorders against a cluster, compared with what they got from the stock NameNode.
//!
//! `E2E_TARGET=stock` runs the same tests against the stock NameNode. Where Java, Maven or Python are missing, the tests
//! that need them are listed as ignored, with the reason.

mod bytes;
mod client;
mod contract;
mod crash;
mod data;
mod datanodes;
mod deaths;
mod disks;
mod load;
mod peer;
mod recorded;
mod survive;
mod verbs;

use std::process::ExitCode;

use anyhow::Result;
use e2e::hadoop::{missing_java, missing_python};
use e2e::server::target_is_stock;
use libtest_mimic::{Arguments, Failed, Trial};

/// A test: notes to be shown, or what went wrong.
type Test = fn() -> Result<Vec<String>>;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // each test starts servers and a JVM of its own: more than two at once only wait for each other
    arguments.test_threads.get_or_insert(2);
    let java: &[(&'static str, Test)] = &[
        ("shell::one_namenode", || recorded::shell(1)),
        ("shell::three_namenodes", || recorded::shell(3)),
        ("cases::one_namenode", || recorded::cases(1)),
        ("cases::two_namenodes", || recorded::cases(2)),
        ("who_may::two_namenodes", || recorded::who_may(2)),
        ("errors", recorded::errors),
        ("nnbench", recorded::nnbench),
        ("crash::one_namenode", || crash::crash(1)),
        ("crash::three_namenodes", || crash::crash(3)),
        ("data::both_ways", data::both_ways),
        ("data::open_files", data::open_files),
        ("data::datanode_dies", data::datanode_dies),
        ("data::flipped_byte", data::flipped_byte),
        ("verbs::both_shells", verbs::both_shells),
        ("load::like", load::like),
        ("datanodes::mixed_pipelines", datanodes::mixed_pipelines),
        ("datanodes::deaths", datanodes::deaths),
        ("datanodes::probe", datanodes::probe),
        ("load::replay_of_stock", load::replay_of_stock),
    ];
    let python: &[(&'static str, Test)] = &[("wire", recorded::wire), ("fields", recorded::fields)];
    let trellis: &[(&'static str, Test)] = &[
        ("survive::failover", survive::failover),
        ("survive::same_names_after_restart", survive::same_names_after_restart),
    ];
    let data: &[(&'static str, Test)] = &[
        ("bytes::commands::one_namenode", || bytes::commands(1)),
        ("bytes::commands::three_namenodes", || bytes::commands(3)),
        ("bytes::many_blocks::one_namenode", || bytes::many_blocks(1)),
        ("bytes::many_blocks::three_namenodes", || bytes::many_blocks(3)),
        ("bytes::data_transfer", bytes::data_transfer),
        ("bytes::stock_datanode::one_namenode", || bytes::stock_datanode(1)),
        ("bytes::stock_datanode::three_namenodes", || bytes::stock_datanode(3)),
        ("data_cases::one_namenode", || recorded::data_cases(1)),
        ("data_cases::three_namenodes", || recorded::data_cases(3)),
        ("contract", contract::contract),
        ("peer::hdfs_native::one_namenode", || peer::hdfs_native(1)),
        ("peer::hdfs_native::three_namenodes", || peer::hdfs_native(3)),
        ("deaths::datanode_killed", deaths::datanode_killed),
        ("deaths::datanode_frozen", deaths::datanode_frozen),
        ("deaths::namenode_killed", deaths::namenode_killed),
        ("deaths::writer_killed", deaths::writer_killed),
        ("deaths::anything::one_namenode", || deaths::anything(1)),
        ("deaths::anything::three_namenodes", || deaths::anything(3)),
        ("disks::wiped", disks::wiped),
        ("disks::replica_lost_while_down", disks::replica_lost_while_down),
        ("disks::flipped_found_by_reader", disks::flipped_found_by_reader),
        ("disks::flipped_found_by_scanner", disks::flipped_found_by_scanner),
        ("disks::moved", disks::moved),
    ];
    // against the stock kind these need Java for the namenode alone
    let own_client: &[(&'static str, Test)] = &[
        ("client::namespace::one_namenode", || client::namespace(1)),
        ("client::namespace::three_namenodes", || client::namespace(3)),
        ("client::listing", client::listing),
        ("client::leases_and_access", client::leases_and_access),
        ("client::done_once::one_namenode", || client::done_once(1)),
        ("client::done_once::three_namenodes", || client::done_once(3)),
        ("load::workloads", load::workloads),
        ("load::blocks", load::blocks),
    ];
    let later: &[(&'static str, Test)] = &[("client::quotas", client::quotas)];
    let freezing: &[(&'static str, Test)] =
        &[("client::frozen", client::frozen), ("client::frozen_owner", client::frozen_owner)];
    let mut trials = level(java, missing_java());
    let no_stock = target_is_stock().then(missing_java).flatten();
    trials.extend(level(own_client, no_stock.clone()));
    // What Trellis does not have yet (quotas) is no test of it: these show that the client is ready.
    if target_is_stock() {
        trials.extend(level(later, no_stock));
    }
    trials.extend(level(data, missing_java().or_else(missing_python)));
    let not_stock = target_is_stock().then(|| "the stock NameNode stands alone".to_owned());
    trials.extend(level(freezing, not_stock.clone()));
    trials.extend(level(trellis, not_stock.or_else(missing_java)));
    trials.extend(level(python, missing_python()));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The tests of one level; where it cannot run here, each is ignored and its name says why.
fn level(tests: &[(&'static str, Test)], missing: Option<String>) -> Vec<Trial> {
    tests
        .iter()
        .map(|&(name, test)| {
            let shown = missing
                .as_ref()
                .map_or_else(|| name.to_owned(), |reason| format!("{name} (not run: {reason})"));
            Trial::test(shown, move || {
                let notes = test().map_err(|error| Failed::from(format!("{error:#}")))?;
                for note in notes {
                    eprintln!("{name}: {note}");
                }
                Ok(())
            })
            .with_ignored_flag(missing.is_some())
        })
        .collect()
}
