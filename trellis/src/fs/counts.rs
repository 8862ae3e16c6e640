//! du, count, df.

use trellis_client::types::ContentSummary;

use super::shell::{Found, Shell, why};
use super::text::{columns, size};
use super::walk::child;

/// Sums up sizes below paths: bytes, bytes with all copies, path.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs du -s -h /user/ann", disable_help_flag = true)]
pub struct Du {
    /// One line for each path, instead of one for each of its entries
    #[arg(short = 's')]
    summary: bool,
    /// Sizes such as 1.5 K
    #[arg(short = 'h')]
    human: bool,
    /// With a line of headings
    #[arg(short = 'v')]
    headings: bool,
    /// Paths or patterns
    #[arg(required = true)]
    paths: Vec<String>,
    /// Prints help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

impl Du {
    pub async fn run(self, shell: &mut Shell) {
        let mut rows = Vec::new();
        if self.headings {
            let headings = ["SIZE", "DISK_SPACE_CONSUMED_WITH_ALL_REPLICAS", "FULL_PATH_NAME"];
            rows.push(headings.map(str::to_owned).to_vec());
        }
        for Found { path, status } in shell.find("du", &self.paths).await {
            if self.summary || !status.is_dir() {
                self.add(shell, &mut rows, path).await;
                continue;
            }
            let mut listing = shell.client.get_listing(&path);
            loop {
                match listing.next_page().await {
                    Ok(Some(entries)) => {
                        for entry in entries {
                            self.add(shell, &mut rows, child(&path, &entry.name)).await;
                        }
                        self.print(shell, &mut rows);
                    }
                    Ok(None) => break,
                    Err(error) => break shell.fail("du", why(&error)),
                }
            }
        }
        self.print(shell, &mut rows);
    }

    async fn add(&self, shell: &mut Shell, rows: &mut Vec<Vec<String>>, path: String) {
        let sum = shell.client.get_content_summary(&path).await;
        if let Some(sum) = shell.check("du", sum) {
            rows.push(vec![size(sum.length, self.human), size(sum.space_consumed, self.human), path]);
        }
    }

    fn print(&self, shell: &mut Shell, rows: &mut Vec<Vec<String>>) {
        columns(&std::mem::take(rows), &[]).iter().for_each(|line| shell.say(line));
    }
}

/// Counts directories, files and bytes below paths.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs count -q -v /user", disable_help_flag = true)]
pub struct Count {
    /// With quotas and what is left of them in front
    #[arg(short = 'q')]
    quotas: bool,
    /// Sizes such as 1.5 K
    #[arg(short = 'h')]
    human: bool,
    /// With a line of headings
    #[arg(short = 'v')]
    headings: bool,
    /// Paths or patterns
    #[arg(required = true)]
    paths: Vec<String>,
    /// Prints help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

const QUOTAS: [&str; 4] = ["QUOTA", "REM_QUOTA", "SPACE_QUOTA", "REM_SPACE_QUOTA"];
const COUNTS: [&str; 4] = ["DIR_COUNT", "FILE_COUNT", "CONTENT_SIZE", "PATHNAME"];

impl Count {
    pub async fn run(self, shell: &mut Shell) {
        let mut rows = Vec::new();
        if self.headings {
            let quotas = QUOTAS.iter().filter(|_| self.quotas);
            rows.push(quotas.chain(&COUNTS).map(|text| (*text).to_owned()).collect());
        }
        for Found { path, .. } in shell.find("count", &self.paths).await {
            let sum = shell.client.get_content_summary(&path).await;
            if let Some(sum) = shell.check("count", sum) {
                rows.push(self.row(&sum, path));
            }
        }
        let right: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).collect();
        columns(&rows, &right).iter().for_each(|line| shell.say(line));
    }

    fn row(&self, sum: &ContentSummary, path: String) -> Vec<String> {
        let number = |n: u64| size(n, self.human);
        let mut row = Vec::new();
        if self.quotas {
            let names = sum.file_count + sum.directory_count;
            for (limit, used) in [(sum.quota, names), (sum.space_quota, sum.space_consumed)] {
                row.push(limit.map_or("none".to_owned(), number));
                row.push(limit.map_or("inf".to_owned(), |limit| number(limit.saturating_sub(used))));
            }
        }
        row.extend([number(sum.directory_count), number(sum.file_count), number(sum.length), path]);
        row
    }
}

/// Prints the space of the file system.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs df -h", disable_help_flag = true)]
pub struct Df {
    /// Sizes such as 1.5 K
    #[arg(short = 'h')]
    human: bool,
    /// Prints help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

impl Df {
    pub async fn run(self, shell: &mut Shell) {
        let stats = shell.client.get_fs_stats().await;
        let Some(stats) = shell.check("df", stats) else { return };
        let share = match stats.capacity {
            0 => "-".to_owned(),
            all => format!("{:.0}%", stats.used as f64 * 100.0 / all as f64),
        };
        let numbers = [stats.capacity, stats.used, stats.remaining].map(|bytes| size(bytes, self.human));
        let rows = [
            ["Size", "Used", "Available", "Use%"].map(str::to_owned).to_vec(),
            numbers.into_iter().chain([share]).collect(),
        ];
        columns(&rows, &[0, 1, 2, 3]).iter().for_each(|line| shell.say(line));
    }
}
