//! Lines and points over an axis: throughput over time, a scaling curve, what was measured beside what was predicted.

use super::axis::{Axis, End};
use super::figure::{self, Colour, Shape, Size, area, mark, stroke, text_width};
use super::html::Html;
use super::plot::{BOTTOM, Plot, RIGHT, TOP};
use crate::spread::Spread;

/// No drawing has more places to point at; those of longer series are left out.
const MAX_HINTS: usize = 700;

/// Lines and points over an axis.
#[derive(Debug, Clone)]
pub struct Chart {
    /// Above it.
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// What is drawn, the last above the others.
    pub series: Vec<Series>,
    /// Stretches of the x axis that are marked.
    pub bands: Vec<Band>,
    /// How much of the x axis each point stands for, around it: lines are steps then. 0: a point is a point.
    pub bin: f64,
    /// Whether a list below it says what the bands are.
    pub tells_bands: bool,
}

/// One line, or points of one kind.
#[derive(Debug, Clone)]
pub struct Series {
    /// In the legend.
    pub name: String,
    /// How it looks.
    pub style: Style,
    /// In which colour.
    pub colour: Colour,
    /// In the order of x.
    pub points: Vec<Point>,
}

/// How a series looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A line.
    Line,
    /// A line over a filled area.
    Area,
    /// A broken line: what was meant, not what was.
    Dashed,
    /// What was measured: filled circles on a line, with error bars.
    Measured,
    /// What was predicted: hollow diamonds on a broken line.
    Predicted,
    /// What others measured: filled squares, without a line.
    Published,
    /// A thin dotted line to compare with, such as the ideal.
    Reference,
}

/// A point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// To the right.
    pub x: f64,
    /// Upwards.
    pub y: f64,
    /// The lowest and the highest of what it stands for.
    pub range: Option<[f64; 2]>,
}

impl Point {
    /// A point that stands for itself.
    pub fn new(x: f64, y: f64) -> Point {
        Point { x, y, range: None }
    }

    /// The median of several figures.
    pub fn of(x: f64, spread: Spread) -> Point {
        Point { range: Some([spread.lowest, spread.highest]), ..Point::new(x, spread.median) }
    }
}

/// A stretch of the x axis. It carries a number; below the chart stands what it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    /// Where it begins.
    pub from: f64,
    /// Where it ends; None: it is an instant.
    pub to: Option<f64>,
    /// What it is.
    pub name: String,
}

