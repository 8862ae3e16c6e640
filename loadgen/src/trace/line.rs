//! A line of an HDFS audit log (Java: FSNamesystem.FSNamesystemAuditLogger), as columns and as an [`Entry`].
//!
//! ```text
//! 2023-11-14 22:13:20,123 INFO FSNamesystem.audit: allowed=true⇥ugi=ann (auth:SIMPLE)⇥ip=/10.0.0.7⇥cmd=rename
//!     (options=[OVERWRITE])⇥src=/a⇥dst=/b⇥perm=ann:users:rw-r--r--⇥proto=rpc⇥callerContext=CLI
//! ```

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use super::escape::{escape, unescape};

/// What a column says that has nothing to say.
pub const NULL: &str = "null";
/// Where the columns begin.
const FIRST: &str = "allowed=";
/// Between the time and the columns.
const LOGGER: &str = " INFO FSNamesystem.audit: ";
/// Characters of a time without its fraction.
const SECONDS_LENGTH: usize = "2023-11-14 22:13:20".len();

/// What a line of a trace says, in whichever format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Milliseconds: since 1970 in an audit log, since the trace began in a table. Lines may be out of order.
    pub at_ms: u64,
    /// The namenode allowed it. A table does not say, so there all were.
    pub allowed: bool,
    /// Who did it: the short name of the effective user.
    pub user: &'a str,
    /// What was done, by stock's name.
    pub command: &'a str,
    /// In parentheses after the command: `OVERWRITE`, `NONE`, `OVERWRITE, TO_TRASH`.
    pub options: &'a str,
    /// The path, or in brackets several, escapes resolved; None: `null`.
    pub src: Option<Cow<'a, str>>,
    /// The second path; None: `null`.
    pub dst: Option<Cow<'a, str>>,
    /// What the path was like afterwards, if the line says so.
    pub rights: Option<Rights<'a>>,
}

/// Owner, group and mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rights<'a> {
    /// User name.
    pub owner: &'a str,
    /// Group name.
    pub group: &'a str,
    /// Nine permission bits and the sticky bit, 01777.
    pub mode: u16,
}

/// A line cut at its tabs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns<'a> {
    /// Of the line, ms since 1970; the log's time zone is taken for UTC.
    pub at_ms: u64,
    /// Names and values, in their order.
    pub columns: Vec<(&'a str, &'a str)>,
}

impl<'a> Columns<'a> {
    /// Cuts a line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn cut(line: &'a str) -> Result<Columns<'a>, &'static str> {
        let begin = line.find(FIRST).ok_or("no column allowed=")?;
        let at_ms = parse_time(&line[..begin]).ok_or("no time at the beginning")?;
        let column = |text: &'a str| text.split_once('=').ok_or("a column without a name");
        let columns = line[begin..].split('\t').map(column).collect::<Result<_, _>>()?;
        Ok(Columns { at_ms, columns })
    }

    /// A column's value.
    pub fn value(&self, name: &str) -> Option<&'a str> {
        self.columns.iter().find(|(column, _)| *column == name).map(|(_, value)| *value)
    }

    /// What the line says.
    ///
    /// # Errors
    /// What is missing or cannot be read.
    pub fn entry(&self) -> Result<Entry<'a>, &'static str> {
        let allowed = match self.value("allowed") {
            Some("true") => true,
            Some("false") => false,
            _ => return Err("allowed= is neither true nor false"),
        };
        let user = short_name(self.value("ugi").ok_or("no column ugi=")?);
        let (command, options) = split_command(self.value("cmd").ok_or("no column cmd=")?);
        let path = |text| Some(text).filter(|text| *text != NULL).map(unescape);
        let src = path(self.value("src").ok_or("no column src=")?);
        let dst = path(self.value("dst").ok_or("no column dst=")?);
        let rights = match self.value("perm").ok_or("no column perm=")? {
            NULL => None,
            text => Some(Rights::parse(text).ok_or("perm= is not OWNER:GROUP:MODE")?),
        };
        if user.is_empty() || command.is_empty() {
            return Err("ugi= or cmd= is empty");
        }
        Ok(Entry { at_ms: self.at_ms, allowed, user, command, options, src, dst, rights })
    }
}

/// The short name in `ann/host@REALM (auth:KERBEROS) via hue (auth:SIMPLE)`: ann, for whom it was done.
pub fn short_name(ugi: &str) -> &str {
    ugi.split(['/', '@', ' ']).next().unwrap_or_default()
}

/// `rename (options=[OVERWRITE])` as `rename` and `OVERWRITE`.
pub fn split_command(text: &str) -> (&str, &str) {
    let Some((command, rest)) = text.split_once(' ') else { return (text, "") };
    let inner = rest.strip_prefix("(options=[").and_then(|rest| rest.strip_suffix("])"));
    (command, inner.unwrap_or(rest))
}

