//! The namespace API against a namenode that runs already, if `TRELLIS_TEST_NAMENODE=HOST:PORT[,…]` names one; its
//! superuser must be the user of the test. With Hadoop's (HERE is e2e/hadoop/harness):
//!
//! ```text
//! T=$(mktemp -d); export HADOOP_CONF_DIR=$(HERE/mkconf $T 18020 18070 dfs.namenode.fs-limits.min-block-size=1024)
//! HERE/hdfs namenode -format -nonInteractive -clusterid CID-test && HERE/hdfs namenode & NN=$!
//! TRELLIS_TEST_NAMENODE=127.0.0.1:18020 cargo test -p trellis-client stock; kill $NN
//! ```

use trellis_client::Client;
use trellis_client::fs::access;
use trellis_client::types::{CreateOptions, FileKind, SafeMode, SetQuota};
use trellis_client::uri::Uri;
use trellis_client::user::default_user;
use trellis_proto::exception::Kind;

use crate::fake::run;

/// A client, and a new folder for this test; None: no namenode is named.
async fn place(name: &str) -> Option<(Client, String)> {
    let Ok(text) = std::env::var("TRELLIS_TEST_NAMENODE") else {
        eprintln!("skipped: TRELLIS_TEST_NAMENODE is not set");
        return None;
    };
    let client = Client::builder(Uri::parse(&text).unwrap().namenodes).build().unwrap();
    let dir = format!("/trellis-client-test-{}-{name}", std::process::id());
    client.delete(&dir, true).await.unwrap();
    assert!(client.mkdirs(&dir, 0o777, true).await.unwrap());
    Some((client, dir))
}

#[test]
fn stock_names_and_attributes() {
    run(async {
        let Some((client, dir)) = place("names").await else { return };
        let path = |name: &str| format!("{dir}/{name}");
        let options = CreateOptions { block_size: Some(1 << 20), replication: Some(2), ..Default::default() };
        let made = client.create_empty(&path("f"), &options).await.unwrap();

        let status = client.get_file_info(&path("f")).await.unwrap().unwrap();
        assert_eq!((status.kind, status.length, status.permission), (FileKind::File, 0, 0o644));
        assert_eq!((status.block_size, status.replication, status.file_id), (1 << 20, 2, made.file_id));
        assert_eq!((&status.owner[..], &status.name[..]), (&default_user()[..], ""));
        assert!(client.is_file_closed(&path("f")).await.unwrap());
        assert_eq!(client.get_file_info(&path("nothing")).await.unwrap(), None);

        client.set_permission(&path("f"), 0o600).await.unwrap();
        client.set_owner(&path("f"), Some("ann"), None).await.unwrap();
        client.set_times(&path("f"), Some(123_000), None).await.unwrap();
        assert!(client.set_replication(&path("f"), 3).await.unwrap());
        let status = client.get_file_info(&path("f")).await.unwrap().unwrap();
        assert_eq!((status.permission, &status.owner[..]), (0o600, "ann"));
        assert_eq!((status.modification_time_ms, status.replication), (123_000, 3));

        assert!(client.rename(&path("f"), &path("g")).await.unwrap());
        assert!(!client.rename(&path("f"), &path("h")).await.unwrap());
        let error = client.rename2(&path("f"), &path("h"), false).await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (Some(Kind::FileNotFound), Some(&path("f")[..])));
        assert!(client.mkdirs(&path("a/b"), 0o777, true).await.unwrap());
        assert_eq!(
            client.delete(&path("a"), false).await.unwrap_err().kind(),
            Some(Kind::PathIsNotEmptyDirectory)
        );
        assert_eq!(
            client.mkdirs(&path("g/x"), 0o777, true).await.unwrap_err().kind(),
            Some(Kind::ParentNotDirectory)
        );

        let summary = client.get_content_summary(&dir).await.unwrap();
        assert_eq!((summary.file_count, summary.directory_count, summary.quota), (1, 3, None));
        client.set_quota(&dir, SetQuota::To(5), SetQuota::Keep).await.unwrap();
        let usage = client.get_quota_usage(&dir).await.unwrap();
        assert_eq!((usage.file_and_directory_count, usage.quota, usage.space_quota), (4, Some(5), None));
        let over = async {
            client.mkdirs(&path("q1"), 0o777, false).await?;
            client.mkdirs(&path("q2"), 0o777, false).await
        };
        assert_eq!(over.await.unwrap_err().kind(), Some(Kind::NsQuotaExceeded));

        assert!(client.delete(&dir, true).await.unwrap());
        assert!(!client.delete(&dir, true).await.unwrap());
    });
}

#[test]
fn stock_listings_of_several_pages() {
    run(async {
        const FILES: usize = 2100;
        let Some((client, dir)) = place("listing").await else { return };
        let options = CreateOptions { block_size: Some(1 << 20), replication: Some(1), ..Default::default() };
        let making: Vec<_> = (0..FILES)
            .map(|i| {
                let (client, path, options) = (client.clone(), format!("{dir}/f{i:05}"), options.clone());
                tokio::spawn(async move { client.create_empty(&path, &options).await.map(drop) })
            })
            .collect();
        for made in making {
            made.await.unwrap().unwrap();
        }
        let mut listing = client.get_listing(&dir);
        for i in 0..FILES {
            assert_eq!(listing.next().await.unwrap().unwrap().name, format!("f{i:05}"));
        }
        assert_eq!(listing.next().await.unwrap(), None);
        assert_eq!(client.get_file_info(&dir).await.unwrap().unwrap().children, Some(FILES as u32));
        let own = client.get_listing(&format!("{dir}/f00000")).next().await.unwrap().unwrap();
        assert_eq!(own.name, "");
        assert!(client.delete(&dir, true).await.unwrap());
    });
}

#[test]
fn stock_leases_access_and_cluster() {
    run(async {
        let Some((client, dir)) = place("leases").await else { return };
        let path = format!("{dir}/f");
        let file = client.create(&path, &CreateOptions::default()).await.unwrap();
        assert!(!client.is_file_closed(&path).await.unwrap());
        client.renew_lease().await.unwrap();
        let other = Client::builder(client.namenodes().iter().map(|n| n.address().clone()).collect());
        let other = other.user("stranger").build().unwrap();
        assert_eq!(
            other.create(&path, &CreateOptions::default()).await.unwrap_err().kind(),
            Some(Kind::AccessControl)
        );
        file.close(None).await.unwrap();
        assert!(client.recover_lease(&path).await.unwrap());

        other.check_access(&path, access::READ).await.unwrap();
        let error = other.check_access(&path, access::WRITE).await.unwrap_err();
        assert_eq!(error.kind(), Some(Kind::AccessControl));
        assert!(error.to_string().contains("user=stranger"), "{error}");

        assert!(!client.set_safe_mode(SafeMode::Get).await.unwrap());
        assert!(client.get_server_defaults().await.unwrap().block_size > 0);
        client.get_fs_stats().await.unwrap();
        assert!(client.delete(&dir, true).await.unwrap());
    });
}
