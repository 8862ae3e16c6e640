//! chmod, chown, chgrp, setrep.

use std::time::Duration;

use tokio::time::sleep;
use trellis_client::Error;
use trellis_client::types::FileStatus;

use super::mode::Mode;
use super::place::Place;
use super::shell::{Found, Shell, why};
use super::walk::Walk;

/// How often copies that are waited for are counted.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Changes permission bits.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  trellis fs chmod -R g+w /user/ann\n  trellis fs chmod 1777 /tmp")]
pub struct Chmod {
    /// With all that is below
    #[arg(short = 'R')]
    recursive: bool,
    /// 755, or u+x,g-w,o=r; t is the sticky bit
    #[arg(value_parser = Mode::parse, allow_hyphen_values = true)]
    mode: Mode,
    /// Paths or patterns
    #[arg(required = true)]
    pub paths: Vec<String>,
}

impl Chmod {
    pub async fn run(self, shell: &mut Shell) {
        let client = shell.client.clone();
        let change = async |path: &str, status: &FileStatus| {
            let bits = self.mode.apply(status.permission, status.is_dir());
            match bits == status.permission {
                true => Ok(()),
                false => client.set_permission(path, bits).await,
            }
        };
        each(shell, "chmod", &self.paths, self.recursive, change).await;
    }
}

/// Changes owner, group or both.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  trellis fs chown -R ann:staff /user/ann\n  trellis fs chown :staff /data"
)]
pub struct Chown {
    /// With all that is below
    #[arg(short = 'R')]
    recursive: bool,
    /// OWNER, OWNER:GROUP or :GROUP
    #[arg(value_name = "OWNER[:GROUP]", value_parser = owner)]
    owner: Owner,
    /// Paths or patterns
    #[arg(required = true)]
    pub paths: Vec<String>,
}

/// Whom something shall belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    user: Option<String>,
    group: Option<String>,
}

fn owner(text: &str) -> Result<Owner, String> {
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    let some = |name: &str| (!name.is_empty()).then(|| name.to_owned());
    let owner = Owner { user: some(user), group: some(group) };
    if owner.user.is_none() && owner.group.is_none() {
        return Err("give OWNER, OWNER:GROUP or :GROUP".to_owned());
    }
    Ok(owner)
}

impl Chown {
    pub async fn run(self, shell: &mut Shell) {
        own(shell, "chown", &self.paths, self.recursive, &self.owner).await;
    }
}

/// Changes the group.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs chgrp -R staff /data")]
pub struct Chgrp {
    /// With all that is below
    #[arg(short = 'R')]
    recursive: bool,
    /// The group
    group: String,
    /// Paths or patterns
    #[arg(required = true)]
    pub paths: Vec<String>,
}

impl Chgrp {
    pub async fn run(self, shell: &mut Shell) {
        let owner = Owner { user: None, group: Some(self.group) };
        own(shell, "chgrp", &self.paths, self.recursive, &owner).await;
    }
}

async fn own(shell: &mut Shell, verb: &str, paths: &[String], recursive: bool, owner: &Owner) {
    let client = shell.client.clone();
    let change = async |path: &str, status: &FileStatus| {
        let same = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        match same(&owner.user, &status.owner) && same(&owner.group, &status.group) {
            true => Ok(()),
            false => client.set_owner(path, owner.user.as_deref(), owner.group.as_deref()).await,
        }
    };
    each(shell, verb, paths, recursive, change).await;
}

/// Changes the replication of files, and of all files below directories.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs setrep 2 /user/ann")]
pub struct Setrep {
    /// For the stock shell's sake; directories are always gone through
    #[arg(short = 'R')]
    _recursive: bool,
    /// Waits until the copies are there
    #[arg(short = 'w')]
    wait: bool,
    /// Copies of each block
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    replication: u16,
    /// Paths or patterns
    #[arg(required = true)]
    pub paths: Vec<String>,
}

impl Setrep {
    pub async fn run(self, shell: &mut Shell) {
        for Found { place, status } in shell.find("setrep", &self.paths).await {
            if !status.is_dir() {
                self.set(shell, &place).await;
                continue;
            }
            let mut walk = Walk::below(&shell.client, &place.path);
            while let Some(next) = walk.next().await {
                match next {
                    Ok((path, entry)) if !entry.is_dir() => self.set(shell, &place.at(path)).await,
                    Ok(_) => {}
                    Err(error) => shell.fail("setrep", why(&error)),
                }
            }
        }
    }

    async fn set(&self, shell: &mut Shell, place: &Place) {
        let shown = place.shown();
        let set = shell.client.set_replication(&place.path, self.replication).await;
        match shell.check("setrep", set) {
            Some(true) => shell.say(format_args!("Replication {} set: {shown}", self.replication)),
            Some(false) => {
                return shell.fail("setrep", format_args!("`{shown}': is no file any more: look again"));
            }
            None => return,
        }
        if self.wait {
            self.wait(shell, place).await;
        }
    }

    /// Waits until every block of a file has as many copies as it should.
    async fn wait(&self, shell: &mut Shell, place: &Place) {
        let shown = place.shown();
        shell.print(format_args!("Waiting for {shown} ..."));
        let mut warned = false;
        loop {
            shell.flush();
            let blocks = shell.client.get_block_locations(&place.path).await;
            let Some(blocks) = shell.check("setrep", blocks) else { return };
            let wanted = usize::from(self.replication);
            match blocks.iter().map(|block| block.datanodes.len()).find(|copies| *copies != wanted) {
                None => return shell.say(" done"),
                Some(copies) if copies > wanted && !warned => {
                    warned = true;
                    shell.print(
                        "\nWARNING: the waiting time may be long for DECREASING the number of replications.\n",
                    );
                }
                Some(_) => shell.print("."),
            }
            sleep(LOOK_AGAIN).await;
        }
    }
}

/// Calls `change` for each path and, if asked, for all that is below; failures are told and the rest goes on.
async fn each(
    shell: &mut Shell,
    verb: &str,
    paths: &[String],
    recursive: bool,
    change: impl AsyncFn(&str, &FileStatus) -> Result<(), Error>,
) {
    for Found { place: Place { path, .. }, status } in shell.find(verb, paths).await {
        let done = change(&path, &status).await;
        shell.check(verb, done);
        if !(recursive && status.is_dir()) {
            continue;
        }
        let mut walk = Walk::below(&shell.client, &path);
        while let Some(next) = walk.next().await {
            let done = match next {
                Ok((path, status)) => change(&path, &status).await,
                Err(error) => Err(error),
            };
            shell.check(verb, done);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_come_with_or_without_group() {
        let both = owner("ann:staff").unwrap();
        assert_eq!((both.user.as_deref(), both.group.as_deref()), (Some("ann"), Some("staff")));
        assert_eq!(owner(":staff").unwrap().user, None);
        assert_eq!(owner("ann").unwrap().group, None);
        assert!(owner(":").is_err() && owner("").is_err());
    }
}