/// The paths in `[/a, /b]`, as stock writes them, or in `[/a,/b]`; None: there are no brackets.
pub fn split_list(text: &str) -> Option<impl Iterator<Item = &str>> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    // A name may hold a comma, but a path begins with a slash. A list that has blanks has one after each path.
    let gap = if inner.contains(", /") { ", /" } else { ",/" };
    let mut rest = Some(inner).filter(|inner| !inner.is_empty());
    Some(std::iter::from_fn(move || {
        let text = rest.take()?;
        let Some(end) = text.find(gap) else { return Some(text) };
        rest = Some(&text[end + gap.len() - 1..]);
        Some(&text[..end])
    }))
}

/// The time at the beginning of a line: `2023-11-14 22:13:20,123`, also with `T`, with a point or without a fraction.
fn parse_time(head: &str) -> Option<u64> {
    let (seconds, fraction) = head.split_at_checked(SECONDS_LENGTH)?;
    let since_1970 =
        humantime::parse_rfc3339_weak(seconds).ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let digits = fraction.strip_prefix([',', '.']).and_then(|fraction| fraction.get(..3));
    let ms = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let ms: u64 = ms.map_or(Some(0), |digits| digits.parse().ok())?;
    u64::try_from(since_1970.as_millis()).ok()?.checked_add(ms)
}

impl<'a> Rights<'a> {
    /// From `owner:group:rwxr-xr-x`.
    fn parse(text: &'a str) -> Option<Rights<'a>> {
        let (names, mode) = text.rsplit_once(':')?;
        let (owner, group) = names.split_once(':')?;
        Some(Rights { owner, group, mode: parse_mode(mode)? })
    }
}

/// `rwxr-xr-x`, with `t` or `T` for the sticky bit; `+` for an ACL is passed over.
fn parse_mode(text: &str) -> Option<u16> {
    let letters = text.strip_suffix('+').unwrap_or(text).as_bytes();
    if letters.len() != 9 {
        return None;
    }
    letters.iter().enumerate().try_fold(0, |mode, (place, letter)| {
        let bit = 0o400 >> place;
        match letter {
            b'-' => Some(mode),
            b'r' | b'w' | b'x' if *letter == b"rwx"[place % 3] => Some(mode | bit),
            b't' if place == 8 => Some(mode | 0o1001),
            b'T' if place == 8 => Some(mode | 0o1000),
            _ => None,
        }
    })
}

fn write_mode(line: &mut String, mode: u16) {
    for place in 0..9 {
        let is_set = mode & (0o400 >> place) != 0;
        line.push(match (place, mode & 0o1000 != 0) {
            (8, true) => {
                if is_set {
                    't'
                } else {
                    'T'
                }
            }
            _ if is_set => ['r', 'w', 'x'][place % 3],
            _ => '-',
        });
    }
}

/// Appends a time and what stands between it and the columns.
pub fn write_head(line: &mut String, at_ms: u64) {
    let at =
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(at_ms)).unwrap_or(SystemTime::UNIX_EPOCH);
    let begin = line.len();
    // 2023-11-14T22:13:20.123Z. Writing to a String does not fail.
    let _ = write!(line, "{}", humantime::format_rfc3339_millis(at));
    line.pop();
    line.replace_range(begin + 10..=begin + 10, " ");
    line.replace_range(begin + SECONDS_LENGTH..=begin + SECONDS_LENGTH, ",");
    line.push_str(LOGGER);
}

