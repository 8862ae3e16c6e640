//! Command lines as `hdfs dfs` takes them, in the words that `trellis fs` has.

use std::ffi::OsString;

/// Words of verbs that the stock shell begins with one dash. What else begins with one is a group of letters.
const SINGLE_DASH: &[(&str, &[(&str, &str)])] = &[
    (
        "find",
        &[
            ("-name", "--name"),
            ("-iname", "--iname"),
            ("-print", "--print"),
            ("-print0", "--print0"),
            ("-and", "--and"),
        ],
    ),
    ("rm", &[("-skipTrash", "--skip-trash")]),
    ("get", GET),
    ("copyToLocal", GET),
    ("cat", IGNORE_CRC),
    ("text", IGNORE_CRC),
    ("getmerge", &[("-nl", "--nl"), ("-skip-empty-file", "--skip-empty-file")]),
    ("cp", &[("-p", "--preserve")]),
];

const GET: &[(&str, &str)] = &[("-ignoreCrc", "--ignore-crc"), ("-crc", "--crc")];
const IGNORE_CRC: &[(&str, &str)] = &[("-ignoreCrc", "--ignore-crc")];

/// Options of `hdfs fsck` that `trellis fsck` has with two dashes.
const FSCK: &[&str] = &["-files", "-blocks", "-locations", "-openforwrite", "-list-corruptfileblocks"];

/// A command line in which `trellis fs -rm -skipTrash /x` has become `trellis fs rm --skip-trash /x`, and
/// `trellis fsck / -files` `trellis fsck / --files`. All others stay as they are.
pub fn plain(mut line: Vec<OsString>) -> Vec<OsString> {
    if line.get(1).is_some_and(|command| command == "fsck") {
        return line.into_iter().map(plain_of_fsck).collect();
    }
    if line.get(1).is_none_or(|command| command != "fs") {
        return line;
    }
    let Some(at) = verb_at(&mut line) else { return line };
    let Some(verb) = line[at].to_str() else { return line };
    let verb = match verb.strip_prefix('-') {
        Some(word) if word.len() > 1 && !word.starts_with('-') => word.to_owned(),
        _ => verb.to_owned(),
    };
    line[at] = (&verb).into();
    let words = SINGLE_DASH.iter().find(|(of, _)| *of == verb).map_or(&[][..], |(_, words)| words);
    let end = line.iter().position(|word| word == "--").unwrap_or(line.len());
    for word in &mut line[at..end] {
        if let Some((_, plain)) = words.iter().find(|(stock, _)| word == stock) {
            *word = plain.into();
        } else if verb == "cp"
            && let Some(what) = word.to_str().and_then(|word| word.strip_prefix("-p"))
        {
            // -ptop: what to preserve hangs on to the letter.
            *word = format!("--preserve={what}").into();
        }
    }
    line
}

fn plain_of_fsck(word: OsString) -> OsString {
    match word.to_str().filter(|word| FSCK.contains(word)) {
        Some(option) => format!("-{option}").into(),
        None => word,
    }
}

/// Where the verb stands, after the options that may come before it; `-fs` among them becomes `--fs`.
fn verb_at(line: &mut [OsString]) -> Option<usize> {
    let mut at = 2;
    loop {
        let word = line.get_mut(at)?;
        if word == "-fs" {
            *word = "--fs".into();
        }
        at += match word.to_str() {
            Some("--fs" | "-D") => 2,
            Some(word) if word.starts_with("-D") => 1,
            Some(word) if word.starts_with("--fs=") => 1,
            _ => return Some(at),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    fn became(line: &str) -> String {
        let words = plain(line.split(' ').map(Into::into).collect());
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_stock_shells_lines_become_ours() {
        for (line, want) in [
            ("trellis fs -ls -R /", "trellis fs ls -R /"),
            (
                "trellis fs -fs hdfs://h:1 -rm -r -skipTrash /x",
                "trellis fs --fs hdfs://h:1 rm -r --skip-trash /x",
            ),
            (
                "trellis fs --fs=h:1 -find / -name -x -and -print",
                "trellis fs --fs=h:1 find / --name -x --and --print",
            ),
            ("trellis fs find / -iname *.C -print0", "trellis fs find / --iname *.C --print0"),
            ("trellis fs rm -- -skipTrash", "trellis fs rm -- -skipTrash"),
            ("trellis fs -D a=b -get -f -ignoreCrc /x y", "trellis fs -D a=b get -f --ignore-crc /x y"),
            ("trellis fs -Da=b cp -pto -f /x /y", "trellis fs -Da=b cp --preserve=to -f /x /y"),
            ("trellis fs cp -p /x /y", "trellis fs cp --preserve /x /y"),
            ("trellis fs -appendToFile - /x", "trellis fs appendToFile - /x"),
            ("trellis fs ls -name", "trellis fs ls -name"),
            ("trellis fs -help ls", "trellis fs help ls"),
            ("trellis fs --help", "trellis fs --help"),
            ("trellis fs -h", "trellis fs -h"),
            ("trellis fs --fs", "trellis fs --fs"),
            ("trellis fsck / -files -blocks -x", "trellis fsck / --files --blocks -x"),
            ("trellis admin -status", "trellis admin -status"),
            ("trellis", "trellis"),
        ] {
            assert_eq!(became(line), want);
        }
    }
}
