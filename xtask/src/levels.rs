//! What the levels of `cargo xtask test` are, cheap to dear, and what they need.

use std::process::{Command, Stdio};

use crate::{cargo, root};

/// What a level runs.
pub enum Run {
    /// One program.
    Program(fn() -> Command),
    /// Nothing to start: a check inside this program.
    Check(fn() -> anyhow::Result<()>),
}

/// One level.
pub struct Level {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does.
    pub help: &'static str,
    /// What it runs.
    pub run: Run,
    /// Programs that must be there: (program, an argument that makes it answer).
    pub needs: &'static [(&'static str, &'static str)],
    /// Whether its output tells of single tests.
    pub has_tests: bool,
}

/// What the stock Hadoop programs need.
const JAVA: &[(&str, &str)] = &[
    ("bash", "--version"),
    ("java", "-version"),
    ("javac", "-version"),
    ("mvn", "-version"),
    ("python3", "--version"),
];

/// All levels, cheap to dear.
pub const LEVELS: &[Level] = &[
    Level {
        name: "fmt",
        help: "the code is formatted",
        run: Run::Program(fmt),
        needs: &[],
        has_tests: false,
    },
    Level {
        name: "edges",
        help: "crates use only what they may",
        run: Run::Check(crate::edges::check),
        needs: &[],
        has_tests: false,
    },
    Level { name: "clippy", help: "no lint warns", run: Run::Program(clippy), needs: &[], has_tests: false },
    Level {
        name: "crates",
        help: "unit and integration tests of all crates, generated pages included",
        run: Run::Program(crates),
        needs: &[],
        has_tests: true,
    },
    Level {
        name: "e2e",
        help: "real processes, asked by stock Hadoop's clients",
        run: Run::Program(e2e),
        needs: JAVA,
        has_tests: true,
    },
];

fn fmt() -> Command {
    let mut command = cargo();
    command.args(["fmt", "--all", "--check"]);
    command
}

fn clippy() -> Command {
    let mut command = cargo();
    command.args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]);
    command
}

fn crates() -> Command {
    let mut command = cargo();
    command.args(["test", "--workspace", "--exclude", "trellis-e2e", "--no-fail-fast"]);
    command
}

fn e2e() -> Command {
    let mut command = cargo();
    command.args(["test", "--package", "trellis-e2e"]);
    command
}

/// What keeps a level from running here, if anything does.
pub fn missing(level: &Level) -> Option<String> {
    let answers = |program: &str, argument: &str| {
        let mut run = Command::new(program);
        run.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        run.current_dir(root()).status().is_ok_and(|status| status.success())
    };
    let absent: Vec<&str> = level
        .needs
        .iter()
        .filter(|(program, argument)| !answers(program, argument))
        .map(|(program, _)| *program)
        .collect();
    match absent.is_empty() {
        true => None,
        false => Some(format!("needs {} (Debian: openjdk-17-jdk-headless maven python3)", absent.join(", "))),
    }
}
