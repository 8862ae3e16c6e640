//! Where settings come from: flags, then `TRELLIS_*`, then a TOML file. An unknown name in any of them is an error.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Deserialize;

use crate::settings::{self, Setting, Settings, datanode};

/// Names in the environment that are options of commands: (name, meaning).
pub const OPTION_VARIABLES: &[(&str, &str)] = &[
    ("TRELLIS_CONFIG", "The TOML file (`--config`)."),
    ("TRELLIS_DATA", "`up`, `admin`: the data directory (`--data`)."),
    ("TRELLIS_STORE", "`up`, `namenode`, `store`, `admin status`: the store (`--store`)."),
    ("TRELLIS_NAMENODES", "`up`: how many namenodes (`--namenodes`)."),
    ("TRELLIS_DATANODES", "`up`: how many datanodes (`--datanodes`)."),
    ("TRELLIS_DATANODE_DATA", "`datanode`: the folders (`--data`)."),
    ("TRELLIS_RPC_PORT", "`up`: RPC port of the first namenode (`--rpc-port`)."),
    ("TRELLIS_HTTP_PORT", "`up`: HTTP port of the first namenode (`--http-port`)."),
    ("TRELLIS_FS", "`fs`, `admin open-files`, `admin close`: the namenodes to ask (`--fs`)."),
    ("TRELLIS_HTTP", "`fsck`, the lists of `admin`: the namenodes' HTTP ports (`--http`)."),
    (
        "TRELLIS_LOG",
        "What is logged: `info`, `debug`, `trellis_namenode=debug,info` … (default: servers `info`, other commands `error`).",
    ),
];
/// Names that belong to tests and developer commands; programs ignore them.
const TEST_VARIABLES: &[&str] = &["TRELLIS_BIN", "TRELLIS_WRITE_DOCS", "TRELLIS_REQUIRE_ALL"];
const TEST_PREFIX: &str = "TRELLIS_TEST_";
/// No file of settings is longer.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Where to look for settings, on every command that has some.
#[derive(Args, Clone, Debug, Default)]
pub struct Sources {
    /// A TOML file with settings, in the tables [up], [namenode] and [datanode] (docs/CONFIG.md lists them)
    #[arg(long, value_name = "FILE", env = "TRELLIS_CONFIG")]
    pub config: Option<PathBuf>,
    /// Sets one setting, such as heartbeat=1s; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub set: Vec<String>,
}

/// What a TOML file may hold.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Options of `trellis up`.
    #[serde(default)]
    pub up: UpFile,
    /// Settings of namenodes.
    #[serde(default)]
    namenode: BTreeMap<String, toml::Value>,
    /// Settings of datanodes.
    #[serde(default)]
    datanode: BTreeMap<String, toml::Value>,
}

/// The settings of one kind of server: their names, and where they stand.
struct Table<S: 'static> {
    settings: &'static [Setting<S>],
    /// In a file.
    section: &'static str,
    /// In the environment, before the name in capitals.
    prefix: &'static str,
    check: fn(&S) -> Result<(), String>,
}

const NAMENODE: Table<Settings> =
    Table { settings: settings::SETTINGS, section: "namenode", prefix: "TRELLIS_", check: settings::check };
const DATANODE: Table<datanode::Settings> = Table {
    settings: datanode::SETTINGS,
    section: "datanode",
    prefix: "TRELLIS_DATANODE_",
    check: datanode::check,
};

/// Options of `trellis up`, as in a file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpFile {
    /// `--data`
    pub data: Option<PathBuf>,
    /// `--store`
    pub store: Option<String>,
    /// `--namenodes`
    pub namenodes: Option<u64>,
    /// `--datanodes`
    pub datanodes: Option<u64>,
    /// `--rpc-port`
    pub rpc_port: Option<u16>,
    /// `--http-port`
    pub http_port: Option<u16>,
    /// `--restart`
    pub restart: Option<bool>,
}

