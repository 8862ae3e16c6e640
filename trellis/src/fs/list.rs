//! ls, stat, test.

use trellis_client::fs::access;
use trellis_client::types::FileStatus;

use super::shell::{Found, Shell, why};
use super::text::{bits, columns, minutes, mode, seconds, size};
use super::walk::{Walk, child, name};

/// Lines that are formatted at a time.
const PAGE: usize = 1000;

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
    /// Paths or patterns [default: the home directory]
    paths: Vec<String>,
    /// Prints help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

impl Ls {
    pub async fn run(mut self, shell: &mut Shell) {
        if self.paths.is_empty() {
            self.paths.push(".".to_owned());
        }
        let mut alone = Vec::new();
        for Found { path, status } in shell.find("ls", &self.paths).await {
            if self.directory || !status.is_dir() {
                alone.push((path, status));
                continue;
            }
            self.print(shell, &mut alone);
            match self.recursive {
                true => self.tree(shell, &path).await,
                false => self.entries(shell, &path, status.children).await,
            }
        }
        self.print(shell, &mut alone);
    }

    async fn tree(&self, shell: &mut Shell, path: &str) {
        let mut walk = Walk::below(&shell.client, path);
        let mut page = Vec::new();
        while let Some(next) = walk.next().await {
            match next {
                Ok(entry) => page.push(entry),
                Err(error) => shell.fail("ls", why(&error)),
            }
            if page.len() >= PAGE {
                self.print(shell, &mut page);
            }
        }
        self.print(shell, &mut page);
    }

    async fn entries(&self, shell: &mut Shell, path: &str, count: Option<u32>) {
        let mut listing = shell.client.get_listing(path);
        let mut first = true;
        loop {
            let page = listing.next_page().await;
            let Some(Some(page)) = shell.check("ls", page) else { return };
            if std::mem::replace(&mut first, false)
                && !self.paths_only
                && let Some(count) = count
            {
                shell.say(format_args!("Found {count} items"));
            }
            let mut lines = page.into_iter().map(|entry| (child(path, &entry.name), entry)).collect();
            self.print(shell, &mut lines);
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
                let replication =
                    if status.is_dir() { "-".to_owned() } else { status.replication.to_string() };
                vec![
                    mode(&status),
                    replication,
                    status.owner,
                    status.group,
                    size(status.length, self.human),
                    minutes(status.modification_time_ms),
                    path,
                ]
            })
            .collect();
        columns(&rows, &[1, 4]).iter().for_each(|line| shell.say(line));
    }
}

/// Prints what is known of paths.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs stat --format '%a %u:%g %n' /user/ann\n\n\
    %a mode (octal)  %A mode (symbolic)  %b bytes  %F kind  %g group  %n name\n\
    %o block size  %r replication  %u owner\n\
    %x %y access and modification time, UTC  %X %Y the same in ms since 1970")]
pub struct Stat {
    /// What to print
    #[arg(long, short, default_value = "%y")]
    format: String,
    /// Paths or patterns
    #[arg(required = true)]
    paths: Vec<String>,
}

impl Stat {
    pub async fn run(self, shell: &mut Shell) {
        for found in shell.find("stat", &self.paths).await {
            let line = filled(&self.format, &found);
            shell.say(line);
        }
    }
}

fn filled(format: &str, Found { path, status }: &Found) -> String {
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
            Some('n') => name(path).to_owned(),
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
    path: String,
}

impl Test {
    pub async fn run(self, shell: &mut Shell) {
        let path = shell.absolute(&self.path);
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
