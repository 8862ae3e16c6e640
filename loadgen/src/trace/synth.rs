//! A synthetic audit log: what the stock NameNode would write while a mix is done to a namespace. A pure function of its
//! configuration.

use std::borrow::Cow;
use std::sync::Arc;

use crc_fast::CrcAlgorithm;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::commands::Command;
use super::line::{Entry, Rights, write_entry};
use super::sink::Sink;
use crate::arrivals::{Arrivals, Schedule};
use crate::build::check_base;
use crate::config::{Config, Hot, Popularity};
use crate::error::{Error, Result};
use crate::mix::{Op, Workload};
use crate::namespace::{Spec, mixed};
use crate::ops::Task;
use crate::pick::{Picker, Picks};
use crate::tree::Tree;

/// When a trace begins, ms since 1970: 2024-01-01.
const BEGIN_MS: u64 = 1_704_067_200_000;
/// Of all that users own.
const GROUP: &str = "users";
const MAX_USERS: u32 = 60_000;
/// Times have years of four digits.
const MAX_SECONDS: f64 = 1e10;
/// Modes of files: that of new ones, and another. Everybody reads what one changes.
const FILE_MODES: [u16; 2] = [0o644, 0o664];
/// The same of directories.
const DIR_MODES: [u16; 2] = [0o755, 0o775];
/// Number of an operation's generator beside the picker's.
const OWN_RANDOM: u64 = 0x7ace;

/// What a trace is to be like.
#[derive(Debug, Clone, PartialEq)]
pub struct Synth {
    /// What is done.
    pub workload: Workload,
    /// Percent of creates in place of the workload's own.
    pub create_share: Option<f64>,
    /// What there is.
    pub spec: Spec,
    /// Where it lies.
    pub root: String,
    /// So many lines.
    pub lines: u64,
    /// Lines a second.
    pub rate: f64,
    /// How they follow one another.
    pub arrivals: Arrivals,
    /// Which files are liked more than others.
    pub popularity: Popularity,
    /// Part of the operations that goes to a part of the directories.
    pub hot: Option<Hot>,
    /// Users, each at an address of its own.
    pub users: u32,
    /// So many percent of the lines were refused.
    pub refused_percent: f64,
    /// Of all that is drawn.
    pub seed: u64,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Lines; fewer than asked for when there was nothing left to work on.
    pub lines: u64,
    /// From the first to the last, ms.
    pub span_ms: u64,
}

impl Synth {
    fn check(&self) -> Result<()> {
        check_base(&self.root).map_err(|_| {
            Error::refused(format!("--root {}: give an absolute path such as /data", self.root))
        })?;
        self.spec.check(&self.root)?;
        let has_end = self.rate > 0.0 && self.lines as f64 / self.rate <= MAX_SECONDS;
        let has_users = (1..=MAX_USERS).contains(&self.users);
        if has_end && has_users && (0.0..=100.0).contains(&self.refused_percent) {
            return Ok(());
        }
        Err(Error::refused(format!(
            "--rate is above 0, and a trace not longer than 300 years; --users from 1 to {MAX_USERS}; --refused a percentage"
        )))
    }

    /// As pickers take it: files are there, and picked by popularity.
    fn config(&self) -> Config {
        Config {
            create_share: self.create_share,
            rate: Some(self.rate),
            arrivals: Some(self.arrivals),
            popularity: self.popularity,
            hot: self.hot,
            seed: self.seed,
            duration_s: self.lines as f64 / self.rate,
            ..Config::new("", &self.root, self.workload)
        }
        .effective()
    }

    /// Who changes a directory and what is in it: always the same user.
    fn owner(&self, task: &Task) -> u32 {
        let path = task.path.as_str();
        let dir = match task.op {
            Op::ChownDir | Op::ChmodDir => path,
            _ => path.rsplit_once('/').map_or(path, |(dir, _)| dir),
        };
        crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, dir.as_bytes()) as u32 % self.users
    }

    /// Writes the trace.
    pub fn write(&self, sink: &mut Sink) -> Result<Written> {
        self.check()?;
        let mix = self.workload.mix(self.create_share).map_err(Error::refused)?;
        let tree = Tree::absent(&self.root, self.spec.clone());
        (0..self.spec.files).for_each(|file| tree.set_generation(file, 0));
        let mut picker = Picker::new(Arc::new(Picks::new(&self.config(), mix, tree, self.seed as u32)), 0);
        let mut rng = StdRng::seed_from_u64(mixed(self.seed ^ OWN_RANDOM));
        let mut written = Written { lines: 0, span_ms: 0 };
        let mut line = String::new();
        let mut first = None;
        for start in Schedule::new(self.arrivals, self.rate, self.seed).take(self.lines as usize) {
            let Some((task, effect)) = picker.draw() else { break };
            let at_ms = start.as_millis() as u64;
            let anyone = rng.random_range(0..self.users);
            let allowed = rng.random::<f64>() * 100.0 >= self.refused_percent;
            line.clear();
            write_line(&mut line, &task, BEGIN_MS + at_ms, [anyone, self.owner(&task)], allowed);
            sink.write(&line)?;
            if allowed {
                picker.note(effect);
            }
            written = Written { lines: written.lines + 1, span_ms: at_ms - *first.get_or_insert(at_ms) };
        }
        Ok(written)
    }
}

