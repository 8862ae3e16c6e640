//! The audit log: one line per operation, in HDFS's own format (Java: FSNamesystem.FSNamesystemAuditLogger).
//!
//! Lines leave through a bounded queue to a thread that writes them, all that gathered at once; when the disk is slower
//! than the namenode, lines are dropped and counted, and no call waits; so they are when the disk is full. Writes are
//! logged after they are durable.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use metrics::Counter;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};

use crate::engine::permission::{Rights, symbolic};
use crate::rpc::call::Caller;

/// Lines that may wait for the disk.
const QUEUED_LINES: usize = 1 << 16;
/// Bytes that are written to the file at a time when lines come faster than they are written.
const WRITE_BYTES: usize = 64 << 10;
/// How long lines gather.
const REST: Duration = Duration::from_millis(20);
/// Characters of a path or a caller context that are logged (stock: no path is longer).
const MAX_CHARS: usize = 8000;
/// Characters of a caller context that are logged (`hadoop.caller.context.max.size`).
const MAX_CONTEXT_CHARS: usize = 128;

/// What the audit log says of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Said {
    /// `allowed=true`.
    #[default]
    Allowed,
    /// `allowed=true` and `src=null`: what was asked was of no single path, in stock's eyes.
    AllowedWithoutPath,
    /// `allowed=true`, with the rights of the inode that came out of it.
    Made(Rights),
    /// `allowed=false`.
    Denied,
    /// No line.
    Silent,
}

/// What a line says besides who called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trail {
    /// What came of it.
    pub said: Said,
    /// The command, by stock's name.
    pub command: Cow<'static, str>,
    /// The path as the client sent it.
    pub src: String,
    /// The second path.
    pub dst: Option<String>,
}

/// The audit log of a namenode.
pub struct AuditLog {
    writer: NonBlocking,
    dropped: ErrorCounter,
    _flushed_when_dropped: WorkerGuard,
}

impl AuditLog {
    /// A log that appends to a file; it is made when missing, and may be rotated by copying and truncating it. Lines that
    /// cannot be written are counted in `lost`.
    pub fn to_file(path: &Path, lost: Counter) -> io::Result<AuditLog> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let file = io::BufWriter::with_capacity(WRITE_BYTES, file);
        Ok(AuditLog::to_writer(Paced { file, lost }))
    }

    /// A log over anything that can be written to.
    pub fn to_writer(writer: impl io::Write + Send + 'static) -> AuditLog {
        let (writer, guard) = NonBlockingBuilder::default()
            .buffered_lines_limit(QUEUED_LINES)
            .lossy(true)
            .thread_name("audit")
            .finish(writer);
        AuditLog { dropped: writer.error_counter(), writer, _flushed_when_dropped: guard }
    }

    /// Lines that were dropped because the disk was too slow.
    pub fn dropped(&self) -> u64 {
        self.dropped.dropped_lines() as u64
    }

    /// Logs one operation.
    pub fn log(&self, trail: &Trail, caller: &Caller, context: &[u8]) {
        let text = line(SystemTime::now(), trail, caller, &String::from_utf8_lossy(context));
        // A full queue drops the line and counts it.
        let _ = self.writer.clone().write_all(text.as_bytes());
    }
}

/// A file that rests after each flush. The log's thread flushes whenever its queue is empty, and would otherwise be
/// woken for every line: a third as much work as a read is.
struct Paced<W: io::Write> {
    file: io::BufWriter<W>,
    /// Lines that got no room in the buffer, because what is in it cannot be written.
    lost: Counter,
}

impl<W: io::Write> io::Write for Paced<W> {
    /// Takes a whole line: the log's thread writes one at a time, and goes on after an error without a word.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.file.write_all(line).inspect_err(|_| self.lost.increment(1))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        // What could not be written stays in the buffer, and is lost to nobody yet.
        let flushed = self.file.flush();
        std::thread::sleep(REST);
        flushed
    }
}

