//! `trellis load build`.

use std::process::ExitCode;

use anyhow::Result;
use trellis_loadgen::build::build;
use trellis_loadgen::namespace::Spec;
use trellis_loadgen::target::Target;

use super::Place;
use crate::limits::raise_open_files;
use crate::output::print;

const EXAMPLE: &str = "\
Examples:
  trellis load build --files 1000000
  trellis load build --target hdfs://nn1:8020,nn2:8020 --base /user/ann/load --files 200000 --workers 128

Names are a function of these options alone: run again after an interruption, or after runs that deleted files, it makes \
what is missing. Without options it is Spotify's namespace as published, of 100 000 files. Files are empty: no datanode is \
needed.";

/// Options of `trellis load build`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    #[command(flatten)]
    place: Place,
    /// Files in all
    #[arg(long, value_name = "COUNT", default_value_t = Spec::default().files)]
    files: u32,
    /// Directories between the base and the deepest files
    #[arg(long, value_name = "LEVELS", default_value_t = Spec::default().depth)]
    depth: u32,
    /// Files in each directory
    #[arg(long, value_name = "COUNT", default_value_t = Spec::default().files_per_dir)]
    files_per_dir: u32,
    /// Directories in each directory above the lowest level
    #[arg(long, value_name = "COUNT", default_value_t = Spec::default().dirs_per_dir)]
    dirs_per_dir: u32,
    /// Characters of every name
    #[arg(long, value_name = "COUNT", default_value_t = Spec::default().name_length)]
    name_length: u32,
    /// Other seeds give other names
    #[arg(long, default_value_t = Spec::default().seed)]
    seed: u64,
    /// Directories that are made at once, each over a connection of its own
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    workers: u32,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode> {
    raise_open_files();
    let Args { place, files, depth, files_per_dir, dirs_per_dir, name_length, seed, workers } = args;
    let spec = Spec { files, depth, files_per_dir, dirs_per_dir, name_length, seed };
    let target = Target::parse(&place.target)?;
    let built = build(&target, &place.base, &spec, workers).await?;
    if built.resumed {
        print(format_args!(
            "went on in {}, where {} files were there already",
            place.base, built.files_found
        ))?;
    }
    let seconds = built.took.as_secs_f64();
    print(format_args!(
        "{} of {files} files made in {} directories below {}, in {seconds:.1} s ({:.0} files/s)",
        built.files_made,
        built.dirs,
        place.base,
        built.files_made as f64 / seconds.max(1e-9)
    ))?;
    Ok(ExitCode::SUCCESS)
}
