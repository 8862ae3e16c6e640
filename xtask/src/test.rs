//! `cargo xtask test`: everything that is checked, level by level.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::levels::{LEVELS, Level, Run, missing};
use crate::tally::Tally;

/// Tests read these: they take longer and try more.
const LONG: [(&str, &str); 2] = [("TRELLIS_TEST_LONG", "1"), ("E2E_ROUNDS", "50")];
/// A skipped level is a failure when one of these is set.
const REQUIRE_ALL: [&str; 2] = ["TRELLIS_REQUIRE_ALL", "CI"];

/// Options of `cargo xtask test`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask test                 everything that can run here
  cargo xtask test fmt clippy      two levels
  cargo xtask test --list          what the levels are

With CI=true or TRELLIS_REQUIRE_ALL=1 a skipped level is a failure.")]
pub struct Args {
    /// The long forms: more seeds, more rounds
    #[arg(long)]
    long: bool,
    /// Prints the levels and what they need
    #[arg(long)]
    list: bool,
    /// Levels to run [default: all]
    levels: Vec<String>,
}

/// What became of a level.
enum End {
    Passed,
    Failed(String),
    Skipped(String),
}

struct Done {
    name: &'static str,
    end: End,
    tally: Tally,
    took: Duration,
}

/// Runs the levels; the exit code is 0 only when nothing failed.
pub fn run(args: &Args) -> Result<ExitCode> {
    if args.list {
        for level in LEVELS {
            let needs: Vec<&str> = level.needs.programs.iter().map(|(program, _)| *program).collect();
            let needs =
                if needs.is_empty() { String::new() } else { format!("; needs {}", needs.join(", ")) };
            println!("{:8} {}{needs}", level.name, level.help);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(unknown) = args.levels.iter().find(|name| LEVELS.iter().all(|level| level.name != **name)) {
        bail!("there is no level {unknown:?}; 'cargo xtask test --list' prints them");
    }
    let set =
        |name: &str| std::env::var(name).is_ok_and(|value| !["", "0", "false"].contains(&value.as_str()));
    let require_all = REQUIRE_ALL.iter().any(|name| set(name));
    let chosen =
        LEVELS.iter().filter(|level| args.levels.is_empty() || args.levels.iter().any(|n| n == level.name));
    let mut all = Vec::new();
    for level in chosen {
        eprintln!("\n== {}: {}", level.name, level.help);
        let done = one(level, args.long, require_all);
        if let End::Failed(why) | End::Skipped(why) = &done.end {
            eprintln!("== {}: {why}", level.name);
        }
        all.push(done);
    }
    Ok(summary(&all))
}

fn one(level: &Level, long: bool, require_all: bool) -> Done {
    let born = Instant::now();
    let mut tally = Tally::default();
    let end = match missing(level) {
        Some(why) if require_all => End::Failed(format!("not run, and nothing may be skipped here: {why}")),
        Some(why) => End::Skipped(why),
        None => match start(level, long, &mut tally) {
            Ok(()) if level.has_tests && tally.passed == 0 && tally.skipped == 0 => {
                End::Failed("it ran no test at all".to_owned())
            }
            Ok(()) => End::Passed,
            Err(error) => End::Failed(format!("{error:#}")),
        },
    };
    if !level.has_tests {
        match end {
            End::Passed => tally.passed += 1,
            End::Failed(_) => tally.failed += 1,
            End::Skipped(_) => tally.skipped += 1,
        }
    } else if tally == Tally::default() {
        match end {
            End::Skipped(_) => tally.skipped += 1,
            _ => tally.failed += 1,
        }
    }
    Done { name: level.name, end, tally, took: born.elapsed() }
}

fn start(level: &Level, long: bool, tally: &mut Tally) -> Result<()> {
    let mut command = match &level.run {
        Run::Check(check) => return check(),
        Run::Program(command) => command(),
    };
    if long {
        command.envs(LONG);
    }
    // Everything is shown as it comes; the lines that count tests are read on the way.
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("starting {}", shown(&command)))?;
    if let Some(stdout) = child.stdout.take() {
        let reader = thread::spawn(move || {
            let mut tally = Tally::default();
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line).into_owned();
                tally.read(&line);
                println!("{line}");
            }
            tally
        });
        tally.add(&reader.join().unwrap_or_default());
    }
    let status = child.wait().context("waiting for a level")?;
    if !status.success() {
        bail!("failed ({status}): {}", shown(&command));
    }
    Ok(())
}

/// A command as one may type it.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Prints the table and, last, the sums.
fn summary(all: &[Done]) -> ExitCode {
    println!("\n{:8}  {:8}  {:>7}  {:>7}  {:>7}  {:>8}", "level", "", "passed", "failed", "skipped", "time");
    let mut sum = Tally::default();
    let mut failed = false;
    for done in all {
        let (word, why) = match &done.end {
            End::Passed => ("passed", ""),
            End::Failed(why) => ("FAILED", why.as_str()),
            End::Skipped(why) => ("skipped", why.as_str()),
        };
        let Tally { passed, failed: lost, skipped, .. } = done.tally;
        let took = done.took.as_secs_f64();
        println!("{:8}  {word:8}  {passed:>7}  {lost:>7}  {skipped:>7}  {took:>7.1}s  {why}", done.name);
        sum.add(&done.tally);
        failed |= matches!(done.end, End::Failed(_));
    }
    // A level may fail although none of its tests did: it did not compile, or ended too early.
    if failed && sum.failed == 0 {
        sum.failed = 1;
    }
    for name in &sum.ignored {
        println!("not run: {name}");
    }
    println!("\n{} passed, {} failed, {} skipped", sum.passed, sum.failed, sum.skipped);
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
