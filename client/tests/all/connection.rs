//! One connection: what is sent, what is waited for, what is not put up with.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use trellis_client::error::Fault;
use trellis_client::uri::Address;
use trellis_proto::exception::Kind;
use trellis_proto::methods::SERVICES;
use trellis_proto::rpc::{CallId, Event, ServerConn};

use crate::fake::*;

#[test]
fn preamble_context_and_first_call_come_in_one_segment() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Address::new("localhost", listener.local_addr().unwrap().port());
        let client = builder(&[&address]).user("eve").caller_context("CLI").build().unwrap();
        let call = tokio::spawn(async move { client.delete("/a", true).await });
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut buf = BytesMut::with_capacity(65536);
        stream.read_buf(&mut buf).await.unwrap();
        let mut conn = ServerConn::new(SERVICES, 1 << 20, 0);
        let Some(Event::Context(context)) = conn.next_event(&mut buf) else { panic!("no context") };
        assert_eq!(context.user.as_deref(), Some("eve"));
        assert_eq!(context.protocol.as_deref(), Some("org.apache.hadoop.hdfs.protocol.ClientProtocol"));
        let Some(Event::Call(seen)) = conn.next_event(&mut buf) else { panic!("no call") };
        assert_eq!((seen.method.name, &seen.caller_context[..]), ("delete", &b"CLI"[..]));
        assert_eq!((seen.id.retry_count, seen.id.client_id.len(), buf.len()), (0, 16, 0));
        call.abort();
    });
}

#[test]
fn answers_find_their_callers_in_any_order() {
    run(async {
        const CALLS: usize = 300;
        let held = Arc::new(Mutex::new(Vec::new()));
        let script_held = held.clone();
        let fake = Fake::start(move |_, seen| {
            script_held.lock().unwrap().push(answer(seen));
            Act::Hold
        })
        .await;
        let client = client(&[&fake.address]);
        let calls: Vec<_> = (0..CALLS)
            .map(|i| {
                let client = client.clone();
                tokio::spawn(
                    async move { client.get_file_info(&format!("/{i}")).await.unwrap().unwrap().file_id },
                )
            })
            .collect();
        until("the calls' arrival", || held.lock().unwrap().len() == CALLS).await;
        let mut all = BytesMut::new();
        held.lock().unwrap().drain(..).rev().for_each(|bytes| all.put(bytes));
        // In odd pieces, so that frames are cut anywhere.
        for piece in all.freeze().chunks(77) {
            fake.send(0, Bytes::copy_from_slice(piece));
        }
        for (i, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap(), i as u64);
        }
        assert_eq!(fake.connections(), 1);
    });
}

#[test]
fn a_late_answer_costs_only_its_own_call() {
    run(async {
        // /1 is answered only when it comes again, other files at once: the connection is not silent.
        let fake = Fake::start(|_, seen| {
            let is_late = request::<trellis_proto::hdfs::GetFileInfoRequestProto>(seen).src == "/1";
            if is_late && seen.id.retry_count == 0 { Act::Nothing } else { Act::Send(answer(seen)) }
        })
        .await;
        let client = client_with(&[&fake.address], |config| config.call_timeout = Duration::from_millis(500));
        let late = tokio::spawn({
            let client = client.clone();
            async move { client.get_file_info("/1").await.unwrap().unwrap().file_id }
        });
        while !late.is_finished() {
            assert_eq!(client.get_file_info("/2").await.unwrap().unwrap().file_id, 2);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(late.await.unwrap(), 1);
        let sends: Vec<_> =
            fake.seen().into_iter().filter(|call| call.body.ends_with(b"/1")).map(|call| call.id).collect();
        assert_eq!((sends.len(), sends[0].call_id, fake.connections()), (2, sends[1].call_id, 1));
    });
}

#[test]
fn calls_in_flight_are_bounded() {
    run(async {
        let held = Arc::new(Mutex::new(Vec::new()));
        let script_held = held.clone();
        let fake = Fake::start(move |_, seen| {
            script_held.lock().unwrap().push(answer(seen));
            Act::Hold
        })
        .await;
        let client = client_with(&[&fake.address], |config| config.max_in_flight = 3);
        let calls: Vec<_> = (0..10u64)
            .map(|i| {
                let client = client.clone();
                tokio::spawn(
                    async move { client.get_file_info(&format!("/{i}")).await.unwrap().unwrap().file_id },
                )
            })
            .collect();
        for answered in 0..10usize {
            until("the next call's arrival", || fake.seen().len() == (answered + 3).min(10)).await;
            let next = held.lock().unwrap().remove(0);
            fake.send(0, next);
        }
        for (i, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.unwrap(), i as u64);
        }
    });
}

