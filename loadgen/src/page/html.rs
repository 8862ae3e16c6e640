//! HTML that is built, not pasted together: what comes from outside gets in as text, escaped, and in no other way.

use std::fmt::Write as _;

/// A piece of a page.
#[derive(Debug, Clone, Default)]
pub struct Html(String);

impl Html {
    /// Markup of this program's own: only literals fit, so nothing from outside can be in it.
    pub fn raw(&mut self, markup: &'static str) {
        self.0.push_str(markup);
    }

    /// Text, whatever is in it.
    pub fn text(&mut self, text: impl AsRef<str>) {
        escape(&mut self.0, text.as_ref());
    }

    /// Another piece.
    pub fn add(&mut self, other: &Html) {
        self.0.push_str(&other.0);
    }

    /// An element with what `inside` puts into it. Attributes have any values.
    pub fn tag(
        &mut self,
        name: &'static str,
        attributes: &[(&'static str, &str)],
        inside: impl FnOnce(&mut Html),
    ) {
        self.open(name, attributes);
        inside(self);
        // Elements of SVG may be closed like this, too.
        let _ = write!(self.0, "</{name}>");
    }

    /// An element with a text and nothing else in it.
    pub fn line(&mut self, name: &'static str, class: &'static str, text: impl AsRef<str>) {
        let attributes: &[(&'static str, &str)] = if class.is_empty() { &[] } else { &[("class", class)] };
        self.tag(name, attributes, |html| html.text(text))
    }

    fn open(&mut self, name: &'static str, attributes: &[(&'static str, &str)]) {
        let _ = write!(self.0, "<{name}");
        for (attribute, value) in attributes {
            let _ = write!(self.0, " {attribute}=\"");
            escape(&mut self.0, value);
            self.0.push('"');
        }
        self.0.push('>');
    }

    /// A table: the first column to the left, the others to the right.
    pub fn table(&mut self, heads: &[&str], rows: &[Vec<String>]) {
        let row = |html: &mut Html, cells: &[String]| {
            html.tag("tr", &[], |html| {
                for (column, cell) in cells.iter().enumerate() {
                    match column {
                        0 => html.tag("th", &[("scope", "row")], |html| html.text(cell)),
                        _ => html.line("td", "", cell),
                    };
                }
            });
        };
        self.tag("div", &[("class", "scroll"), ("tabindex", "0")], |html| {
            html.tag("table", &[], |html| {
                html.tag("thead", &[], |html| {
                    html.tag("tr", &[], |html| {
                        for head in heads {
                            html.tag("th", &[("scope", "col")], |html| html.text(head));
                        }
                    });
                });
                html.tag("tbody", &[], |html| rows.iter().for_each(|cells| row(html, cells)));
            });
        })
    }

    /// A heading with what belongs to it.
    pub fn section(&mut self, heading: &str, inside: impl FnOnce(&mut Html)) {
        self.tag("section", &[], |html| {
            html.line("h2", "", heading);
            inside(html);
        })
    }

    /// Something that is shown when asked for.
    pub fn details(&mut self, summary: &str, inside: impl FnOnce(&mut Html)) {
        self.tag("details", &[], |html| {
            html.line("summary", "", summary);
            inside(html);
        })
    }

    /// As it is.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            // Neither control characters, which HTML forbids, nor those that turn the direction of what follows.
            c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {
                out.push(char::REPLACEMENT_CHARACTER);
            }
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_is_markup() {
        let hostile = "</td><script>alert('x')</script>\"&\u{0}\u{202e}";
        let mut html = Html::default();
        html.tag("td", &[("title", hostile)], |html| html.text(hostile));
        let escaped = "&lt;/td&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&quot;&amp;\u{fffd}\u{fffd}";
        assert_eq!(html.as_str(), format!("<td title=\"{escaped}\">{escaped}</td>"));
    }

    #[test]
    fn tables_name_their_columns_and_rows() {
        let mut html = Html::default();
        html.table(&["a", "b"], &[vec!["<x>".into(), "1".into()]]);
        let wanted = "<thead><tr><th scope=\"col\">a</th><th scope=\"col\">b</th></tr></thead>\
                      <tbody><tr><th scope=\"row\">&lt;x&gt;</th><td>1</td></tr></tbody>";
        assert!(html.as_str().contains(wanted), "{}", html.as_str());
    }
}