/// Appends a line in which the stock NameNode would say the same, its end included.
pub fn write_entry(line: &mut String, entry: &Entry<'_>, address: &str) {
    write_head(line, entry.at_ms);
    let _ = write!(
        line,
        "allowed={}\tugi={} (auth:SIMPLE)\tip=/{address}\tcmd={}",
        entry.allowed, entry.user, entry.command
    );
    if !entry.options.is_empty() {
        let _ = write!(line, " (options=[{}])", entry.options);
    }
    for (column, path) in [("\tsrc=", &entry.src), ("\tdst=", &entry.dst)] {
        line.push_str(column);
        match path {
            Some(path) => escape(line, path),
            None => line.push_str(NULL),
        }
    }
    line.push_str("\tperm=");
    match &entry.rights {
        Some(Rights { owner, group, mode }) => {
            let _ = write!(line, "{owner}:{group}:");
            write_mode(line, *mode);
        }
        None => line.push_str(NULL),
    }
    line.push_str("\tproto=rpc\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "2023-11-14 22:13:20,123 INFO FSNamesystem.audit: allowed=true\tugi=ann (auth:SIMPLE)\tip=/10.0.0.7\t\
                        cmd=rename (options=[OVERWRITE])\tsrc=/a b\\t\\u00FC\tdst=/b\\n=c\tperm=ann:users:rwxr-x--T\tproto=rpc\tcallerContext=CLI";

    fn entry(line: &str) -> Result<Entry<'_>, &'static str> {
        Columns::cut(line)?.entry()
    }

    #[test]
    fn a_line_says_what_stock_means() {
        let entry = entry(LINE).expect("whole");
        assert_eq!(entry.at_ms, 1_700_000_000_123);
        assert!(entry.allowed);
        assert_eq!((entry.user, entry.command, entry.options), ("ann", "rename", "OVERWRITE"));
        assert_eq!((entry.src.as_deref(), entry.dst.as_deref()), (Some("/a b\t\u{fc}"), Some("/b\n=c")));
        assert_eq!(entry.rights, Some(Rights { owner: "ann", group: "users", mode: 0o1750 }));
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut text = String::new();
        let written = Entry {
            user: "bob",
            src: Some(Cow::Borrowed("/\t\"x\"")),
            dst: None,
            ..entry(LINE).expect("whole")
        };
        write_entry(&mut text, &written, "10.0.0.7");
        assert_eq!(entry(text.trim_end_matches('\n')).expect("ours"), written);
        write_entry(&mut text, &Entry { rights: None, options: "", ..written }, "::1");
        assert_eq!(text.lines().count(), 2);
        assert!(
            text.lines()
                .all(|line| line
                    .starts_with("2023-11-14 22:13:20,123 INFO FSNamesystem.audit: allowed=true\t"))
        );
    }

    #[test]
    fn users_are_those_for_whom_it_was_done() {
        for (ugi, name) in [
            ("ann", "ann"),
            ("ann (auth:PROXY) via hue/host@REALM (auth:KERBEROS)", "ann"),
            ("hdfs/nn.example.com@EXAMPLE.COM (auth:KERBEROS)", "hdfs"),
            ("ann@REALM", "ann"),
        ] {
            assert_eq!(short_name(ugi), name);
        }
    }

    #[test]
    fn lists_are_split_at_paths() {
        let list = |text: &'static str| split_list(text).map(|paths| paths.collect::<Vec<_>>());
        assert_eq!(list("[/a, /b,c, /d]"), Some(vec!["/a", "/b,c", "/d"]));
        assert_eq!(list("[]"), Some(vec![]));
        // Case G3.
        assert_eq!(list("[/a,/b]"), Some(vec!["/a", "/b"]));
        assert_eq!(list("[/a,/b, /c]"), Some(vec!["/a,/b", "/c"]));
        assert_eq!(list("[/a,b]"), Some(vec!["/a,b"]));
        assert_eq!((list("/a"), list("[/a, /b")), (None, None));
    }

    #[test]
    fn times_are_read_as_log4j_writes_them() {
        let ms = |head: &str| parse_time(head);
        assert_eq!(ms("1970-01-01 00:00:01,010 INFO x: "), Some(1010));
        assert_eq!(ms("1970-01-01T00:00:01.010+0000 "), Some(1010));
        assert_eq!(ms("1970-01-01 00:00:01 "), Some(1000));
        for wrong in [
            "",
            "1970-01-01 00:00:0",
            "1969-12-31 00:00:00,000",
            "1970-13-01 00:00:01,010",
            "70/01/01 00:00:01,010 X",
        ] {
            assert_eq!(ms(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_line_that_was_cut_is_noticed_wherever_it_was() {
        let whole = entry(LINE).expect("whole");
        let after_mode = LINE.find("\tproto=").expect("there");
        for end in 0..LINE.len() {
            match entry(&LINE[..end]) {
                // What comes after the last column that is read does not matter.
                Ok(cut) => assert!(end >= after_mode && cut == whole, "{end}"),
                Err(why) => assert!(end < after_mode || why == "a column without a name", "{end}: {why}"),
            }
        }
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        for (from, to, why) in [
            ("allowed=true", "allowed=maybe", "neither"),
            ("ugi=ann (auth:SIMPLE)", "ugi=", "is empty"),
            ("\tsrc=", "\tsource=", "src="),
            ("rwxr-x--T", "rwxr-x--", "perm="),
            ("rwxr-x--T", "wrxr-x--T", "perm="),
            ("\tdst=", "\traw tab\tdst=", "without a name"),
        ] {
            let line = LINE.replace(from, to);
            let error = entry(&line).expect_err(to);
            assert!(error.contains(why), "{to}: {error}");
        }
    }
}