impl Chart {
    /// A chart without anything in it yet.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Chart {
        Chart {
            title: title.into(),
            x,
            y,
            series: Vec::new(),
            bands: Vec::new(),
            bin: 0.0,
            tells_bands: true,
        }
    }

    /// With one series more. One without points is left out.
    #[must_use]
    pub fn with(
        mut self,
        name: impl Into<String>,
        style: Style,
        colour: Colour,
        points: Vec<Point>,
    ) -> Chart {
        if !points.is_empty() {
            self.series.push(Series { name: name.into(), style, colour, points });
        }
        self
    }

    /// The chart with its legend and its figures as a table.
    pub fn figure(&self) -> Html {
        let legend: Vec<(Html, String)> =
            self.series.iter().map(|series| (series.sample(), series.name.clone())).collect();
        let drawings = figure::sizes(300.0, 280.0).map(|size| self.drawn(size));
        let mut below = Html::default();
        if self.tells_bands && !self.bands.is_empty() {
            below.tag("ol", &[("class", "bands")], |html| {
                self.bands.iter().for_each(|band| html.line("li", "", &band.name));
            });
        }
        let mut table = Html::default();
        let (heads, rows) = self.table();
        table.table(&heads.iter().map(String::as_str).collect::<Vec<_>>(), &rows);
        figure::whole(&self.title, &legend, &drawings, &below, &table)
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| &series.points)
    }

    /// All x, once each, in order.
    fn xs(&self) -> Vec<f64> {
        let mut xs: Vec<f64> = self.points().map(|point| point.x).filter(|x| x.is_finite()).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        xs
    }

    fn table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let heads =
            [self.x.label.clone()].into_iter().chain(self.series.iter().map(|series| series.name.clone()));
        let row = |x: &f64| {
            let cells = self
                .series
                .iter()
                .map(|series| series.at(*x).map_or("–".to_owned(), |p| self.figure_of(p)));
            [self.at(*x)].into_iter().chain(cells).collect()
        };
        (heads.collect(), self.xs().iter().map(row).collect())
    }

    fn figure_of(&self, point: &Point) -> String {
        match point.range {
            Some([low, high]) if low < high => {
                format!("{} ({} to {})", self.y.exact(point.y), self.y.exact(low), self.y.exact(high))
            }
            _ => self.y.exact(point.y),
        }
    }

    /// Where a point stands.
    fn at(&self, x: f64) -> String {
        match self.bin > 0.0 {
            true => format!("{} – {}", self.x.exact(x - self.bin / 2.0), self.x.exact(x + self.bin / 2.0)),
            false => self.x.exact(x),
        }
    }

    fn drawn(&self, size: Size) -> Html {
        let reach = |point: &Point| {
            let [low, high] = point.range.unwrap_or([point.y; 2]);
            [low, point.y, high]
        };
        let height = size.height - TOP - BOTTOM;
        let ys = self.points().flat_map(reach);
        let y = self.y.fit(ys, height, 36.0, End::Round);
        let wide = y.ticks.iter().map(|tick| text_width(&self.y.text(*tick))).fold(0.0, f64::max);
        let left = wide + 10.0;
        let width = size.width - left - RIGHT;
        let ends = self.xs().into_iter().flat_map(|x| [x - self.bin / 2.0, x + self.bin / 2.0]);
        let x = self.x.fit(ends, width, if size.is_wide { 80.0 } else { 62.0 }, End::Last);
        let plot = Plot { left, width, height, x, y, bin: self.bin };
        let name = format!("{}: {} by {}", self.title, self.y.label, self.x.label);
        figure::drawing(size, &name, |html| {
            plot.bands(html, &self.bands);
            plot.grid(html, &self.x, &self.y);
            self.series.iter().for_each(|series| plot.series(html, series));
            if size.is_wide {
                self.hints(html, &plot);
            }
        })
    }

    /// What is shown when somebody points at a place of the x axis.
    fn hints(&self, html: &mut Html, plot: &Plot) {
        let places: Vec<(f64, f64)> =
            self.xs().iter().filter_map(|x| Some((*x, plot.left + plot.x.place(*x)?))).collect();
        if places.len() > MAX_HINTS {
            return;
        }
        for (index, (x, place)) in places.iter().enumerate() {
            let before = index.checked_sub(1).and_then(|before| places.get(before));
            let from = before.map_or(plot.left, |(_, before)| (before + place) / 2.0);
            let to = places.get(index + 1).map_or(plot.left + plot.width, |(_, after)| (place + after) / 2.0);
            let figures = self.series.iter().filter_map(|series| Some((&series.name, series.at(*x)?)));
            let lines = figures.map(|(name, point)| format!("\n{name}: {}", self.figure_of(point)));
            let hint = format!("{}: {}{}", self.x.label, self.at(*x), lines.collect::<String>());
            area(html, "hint", [from, TOP], [to - from, plot.height], &hint);
        }
    }
}

impl Series {
    fn at(&self, x: f64) -> Option<&Point> {
        let found = self.points.binary_search_by(|point| point.x.total_cmp(&x)).ok();
        found.and_then(|index| self.points.get(index))
    }

    /// None: its points stand alone.
    pub(super) fn line_class(&self) -> Option<String> {
        let kind = match self.style {
            Style::Line | Style::Area | Style::Measured => "line",
            Style::Dashed | Style::Predicted => "line dashed",
            Style::Reference => "line dotted",
            Style::Published => return None,
        };
        Some(format!("{kind} {}", self.colour.class()))
    }

