//! Files that this program writes: there whole or not at all. Those that it reads back are JSON with a `schema` that says
//! which form they have.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::output::Output;

/// No longer file is read.
const MAX_BYTES: u64 = 1 << 30;

/// Writes a file whole, or not at all.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut output = Output::replacing(path)?;
    output.write_all(bytes).map_err(Error::io(format!("writing {}", path.display())))?;
    output.keep()
}

/// Writes one that can be read back.
pub fn write<T: Serialize>(path: &Path, contents: &T) -> Result<()> {
    let text = serde_json::to_vec_pretty(contents).map_err(std::io::Error::other);
    write_whole(path, &text.map_err(Error::io(format!("writing {}", path.display())))?)
}

/// Reads one back, if it is of this schema. `what` it is, such as "report".
pub fn read<T: DeserializeOwned>(path: &Path, what: &str, schema: u32) -> Result<T> {
    let text = text(path, what)?;
    let found: Schema = parsed(path, what, &text)?;
    if found.schema != schema {
        let why = format!("its schema is {}, this program knows {schema}", found.schema);
        return Err(is_none(path, what, &why));
    }
    parsed(path, what, &text)
}

/// Reads some of the fields of one, of whatever schema.
pub fn peek<T: DeserializeOwned>(path: &Path, what: &str) -> Result<T> {
    parsed(path, what, &text(path, what)?)
}

fn text(path: &Path, what: &str) -> Result<Vec<u8>> {
    let reading = || format!("reading {}", path.display());
    if fs::metadata(path).map_err(Error::io(reading()))?.len() > MAX_BYTES {
        return Err(Error::Unreadable(format!("{} is too long for a {what}", path.display())));
    }
    fs::read(path).map_err(Error::io(reading()))
}

fn parsed<T: DeserializeOwned>(path: &Path, what: &str, text: &[u8]) -> Result<T> {
    serde_json::from_slice(text).map_err(|error| is_none(path, what, &error.to_string()))
}

/// A file is not what it should be.
pub fn is_none(path: &Path, what: &str, why: &str) -> Error {
    Error::Unreadable(format!("{} is no {what}: {why}", path.display()))
}

#[derive(Deserialize)]
struct Schema {
    schema: u32,
}
