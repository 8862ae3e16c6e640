//! Who calls: users, their groups (from the OS, as stock does by default), the superuser.

use std::ffi::CString;
use std::sync::Arc;
use std::time::Duration;

use quick_cache::sync::Cache;
use tokio::time::Instant;
use trellis_proto::exception::{Kind, RpcError};

/// How long an answer of the OS about a user's groups is used again (stock: 300 s).
const GROUPS_KEPT: Duration = Duration::from_secs(300);
/// How many users' groups are remembered.
const USERS_KEPT: usize = 4096;
/// The longest name of a user, group or client, in bytes: they stand in rows, which have a bound, and no operating system
/// has longer ones.
pub const MAX_NAME_BYTES: usize = 1024;
/// How much of one that is longer is shown.
const SHOWN_CHARS: usize = 32;

/// Refuses a name that is too long for a row; `what` it is the name of is for the message.
pub fn check_name(what: &str, name: &str) -> Result<(), RpcError> {
    if name.len() <= MAX_NAME_BYTES {
        return Ok(());
    }
    let start: String = name.chars().take(SHOWN_CHARS).collect();
    let why = format!("The {what} name {start}... is too long: {} bytes, limit={MAX_NAME_BYTES}", name.len());
    Err(RpcError::new(Kind::HadoopIllegalArgument, why))
}

/// The user of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Short name, as the client said it (simple authentication).
    pub name: String,
    /// Groups, primary first; none when the namenode's host does not know the user.
    pub groups: Vec<String>,
    /// Whether all permission checks are skipped.
    pub superuser: bool,
}

impl User {
    /// Whether the user is in a group.
    pub fn is_in(&self, group: impl AsRef<[u8]>) -> bool {
        self.groups.iter().any(|own| own.as_bytes() == group.as_ref())
    }
}

/// Says the groups of a user by name, primary first.
pub type Groups = Box<dyn Fn(&str) -> Vec<String> + Send + Sync>;

/// Looks users up.
pub struct Users {
    superuser: String,
    supergroup: String,
    groups: Groups,
    known: Cache<String, (Instant, Arc<User>)>,
}

impl Users {
    /// `superuser`: the name of the user that runs the namenode; `supergroup`: its members are superusers as well.
    pub fn new(superuser: String, supergroup: String) -> Users {
        Users::with_groups(superuser, supergroup, Box::new(os_groups))
    }

    /// The same with groups from elsewhere than the OS.
    pub fn with_groups(superuser: String, supergroup: String, groups: Groups) -> Users {
        Users { superuser, supergroup, groups, known: Cache::new(USERS_KEPT) }
    }

    /// The user that runs this process.
    pub fn of_process() -> String {
        let uid = nix::unistd::geteuid();
        match nix::unistd::User::from_uid(uid) {
            Ok(Some(user)) => user.name,
            _ => uid.to_string(),
        }
    }

    /// The user that runs the namenode.
    pub fn superuser(&self) -> &str {
        &self.superuser
    }

    /// The group whose members are superusers, and which owns what has no other group.
    pub fn supergroup(&self) -> &str {
        &self.supergroup
    }

    /// The user with this name (a full principal is cut to its short name).
    pub fn get(&self, name: &str) -> Arc<User> {
        let short = name.split(['/', '@']).next().unwrap_or(name);
        if let Some(user) = self.known(short) {
            return user;
        }
        let groups = (self.groups)(short);
        let superuser = short == self.superuser || groups.contains(&self.supergroup);
        let user = Arc::new(User { name: short.to_owned(), groups, superuser });
        self.known.insert(short.to_owned(), (Instant::now(), user.clone()));
        user
    }

    /// The user with this name, if the OS was asked about it a short time ago: never waits.
    pub fn known(&self, name: &str) -> Option<Arc<User>> {
        let short = name.split(['/', '@']).next().unwrap_or(name);
        self.known.get(short).filter(|(at, _)| at.elapsed() < GROUPS_KEPT).map(|(_, user)| user)
    }

    /// Forgets what the OS said (`dfsadmin -refreshUserToGroupsMappings`).
    pub fn refresh(&self) {
        self.known.clear();
    }
}

/// The groups of a user as the OS knows them; none for an unknown user.
fn os_groups(name: &str) -> Vec<String> {
    let Ok(Some(user)) = nix::unistd::User::from_name(name) else { return Vec::new() };
    let Ok(c_name) = CString::new(name) else { return Vec::new() };
    let gids = nix::unistd::getgrouplist(&c_name, user.gid).unwrap_or_default();
    gids.into_iter()
        .filter_map(|gid| nix::unistd::Group::from_gid(gid).ok().flatten())
        .map(|group| group.name)
        .collect()
}
