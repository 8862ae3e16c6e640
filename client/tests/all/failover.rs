//! Calls over several namenodes: none is lost, and none is sent again that must not be.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use trellis_client::client::Counts;
use trellis_client::config::RetryPolicy;
use trellis_client::error::Fault;
use trellis_client::uri::Address;
use trellis_proto::exception::Kind;
use trellis_proto::hdfs::namenode::{self, namenode_protocol_service};

use crate::fake::*;

/// Two sends of one call must be alike but for the retry count.
fn assert_resent(first: &Seen, second: &Seen) {
    assert_eq!(first.id.retry_count + 1, second.id.retry_count);
    assert_eq!(
        (first.method, first.id.call_id, &first.id.client_id, &first.body, &first.user),
        (second.method, second.id.call_id, &second.id.client_id, &second.body, &second.user)
    );
    assert_eq!(first.id.client_id.len(), 16);
}

#[test]
fn a_call_that_got_no_answer_goes_to_the_next_namenode_as_the_same_call() {
    run(async {
        let acts: [fn(&Seen) -> Act; 4] = [
            |_| Act::SendAndClose(Bytes::new()),
            |_| Act::Reset,
            |_| Act::SendAndClose(Bytes::from_static(b"\x00\x00\x00\x40half a frame")),
            |seen| Act::Send(exception(seen, Kind::Standby, "not me")),
        ];
        for act in acts {
            let (bad, good) = (Fake::start(move |_, seen| act(seen)).await, good().await);
            let client = client(&[&bad.address, &good.address]);
            assert!(client.rename("/a", "/b").await.unwrap());
            let (first, second) = (bad.seen(), good.seen());
            assert_eq!((first.len(), second.len()), (1, 1));
            assert_resent(&first[0], &second[0]);
            assert_eq!(client.counts(), Counts { failovers: 1, resends: 1 });
            // It stays there, with a new call id.
            assert!(client.delete("/b", true).await.unwrap());
            assert_eq!((bad.seen().len(), good.methods()), (1, vec!["rename", "delete"]));
            assert_eq!(good.seen()[1].id.call_id, first[0].id.call_id + 1);
        }
    });
}

#[test]
fn an_unreachable_namenode_is_passed_over_at_once_and_every_call_gets_through() {
    run(async {
        let (nobody, good) = (nobody().await, good().await);
        let client = client(&[&nobody, &good.address]);
        for i in 0..3 {
            assert_eq!(client.get_file_info(&format!("/{i}")).await.unwrap().unwrap().file_id, i);
        }
        assert_eq!(client.counts(), Counts { failovers: 1, resends: 1 });
        assert_eq!(good.connections(), 1);
    });
}

#[test]
fn a_silent_namenode_is_left_after_the_call_timeout() {
    run(async {
        let (frozen, good) = (Fake::start(|_, _| Act::Nothing).await, good().await);
        let client = client_with(&[&frozen.address, &good.address], |config| {
            config.call_timeout = Duration::from_millis(100);
        });
        assert!(client.mkdirs("/a", 0o777, true).await.unwrap());
        assert_resent(&frozen.seen()[0], &good.seen()[0]);
        // The client gave the whole connection up.
        until("closing", || frozen.state.closed.load(Ordering::SeqCst) == 1).await;
    });
}

#[test]
fn what_may_have_been_done_is_not_sent_again_unless_that_is_safe() {
    run(async {
        for act in [|| Act::SendAndClose(Bytes::new()), || Act::Reset] {
            let (bad, good) = (Fake::start(move |_, _| act()).await, good().await);
            let client = client(&[&bad.address, &good.address]);
            // Nothing is known of this method, so it may do harm twice.
            let error = client
                .call(&namenode_protocol_service::ROLL_EDIT_LOG, &namenode::RollEditLogRequestProto {})
                .await
                .unwrap_err();
            assert!(error.maybe_done() && error.to_string().contains("may have been carried out"), "{error}");
            assert_eq!((bad.seen().len(), good.seen().len()), (1, 0));
        }
    });
}

