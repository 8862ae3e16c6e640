//! Who we are to the namenode.

use nix::unistd::{Uid, User};

/// The user of new clients: `HADOOP_USER_NAME` if it is set and not empty, else the name of the process's user.
/// A user id without a name gives the number itself, as text.
pub fn default_user() -> String {
    match std::env::var("HADOOP_USER_NAME") {
        Ok(name) if !name.is_empty() => name,
        _ => os_user(),
    }
}

fn os_user() -> String {
    let uid = Uid::effective();
    match User::from_uid(uid) {
        Ok(Some(user)) => user.name,
        _ => uid.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_process_has_a_user() {
        assert!(!super::os_user().is_empty());
    }
}
