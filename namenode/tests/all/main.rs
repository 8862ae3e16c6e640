//! Integration tests of the namenode.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod actor;
mod attributes;
mod block_cases;
mod block_model;
mod block_seeds;
mod blocks;
mod calls;
mod cases;
mod checks;
mod checks_blocks;
mod costs;
mod create;
mod delays;
mod files;
mod fsck;
mod grouping;
mod leases;
mod listings;
mod membership;
mod model;
mod names;
mod open_files;
mod plant;
mod reap;
mod recovery;
mod redundancy;
mod reports;
mod reserved;
mod seeds;
mod simulation;
mod support;
mod walks;
mod whomay;
mod writer_dies;
mod writing;

use std::future::Future;

use libtest_mimic::{Arguments, Trial};

mod rpc;

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
    ($store:literal: $($($part:ident)::+),* $(,)?) => {
        vec![$(trial($store, &[$(stringify!($part)),+].join("::"), $($part)::+)),*]
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
            create::names_that_no_row_can_hold_are_refused,
            create::calls_of_the_writer,
            create::a_deleted_file_cannot_be_completed,
            writing::a_file_is_written_block_by_block,
            writing::a_request_for_very_many_datanodes,
            writing::refusals_of_the_next_block,
            writing::a_block_is_given_up,
            writing::a_pipeline_is_mended,
            writing::where_blocks_are,
            writing::a_long_file_is_found_everywhere,
            writing::deleted_files_give_their_blocks_back,
            writing::appending,
            writing::appending_before_all_is_reported,
            writing::appending_to_what_is_left,
            writing::truncating,
            writing::joining,
            writing::what_cannot_be_joined,
            recovery::recover_lease_has_the_last_block_recovered,
            recovery::a_lease_is_taken_over_after_a_recovery,
            recovery::expiry_recovers_and_does_not_give_up,
            recovery::expiry_passes_a_file_by_that_waits_for_a_replica,
            recovery::a_truncate_goes_on_without_anybody_asking,
            recovery::the_silent_take_no_part_in_a_recovery,
            recovery::all_recoveries_of_expiry_are_begun_again,
            recovery::files_of_which_nothing_is_left_are_closed,
            recovery::what_may_have_been_flushed_is_waited_for,
            attributes::modes_and_owners,
            attributes::times,
            attributes::replication,
            leases::renewal_and_soft_limit,
            leases::recovery,
            leases::expiry,
            leases::a_rename_keeps_the_lease,
            open_files::pages_and_paths,
            open_files::who_may_ask_for_what,
            open_files::a_crowded_bucket,
            redundancy::too_few_are_copied,
            redundancy::too_many_are_removed,
            redundancy::the_last_ones_stay,
            redundancy::corrupt_ones_go_when_enough_are_good,
            redundancy::late_changes_are_noted_again,
            redundancy::an_older_one_where_a_copy_is_to_come_goes,
            redundancy::an_outdated_one_goes_by_its_own_stamp,
            redundancy::a_datanode_dies_and_returns,
            redundancy::a_datanode_returns_under_another_leader,
            redundancy::many_blocks,
            redundancy::what_does_not_decode_is_passed_by,
            redundancy::what_can_be_copied,
            redundancy::a_copy_that_is_lost,
            redundancy::a_copy_that_comes_late,
            redundancy::a_deletion_that_is_lost,
            redundancy::the_dead_keep_what_they_have,
            redundancy::what_was_to_be_deleted_is_the_last,
            redundancy::what_failed_is_forgotten,
            redundancy::the_dead_are_told_nothing,
            redundancy::a_replica_moves_on_its_datanode,
            redundancy::a_copy_lands_on_another_storage,
            redundancy::copies_that_are_lost_hold_up_no_others,
            redundancy::a_recovery_asks_a_datanode_once,
            redundancy::what_leaves_is_not_written_on,
            reports::replicas_come_change_and_go,
            reports::what_is_not_as_its_block_is_condemned,
            reports::blocks_that_no_file_has,
            reports::a_moved_block,
            reports::a_full_report,
            reports::a_full_report_of_what_is_not_whole,
            reports::a_full_report_of_what_was_overtaken,
            reports::a_balanced_replica,
            reports::one_that_only_registered_is_not_heard_of_yet,
            reports::what_was_given_counts_for_two_heartbeats,
            reports::what_arrived_is_no_longer_expected,
            reports::deletions_hold_nothing_up,
            reports::one_that_was_dead_registers_anew,
            reports::who_owns_a_datanode,
            reports::an_older_row_changes_nothing,
            reports::storages_of_a_datanode,
            reports::a_datanode_with_too_many_storages,
            reports::a_large_report_of_what_is_new,
            reports::a_report_whose_owner_is_another,
            reap::trees_are_freed,
            reap::what_does_not_decode_is_passed_by,
            reap::a_detach_wakes_the_reaper,
            reap::an_idle_round_costs_one_trip,
            reap::a_crowded_bucket_is_emptied,
            reap::kept_answers_are_swept,
            checks::damage_is_found,
            checks_blocks::damage_to_files_is_found,
            fsck::a_healthy_tree,
            fsck::a_corrupt_block_and_an_open_file,
            fsck::all_is_missing,
            fsck::who_may_not_look_and_what_is_not_served,
            fsck::large_trees,
            fsck::lists_of_administrators,
            checks_blocks::damage_to_replicas_is_found,
            checks_blocks::leftovers_that_a_report_clears_are_none,
            checks_blocks::what_nobody_looks_after_is_found,
            listings::small_pages_join_up,
            listings::pages_of_the_root,
            listings::what_remains_of_a_large_directory,
            listings::starts_refusals_and_ids,
            listings::batched,
            reserved::operations_on_paths_by_id,
            reserved::the_raw_view,
            walks::walks_refuse_as_stock_does,
            walks::a_summary_of_the_root,
            walks::walks_wait_for_each_other,
            cases::a1_a_file_where_a_directory_is_meant,
            cases::a2_names_and_limits,
            cases::a6_times,
            cases::l1_pages,
            cases::p3_recursive_delete,
            cases::p5_modes,
            block_cases::a6_an_append_moves_the_time,
            block_cases::e5_lengths_while_writing,
            block_cases::who_may_change_and_read_blocks,
            block_cases::who_may_join_files,
        ]
    };
}

