//! What all drawings have in common: a title, a legend, the drawing in two widths, and the figures as a table.

use super::html::Html;

/// Colours that people with any colour vision tell apart, in light and in dark. Marks differ in shape besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// What goes well, or the first of two things.
    Blue,
    /// What goes wrong, or the second of two things.
    Orange,
    /// A third thing.
    Green,
    /// A fourth, or what neither goes well nor wrong.
    Purple,
    /// A fifth.
    Gold,
    /// What is there to compare with.
    Grey,
    /// What others say.
    Dark,
}

impl Colour {
    /// In this order, for any number of things.
    pub fn nth(index: usize) -> Colour {
        use Colour::{Blue, Gold, Green, Grey, Orange, Purple};
        [Blue, Orange, Green, Purple, Gold, Grey][index % 6]
    }

    pub(super) fn class(self) -> &'static str {
        match self {
            Colour::Blue => "blue",
            Colour::Orange => "orange",
            Colour::Green => "green",
            Colour::Purple => "purple",
            Colour::Gold => "gold",
            Colour::Grey => "grey",
            Colour::Dark => "dark",
        }
    }
}

/// The shape of a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A filled circle.
    Dot,
    /// A diamond with nothing in it.
    Hollow,
    /// A filled square.
    Square,
    /// A larger one.
    Block,
    /// A filled triangle.
    Triangle,
    /// A bar across.
    Tick,
}

/// A drawing of a fixed size, which a style sheet shows on screens of its width.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub width: f64,
    pub height: f64,
    pub is_wide: bool,
}

/// For large screens, and for small ones.
pub(super) fn sizes(wide_height: f64, narrow_height: f64) -> [Size; 2] {
    [
        Size { width: 880.0, height: wide_height, is_wide: true },
        Size { width: 400.0, height: narrow_height, is_wide: false },
    ]
}

/// How wide a text is at most in the drawings' font, in pixels: digits and small letters of it are narrower.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 7.2
}

/// A number of pixels, as attributes have it.
pub(super) fn px(value: f64) -> String {
    format!("{value:.1}")
}

/// A text in a drawing; `anchor`: start, middle, end.
pub(super) fn label(
    html: &mut Html,
    [x, y]: [f64; 2],
    anchor: &'static str,
    class: &'static str,
    text: &str,
) {
    let attributes = [("x", px(x)), ("y", px(y))];
    let attributes = [
        ("x", attributes[0].1.as_str()),
        ("y", attributes[1].1.as_str()),
        ("text-anchor", anchor),
        ("class", class),
    ];
    html.tag("text", &attributes, |html| html.text(text));
}

/// A straight line.
pub(super) fn stroke(html: &mut Html, class: &str, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2]) {
    let ends = [x1, y1, x2, y2].map(px);
    let [x1, y1, x2, y2] = ends.each_ref().map(String::as_str);
    html.tag("line", &[("class", class), ("x1", x1), ("y1", y1), ("x2", x2), ("y2", y2)], |_| {});
}

/// A rectangle, with what is shown when somebody points at it.
pub(super) fn area(html: &mut Html, class: &str, [x, y]: [f64; 2], [width, height]: [f64; 2], hint: &str) {
    let sides = [x, y, width.max(0.0), height.max(0.0)].map(px);
    let [x, y, width, height] = sides.each_ref().map(String::as_str);
    let attributes = [("class", class), ("x", x), ("y", y), ("width", width), ("height", height)];
    html.tag("rect", &attributes, |html| {
        if !hint.is_empty() {
            html.line("title", "", hint);
        }
    });
}

/// A mark in its place.
pub(super) fn mark(html: &mut Html, shape: Shape, colour: Colour, [x, y]: [f64; 2], hint: &str) {
    let path = match shape {
        Shape::Dot => format!("M{} {}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", px(x - 4.0), px(y)),
        Shape::Hollow => format!("M{} {}l5 5l-5 5l-5 -5z", px(x), px(y - 5.0)),
        Shape::Square => format!("M{} {}h7v7h-7z", px(x - 3.5), px(y - 3.5)),
        Shape::Block => format!("M{} {}h10v10h-10z", px(x - 5.0), px(y - 5.0)),
        Shape::Triangle => format!("M{} {}l5 8.5h-10z", px(x), px(y - 5.0)),
        Shape::Tick => format!("M{} {}h2.5v13h-2.5z", px(x - 1.25), px(y - 6.5)),
    };
    let kind = if shape == Shape::Hollow { "hollow" } else { "full" };
    let class = format!("{kind} {}", colour.class());
    html.tag("path", &[("class", &class), ("d", &path)], |html| {
        if !hint.is_empty() {
            html.line("title", "", hint);
        }
    });
}

/// One drawing of a figure. `name` is what those hear of it who do not see it.
pub(super) fn drawing(size: Size, name: &str, draw: impl FnOnce(&mut Html)) -> Html {
    let mut html = Html::default();
    let view = format!("0 0 {} {}", size.width, size.height);
    let class = if size.is_wide { "wide" } else { "narrow" };
    html.tag("svg", &[("class", class), ("viewBox", &view), ("role", "img"), ("aria-label", name)], draw);
    html
}

/// A figure whole: `legend` has a sample and a name for each thing in it.
pub(super) fn whole(
    title: &str,
    legend: &[(Html, String)],
    drawings: &[Html],
    below: &Html,
    table: &Html,
) -> Html {
    let mut html = Html::default();
    html.tag("figure", &[], |html| {
        html.line("h3", "", title);
        if legend.len() > 1 {
            html.tag("ul", &[("class", "legend")], |html| {
                for (sample, name) in legend {
                    html.tag("li", &[], |html| {
                        html.add(sample);
                        html.text(name);
                    });
                }
            });
        }
        drawings.iter().for_each(|drawing| html.add(drawing));
        html.add(below);
        html.details("as a table", |html| html.add(table));
    });
    html
}

/// A sample for the legend.
pub(super) fn sample(draw: impl FnOnce(&mut Html)) -> Html {
    let mut html = Html::default();
    html.tag("svg", &[("class", "sample"), ("viewBox", "0 0 28 14"), ("aria-hidden", "true")], draw);
    html
}
