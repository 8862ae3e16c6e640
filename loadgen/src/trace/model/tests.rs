//! Traces of a few lines, and what must have been there.

use super::*;
use crate::trace::steps::Verdict;
use crate::trace::steps::tests::{ALL, line, verdicts};

/// Goes through lines `command src [dst]`; `!` before one that was refused.
fn model(lines: &[&str]) -> Model {
    let text = lines.iter().enumerate().map(|(second, text)| {
        let refused = text.strip_prefix('!');
        let mut words = refused.unwrap_or(text).split(' ');
        let mut word = || words.next().unwrap_or("null").replace('_', " ");
        let line = line(second as u64, &word(), &word(), &word());
        if refused.is_some() { line.replace("allowed=true", "allowed=false") } else { line }
    });
    let mut model = Model::default();
    for verdict in verdicts(&text.collect::<String>(), ALL) {
        match verdict {
            Verdict::Step(step) => model.note(&step, 0, None).expect("few"),
            other => panic!("{other:?}"),
        }
    }
    model
}

/// What must be there at the start; directories end with a slash.
fn needed(lines: &[&str]) -> Vec<String> {
    let mut model = model(lines);
    let levels = model.levels();
    let show = |object: Object| object.path + if object.kind == Kind::Directory { "/" } else { "" };
    levels.iter().flatten().map(|at| show(model.object(*at))).collect()
}

#[test]
fn what_is_read_before_it_is_made_was_there() {
    assert_eq!(
        needed(&["open /a/b/f", "listStatus /a/d", "contentSummary /s"]),
        ["/a/", "/s/", "/a/b/", "/a/d/", "/a/b/f"]
    );
    assert_eq!(needed(&["listStatus /f", "contentSummary /f", "open /f", "contentSummary /f"]), ["/f"]);
    assert_eq!(needed(&["create /a/f", "open /a/f", "delete /a/f"]), ["/a/"]);
    assert_eq!(needed(&["mkdirs /a/d", "create /a/d/f", "rename /a/d/f /a/d/g", "open /a/d/g"]), ["/a/"]);
    assert_eq!(needed(&["concat [/a,_/b] /t"]), ["/t", "/a", "/b"]);
}

#[test]
fn whether_what_was_asked_for_was_there_later_lines_say() {
    assert_eq!(needed(&["getfileinfo /f"]), ["/f"]);
    assert_eq!(needed(&["getfileinfo /f", "create /f"]), Vec::<String>::new());
    assert_eq!(needed(&["getfileinfo /d", "getfileinfo /d/e", "mkdirs /d"]), Vec::<String>::new());
    assert_eq!(needed(&["getfileinfo /d", "open /d/f", "mkdirs /d"]), ["/d/", "/d/f"]);
    assert_eq!(needed(&["getfileinfo /g", "rename /f /g"]), ["/f"]);
    assert_eq!(needed(&["listStatus /d", "getfileinfo /d/e"]), ["/d/", "/d/e"]);
    assert_eq!(needed(&["!delete /f", "!open /g"]), Vec::<String>::new());
}

#[test]
fn what_lies_below_a_moved_directory_was_below_the_old_name() {
    assert_eq!(
        needed(&["rename /a/d /b/e", "open /b/e/x/f"]),
        ["/a/", "/b/", "/a/d/", "/a/d/x/", "/a/d/x/f"]
    );
    // The old name is free: what is made there has nothing to do with it.
    assert_eq!(needed(&["rename /d /e", "mkdirs /d", "create /d/f", "open /d/f"]), ["/d"]);
    // The shell's mv goes into a directory.
    assert_eq!(needed(&["listStatus /d", "create /d/x", "rename /f /d", "open /d/f"]), ["/d/", "/f"]);
    assert_eq!(needed(&["open /f", "rename_(options=[OVERWRITE]) /t /f", "open /f"]), ["/f", "/t"]);
}

#[test]
fn lines_that_nothing_explains_are_counted() {
    for lines in [
        &["delete /f", "open /f"][..],
        &["delete /d", "open /d/f"],
        &["mkdirs /d", "open /d/f"],
        &["rename /f /g", "append /f"],
        &["open /g", "open /f", "rename_(options=[NONE]) /f /g"],
        &["rename /d /d/e"],
    ] {
        assert_eq!(model(lines).unexplained, 1, "{lines:?}");
    }
    assert_eq!(
        model(&["delete /f", "!delete /f", "getfileinfo /f", "create /f", "open /f", "rename /f /f"])
            .unexplained,
        0
    );
}

#[test]
fn directories_that_are_made_on_the_way_are_known() {
    let model = model(&[
        "mkdirs /a/b",
        "delete /a",
        "mkdirs /a/b/c",
        "create /x/y/f",
        "rename /x /z",
        "create /x/y/f",
    ]);
    assert_eq!(model.made_above, [(3, 1), (6, 1)]);
    assert_eq!(model.unexplained, 0);
}