    pub(super) fn shape(&self) -> Option<Shape> {
        match self.style {
            Style::Measured => Some(Shape::Dot),
            Style::Predicted => Some(Shape::Hollow),
            Style::Published => Some(Shape::Block),
            Style::Line | Style::Area | Style::Dashed | Style::Reference => None,
        }
    }

    fn sample(&self) -> Html {
        figure::sample(|html| {
            if self.style == Style::Area {
                area(html, &format!("under {}", self.colour.class()), [1.0, 7.0], [26.0, 7.0], "");
            }
            if let Some(class) = self.line_class() {
                stroke(html, &class, [1.0, 7.0], [27.0, 7.0]);
            }
            if let Some(shape) = self.shape() {
                mark(html, shape, self.colour, [14.0, 7.0], "");
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        let measured = [1.0, 2.0, 4.0].map(|x| {
            let spread = Spread { median: x * 100.0, lowest: x * 100.0 - 15.0, highest: x * 100.0 + 5.0 };
            Point::of(x, spread)
        });
        let predicted = [1.0, 8.0].map(|x| Point::new(x, x * 95.0));
        let mut chart = Chart::new("scaling", Axis::linear("namenodes"), Axis::linear("operations/s"))
            .with("measured", Style::Measured, Colour::Blue, measured.to_vec())
            .with("predicted", Style::Predicted, Colour::Orange, predicted.to_vec())
            .with("elsewhere", Style::Published, Colour::Dark, vec![Point::new(6.0, 500.0)])
            .with("nothing", Style::Line, Colour::Green, Vec::new());
        chart.bands.push(Band { from: 2.0, to: Some(3.0), name: "<b>hostile</b>".into() });
        chart
    }

    #[test]
    fn what_was_measured_predicted_and_published_look_different() {
        let html = chart().figure();
        let html = html.as_str();
        // In both widths, and in the legend.
        assert_eq!(html.matches("class=\"full blue\"").count(), 3 * 2 + 1);
        assert_eq!(html.matches("class=\"hollow orange\"").count(), 2 * 2 + 1);
        assert_eq!(html.matches("class=\"full dark\"").count(), 2 + 1);
        assert!(!html.contains("line dark") && !html.contains("line dashed dark"), "it has no line");
        // A bar and two ends for each range.
        assert_eq!(html.matches("line margin blue").count(), 3 * 3 * 2);
        assert!(html.contains("line dashed orange") && !html.contains("nothing"));
        assert!(html.contains("&lt;b&gt;hostile") && !html.contains("<b>hostile"));
    }

    #[test]
    fn the_table_has_every_figure() {
        let (heads, rows) = chart().table();
        assert_eq!(heads, ["namenodes", "measured", "predicted", "elsewhere"]);
        assert_eq!(rows[0], ["1", "100 (85 to 105)", "95", "–"]);
        assert_eq!(rows[4], ["8", "–", "760", "–"]);
        assert_eq!(rows.len(), 5);
    }

    #[test]
    fn lines_break_where_a_figure_has_no_place() {
        let points = [1.0, 10.0, 0.0, 5.0, f64::NAN].iter().enumerate();
        let points = points.map(|(x, y)| Point::new(x as f64, *y)).collect();
        let html =
            Chart::new("t", Axis::linear("x"), Axis::log("y")).with("s", Style::Line, Colour::Blue, points);
        let html = html.figure();
        assert_eq!(html.as_str().matches("<path class=\"line blue\"").count(), 2 * 2);
        assert!(!html.as_str().contains("NaN,") && !html.as_str().contains("inf"));
        // Nothing at all is no fault either.
        assert!(Chart::new("t", Axis::linear("x"), Axis::log("y")).figure().as_str().contains("<svg"));
    }
}
