//! find.

use globset::GlobMatcher;

use super::shell::{Found, Shell, matcher, why};
use super::walk::{Walk, name};

/// Prints the paths of a tree that match, each directory before its entries.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs find /user --name '*.parquet'")]
pub struct Find {
    /// Paths or patterns [default: the home directory]
    paths: Vec<String>,
    /// Only names that match this pattern
    #[arg(long, value_name = "PATTERN")]
    name: Option<String>,
    /// The same, whatever the case of letters
    #[arg(long, value_name = "PATTERN")]
    iname: Option<String>,
    /// Ends each path with a zero byte instead of a line feed
    #[arg(long)]
    print0: bool,
}

impl Find {
    pub async fn run(mut self, shell: &mut Shell) {
        if self.paths.is_empty() {
            self.paths.push(".".to_owned());
        }
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
        for Found { path, .. } in shell.find("find", &self.paths).await {
            self.print(shell, &patterns, &path);
            let mut walk = Walk::below(&shell.client, &path);
            while let Some(next) = walk.next().await {
                match next {
                    // A file, walked, is its own single entry.
                    Ok((_, entry)) if entry.name.is_empty() => {}
                    Ok((path, _)) => self.print(shell, &patterns, &path),
                    Err(error) => shell.fail("find", why(&error)),
                }
            }
        }
    }

    fn print(&self, shell: &mut Shell, patterns: &[GlobMatcher], path: &str) {
        if patterns.iter().all(|pattern| pattern.is_match(name(path))) {
            shell.print(format_args!("{path}{}", if self.print0 { '\0' } else { '\n' }));
        }
    }
}
