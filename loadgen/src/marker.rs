//! How a base tells which namespace it holds: an empty directory named `spec-…`.
//!
//! A namespace of files without blocks and of one shape throughout stands in that name, as it always did. All else is
//! JSON, in hexadecimal, in the names of directories below one that is named by its checksum.

use trellis_client::Client;

use crate::error::{Error, Result};
use crate::namespace::Spec;

/// Before a checksum.
const HEAD: &str = "spec-x";
/// Of the directories.
const MODE: u16 = 0o755;
/// Bytes of JSON in a name: well below the limit of a name.
const PIECE: usize = 100;
/// Longer than any record is.
const MAX_PIECES: usize = 5000;

/// What a base holds.
#[derive(Debug, PartialEq)]
pub enum Found {
    /// Nothing, or there is no such directory.
    Nothing,
    /// A namespace.
    Spec(Box<Spec>),
    /// A record that is not whole, by the name of its directory: a build was ended before it began.
    Begun(String),
}

/// The name of the directory that stands for a spec, and the names below it.
fn names(spec: &Spec) -> Result<(String, Vec<String>)> {
    if spec.is_plain() {
        return Ok((spec.to_string(), Vec::new()));
    }
    let json = serde_json::to_vec(spec).map_err(|error| Error::Unreadable(error.to_string()))?;
    let hex = |piece: &[u8]| piece.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let pieces = json.chunks(PIECE).enumerate();
    Ok((head(&json), pieces.map(|(index, piece)| format!("{index:04}-{}", hex(piece))).collect()))
}

fn head(json: &[u8]) -> String {
    format!("{HEAD}{:016x}", crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, json))
}

/// Puts a spec's record into a base, or what is missing of it.
pub async fn write(client: &Client, base: &str, spec: &Spec) -> Result<()> {
    let (name, pieces) = names(spec)?;
    client.mkdirs(&format!("{base}/{name}"), MODE, true).await?;
    for piece in pieces {
        client.mkdirs(&format!("{base}/{name}/{piece}"), MODE, true).await?;
    }
    Ok(())
}

/// Whether a begun record is that of this spec.
pub fn is_of(begun: &str, spec: &Spec) -> bool {
    names(spec).is_ok_and(|(name, _)| name == begun)
}

/// Reads what a base holds. Something else in it is an error.
pub async fn read(client: &Client, base: &str) -> Result<Found> {
    let Some(status) = client.get_file_info(base).await? else { return Ok(Found::Nothing) };
    if !status.is_dir() {
        return Err(Error::refused(format!("{base} is a file: give another --base")));
    }
    let (mut listing, mut records, mut others) = (client.get_listing(base), Vec::new(), 0);
    while let Some(entry) = listing.next().await? {
        match entry.name.starts_with(HEAD) || entry.name.parse::<Spec>().is_ok() {
            true => records.push(entry.name),
            false => others += 1,
        }
    }
    match (records.pop(), records.len(), others) {
        (Some(name), 0, _) => match name.parse() {
            Ok(spec) => Ok(Found::Spec(Box::new(spec))),
            Err(()) => read_pieces(client, base, name).await,
        },
        (None, _, 0) => Ok(Found::Nothing),
        (None, ..) => Err(Error::refused(format!("{base} holds something else: give another --base"))),
        (Some(_), ..) => {
            Err(Error::refused(format!("{base} holds several namespaces: delete it, or give another --base")))
        }
    }
}

async fn read_pieces(client: &Client, base: &str, name: String) -> Result<Found> {
    let path = format!("{base}/{name}");
    let (mut listing, mut pieces) = (client.get_listing(&path), Vec::new());
    while let Some(entry) = listing.next().await? {
        pieces.push(entry.name);
        if pieces.len() > MAX_PIECES {
            return Err(Error::Unreadable(format!(
                "{path} has too many entries for the record of a namespace"
            )));
        }
    }
    joined(&name, pieces).map_or(Ok(Found::Begun(name)), |json| {
        let spec = serde_json::from_slice(&json).map_err(|error| {
            let why = format!("{path} is of another version of the load generator: {error}");
            Error::Unreadable(why)
        })?;
        Ok(Found::Spec(Box::new(spec)))
    })
}

/// The JSON in the names below the directory `name`; None: it is not whole.
fn joined(name: &str, mut pieces: Vec<String>) -> Option<Vec<u8>> {
    pieces.sort_unstable();
    let mut json = Vec::new();
    for piece in &pieces {
        let (_, hex) = piece.split_once('-')?;
        for pair in hex.as_bytes().chunks(2) {
            json.push(u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?);
        }
    }
    (head(&json) == name).then_some(json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contents::{Blocks, Contents};

    fn spec() -> Spec {
        let sizes = "0:10,1-64k:70,64k-1g:20".parse().expect("sizes");
        let contents = Contents { blocks: Blocks::Simulated, sizes, ..Contents::default() };
        Spec { contents, ..Spec::default() }
    }

    #[test]
    fn a_plain_namespace_is_named_as_it_always_was() {
        let (name, below) = names(&Spec::default()).expect("names");
        assert_eq!((name.as_str(), below.len()), ("spec-100000-7-16-2-34-1", 0));
    }

    #[test]
    fn others_are_put_together_from_names() {
        let (name, pieces) = names(&spec()).expect("names");
        assert!(pieces.len() > 1 && pieces.iter().all(|piece| piece.len() <= 255), "{pieces:?}");
        assert!(name.parse::<Spec>().is_err() && is_of(&name, &spec()) && !is_of(&name, &Spec::default()));
        let mut shuffled = pieces.clone();
        shuffled.reverse();
        let json = joined(&name, shuffled).expect("whole");
        assert_eq!(serde_json::from_slice::<Spec>(&json).expect("ours"), spec());
        assert_eq!(joined(&name, pieces[1..].to_vec()), None);
        assert_eq!(joined(&name, vec!["ü-ü".into()]), None);
    }
}