#[test]
fn a_caller_that_gave_up_leaves_nothing_behind() {
    run(async {
        let held = Arc::new(Mutex::new(Vec::new()));
        let script_held = held.clone();
        let fake = Fake::start(move |nth, seen| {
            script_held.lock().unwrap().push(answer(seen));
            if nth < 2 { Act::Hold } else { Act::Send(answer(seen)) }
        })
        .await;
        let client = client_with(&[&fake.address], |config| config.max_in_flight = 2);
        for i in 0..2 {
            let client = client.clone();
            let call = tokio::spawn(async move { client.get_file_info(&format!("/{i}")).await });
            until("the call's arrival", || fake.seen().len() == i + 1).await;
            call.abort();
        }
        // Both places are taken until the answers come.
        let third = tokio::spawn({
            let client = client.clone();
            async move { client.get_file_info("/7").await.unwrap().unwrap().file_id }
        });
        held.lock().unwrap().drain(..).for_each(|bytes| fake.send(0, bytes));
        assert_eq!(third.await.unwrap(), 7);
    });
}

#[test]
fn an_idle_connection_is_closed_and_made_anew() {
    run(async {
        let fake = good().await;
        let client = client_with(&[&fake.address], |config| config.idle_timeout = Duration::from_millis(20));
        for i in 0..4usize {
            assert!(client.delete("/a", true).await.unwrap());
            until("closing", || fake.state.closed.load(Ordering::SeqCst) == i + 1).await;
        }
        assert_eq!((fake.connections(), client.counts().resends), (4, 0));
        // One that waits for an answer is not idle.
        let slow = Fake::start(|_, seen| Act::Later(Duration::from_millis(200), answer(seen))).await;
        let client = client_with(&[&slow.address], |config| config.idle_timeout = Duration::from_millis(20));
        assert!(client.delete("/a", true).await.unwrap());
        assert_eq!((slow.connections(), client.counts().resends), (1, 0));
    });
}

#[test]
fn a_connection_that_waits_sends_pings() {
    run(async {
        let held = Arc::new(Mutex::new(None));
        let script_held = held.clone();
        let fake = Fake::start(move |_, seen| {
            *script_held.lock().unwrap() = Some(answer(seen));
            Act::Hold
        })
        .await;
        let client = client_with(&[&fake.address], |config| config.ping_interval = Duration::from_millis(20));
        let call = tokio::spawn(async move { client.delete("/a", true).await });
        until("a third ping", || fake.state.pings.load(Ordering::SeqCst) >= 3).await;
        let bytes = held.lock().unwrap().take().unwrap();
        fake.send(0, bytes);
        assert!(call.await.unwrap().unwrap());
    });
}

#[test]
fn a_dropped_client_closes_its_connections() {
    run(async {
        let fake = good().await;
        let client = client(&[&fake.address]);
        assert!(client.delete("/a", true).await.unwrap());
        drop(client);
        until("closing", || fake.state.closed.load(Ordering::SeqCst) == 1).await;
    });
}

/// An answer with another client's id.
#[test]
fn connections_run_where_they_are_told_to() {
    run(async {
        let fake = good().await;
        let elsewhere =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let client = builder(&[&fake.address]).runtime(elsewhere.handle().clone()).build().unwrap();
        assert!(client.get_file_info("/1").await.is_ok());
        tokio::task::spawn_blocking(move || drop(elsewhere)).await.unwrap();
        // Nothing runs there any more: neither the connection that was there nor a new one, and nobody waits for them.
        for _ in 0..2 {
            let error = client.get_file_info("/1").await.unwrap_err();
            assert!(matches!(error.fault(), Fault::NotSent(_)), "{error}");
        }
        assert_eq!((fake.connections(), fake.methods()), (1, vec!["getFileInfo"]));
    });
}

