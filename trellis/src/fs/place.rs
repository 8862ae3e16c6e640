//! Path arguments, plain or as URIs, and the one file system that those of a command lie on.

use anyhow::{Context, Result, bail};
use trellis_client::Conf;
use trellis_client::conf::Target;
use trellis_client::uri::Address;

const DEFAULT_FS: &str = "hdfs://127.0.0.1:8020";

/// Where a path argument points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Absolute, without repeated slashes, `.` and `..`.
    pub path: String,
    /// What the argument had before its path: `hdfs://HOST:PORT`, `hdfs:`, or nothing.
    head: String,
    /// The home directory, if the argument was relative to it.
    home: Option<String>,
}

impl Place {
    /// The place that an argument names; `home` is where relative paths begin.
    pub fn of(argument: &str, home: &str) -> Place {
        let (head, typed) = split(argument);
        let relative = !typed.starts_with('/');
        let mut parts = Vec::new();
        for part in if relative { home } else { "" }.split('/').chain(typed.split('/')) {
            match part {
                "" | "." => {}
                ".." => drop(parts.pop()),
                name => parts.push(name),
            }
        }
        let home = (relative && head.is_empty()).then(|| home.to_owned());
        Place { path: format!("/{}", parts.join("/")), head: head.to_owned(), home }
    }

    /// How a path, this one or one below, is shown: as the argument was written, as stock does, so that what one
    /// command printed can be given to the next.
    pub fn show(&self, path: &str) -> String {
        let Some(home) = &self.home else { return format!("{}{path}", self.head) };
        match path.strip_prefix(home.as_str()) {
            Some("") => ".".to_owned(),
            Some(below) => below.strip_prefix('/').unwrap_or(path).to_owned(),
            None => path.to_owned(),
        }
    }

    /// The same for this path itself.
    pub fn shown(&self) -> String {
        self.show(&self.path)
    }

    /// This file system's place for another path, shown in the same way.
    pub fn at(&self, path: String) -> Place {
        Place { path, ..self.clone() }
    }

    /// What is said of it when there is nothing; of a relative path also where that was looked for.
    pub fn missing(&self) -> String {
        let (shown, path) = (self.shown(), &self.path);
        match self.home {
            Some(_) if shown != *path => format!("`{shown}': No such file or directory: `{path}'"),
            _ => format!("`{shown}': No such file or directory"),
        }
    }
}

/// The file system on which all of a command's paths lie: that of `fs` (`--fs`) or of the configuration; when neither
/// has them, that of the paths.
///
/// # Errors
/// A path lies on another one, or not on HDFS.
pub fn file_system(conf: &Conf, fs: Option<&str>, paths: &[String]) -> Result<String> {
    let configured = conf.get("fs.defaultFS").filter(|uri| uri.starts_with("hdfs:"));
    let default = fs.map(str::to_owned).or(configured).unwrap_or_else(|| DEFAULT_FS.to_owned());
    let default_target = conf.target(Some(&default)).context("which file system?")?;
    let target = |path: &str| -> Result<Target> {
        let (head, _) = split(path);
        match head.get(.."hdfs:".len()) {
            Some(scheme) if scheme.eq_ignore_ascii_case("hdfs:") => {}
            _ if head.is_empty() => {}
            _ => bail!("Wrong FS: {path}, expected: {}", name(&default_target)),
        }
        match head.split_once("://") {
            Some((_, authority)) if !authority.is_empty() => Ok(conf.target(Some(head))?),
            _ => Ok(default_target.clone()),
        }
    };
    // The first path that is not on a file system, and where it is.
    let stranger = |ours: &Target| -> Result<Option<(&String, Target)>> {
        for path in paths {
            let theirs = target(path)?;
            if !theirs.namenodes.iter().all(|one| ours.namenodes.iter().any(|other| same(one, other))) {
                return Ok(Some((path, theirs)));
            }
        }
        Ok(None)
    };
    let wrong = |path: &str, expected: &Target, what: &str| {
        anyhow::anyhow!("Wrong FS: {path}, expected: {}; {what}", name(expected))
    };
    let Some((path, theirs)) = stranger(&default_target)? else { return Ok(default) };
    if fs.is_some() {
        return Err(wrong(path, &default_target, "leave --fs out, or let it name that file system"));
    }
    match stranger(&theirs)? {
        None => Ok(split(path).0.to_owned()),
        Some((other, elsewhere)) => {
            let what = format!(
                "it is on {}, and the paths of one command must lie on one file system",
                name(&elsewhere)
            );
            Err(wrong(other, &theirs, &what))
        }
    }
}

/// `hdfs://HOST:PORT[,HOST:PORT…]`
pub fn name(target: &Target) -> String {
    let namenodes: Vec<String> = target.namenodes.iter().map(Address::to_string).collect();
    format!("hdfs://{}", namenodes.join(","))
}

