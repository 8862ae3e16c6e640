//! A trace without its names: each name becomes a keyed hash of itself, so that what was the same stays the same, and
//! nobody who has not the key can try names out.
//!
//! Names of paths, users and groups share one hash: a home directory still bears its user's name. Addresses become
//! addresses of `fd00::/8`. Depth, times, commands, modes and what was allowed stay. Names that every cluster has and that
//! say nothing about anybody stay, too: [`KEPT`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use siphasher::sip128::SipHasher24;

use super::commands::{OPTIONS, is_known};
use super::escape::unescape;
use super::line::{Columns, NULL, short_name, split_command, split_list, write_head};
use super::reader::{Line, Reader};
use super::sink::Sink;
use super::table::Row;
use super::twice::Source;
use crate::error::{Error, Result};
use crate::output::{Output, writing};

/// Names of paths that stay.
pub const KEPT: [&str; 9] =
    [".Trash", "Current", ".staging", "_temporary", "_SUCCESS", ".reserved", ".snapshot", "tmp", "user"];
/// Protocols that stay.
const PROTOCOLS: [&str; 2] = ["rpc", "webhdfs"];
const KEY_BYTES: usize = 16;
/// No longer file is taken for a key's.
const MAX_KEY_FILE: u64 = 1024;
/// Characters of a hash after its first letter: 62 bits.
const DIGITS: usize = 12;

