//! Java's escapes, in which audit logs write paths: a name can neither break a line nor fake a column
//! (`StringEscapeUtils.escapeJava`).

use std::borrow::Cow;
use std::fmt::Write as _;

/// What an escaped text stands for. What is no escape of Java's stays as it is: logs of before Hadoop 2.8 are not escaped.
pub fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let (c, length) = escaped(rest).unwrap_or(('\\', 1));
        plain.push(c);
        rest = &rest[length..];
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// The character that the escape at the beginning of `text` stands for, and the escape's length in bytes.
fn escaped(text: &str) -> Option<(char, usize)> {
    let c = match text.as_bytes().get(1)? {
        b'"' => '"',
        b'\'' => '\'',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode(text),
        _ => return None,
    };
    Some((c, 2))
}

/// `\uXXXX`, or two of them for a character that takes two of Java's.
fn unicode(text: &str) -> Option<(char, usize)> {
    const LENGTH: usize = 6;
    let first = unit(text)?;
    if let Some(c) = char::from_u32(u32::from(first)) {
        return Some((c, LENGTH));
    }
    let second = unit(text.get(LENGTH..)?)?;
    let c = char::decode_utf16([first, second]).next()?.ok()?;
    Some((c, 2 * LENGTH))
}

fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    // A sign would be taken, too.
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
}

/// Writes a text escaped.
pub fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            ' '..='\u{7f}' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a String does not fail.
                    let _ = write!(out, "\\u{unit:04X}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_escaped_comes_back() {
        for text in
            ["/plain", "/t\tab\nand\rmore\u{8}\u{c}", "/\"quoted\" \\back\\", "/ü/𝄞/\u{1}", "/a\\u0041", ""]
        {
            let mut escaped = String::new();
            escape(&mut escaped, text);
            assert!(!escaped.contains(['\t', '\n', '\r']) && escaped.is_ascii(), "{escaped}");
            assert_eq!(unescape(&escaped), text);
        }
    }

    #[test]
    fn what_is_no_escape_stays() {
        for text in [
            "/a\\",
            "/a\\q",
            "/a\\u12",
            "/a\\u+123",
            "/a\\uD800",
            "/a\\uD800\\n",
            "/a\\uDC00\\uD800",
            "/a\\uü",
        ] {
            let plain = unescape(text);
            assert!(plain.starts_with("/a\\"), "{text} became {plain}");
        }
        assert_eq!(unescape("\\uD834\\uDD1E\\u00fc\\/"), "𝄞ü/");
    }
}
