//! du, count, df.

use trellis_client::types::{ContentSummary, QuotaUsage};

use super::place::Place;
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
    pub paths: Vec<String>,
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
        for Found { place, status } in shell.find("du", &self.paths).await {
            if self.summary || !status.is_dir() {
                self.add(shell, &mut rows, &place).await;
                continue;
            }
            let mut listing = shell.client.get_listing(&place.path);
            loop {
                match listing.next_page().await {
                    Ok(Some(entries)) => {
                        for entry in entries {
                            let below = place.at(child(&place.path, &entry.name));
                            self.add(shell, &mut rows, &below).await;
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

    async fn add(&self, shell: &mut Shell, rows: &mut Vec<Vec<String>>, place: &Place) {
        let sum = shell.client.get_content_summary(&place.path).await;
        if let Some(sum) = shell.check("du", sum) {
            rows.push(vec![
                size(sum.length, self.human),
                size(sum.space_consumed, self.human),
                place.shown(),
            ]);
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
    /// Only the quotas and what is left of them
    #[arg(short = 'u')]
    only_quotas: bool,
    /// Sizes such as 1.5 K
    #[arg(short = 'h')]
    human: bool,
    /// With a line of headings
    #[arg(short = 'v')]
    headings: bool,
    /// Paths or patterns
    #[arg(required = true)]
    pub paths: Vec<String>,
    /// Prints help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

const QUOTAS: [&str; 4] = ["QUOTA", "REM_QUOTA", "SPACE_QUOTA", "REM_SPACE_QUOTA"];
const COUNTS: [&str; 3] = ["DIR_COUNT", "FILE_COUNT", "CONTENT_SIZE"];

impl Count {
    pub async fn run(self, shell: &mut Shell) {
        let mut rows = Vec::new();
        if self.headings {
            let quotas = QUOTAS.iter().filter(|_| self.quotas || self.only_quotas);
            let counts = COUNTS.iter().filter(|_| !self.only_quotas);
            rows.push(quotas.chain(counts).chain(&["PATHNAME"]).map(|text| (*text).to_owned()).collect());
        }
        for Found { place, .. } in shell.find("count", &self.paths).await {
            let row = match self.only_quotas {
                true => shell.client.get_quota_usage(&place.path).await.map(|usage| self.quota_cells(&usage)),
                false => shell.client.get_content_summary(&place.path).await.map(|sum| self.cells(&sum)),
            };
            if let Some(mut row) = shell.check("count", row) {
                row.push(place.shown());
                rows.push(row);
            }
        }
        let right: Vec<usize> = (0..rows.first().map_or(0, Vec::len)).collect();
        columns(&rows, &right).iter().for_each(|line| shell.say(line));
    }

    fn cells(&self, sum: &ContentSummary) -> Vec<String> {
        let mut cells = match self.quotas {
            true => self.quota_cells(&QuotaUsage {
                file_and_directory_count: sum.file_count + sum.directory_count,
                quota: sum.quota,
                space_consumed: sum.space_consumed,
                space_quota: sum.space_quota,
            }),
            false => Vec::new(),
        };
        cells.extend([sum.directory_count, sum.file_count, sum.length].map(|n| size(n, self.human)));
        cells
    }

    fn quota_cells(&self, usage: &QuotaUsage) -> Vec<String> {
        let number = |n: u64| size(n, self.human);
        let names = (usage.quota, usage.file_and_directory_count);
        let space = (usage.space_quota, usage.space_consumed);
        let pair = |(limit, used): (Option<u64>, u64)| {
            let left = limit.map_or("inf".to_owned(), |limit| number(limit.saturating_sub(used)));
            [limit.map_or("none".to_owned(), number), left]
        };
        [names, space].into_iter().flat_map(pair).collect()
    }
}

/// Prints the space of the file system.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  trellis fs df -h /", disable_help_flag = true)]
pub struct Df {
    /// Sizes such as 1.5 K
    #[arg(short = 'h')]
    human: bool,
    /// A line for each of these paths or patterns
    #[arg(default_value = "/")]
    pub paths: Vec<String>,
    /// Prints help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

impl Df {
    pub async fn run(self, shell: &mut Shell) {
        let stats = shell.client.get_fs_stats().await;
        let Some(stats) = shell.check("df", stats) else { return };
        // Of no space, "NaN%", as stock has it.
        let share = format!("{:.0}%", stats.used as f64 * 100.0 / stats.capacity as f64);
        let mut rows = vec![["Filesystem", "Size", "Used", "Available", "Use%"].map(str::to_owned).to_vec()];
        for _ in shell.find("df", &self.paths).await {
            let numbers = [stats.capacity, stats.used, stats.remaining].map(|bytes| size(bytes, self.human));
            rows.push(
                [shell.file_system.clone()].into_iter().chain(numbers).chain([share.clone()]).collect(),
            );
        }
        if rows.len() > 1 {
            columns(&rows, &[1, 2, 3, 4]).iter().for_each(|line| shell.say(line));
        }
    }
}
