//! Files that this program writes: there whole or not at all. Those that it reads back are JSON with a `schema` that says
//! which form they have.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::output::{Output, writing};

/// No longer file is read.
const MAX_BYTES: u64 = 1 << 30;

/// No figure that is not a whole number is larger.
const MOST: f64 = 1e15;

/// Writes a file whole, or not at all.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut output = Output::replacing(path)?;
    output.write_all(bytes).map_err(writing(path))?;
    output.keep()
}

/// Writes one that can be read back.
pub fn write<T: Serialize>(path: &Path, contents: &T) -> Result<()> {
    let text = serde_json::to_vec_pretty(contents).map_err(std::io::Error::other);
    write_whole(path, &text.map_err(writing(path))?)
}

/// Reads one back, if it is of this schema. `what` it is, such as "report".
pub fn read<T: DeserializeOwned>(path: &Path, what: &str, schema: u32) -> Result<T> {
    let text = text(path, what)?;
    let found: Value = parsed(path, what, &text)?;
    match Schema::deserialize(&found) {
        Ok(Schema { schema: other }) if other != schema => {
            let why = format!("its schema is {other}, this program knows {schema}");
            return Err(is_none(path, what, &why));
        }
        Ok(_) => {}
        Err(error) => return Err(is_none(path, what, &error.to_string())),
    }
    if let Some(figure) = implausible("", &found) {
        return Err(is_none(path, what, &format!("{figure} is a figure that cannot be")));
    }
    // From the text: that says where it is wrong, and refuses fields that stand there twice.
    parsed(path, what, &text)
}

/// The first figure that nothing can have measured: below zero, but for differences, or beyond all measure.
fn implausible(name: &str, value: &Value) -> Option<String> {
    let below = |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
    match value {
        Value::Object(fields) => fields.iter().find_map(|(key, value)| implausible(&below(key), value)),
        Value::Array(all) => {
            all.iter().enumerate().find_map(|(index, value)| implausible(&below(&index.to_string()), value))
        }
        Value::Number(number) if !number.is_u64() => {
            let figure = number.as_f64()?;
            let may_be_negative = name.ends_with("error_percent") || name.ends_with("late_us");
            let is_sound = figure.abs() <= MOST && (figure >= 0.0 || may_be_negative);
            (!is_sound).then(|| format!("{name}: {number}"))
        }
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Saved {
        schema: u32,
        count: u64,
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told_with_its_place() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("saved.json");
        let read = |text: &str| {
            fs::write(&path, text).expect("a file");
            read::<Saved>(&path, "report", 3).map_err(|error| error.to_string())
        };
        assert_eq!(read(r#"{"schema": 3, "count": 7}"#), Ok(Saved { schema: 3, count: 7 }));
        let wrong = [
            (r#"{"schema": 3, "count": 7"#, "at line 1 column 24"),
            ("{\"schema\": 3,\n\"count\": \"x\"}", "at line 2 column"),
            (r#"{"schema": 3, "count": 7, "count": 8}"#, "duplicate field"),
            (r#"{"count": 7}"#, "missing field `schema`"),
            (r#"{"schema": 4, "other": 7}"#, "its schema is 4, this program knows 3"),
            (r#"{"schema": 3, "count": -7}"#, "a figure that cannot be"),
        ];
        for (text, why) in wrong {
            let error = read(text).expect_err(text);
            assert!(error.contains(why) && error.contains("saved.json is no report"), "{text}: {error}");
        }
    }

    #[test]
    fn figures_that_cannot_be_are_found_wherever_they_are() {
        let of = |value: Value| implausible("", &value);
        let sound =
            json!({"seed": u64::MAX, "replay": {"rate_error_percent": -1.5}, "a": [0, 1.5, null, "-1"]});
        assert_eq!(of(sound), None);
        assert_eq!(of(json!({"total": {"us": -100.0}})), Some("total.us: -100.0".into()));
        assert_eq!(of(json!({"a": [1, {"b": -1}]})), Some("a.1.b: -1".into()));
        assert_eq!(of(json!({"a": 1e308})), Some("a: 1e+308".into()));
        assert_eq!(of(json!({"a": {"error_percent": 1e300}})), Some("a.error_percent: 1e+300".into()));
    }
}