/// One whole line.
fn line(at: SystemTime, trail: &Trail, caller: &Caller, context: &str) -> String {
    let mut text = String::with_capacity(256);
    // 2023-11-14T22:13:20.123Z. Writing to a String does not fail.
    let _ = write!(text, "{}", humantime::format_rfc3339_millis(at));
    text.pop();
    text.replace_range(10..11, " ");
    text.replace_range(19..20, ",");
    let allowed = if trail.said == Said::Denied { "false" } else { "true" };
    let who =
        [" INFO FSNamesystem.audit: allowed=", allowed, "\tugi=", &caller.ugi, "\tip=/", &caller.machine];
    who.into_iter().chain(["\tcmd=", &trail.command, "\tsrc="]).for_each(|part| text.push_str(part));
    match &trail.said {
        Said::AllowedWithoutPath => text.push_str("null"),
        _ => escape(&mut text, &trail.src, MAX_CHARS),
    }
    text.push_str("\tdst=");
    match &trail.dst {
        Some(dst) => escape(&mut text, dst, MAX_CHARS),
        None => text.push_str("null"),
    }
    text.push_str("\tperm=");
    match &trail.said {
        Said::Made(Rights { owner, group, mode }) => {
            let _ = write!(text, "{owner}:{group}:{}", symbolic(*mode));
        }
        _ => text.push_str("null"),
    }
    text.push_str("\tproto=rpc");
    if !context.is_empty() {
        text.push_str("\tcallerContext=");
        escape(&mut text, context, MAX_CONTEXT_CHARS);
    }
    text.push('\n');
    text
}

/// Java's escapes (`StringEscapeUtils.escapeJava`): a name cannot break a line or fake a column.
fn escape(text: &mut String, name: &str, max_chars: usize) {
    let plain = |b: u8| (b' '..=0x7f).contains(&b) && b != b'"' && b != b'\\';
    if name.len() <= max_chars && name.bytes().all(plain) {
        return text.push_str(name);
    }
    for c in name.chars().take(max_chars) {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            '\u{c}' => text.push_str("\\f"),
            '\r' => text.push_str("\\r"),
            ' '..='\u{7f}' => text.push(c),
            _ => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(text, "\\u{unit:04X}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::user::User;

    fn caller() -> Caller {
        let user = User { name: "root".into(), groups: Vec::new(), superuser: true };
        Caller { user: Arc::new(user), ugi: "root (auth:SIMPLE)".into(), machine: "127.0.0.1".into() }
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted() {
        let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
        let metrics = crate::metrics::Metrics::new();
        let mut log =
            Paced { file: io::BufWriter::with_capacity(16, full), lost: metrics.audit_lost.clone() };
        // The first fits into the buffer, and stays there.
        for (line, lost) in [("0123456789\n", 0), ("0123456789\n", 1), ("longer than the buffer\n", 2)] {
            assert_eq!(log.write(line.as_bytes()).is_err(), lost > 0);
            assert!(log.flush().is_err());
            let text = metrics.render();
            assert!(text.contains(&format!("trellis_audit_lines_lost_total {lost}\n")), "{text}");
        }
    }

    #[test]
    fn lines_as_stock_writes_them() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        let said = Said::Made(Rights { owner: "root".into(), group: "supergroup".into(), mode: 0o755 });
        let trail = Trail { said, command: "mkdirs".into(), src: "/a".into(), dst: None };
        assert_eq!(
            line(at, &trail, &caller(), "CLI"),
            "2023-11-14 22:13:20,123 INFO FSNamesystem.audit: allowed=true\tugi=root (auth:SIMPLE)\tip=/127.0.0.1\t\
             cmd=mkdirs\tsrc=/a\tdst=null\tperm=root:supergroup:rwxr-xr-x\tproto=rpc\tcallerContext=CLI\n"
        );
        let trail = Trail {
            said: Said::Denied,
            command: "rename (options=[OVERWRITE])".into(),
            src: "/t\tab\nü\"".into(),
            dst: Some("/𝄞\\".into()),
        };
        assert_eq!(
            line(at, &trail, &caller(), ""),
            "2023-11-14 22:13:20,123 INFO FSNamesystem.audit: allowed=false\tugi=root (auth:SIMPLE)\tip=/127.0.0.1\t\
             cmd=rename (options=[OVERWRITE])\tsrc=/t\\tab\\n\\u00FC\\\"\tdst=/\\uD834\\uDD1E\\\\\tperm=null\tproto=rpc\n"
        );
    }
}