/// Whole clusters in one process; each makes its own runtimes, on a virtual clock.
fn simulations() -> Vec<Trial> {
    let trial = |name: &str, test: fn()| {
        Trial::test(format!("simulation::{name}"), move || {
            test();
            Ok(())
        })
    };
    vec![
        trial("a_rough_store", simulation::a_rough_store),
        trial("a_namenode_dies_or_freezes", simulation::a_namenode_dies_or_freezes),
        trial("a_namenode_dies_over_a_rough_store", simulation::a_namenode_dies_over_a_rough_store),
        trial("writers_over_a_rough_store", simulation::writers_over_a_rough_store),
        trial("an_owner_dies_or_freezes", simulation::an_owner_dies_or_freezes),
    ]
}

fn main() {
    let mut all = rpc_trials();
    all.extend(either!("mem"));
    all.extend(either!("lmdb"));
    all.extend(either!("lmdb-log"));
    all.extend(trials!["once":
        delays::every_round_trip_of_a_call_waits_once,
        names::a_directory_costs_one_fetch_and_one_commit,
        create::a_file_costs_one_fetch_and_one_commit,
        reap::a_batch_costs_two_fetches_and_one_commit,
        membership::a_silent_namenode_is_evicted_and_can_write_nothing,
        membership::the_lowest_id_leads_and_terms_grow,
        costs::the_page_says_what_the_store_counts,
        grouping::creators_in_one_directory_share_commits,
        grouping::writers_of_one_block_files_share_commits,
        reports::a_large_report_of_nothing_new,
        redundancy::very_many_blocks_are_cut_off,
        checks::every_damaged_row_is_found,
        listings::a_page_costs_one_fetch,
        walks::deleting_a_thousand_directories_costs_the_walk,
        walks::files_below_cost_nothing,
        walks::a_summary_reads_large_directories_in_pages,
        whomay::answers_equal_the_recorded_ones,
        block_cases::a4_the_same_call_sent_twice,
        membership::a_rewritten_member_row_is_a_barrier,
    ]);
    let plain = |name: &str, test: fn()| {
        Trial::test(format!("once::{name}"), move || {
            test();
            Ok(())
        })
    };
    all.push(plain("model::sequences_agree_with_the_model", model::sequences_agree_with_the_model));
    all.push(plain("model::sequences_agree_over_lmdb", model::sequences_agree_over_lmdb));
    all.push(plain("model::sequences_agree_over_a_log", model::sequences_agree_over_a_log));
    all.push(plain("model::crowds_leave_sound_rows", model::crowds_leave_sound_rows));
    all.push(plain("block_model::sequences_agree", block_model::sequences_agree_with_the_model));
    all.push(plain("block_model::sequences_agree_over_lmdb", block_model::sequences_agree_over_lmdb));
    all.push(plain("block_model::sequences_agree_over_a_log", block_model::sequences_agree_over_a_log));
    let dies = writer_dies::a_writer_s_namenode_dies_at_every_store_call;
    all.push(plain("writer_dies::a_writer_s_namenode_dies_at_every_store_call", dies));
    all.push(plain("model::calls_at_once_are_some_order", model::calls_at_once_are_some_order));
    for (name, test) in seeds::ALL.iter().chain(block_seeds::ALL) {
        all.push(plain(&format!("seeds::{name}"), *test));
    }
    all.extend(simulations());
    libtest_mimic::run(&Arguments::from_args(), all).exit();
}

