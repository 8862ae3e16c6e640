//! Integration tests of the store: `cargo test -p trellis-metastore --test all [-- FILTER]`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod backends;
mod conformance;
mod groups;
mod histories;
mod lmdb;

fn main() {
    // The tests of several processes start this program again as their children.
    if lmdb::is_child() {
        return;
    }
    let args = libtest_mimic::Arguments::from_args();
    let mut trials = Vec::new();
    for backend in backends::all() {
        trials.extend(conformance::trials(backend));
    }
    trials.extend(lmdb::trials());
    trials.extend(groups::trials());
    trials.extend(histories::trials());
    libtest_mimic::run(&args, trials).exit();
}
