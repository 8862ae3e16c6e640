//! Hadoop's own configuration, as far as a client needs it: `core-site.xml` and `hdfs-site.xml` of `HADOOP_CONF_DIR`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use quick_xml::events::Event;
use quick_xml::{Reader, XmlVersion};

use crate::uri::{Address, InvalidUri, Uri};

/// Later files win.
const FILES: [&str; 2] = ["core-site.xml", "hdfs-site.xml"];
/// Larger files are refused.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// `${x}` is replaced this often in one value, as in Hadoop; also the bound on nesting.
const MAX_EXPANSIONS: usize = 20;

/// Properties by name.
#[derive(Debug, Clone, Default)]
pub struct Conf {
    properties: HashMap<String, Property>,
    dir: Option<PathBuf>,
}

#[derive(Debug, Clone)]
struct Property {
    value: String,
    is_final: bool,
}

/// The namenodes to ask, and a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// At least one.
    pub namenodes: Vec<Address>,
    /// Whether to begin with any of them rather than with the first (`dfs.client.failover.random.order`).
    pub random_order: bool,
    /// From the URI; empty if it has none.
    pub path: String,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfError {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A file is not what Hadoop writes.
    #[error("{}: {why}", path.display())]
    Syntax {
        /// Which.
        path: PathBuf,
        /// Where and what.
        why: String,
    },
    /// A property has an unusable value.
    #[error("{name} is {value:?}: {why}")]
    Value {
        /// The property.
        name: String,
        /// Its value.
        value: String,
        /// What is expected.
        why: &'static str,
    },
    /// Neither the caller nor the configuration names a file system.
    #[error(
        "no file system is named: give hdfs://HOST:PORT, or set fs.defaultFS in core-site.xml and HADOOP_CONF_DIR to \
         its folder"
    )]
    NoFileSystem,
    /// Not a URI of ours.
    #[error(transparent)]
    Uri(#[from] InvalidUri),
}

impl Conf {
    /// From `HADOOP_CONF_DIR`; empty if that is not set.
    pub fn from_env() -> Result<Self, ConfError> {
        match std::env::var_os("HADOOP_CONF_DIR") {
            Some(dir) if !dir.is_empty() => Self::load(Path::new(&dir)),
            _ => Ok(Self::default()),
        }
    }

    /// From the files in `dir`; a missing file is an empty one.
    pub fn load(dir: &Path) -> Result<Self, ConfError> {
        let mut conf = Self { dir: Some(dir.to_owned()), ..Self::default() };
        for name in FILES {
            let path = dir.join(name);
            match read_bounded(&path) {
                Ok(text) => conf.add(&text).map_err(|why| ConfError::Syntax { path, why })?,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(ConfError::Read { path, error }),
            }
        }
        Ok(conf)
    }

