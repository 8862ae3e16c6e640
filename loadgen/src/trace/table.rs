//! Dynamometer's table: `relativeTimestampMs, ugi, command, src, dest, sourceIP`, one line each (Java:
//! AuditLogHiveTableParser). Hive writes the character U+0001 between the fields; exports with commas are read, too.

use super::escape::unescape;
use super::line::{Entry, NULL, short_name, split_command};

/// Between fields, as Hive writes them.
const SEPARATOR: char = '\u{1}';

/// The fields of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row<'a> {
    /// What stands between fields.
    pub separator: char,
    /// In the order of the table.
    pub fields: [&'a str; 6],
}

impl<'a> Row<'a> {
    /// Cuts a line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn cut(line: &'a str) -> Result<Row<'a>, &'static str> {
        let (separator, fields) = match line.contains(SEPARATOR) {
            true => (SEPARATOR, fixed(line)),
            false => (',', by_commas(line)),
        };
        Ok(Row { separator, fields: fields? })
    }

    /// What the line says.
    ///
    /// # Errors
    /// What cannot be read.
    pub fn entry(&self) -> Result<Entry<'a>, &'static str> {
        let [at_ms, ugi, command, src, dst, _] = self.fields;
        let at_ms = at_ms.trim().parse().map_err(|_| "the first field is no number of milliseconds")?;
        let (user, (command, options)) = (short_name(ugi), split_command(command));
        if user.is_empty() || command.is_empty() {
            return Err("the user or the command is empty");
        }
        let path = |text: &'a str| Some(text).filter(|text| !is_null(text)).map(unescape);
        Ok(Entry {
            at_ms,
            allowed: true,
            user,
            command,
            options,
            src: path(src),
            dst: path(dst),
            rights: None,
        })
    }
}

fn is_null(text: &str) -> bool {
    matches!(text.trim(), "" | NULL | "\\N")
}

fn fixed(line: &str) -> Result<[&str; 6], &'static str> {
    let fields: Vec<&str> = line.split(SEPARATOR).collect();
    fields.try_into().map_err(|_| "not six fields")
}

/// Names may hold commas, and so may options: what is sure is cut off from both ends.
fn by_commas(line: &str) -> Result<[&str; 6], &'static str> {
    const FEW: &str = "not six fields";
    let (at, rest) = line.split_once(',').ok_or(FEW)?;
    let (ugi, rest) = rest.split_once(',').ok_or(FEW)?;
    let end = match rest.find([',', '(']) {
        Some(at) if rest[at..].starts_with('(') => at + rest[at..].find("),").ok_or(FEW)? + 1,
        Some(at) => at,
        None => return Err(FEW),
    };
    let (paths, address) = rest[end + 1..].rsplit_once(',').ok_or(FEW)?;
    let mut cuts = paths.match_indices(',').filter(|(at, _)| {
        let dst = &paths[at + 1..];
        dst.starts_with('/') || is_null(dst)
    });
    match (cuts.next(), cuts.next()) {
        (Some((cut, _)), None) => Ok([at, ugi, &rest[..end], &paths[..cut], &paths[cut + 1..], address]),
        (None, _) => Err(FEW),
        _ => Err("commas in names: where the second path begins cannot be told"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(line: &str) -> Result<Entry<'_>, &'static str> {
        Row::cut(line)?.entry()
    }

    #[test]
    fn rows_as_hive_writes_them() {
        let line = "+30\u{1}hdfs/127.0.0.1@REALM.COM\u{1}rename (options=[OVERWRITE])\u{1}/tmp/a,b\u{1}/tmp/\\u00FC\u{1}0.0.0.0";
        let rename = entry(line).expect("whole");
        assert_eq!(
            (rename.at_ms, rename.user, rename.command, rename.options),
            (30, "hdfs", "rename", "OVERWRITE")
        );
        assert_eq!((rename.src.as_deref(), rename.dst.as_deref()), (Some("/tmp/a,b"), Some("/tmp/ü")));
        assert!(
            entry("10\u{1}hdfs\u{1}create\u{1}/tmp/test1\u{1} \u{1}0.0.0.0")
                .is_ok_and(|create| create.dst.is_none())
        );
    }

    #[test]
    fn rows_with_commas() {
        let create = entry("10,ann,create,/a,,10.0.0.1").expect("whole");
        assert_eq!((create.user, create.command, create.src.as_deref()), ("ann", "create", Some("/a")));
        let concat = entry("10,ann,concat,[/a, /b,c],/t,10.0.0.1").expect("whole");
        assert_eq!((concat.src.as_deref(), concat.dst.as_deref()), (Some("[/a, /b,c]"), Some("/t")));
        let rename = entry("11,ann,rename (options=[OVERWRITE, TO_TRASH]),/a,/b,10.0.0.1").expect("whole");
        assert_eq!((rename.options, rename.dst.as_deref()), ("OVERWRITE, TO_TRASH", Some("/b")));
        assert!(
            entry("10,ann,open,/a,b,null,10.0.0.1").is_ok_and(|open| open.src.as_deref() == Some("/a,b"))
        );
        assert!(entry("10,ann,open,null,null,10.0.0.1").is_ok_and(|open| open.src.is_none()));
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        for (line, why) in [
            ("", "six"),
            ("10,ann", "six"),
            ("10,ann,create", "six"),
            ("10,ann,rename (options=[", "six"),
            ("10,ann,create,/a,x", "six"),
            ("x,ann,create,/a,,ip", "milliseconds"),
            ("-1,ann,create,/a,,ip", "milliseconds"),
            ("10,,create,/a,,ip", "empty"),
            ("10,ann,rename,/a,/b,/c,ip", "commas"),
            ("10\u{1}ann\u{1}create\u{1}/a", "six"),
        ] {
            assert!(entry(line).is_err_and(|error| error.contains(why)), "{line}");
        }
    }
}
