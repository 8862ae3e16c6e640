//! The method tables against the protocols, and the page that is made from them.

use std::path::Path;

use trellis_namenode::metrics;
use trellis_namenode::rpc::compat;
use trellis_namenode::rpc::plan::Does;
use trellis_namenode::rpc::service::TABLES;

pub async fn every_method_has_its_line() {
    let client = TABLES[0];
    assert_eq!(
        (client.protocol.protocol, client.entries.len()),
        ("org.apache.hadoop.hdfs.protocol.ClientProtocol", 111)
    );
    for table in TABLES {
        let mut lines: Vec<_> = table.entries.iter().map(|entry| entry.name).collect();
        lines.sort_unstable();
        let methods: Vec<_> = table.protocol.methods.iter().map(|method| method.name).collect();
        assert_eq!(lines, methods, "{}", table.protocol.name);
        for entry in table.entries {
            assert_eq!(entry.name, entry.wire, "the line of {} has another method's constant", entry.name);
            assert!(
                entry.does != Does::Refuse
                    || entry.note.ends_with(|c: char| c.is_alphanumeric() || ".!".contains(c))
            );
        }
    }
}

/// Methods that stock's own retry cache covers (column `retry`, C, of the recorded contract), as far as they are served.
pub async fn repeats_as_in_stock() {
    let once = [
        "create",
        "append",
        "concat",
        "rename",
        "rename2",
        "delete",
        "updatePipeline",
        "setXAttr",
        "removeXAttr",
    ];
    for entry in TABLES[0].entries {
        match entry.does {
            Does::WriteOnce => assert!(once.contains(&entry.name), "{}", entry.name),
            Does::Write | Does::WriteKept => assert!(!once.contains(&entry.name), "{}", entry.name),
            _ => {}
        }
    }
}

/// Run with TRELLIS_WRITE_DOCS=1 to write them.
pub async fn pages_are_up_to_date() {
    for (name, page) in [("COMPAT.md", compat::page()), ("METRICS.md", metrics::page())] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
        if std::env::var_os("TRELLIS_WRITE_DOCS").is_some() {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, &page).unwrap();
        }
        let written = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            written == page,
            "docs/{name} is not what the tables say: run this test with TRELLIS_WRITE_DOCS=1"
        );
    }
}

pub async fn metrics_of_the_store_are_shown() {
    let served = super::Served::fresh().await;
    let mut client = served.client().await;
    client.mkdirs(0, "/a").await.unwrap();
    let text = served.service.metrics_page();
    for want in [
        "trellis_store_commits_total ",
        "trellis_rpc_calls_total{protocol=\"ClientProtocol\",method=\"mkdirs\",outcome=\"ok\"} 1",
        "trellis_rpc_connections_total 1",
        "trellis_rpc_calls_in_flight ",
        "trellis_audit_lines_dropped_total 0",
        "process_cpu_seconds_total ",
    ] {
        assert!(text.contains(want), "{want} is not in\n{text}");
    }
}
