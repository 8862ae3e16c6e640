//! rm, rmdir.

use std::time::{SystemTime, UNIX_EPOCH};

use trellis_client::Error;

use super::place::Place;
use super::shell::{Found, Shell, why};
use super::walk::{child, name, parent};

/// Deletes files, and with -r directories. Where the cluster keeps a trash, they go to /user/NAME/.Trash.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs rm -r /user/ann/old")]
pub struct Rm {
    /// Directories with all that is below
    #[arg(short = 'r', short_alias = 'R')]
    recursive: bool,
    /// What does not exist is fine
    #[arg(short = 'f')]
    force: bool,
    /// At once, not into the trash
    #[arg(long, alias = "skipTrash")]
    skip_trash: bool,
    /// Paths or patterns
    #[arg(required = true)]
    pub paths: Vec<String>,
}

impl Rm {
    pub async fn run(self, shell: &mut Shell) {
        let defaults = shell.client.get_server_defaults().await;
        let Some(defaults) = shell.check("rm", defaults) else { return };
        let trash = !self.skip_trash && defaults.trash_interval_minutes > 0;
        for path in &self.paths {
            let found = match shell.expand(path).await {
                Ok(found) => found,
                Err(error) => {
                    shell.fail("rm", format_args!("{error:#}"));
                    continue;
                }
            };
            if found.is_empty() && !self.force {
                shell.fail("rm", shell.place(path).missing());
            }
            for Found { place, status } in found {
                match status.is_dir() && !self.recursive {
                    true => shell.fail(
                        "rm",
                        format_args!(
                            "`{}': Is a directory; give -r to delete it and all below",
                            place.shown()
                        ),
                    ),
                    false => remove(shell, &place, trash).await,
                }
            }
        }
    }
}

async fn remove(shell: &mut Shell, place: &Place, trash: bool) {
    let (path, shown) = (place.path.as_str(), place.shown());
    let bin = format!("{}/.Trash", shell.client.home());
    let in_trash = path == bin || path.starts_with(&format!("{bin}/"));
    if trash && !in_trash {
        if format!("{bin}/").starts_with(&format!("{}/", path.trim_end_matches('/'))) {
            return shell
                .fail("rm", format_args!("`{shown}': holds the trash; give --skip-trash to delete it"));
        }
        return match to_trash(shell, path, &bin).await {
            Ok(to) => shell.say(format_args!("Moved {shown} to the trash: {to}")),
            Err(error) => shell.fail(
                "rm",
                format_args!(
                    "`{shown}': not moved to the trash: {}; give --skip-trash to delete it at once",
                    why(&error)
                ),
            ),
        };
    }
    let deleted = shell.client.delete(path, true).await;
    match shell.check("rm", deleted) {
        Some(true) => shell.say(format_args!("Deleted {shown}")),
        Some(false) => shell.fail("rm", format_args!("`{shown}': Input/output error")),
        None => {}
    }
}

/// Moves a path to the same place below `Current`; a name that is taken gets the time appended.
async fn to_trash(shell: &Shell, path: &str, bin: &str) -> Result<String, Error> {
    let to = format!("{bin}/Current{path}");
    shell.client.mkdirs(parent(&to).unwrap_or(bin), 0o700, true).await?;
    let to = match shell.client.get_file_info(&to).await? {
        None => to,
        Some(_) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            child(parent(&to).unwrap_or(bin), &format!("{}{}", name(&to), now.as_millis()))
        }
    };
    shell.client.rename2(path, &to, false).await?;
    Ok(to)
}

/// Deletes empty directories.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs rmdir /user/ann/empty")]
pub struct Rmdir {
    /// One that is not empty stays, and that is fine
    #[arg(long)]
    ignore_fail_on_non_empty: bool,
    /// Paths or patterns
    #[arg(required = true)]
    pub paths: Vec<String>,
}

impl Rmdir {
    pub async fn run(self, shell: &mut Shell) {
        for Found { place, status } in shell.find("rmdir", &self.paths).await {
            let path = place.shown();
            if !status.is_dir() {
                shell.fail("rmdir", format_args!("`{path}': Is not a directory"));
                continue;
            }
            match shell.client.delete(&place.path, false).await {
                Ok(true) => {}
                Ok(false) => shell.fail("rmdir", format_args!("`{path}': Input/output error")),
                Err(error) if why(&error).contains("is non empty") => {
                    if !self.ignore_fail_on_non_empty {
                        shell.fail("rmdir", format_args!("`{path}': Directory is not empty"));
                    }
                }
                Err(error) => shell.fail("rmdir", why(&error)),
            }
        }
    }
}