/// `users`: who reads it, and who changes it.
fn write_line(line: &mut String, task: &Task, at_ms: u64, users: [u32; 2], allowed: bool) {
    let mode = |modes: [u16; 2]| modes[(task.variation % 2) as usize];
    // Stock writes what came of it for these only.
    let (command, mode) = match task.op {
        Op::Open => (Command::Open, None),
        Op::StatFile | Op::StatDir => (Command::GetFileInfo, None),
        Op::ListDir | Op::ListFile => (Command::ListStatus, None),
        Op::Create => (Command::Create, Some(FILE_MODES[0])),
        Op::Rename => (Command::Rename, Some(FILE_MODES[0])),
        Op::Delete => (Command::Delete, None),
        Op::ChownDir => (Command::SetOwner, Some(DIR_MODES[0])),
        Op::SetReplication => (Command::SetReplication, None),
        Op::ChmodFile => (Command::SetPermission, Some(mode(FILE_MODES))),
        Op::ChmodDir => (Command::SetPermission, Some(mode(DIR_MODES))),
        Op::Mkdir => (Command::Mkdirs, Some(DIR_MODES[0])),
        Op::Append => (Command::Append, None),
    };
    let user = users[usize::from(command.row().changes)];
    let name = format!("user{user:03}");
    let entry = Entry {
        at_ms,
        allowed,
        user: &name,
        command: command.row().name,
        // As the operation is done: by rename2, without overwrite.
        options: if command == Command::Rename { "NONE" } else { "" },
        src: Some(Cow::Borrowed(task.path.as_str())),
        dst: task.to.as_deref().map(Cow::Borrowed),
        rights: mode.filter(|_| allowed).map(|mode| Rights { owner: &name, group: GROUP, mode }),
    };
    let [high, low] = [user / 250, user % 250 + 1];
    write_entry(line, &entry, &format!("10.0.{high}.{low}"));
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::stop::Stop;
    use crate::trace::place::Place;
    use crate::trace::prepare::Plan;
    use crate::trace::steps::tests::ALL;
    use crate::trace::twice::Source;

    /// A trace of Spotify's mix.
    pub fn synth(lines: u64) -> Synth {
        Synth {
            workload: "spotify".parse().expect("one"),
            create_share: Some(10.0),
            spec: Spec { files: 300, ..Spec::default() },
            root: "/data".into(),
            lines,
            rate: 200.0,
            arrivals: Arrivals::Poisson,
            popularity: Popularity::Zipf(0.9),
            hot: None,
            users: 5,
            refused_percent: 2.0,
            seed: 7,
        }
    }

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("trellis-synth-{}-{name}", std::process::id()))
    }

    fn text(synth: &Synth, name: &str) -> String {
        let path = path(name);
        let mut sink = Sink::create(&path).expect("a new file");
        let written = synth.write(&mut sink).expect("written");
        sink.finish().expect("written");
        let text = std::fs::read_to_string(&path).expect("it is there");
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(text.lines().count() as u64, written.lines);
        text
    }

    #[test]
    fn one_seed_is_one_trace() {
        let one = text(&synth(2000), "one");
        assert_eq!(one, text(&synth(2000), "again"));
        assert!(one.starts_with(&text(&synth(100), "short")), "a shorter one is its beginning");
        assert_ne!(one, text(&Synth { seed: 8, ..synth(2000) }, "other"));
    }

    #[test]
    fn it_explains_itself() {
        let path = path("plan.gz");
        let mut sink = Sink::create(&path).expect("a new file");
        let written = synth(3000).write(&mut sink).expect("written");
        sink.finish().expect("written");
        assert!(Sink::create(&path).is_err(), "what is there is not overwritten");
        let plan = Plan::read(&[Source::once(&path)], &Place::below("/replay"), ALL, true, &Stop::default());
        std::fs::remove_file(&path).expect("it is there");
        let plan = plan.expect("it can be read");
        assert_eq!((plan.seen.lines, plan.model.unexplained), (3000, 0));
        assert_eq!(plan.commands.values().sum::<u64>(), 3000);
        assert_eq!(plan.last_ms, written.span_ms);
        assert_eq!(plan.users.len(), 5);
        let seconds = written.span_ms as f64 / 1000.0;
        assert!((3000.0 / seconds / 200.0 - 1.0).abs() < 0.1, "{seconds}");
    }

    #[test]
    fn the_shares_are_those_of_the_mix() {
        let text = text(&Synth { spec: Spec::default(), ..synth(20_000) }, "shares");
        let share = |part: &str| text.lines().filter(|line| line.contains(part)).count() as f64 / 200.0;
        assert!((share("\tcmd=create\t") - 10.0).abs() < 0.7, "{}", share("\tcmd=create\t"));
        assert!((share("\tcmd=open\t") - 68.73 * 0.9 / 0.973).abs() < 1.5);
        assert!((share("allowed=false\t") - 2.0).abs() < 0.4);
    }
}