#[test]
fn what_was_never_sent_may_go_anywhere() {
    run(async {
        let (nobody, other) =
            (nobody().await, Fake::start(|_, seen| Act::Send(exception(seen, Kind::Io, "seen"))).await);
        let client = client(&[&nobody, &other.address]);
        let request = namenode::RollEditLogRequestProto {};
        let error = client.call(&namenode_protocol_service::ROLL_EDIT_LOG, &request).await.unwrap_err();
        assert_eq!(error.kind(), Some(Kind::Io));
        assert_eq!(other.seen()[0].id.retry_count, 1);
    });
}

#[test]
fn exceptions_of_the_operation_are_final() {
    run(async {
        for kind in [Kind::AccessControl, Kind::FileNotFound, Kind::SafeMode, Kind::Io, Kind::LeaseExpired] {
            let (first, second) = (
                Fake::start(move |_, seen| Act::Send(exception(seen, kind, "no: /a\n\tat x"))).await,
                good().await,
            );
            let client = client(&[&first.address, &second.address]);
            let error = client.delete("/a", false).await.unwrap_err();
            assert_eq!(error.kind(), Some(kind));
            assert_eq!(error.to_string(), format!("delete /a: {}: no: /a", kind.simple_name()));
            assert_eq!((first.seen().len(), second.seen().len()), (1, 0));
            assert_eq!(client.counts(), Counts::default());
        }
    });
}

#[test]
fn a_retriable_exception_means_the_same_namenode_again() {
    run(async {
        let first = Fake::start(|nth, seen| {
            Act::Send(if nth < 3 { exception(seen, Kind::Retriable, "later") } else { answer(seen) })
        })
        .await;
        let second = good().await;
        let client = client(&[&first.address, &second.address]);
        assert!(client.delete("/a", false).await.unwrap());
        let seen = first.seen();
        assert_eq!((seen.len(), second.seen().len(), first.connections()), (4, 0, 1));
        seen.windows(2).for_each(|two| assert_resent(&two[0], &two[1]));
    });
}

#[test]
fn attempts_are_bounded() {
    run(async {
        let policy = RetryPolicy {
            max_failovers: 4,
            max_retries: 2,
            backoff_base: Duration::from_millis(1),
            ..RetryPolicy::default()
        };
        let standby = Fake::start(|_, seen| Act::Send(exception(seen, Kind::Standby, "not me"))).await;
        let client = builder(&[&standby.address, &standby.address]).retry(policy.clone()).build().unwrap();
        assert_eq!(client.delete("/a", true).await.unwrap_err().kind(), Some(Kind::Standby));
        assert_eq!(standby.seen().len(), 5);

        let busy = Fake::start(|_, seen| Act::Send(exception(seen, Kind::Retriable, "later"))).await;
        let client = builder(&[&busy.address]).retry(policy.clone()).build().unwrap();
        assert_eq!(client.delete("/a", true).await.unwrap_err().kind(), Some(Kind::Retriable));
        assert_eq!(busy.seen().len(), 3);

        let nobody = nobody().await;
        let client = builder(&[&nobody]).retry(policy).build().unwrap();
        let error = client.delete("/a", true).await.unwrap_err();
        assert!(matches!(error.fault(), Fault::NotSent(_)) && !error.maybe_done());
        assert!(error.to_string().contains(&format!("5 attempts, the last was {nobody}")), "{error}");

        let hopeless = RetryPolicy { give_up_after: Duration::ZERO, ..RetryPolicy::default() };
        let client = builder(&[&nobody]).retry(hopeless).build().unwrap();
        assert!(client.delete("/a", true).await.unwrap_err().to_string().contains("1 attempts"));
    });
}

