//! The table of exceptions against what stock was seen to throw.

use trellis_proto::exception::{Kind, TABLE};

use crate::stock::{rows, text};

#[test]
fn every_class_that_stock_was_seen_to_answer_is_in_the_table() {
    for row in rows("errors.tsv", 4) {
        if row[1] != "OK" {
            let kind = Kind::from_class(&row[1]).unwrap_or_else(|| panic!("{} is missing", row[1]));
            assert_eq!(kind.row().code.as_str_name(), row[2], "{}", row[0]);
        }
    }
}

/// Classes are written in full in the contract's tables and text, or as a list with the package once.
#[test]
fn every_class_of_the_contract_is_in_the_table() {
    let contract = text("CONTRACT.md");
    let words = contract.split(|c: char| !(c.is_alphanumeric() || ".$_".contains(c)));
    let mut seen = 0;
    for word in words.map(|w| w.trim_matches('.')) {
        let last = word.rsplit(['.', '$']).next().unwrap_or_default();
        if (word.starts_with("org.apache.") || word.starts_with("java."))
            && (last.ends_with("Exception") || last.ends_with("Error"))
        {
            seen += 1;
            assert!(Kind::from_class(word).is_some(), "{word} is missing");
        }
    }
    assert!(seen > 30, "only {seen} classes were found");
}

#[test]
fn the_table_has_no_class_twice() {
    for row in TABLE {
        assert_eq!(TABLE.iter().filter(|r| r.class == row.class).count(), 1, "{}", row.class);
    }
}
