//! `trellis fs` beside the stock shell, on one stock cluster: the same command lines, the same exit codes, the same
//! output, the same files.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use e2e::cluster::binary;
use e2e::hadoop::Hadoop;
use e2e::stock::Stock;

/// Command lines, in which `R` at the head of a word is a remote folder and `L` a local one; stdin is empty. Steps build
/// on each other.
const STEPS: &[&str] = &[
    "-mkdir -p R/d",
    "-put L/big R/big",
    "-put L/big R/big",
    "-put -f L/big R/big",
    "-put L/big L/small R/d",
    "-put L/big L/small R/nosuch",
    "-put L/big L/small R/big",
    "-put L/nosuch R/x",
    "-put L/small R/no/x",
    "-put L/tree R/tree",
    "-put L/tree R/tree",
    "-put -f L/tree R",
    "-put L/tree R/big",
    "-put -d -f L/small R/d/direct",
    "-put - R/stdin",
    "-put - R/stdin",
    "-put -f - R/stdin",
    "-put -f L/text R/stdin",
    "-copyFromLocal L/small R/copied",
    "-moveFromLocal L/moved R/moved",
    "-put -p L/small R/kept",
    "-stat %a:%b R/kept",
    "-cat R/stdin R/d/small",
    "-cat R/d",
    "-cat R/nosuch R/stdin",
    "-cat -ignoreCrc R/moved",
    "-head R/big",
    "-tail R/big",
    "-tail R/small?",
    "-text R/d/small",
    "-put L/packed.gz R/packed.gz",
    "-text R/packed.gz",
    "-checksum R/big R/stdin R/d/direct",
    "-checksum R/d",
    "-get R/big L/big.back",
    "-get R/big L/big.back",
    "-get -f R/big L/big.back",
    "-get -p R/kept L/kept.back",
    "-get R/tree L/tree.back",
    "-get R/big R/stdin L/nosuch",
    "-get R/nosuch L/x",
    "-copyToLocal -ignoreCrc R/d/* L/into",
    "-getmerge -nl R/d L/merged",
    "-getmerge R/stdin R/d/small L/merged2",
    "-getmerge -nl -skip-empty-file R/tree L/merged3",
    "-getmerge R/nosuch L/merged4",
    "-cp R/big R/big2",
    "-cp R/big R/big2",
    "-cp -f R/stdin R/big2",
    "-cp R/tree R/tree2",
    "-cp R/tree R/tree/sub",
    "-cp -p R/kept R/kept2",
    "-stat %a:%b R/kept2",
    "-cp R/stdin R/moved R/d",
    "-cp R/stdin R/moved R/nosuch",
    "-cp R/nosuch R/x",
    "-appendToFile L/small R/stdin",
    "-appendToFile - R/stdin",
    "-appendToFile L/small L/big R/new",
    "-appendToFile L/nosuch R/new",
    "-appendToFile L/small R/d",
    "-cat R/stdin",
    "-truncate -w 5 R/stdin",
    "-truncate 5 R/stdin",
    "-truncate 99 R/stdin",
    "-truncate 1 R/d",
    "-cat R/stdin",
    "-put L/small R/c1",
    "-put L/small R/c2",
    "-put L/small R/c3",
    "-concat R/c1 R/c2 R/c3",
    "-concat R/c1 R/copied R/nosuch",
    "-cat R/c1",
    "-setrep 1 R/stdin", // with -w what is printed hangs on how soon the other replicas are gone
    "-touchz R/big",
    "-test -s R/big",
    "-test -z R/big",
    "-touch -t 20201130:205753 R/stdin R/touched", // which time that is hangs on the machine's zone for stock's
    "-touch -t 20201130 R/stdin",
    "-test -e R/touched",
    "-cat R/{d/small,stdin}",
    "-ls -R -C R",
    "-du -s R",
];

/// The modification time of a file that keeps it, in seconds since 1970: both shells can keep that.
const KEPT_SECONDS: u64 = 1_700_000_000;

/// What a command line gave: exit code, stdout, stderr.
struct Outcome {
    code: i32,
    said: String,
    complained: String,
}

