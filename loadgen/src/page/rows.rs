//! A row for each thing, with bars or marks along an axis: latencies and costs by operation, predicted times.

use super::axis::{Axis, End, Fitted};
use super::figure::{self, Colour, Shape, Size, area, label, mark, stroke, text_width};
use super::html::Html;

const TOP: f64 = 6.0;
const BOTTOM: f64 = 40.0;
const BAR: f64 = 13.0;
const GAP: f64 = 12.0;
/// The longest names of rows that have room; longer ones are cut.
const MAX_NAME: usize = 20;

/// A row for each thing.
#[derive(Debug, Clone)]
pub struct Rows {
    /// Above it.
    pub title: String,
    /// To the right.
    pub axis: Axis,
    /// Bars, one below the other, or marks on one line.
    pub style: Style,
    /// What each row has a figure of.
    pub series: Vec<(String, Colour)>,
    /// In this order.
    pub rows: Vec<Row>,
}

/// A name, and a figure for each of the series; None: nobody knows.
pub type Row = (String, Vec<Option<f64>>);

/// How figures are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A bar each.
    Bars,
    /// A hollow bar with a broken outline each: predicted, not measured.
    Predicted,
    /// A mark each, all on a line from the least to the greatest.
    Marks,
}

const SHAPES: [Shape; 5] = [Shape::Dot, Shape::Square, Shape::Hollow, Shape::Triangle, Shape::Tick];

impl Rows {
    /// The rows with a legend and the figures as a table.
    pub fn figure(&self) -> Html {
        let sample = |index: usize, colour: Colour| {
            figure::sample(|html| match self.style {
                Style::Bars | Style::Predicted => {
                    area(html, &self.bar_class(colour), [3.0, 2.0], [22.0, 10.0], "");
                }
                Style::Marks => mark(html, SHAPES[index % SHAPES.len()], colour, [14.0, 7.0], ""),
            })
        };
        let series = self.series.iter().enumerate();
        let legend: Vec<(Html, String)> =
            series.map(|(index, (name, colour))| (sample(index, *colour), name.clone())).collect();
        let height = TOP + BOTTOM + self.row_height() * self.rows.len() as f64;
        let drawings = figure::sizes(height, height).map(|size| self.drawn(size));
        let mut table = Html::default();
        let heads: Vec<&str> =
            [""].into_iter().chain(self.series.iter().map(|(name, _)| name.as_str())).collect();
        let cell = |value: &Option<f64>| value.map_or("–".to_owned(), |value| self.axis.exact(value));
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|(name, values)| [name.clone()].into_iter().chain(values.iter().map(cell)).collect())
            .collect();
        table.table(&heads, &rows);
        figure::whole(&self.title, &legend, &drawings, &Html::default(), &table)
    }

    fn row_height(&self) -> f64 {
        match self.style {
            Style::Bars | Style::Predicted => BAR * self.series.len().max(1) as f64 + GAP,
            Style::Marks => 24.0,
        }
    }

    fn drawn(&self, size: Size) -> Html {
        let names = self.rows.iter().map(|(name, _)| text_width(&cut(name)));
        let left = names.fold(0.0, f64::max) + 10.0;
        // Behind a bar stands its figure; the last tick's text sticks out.
        let right = if self.style == Style::Marks { 24.0 } else { 56.0 };
        let width = size.width - left - right;
        let height = self.row_height() * self.rows.len() as f64;
        let values = self.rows.iter().flat_map(|(_, values)| values.iter().copied().flatten());
        let fitted = self.axis.fit(values, width, if size.is_wide { 80.0 } else { 62.0 }, End::Round);
        figure::drawing(size, &format!("{}: {}", self.title, self.axis.label), |html| {
            for tick in &fitted.ticks {
                let Some(place) = fitted.place(*tick) else { continue };
                stroke(html, "grid", [left + place, TOP], [left + place, TOP + height]);
                label(html, [left + place, TOP + height + 16.0], "middle", "tick", &self.axis.text(*tick));
            }
            label(html, [left + width, TOP + height + 33.0], "end", "name", &self.axis.label);
            for (index, (name, values)) in self.rows.iter().enumerate() {
                let top = TOP + self.row_height() * index as f64;
                label(html, [left - 8.0, top + self.row_height() / 2.0 + 4.0], "end", "row", &cut(name));
                match self.style {
                    Style::Bars | Style::Predicted => {
                        self.bars(html, &fitted, [left, top + GAP / 2.0], name, values)
                    }
                    Style::Marks => self.marks(html, &fitted, [left, top + 12.0], name, values),
                }
            }
        })
    }

    fn bar_class(&self, colour: Colour) -> String {
        let kind = if self.style == Style::Predicted { "guess" } else { "bar" };
        format!("{kind} {}", colour.class())
    }

    fn hint(&self, row: &str, series: &str, value: f64) -> String {
        format!("{row}, {series}: {}", self.axis.text(value))
    }

    fn bars(
        &self,
        html: &mut Html,
        fitted: &Fitted,
        [left, top]: [f64; 2],
        name: &str,
        values: &[Option<f64>],
    ) {
        for (index, ((series, colour), value)) in self.series.iter().zip(values).enumerate() {
            let top = top + BAR * index as f64;
            let Some((value, length)) = value.and_then(|value| Some((value, fitted.place(value)?))) else {
                continue;
            };
            let hint = self.hint(name, series, value);
            area(html, &self.bar_class(*colour), [left, top], [length.max(1.0), BAR - 2.0], &hint);
            label(html, [left + length + 5.0, top + BAR - 2.5], "start", "tick", &self.axis.text(value));
        }
    }

    fn marks(
        &self,
        html: &mut Html,
        fitted: &Fitted,
        [left, middle]: [f64; 2],
        name: &str,
        values: &[Option<f64>],
    ) {
        let places: Vec<Option<f64>> =
            values.iter().map(|value| Some(left + fitted.place((*value)?)?)).collect();
        let known = || places.iter().copied().flatten();
        let ends = (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
        if ends.0 < ends.1 {
            stroke(html, "span", [ends.0, middle], [ends.1, middle]);
        }
        for (index, (((series, colour), value), place)) in
            self.series.iter().zip(values).zip(&places).enumerate()
        {
            let Some((value, place)) = value.zip(*place) else { continue };
            let shape = SHAPES[index % SHAPES.len()];
            mark(html, shape, *colour, [place, middle], &self.hint(name, series, value));
        }
    }
}

