//! find.

use globset::GlobMatcher;

use super::glob::matcher;
use super::place::Place;
use super::shell::{Found, Shell, why};
use super::walk::{Walk, name};

/// Prints the paths of a tree that match, each directory before its entries.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs find /user -name '*.parquet'")]
pub struct Find {
    /// Paths or patterns [default: the home directory]
    #[arg(default_value = ".", hide_default_value = true)]
    pub paths: Vec<String>,
    /// Between conditions, all of which must hold anyway; also -and
    #[arg(long = "and", short = 'a', action = clap::ArgAction::Count)]
    _and: u8,
    /// Only names that match this pattern; also -name
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    name: Vec<String>,
    /// The same, whatever the case of letters; also -iname
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    iname: Vec<String>,
    /// Ends each path with a line feed, as it does anyway; also -print
    #[arg(long)]
    print: bool,
    /// Ends each path with a zero byte instead of a line feed; also -print0
    #[arg(long, conflicts_with = "print")]
    print0: bool,
}

impl Find {
    pub async fn run(self, shell: &mut Shell) {
        let patterns: Result<Vec<GlobMatcher>, _> = self
            .name
            .iter()
            .map(|pattern| matcher(pattern, false))
            .chain(self.iname.iter().map(|pattern| matcher(pattern, true)))
            .collect();
        let patterns = match patterns {
            Ok(patterns) => patterns,
            Err(error) => return shell.fail("find", format_args!("{error:#}")),
        };
        for Found { place, .. } in shell.find("find", &self.paths).await {
            self.print(shell, &patterns, &place, &place.path);
            let mut walk = Walk::below(&shell.client, &place.path);
            while let Some(next) = walk.next().await {
                match next {
                    // A file, walked, is its own single entry.
                    Ok((_, entry)) if entry.name.is_empty() => {}
                    Ok((path, _)) => self.print(shell, &patterns, &place, &path),
                    Err(error) => shell.fail("find", why(&error)),
                }
            }
        }
    }

    fn print(&self, shell: &mut Shell, patterns: &[GlobMatcher], place: &Place, path: &str) {
        if patterns.iter().all(|pattern| pattern.is_match(name(path))) {
            let end = if self.print0 { '\0' } else { '\n' };
            shell.print(format_args!("{}{end}", place.show(path)));
        }
    }
}
