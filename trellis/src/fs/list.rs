//! ls, stat, test.

use trellis_client::fs::access;
use trellis_client::types::FileStatus;

use super::place::Place;
use super::shell::{Found, Shell, why};
use super::text::{bits, columns, minutes, mode, seconds, size};
use super::walk::{Walk, child, name};

/// Lines that are formatted at a time.
const PAGE: usize = 1000;
/// Entries of one directory that are sorted; more would not fit in memory.
const MAX_SORTED: usize = 1_000_000;

/// Lists directories.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs ls -R /user", disable_help_flag = true)]
pub struct Ls {
    /// With all that is below
    #[arg(short = 'R')]
    recursive: bool,
    /// Directories themselves instead of their entries
    #[arg(short = 'd')]
    directory: bool,
    /// Paths only
    #[arg(short = 'C')]
    paths_only: bool,
    /// Sizes such as 1.5 K
    #[arg(short = 'h')]
    human: bool,
    /// A directory's entries by time, the latest first; with -R all stay in the order of names
    #[arg(short = 't')]
    by_time: bool,
    /// The same by size, the largest first; -t goes before
    #[arg(short = 'S')]
    by_size: bool,
    /// The same the other way round
    #[arg(short = 'r')]
    reverse: bool,
    /// The time of the last access instead of the last change
    #[arg(short = 'u')]
    accessed: bool,
    /// Paths or patterns [default: the home directory]
    #[arg(default_value = ".", hide_default_value = true)]
    pub paths: Vec<String>,
    /// Prints help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

impl Ls {
    pub async fn run(self, shell: &mut Shell) {
        let mut alone = Vec::new();
        for Found { place, status } in shell.find("ls", &self.paths).await {
            if self.directory || !status.is_dir() {
                alone.push((place.shown(), status));
                continue;
            }
            self.print(shell, &mut alone);
            match (self.recursive, self.by_time || self.by_size || self.reverse) {
                (true, _) => self.tree(shell, &place).await,
                (false, true) => self.sorted(shell, &place).await,
                (false, false) => self.entries(shell, &place, status.children).await,
            }
        }
        self.print(shell, &mut alone);
    }

    async fn tree(&self, shell: &mut Shell, place: &Place) {
        let mut walk = Walk::below(&shell.client, &place.path);
        let mut page = Vec::new();
        while let Some(next) = walk.next().await {
            match next {
                Ok((path, entry)) => page.push((place.show(&path), entry)),
                Err(error) => shell.fail("ls", why(&error)),
            }
            if page.len() >= PAGE {
                self.print(shell, &mut page);
            }
        }
        self.print(shell, &mut page);
    }

    async fn sorted(&self, shell: &mut Shell, place: &Place) {
        let mut listing = shell.client.get_listing(&place.path);
        let mut entries = Vec::new();
        loop {
            let page = listing.next_page().await;
            match shell.check("ls", page) {
                None => return,
                Some(None) => break,
                Some(Some(page)) => entries.extend(page),
            }
            if entries.len() > MAX_SORTED {
                let shown = place.shown();
                return shell.fail(
                    "ls",
                    format_args!("`{shown}': has more than {MAX_SORTED} entries, too many to sort; leave -t, -S, -r out"),
                );
            }
        }
        self.sort(&mut entries);
        if !self.paths_only && !entries.is_empty() {
            shell.say(format_args!("Found {} items", entries.len()));
        }
        let line = |entry: FileStatus| (place.show(&child(&place.path, &entry.name)), entry);
        self.print(shell, &mut entries.into_iter().map(line).collect());
    }

    /// Sorts entries that are in the order of names, in which those stay that are equal.
    fn sort(&self, entries: &mut [FileStatus]) {
        match (self.by_time, self.by_size) {
            (true, _) => entries.sort_by_key(|entry| self.in_order(self.time_ms(entry))),
            (false, true) => entries.sort_by_key(|entry| self.in_order(entry.length)),
            (false, false) => entries.reverse(),
        }
    }

    /// The largest number first, or with -r the smallest.
    fn in_order(&self, number: u64) -> u64 {
        if self.reverse { number } else { u64::MAX - number }
    }

    fn time_ms(&self, entry: &FileStatus) -> u64 {
        if self.accessed { entry.access_time_ms } else { entry.modification_time_ms }
    }

    async fn entries(&self, shell: &mut Shell, place: &Place, count: Option<u32>) {
        let mut listing = shell.client.get_listing(&place.path);
        let mut first = true;
        loop {
            let page = listing.next_page().await;
            let Some(Some(page)) = shell.check("ls", page) else { return };
            // What is on the first page can be counted; of more the directory knows how many there are.
            let count = if listing.has_more() { count } else { u32::try_from(page.len()).ok() };
            if std::mem::replace(&mut first, false)
                && !self.paths_only
                && let Some(count) = count
            {
                shell.say(format_args!("Found {count} items"));
            }
            let line = |entry: FileStatus| (place.show(&child(&place.path, &entry.name)), entry);
            self.print(shell, &mut page.into_iter().map(line).collect());
        }
    }

