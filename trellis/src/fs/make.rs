//! mkdir, touchz, touch, mv.

use std::time::{SystemTime, UNIX_EPOCH};

use trellis_client::types::CreateOptions;

use super::place::Place;
use super::shell::{Found, Shell};
use super::text;
use super::walk::{child, name, parent};

/// Makes directories.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs mkdir -p /user/ann/in")]
pub struct Mkdir {
    /// With those above that are missing; one that exists is fine
    #[arg(short = 'p')]
    parents: bool,
    /// Paths
    #[arg(required = true)]
    pub paths: Vec<String>,
}

impl Mkdir {
    pub async fn run(self, shell: &mut Shell) {
        for path in &self.paths {
            let place = shell.place(path);
            let path = &place.path;
            if !self.parents {
                let info = shell.client.get_file_info(path).await;
                let Some(info) = shell.check("mkdir", info) else { continue };
                if info.is_some() {
                    shell.fail("mkdir", format_args!("`{}': File exists", place.shown()));
                    continue;
                }
                if !has_parent(shell, "mkdir", &place).await {
                    continue;
                }
            }
            let made = shell.client.mkdirs(path, 0o777, self.parents).await;
            shell.check("mkdir", made);
        }
    }
}

/// Makes empty files; one that exists must be empty.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs touchz /user/ann/in/_SUCCESS")]
pub struct Touchz {
    /// Paths
    #[arg(required = true)]
    pub paths: Vec<String>,
}

impl Touchz {
    pub async fn run(self, shell: &mut Shell) {
        for path in &self.paths {
            let place = shell.place(path);
            let info = shell.client.get_file_info(&place.path).await;
            let Some(info) = shell.check("touchz", info) else { continue };
            match info {
                Some(status) if status.is_dir() => {
                    shell.fail("touchz", format_args!("`{}': Is a directory", place.shown()))
                }
                Some(status) if status.length > 0 => {
                    shell.fail("touchz", format_args!("`{}': Not a zero-length file", place.shown()));
                }
                // As stock: a new file in its place, as `-touchz` sets the times too.
                there => {
                    let options = CreateOptions { overwrite: there.is_some(), ..shell.create_options() };
                    let made = shell.client.create_empty(&place.path, &options).await;
                    shell.check("touchz", made);
                }
            }
        }
    }
}

/// Sets times to now, or to a given one; makes a file that is missing.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  trellis fs touch /user/ann/in/part-0\n  \
    trellis fs touch -m -t 20261130:205753 /user/ann/in/part-0")]
pub struct Touch {
    /// The access time only
    #[arg(short = 'a')]
    access: bool,
    /// The modification time only
    #[arg(short = 'm')]
    modification: bool,
    /// The time to set, in UTC, as yyyyMMdd:HHmmss
    #[arg(short = 't', value_name = "TIME", value_parser = text::parse_time)]
    time: Option<SystemTime>,
    /// Makes no file
    #[arg(short = 'c')]
    no_create: bool,
    /// Paths
    #[arg(required = true)]
    pub paths: Vec<String>,
}

impl Touch {
    pub async fn run(self, shell: &mut Shell) {
        let time = self.time.unwrap_or_else(SystemTime::now).duration_since(UNIX_EPOCH).unwrap_or_default();
        let time_ms = u64::try_from(time.as_millis()).unwrap_or(0);
        let (atime, mtime) = (self.access || !self.modification, self.modification || !self.access);
        for path in &self.paths {
            let Place { path, .. } = shell.place(path);
            let info = shell.client.get_file_info(&path).await;
            let Some(info) = shell.check("touch", info) else { continue };
            if info.is_none() {
                if self.no_create {
                    continue;
                }
                let made = shell.client.create_empty(&path, &shell.create_options()).await;
                // A new file has the time that it is.
                if shell.check("touch", made).is_none() || self.time.is_none() {
                    continue;
                }
            }
            let (mtime, atime) = (mtime.then_some(time_ms), atime.then_some(time_ms));
            let set = shell.client.set_times(&path, mtime, atime).await;
            shell.check("touch", set);
        }
    }
}

/// Renames, or moves into a directory.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs mv /user/ann/in /user/ann/done")]
pub struct Mv {
    /// What to move (paths or patterns), and last where to
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    pub paths: Vec<String>,
}

impl Mv {
    pub async fn run(mut self, shell: &mut Shell) {
        let Some(target) = self.paths.pop().map(|path| shell.place(&path)) else { return };
        let info = shell.client.get_file_info(&target.path).await;
        let Some(info) = shell.check("mv", info) else { return };
        let into = info.as_ref().is_some_and(trellis_client::types::FileStatus::is_dir);
        let found = shell.find("mv", &self.paths).await;
        if !into && (self.paths.len() > 1 || found.len() > 1) {
            return match info {
                None => shell.fail("mv", target.missing()),
                Some(_) => shell.fail("mv", format_args!("`{}': Is not a directory", target.shown())),
            };
        }
        for Found { place, .. } in found {
            let to = match into {
                true => target.at(child(&target.path, name(&place.path))),
                false => target.clone(),
            };
            move_one(shell, &place, &to).await;
        }
    }
}

async fn move_one(shell: &mut Shell, from: &Place, to: &Place) {
    let both = format!("`{}' to `{}'", from.shown(), to.shown());
    let below = to.path.strip_prefix(from.path.as_str());
    if below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        return shell.fail("mv", format_args!("{both}: is a subdirectory of itself"));
    }
    let there = shell.client.get_file_info(&to.path).await;
    match shell.check("mv", there) {
        None => return,
        Some(Some(_)) => return shell.fail("mv", format_args!("`{}': File exists", to.shown())),
        Some(None) => {}
    }
    if !has_parent(shell, "mv", to).await {
        return;
    }
    let moved = shell.client.rename(&from.path, &to.path).await;
    if shell.check("mv", moved) == Some(false) {
        shell.fail("mv", format_args!("{both}: the namenode refused; one of them has changed: look again"));
    }
}

/// Whether there is a place for a new entry; it is told when there is none.
pub async fn has_parent(shell: &mut Shell, verb: &str, place: &Place) -> bool {
    let above = place.at(parent(&place.path).unwrap_or("/").to_owned());
    let info = shell.client.get_file_info(&above.path).await;
    match shell.check(verb, info) {
        None => false,
        Some(Some(_)) => true,
        Some(None) => {
            shell.fail(verb, format_args!("{}; make it with mkdir -p", above.missing()));
            false
        }
    }
}
