//! Traces from files: line by line, in bounded memory, whatever is in them.

use std::collections::VecDeque;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

use flate2::bufread::MultiGzDecoder;

use super::line::{Columns, Entry};
use super::table::Row;
use super::twice::Source;
use crate::error::{Error, Result};

/// Longer lines are not read. The longest names that HDFS allows, escaped, make a line of a tenth of this.
pub const MAX_LINE_BYTES: usize = 1 << 20;
/// What goes on for so long without an end of a line is no trace.
const MAX_SKIPPED_BYTES: usize = 64 << 20;
/// Editors and exports may begin a file with it.
const BYTE_ORDER_MARK: char = '\u{feff}';
/// How a gzip file begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// As a file's name: standard input.
pub const STDIN: &str = "-";

/// The lines of some files, one after the other. Files that gzip made are unpacked.
pub struct Reader {
    files: VecDeque<Source>,
    open: Option<(PathBuf, Box<dyn BufRead + Send>)>,
    /// Lines given so far.
    number: u64,
    line: Vec<u8>,
    format: Option<Format>,
    /// Over all lines so far.
    digest: DefaultHasher,
}

/// A line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// Of an audit log.
    Audit(Columns<'a>),
    /// Of a table.
    Row(Row<'a>),
    /// Empty.
    Blank,
    /// It cannot be read.
    Broken {
        /// Why.
        why: &'static str,
        /// What it is, for a message.
        text: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Audit,
    Table,
}

impl Reader {
    /// Over these files, in this order. Nothing is opened yet.
    pub fn new(files: impl IntoIterator<Item = Source>) -> Reader {
        Reader {
            files: files.into_iter().collect(),
            open: None,
            number: 0,
            line: Vec::new(),
            format: None,
            digest: DefaultHasher::new(),
        }
    }

    /// The number of the line that was given last, over all files, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Of all lines that were given so far. Equal lines have equal ones, within one process.
    pub fn digest(&self) -> u64 {
        self.digest.finish()
    }

    /// The next line; None: there are no more.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(&mut self) -> Result<Option<Line<'_>>> {
        let fits = loop {
            let Some((path, file)) = &mut self.open else {
                let Some(source) = self.files.pop_front() else { return Ok(None) };
                let file = open(&source).map_err(Error::io(format!("opening {}", source.path.display())))?;
                (self.open, self.format) = (Some((source.path, file)), None);
                continue;
            };
            match read_line(file, &mut self.line).map_err(Error::io(format!("reading {}", path.display())))? {
                Some(fits) => break fits,
                None => self.open = None,
            }
        };
        self.number += 1;
        self.digest.write(&self.line);
        self.digest.write_u8(b'\n');
        if !fits {
            return Ok(Some(broken("longer than a line can be", &self.line)));
        }
        let Ok(text) = std::str::from_utf8(&self.line) else {
            return Ok(Some(broken("not UTF-8", &self.line)));
        };
        // Not only in the first line: files may have been joined.
        let text = text.trim_start_matches(BYTE_ORDER_MARK);
        if text.trim().is_empty() {
            return Ok(Some(Line::Blank));
        }
        let format = *self.format.get_or_insert_with(|| Format::of(text));
        let cut = match format {
            Format::Audit => Columns::cut(text).map(Line::Audit),
            Format::Table => Row::cut(text).map(Line::Row),
        };
        Ok(Some(cut.unwrap_or_else(|why| broken(why, text.as_bytes()))))
    }
}

impl<'a> Line<'a> {
    /// What it says; None: it is empty.
    ///
    /// # Errors
    /// Why it cannot be read, and what it is.
    pub fn entry(&self) -> Result<Option<Entry<'a>>, (&'static str, String)> {
        match self {
            Line::Audit(columns) => columns.entry().map(Some).map_err(|why| {
                let pair = |(name, value): &(&str, &str)| format!("{name}={value}");
                (why, shown(columns.columns.iter().map(pair).collect::<Vec<_>>().join(" ").as_bytes()))
            }),
            Line::Row(row) => {
                row.entry().map(Some).map_err(|why| (why, shown(row.fields.join(" ").as_bytes())))
            }
            Line::Blank => Ok(None),
            Line::Broken { why, text } => Err((why, text.clone())),
        }
    }
}

