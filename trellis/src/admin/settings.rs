//! `trellis admin settings`: every setting, as flags, environment and file give it, as a file for `--config`.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::Result;

use crate::config::Sources;
use crate::output::print;
use crate::settings::{SETTINGS, Settings};

const EXAMPLE: &str = "\
Example:
  trellis admin settings --set lease_soft=30s > trellis.toml
  trellis up --config trellis.toml";

/// Options of `trellis admin settings`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    #[command(flatten)]
    sources: Sources,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode> {
    print(file(&args.sources.namenode()?).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// A file that sets what `settings` hold.
pub fn file(settings: &Settings) -> String {
    let mut text = "[namenode]\n".to_owned();
    for setting in SETTINGS {
        let stock = match setting.stock {
            "" => String::new(),
            stock => format!(" Stock: {stock}."),
        };
        let _ = write!(text, "\n# {} ({}){stock}\n", setting.help, setting.form);
        let value = (setting.show)(settings);
        let bare = value.bytes().all(|b| b.is_ascii_digit()) && !value.is_empty();
        let _ = match bare {
            true => writeln!(text, "{} = {value}", setting.name),
            false => writeln!(text, "{} = {}", setting.name, toml::Value::String(value)),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_sets_what_it_shows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.toml");
        let mut settings = Settings::default();
        settings.config.supergroup = "a \"b\"".to_owned();
        settings.limits.proxy_users = vec!["ann".to_owned(), "bob".to_owned()];
        std::fs::write(&path, file(&settings)).unwrap();
        let sources = Sources { config: Some(path), set: Vec::new() };
        assert_eq!(file(&sources.namenode().unwrap()), file(&settings));
    }
}
