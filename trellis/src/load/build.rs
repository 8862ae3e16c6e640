//! `trellis load build`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use trellis_loadgen::build::build;
use trellis_loadgen::contents::Contents;
use trellis_loadgen::like::table::{Table, read_file};
use trellis_loadgen::namespace::Spec;
use trellis_loadgen::target::Target;

use super::{Files, Place};
use crate::limits::raise_open_files;
use crate::output::print;

const EXAMPLE: &str = "\
Examples:
  trellis load build --files 1000000
  trellis load build --target hdfs://nn1:8020,nn2:8020 --base /user/ann/load --files 200000 --workers 128
  hdfs oiv -p Delimited -i fsimage_0000000000000000042 -o image.tsv; trellis load build --like image.tsv --files 1000000
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
    /// Files in all [default: 100000; those of the image, with --like]
    #[arg(long, value_name = "COUNT")]
    files: Option<u32>,
    /// Makes a namespace like that of an fsimage, from the table that 'hdfs oiv -p Delimited' writes of it: how many
    /// directories and files there are at each depth, and the distributions of directories and files over directories, of the
    /// lengths of names, and of sizes
    #[arg(long, value_name = "FILE", conflicts_with_all = ["depth", "files_per_dir", "dirs_per_dir", "name_length"])]
    like: Option<PathBuf>,
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
    let target = Target::parse(&args.place.target)?;
    let (spec, place, workers) = (spec(&args).await?, args.place, args.workers);
    let files = spec.files;
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

/// The namespace that the options describe.
async fn spec(args: &Args) -> Result<Spec> {
    let Args { depth, files_per_dir, dirs_per_dir, name_length, seed, .. } = *args;
    let asked = args.contents.asked();
    let Some(path) = args.like.clone() else {
        let files = args.files.unwrap_or(Spec::default().files);
        let contents = asked.over(&Contents::default())?;
        return Ok(Spec {
            files,
            depth,
            files_per_dir,
            dirs_per_dir,
            name_length,
            seed,
            contents,
            like: None,
        });
    };
    let Table { counts, skipped, unreadable } =
        tokio::task::spawn_blocking(move || read_file(&path)).await??;
    let image = counts.image();
    print(format_args!(
        "the image has {} files in {} directories on {} levels; {skipped} lines were skipped",
        counts.files(),
        counts.dirs(),
        image.levels.len()
    ))?;
    if let Some((line, why)) = unreadable {
        print(format_args!("the first of them that could not be read is line {line}: {why}"))?;
    }
    let usual = Contents {
        sizes: counts.sizes(),
        block_size: counts.block_size(),
        replication: counts.replication(),
        ..Contents::default()
    };
    let files = match args.files {
        Some(files) => files,
        None => u32::try_from(counts.files())
            .context("the image has more files than can be made: give --files")?,
    };
    Ok(Spec::like(image, files, seed, asked.over(&usual)?))
}
