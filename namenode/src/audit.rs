//! The audit log: one line per operation, in HDFS's own format (Java: FSNamesystem.FSNamesystemAuditLogger).
//!
//! Lines gather in memory, and a thread writes them, all that gathered at once; when the disk is slower than the namenode,
//! lines are dropped and counted, and no call waits; so they are when the disk is full. Writes are logged after they are
//! durable.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use metrics::Counter;

use crate::engine::permission::{Rights, symbolic};
use crate::rpc::call::Caller;

/// Bytes of lines that may wait for the disk.
const GATHERED_BYTES: usize = 16 << 20;
/// Bytes of a buffer that is kept.
const KEPT_BYTES: usize = 256 << 10;
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

/// The audit log of a namenode. Dropped, it writes what has gathered.
pub struct AuditLog {
    lines: Arc<Lines>,
    writer: Option<JoinHandle<()>>,
}

impl AuditLog {
    /// A log that appends to a file; it is made when missing, and may be rotated by copying and truncating it. Lines that
    /// cannot be written are counted in `lost`.
    pub fn to_file(path: &Path, lost: Counter) -> io::Result<AuditLog> {
        AuditLog::to_writer(OpenOptions::new().create(true).append(true).open(path)?, lost)
    }

    /// A log over anything that can be written to.
    pub fn to_writer(out: impl io::Write + Send + 'static, lost: Counter) -> io::Result<AuditLog> {
        let lines = Arc::new(Lines::default());
        let source = lines.clone();
        let write = move || source.write_to(out, &lost);
        let writer = std::thread::Builder::new().name("audit".into()).spawn(write)?;
        Ok(AuditLog { lines, writer: Some(writer) })
    }

    /// Lines that were dropped because the disk was too slow.
    pub fn dropped(&self) -> u64 {
        self.lines.dropped.load(Ordering::Relaxed)
    }

    /// Logs one operation.
    pub fn log(&self, trail: &Trail, caller: &Caller, context: &[u8]) {
        let text = line(SystemTime::now(), trail, caller, &String::from_utf8_lossy(context));
        self.lines.put(text.as_bytes());
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.lines.gathered().closed = true;
        self.lines.news.notify_one();
        if let Some(writer) = self.writer.take() {
            // A panic in it was reported by the thread itself.
            let _ = writer.join();
        }
    }
}

/// Lines on their way to the disk.
#[derive(Default)]
struct Lines {
    gathered: Mutex<Gathered>,
    /// Rung for the first line that gathers, and at the end.
    news: Condvar,
    dropped: AtomicU64,
}

#[derive(Default)]
struct Gathered {
    text: Vec<u8>,
    closed: bool,
}

impl Lines {
    fn gathered(&self) -> MutexGuard<'_, Gathered> {
        self.gathered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, line: &[u8]) {
        let mut gathered = self.gathered();
        if gathered.text.len() + line.len() > GATHERED_BYTES {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let first = gathered.text.is_empty();
        gathered.text.extend_from_slice(line);
        drop(gathered);
        if first {
            self.news.notify_one();
        }
    }

    /// Writes what gathers, until the log is closed. It rests in between: woken for every line, it would cost a third as
    /// much as a read does.
    fn write_to(&self, mut out: impl io::Write, lost: &Counter) {
        let mut text = Vec::new();
        loop {
            let wait = self.news.wait_while(self.gathered(), |new| new.text.is_empty() && !new.closed);
            let mut gathered = wait.unwrap_or_else(PoisonError::into_inner);
            match text.is_empty() {
                true => std::mem::swap(&mut text, &mut gathered.text),
                false => text.append(&mut gathered.text),
            }
            let closed = gathered.closed;
            drop(gathered);
            let written = write_some(&mut out, &text);
            text.drain(..written);
            // The first line that was not written stays: it may have been begun, and is ended once there is room.
            let kept = if closed { 0 } else { end_of_line(&text) };
            lost.increment(text[kept..].iter().filter(|byte| **byte == b'\n').count() as u64);
            text.truncate(kept);
            text.shrink_to(KEPT_BYTES);
            if closed {
                return;
            }
            std::thread::sleep(REST);
        }
    }
}

/// Writes what can be written, and says how many bytes that were.
fn write_some(out: &mut impl io::Write, bytes: &[u8]) -> usize {
    let mut written = 0;
    while written < bytes.len() {
        match out.write(&bytes[written..]) {
            Ok(0) => break,
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    written
}

/// Where the first line ends.
fn end_of_line(text: &[u8]) -> usize {
    text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |at| at + 1)
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
    // Not `all`: a loop that looks at every byte looks at many at a time.
    if name.len() <= max_chars && name.bytes().fold(true, |all, b| all & plain(b)) {
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
    use super::*;
    use crate::user::User;

    fn caller() -> Caller {
        let user = User { name: "root".into(), groups: Vec::new(), superuser: true };
        Caller { user: Arc::new(user), ugi: "root (auth:SIMPLE)".into(), machine: "127.0.0.1".into() }
    }

    /// A disk with so much room, and what is on it.
    struct Disk(usize, Vec<u8>);

    impl io::Write for &mut Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let Disk(room, text) = self;
            let taken = bytes.len().min(*room);
            *room -= taken;
            text.extend_from_slice(&bytes[..taken]);
            if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_beyond_the_bound_are_dropped_and_those_that_cannot_be_written_are_lost() {
        let (lines, metrics) = (Lines::default(), crate::metrics::Metrics::new());
        lines.put(b"one\n");
        lines.put(&vec![b'x'; GATHERED_BYTES]);
        lines.put(b"two\nthree\n");
        assert_eq!(lines.dropped.load(Ordering::Relaxed), 1);
        lines.gathered().closed = true;
        let mut disk = Disk(6, Vec::new());
        lines.write_to(&mut disk, &metrics.audit_lost);
        assert_eq!(disk.1, b"one\ntw");
        let text = metrics.render();
        assert!(text.contains("trellis_audit_lines_lost_total 2\n"), "{text}");
    }

    #[test]
    fn the_rest_of_a_line_is_kept() {
        assert_eq!(end_of_line(b"o\ntwo\n"), 2);
        assert_eq!(end_of_line(b""), 0);
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