fn foreign(seen: &Seen) -> Bytes {
    let id = CallId { client_id: Bytes::from_static(&[7; 16]), ..seen.id.clone() };
    success(&Seen { id, ..seen.clone() }, &trellis_proto::hdfs::DeleteResponseProto { result: true })
}

/// An answer with bytes after its end.
fn overlong(seen: &Seen) -> Bytes {
    let mut frame = BytesMut::from(&answer(seen)[..]);
    frame.put_u8(0);
    let len = frame.len() as u32 - 4;
    frame[..4].copy_from_slice(&len.to_be_bytes());
    frame.freeze()
}

#[test]
fn garbage_ends_the_connection_and_takes_no_memory() {
    run(async {
        let acts: [fn(&Seen) -> Act; 6] = [
            // A length that is negative, one above the limit, another protocol altogether.
            |_| Act::Flood(Bytes::from_static(&[0xff; 4])),
            |_| Act::Flood(Bytes::from_static(&[0x7f, 0, 0, 0])),
            |_| Act::Flood(Bytes::from_static(b"HTTP/1.1 404 Not Found\r\n\r\n")),
            // An allowed frame of zeros: a header without its required fields.
            |_| Act::Flood(Bytes::from_static(&[0, 0, 0, 64])),
            |seen| Act::Send(foreign(seen)),
            |seen| Act::Send(overlong(seen)),
        ];
        for (i, act) in acts.into_iter().enumerate() {
            let (bad, good) = (Fake::start(move |_, seen| act(seen)).await, good().await);
            let client =
                client_with(&[&bad.address, &good.address], |config| config.max_response_bytes = 1 << 20);
            assert!(client.delete("/a", true).await.unwrap(), "{i}");
            assert_eq!((bad.seen().len(), good.seen().len()), (1, 1), "{i}");
            // The flood ends because the client closes.
            until("closing", || bad.state.closed.load(Ordering::SeqCst) == 1).await;
        }
    });
}

#[test]
fn an_answer_of_the_wrong_shape_is_an_error_and_spares_the_connection() {
    run(async {
        let fake = Fake::start(|nth, seen| match nth {
            // Lacks its required field.
            0 => Act::Send(success(seen, &trellis_proto::hdfs::MsyncResponseProto {})),
            // To a call that nobody made.
            1 => {
                let id = CallId { call_id: 99_999, ..seen.id.clone() };
                let mut both = BytesMut::from(&answer(&Seen { id, ..seen.clone() })[..]);
                both.put(answer(seen));
                Act::Send(both.freeze())
            }
            _ => Act::Send(answer(seen)),
        })
        .await;
        let client = client(&[&fake.address]);
        let error = client.delete("/a", true).await.unwrap_err();
        assert!(matches!(error.fault(), Fault::Unusable(why) if why.contains("result")), "{error}");
        assert!(client.delete("/a", true).await.unwrap());
        assert!(client.delete("/a", true).await.unwrap());
        assert_eq!((fake.connections(), fake.seen().len()), (1, 3));
    });
}

#[test]
fn a_refused_connection_is_everybodys_answer_and_is_not_tried_again() {
    run(async {
        // What a server sends that does not like the preamble.
        let mut conn = ServerConn::new(SERVICES, 1024, 0);
        let Some(Event::ReplyAndClose(refusal)) = conn.next_event(&mut BytesMut::from(&b"hrpc\x0a\0\0"[..]))
        else {
            panic!("no refusal")
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Address::new("127.0.0.1", listener.local_addr().unwrap().port());
        let client = client(&[&address]);
        let calls = tokio::spawn(async move {
            let (a, b) = tokio::join!(client.delete("/a", true), client.delete("/b", true));
            [a.unwrap_err(), b.unwrap_err()]
        });
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read_buf(&mut BytesMut::with_capacity(4096)).await.unwrap();
        stream.write_all(&refusal).await.unwrap();
        for error in calls.await.unwrap() {
            assert_eq!(error.kind(), Some(Kind::RpcVersionMismatch), "{error}");
        }
    });
}
