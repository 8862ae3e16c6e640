//! `trellis load build`.

use std::process::ExitCode;

use anyhow::Result;
use trellis_loadgen::build::build;
use trellis_loadgen::contents::Contents;
use trellis_loadgen::namespace::Spec;
use trellis_loadgen::target::Target;

use super::{Files, Place};
use crate::limits::raise_open_files;
use crate::output::print;

const EXAMPLE: &str = "\
Examples:
  trellis load build --files 1000000
  trellis load build --target hdfs://nn1:8020,nn2:8020 --base /user/ann/load --files 200000 --workers 128
  trellis load build --files 200000 --blocks simulated --sizes 0:10,1-64k:70,64k-1g:20 --datanodes 12

Names are a function of these options alone: run again after an interruption, or after runs that deleted files, it makes \
what is missing. Without options it is Spotify's namespace as published, of 100 000 empty files. \
Simulated datanodes must be the only ones alive; they end with the command, and later ones bring them back.";

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
    #[command(flatten)]
    contents: Files,
    /// Directories that are made at once, each over a connection of its own
    #[arg(long, value_name = "COUNT", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    workers: u32,
}

/// Runs the command.
pub async fn run(args: Args) -> Result<ExitCode> {
    raise_open_files();
    let Args { place, files, depth, files_per_dir, dirs_per_dir, name_length, seed, contents, workers } =
        args;
    let contents = contents.asked().over(&Contents::default())?;
    let spec = Spec { files, depth, files_per_dir, dirs_per_dir, name_length, seed, contents };
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
    if built.files_mended > 0 {
        print(format_args!("{} of them were there, but unfinished", built.files_mended))?;
    }
    if let Some(work) = built.datanodes {
        print(format_args!(
            "{} simulated datanodes hold {} replicas, and told of them in {} calls",
            work.datanodes, work.replicas, work.reports
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