fn same(one: &Address, other: &Address) -> bool {
    one.port() == other.port() && one.host().eq_ignore_ascii_case(other.host())
}

/// Scheme and authority of an argument, empty if it is no URI, and its path. As in stock, a scheme ends with a colon
/// that comes before any slash and is followed by one: `a:b` is a name.
fn split(argument: &str) -> (&str, &str) {
    let Some(colon) = argument.find(":/").filter(|at| *at > 0 && !argument[..*at].contains(['/', ':']))
    else {
        return ("", argument);
    };
    let after = colon + 1;
    let end = match argument[after..].strip_prefix("//") {
        Some(rest) => after + 2 + rest.find('/').unwrap_or(rest.len()),
        None => after,
    };
    argument.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_paths_of_one_file_system_and_are_shown_as_written() {
        for (argument, path, shown, below) in [
            ("/a//b/.", "/a/b", "/a/b", "/a/b/c"),
            ("/", "/", "/", "/c"),
            ("a/../b", "/user/ann/b", "b", "b/c"),
            (".", "/user/ann", ".", "c"),
            ("../bob", "/user/bob", "/user/bob", "/user/bob/c"),
            ("hdfs://h:1/a", "/a", "hdfs://h:1/a", "hdfs://h:1/a/c"),
            ("hdfs://h:1", "/user/ann", "hdfs://h:1/user/ann", "hdfs://h:1/user/ann/c"),
            ("hdfs:///a", "/a", "hdfs:///a", "hdfs:///a/c"),
            ("hdfs:/a", "/a", "hdfs:/a", "hdfs:/a/c"),
            ("a:b", "/user/ann/a:b", "a:b", "a:b/c"),
            ("/x:/y", "/x:/y", "/x:/y", "/x:/y/c"),
        ] {
            let place = Place::of(argument, "/user/ann");
            let child = super::super::walk::child(&place.path, "c");
            let got = (place.path.as_str(), place.shown(), place.show(&child));
            assert_eq!(got, (path, shown.to_owned(), below.to_owned()), "{argument}");
        }
        for (argument, want) in [
            (".", "`.': No such file or directory: `/user/ann'"),
            ("x", "`x': No such file or directory: `/user/ann/x'"),
            ("../x", "`/user/x': No such file or directory"),
            ("hdfs:///x", "`hdfs:///x': No such file or directory"),
        ] {
            assert_eq!(Place::of(argument, "/user/ann").missing(), want);
        }
    }

    fn on(fs: Option<&str>, paths: &[&str]) -> Result<String, String> {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        file_system(&Conf::default(), fs, &paths).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn all_paths_of_a_command_lie_on_one_file_system() {
        let two = Some("hdfs://a:1,b:2");
        for (fs, paths, want) in [
            (None, &["/x", "y", "hdfs:///z", "hdfs:/z"][..], DEFAULT_FS),
            (None, &["/x", "hdfs://127.0.0.1:8020/y", "hdfs://127.0.0.1/z"], DEFAULT_FS),
            (None, &["hdfs://a:1/x", "HDFS://A:1/y"], "hdfs://a:1"),
            (two, &["/x", "hdfs://b:2/y", "hdfs://a:1/z", "hdfs:///"], "hdfs://a:1,b:2"),
            (Some("a:1"), &["hdfs://a:1/y"], "a:1"),
            (None, &[], DEFAULT_FS),
        ] {
            assert_eq!(on(fs, paths).as_deref(), Ok(want), "{paths:?}");
        }
        for (fs, paths, want) in [
            (None, &["s3a://a/x"][..], "Wrong FS: s3a://a/x, expected: hdfs://127.0.0.1:8020"),
            (None, &["file:/x"], "Wrong FS: file:/x, expected"),
            (two, &["hdfs://c:3/x"], "Wrong FS: hdfs://c:3/x, expected: hdfs://a:1,b:2; leave --fs out"),
            (two, &["/x", "hdfs://a:2/x"], "Wrong FS: hdfs://a:2/x"),
            (
                None,
                &["/x", "hdfs://a:1/y"],
                "Wrong FS: /x, expected: hdfs://a:1; it is on hdfs://127.0.0.1:8020",
            ),
            (None, &["hdfs://a:1/x", "hdfs://b:1/y"], "Wrong FS: hdfs://b:1/y, expected: hdfs://a:1"),
            (None, &["hdfs://a:x/y"], "the port is not a number"),
            (Some("hdfs://"), &["/x"], "which file system?"),
        ] {
            let why = on(fs, paths).unwrap_err();
            assert!(why.contains(want), "{paths:?}: {why}");
        }
    }
}