#[test]
fn who_never_answered_is_given_up_sooner_than_who_did() {
    run(async {
        let impatient = |namenodes: &[&Address]| {
            let retry = RetryPolicy {
                backoff_base: Duration::from_millis(1),
                give_up_unanswered_after: Duration::ZERO,
                ..RetryPolicy::default()
            };
            builder(namenodes).retry(retry).build().unwrap()
        };
        let (one, other, good) = (nobody().await, nobody().await, good().await);
        let error = impatient(&[&one, &other]).delete("/a", true).await.unwrap_err().to_string();
        assert!(error.contains(&format!("2 attempts, the last was {other}")), "{error}");
        assert!(impatient(&[&one, &good.address]).delete("/a", true).await.unwrap());

        let busy = Fake::start(|nth, seen| {
            Act::Send(if nth < 3 { exception(seen, Kind::Retriable, "later") } else { answer(seen) })
        })
        .await;
        assert!(impatient(&[&busy.address]).delete("/a", true).await.unwrap());
    });
}

#[test]
fn a_namenode_that_dies_under_load_loses_no_call_and_moves_everyone_once() {
    run(async {
        const CALLS: u64 = 1000;
        // It answers some, and keeps the others waiting until it is killed.
        let dying =
            Fake::start(|nth, seen| if nth < 100 { Act::Send(answer(seen)) } else { Act::Nothing }).await;
        let good = good().await;
        let client = client(&[&dying.address, &good.address]);
        let calls: Vec<_> = (0..CALLS)
            .map(|i| {
                let client = client.clone();
                tokio::spawn(
                    async move { client.get_file_info(&format!("/{i}")).await.unwrap().unwrap().file_id },
                )
            })
            .collect();
        until("the calls' arrival", || dying.seen().len() == CALLS as usize).await;
        dying.kill();
        for (i, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap(), i as u64);
        }
        assert_eq!(client.counts(), Counts { failovers: 1, resends: 900 });
        let first = dying.seen();
        for second in good.seen() {
            let same = first.iter().find(|call| call.id.call_id == second.id.call_id).unwrap();
            assert_resent(same, &second);
        }
        let mut ids: Vec<_> = first.iter().map(|call| call.id.call_id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!((ids.len(), good.seen().len()), (CALLS as usize, 900));
    });
}

#[test]
fn a_namenode_that_comes_back_is_found_again() {
    run(async {
        let good = good().await;
        let retry = RetryPolicy {
            backoff_base: Duration::from_millis(2),
            backoff_max: Duration::from_millis(10),
            give_up_unanswered_after: Duration::ZERO,
            ..RetryPolicy::default()
        };
        let client = builder(&[&good.address]).retry(retry).build().unwrap();
        assert!(client.mkdirs("/a", 0o777, true).await.unwrap());
        let port = good.address.port();
        good.kill();
        let (calling, restarting) = (client.mkdirs("/b", 0o777, true), async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Fake::start_on(port, |_, seen| Act::Send(answer(seen))).await
        });
        let (called, restarted) = tokio::join!(calling, restarting);
        assert!(called.unwrap());
        assert_eq!(restarted.methods(), ["mkdirs"]);
    });
}

#[test]
fn asking_one_namenode_asks_no_other() {
    run(async {
        let (nobody, good) = (nobody().await, good().await);
        let client = client(&[&nobody, &good.address]);
        let request = trellis_proto::hdfs::RenewLeaseRequestProto::default();
        let rpc = &trellis_proto::hdfs::client_namenode_protocol::RENEW_LEASE;
        let namenodes = client.namenodes();
        assert_eq!(
            namenodes.iter().map(|n| n.address().clone()).collect::<Vec<_>>(),
            [nobody, good.address.clone()]
        );
        assert!(matches!(
            namenodes[0].call_once(rpc, &request).await.unwrap_err().fault(),
            Fault::NotSent(_)
        ));
        namenodes[1].call_once(rpc, &request).await.unwrap();
        assert_eq!(good.methods(), ["renewLease"]);
    });
}