    /// Prints entries, and forgets them.
    fn print(&self, shell: &mut Shell, entries: &mut Vec<(String, FileStatus)>) {
        let entries = std::mem::take(entries);
        if self.paths_only {
            return entries.iter().for_each(|(path, _)| shell.say(path));
        }
        let rows: Vec<Vec<String>> = entries
            .into_iter()
            .map(|(path, status)| {
                let time_ms = self.time_ms(&status);
                let replication =
                    if status.is_dir() { "-".to_owned() } else { status.replication.to_string() };
                vec![
                    mode(&status),
                    replication,
                    status.owner,
                    status.group,
                    size(status.length, self.human),
                    minutes(time_ms),
                    path,
                ]
            })
            .collect();
        columns(&rows, &[1, 4]).iter().for_each(|line| shell.say(line));
    }
}

/// Prints what is known of paths.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs stat '%a %u:%g %n' /user/ann\n\n\
    %a mode (octal)  %A mode (symbolic)  %b bytes  %F kind  %g group  %n name\n\
    %o block size  %r replication  %u owner\n\
    %x %y access and modification time, UTC  %X %Y the same in ms since 1970")]
pub struct Stat {
    /// What to print [default: %y]
    #[arg(long, short)]
    format: Option<String>,
    /// Paths or patterns; before them, as in the stock shell, the format: it is what has a % in it
    #[arg(required = true, value_name = "PATH")]
    words: Vec<String>,
}

impl Stat {
    pub async fn run(self, shell: &mut Shell) {
        let (format, paths) = self.split();
        for found in shell.find("stat", paths).await {
            let line = filled(format, &found);
            shell.say(line);
        }
    }

    /// The format, and the paths.
    pub fn split(&self) -> (&str, &[String]) {
        match (&self.format, &self.words[..]) {
            (None, [format, paths @ ..]) if format.contains('%') && !paths.is_empty() => (format, paths),
            (format, paths) => (format.as_deref().unwrap_or("%y"), paths),
        }
    }
}

fn filled(format: &str, Found { place, status }: &Found) -> String {
    let mut text = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        text += &match letters.next() {
            Some('a') => format!("{:o}", status.permission),
            Some('A') => bits(status.permission),
            Some('b') => status.length.to_string(),
            Some('F') => if status.is_dir() { "directory" } else { "regular file" }.to_owned(),
            Some('g') => status.group.clone(),
            Some('n') => name(&place.path).to_owned(),
            Some('o') => status.block_size.to_string(),
            Some('r') => status.replication.to_string(),
            Some('u') => status.owner.clone(),
            Some('x') => seconds(status.access_time_ms),
            Some('X') => status.access_time_ms.to_string(),
            Some('y') => seconds(status.modification_time_ms),
            Some('Y') => status.modification_time_ms.to_string(),
            Some(other) => other.to_string(),
            None => "%".to_owned(),
        };
    }
    text
}

/// Answers a question about a path by the exit code: 0 yes, 1 no.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs test -d /user/ann && echo there")]
#[command(group = clap::ArgGroup::new("question").required(true))]
pub struct Test {
    /// Is there anything?
    #[arg(short = 'e', group = "question")]
    exists: bool,
    /// A directory?
    #[arg(short = 'd', group = "question")]
    directory: bool,
    /// A file?
    #[arg(short = 'f', group = "question")]
    file: bool,
    /// A file of no bytes?
    #[arg(short = 'z', group = "question")]
    empty: bool,
    /// Of more than no bytes?
    #[arg(short = 's', group = "question")]
    sized: bool,
    /// May it be read?
    #[arg(short = 'r', group = "question")]
    read: bool,
    /// May it be written?
    #[arg(short = 'w', group = "question")]
    write: bool,
    /// The path
    pub path: String,
}

impl Test {
    pub async fn run(self, shell: &mut Shell) {
        let Place { path, .. } = shell.place(&self.path);
        let info = shell.client.get_file_info(&path).await;
        let Some(info) = shell.check("test", info) else { return };
        let yes = match info {
            None => false,
            Some(status) if self.directory => status.is_dir(),
            Some(status) if self.file => !status.is_dir(),
            Some(status) if self.empty => status.length == 0,
            Some(status) if self.sized => status.length > 0,
            Some(_) if self.read => shell.client.check_access(&path, access::READ).await.is_ok(),
            Some(_) if self.write => shell.client.check_access(&path, access::WRITE).await.is_ok(),
            Some(_) => self.exists,
        };
        if !yes {
            shell.refuse();
        }
    }
}
