//! Printing that survives a closed pipe: `println!` would panic.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};

/// Prints a line about what goes on to stdout at once. Nothing depends on its being read.
pub fn say(line: impl Display) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Prints a line that was asked for to stdout at once; one that is lost, as on a full disk, is an error.
pub fn print(line: impl Display) -> Result<()> {
    let mut out = io::stdout().lock();
    written(writeln!(out, "{line}").and_then(|()| out.flush()))
}

/// What came of writing to stdout. A reader that has gone is no error.
pub fn written(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if is_closed_pipe(&error) => Ok(()),
        result => result.context("cannot write the output"),
    }
}

/// Whether whoever read the output has gone.
pub fn is_closed_pipe(error: &io::Error) -> bool {
    error.kind() == ErrorKind::BrokenPipe
}

/// Prints what went wrong, and what to do, to stderr.
pub fn complain(what: impl Display) {
    let _ = writeln!(io::stderr().lock(), "trellis: {what}");
}
