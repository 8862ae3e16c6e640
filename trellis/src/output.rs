//! Printing that survives a closed pipe: `println!` would panic.

use std::fmt::Display;
use std::io::Write;

/// Prints a line to stdout at once. A reader that has gone is no error.
pub fn say(line: impl Display) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Prints what went wrong, and what to do, to stderr.
pub fn complain(what: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "trellis: {what}");
}
