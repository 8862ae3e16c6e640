//! Modes, times and sizes as the stock shell prints them.

use std::time::{Duration, SystemTime};

use trellis_client::types::{FileKind, FileStatus};

/// `drwxr-xr-t`
pub fn mode(status: &FileStatus) -> String {
    let kind = match status.kind {
        FileKind::Directory => 'd',
        FileKind::File => '-',
        FileKind::Symlink => 'l',
    };
    format!("{kind}{}", bits(status.permission))
}

/// `rwxr-xr-t`
pub fn bits(permission: u16) -> String {
    let mut text: String = (0..9)
        .rev()
        .map(|bit| if permission >> bit & 1 == 1 { ['x', 'w', 'r'][bit % 3] } else { '-' })
        .collect();
    if permission & 0o1000 != 0 {
        let last = if permission & 1 == 1 { 't' } else { 'T' };
        text.pop();
        text.push(last);
    }
    text
}

/// `2026-11-30 20:57:53`, in UTC.
pub fn seconds(ms: u64) -> String {
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms));
    // humantime refuses years after 9999.
    let at = at.filter(|_| ms < 253_402_300_800_000).unwrap_or(SystemTime::UNIX_EPOCH);
    humantime::format_rfc3339_seconds(at).to_string().replace('T', " ").trim_end_matches('Z').to_owned()
}

/// `2026-11-30 20:57`, in UTC.
pub fn minutes(ms: u64) -> String {
    seconds(ms).chars().take(16).collect()
}

/// `20261130:205753`, in UTC, as a time.
pub fn parse_time(text: &str) -> Result<SystemTime, String> {
    let digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let time = text.split_once(':').filter(|(date, clock)| digits(date, 8) && digits(clock, 6));
    let time = time.and_then(|(date, clock)| {
        let date = format!("{}-{}-{}", &date[..4], &date[4..6], &date[6..]);
        let clock = format!("{}:{}:{}", &clock[..2], &clock[2..4], &clock[4..]);
        humantime::parse_rfc3339(&format!("{date}T{clock}Z")).ok()
    });
    time.ok_or_else(|| format!("{text:?} is no time: give yyyyMMdd:HHmmss, such as 20261130:205753"))
}

/// `1.5 K`, or the plain number.
pub fn size(bytes: u64, human: bool) -> String {
    const UNITS: &[(u32, &str)] = &[(60, "E"), (50, "P"), (40, "T"), (30, "G"), (20, "M"), (10, "K")];
    match UNITS.iter().find(|(shift, _)| human && bytes >> shift > 0) {
        Some((shift, unit)) => {
            let text = format!("{:.1}", bytes as f64 / (1u64 << shift) as f64);
            format!("{} {unit}", text.trim_end_matches(".0"))
        }
        None => bytes.to_string(),
    }
}

/// Rows of columns, each as wide as its widest cell; the last is not padded. `right`: columns aligned to the right.
pub fn columns(rows: &[Vec<String>], right: &[usize]) -> Vec<String> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cell = |(column, cell): (usize, &String)| match (column + 1 == row.len(), right.contains(&column))
        {
            (true, _) => cell.clone(),
            (false, true) => format!("{cell:>width$}", width = widths[column]),
            (false, false) => format!("{cell:<width$}", width = widths[column]),
        };
        row.iter().enumerate().map(cell).collect::<Vec<_>>().join(" ")
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_as_the_stock_shell_writes_it() {
        let at = parse_time("20261130:205753").unwrap();
        let ms = at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
        assert_eq!(seconds(ms as u64), "2026-11-30 20:57:53");
        for bad in ["", "20261130", "20261130:2057", "2026113:0205753", "20261330:205753", "2026é130:205753"]
        {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn modes_times_and_sizes_look_like_stocks() {
        assert_eq!(
            (bits(0o1755), bits(0o1644), bits(0)),
            ("rwxr-xr-t".into(), "rw-r--r-T".into(), "---------".into())
        );
        assert_eq!(
            (minutes(0), seconds(u64::MAX)),
            ("1970-01-01 00:00".into(), "1970-01-01 00:00:00".into())
        );
        let sizes =
            [size(0, true), size(1024, true), size(1536, true), size(1536, false), size(3 << 40, true)];
        assert_eq!(sizes, ["0", "1 K", "1.5 K", "1536", "3 T"]);
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".into(), "1".into(), "x".into()], vec!["bb".into(), "22".into(), "yy".into()]];
        assert_eq!(columns(&rows, &[1]), ["a   1 x", "bb 22 yy"]);
    }
}
