//! Source files that nobody declares: the compiler does not miss them, so their tests would never run.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use cargo_metadata::MetadataCommand;

use crate::root;

/// Folders of a crate whose files are modules.
const FOLDERS: &[&str] = &["src", "tests"];

/// Fails on source files that no other declares, naming all of them.
pub fn check() -> Result<()> {
    let metadata = MetadataCommand::new().no_deps().current_dir(root()).exec().context("cargo metadata")?;
    let targets = metadata.packages.iter().flat_map(|package| &package.targets);
    let roots: Vec<PathBuf> = targets.map(|target| target.src_path.clone().into_std_path_buf()).collect();
    let mut missed = Vec::new();
    for package in &metadata.packages {
        let Some(dir) = package.manifest_path.parent() else { continue };
        for folder in FOLDERS.iter().map(|folder| dir.as_std_path().join(folder)).filter(|dir| dir.is_dir()) {
            let files = sources(&folder)?;
            missed.extend(files.into_iter().filter(|file| !roots.contains(file) && !is_declared(file)));
        }
    }
    if missed.is_empty() {
        return Ok(());
    }
    let missed: Vec<String> = missed.iter().map(|file| file.display().to_string()).collect();
    bail!("source files that no other declares as a module:\n  {}", missed.join("\n  "));
}

/// All Rust files below a folder.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

/// Whether the file that a module belongs to declares it, by its name or, beside it, by its path.
fn is_declared(file: &Path) -> bool {
    let module = match file.file_name().is_some_and(|name| name == "mod.rs") {
        true => file.parent().unwrap_or(file).to_owned(),
        false => file.with_extension(""),
    };
    let (Some(name), Some(dir), Some(own)) = (module.file_name(), module.parent(), file.file_name()) else {
        return false;
    };
    let by_name = format!("mod {};", name.to_string_lossy());
    let by_path = format!("#[path = \"{}\"]", own.to_string_lossy());
    let has = |owner: &Path, declaration: &str| {
        let text = fs::read_to_string(owner).unwrap_or_default();
        text.lines().map(str::trim).any(|line| {
            line.strip_suffix(declaration).is_some_and(|before| before.is_empty() || before.ends_with(' '))
        })
    };
    let owners = ["mod.rs", "lib.rs", "main.rs"].map(|owner| dir.join(owner));
    owners.iter().chain([&dir.with_extension("rs")]).any(|owner| has(owner, &by_name))
        || sources(dir).unwrap_or_default().iter().any(|beside| has(beside, &by_path))
}

#[test]
fn every_source_file_is_declared() {
    check().unwrap();
}

#[test]
fn one_that_is_not_is_found() {
    let src = root().join("xtask/src");
    assert!(is_declared(&src.join("edges.rs")));
    assert!(!is_declared(&src.join("absent.rs")) && !is_declared(&src.join("absent/mod.rs")));
}
