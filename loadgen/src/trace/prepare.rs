//! Before a replay: what the trace says, and what must be there for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use trellis_client::types::CreateOptions;
use trellis_client::{Client, Error as CallError};
use trellis_proto::exception::Kind as Exception;

use super::account::Account;
use super::commands::{Command, Kind};
use super::model::Model;
use super::place::Place;
use super::steps::{Filter, Steps, Verdict};
use super::twice::{Seen, Source};
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::stop::Stop;
use crate::tree::each;

/// Objects that are made at once.
const WORKERS: u32 = 64;
/// Lines between two looks at the progress.
const SHOWN_EVERY: u64 = 1 << 16;
/// A replay by many users has a connection for each.
const MAX_USERS: usize = 10_000;
/// Of what is made, for one user and for many: these may all do everything.
const MODES: [(u16, u16); 2] = [(0o755, 0o644), (0o777, 0o666)];
/// Of a directory that nobody else may enter.
const CLOSED_MODE: u16 = 0o700;
/// In the closed directory: a replay has begun here.
const TAKEN: &str = "taken";

/// What a trace looks like, for who has given something else.
const LOOKS: &str = "A trace is UTF-8 text: an audit log (2023-11-14 22:13:20,123 INFO FSNamesystem.audit: allowed=true, ugi=, \
                     ip=, cmd=, src=, dst=, perm=, with tabs between them), or Dynamometer's table (milliseconds, user, \
                     command, source, destination, address, with U+0001 or commas between them)";

/// What a trace says, from its first line to its last.
#[derive(Debug)]
pub struct Plan {
    /// Lines that were read, which are replayed.
    pub seen: Seen,
    /// When the last line begins that is replayed, ms after the first.
    pub last_ms: u64,
    /// How often each command is replayed.
    pub commands: BTreeMap<Command, u64>,
    /// Numbers of users, by name.
    pub users: HashMap<String, u32>,
    /// What there is, and was.
    pub model: Model,
}

/// What was made before a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Prepared {
    /// Directories.
    pub dirs: u64,
    /// Files.
    pub files: u64,
    /// How long it took, seconds.
    pub took_s: f64,
}

impl Plan {
    /// Reads a trace. Blocks.
    ///
    /// # Errors
    /// A file cannot be read; there is nothing to replay; there are too many paths or users. [`Error::Ended`]: somebody
    /// ended it.
    pub fn read(
        files: &[Source],
        place: &Place,
        filter: Filter,
        as_logged: bool,
        stop: &Stop,
    ) -> Result<Plan> {
        let mut steps = Steps::new(files, place.clone(), filter);
        let mut plan = Plan {
            seen: Seen::default(),
            last_ms: 0,
            commands: BTreeMap::new(),
            users: HashMap::new(),
            model: Model::default(),
        };
        let progress = Progress::new("reading the trace", 0, "lines, {per_sec}");
        let mut account = Account::default();
        while let Some(verdict) = steps.read()? {
            if stop.is_asked() {
                return Err(Error::Ended);
            }
            plan.seen.note(steps.digest());
            account.note(&verdict);
            if account.lines.is_multiple_of(SHOWN_EVERY) {
                progress.add(SHOWN_EVERY);
            }
            let Verdict::Step(step) = verdict else { continue };
            plan.last_ms = step.at_ms;
            *plan.commands.entry(step.command).or_default() += 1;
            let user = plan.user(&step.user);
            // A line that sets the owner says who it is from then on.
            let rights = step.rights.as_ref().filter(|_| step.command != Command::SetOwner);
            let owner = rights.map(|rights| plan.user(&rights.owner));
            plan.model.note(&step, user, owner)?;
        }
        if plan.commands.is_empty() {
            return Err(nothing(files, &account));
        }
        if as_logged && plan.users.len() > MAX_USERS {
            return Err(Error::refused(format!(
                "the trace has {} users, --as-logged is for {MAX_USERS} at most: leave it out, or replay a part of it",
                plan.users.len()
            )));
        }
        Ok(plan)
    }

    fn user(&mut self, name: &str) -> u32 {
        if let Some(number) = self.users.get(name) {
            return *number;
        }
        let number = self.users.len() as u32;
        self.users.insert(name.to_owned(), number);
        number
    }