fn cut(name: &str) -> String {
    match name.chars().count() > MAX_NAME {
        true => name.chars().take(MAX_NAME - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(style: Style) -> Html {
        Rows {
            title: "cost".into(),
            axis: Axis::linear("rows"),
            style,
            series: vec![("A".into(), Colour::Blue), ("B".into(), Colour::Orange)],
            rows: vec![("open".into(), vec![Some(1.0), Some(2.0)]), ("<i>".into(), vec![None, Some(0.0)])],
        }
        .figure()
    }

    #[test]
    fn each_figure_is_drawn_and_told() {
        let bars = rows(Style::Bars);
        // In both widths, and in the legend.
        assert_eq!(bars.as_str().matches("bar blue").count(), 2 + 1);
        assert_eq!(bars.as_str().matches("bar orange").count(), 2 * 2 + 1);
        assert!(bars.as_str().contains("open, B: 2") && !bars.as_str().contains("<i>"));
        let predicted = rows(Style::Predicted);
        assert_eq!(predicted.as_str().matches("guess orange").count(), 2 * 2 + 1);
        assert!(!predicted.as_str().contains("class=\"bar"));
        let marks = rows(Style::Marks);
        assert_eq!(marks.as_str().matches("full orange").count(), 2 * 2 + 1);
        assert_eq!(marks.as_str().matches("class=\"span\"").count(), 2);
        assert!(marks.as_str().contains("<td>–</td><td>0</td>"), "{}", marks.as_str());
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(cut(&"ä".repeat(30)).chars().count(), MAX_NAME);
        assert_eq!(cut("set_replication"), "set_replication");
    }
}