    /// Where it was read from.
    pub fn dir(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// A property's value, with `${other.property}` and `${env.NAME}` replaced; None if it is not set.
    pub fn get(&self, name: &str) -> Option<String> {
        self.properties.get(name).map(|property| self.expanded(&property.value))
    }

    /// Sets a property, whatever the files say of it.
    pub fn set(&mut self, name: &str, value: &str) {
        let property = Property { value: value.to_owned(), is_final: true };
        self.properties.insert(name.to_owned(), property);
    }

    /// The file system that `uri` names, or without it `fs.defaultFS`. `hdfs:///path` and `/path` mean a path of the
    /// latter; `hdfs://NAMESERVICE` means all its namenodes.
    pub fn target(&self, uri: Option<&str>) -> Result<Target, ConfError> {
        let path_only =
            uri.map(|uri| uri.strip_prefix("hdfs://").unwrap_or(uri)).filter(|p| p.starts_with('/'));
        let text = match (uri, path_only) {
            (Some(uri), None) => uri.to_owned(),
            _ => self.get("fs.defaultFS").ok_or(ConfError::NoFileSystem)?,
        };
        let uri = Uri::parse(&text)?;
        let path = path_only.map_or(uri.path, str::to_owned);
        if let ([only], false) = (&uri.namenodes[..], uri.has_port)
            && let Some(namenodes) = self.nameservice(only.host())?
        {
            let key = "dfs.client.failover.random.order";
            let order = self.get(&format!("{key}.{}", only.host())).or_else(|| self.get(key));
            let random_order = order.is_none_or(|order| order.trim().eq_ignore_ascii_case("true"));
            return Ok(Target { namenodes, random_order, path });
        }
        Ok(Target { namenodes: uri.namenodes, random_order: true, path })
    }

    /// `fs.permissions.umask-mode`, which must be octal.
    pub fn umask(&self) -> Result<Option<u16>, ConfError> {
        self.parsed("fs.permissions.umask-mode", "say it in octal, such as 022", |text| {
            u16::from_str_radix(text, 8).ok().filter(|mask| *mask <= 0o777)
        })
    }

    /// `dfs.replication`.
    pub fn replication(&self) -> Result<Option<u16>, ConfError> {
        self.parsed("dfs.replication", "it is a number from 1", |text| text.parse().ok().filter(|n| *n > 0))
    }

    /// `dfs.blocksize`, bytes; k, m, g, t and p are understood as in Hadoop.
    pub fn block_size(&self) -> Result<Option<u64>, ConfError> {
        self.parsed("dfs.blocksize", "it is a number of bytes, such as 134217728 or 128m", bytes)
    }

    /// A property that is true or false; false if it is not set.
    pub fn flag(&self, name: &str) -> Result<bool, ConfError> {
        let parse = |text: &str| text.to_ascii_lowercase().parse().ok();
        Ok(self.parsed(name, "it is true or false", parse)?.unwrap_or(false))
    }

    fn parsed<T>(
        &self,
        name: &str,
        why: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, ConfError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match parse(value.trim()) {
            Some(parsed) => Ok(Some(parsed)),
            None => Err(ConfError::Value { name: name.to_owned(), value, why }),
        }
    }

    /// The namenodes of a nameservice; None: there is none of this name.
    fn nameservice(&self, name: &str) -> Result<Option<Vec<Address>>, ConfError> {
        let address = |suffix: &str| {
            self.get(&format!("dfs.namenode.rpc-address.{suffix}"))
                .map(|a| Address::parse(a.trim()))
                .transpose()
        };
        let Some(ids) = self.get(&format!("dfs.ha.namenodes.{name}")) else {
            return Ok(address(name)?.map(|only| vec![only]));
        };
        let mut namenodes = Vec::new();
        for id in ids.split(',').map(str::trim).filter(|id| !id.is_empty()) {
            let missing = || ConfError::Value {
                name: format!("dfs.ha.namenodes.{name}"),
                value: ids.clone(),
                why: "one of these has no dfs.namenode.rpc-address.NAMESERVICE.ID",
            };
            namenodes.push(address(&format!("{name}.{id}"))?.ok_or_else(missing)?);
        }
        Ok(Some(namenodes).filter(|list| !list.is_empty()))
    }

    /// Adds the properties of one file. A final one of an earlier file stays.
    fn add(&mut self, xml: &str) -> Result<(), String> {
        let mut reader = Reader::from_str(xml);
        let at = |reader: &Reader<&[u8]>, what: &str| format!("at byte {}: {what}", reader.buffer_position());
        let (mut name, mut value, mut is_final) = (None, None, false);
        let mut text = String::new();
        loop {
            let event = reader.read_event().map_err(|error| at(&reader, &error.to_string()))?;
            match event {
                Event::Start(tag) => {
                    text.clear();
                    match tag.name().as_ref() {
                        "property" => (name, value, is_final) = (None, None, false),
                        "xi:include" => return Err(at(&reader, "xi:include is not supported")),
                        _ => {}
                    }
                }
                Event::Empty(tag) => match tag.name().as_ref() {
                    "value" => value = Some(String::new()),
                    "xi:include" => return Err(at(&reader, "xi:include is not supported")),
                    _ => {}
                },
                Event::Text(piece) => text.push_str(&piece.xml_content(XmlVersion::Implicit1_0)),
                Event::CData(piece) => text.push_str(&piece.xml_content(XmlVersion::Implicit1_0)),
                Event::GeneralRef(reference) => {
                    let entity = format!("&{};", &*reference);
                    let resolved = quick_xml::escape::unescape(&entity)
                        .map_err(|error| at(&reader, &error.to_string()))?;
                    text.push_str(&resolved);
                }
                Event::End(tag) => match tag.name().as_ref() {
                    "name" => name = Some(text.trim().to_owned()),
                    "value" => value = Some(text.clone()),
                    "final" => is_final = text.trim() == "true",
                    "property" => {
                        if let (Some(name), Some(value)) = (name.take(), value.take()) {
                            self.add_property(name, Property { value, is_final });
                        }
                    }
                    _ => {}
                },
                Event::Eof => return Ok(()),
                _ => {}
            }
        }
    }

    fn add_property(&mut self, name: String, property: Property) {
        if self.properties.get(&name).is_none_or(|before| !before.is_final) {
            self.properties.insert(name, property);
        }
    }

    /// What cannot be replaced stays as it is, as in Hadoop.
    fn expanded(&self, value: &str) -> String {
        let mut value = value.to_owned();
        for _ in 0..MAX_EXPANSIONS {
            let Some((start, end, replacement)) = self.first_variable(&value) else { break };
            value.replace_range(start..end, &replacement);
        }
        value
    }

    /// The first variable that has a value: where it stands, and the value.
    fn first_variable(&self, text: &str) -> Option<(usize, usize, String)> {
        let mut from = 0;
        while let Some(start) = text.get(from..)?.find("${").map(|at| from + at) {
            let end = start + text.get(start..)?.find('}')? + 1;
            let name = text.get(start + 2..end - 1)?;
            let found = match name.strip_prefix("env.") {
                Some(variable) => std::env::var(variable).ok(),
                None if name == "user.name" => Some(crate::user::default_user()),
                None => self.properties.get(name).map(|property| property.value.clone()),
            };
            if let Some(found) = found {
                return Some((start, end, found));
            }
            from = end;
        }
        None
    }
}

fn read_bounded(path: &Path) -> std::io::Result<String> {
    if std::fs::metadata(path)?.len() > MAX_FILE_BYTES {
        return Err(std::io::Error::other("it is larger than 16 MiB"));
    }
    std::fs::read_to_string(path)
}

fn bytes(text: &str) -> Option<u64> {
    let (number, shift) = match text.char_indices().next_back()? {
        (at, unit) if unit.is_ascii_alphabetic() => {
            let power = "kmgtp".find(unit.to_ascii_lowercase())? as u32 + 1;
            (text.get(..at)?, 10 * power)
        }
        _ => (text, 0),
    };
    let number = number.trim().parse::<u64>().ok().filter(|n| *n > 0)?;
    number.checked_mul(1u64 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conf(files: &[&str]) -> Conf {
        let mut conf = Conf::default();
        for text in files {
            conf.add(&format!("<?xml version=\"1.0\"?>\n<configuration>{text}</configuration>")).unwrap();
        }
        conf
    }

    fn property(name: &str, value: &str) -> String {
        format!("<property>\n <name> {name} </name><value>{value}</value></property>\n")
    }

    #[test]
    fn a_nameservice_is_all_its_namenodes() {
        let text = [
            property("fs.defaultFS", "hdfs://ns"),
            property("dfs.nameservices", "ns,one"),
            property("dfs.ha.namenodes.ns", "a, b"),
            property("dfs.namenode.rpc-address.ns.a", "h1:1"),
            property("dfs.namenode.rpc-address.ns.b", "${other}:2"),
            property("other", "h2"),
            property("dfs.namenode.rpc-address.one", "h3:3"),
            property("dfs.client.failover.random.order.ns", "false"),
        ]
        .concat();
        let conf = conf(&[&text]);
        let named = |uri: Option<&str>| {
            let target = conf.target(uri).unwrap();
            let list: Vec<_> = target.namenodes.iter().map(Address::to_string).collect();
            (list.join(" "), target.random_order, target.path)
        };
        assert_eq!(named(None), ("h1:1 h2:2".to_owned(), false, String::new()));
        assert_eq!(named(Some("hdfs://ns/a")), ("h1:1 h2:2".to_owned(), false, "/a".to_owned()));
        assert_eq!(named(Some("hdfs:///a")), ("h1:1 h2:2".to_owned(), false, "/a".to_owned()));
        assert_eq!(named(Some("/a")), ("h1:1 h2:2".to_owned(), false, "/a".to_owned()));
        assert_eq!(named(Some("hdfs://one")), ("h3:3".to_owned(), true, String::new()));
        assert_eq!(named(Some("hdfs://ns:9/")), ("ns:9".to_owned(), true, "/".to_owned()));
        assert_eq!(named(Some("x:1,y:2")), ("x:1 y:2".to_owned(), true, String::new()));
    }

    #[test]
    fn what_is_missing_or_wrong_is_said() {
        let target = |text: &str| conf(&[text]).target(None).unwrap_err().to_string();
        assert!(target("").contains("fs.defaultFS"));
        assert!(target(&property("fs.defaultFS", "file:///")).contains("not hdfs"));
        let lacks = property("fs.defaultFS", "hdfs://ns") + &property("dfs.ha.namenodes.ns", "a");
        assert!(target(&lacks).contains("rpc-address"), "{}", target(&lacks));
        assert!(Conf::default().add("<configuration><property></configuration>").is_err());
        assert!(conf(&[&property("dfs.replication", "x")]).replication().is_err());
        assert!(conf(&[&property("fs.permissions.umask-mode", "u=rwx")]).umask().is_err());
    }

    #[test]
    fn values_escapes_finals_and_variables() {
        let first = "<property><name>a</name><value>1</value><final>true</final></property>\
                     <property><name>b</name><value>x&amp;&#65;<![CDATA[<y>]]></value></property>\
                     <property><name>empty</name><value/></property><!-- <property> -->";
        let conf = conf(&[
            first,
            &(property("a", "2")
                + &property("loop", "${loop}")
                + &property("c", "${nope}${b}${env.NOT_SET_AT_ALL}")),
        ]);
        assert_eq!(conf.get("a").as_deref(), Some("1"));
        assert_eq!(conf.get("b").as_deref(), Some("x&A<y>"));
        assert_eq!(conf.get("empty").as_deref(), Some(""));
        assert_eq!(conf.get("c").as_deref(), Some("${nope}x&A<y>${env.NOT_SET_AT_ALL}"));
        assert_eq!(conf.get("loop").as_deref(), Some("${loop}"));
        assert_eq!(conf.get("d"), None);
    }

    #[test]
    fn sizes() {
        for (text, want) in [
            ("1024", Some(1024)),
            ("128m", Some(128 << 20)),
            ("1G", Some(1 << 30)),
            ("0", None),
            ("m", None),
            ("9999999p", None),
            ("1x", None),
        ] {
            assert_eq!(bytes(text), want, "{text}");
        }
    }

    #[test]
    fn reads_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(Conf::load(dir.path()).unwrap().target(None), Err(ConfError::NoFileSystem)));
        let text = format!("<configuration>{}</configuration>", property("fs.defaultFS", "hdfs://h:1"));
        std::fs::write(dir.path().join("core-site.xml"), text).unwrap();
        let conf = Conf::load(dir.path()).unwrap();
        assert_eq!(conf.target(None).unwrap().namenodes, [Address::new("h", 1)]);
        std::fs::write(dir.path().join("hdfs-site.xml"), "<configuration").unwrap();
        assert!(Conf::load(dir.path()).unwrap_err().to_string().contains("hdfs-site.xml"));
    }
}
