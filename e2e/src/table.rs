//! Tables recorded from stock, and how answers are compared with them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// How many differences are shown.
const SHOWN: usize = 60;

/// Which columns of a table name a row, and how many from the first are compared. Later ones are for people.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// Leading columns that name what was asked; rows of one name are compared together, in their order.
    pub key: usize,
    /// Leading columns that must be equal, the key included.
    pub compared: usize,
}

/// Rows that are not compared yet: the leading columns as patterns (a trailing `*` stands for any rest), and the reason.
#[derive(Default)]
pub struct Exclusions(Vec<(Vec<String>, String)>);

impl Exclusions {
    /// Reads a tab-separated list with a header line; the last column is the reason.
    pub fn read(path: &Path) -> Result<Exclusions> {
        let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let mut list = Vec::new();
        for line in text.lines().skip(1).filter(|line| !line.is_empty()) {
            let mut columns: Vec<String> = line.split('\t').map(str::to_owned).collect();
            let reason = columns.pop().filter(|reason| !reason.is_empty() && !columns.is_empty());
            let Some(reason) = reason else { bail!("{}: a row without a reason: {line}", path.display()) };
            list.push((columns, reason));
        }
        Ok(Exclusions(list))
    }

    fn position(&self, key: &str) -> Option<usize> {
        let columns: Vec<&str> = key.split('\t').collect();
        self.0.iter().position(|(patterns, _)| {
            patterns.len() <= columns.len()
                && patterns.iter().zip(&columns).all(|(pattern, column)| match pattern.strip_suffix('*') {
                    Some(start) => column.starts_with(start),
                    None => pattern == column,
                })
        })
    }
}

/// Compares two tables with a header line each. The error lists what differs; the answer lists what is worth telling:
/// exclusions whose rows have all become equal, or that no row has.
pub fn compare(expected: &str, actual: &str, columns: Columns, excluded: &Exclusions) -> Result<Vec<String>> {
    let (expected, actual) = (rows(expected, columns), rows(actual, columns));
    let (mut differences, mut compared) = (Vec::new(), 0);
    let (mut used, mut still_wrong) = (BTreeSet::new(), BTreeSet::new());
    let keys: BTreeSet<&String> = expected.keys().chain(actual.keys()).collect();
    for key in keys {
        let (want, got) = (expected.get(key), actual.get(key));
        let equal = match (want, got) {
            (Some(want), Some(got)) => want.compared == got.compared,
            _ => false,
        };
        if let Some(index) = excluded.position(key) {
            used.insert(index);
            if !equal {
                still_wrong.insert(index);
            }
            continue;
        }
        compared += 1;
        if !equal {
            let text =
                |rows: Option<&Rows>| rows.map_or("nothing".to_owned(), |rows| rows.whole.join("\n        "));
            differences.push(format!("expected {}\n     got {}", text(want), text(got)));
        }
    }
    if !differences.is_empty() {
        let mut message = format!("{} of {compared} rows differ from stock's:\n", differences.len());
        for difference in differences.iter().take(SHOWN) {
            let _ = writeln!(message, "{difference}");
        }
        bail!(message);
    }
    let tell = excluded.0.iter().enumerate().filter_map(|(index, (patterns, _))| {
        if !used.contains(&index) {
            Some(format!("no row is named {}", patterns.join(", ")))
        } else if !still_wrong.contains(&index) {
            Some(format!("equal by now: {}", patterns.join(", ")))
        } else {
            None
        }
    });
    Ok(std::iter::once(format!("{compared} rows equal")).chain(tell).collect())
}

#[derive(Default)]
struct Rows {
    compared: Vec<String>,
    whole: Vec<String>,
}

fn rows(table: &str, columns: Columns) -> BTreeMap<String, Rows> {
    let mut map: BTreeMap<String, Rows> = BTreeMap::new();
    for line in table.lines().skip(1) {
        let cut = |count: usize| line.split('\t').take(count).collect::<Vec<_>>().join("\t");
        let rows = map.entry(cut(columns.key)).or_default();
        rows.compared.push(cut(columns.compared));
        rows.whole.push(line.to_owned());
    }
    map
}

#[cfg(test)]
mod tests {
    use super::{Columns, Exclusions, compare};

    const COLUMNS: Columns = Columns { key: 1, compared: 2 };

    fn excluded(list: &[(&str, &str)]) -> Exclusions {
        Exclusions(list.iter().map(|(key, reason)| (vec![(*key).to_owned()], (*reason).to_owned())).collect())
    }

    #[test]
    fn what_is_not_compared_may_differ() {
        let told = compare("h\na\t1\tx\nb\t2", "h\na\t1\ty\nb\t2", COLUMNS, &excluded(&[])).expect("equal");
        assert_eq!(told, ["2 rows equal"]);
    }

    #[test]
    fn a_changed_a_missing_and_a_new_row_are_differences() {
        for actual in ["h\na\t2", "h\n", "h\na\t1\nb\t1", "h\na\t1\na\t1"] {
            let error = compare("h\na\t1", actual, COLUMNS, &excluded(&[])).expect_err(actual);
            assert!(error.to_string().contains("1 of"), "{actual}: {error}");
        }
    }

    #[test]
    fn exclusions_that_are_of_no_use_are_told() {
        let list = excluded(&[("a*", "not yet"), ("b", "equal"), ("z", "no such row")]);
        let told = compare("h\nab\t1\nb\t1", "h\nab\t2\nb\t1", COLUMNS, &list).expect("excluded");
        assert_eq!(told, ["0 rows equal", "equal by now: b", "no row is named z"]);
    }
}
