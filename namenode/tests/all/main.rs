//! Integration tests of the namenode.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod actor;
mod attributes;
mod calls;
mod cases;
mod checks;
mod create;
mod leases;
mod membership;
mod model;
mod names;
mod reap;
mod seeds;
mod support;
mod whomay;

use std::future::Future;

use libtest_mimic::{Arguments, Trial};

/// Every test runs over both kinds of view: a group's cache, which may miss, and the embedded store's own, which never
/// does. Tests that start their own stores run once.
fn trial<F: Future<Output = ()> + 'static>(store: &'static str, name: &str, test: fn() -> F) -> Trial {
    Trial::test(format!("{store}::{name}"), move || {
        support::FRESH_STORE.set(store);
        support::NOW_MS.set(std::sync::Arc::new(support::START_MS.into()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(test());
        Ok(())
    })
}

macro_rules! trials {
    ($store:literal: $($module:ident :: $test:ident),* $(,)?) => {
        vec![$(trial($store, concat!(stringify!($module), "::", stringify!($test)), $module::$test)),*]
    };
}

/// Tests over a fresh store of either kind ([`support::Namenode::fresh`]).
macro_rules! either {
    ($store:literal) => {
        trials![$store:
            names::directories_come_move_and_go,
            create::a_file_is_made_written_and_closed,
            create::refusals_of_stock,
            create::modes_of_parents_made_on_the_way,
            create::overwriting,
            create::calls_of_the_writer,
            create::a_deleted_file_cannot_be_completed,
            attributes::modes_and_owners,
            attributes::times,
            attributes::replication,
            leases::renewal_and_soft_limit,
            leases::recovery,
            leases::expiry,
            leases::a_rename_keeps_the_lease,
            reap::trees_are_freed,
            reap::kept_answers_are_swept,
            checks::damage_is_found,
            cases::a1_a_file_where_a_directory_is_meant,
            cases::a2_names_and_limits,
            cases::a6_times,
            cases::l1_pages,
            cases::p3_recursive_delete,
            cases::p5_modes,
        ]
    };
}

fn main() {
    let mut all = either!("mem");
    all.extend(either!("lmdb"));
    all.extend(trials!["once":
        names::a_directory_costs_one_fetch_and_one_commit,
        create::a_file_costs_one_fetch_and_one_commit,
        membership::a_silent_namenode_is_evicted_and_can_write_nothing,
        membership::the_lowest_id_leads_and_terms_grow,
        whomay::answers_equal_the_recorded_ones,
        membership::a_rewritten_member_row_is_a_barrier,
    ]);
    let plain = |name: &str, test: fn()| {
        Trial::test(format!("once::{name}"), move || {
            test();
            Ok(())
        })
    };
    all.push(plain("model::sequences_agree_with_the_model", model::sequences_agree_with_the_model));
    all.push(plain("model::crowds_leave_sound_rows", model::crowds_leave_sound_rows));
    all.push(plain("model::calls_at_once_are_some_order", model::calls_at_once_are_some_order));
    for (name, test) in seeds::ALL {
        all.push(plain(&format!("seeds::{name}"), *test));
    }
    libtest_mimic::run(&Arguments::from_args(), all).exit();
}
