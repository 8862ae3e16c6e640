//! The lines of a trace as what is to be done, or why not. Read twice: once to see what must be there, once to replay.

use super::commands::{Command, Row, Says, find};
use super::line::{Entry, split_list};
use super::place::{Place, plain};
use super::reader::{Reader, shown};
use super::twice::Source;
use crate::error::Result;

/// Why a line outside of the time asked for is skipped.
pub const OUTSIDE: &str = "outside of --from and --until";
/// Why an empty line is skipped.
pub const BLANK: &str = "empty";
const NO_SECOND_PATH: &str = "it has no second path";
const NO_LIST: &str = "concat without a list of sources in brackets";

/// Which lines are replayed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Filter {
    /// So many lines are read; the rest is as if it were not there.
    pub limit: u64,
    /// From so many ms after the first line.
    pub from_ms: u64,
    /// Until so many ms after it.
    pub until_ms: u64,
}

/// What a line asks for. Paths are the trace's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The line's number.
    pub line: u64,
    /// When, ms since the first line that is replayed; never less than the line before.
    pub at_ms: u64,
    /// By whom.
    pub user: String,
    /// What.
    pub command: Command,
    /// The namenode allowed it.
    pub allowed: bool,
    /// The path that it is done to; of a concat the target.
    pub path: String,
    /// The new path of a rename.
    pub to: Option<String>,
    /// The sources of a concat.
    pub sources: Vec<String>,
    /// A rename replaces what is there.
    pub overwrite: bool,
    /// Owner, group and mode that came of it.
    pub rights: Option<Rights>,
    /// ms since 1970, or since a table begins.
    pub clock_ms: u64,
}

/// Owner, group and mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    /// User name.
    pub owner: String,
    /// Group name.
    pub group: String,
    /// Nine permission bits and the sticky bit.
    pub mode: u16,
}

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is replayed.
    Step(Step),
    /// It is not, and why.
    Skipped(&'static str),
    /// It cannot be read: why, and what it is.
    Broken(&'static str, String),
}

/// All lines of some files.
pub struct Steps {
    reader: Reader,
    place: Place,
    filter: Filter,
    /// Of the first line that can be read.
    first_ms: Option<u64>,
    /// Of the line before, since the first one that is replayed.
    latest_ms: u64,
}

impl Steps {
    /// Of these files, in this order; they are to take place there.
    pub fn new(files: &[Source], place: Place, filter: Filter) -> Steps {
        Steps { reader: Reader::new(files.iter().cloned()), place, filter, first_ms: None, latest_ms: 0 }
    }

    /// The digest of the lines so far.
    pub fn digest(&self) -> u64 {
        self.reader.digest()
    }

    /// What becomes of the next line; None: there are no more.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(&mut self) -> Result<Option<Verdict>> {
        let number = self.reader.number() + 1;
        if number > self.filter.limit {
            return Ok(None);
        }
        let Some(line) = self.reader.read()? else { return Ok(None) };
        let entry = match line.entry() {
            Err((why, text)) => return Ok(Some(Verdict::Broken(why, format!("line {number}: {text}")))),
            Ok(None) => return Ok(Some(Verdict::Skipped(BLANK))),
            Ok(Some(entry)) => entry,
        };
        let since_first = entry.at_ms.saturating_sub(*self.first_ms.get_or_insert(entry.at_ms));
        if !(self.filter.from_ms..self.filter.until_ms).contains(&since_first) {
            return Ok(Some(Verdict::Skipped(OUTSIDE)));
        }
        let step = find(entry.command, entry.options).and_then(|row| step(&entry, row, &self.place));
        Ok(Some(match step {
            Err(why) if why == NO_LIST => {
                let src = shown(entry.src.unwrap_or_default().as_bytes());
                Verdict::Broken(why, format!("line {number}: src={src}"))
            }
            Err(why) => Verdict::Skipped(why),
            Ok(mut step) => {
                self.latest_ms = self.latest_ms.max(since_first - self.filter.from_ms);
                (step.line, step.at_ms) = (number, self.latest_ms);
                Verdict::Step(step)
            }
        }))
    }
}