/// What hashes depend on. Never shown.
#[derive(Clone)]
pub struct Key([u8; KEY_BYTES]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// One that nobody knows: what is made with it cannot be made again.
    pub fn random() -> Key {
        Key(rand::random())
    }

    /// One from a file that [`Key::create`] made.
    pub fn read(path: &Path) -> Result<Key> {
        let what = || format!("reading {}", path.display());
        let unfit = || Error::refused(format!("{} holds no key: --new-key makes one", path.display()));
        if fs::metadata(path).map_err(Error::io(what()))?.len() > MAX_KEY_FILE {
            return Err(unfit());
        }
        let text = fs::read_to_string(path).map_err(Error::io(what()))?;
        let text = text.trim();
        let is_hex = text.len() == 2 * KEY_BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let key = Some(text).filter(|_| is_hex).and_then(|text| u128::from_str_radix(text, 16).ok());
        key.map(|key| Key(key.to_be_bytes())).ok_or_else(unfit)
    }

    /// A new one, for a new file that only its owner can read: it is there when it is kept.
    pub fn create(path: &Path) -> Result<(Key, Output)> {
        let key = Key::random();
        let mut file = Output::private(path)?;
        let written = writeln!(file, "{:032x}", u128::from_be_bytes(key.0));
        written.map_err(writing(path))?;
        Ok((key, file))
    }

    fn hash(&self, text: &str) -> u64 {
        SipHasher24::new_with_key(&self.0).hash(text.as_bytes()).h1
    }

    /// A name that stands for another.
    fn name(&self, name: &str) -> String {
        let mut rest = self.hash(name);
        let digits = std::iter::repeat_with(|| {
            let digit = char::from_digit((rest % 36) as u32, 36).unwrap_or('0');
            rest /= 36;
            digit
        });
        std::iter::once('x').chain(digits.take(DIGITS)).collect()
    }

    fn address(&self, address: &str) -> String {
        let hash = self.hash(address);
        let [a, b, c, d] = [48, 32, 16, 0].map(|shift| (hash >> shift) as u16);
        format!("fd00::{a:x}:{b:x}:{c:x}:{d:x}")
    }

    /// A path, a list of paths, or anything else.
    fn path(&self, text: &str) -> String {
        if text == NULL || text.trim().is_empty() {
            return text.to_owned();
        }
        let plain = unescape(text);
        if let Some(list) = split_list(&plain) {
            return format!("[{}]", list.map(|path| self.one_path(path)).collect::<Vec<_>>().join(", "));
        }
        self.one_path(&plain)
    }

    fn one_path(&self, path: &str) -> String {
        if !path.starts_with('/') {
            return self.name(path);
        }
        let names = path.split('/').map(|name| match name {
            "" | "." | ".." => Cow::Borrowed(name),
            _ if KEPT.contains(&name) => Cow::Borrowed(name),
            _ => Cow::Owned(self.name(name)),
        });
        names.collect::<Vec<_>>().join("/")
    }

    /// `ann/host@REALM (auth:PROXY) via hue (auth:SIMPLE)`: names without hosts and realms.
    fn ugi(&self, ugi: &str) -> String {
        let words = ugi.split(' ').map(|word| match word {
            "" | "via" => Cow::Borrowed(word),
            _ if word.starts_with("(auth:") && word.ends_with(')') => Cow::Borrowed(word),
            _ => Cow::Owned(self.name(short_name(word))),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    /// A command with options that are not known stays one with options.
    fn command(&self, text: &str) -> String {
        let (command, options) = split_command(text);
        if !is_known(command) {
            return self.name(text);
        }
        if command == text {
            return text.to_owned();
        }
        let options = options.split(',').map(str::trim).map(|option| match OPTIONS.contains(&option) {
            true => Cow::Borrowed(option),
            false => Cow::Owned(self.name(option)),
        });
        format!("{command} (options=[{}])", options.collect::<Vec<_>>().join(", "))
    }

    /// `owner:group:rwxr-xr-x`.
    fn rights(&self, text: &str) -> String {
        let parts = text.rsplit_once(':').and_then(|(names, mode)| Some((names.split_once(':')?, mode)));
        match parts {
            Some(((owner, group), mode)) => format!("{}:{}:{mode}", self.name(owner), self.name(group)),
            None => text.to_owned(),
        }
    }

    /// A column of an audit log.
    fn column(&self, name: &str, value: &str) -> String {
        match name {
            "allowed" => value.to_owned(),
            _ if value == NULL => value.to_owned(),
            "ugi" => self.ugi(value),
            "ip" => format!("/{}", self.address(value)),
            "cmd" => self.command(value),
            "src" | "dst" => self.path(value),
            "perm" => self.rights(value),
            "proto" if PROTOCOLS.contains(&value) => value.to_owned(),
            // A caller's context may hold anything.
            _ => self.name(value),
        }
    }

    fn audit(&self, line: &mut String, columns: &Columns<'_>) {
        write_head(line, columns.at_ms);
        let columns =
            columns.columns.iter().map(|(name, value)| format!("{name}={}", self.column(name, value)));
        line.push_str(&columns.collect::<Vec<_>>().join("\t"));
    }

    fn row(&self, line: &mut String, row: &Row<'_>) {
        let [at_ms, ugi, command, src, dst, address] = row.fields;
        let address = if address.trim().is_empty() { address.to_owned() } else { self.address(address) };
        let fields =
            [at_ms.to_owned(), self.ugi(ugi), self.command(command), self.path(src), self.path(dst), address];
        line.push_str(&fields.join(row.separator.encode_utf8(&mut [0; 4])));
    }
}

/// What became of the lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Anonymised {
    /// Lines that were read.
    pub lines: u64,
    /// Lines that were written.
    pub written: u64,
    /// Lines that were left out since they cannot be read, by why, with the number of the first.
    pub left_out: BTreeMap<&'static str, (u64, u64)>,
}

/// Writes a trace without its names.
pub fn anonymise(files: &[PathBuf], key: &Key, sink: &mut Sink) -> Result<Anonymised> {
    let mut reader = Reader::new(files.iter().map(|file| Source::once(file)));
    let (mut done, mut text) = (Anonymised::default(), String::new());
    while let Some(line) = reader.read()? {
        text.clear();
        // Whatever cannot be read may have names anywhere.
        let why = match (line.entry(), &line) {
            (Err((why, _)), _) => Some(why),
            (Ok(_), Line::Audit(columns)) => {
                key.audit(&mut text, columns);
                None
            }
            (Ok(_), Line::Row(row)) => {
                key.row(&mut text, row);
                None
            }
            (Ok(_), _) => Some(super::steps::BLANK),
        };
        done.lines += 1;
        match why {
            None => {
                text.push('\n');
                sink.write(&text)?;
                done.written += 1;
            }
            Some(why) => done.left_out.entry(why).or_insert((0, reader.number())).0 += 1,
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
2023-11-14 22:13:20,123 INFO audit.host7: allowed=true\tugi=ann/web7@CORP (auth:PROXY) via hue (auth:SIMPLE)\tip=/10.1.2.3\tcmd=rename (options=[OVERWRITE])\tsrc=/user/ann/se\\tcret\tdst=/user/ann/.Trash/Current/se\\tcret\tperm=ann:staff:rw-r--r--\tproto=rpc\tcallerContext=job_of_ann
2023-11-14 22:13:21,000 INFO audit.host7: allowed=false\tugi=bob (auth:SIMPLE)\tip=/10.1.2.3\tcmd=concat\tsrc=[/user/ann/a, /user/ann/b]\tdst=/user/ann/se\\tcret\tperm=null\tproto=rpc
rubbish with ann's name
2023-11-14 22:13:21,000 INFO audit.host7: allowed=true\tugi=bob\tip=/10.1.2.4\tcmd=addCachePool\tsrc={poolName:anns}\tdst=null\tperm=null\tproto=rpc
";

    fn temp(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("trellis-anonymise-{}-{name}", std::process::id()))
    }

    fn without_names(name: &str, text: &str, key: &Key) -> (Anonymised, String) {
        let (from, to) = (temp(&format!("{name}-from")), temp(&format!("{name}-to")));
        fs::write(&from, text).expect("written");
        let mut sink = Sink::create(&to).expect("a new file");
        let done = anonymise(std::slice::from_ref(&from), key, &mut sink).expect("readable");
        sink.finish().expect("written");
        let text = fs::read_to_string(&to).expect("it is there");
        [from, to].iter().for_each(|path| fs::remove_file(path).expect("it is there"));
        (done, text)
    }

    fn value<'a>(line: &'a str, name: &str) -> &'a str {
        Columns::cut(line).expect("whole").value(name).expect(name)
    }

    #[test]
    fn no_name_is_left_and_what_was_the_same_stays_the_same() {
        let key = Key([7; KEY_BYTES]);
        let (done, text) = without_names("audit", LINES, &key);
        assert_eq!((done.lines, done.written), (4, 3));
        assert_eq!(done.left_out, [("no column allowed=", (1, 3))].into());
        for name in
            ["ann", "bob", "hue", "web7", "CORP", "host7", "10.1", "cret", "staff", "job", "rubbish", "pool"]
        {
            assert!(!text.contains(name), "{name} in\n{text}");
        }
        let lines: Vec<&str> = text.lines().collect();
        let src: Vec<&str> = value(lines[0], "src").split('/').collect();
        let dst: Vec<&str> = value(lines[0], "dst").split('/').collect();
        assert_eq!((src[1], dst[1], &dst[3..5]), ("user", "user", &[".Trash", "Current"][..]));
        assert_eq!((src[2], src[3]), (dst[2], dst[5]));
        // The home directory bears its user's name, and so does what is theirs.
        assert_eq!(value(lines[0], "ugi").split(' ').next(), Some(src[2]));
        assert_eq!(value(lines[0], "perm").split(':').next(), Some(src[2]));
        assert_eq!(
            value(lines[1], "src"),
            format!("[/user/{0}/{1}, /user/{0}/{2}]", src[2], key.name("a"), key.name("b"))
        );
        assert_eq!(value(lines[0], "ip"), value(lines[1], "ip"));
        assert_ne!(value(lines[0], "ip"), value(lines[2], "ip"));
        assert_eq!(value(lines[0], "cmd"), "rename (options=[OVERWRITE])");
        assert!(lines.iter().all(|line| Columns::cut(line).is_ok_and(|columns| columns.entry().is_ok())));
        assert!(lines[0].starts_with("2023-11-14 22:13:20,123 INFO FSNamesystem.audit: allowed=true\tugi=x"));
    }

    #[test]
    fn other_keys_make_other_names() {
        let [one, other] = [Key::random(), Key::random()].map(|key| without_names("keys", LINES, &key).1);
        assert_ne!(one, other);
        assert_eq!(format!("{:?}", Key([7; KEY_BYTES])), "Key");
    }

    #[test]
    fn only_options_that_are_known_stay() {
        let key = Key([7; KEY_BYTES]);
        for known in ["open", "rename (options=[NONE])", "rename (options=[OVERWRITE, TO_TRASH])"] {
            assert_eq!(key.command(known), known);
        }
        let secret = key.name("SECRET");
        for (unknown, wanted) in [
            ("rename (options=[SECRET])", format!("rename (options=[{secret}])")),
            ("rename (options=[OVERWRITE, SECRET])", format!("rename (options=[OVERWRITE, {secret}])")),
            ("rename SECRET", format!("rename (options=[{secret}])")),
            ("rename (options=[SECRET", format!("rename (options=[{}])", key.name("(options=[SECRET"))),
            ("SECRET (options=[NONE])", key.name("SECRET (options=[NONE])")),
        ] {
            assert_eq!(key.command(unknown), wanted, "{unknown}");
        }
    }

    #[test]
    fn tables_stay_tables() {
        let key = Key([7; KEY_BYTES]);
        let text = "10\u{1}ann\u{1}create\u{1}/a/b\u{1} \u{1}0.0.0.0\n20\u{1}ann\u{1}fly to ann\u{1}/a\u{1}null\u{1}\n";
        let (done, text) = without_names("table", &format!("\u{feff}{text}"), &key);
        assert_eq!(done.written, 2);
        let rows: Vec<_> = text.lines().map(|line| Row::cut(line).expect("whole")).collect();
        assert_eq!((rows[0].fields[0], rows[0].fields[2], rows[0].fields[4]), ("10", "create", " "));
        assert_eq!(rows[0].fields[3].rsplit_once('/').map(|(dir, _)| dir), Some(rows[1].fields[3]));
        assert_eq!(rows[1].fields[2], key.name("fly to ann"));
    }

    #[test]
    fn a_key_comes_back_from_its_file_and_only_its_owner_can_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let path = temp("key");
        let (key, file) = Key::create(&path).expect("a new file");
        assert!(!path.exists());
        file.keep().expect("written");
        assert!(Key::create(&path).is_err(), "it is not overwritten");
        assert_eq!(Key::read(&path).expect("ours").0, key.0);
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
        fs::write(&path, "short").expect("written");
        assert!(Key::read(&path).is_err_and(|error| error.to_string().contains("holds no key")));
        fs::remove_file(&path).expect("it is there");
    }
}
