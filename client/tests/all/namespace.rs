//! The namespace API: what goes over the wire, and what comes of the answers.

use std::time::Duration;

use trellis_client::types::CreateOptions;
use trellis_proto::exception::Kind;
use trellis_proto::hdfs;

use crate::fake::*;

#[test]
fn the_umask_is_the_clients() {
    run(async {
        let fake = good().await;
        let client = builder(&[&fake.address]).umask(0o027).build().unwrap();
        client.mkdirs("/d", 0o1777, false).await.unwrap();
        client.create_empty("/f", &CreateOptions::default()).await.unwrap();
        let seen = fake.seen();
        let mkdirs = request::<hdfs::MkdirsRequestProto>(&seen[0]);
        assert_eq!(
            (mkdirs.masked.perm, mkdirs.unmasked.unwrap().perm, mkdirs.create_parent),
            (0o1750, 0o1777, false)
        );
        let create = request::<hdfs::CreateRequestProto>(&seen[2]);
        assert_eq!((create.masked.perm, create.unmasked.unwrap().perm), (0o640, 0o666));
        assert_eq!((create.replication, create.block_size), (2, 4096));
    });
}

#[test]
fn an_empty_file_is_created_and_completed_by_the_same_holder() {
    run(async {
        let fake = good().await;
        let client = client(&[&fake.address]);
        let options = CreateOptions {
            overwrite: true,
            create_parent: false,
            replication: Some(1),
            block_size: Some(1024),
            ..CreateOptions::default()
        };
        assert_eq!(client.create_empty("/f", &options).await.unwrap().file_id, 17);
        let seen = fake.seen();
        assert_eq!(fake.methods(), ["create", "complete"]);
        let create = request::<hdfs::CreateRequestProto>(&seen[0]);
        assert_eq!((create.create_flag, create.create_parent), (3, false));
        assert_eq!(
            (create.replication, create.block_size, &create.client_name[..]),
            (1, 1024, client.name())
        );
        let complete = request::<hdfs::CompleteRequestProto>(&seen[1]);
        assert_eq!(
            (complete.file_id, complete.last, &complete.client_name[..]),
            (Some(17), None, client.name())
        );
        // The namenode's suggestions are asked for once.
        client.create_empty("/g", &CreateOptions::default()).await.unwrap();
        client.create_empty("/h", &CreateOptions::default()).await.unwrap();
        assert_eq!(fake.methods().iter().filter(|method| **method == "getServerDefaults").count(), 1);
    });
}

#[test]
fn leases_are_renewed_while_a_file_is_open() {
    run(async {
        let fake = good().await;
        let interval = Duration::from_millis(10);
        let client = builder(&[&fake.address]).lease_renew_interval(interval).build().unwrap();
        let renewals = || fake.methods().iter().filter(|method| **method == "renewLease").count();
        let mut file = client.create("/f", &CreateOptions::default()).await.unwrap();
        let other = client.create("/g", &CreateOptions::default()).await.unwrap();
        until("renewals", || renewals() >= 3).await;
        let renewal = fake.seen().into_iter().find(|call| call.method == "renewLease").unwrap();
        assert_eq!(request::<hdfs::RenewLeaseRequestProto>(&renewal).client_name, client.name());
        drop(other);
        let before = renewals();
        until("further renewals", || renewals() >= before + 2).await;
        file.close().await.unwrap();
        // At most one was under way; then a while without any.
        tokio::time::sleep(interval * 3).await;
        let after = renewals();
        tokio::time::sleep(interval * 10).await;
        assert_eq!(renewals(), after);
        // And it begins again.
        let _file = client.create("/f", &CreateOptions::default()).await.unwrap();
        until("new renewals", || renewals() > after).await;
    });
}

#[test]
fn close_asks_until_the_namenode_has_heard_of_the_block() {
    run(async {
        let fake = Fake::start(|nth, seen| match seen.method {
            "complete" if nth < 3 => Act::Send(success(seen, &hdfs::CompleteResponseProto { result: false })),
            _ => Act::Send(answer(seen)),
        })
        .await;
        let client = client(&[&fake.address]);
        let options =
            CreateOptions { replication: Some(1), block_size: Some(1024), ..CreateOptions::default() };
        let mut file = client.create("/f", &options).await.unwrap();
        file.close().await.unwrap();
        assert_eq!(fake.methods(), ["create", "complete", "complete", "complete"]);
    });
}

#[test]
fn listings_go_on_after_the_last_name_of_a_page() {
    run(async {
        let fake = Fake::start(|_, seen| {
            let ask = request::<hdfs::GetListingRequestProto>(seen);
            let page = |names: &[&str], remaining_entries| hdfs::DirectoryListingProto {
                partial_listing: names.iter().map(|name| status(name, 1)).collect(),
                remaining_entries,
            };
            let dir_list = match (&ask.src[..], &ask.start_after[..]) {
                ("/d", b"") => Some(page(&["é", "a"], 3)),
                ("/d", b"a") => Some(page(&["b", "c"], 1)),
                ("/d", b"c") => Some(page(&["d"], 0)),
                ("/empty", b"") => Some(page(&[], 0)),
                ("/mad", b"") => Some(page(&[], 9)),
                ("/gone", b"") => Some(page(&["x"], 1)),
                _ => None,
            };
            Act::Send(success(seen, &hdfs::GetListingResponseProto { dir_list }))
        })
        .await;
        let client = client(&[&fake.address]);
        let mut listing = client.get_listing("/d");
        let mut names = Vec::new();
        while let Some(entry) = listing.next().await.unwrap() {
            names.push(entry.name);
        }
        assert_eq!(names, ["é", "a", "b", "c", "d"]);
        assert_eq!(listing.next().await.unwrap(), None);
        assert_eq!(fake.seen().len(), 3);
        for empty in ["/empty", "/mad"] {
            assert_eq!(client.get_listing(empty).next().await.unwrap(), None);
        }
        let mut pages = client.get_listing("/d");
        pages.next().await.unwrap();
        assert_eq!(pages.next_page().await.unwrap().unwrap().len(), 1);
        assert_eq!(pages.next_page().await.unwrap().unwrap().len(), 2);
        // One that never was, and one that goes away between two pages.
        let error = client.get_listing("/none").next().await.unwrap_err();
        assert_eq!(error.exception().unwrap().message, "File /none does not exist.");
        let mut gone = client.get_listing("/gone");
        assert!(gone.next().await.unwrap().is_some());
        assert_eq!(gone.next().await.unwrap_err().kind(), Some(Kind::FileNotFound));
    });
}