fn step(entry: &Entry<'_>, row: &Row, place: &Place) -> Result<Step, &'static str> {
    let own = |path: &str| -> Result<String, &'static str> {
        let path = plain(path)?;
        if place.fits(&path) { Ok(path.into_owned()) } else { Err("the path is too long below the base") }
    };
    let src = entry.src.as_deref();
    let dst = || own(entry.dst.as_deref().ok_or(NO_SECOND_PATH)?);
    let (path, to, sources) = match row.command {
        Command::Concat => {
            let sources = split_list(src.unwrap_or_default()).ok_or(NO_LIST)?;
            (dst()?, None, sources.map(own).collect::<Result<_, _>>()?)
        }
        Command::Rename | Command::RenameOptions => (own(src.unwrap_or_default())?, Some(dst()?), Vec::new()),
        _ => (own(src.unwrap_or_default())?, None, Vec::new()),
    };
    if path == "/" && matches!(row.says, Says::Moves | Says::Removes) {
        return Err("it would move or delete the root");
    }
    let rights = entry.rights.map(|rights| Rights {
        owner: rights.owner.to_owned(),
        group: rights.group.to_owned(),
        mode: rights.mode,
    });
    Ok(Step {
        line: 0,
        at_ms: 0,
        user: entry.user.to_owned(),
        command: row.command,
        allowed: entry.allowed,
        path,
        to,
        sources,
        overwrite: entry.options.contains("OVERWRITE"),
        rights,
        clock_ms: entry.at_ms,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// All lines.
    pub const ALL: Filter = Filter { limit: u64::MAX, from_ms: 0, until_ms: u64::MAX };

    /// What becomes of each line of a text.
    pub fn verdicts(text: &str, filter: Filter) -> Vec<Verdict> {
        let name = format!("trellis-steps-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).expect("written");
        let mut steps = Steps::new(&[Source::once(&path)], Place::below("/replay"), filter);
        let all = std::iter::from_fn(|| steps.read().expect("a file")).collect();
        std::fs::remove_file(&path).expect("it is there");
        all
    }

    /// A line that was allowed, `second` seconds after the first.
    pub fn line(second: u64, command: &str, src: &str, dst: &str) -> String {
        format!(
            "2024-01-01 00:00:{second:02},000 INFO x: allowed=true\tugi=ann\tip=/1\tcmd={command}\tsrc={src}\tdst={dst}\tperm=null\tproto=rpc\n"
        )
    }

    fn step(verdict: &Verdict) -> &Step {
        match verdict {
            Verdict::Step(step) => step,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lines_become_steps() {
        let text = [
            line(0, "open", "/a//b", "null"),
            line(2, "rename (options=[OVERWRITE])", "/a", "/b"),
            line(1, "rename", "/a", "/b"),
            line(3, "concat", "[/a, /b\\u002C]", "/t"),
        ];
        let verdicts = verdicts(&text.concat(), ALL);
        let steps: Vec<&Step> = verdicts.iter().map(step).collect();
        assert_eq!(steps.iter().map(|step| step.at_ms).collect::<Vec<_>>(), [0, 2000, 2000, 3000]);
        assert_eq!(steps.iter().map(|step| step.line).collect::<Vec<_>>(), [1, 2, 3, 4]);
        assert_eq!(steps[0].path, "/a/b");
        assert_eq!((steps[1].command, steps[1].overwrite), (Command::RenameOptions, true));
        assert_eq!((steps[2].command, steps[2].overwrite), (Command::Rename, false));
        assert_eq!(
            (steps[3].path.as_str(), &steps[3].sources[..]),
            ("/t", &["/a".to_owned(), "/b,".to_owned()][..])
        );
    }

    #[test]
    fn what_is_not_replayed_has_a_reason() {
        let why = |text: &str| match &verdicts(text, ALL)[..] {
            [Verdict::Skipped(why)] | [Verdict::Broken(why, _)] => (*why).to_owned(),
            other => panic!("{other:?}"),
        };
        assert_eq!(why(&line(0, "setAcl", "/a", "null")), "the log does not say what was set");
        assert_eq!(why(&line(0, "fly", "/a", "null")), "the command is not known");
        assert_eq!(why(&line(0, "open", "null", "null")), "it names no absolute path");
        assert_eq!(why(&line(0, "open", "/.reserved/.inodes/7", "null")), "the path begins with /.reserved");
        assert_eq!(why(&line(0, "rename", "/a", "null")), NO_SECOND_PATH);
        assert_eq!(why(&line(0, "delete", "//", "null")), "it would move or delete the root");
        assert_eq!(why(&line(0, "concat", "[/a, /b", "/t")), NO_LIST);
        assert_eq!(why("\n"), BLANK);
    }

    #[test]
    fn filters_count_from_the_first_line() {
        let text: String = (0..10).map(|second| line(second, "open", "/a", "null")).collect();
        let filter = Filter { limit: 8, from_ms: 2000, until_ms: 5000 };
        let kept = verdicts(&text, filter);
        assert_eq!(kept.len(), 8);
        let times: Vec<u64> = kept
            .iter()
            .filter_map(|verdict| match verdict {
                Verdict::Step(step) => Some(step.at_ms),
                _ => None,
            })
            .collect();
        assert_eq!(times, [0, 1000, 2000]);
    }
}
