//! Reads the tables and recordings.

use std::path::Path;

/// The text of a file of `e2e/hadoop/wire`.
pub fn text(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../e2e/hadoop/wire").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The rows of a tab-separated table without its header line, each with `columns` columns.
pub fn rows(name: &str, columns: usize) -> Vec<Vec<String>> {
    let rows: Vec<Vec<String>> = text(name)
        .lines()
        .skip(1)
        .map(|line| {
            let mut row: Vec<String> = line.split('\t').map(str::to_owned).collect();
            assert!(row.len() <= columns, "{name}: {line}");
            row.resize(columns, String::new());
            row
        })
        .collect();
    assert!(rows.len() > 30, "{name} has only {} rows", rows.len());
    rows
}