/// The server through sockets.
fn rpc_trials() -> Vec<Trial> {
    macro_rules! calls {
        ($store:literal) => {
            trials![$store:
                rpc::calls::a_directory_comes_and_goes,
                rpc::calls::a_file_is_created_and_closed,
                rpc::calls::calls_in_one_write_are_all_answered,
                rpc::cluster::datanodes_and_their_space,
                rpc::cluster::blocks_in_trouble,
                rpc::cluster::troubled_files_are_paged,
                rpc::datanodes::it_registers_beats_and_reports,
                rpc::datanodes::it_moves,
            ]
        };
    }
    let mut all = calls!("mem");
    all.extend(calls!("lmdb"));
    all.extend(trials!["once":
        rpc::calls::who_calls,
        rpc::calls::broken_connections_end_alone,
        rpc::calls::commands_of_administrators,
        rpc::datanodes::a_writer_waits_for_the_report,
        rpc::datanodes::who_may_not_register,
        rpc::datanodes::an_owner_dies,
        rpc::audit::what_it_says,
        rpc::audit::what_it_says_of_rights,
        rpc::calls::open_files_are_listed,
        rpc::repeats::a_repeat_gets_the_first_answer_everywhere,
        rpc::repeats::client_ids_that_are_none,
        rpc::limits::a_waiting_write_holds_up_nothing_behind_it,
        rpc::limits::so_many_calls_in_flight_and_no_more,
        rpc::limits::a_client_that_does_not_read_is_closed,
        rpc::limits::an_output_that_is_full_and_then_empty_goes_on,
        rpc::limits::silence_is_not_for_ever,
        rpc::limits::too_many_connections,
        rpc::limits::large_requests_wait_for_memory_and_small_ones_do_not,
        rpc::limits::a_clean_stop_answers_what_is_in_flight,
        rpc::limits::an_evicted_namenode_closes_everything,
        rpc::mutations::damaged_streams_harm_nobody,
        rpc::tables::every_method_has_its_line,
        rpc::tables::repeats_as_in_stock,
        rpc::tables::pages_are_up_to_date,
        rpc::tables::metrics_of_the_store_are_shown,
    ]);
    all
}
