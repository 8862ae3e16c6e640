//! The table of what may be repeated, held against the recorded contract.

use std::collections::BTreeMap;

use trellis_client::semantics::{CLIENT_PROTOCOL, Repeat};

/// Methods and their letter in the table of section 2 of the contract.
fn contract() -> BTreeMap<String, String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../e2e/hadoop/wire/CONTRACT.md");
    let text = std::fs::read_to_string(path).unwrap();
    let section = text.split("\n## ").find(|part| part.starts_with("2. ClientProtocol")).unwrap();
    let mut methods = BTreeMap::new();
    for line in section.lines().filter(|line| line.starts_with("| ")) {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let (names, _, letter) = (cells.next().unwrap(), cells.next().unwrap(), cells.next().unwrap());
        if ["R", "I", "C"].contains(&letter) {
            methods.extend(names.split(", ").map(|name| (name.to_owned(), letter.to_owned())));
        }
    }
    methods
}

#[test]
fn is_what_the_contract_says() {
    let contract = contract();
    assert_eq!(contract.len(), CLIENT_PROTOCOL.len());
    for (name, repeat) in CLIENT_PROTOCOL {
        let letter = match repeat {
            Repeat::ReadOnly => "R",
            Repeat::Idempotent => "I",
            Repeat::AtMostOnce => "C",
            Repeat::Never => "-",
        };
        assert_eq!(contract.get(*name).map(String::as_str), Some(letter), "{name}");
    }
}