    /// Names of the users, by number.
    pub fn user_names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.users.iter().map(|(name, number)| (*number, name.as_str())).collect();
        names.sort_unstable();
        names.into_iter().map(|(_, name)| name).collect()
    }
}

/// The error when a trace has nothing to replay.
fn nothing(files: &[Source], account: &Account) -> Error {
    let names = files.iter().map(|file| file.path.display().to_string()).collect::<Vec<_>>().join(", ");
    if account.lines == 0 {
        return Error::refused(format!("{names}: there is no line to replay. {LOOKS}"));
    }
    let (lines, reasons) = (account.lines, account.reasons());
    // Whoever asked for another time has a trace.
    let looks = if account.broken.is_empty() { String::new() } else { format!(". {LOOKS}") };
    Error::refused(format!("{names}: none of the {lines} lines can be replayed: {reasons}{looks}"))
}

/// Takes a base directory, which must be empty or absent; `fresh`: what an earlier replay left there is deleted.
pub async fn take(client: &Client, base: &str, place: &Place, fresh: bool, as_logged: bool) -> Result<()> {
    let mut others = Vec::new();
    let is_there = client.get_file_info(base).await?.is_some();
    if is_there {
        let mut listing = client.get_listing(base);
        while let Some(entry) = listing.next().await? {
            others.push(entry.name);
        }
    }
    let is_ours = others.iter().all(|name| Place::NAMES.contains(&name.as_str()));
    match (others.is_empty(), is_ours, fresh) {
        (true, ..) => {}
        (false, true, true) => {
            client.delete(base, true).await?;
        }
        (false, true, false) => {
            return Err(Error::refused(format!(
                "{base} holds what an earlier replay left: --fresh deletes it, or give another --base"
            )));
        }
        (false, false, _) => {
            return Err(Error::refused(format!("{base} holds something else: give another --base")));
        }
    }
    client.mkdirs(base, MODES[0].0, true).await?;
    client.mkdirs(&place.root, MODES[usize::from(as_logged)].0, false).await?;
    client.mkdirs(&place.closed, CLOSED_MODE, false).await?;
    let taken = client.create_empty(&format!("{}/{TAKEN}", place.closed), &CreateOptions::default()).await;
    match taken {
        Ok(_) => Ok(()),
        Err(error) => match error.kind() {
            // The other one may not have closed it yet.
            Some(Exception::FileAlreadyExists | Exception::AlreadyBeingCreated) => {
                Err(Error::refused(format!("another replay has begun in {base}: give another --base")))
            }
            _ => Err(error.into()),
        },
    }
}

