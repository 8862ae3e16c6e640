//! Reports as pages: one file each, with everything in it and nothing from anywhere else.
//!
//! - [`html`]: markup in which what comes from outside is text
//! - [`axis`]: ticks, and how figures are written; [`figure`]: what all drawings have in common
//! - [`chart`]: lines and points over an axis, drawn by [`plot`]; [`rows`]: bars and marks in rows
//! - [`run`]: the page of a run; [`pair`]: of two runs compared; [`scale`]: of runs on more and more namenodes; [`model`]: of
//!   the capacity model; [`parts`]: what several have
//!
//! There is no script in them, and they forbid any. What a drawing shows stands below it as a table, too.

pub mod axis;
pub mod chart;
pub mod figure;
pub mod html;
pub mod model;
pub mod pair;
mod parts;
mod plot;
pub mod rows;
pub mod run;
pub mod scale;

use self::html::Html;

/// How everything looks.
const STYLE: &str = include_str!("style.css");
/// Nothing is fetched and nothing is run, whatever should get into the page.
const HEAD: &str = "\
<!DOCTYPE html>
<html lang=\"en\">
<head>
<meta charset=\"utf-8\">
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<meta name=\"color-scheme\" content=\"light dark\">
";

/// A whole page.
pub fn document(title: &str, body: &Html) -> String {
    let mut html = Html::default();
    html.raw(HEAD);
    html.line("title", "", title);
    html.raw("\n<style>\n");
    html.raw(STYLE);
    html.raw("</style>\n</head>\n<body>\n<main>\n");
    html.add(body);
    html.raw("\n</main>\n</body>\n</html>\n");
    html.as_str().to_owned()
}
