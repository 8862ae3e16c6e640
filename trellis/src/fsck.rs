//! `trellis fsck`: asks a namenode to look at files and their replicas, as `hdfs fsck` does.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::output::{complain, print};
use crate::web::Namenodes;

const EXAMPLE: &str = "\
Examples:
  trellis fsck /
  trellis fsck /user/ann --files --blocks --locations
  trellis fsck / --list-corruptfileblocks
  trellis fsck / --http nn1:9870,nn2:9870

The output is that of hdfs fsck, whose options with one dash (-files -blocks) work too. Files that are being written are \
counted and not looked at without --openforwrite.
Exit codes: 0 healthy, 1 missing or corrupt blocks, 2 it could not be found out.";

/// Exit code when blocks are missing or corrupt.
const CORRUPT: u8 = 1;
/// Exit code when nothing can be said.
const UNKNOWN: u8 = 2;

/// Options of `trellis fsck`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// Where to look
    #[arg(value_name = "PATH", default_value = "/")]
    path: String,
    /// Prints every file and directory
    #[arg(long)]
    files: bool,
    /// Prints the blocks of each file
    #[arg(long, requires = "files")]
    blocks: bool,
    /// Prints where the replicas of each block are
    #[arg(long, requires = "blocks")]
    locations: bool,
    /// Looks at files that are open for writing, too
    #[arg(long)]
    openforwrite: bool,
    /// Prints only the blocks without a live replica
    #[arg(long = "list-corruptfileblocks", conflicts_with = "files")]
    list_corrupt: bool,
    #[command(flatten)]
    namenodes: Namenodes,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode> {
    let looked = match args.list_corrupt {
        true => list_corrupt(&args).await,
        false => look(&args).await,
    };
    Ok(looked.unwrap_or_else(|error| {
        complain(format_args!("{error:#}"));
        ExitCode::from(UNKNOWN)
    }))
}

async fn look(args: &Args) -> Result<ExitCode> {
    let flags = [
        ("files", args.files),
        ("blocks", args.blocks),
        ("locations", args.locations),
        ("openforwrite", args.openforwrite),
    ];
    let mut options = vec![("path", args.path.as_str())];
    options.extend(flags.iter().filter(|(_, given)| *given).map(|(name, _)| (*name, "1")));
    Ok(verdict(&args.namenodes.print("/fsck", &options).await?))
}

/// What the last line of a fsck means.
fn verdict(last: &str) -> ExitCode {
    match last {
        last if last.ends_with("is HEALTHY") => ExitCode::SUCCESS,
        last if last.ends_with("is CORRUPT") => ExitCode::from(CORRUPT),
        _ => ExitCode::from(UNKNOWN),
    }
}

/// Asks for page after page; the namenode says where the next one begins.
async fn list_corrupt(args: &Args) -> Result<ExitCode> {
    let (mut cookie, mut blocks) = ("0".to_owned(), 0u64);
    loop {
        let options =
            [("path", args.path.as_str()), ("listcorruptfileblocks", "1"), ("startblockafter", &cookie)];
        let (mut next, mut told, mut failure) = (cookie.clone(), false, None);
        let each = |line: &str| {
            if let Some(said) = line.strip_prefix("Cookie:\t") {
                said.clone_into(&mut next);
            } else if line.starts_with("blk_") {
                (told, blocks) = (true, blocks + 1);
                print(line)?;
            } else if !line.is_empty() && !line.starts_with("FSCK ") && !line.ends_with(" CORRUPT files") {
                failure.get_or_insert_with(|| line.to_owned());
            }
            Ok(())
        };
        args.namenodes.lines("/fsck", &options, each).await?;
        if let Some(failure) = failure {
            bail!("{failure}");
        }
        if !told || next == cookie {
            break;
        }
        cookie = next;
    }
    print(format_args!("The filesystem under path '{}' has {blocks} CORRUPT blocks", args.path))?;
    Ok(if blocks == 0 { ExitCode::SUCCESS } else { ExitCode::from(CORRUPT) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_decides() {
        let of = |last| format!("{:?}", verdict(last));
        assert_eq!(of("The filesystem under path '/' is HEALTHY"), format!("{:?}", ExitCode::SUCCESS));
        assert_eq!(of("The filesystem under path '/' is CORRUPT"), format!("{:?}", ExitCode::from(1)));
        for last in ["Fsck on path '/' FAILED", "Path '/x' does not exist", ""] {
            assert_eq!(of(last), format!("{:?}", ExitCode::from(2)), "{last}");
        }
    }
}