/// Whether a user who may not enter the closed directory is refused. Where permissions are not checked, nobody is.
pub async fn is_closed(stranger: &Client, place: &Place) -> Result<bool> {
    match stranger.get_file_info(&format!("{}/{TAKEN}", place.closed)).await {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == Some(Exception::AccessControl) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Makes what must be there when the trace begins. `as_logged`: it is given to its users, and all may do everything with it.
pub async fn prepare(
    clients: &[Client],
    place: &Place,
    plan: Plan,
    as_logged: bool,
) -> Result<(Plan, Prepared)> {
    let began = Instant::now();
    let mut plan = plan;
    let levels = plan.model.levels();
    let count: usize = levels.iter().map(Vec::len).sum();
    let progress = Progress::new("preparing", count as u64, "directories and files, {per_sec}, {eta}");
    let mut prepared = Prepared::default();
    let owners: Vec<String> = match as_logged {
        true => plan.user_names().into_iter().map(str::to_owned).collect(),
        false => Vec::new(),
    };
    let maker = Arc::new(Maker { place: place.clone(), plan, owners });
    for level in levels {
        let is_dir = level.first().is_some_and(|at| maker.plan.model.object(*at).kind == Kind::Directory);
        *if is_dir { &mut prepared.dirs } else { &mut prepared.files } += level.len() as u64;
        let (level, maker) = (Arc::new(level), maker.clone());
        let count = level.len() as u32;
        each(clients, count, WORKERS, &progress, move |client, number| {
            let (level, maker) = (level.clone(), maker.clone());
            async move {
                match level.get(number as usize) {
                    Some(at) => maker.make(&client, *at).await,
                    None => Ok(()),
                }
            }
        })
        .await?;
    }
    prepared.took_s = began.elapsed().as_secs_f64();
    // All workers have ended, so nobody else holds it.
    let maker = Arc::try_unwrap(maker).map_err(|_| Error::refused("a worker has not ended"))?;
    Ok((maker.plan, prepared))
}

struct Maker {
    place: Place,
    plan: Plan,
    /// By number; none: all is its maker's.
    owners: Vec<String>,
}

impl Maker {
    async fn make(&self, client: &Client, at: u32) -> Result<()> {
        let object = self.plan.model.object(at);
        let path = self.place.of(&object.path, true);
        let (dir_mode, file_mode) = MODES[usize::from(!self.owners.is_empty())];
        match object.kind {
            Kind::Directory => drop(client.mkdirs(&path, dir_mode, true).await?),
            Kind::File => {
                let options = CreateOptions { permission: file_mode, ..CreateOptions::default() };
                client.create_empty(&path, &options).await?;
            }
        }
        let Some(owner) = self.owners.get(object.user as usize) else { return Ok(()) };
        client.set_owner(&path, Some(owner), None).await.map_err(not_superuser)
    }
}

fn not_superuser(error: CallError) -> Error {
    match error.kind() {
        Some(Exception::AccessControl) => Error::refused(format!(
            "--as-logged gives what it prepares to its users, which only the superuser can (HADOOP_USER_NAME says who you \
             are): {error}"
        )),
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::steps::tests::{ALL, line};

    fn plan(name: &str, bytes: &[u8], filter: Filter, stop: &Stop) -> Result<Plan> {
        let path = std::env::temp_dir().join(format!("trellis-plan-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).expect("written");
        let plan = Plan::read(&[Source::once(&path)], &Place::below("/replay"), filter, false, stop);
        std::fs::remove_file(&path).expect("it is there");
        plan
    }

    #[test]
    fn what_is_no_trace_is_told_with_its_name_and_why() {
        let utf16: Vec<u8> =
            line(0, "open", "/a", "null").encode_utf16().flat_map(u16::to_le_bytes).collect();
        for (name, bytes, why) in [
            (
                "binary",
                &b"\x7fELF\xff\n\xff\xfe\n"[..],
                "none of the 2 lines can be replayed: 2: not UTF-8 (first line 1: \\u{7f}ELF",
            ),
            ("utf16", &utf16, "not six fields (first line 1: 2\\00\\02"),
            (
                "columns",
                b"ann,10,open,/a,,ip\n",
                "1: the first field is no number of milliseconds (first line 1: ann 10 open",
            ),
            ("json", b"{\n\n\x1b[2J}\n", "2: not six fields (first line 1: {); 1: empty"),
            ("empty", b"", "there is no line to replay"),
        ] {
            let error = plan(name, bytes, ALL, &Stop::default()).expect_err(name).to_string();
            assert!(error.contains(&format!("-{name}: ")) && error.contains(why), "{error}");
            assert!(error.contains("an audit log (2023-") && error.contains("Dynamometer"), "{error}");
            assert!(!error.contains(|c: char| c.is_control()), "{error:?}");
        }
    }

    #[test]
    fn a_trace_of_another_time_is_not_told_what_traces_look_like() {
        let late = Filter { from_ms: 1, ..ALL };
        let trace = line(0, "open", "/a", "null") + &line(0, "fly", "/a", "null");
        let error = plan("late", trace.as_bytes(), late, &Stop::default()).expect_err("all is too early");
        let wanted = "none of the 2 lines can be replayed: 2: outside of --from and --until";
        assert!(error.to_string().ends_with(wanted), "{error}");
    }

    #[test]
    fn reading_ends_when_it_is_asked_to() {
        let (trace, stop) = (line(0, "open", "/a", "null"), Stop::default());
        assert_eq!(plan("goes-on", trace.as_bytes(), ALL, &stop).expect("a trace").seen.lines, 1);
        stop.ask();
        assert!(matches!(plan("ended", trace.as_bytes(), ALL, &stop), Err(Error::Ended)));
    }
}