impl Sources {
    /// Reads the file, if there is one.
    pub fn file(&self) -> Result<File> {
        let Some(path) = &self.config else { return Ok(File::default()) };
        let text = read(path).with_context(|| format!("cannot read the settings in {}", path.display()))?;
        parse(&text).with_context(|| format!("{} is not a file of settings", path.display()))
    }

    /// Settings of a namenode from all three places.
    pub fn namenode(&self) -> Result<Settings> {
        self.namenode_over(Settings::default())
    }

    /// The same over other defaults.
    pub fn namenode_over(&self, defaults: Settings) -> Result<Settings> {
        let file = self.file()?;
        self.merge(&NAMENODE, defaults, &file.namenode, environment())
    }

    /// Settings of a datanode from all three places.
    pub fn datanode(&self) -> Result<datanode::Settings> {
        let file = self.file()?;
        self.merge(&DATANODE, datanode::Settings::default(), &file.datanode, environment())
    }

    fn merge<S>(
        &self,
        table: &Table<S>,
        mut settings: S,
        in_file: &BTreeMap<String, toml::Value>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<S> {
        let from = self.config.as_deref().unwrap_or(Path::new(""));
        for (name, value) in in_file {
            let setting =
                table.find(name).with_context(|| format!("in [{}] of {}", table.section, from.display()))?;
            let value = plain(value).with_context(|| format!("{name} in {}", from.display()))?;
            assign(&mut settings, setting, &value).with_context(|| format!("in {}", from.display()))?;
        }
        for (variable, value) in environment {
            if let Some(setting) = table.of_variable(&variable)? {
                assign(&mut settings, setting, &value)
                    .with_context(|| format!("in the environment, {variable}"))?;
            }
        }
        for pair in &self.set {
            let Some((name, value)) = pair.split_once('=') else {
                bail!("--set {pair}: give a name and a value, such as --set heartbeat=1s");
            };
            let setting = table.find(name.trim()).with_context(|| format!("--set {pair}"))?;
            assign(&mut settings, setting, value.trim()).with_context(|| format!("--set {pair}"))?;
        }
        (table.check)(&settings).map_err(|why| anyhow::anyhow!("settings that do not go together: {why}"))?;
        Ok(settings)
    }
}

fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
}

/// A file's text; refused when it is too long to be one of settings, as a device is.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    if file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)? as u64 > MAX_FILE_BYTES {
        let why = format!("it is longer than {MAX_FILE_BYTES} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(text)
}

fn parse(text: &str) -> Result<File> {
    Ok(toml::from_str(text)?)
}

impl<S> Table<S> {
    fn known(&self, name: &str) -> Option<&'static Setting<S>> {
        self.settings.iter().find(|setting| setting.name == name)
    }

    fn find(&self, name: &str) -> Result<&'static Setting<S>> {
        match self.known(name) {
            Some(setting) => Ok(setting),
            None => {
                bail!("there is no setting {name:?}{}; docs/CONFIG.md lists them all", self.nearest(name))
            }
        }
    }

    /// The setting that a variable of the environment sets; none when it is not ours, an option's, or another table's.
    fn of_variable(&self, variable: &str) -> Result<Option<&'static Setting<S>>> {
        if is_no_setting(variable) {
            return Ok(None);
        }
        // The datanode's prefix begins with the namenode's, some of whose settings are about datanodes.
        let own = self.named(variable);
        if own.is_some() || NAMENODE.named(variable).is_some() || DATANODE.named(variable).is_some() {
            return Ok(own);
        }
        let unknown = match (DATANODE.name_in(variable), self.name_in(variable)) {
            (Some(name), _) => DATANODE.find(&name).map(drop),
            (None, Some(name)) => self.find(&name).map(drop),
            (None, None) => return Ok(None),
        };
        unknown.with_context(|| format!("the environment has {variable}: unset it, or correct its name"))?;
        Ok(None)
    }

    /// What a variable of the environment would name here, if it is one of this table's.
    fn name_in(&self, variable: &str) -> Option<String> {
        variable.strip_prefix(self.prefix).map(str::to_ascii_lowercase)
    }

    fn named(&self, variable: &str) -> Option<&'static Setting<S>> {
        self.known(&self.name_in(variable)?)
    }

    /// ", did you mean …" for a name that shares most of its letters with a known one.
    fn nearest(&self, name: &str) -> String {
        let score = |other: &str| {
            let head = name.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
            let tail = name.bytes().rev().zip(other.bytes().rev()).take_while(|(a, b)| a == b).count();
            head + tail
        };
        match self.settings.iter().map(|setting| (score(setting.name), setting.name)).max() {
            Some((shared, best)) if shared * 2 >= best.len() => format!(", did you mean {best}"),
            _ => String::new(),
        }
    }
}

