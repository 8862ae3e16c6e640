//! The area of a chart: its grid, its bands, its lines and points.

use super::axis::{Axis, Fitted};
use super::chart::{Band, Series, Style};
use super::figure::{area, label, mark, px, stroke, text_width};
use super::html::Html;

/// Above the area there are the numbers of bands and the name of the axis …
pub(super) const TOP: f64 = 30.0;
/// … below it ticks and the other axis's name …
pub(super) const BOTTOM: f64 = 40.0;
/// … and to the right half of a tick's text.
pub(super) const RIGHT: f64 = 16.0;

/// The area in which series are drawn.
pub(super) struct Plot {
    pub left: f64,
    pub width: f64,
    pub height: f64,
    pub x: Fitted,
    pub y: Fitted,
    pub bin: f64,
}

impl Plot {
    fn bottom(&self) -> f64 {
        TOP + self.height
    }

    fn place(&self, x: f64, y: f64) -> Option<[f64; 2]> {
        Some([self.left + self.x.place(x)?, self.bottom() - self.y.place(y)?])
    }

    pub fn grid(&self, html: &mut Html, x: &Axis, y: &Axis) {
        let (right, bottom) = (self.left + self.width, self.bottom());
        for tick in &self.y.ticks {
            let Some(place) = self.y.place(*tick) else { continue };
            stroke(html, "grid", [self.left, bottom - place], [right, bottom - place]);
            label(html, [self.left - 6.0, bottom - place + 4.0], "end", "tick", &y.text(*tick));
        }
        let last = self.x.ticks.len().saturating_sub(1);
        for (index, tick) in self.x.ticks.iter().enumerate() {
            let Some(place) = self.x.place(*tick) else { continue };
            let place = self.left + place;
            stroke(html, "axis", [place, bottom], [place, bottom + 4.0]);
            // The outermost ones do not stick out.
            let is_at_end = index == last && place + text_width(&x.text(*tick)) / 2.0 > right + RIGHT;
            let (at, anchor) = if is_at_end { (right + RIGHT - 1.0, "end") } else { (place, "middle") };
            label(html, [at, bottom + 17.0], anchor, "tick", &x.text(*tick));
        }
        stroke(html, "axis", [self.left, bottom], [right, bottom]);
        label(html, [0.0, 12.0], "start", "name", &y.label);
        label(html, [right, bottom + 34.0], "end", "name", &x.label);
    }

    pub fn bands(&self, html: &mut Html, bands: &[Band]) {
        let mut free = f64::NEG_INFINITY;
        for (index, band) in bands.iter().enumerate() {
            let Some(from) = self.x.place(band.from) else { continue };
            let to = band.to.and_then(|to| self.x.place(to)).unwrap_or(from);
            let from_to = [self.left + from, TOP];
            area(html, "band", from_to, [to - from, self.height], &band.name);
            stroke(html, "moment", [self.left + from, TOP - 2.0], [self.left + from, self.bottom()]);
            // Numbers of bands that follow closely stand beside one another, as far as there is room.
            let number = (index + 1).to_string();
            let at = (self.left + from).max(free + text_width(&number) / 2.0);
            if at <= self.left + self.width {
                free = at + text_width(&number) / 2.0 + 3.0;
                label(html, [at, TOP - 5.0], "middle", "number", &number);
            }
        }
    }

    pub fn series(&self, html: &mut Html, series: &Series) {
        let places: Vec<Option<[f64; 2]>> =
            series.points.iter().map(|point| self.place(point.x, point.y)).collect();
        let width_of = |x: f64| Some(self.x.place(x)? - self.x.place(0.0)?);
        let half = width_of(self.bin / 2.0).unwrap_or_default();
        // Where a figure has no place the line is broken.
        for part in places.split(Option::is_none) {
            let part: Vec<[f64; 2]> = part.iter().copied().flatten().collect();
            let mut path = String::new();
            let steps = |[x, y]: &[f64; 2]| match half > 0.0 {
                true => vec![[x - half, *y], [x + half, *y]],
                false => vec![[*x, *y]],
            };
            let part: Vec<[f64; 2]> = part.iter().flat_map(steps).collect();
            let (Some(first), Some(last)) = (part.first(), part.last()) else { continue };
            for (index, [x, y]) in part.iter().enumerate() {
                path.push_str(if index == 0 { "M" } else { "L" });
                path.push_str(&format!("{} {}", px(*x), px(*y)));
            }
            if series.style == Style::Area {
                let zero = self.y.place(0.0).map_or(self.bottom(), |zero| self.bottom() - zero);
                let closed = format!("{path}L{} {}L{} {}z", px(last[0]), px(zero), px(first[0]), px(zero));
                html.tag(
                    "path",
                    &[("class", &format!("under {}", series.colour.class())), ("d", &closed)],
                    |_| {},
                );
            }
            if let Some(class) = series.line_class() {
                html.tag("path", &[("class", &class), ("d", &path)], |_| {});
            }
        }
        let Some(shape) = series.shape() else { return };
        for (point, place) in series.points.iter().zip(&places) {
            let Some([x, y]) = *place else { continue };
            if let Some(range) = point.range.filter(|[low, high]| low < high) {
                let [low, high] = range
                    .map(|end| self.place(point.x, end))
                    .map(|end| end.map_or(self.bottom(), |[_, y]| y));
                let class = format!("line margin {}", series.colour.class());
                stroke(html, &class, [x, low], [x, high]);
                [low, high].iter().for_each(|end| stroke(html, &class, [x - 4.0, *end], [x + 4.0, *end]));
            }
            mark(html, shape, series.colour, [x, y], "");
        }
    }
}
