//! Reports of Maven's test runner.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

/// How one test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It passed.
    Passed,
    /// It skipped itself.
    Skipped,
    /// It failed, with this message and stack trace.
    Failed(String),
}

/// One test of one suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// The class without its package.
    pub suite: String,
    /// The method, with its parameters if it has any.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
}

/// All tests of the reports (`TEST-*.xml`) in a folder.
pub fn read_folder(folder: &Path) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("no reports in {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "xml") {
            let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            tests.extend(parse(&text).with_context(|| format!("parsing {}", path.display()))?);
        }
    }
    Ok(tests)
}

fn parse(xml: &str) -> Result<Vec<Test>> {
    let mut reader = Reader::from_str(xml);
    let (mut tests, mut failure): (Vec<Test>, Option<String>) = (Vec::new(), None);
    loop {
        match reader.read_event()? {
            Event::Start(tag) | Event::Empty(tag) if tag.name().as_ref() == "testcase" => {
                let suite = attribute(&tag, "classname")?.rsplit('.').next().unwrap_or_default().to_owned();
                tests.push(Test { suite, name: attribute(&tag, "name")?, outcome: Outcome::Passed });
            }
            Event::Start(tag) | Event::Empty(tag) if tag.name().as_ref() == "skipped" => {
                if let Some(test) = tests.last_mut() {
                    test.outcome = Outcome::Skipped;
                }
            }
            Event::Start(tag) if is_failure(tag.name().as_ref()) => {
                failure = Some(String::new());
            }
            Event::Text(text) => {
                if let Some(failure) = &mut failure {
                    failure.push_str(&text);
                }
            }
            Event::CData(text) => {
                if let Some(failure) = &mut failure {
                    failure.push_str(&text);
                }
            }
            Event::End(tag) if is_failure(tag.name().as_ref()) => {
                if let (Some(test), Some(trace)) = (tests.last_mut(), failure.take()) {
                    test.outcome = Outcome::Failed(trace);
                }
            }
            Event::Eof => return Ok(tests),
            _ => {}
        }
    }
}

fn is_failure(tag: &str) -> bool {
    tag == "error" || tag == "failure"
}

fn attribute(tag: &BytesStart<'_>, name: &str) -> Result<String> {
    let value = tag.try_get_attribute(name)?.with_context(|| format!("a testcase without {name}"))?;
    Ok(value.normalized_value(XmlVersion::Implicit1_0)?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::{Outcome, parse};

    #[test]
    fn outcomes_are_read() {
        let xml = r#"<testsuite><testcase name="a" classname="p.S"/><testcase name="b[x]" classname="p.S"><skipped/></testcase>
            <testcase name="c" classname="p.T"><error message="m" type="t"><![CDATA[boom
            at addBlock]]></error><system-out>not this</system-out></testcase>
            <testcase name="d" classname="p.T"><failure>no</failure></testcase></testsuite>"#;
        let tests = parse(xml).expect("well-formed");
        let all: Vec<_> =
            tests.iter().map(|test| format!("{}.{} {:?}", test.suite, test.name, test.outcome)).collect();
        assert_eq!(all.len(), 4);
        assert_eq!(all[0], "S.a Passed");
        assert_eq!(all[1], "S.b[x] Skipped");
        assert!(
            matches!(&tests[2].outcome, Outcome::Failed(trace) if trace.contains("at addBlock") && !trace.contains("not this"))
        );
        assert_eq!(tests[3].outcome, Outcome::Failed("no".to_owned()));
    }
}
