//! What all verbs share: the client, output, failures, what paths and patterns name.

use std::fmt::Display;
use std::io::{self, BufWriter, Stdout, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use trellis_client::config::{ConnectionConfig, RetryPolicy};
use trellis_client::error::Fault;
use trellis_client::types::{CreateOptions, FileStatus};
use trellis_client::{Client, Conf, Error};

use super::glob::{self, is_pattern, matcher};
use super::place::{self, Place};
use super::transfer::Unfinished;
use super::walk::child;
use crate::output::{complain, written};

/// How long to try until a namenode answers for the first time: who typed a command wants to hear of a wrong address
/// soon. One that has answered may be gone for as long as it needs to start again ([`RetryPolicy::give_up_after`]).
const FIRST_ANSWER_WITHIN: Duration = Duration::from_secs(8);
/// Data goes out in pieces of this size.
const OUTPUT_BYTES: usize = 64 << 10;
/// Paths that one pattern may match; more is a mistake, and would not fit in memory.
const MAX_MATCHES: usize = 100_000;

/// A path that exists.
pub struct Found {
    /// Where.
    pub place: Place,
    /// What is there.
    pub status: FileStatus,
}

/// The state of one `trellis fs`.
pub struct Shell {
    /// The client.
    pub client: Client,
    /// `hdfs://HOST:PORT[,HOST:PORT…]`
    pub file_system: String,
    /// Copies of new files, if the configuration says it.
    pub replication: Option<u16>,
    /// Their blocks, bytes, if the configuration says it.
    pub block_size: Option<u64>,
    /// What is being written.
    pub unfinished: Option<Unfinished>,
    out: BufWriter<Stdout>,
    failed: bool,
}

impl Shell {
    /// A shell on the file system that `fs`, the configuration or the command's path arguments name. `defines`
    /// (NAME=VALUE) win over the configuration.
    pub fn new(fs: Option<&str>, defines: &[String], paths: &[String]) -> Result<Shell> {
        let mut conf = Conf::from_env()?;
        for define in defines {
            let (name, value) =
                define.split_once('=').with_context(|| format!("-D {define}: say NAME=VALUE"))?;
            conf.set(name, value);
        }
        let uri = place::file_system(&conf, fs, paths)?;
        let (builder, target) = Client::from_conf(&conf, Some(&uri))?;
        let retry = RetryPolicy { give_up_unanswered_after: FIRST_ANSWER_WITHIN, ..RetryPolicy::default() };
        let connection =
            ConnectionConfig { connect_timeout: FIRST_ANSWER_WITHIN, ..ConnectionConfig::default() };
        let client = builder.caller_context("CLI").retry(retry).connection(connection).build()?;
        let file_system = place::name(&target);
        Ok(Shell {
            client,
            file_system,
            replication: conf.replication()?,
            block_size: conf.block_size()?,
            unfinished: None,
            out: BufWriter::with_capacity(OUTPUT_BYTES, io::stdout()),
            failed: false,
        })
    }

    /// Prints a line. When that fails there is nothing left to do.
    pub fn say(&mut self, line: impl Display) {
        self.print(format_args!("{line}\n"));
    }

    /// Prints a text as it is.
    pub fn print(&mut self, text: impl Display) {
        if let Err(error) = write!(self.out, "{text}") {
            std::process::exit(i32::from(self.cannot_print(error)));
        }
    }

    /// Prints bytes as they are.
    pub fn write(&mut self, bytes: &[u8]) {
        if let Err(error) = self.out.write_all(bytes) {
            std::process::exit(i32::from(self.cannot_print(error)));
        }
    }

    /// Shows what was printed so far.
    pub fn flush(&mut self) {
        if let Err(error) = self.out.flush() {
            std::process::exit(i32::from(self.cannot_print(error)));
        }
    }

    /// How a file is made that has no more to say.
    pub fn create_options(&self) -> CreateOptions {
        let (replication, block_size) = (self.replication, self.block_size);
        CreateOptions { replication, block_size, ..CreateOptions::default() }
    }

    /// Notes that something failed: the exit code will be 1.
    pub fn fail(&mut self, verb: &str, why: impl Display) {
        self.failed = true;
        let _ = self.out.flush();
        let _ = writeln!(io::stderr(), "{verb}: {why}");
    }

    /// The same, for an exit code without words.
    pub fn refuse(&mut self) {
        self.failed = true;
    }

    /// What a call gave; its failure is told.
    pub fn check<T>(&mut self, verb: &str, result: Result<T, Error>) -> Option<T> {
        result.map_err(|error| self.fail(verb, why(&error))).ok()
    }

    /// What a longer action gave; its failure is told.
    pub fn note_value<T>(&mut self, verb: &str, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.fail(verb, format_args!("{error:#}"))).ok()
    }

    /// The same for an action that gives nothing of use.
    pub fn note<T>(&mut self, verb: &str, result: Result<T>) {
        self.note_value(verb, result);
    }

    /// Whether something failed so far.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// The exit code.
    pub fn end(mut self) -> ExitCode {
        if let Err(error) = self.out.flush() {
            self.failed = self.cannot_print(error);
        }
        if self.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    /// Whether this command has failed, now that its output cannot be written. A reader that has gone is no failure.
    fn cannot_print(&self, error: io::Error) -> bool {
        match written(Err(error)) {
            Ok(()) => self.failed,
            Err(error) => {
                complain(format_args!("{error:#}"));
                true
            }
        }
    }

    /// Where a path argument points.
    pub fn place(&self, path: &str) -> Place {
        Place::of(path, &self.client.home())
    }

    /// What each path or pattern names; told where there is nothing.
    pub async fn find(&mut self, verb: &str, paths: &[String]) -> Vec<Found> {
        let mut all = Vec::new();
        for path in paths {
            match self.expand(path).await {
                Ok(found) if found.is_empty() => self.fail(verb, self.place(path).missing()),
                Ok(found) => all.extend(found),
                Err(error) => self.fail(verb, format_args!("{error:#}")),
            }
        }
        all
    }

    /// What one path or pattern names.
    pub async fn expand(&self, path: &str) -> Result<Vec<Found>> {
        let place = self.place(path);
        if !is_pattern(&place.path) {
            return Ok(self.there(place).await?.into_iter().collect());
        }
        let mut all = Vec::new();
        for path in glob::expanded(&place.path)? {
            all.extend(self.matches(&place.at(path)).await?);
        }
        Ok(all)
    }

    async fn there(&self, place: Place) -> Result<Option<Found>> {
        let status = self.client.get_file_info(&place.path).await.map_err(told)?;
        Ok(status.map(|status| Found { place, status }))
    }

    /// What one pattern names that has no slash in braces.
    async fn matches(&self, place: &Place) -> Result<Vec<Found>> {
        let mut found = vec![String::new()];
        let parts: Vec<&str> = place.path.split('/').skip(1).collect();
        for (depth, part) in parts.iter().enumerate() {
            if is_pattern(part) {
                found = self.matching(&found, part).await?;
            } else {
                found.iter_mut().for_each(|path| *path = child(path, part));
            }
            if depth + 1 == parts.len() {
                break;
            }
        }
        let mut all = Vec::new();
        for path in found {
            all.extend(self.there(place.at(path)).await?);
        }
        Ok(all)
    }

    /// Children of directories whose names match.
    async fn matching(&self, dirs: &[String], pattern: &str) -> Result<Vec<String>> {
        let matcher = matcher(pattern, false)?;
        let mut found = Vec::new();
        for dir in dirs {
            let dir = if dir.is_empty() { "/" } else { dir };
            let is_dir =
                self.client.get_file_info(dir).await.map_err(told)?.is_some_and(|status| status.is_dir());
            let mut listing = self.client.get_listing(dir);
            while is_dir && let Some(entry) = listing.next().await.map_err(told)? {
                if matcher.is_match(&entry.name) {
                    found.push(child(dir, &entry.name));
                }
                anyhow::ensure!(
                    found.len() <= MAX_MATCHES,
                    "{pattern} matches more than {MAX_MATCHES} names: narrow it"
                );
            }
        }
        found.sort_unstable();
        Ok(found)
    }
}

/// An error as the stock shell shows it: the first line of the exception's message, without its class.
pub fn why(error: &Error) -> String {
    match error.fault() {
        Fault::Exception(exception) => {
            let first = exception.message.lines().next().unwrap_or_default();
            if first.is_empty() { error.to_string() } else { first.to_owned() }
        }
        Fault::NotSent(_) => format!("{error}; --fs hdfs://HOST:PORT names another"),
        _ => error.to_string(),
    }
}

/// An error of the client as one of ours, in the same words.
pub fn told(error: Error) -> anyhow::Error {
    anyhow::anyhow!(why(&error))
}
