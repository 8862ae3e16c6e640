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
    /// Programs that must be there.
    pub needs: Needs,
    /// Whether its output tells of single tests.
    pub has_tests: bool,
}

/// Programs, and where to get them.
pub struct Needs {
    /// Each with an argument that makes it answer.
    pub programs: &'static [(&'static str, &'static str)],
    /// How to get them.
    pub from: &'static str,
}

const NOTHING: Needs = Needs { programs: &[], from: "" };
const RUSTFMT: Needs = Needs {
    programs: &[("cargo-fmt", "--version"), ("rustfmt", "--version")],
    from: "rustup component add rustfmt",
};
const CLIPPY: Needs =
    Needs { programs: &[("cargo-clippy", "--version")], from: "rustup component add clippy" };
/// What the stock Hadoop programs need.
const JAVA: Needs = Needs {
    programs: &[
        ("bash", "--version"),
        ("java", "-version"),
        ("javac", "-version"),
        ("mvn", "-version"),
        ("python3", "--version"),
    ],
    from: "Debian: openjdk-17-jdk-headless maven python3",
};

/// Any browser would do; this is the one that the test starts.
const BROWSER: Needs = Needs { programs: &[("chromium", "--version")], from: "Debian: chromium" };

/// All levels, cheap to dear.
pub const LEVELS: &[Level] = &[
    Level {
        name: "fmt",
        help: "the code is formatted",
        run: Run::Program(fmt),
        needs: RUSTFMT,
        has_tests: false,
    },
    Level {
        name: "edges",
        help: "crates use only what they may",
        run: Run::Check(crate::edges::check),
        needs: NOTHING,
        has_tests: false,
    },
    Level {
        name: "modules",
        help: "no source file is left out",
        run: Run::Check(crate::modules::check),
        needs: NOTHING,
        has_tests: false,
    },
    Level {
        name: "clippy",
        help: "no lint warns",
        run: Run::Program(clippy),
        needs: CLIPPY,
        has_tests: false,
    },
    Level {
        name: "crates",
        help: "unit and integration tests of all crates, generated pages included",
        run: Run::Program(crates),
        needs: NOTHING,
        has_tests: true,
    },
    Level {
        name: "browser",
        help: "the load generator's pages, looked at in a real browser",
        run: Run::Program(browser),
        needs: BROWSER,
        has_tests: true,
    },
    Level {
        name: "stock",
        help: "a datanode's folders, served in turn by ours and by stock Hadoop's",
        run: Run::Program(stock),
        needs: JAVA,
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

fn browser() -> Command {
    let mut command = cargo();
    command.env("TRELLIS_TEST_BROWSER", "1");
    command.args(["test", "--package", "trellis-loadgen", "--test", "all", "browser"]);
    command
}

fn stock() -> Command {
    let mut command = cargo();
    command.env("TRELLIS_TEST_STOCK", "1");
    command.args(["test", "--package", "trellis-datanode", "--test", "all", "stock"]);
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
        .programs
        .iter()
        .filter(|(program, argument)| !answers(program, argument))
        .map(|(program, _)| *program)
        .collect();
    match absent.is_empty() {
        true => None,
        false => Some(format!("needs {} ({})", absent.join(", "), level.needs.from)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_level_lacks_is_named_with_where_to_get_it() {
        let needs = Needs { programs: &[("cargo", "--version"), ("no-such-program", "-v")], from: "nowhere" };
        let run = Run::Check(|| Ok(()));
        let level = Level { name: "x", help: "", run, needs, has_tests: false };
        assert_eq!(missing(&level).as_deref(), Some("needs no-such-program (nowhere)"));
        for level in LEVELS {
            assert_eq!(level.needs.programs.is_empty(), level.needs.from.is_empty(), "{}", level.name);
        }
    }
}