/// Both shells, each with folders of its own.
pub fn both_shells() -> Result<Vec<String>> {
    let cluster = Stock::start(1, &[])?;
    let hadoop = cluster.client()?;
    let dir = tempfile::tempdir()?;
    let [ours, stock] = ["ours", "stock"].map(|name| dir.path().join(name));
    lay_out(&ours)?;
    lay_out(&stock)?;
    let theirs = stock_outcomes(&hadoop, &stock)?;
    ensure!(theirs.len() == STEPS.len(), "{} answers of stock's to {} lines", theirs.len(), STEPS.len());
    let (mut notes, mut wrong) = (Vec::new(), Vec::new());
    for (line, theirs) in STEPS.iter().zip(theirs) {
        let ours = our_outcome(&hadoop, &ours, line)?;
        let (said, wanted) = (plain(&ours.said, "ours"), plain(&theirs.said, "stock"));
        let both = format!("ours {:?}, stock's {:?}", ours.complained, theirs.complained);
        // What stock takes for wrong usage.
        if ours.code != theirs.code && (theirs.code != 255 || ours.code == 0) {
            wrong.push(format!("{line}: ours ends with {}, stock's with {}: {both}", ours.code, theirs.code));
        }
        if said != wanted {
            wrong.push(format!("{line}: ours prints {said:?}, stock's {wanted:?}"));
        }
        if ours.complained.is_empty() != theirs.complained.is_empty() {
            notes.push(format!("{line}: {both}"));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    same_tree(&ours, &stock)?;
    for dir in [&ours, &stock] {
        let kept = fs::metadata(dir.join("kept.back"))?.modified()?;
        ensure!(kept == UNIX_EPOCH + Duration::from_secs(KEPT_SECONDS), "{}: {kept:?}", dir.display());
    }
    Ok(notes)
}

/// Without the names of folders, and with single spaces.
fn plain(said: &str, name: &str) -> String {
    let said = said.replace(&format!("/{name}"), "R");
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The words of a line for one of the shells.
fn words(line: &str, local: &Path) -> Vec<String> {
    let name = local.file_name().unwrap_or_default().to_string_lossy();
    let word = |word: &str| match (word.strip_prefix("R"), word.strip_prefix("L")) {
        (Some(path), _) => format!("/{name}{path}"),
        (_, Some(path)) => format!("{}{path}", local.display()),
        _ => word.to_owned(),
    };
    line.split(' ').map(word).collect()
}

/// All lines in one JVM.
fn stock_outcomes(hadoop: &Hadoop, local: &Path) -> Result<Vec<Outcome>> {
    let lines: String = STEPS.iter().map(|line| format!("dfs {}\n", words(line, local).join(" "))).collect();
    let input = local.with_extension("lines");
    fs::write(&input, lines)?;
    let transcript = hadoop.probe("Shells", &[], Some(&input))?;
    let mut outcomes: Vec<Outcome> = Vec::new();
    for line in transcript.lines() {
        let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (mark, outcomes.last_mut()) {
            ("=", _) => {
                let code = rest.parse().with_context(|| format!("no exit code: {line}"))?;
                outcomes.push(Outcome { code, said: String::new(), complained: String::new() });
            }
            ("|", Some(last)) => last.said += &format!("{rest}\n"),
            ("!", Some(last)) => last.complained += &format!("{rest}\n"),
            _ => {}
        }
    }
    Ok(outcomes)
}

fn our_outcome(hadoop: &Hadoop, local: &Path, line: &str) -> Result<Outcome> {
    let output = Command::new(binary()?)
        .arg("fs")
        .args(words(line, local))
        .env("HADOOP_CONF_DIR", hadoop.conf())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("running {line}"))?;
    Ok(Outcome {
        code: output.status.code().with_context(|| format!("{line}: ended by a signal"))?,
        said: text(&output.stdout),
        complained: text(&output.stderr),
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lay_out(local: &Path) -> Result<()> {
    fs::create_dir_all(local.join("tree/below/deep"))?;
    fs::create_dir(local.join("into"))?;
    let big: Vec<u8> = (0..300_000u64).map(|i| b'a' + (i * i % 23) as u8).collect();
    fs::write(local.join("big"), big)?;
    fs::write(local.join("small"), "small\n")?;
    fs::write(local.join("moved"), "moved\n")?;
    fs::write(local.join("tree/below/empty"), "")?;
    fs::write(local.join("tree/below/deep/leaf"), "leaf\n")?;
    fs::write(local.join("tree/top"), "top")?;
    // echo packed | gzip -n
    let packed = [
        0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 0xff, 0x2b, 0x48, 0x4c, 0xce, 0x4e, 0x4d, 0xe1, 2, 0, 0x43, 0xe0,
        0x41, 0x2f, 7, 0, 0, 0,
    ];
    fs::write(local.join("packed.gz"), packed)?;
    fs::write(local.join("text"), "some text\n")?;
    let time = UNIX_EPOCH + Duration::from_secs(KEPT_SECONDS);
    let times = fs::FileTimes::new().set_modified(time).set_accessed(time);
    Ok(fs::File::options().write(true).open(local.join("small"))?.set_times(times)?)
}

/// Both local folders hold the same.
fn same_tree(one: &Path, other: &Path) -> Result<()> {
    let names = |dir: &Path| -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            // The stock client leaves checksums beside what it writes.
            if !name.ends_with(".crc") {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    };
    let (ours, theirs) = (names(one)?, names(other)?);
    ensure!(ours == theirs, "{}: {ours:?}, {}: {theirs:?}", one.display(), other.display());
    for name in ours {
        let (one, other) = (one.join(&name), other.join(&name));
        if one.is_dir() {
            same_tree(&one, &other)?;
        } else {
            ensure!(
                fs::read(&one)? == fs::read(&other)?,
                "{} differs from {}",
                one.display(),
                other.display()
            );
        }
    }
    Ok(())
}