/// Whether a variable of ours is an option's, or a test's.
fn is_no_setting(variable: &str) -> bool {
    let options = OPTION_VARIABLES.iter().map(|(name, _)| *name);
    options.chain(TEST_VARIABLES.iter().copied()).any(|name| name == variable)
        || variable.starts_with(TEST_PREFIX)
}

fn plain(value: &toml::Value) -> Result<String> {
    Ok(match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        other => bail!("a {} where a text or a number belongs", other.type_str()),
    })
}

fn assign<S>(settings: &mut S, setting: &Setting<S>, text: &str) -> Result<()> {
    (setting.set)(settings, text).map_err(|why| anyhow::anyhow!("{}: {why}", setting.name))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn sources(set: &[&str]) -> Sources {
        Sources { config: None, set: set.iter().map(|s| (*s).to_owned()).collect() }
    }

    fn env(pairs: &[(&str, &str)]) -> std::vec::IntoIter<(String, String)> {
        let owned: Vec<_> = pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        owned.into_iter()
    }

    #[test]
    fn flags_win_over_the_environment_and_that_over_the_file() {
        let file =
            parse("[namenode]\nlease_soft = '1s'\nlease_check = '1s'\nreplication = 1\nheartbeat = '100ms'")
                .unwrap();
        let environment = env(&[("TRELLIS_LEASE_SOFT", "2s"), ("TRELLIS_LEASE_CHECK", "2s"), ("PATH", "x")]);
        let config = sources(&["lease_soft=3s"])
            .merge(&NAMENODE, Settings::default(), &file.namenode, environment)
            .unwrap()
            .config;
        assert_eq!(config.lease_soft, Duration::from_secs(3));
        assert_eq!(config.lease_check, Duration::from_secs(2));
        assert_eq!((config.replication, config.heartbeat), (1, Duration::from_millis(100)));
    }

    #[test]
    fn unknown_names_are_errors_everywhere() {
        let file = File::default();
        let flag = sources(&["lease_sofd=3s"])
            .merge(&NAMENODE, Settings::default(), &file.namenode, env(&[]))
            .unwrap_err();
        assert!(format!("{flag:#}").contains("did you mean lease_soft"), "{flag:#}");
        let variable = sources(&[])
            .merge(&NAMENODE, Settings::default(), &file.namenode, env(&[("TRELLIS_LEASE_SOFD", "1s")]))
            .unwrap_err();
        assert!(format!("{variable:#}").contains("TRELLIS_LEASE_SOFD"), "{variable:#}");
        assert!(parse("[up]\nport = 1").is_err());
        assert!(parse("[nodes]\n").is_err());
        let in_file = sources(&[]).merge(
            &NAMENODE,
            Settings::default(),
            &parse("[namenode]\nx = 1").unwrap().namenode,
            env(&[]),
        );
        assert!(format!("{:#}", in_file.unwrap_err()).contains("\"x\""));
    }

    #[test]
    fn variables_of_options_and_tests_are_no_settings() {
        let environment = env(&[("TRELLIS_STORE", "mem:"), ("TRELLIS_BIN", "x"), ("TRELLIS_TEST_SEED", "1")]);
        sources(&[]).merge(&NAMENODE, Settings::default(), &BTreeMap::new(), environment).unwrap();
    }

    #[test]
    fn a_datanodes_variables_have_a_longer_prefix() {
        let variables = [("TRELLIS_DATANODE_HEARTBEAT", "1s"), ("TRELLIS_HEARTBEAT", "300ms")];
        let namenode =
            sources(&[]).merge(&NAMENODE, Settings::default(), &BTreeMap::new(), env(&variables)).unwrap();
        assert_eq!(namenode.config.heartbeat, Duration::from_millis(300));
        let datanode = sources(&[])
            .merge(&DATANODE, datanode::Settings::default(), &BTreeMap::new(), env(&variables))
            .unwrap();
        assert_eq!(datanode.config.heartbeat, Duration::from_secs(1));
        let wrong = env(&[("TRELLIS_DATANODE_HEARTBEET", "1s")]);
        let error = sources(&[])
            .merge(&DATANODE, datanode::Settings::default(), &BTreeMap::new(), wrong)
            .map(drop)
            .unwrap_err();
        assert!(format!("{error:#}").contains("did you mean heartbeat"), "{error:#}");
    }

    #[test]
    fn a_namenodes_settings_about_datanodes_are_its_own() {
        let variables = [("TRELLIS_DATANODE_RECHECK", "7s"), ("TRELLIS_DATANODE_HEARTBEAT", "2s")];
        let namenode =
            sources(&[]).merge(&NAMENODE, Settings::default(), &BTreeMap::new(), env(&variables)).unwrap();
        let [recheck, heartbeat] = [7, 2].map(Duration::from_secs);
        assert_eq!(namenode.config.datanode_recheck, recheck);
        let datanode = sources(&[])
            .merge(&DATANODE, datanode::Settings::default(), &BTreeMap::new(), env(&variables))
            .unwrap();
        // A datanode's heartbeat is a setting of both.
        assert_eq!((namenode.config.datanode_heartbeat, datanode.config.heartbeat), (heartbeat, heartbeat));
        for wrong in ["TRELLIS_DATANODE_RECHEK", "TRELLIS_RECHECK"] {
            let error = sources(&[])
                .merge(&NAMENODE, Settings::default(), &BTreeMap::new(), env(&[(wrong, "7s")]))
                .map(drop)
                .unwrap_err();
            assert!(format!("{error:#}").contains(wrong), "{error:#}");
        }
        let bad = env(&[("TRELLIS_DATANODE_STALE", "77x")]);
        assert!(sources(&[]).merge(&NAMENODE, Settings::default(), &BTreeMap::new(), bad).is_err());
    }

    #[test]
    fn every_variable_of_an_option_is_listed() {
        fn variables(command: &clap::Command, found: &mut Vec<String>) {
            let own = command.get_arguments().filter_map(|option| option.get_env());
            found.extend(own.map(|name| name.to_string_lossy().into_owned()));
            command.get_subcommands().for_each(|command| variables(command, found));
        }
        let mut found = Vec::new();
        variables(&<crate::Cli as clap::CommandFactory>::command(), &mut found);
        found.sort();
        found.dedup();
        assert!(found.len() > 9, "{found:?}");
        let unlisted: Vec<_> =
            found.iter().filter(|name| !OPTION_VARIABLES.iter().any(|(listed, _)| listed == name)).collect();
        assert!(unlisted.is_empty(), "{unlisted:?}");
    }

    #[test]
    fn wrong_values_say_which_setting_and_what_to_give() {
        let error = sources(&["call_age=60"])
            .merge(&NAMENODE, Settings::default(), &BTreeMap::new(), env(&[]))
            .unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("call_age") && text.contains("such as 30s"), "{text}");
        assert!(
            sources(&["call_age"]).merge(&NAMENODE, Settings::default(), &BTreeMap::new(), env(&[])).is_err()
        );
    }
}
