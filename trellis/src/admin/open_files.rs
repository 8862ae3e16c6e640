//! `trellis admin open-files` and `close`: who writes, and taking a file from who does not write any more.

use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{Result, anyhow};
use tokio::time::Instant;
use trellis_client::admin::OpenFile;

use crate::fs;
use crate::output::{complain, print};

/// Help on `open-files`.
pub const LIST_EXAMPLE: &str = "\
Examples:
  trellis admin open-files
  trellis admin open-files /user/ann --fs hdfs://nn1:8020,nn2:8020

Prints a line for each file: the client's name, its address, for how long the file has not changed, its path. Only for \
superusers.";

/// Help on `close`.
pub const CLOSE_EXAMPLE: &str = "\
Example:
  trellis admin close /user/ann/log --wait 2m

Takes the lease from the writer; a last block that is being written is recovered by its datanodes first. For the owner's \
own files no superuser is needed. Exit codes: 0 it is closed, 1 it is not yet, or not to be closed.";

/// Between two questions whether a file is closed by now.
const AGAIN: Duration = Duration::from_secs(1);

/// Which file system.
#[derive(clap::Args)]
struct FileSystem {
    /// The namenodes: hdfs://HOST:PORT[,HOST:PORT…] [default: as trellis fs]
    #[arg(long, value_name = "URI", env = "TRELLIS_FS")]
    fs: Option<String>,
}

/// Options of `trellis admin open-files`.
#[derive(clap::Args)]
#[command(after_help = LIST_EXAMPLE)]
pub struct List {
    /// Only files at or below this path
    #[arg(value_name = "PATH", default_value = "/")]
    path: String,
    #[command(flatten)]
    file_system: FileSystem,
}

/// Options of `trellis admin close`.
#[derive(clap::Args)]
#[command(after_help = CLOSE_EXAMPLE)]
pub struct Close {
    /// The file
    path: String,
    /// How long to wait until it is closed
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = humantime::parse_duration)]
    wait: Duration,
    #[command(flatten)]
    file_system: FileSystem,
}

/// Lists open files.
pub async fn list(args: List) -> Result<ExitCode> {
    let client = fs::client(args.file_system.fs.as_deref())?;
    let (mut after, mut files) = (0, 0usize);
    loop {
        let page = client.list_open_files(&args.path, after).await?;
        files += page.files.len();
        for file in page.files {
            let status = client.get_file_info(&file.path).await?;
            print(line(&file, status.map(|status| status.modification_time_ms), SystemTime::now()))?;
        }
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    print(format_args!("{files} open files"))?;
    Ok(ExitCode::SUCCESS)
}

fn line(file: &OpenFile, changed_ms: Option<u64>, now: SystemTime) -> String {
    let changed = changed_ms.map(Duration::from_millis);
    let age = changed.and_then(|changed| now.duration_since(SystemTime::UNIX_EPOCH + changed).ok());
    let age = match age {
        Some(age) => humantime::format_duration(Duration::from_secs(age.as_secs())).to_string(),
        None => "gone".to_owned(),
    };
    format!("{}\t{}\t{age}\t{}", file.holder, file.machine, file.path)
}

/// Closes a file.
pub async fn close(args: Close) -> Result<ExitCode> {
    let client = fs::client(args.file_system.fs.as_deref())?;
    let until = Instant::now() + args.wait;
    loop {
        let closed =
            client.recover_lease(&args.path).await.map_err(|error| anyhow!("it was not closed: {error}"));
        if closed? {
            print(format_args!("{} is closed", args.path))?;
            return Ok(ExitCode::SUCCESS);
        }
        if Instant::now() + AGAIN > until {
            complain(format_args!(
                "{} is not closed yet: its last block is being recovered; try again",
                args.path
            ));
            return Ok(ExitCode::FAILURE);
        }
        tokio::time::sleep(AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_a_file_is_told() {
        let file = OpenFile { path: "/f".into(), holder: "c1".into(), machine: "10.0.0.1".into() };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(3700);
        assert_eq!(line(&file, Some(100_000), now), "c1\t10.0.0.1\t1h\t/f");
        assert_eq!(line(&file, None, now), "c1\t10.0.0.1\tgone\t/f");
    }
}
