//! Where traces are written: a new file, packed if its name ends with `.gz`, or standard output.

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Stdout, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::reader::STDIN;
use crate::error::{Error, Result};

/// A trace that is being written.
pub struct Sink {
    path: PathBuf,
    out: Out,
}

enum Out {
    Plain(BufWriter<std::fs::File>),
    Packed(GzEncoder<BufWriter<std::fs::File>>),
    Stdout(BufWriter<Stdout>),
}

impl Sink {
    /// Begins a file, or standard output for `-`.
    ///
    /// # Errors
    /// There is a file of this name: it may be the one that is read.
    pub fn create(path: &Path) -> Result<Sink> {
        let out = match path.as_os_str() == STDIN {
            true => Out::Stdout(BufWriter::new(io::stdout())),
            false => {
                let file = OpenOptions::new().write(true).create_new(true).open(path);
                let file = BufWriter::new(file.map_err(Error::io(format!("making {}", path.display())))?);
                match path.extension().is_some_and(|extension| extension == "gz") {
                    true => Out::Packed(GzEncoder::new(file, Compression::default())),
                    false => Out::Plain(file),
                }
            }
        };
        Ok(Sink { path: path.to_owned(), out })
    }

    /// Writes some text.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&mut self, text: &str) -> Result<()> {
        let out: &mut dyn Write = match &mut self.out {
            Out::Plain(out) => out,
            Out::Packed(out) => out,
            Out::Stdout(out) => out,
        };
        out.write_all(text.as_bytes()).map_err(failed(&self.path))
    }

    /// Ends it. Without this, the end may be missing.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self) -> Result<()> {
        let flushed = match self.out {
            Out::Plain(mut out) => out.flush(),
            Out::Packed(out) => out.finish().and_then(|mut out| out.flush()),
            Out::Stdout(mut out) => out.flush(),
        };
        flushed.map_err(failed(&self.path))
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> Error {
    Error::io(format!("writing {}", path.display()))
}