fn broken(why: &'static str, line: &[u8]) -> Line<'static> {
    Line::Broken { why, text: shown(line) }
}

/// So much of a line that a reader finds it.
pub(super) fn shown(line: &[u8]) -> String {
    const BYTES: usize = 160;
    let head = String::from_utf8_lossy(&line[..line.len().min(BYTES)]).escape_debug().to_string();
    if line.len() > BYTES { head + " …" } else { head }
}

impl Format {
    /// As the first line that is not empty says.
    fn of(line: &str) -> Format {
        match line.contains("allowed=") || line.contains("\tcmd=") {
            true => Format::Audit,
            false => Format::Table,
        }
    }
}

fn open(source: &Source) -> io::Result<Box<dyn BufRead + Send>> {
    let plain: Box<dyn Read + Send> = match source.path.as_os_str() == STDIN {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(&source.path)?.take(source.length)),
    };
    let mut plain = BufReader::with_capacity(1 << 16, plain);
    // A reader that gives a single byte at first is taken for plain text: files do not.
    match plain.fill_buf()?.starts_with(&GZIP) {
        true => Ok(Box::new(BufReader::new(MultiGzDecoder::new(plain)))),
        false => Ok(Box::new(plain)),
    }
}

/// Reads a line without its end (LF, or CR and LF); whether it fits, else it is its beginning. None: there is none. What has
/// no lines is an error.
fn read_line(file: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    let (mut any, mut fits, mut skipped) = (false, true, 0);
    loop {
        let bytes = match file.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            bytes => bytes?,
        };
        if bytes.is_empty() {
            break;
        }
        any = true;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let part = &bytes[..end.unwrap_or(bytes.len())];
        let room = MAX_LINE_BYTES - line.len();
        fits &= part.len() <= room;
        line.extend_from_slice(&part[..part.len().min(room)]);
        let taken = part.len() + usize::from(end.is_some());
        file.consume(taken);
        if end.is_some() {
            break;
        }
        skipped += taken;
        if skipped > MAX_SKIPPED_BYTES {
            let what = format!("this is no trace: no line ends within {} MiB", MAX_SKIPPED_BYTES >> 20);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(any.then_some(fits))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const LINE: &str = "2023-11-14 22:13:20,123 INFO x: allowed=true\tugi=ann\tip=/1\tcmd=open\tsrc=/a\tdst=null\tperm=null\tproto=rpc";

    /// What becomes of each line of a file.
    fn read(name: &str, bytes: &[u8]) -> Result<Vec<Result<Option<String>, &'static str>>> {
        let path = std::env::temp_dir().join(format!("trellis-reader-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).expect("written");
        let mut reader = Reader::new([Source::once(&path)]);
        let mut all = Vec::new();
        let ended = loop {
            match reader.read() {
                Ok(Some(line)) => all.push(match line.entry() {
                    Ok(entry) => Ok(entry.map(|entry| entry.src.unwrap_or_default().into_owned())),
                    Err((why, _)) => Err(why),
                }),
                Ok(None) => break Ok(all),
                Err(error) => break Err(error),
            }
        };
        std::fs::remove_file(&path).expect("it is there");
        ended
    }

    fn good() -> Result<Option<String>, &'static str> {
        Ok(Some("/a".into()))
    }

    #[test]
    fn ends_of_lines_are_of_either_kind_and_the_last_may_have_none() {
        let text = format!("{LINE}\r\n\n{LINE}\n{LINE}");
        assert_eq!(read("ends", text.as_bytes()).expect("a file"), [good(), Ok(None), good(), good()]);
        assert_eq!(read("nothing", b"").expect("a file"), []);
        assert_eq!(read("blank", b"\n").expect("a file"), [Ok(None)]);
    }

    #[test]
    fn what_is_broken_does_not_keep_the_rest_from_being_read() {
        let cut = &LINE[..LINE.len() - "null\tperm=null\tproto=rpc".len()];
        let text =
            [LINE.as_bytes(), b"\nrubbish\n\xff\xfe\n", LINE.as_bytes(), b"\n", cut.as_bytes()].concat();
        let lines = read("broken", &text).expect("a file");
        assert_eq!(
            lines,
            [good(), Err("no column allowed="), Err("not UTF-8"), good(), Err("no column perm=")]
        );
    }

    #[test]
    fn a_line_without_end_takes_no_memory() {
        let long = vec![b'x'; 3 * MAX_LINE_BYTES];
        let text = [LINE.as_bytes(), b"\n", &long, b"\n", LINE.as_bytes(), b"\n", &long].concat();
        let lines = read("long", &text).expect("a file");
        let long = || Err("longer than a line can be");
        assert_eq!(lines, [good(), long(), good(), long()]);
    }

    #[test]
    fn what_has_no_lines_is_no_trace() {
        let path = std::env::temp_dir().join(format!("trellis-reader-{}-zeros", std::process::id()));
        // It has holes, and takes no room.
        File::create(&path).and_then(|file| file.set_len(MAX_SKIPPED_BYTES as u64 * 2)).expect("made");
        let mut reader = Reader::new([Source::once(&path)]);
        let error = reader.read().expect_err("it has no lines").to_string();
        std::fs::remove_file(&path).expect("it is there");
        assert!(error.contains("zeros: this is no trace"), "{error}");
        assert!(reader.line.capacity() <= 2 * MAX_LINE_BYTES);
    }

    #[test]
    fn byte_order_marks_are_skipped() {
        let audit = format!("\u{feff}{LINE}\n{LINE}\n\u{feff}{LINE}\n");
        assert_eq!(read("marked", audit.as_bytes()).expect("a file"), [good(), good(), good()]);
        let table = "\u{feff}10,ann,open,/a,,ip\n\u{feff}\n";
        assert_eq!(read("marked-table", table.as_bytes()).expect("a file"), [good(), Ok(None)]);
    }

    #[test]
    fn what_was_appended_is_not_read_and_other_lines_have_another_digest() {
        let path = std::env::temp_dir().join(format!("trellis-reader-{}-grown", std::process::id()));
        let digest = |source: &Source| {
            let mut reader = Reader::new([source.clone()]);
            while reader.read().expect("a file").is_some() {}
            (reader.number(), reader.digest())
        };
        std::fs::write(&path, format!("{LINE}\n{}", &LINE[..50])).expect("written");
        let source = Source::again(&path).expect("a file");
        let first = digest(&source);
        std::fs::write(&path, format!("{LINE}\n{LINE}\n{LINE}\n")).expect("written");
        assert_eq!((first.0, digest(&source)), (2, first));
        std::fs::write(&path, format!("{LINE}\n{}", &LINE[1..51])).expect("written");
        let other = digest(&source);
        std::fs::remove_file(&path).expect("it is there");
        assert!(other.0 == first.0 && other.1 != first.1);
    }

    #[test]
    fn tables_and_packed_files_are_known_by_what_is_in_them() {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(b"10,ann,open,/a,,ip\nx\n").expect("to memory");
        let packed = packed.finish().expect("to memory");
        let twice = [&packed[..], &packed[..]].concat();
        let wanted = [good(), Err("not six fields")];
        assert_eq!(read("table", &packed).expect("a file"), wanted);
        assert_eq!(read("members", &twice).expect("a file"), [wanted.clone(), wanted].concat());
        let error = read("cut", &packed[..packed.len() - 9]).expect_err("it was cut").to_string();
        assert!(error.contains("reading ") && error.contains("cut"), "{error}");
    }

    #[test]
    fn files_follow_one_another() {
        let dir = std::env::temp_dir();
        let paths = ["1", "2"].map(|name| dir.join(format!("trellis-files-{}-{name}", std::process::id())));
        std::fs::write(&paths[0], format!("{LINE}\n")).expect("written");
        std::fs::write(&paths[1], "10,ann,open,/b,,ip").expect("written");
        let sources = || paths.iter().map(|path| Source::once(path));
        let mut reader = Reader::new(sources());
        let first = reader.read().expect("a file").expect("a line").entry().expect("whole").is_some();
        let second = reader.read().expect("a file").expect("a line").entry().expect("whole").is_some();
        assert!(first && second && reader.read().expect("the end").is_none() && reader.number() == 2);
        paths.iter().for_each(|path| std::fs::remove_file(path).expect("it is there"));
        assert!(Reader::new(sources()).read().is_err_and(|error| error.to_string().starts_with("opening ")));
    }
}
