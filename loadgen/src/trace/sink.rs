//! Where traces are written: a new file, packed if its name ends with `.gz`, or standard output.

use std::io::{self, BufWriter, Stdout, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::reader::STDIN;
use crate::error::Result;
use crate::output::{Output, writing};

/// A trace that is being written. Dropped before its end, it leaves no file behind.
pub struct Sink {
    path: PathBuf,
    out: Out,
}

enum Out {
    Plain(BufWriter<Output>),
    Packed(GzEncoder<BufWriter<Output>>),
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
                let file = BufWriter::new(Output::new(path)?);
                match path.extension().is_some_and(|extension| extension == "gz") {
                    true => Out::Packed(GzEncoder::new(file, Compression::default())),
                    false => Out::Plain(file),
                }
            }
        };
        Ok(Sink { path: path.to_owned(), out })
    }

    /// What there is of it until its end, if it is a file: for who ends before.
    pub fn unfinished(&self) -> Option<&Path> {
        match &self.out {
            Out::Plain(out) => out.get_ref().unfinished(),
            Out::Packed(out) => out.get_ref().get_ref().unfinished(),
            Out::Stdout(_) => None,
        }
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
        out.write_all(text.as_bytes()).map_err(writing(&self.path))
    }

    /// Ends it. Without this there is no file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self) -> Result<()> {
        let path = self.path;
        let file = match self.out {
            Out::Plain(out) => out,
            Out::Packed(out) => out.finish().map_err(writing(&path))?,
            Out::Stdout(mut out) => return out.flush().map_err(writing(&path)),
        };
        let whole = file.into_inner().map_err(|error| writing(&path)(error.into_error()))?;
        whole.keep()
    }
}
