//! Patterns in paths, as the stock shell reads them.

use anyhow::{Context, Result, ensure};
use globset::{GlobBuilder, GlobMatcher};

/// Most patterns that one becomes.
const MAX_PATTERNS: usize = 1000;

/// Whether a path is a pattern.
pub fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '[', '{', '\\'])
}

/// A pattern for one name.
pub fn matcher(pattern: &str, ignore_case: bool) -> Result<GlobMatcher> {
    let glob = GlobBuilder::new(pattern).case_insensitive(ignore_case).backslash_escape(true).build();
    Ok(glob
        .with_context(|| {
            format!("{pattern:?} is not a pattern; put a backslash before *, ?, [ or {{ in a name")
        })?
        .compile_matcher())
}

/// The patterns that one stands for whose braces have a slash between them: afterwards none has (stock: `GlobExpander`).
pub fn expanded(pattern: &str) -> Result<Vec<String>> {
    let (mut done, mut left) = (Vec::new(), vec![pattern.to_owned()]);
    while let Some(pattern) = left.pop() {
        match split(&pattern) {
            // The first alternative comes first.
            Some((before, alternatives, after)) => {
                left.extend(
                    alternatives.iter().rev().map(|alternative| format!("{before}{alternative}{after}")),
                );
            }
            None => done.push(pattern.clone()),
        }
        ensure!(done.len() + left.len() <= MAX_PATTERNS, "{pattern} stands for too many paths: narrow it");
    }
    Ok(done)
}

/// What stands before, between and after the first outermost braces that have a slash between them.
fn split(pattern: &str) -> Option<(&str, Vec<&str>, &str)> {
    let (mut depth, mut open, mut commas, mut slash) = (0usize, 0, Vec::new(), false);
    let mut escaped = false;
    for (at, byte) in pattern.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'{' => {
                if depth == 0 {
                    (open, slash) = (at, false);
                    commas.clear();
                }
                depth += 1;
            }
            b',' if depth == 1 => commas.push(at),
            b'/' if depth > 0 => slash = true,
            b'}' if depth > 0 => {
                depth -= 1;
                if depth == 0 && slash {
                    let starts = std::iter::once(open).chain(commas.iter().copied());
                    let ends = commas.iter().copied().chain([at]);
                    let between = starts.zip(ends).map(|(from, to)| &pattern[from + 1..to]).collect();
                    return Some((&pattern[..open], between, &pattern[at + 1..]));
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::expanded;

    #[test]
    fn braces_with_a_slash_become_patterns_of_their_own() {
        for (pattern, want) in [
            ("/a/{b,c}", &["/a/{b,c}"][..]),
            ("/a/{b/c,d}", &["/a/b/c", "/a/d"]),
            ("/{a/b,c{d/e,f}}/{g,h}", &["/a/b/{g,h}", "/cd/e/{g,h}", "/cf/{g,h}"]),
            ("/{a,b}/{c/d,e}", &["/{a,b}/c/d", "/{a,b}/e"]),
            ("/a\\{b/c,d}", &["/a\\{b/c,d}"]),
            ("/{a/b", &["/{a/b"]),
            ("/{é/ü,ß}*", &["/é/ü*", "/ß*"]),
        ] {
            assert_eq!(expanded(pattern).unwrap(), want, "{pattern}");
        }
        let many = "/{a/a,b,c,d}".repeat(6);
        assert!(expanded(&many).unwrap_err().to_string().contains("too many"));
    }
}
