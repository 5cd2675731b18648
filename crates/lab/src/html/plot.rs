//! Bars and curves.

use std::fmt::Write;

use super::{SOURCES, escaped, of, shown};
use crate::column::Column;
use crate::run::{Arm, Run, Table, TableRow};

const BAR: f64 = 14.0;
const LEFT: f64 = 190.0;
const WIDTH: f64 = 760.0;
/// Space for the figure after a bar.
const RIGHT: f64 = 190.0;

pub(super) fn source(column: Column) -> &'static str {
    match column {
        Column::Model => "model",
        Column::Here => "here",
    }
}

/// The colour class of a column, the same as for the bars.
fn colour(column: Column) -> &'static str {
    match column {
        Column::Model => "s1",
        Column::Here => "s2",
    }
}

/// A bar for each figure of the arms.
pub(super) fn bars(run: &Run, arms: &[Arm], columns: &[(usize, Vec<usize>)]) -> String {
    let figures: Vec<(usize, usize, usize, f64)> = arms
        .iter()
        .enumerate()
        .flat_map(|(i, arm)| {
            columns.iter().flat_map(move |(source, layouts)| {
                let figure = move |l: &usize| Some((i, *source, *l, of(arm, *source, *l)?));
                layouts.iter().filter_map(figure)
            })
        })
        .collect();
    let most_of = |wanted: Option<usize>| {
        let of = figures.iter().filter(|f| wanted.is_none_or(|source| f.1 == source));
        of.map(|f| f.3).fold(0.0, f64::max)
    };
    if most_of(None) <= 0.0 {
        return String::new();
    }
    // Times are for files of different sizes: on one axis the longest would dwarf the rest.
    let own = columns.len() > 1 && arms.iter().all(|arm| arm.unit == "s");
    let mut body = String::new();
    let (mut y, mut last) = (0.0, usize::MAX);
    for (arm, source, layout, value) in figures.iter().copied() {
        if arm != last {
            y += if last == usize::MAX { 0.0 } else { 12.0 };
            let what = escaped(&arms[arm].what);
            let _ = writeln!(body, "<text x=\"0\" y=\"{:.0}\">{what}</text>", y + 11.0);
            last = arm;
        }
        let most = most_of(own.then_some(source));
        let wide = value / most * (WIDTH - LEFT - RIGHT);
        let text = y + 11.0;
        let _ = writeln!(
            body,
            "<rect class=\"s{source} b{layout}\" x=\"{LEFT:.0}\" y=\"{y:.0}\" width=\"{wide:.1}\" \
             height=\"{:.0}\"/><text x=\"{:.1}\" y=\"{text:.0}\">{} <tspan class=\"soft\">{} \
             {}</tspan></text>",
            BAR - 2.0,
            LEFT + wide + 6.0,
            shown(value),
            SOURCES[source],
            escaped(&run.layouts[layout])
        );
        y += BAR;
    }
    let note = match own {
        true => {
            "<p class=\"soft\">Files are not of one size: published, model and here each have a \
             scale of their own</p>\n"
        }
        false => "",
    };
    format!(
        "{note}<svg viewBox=\"0 0 {WIDTH:.0} {y:.0}\" width=\"{WIDTH:.0}\" role=\"img\">\n{body}</svg>\n"
    )
}

/// A curve of one row over the columns of its table.
pub(super) fn curve(table: &Table, row: &TableRow) -> String {
    const HEIGHT: f64 = 150.0;
    const SIDE: f64 = 60.0;
    const HALF: f64 = 375.0;
    let most = row.figures.iter().flatten().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return String::new();
    }
    let step = (HALF - SIDE - 20.0) / (table.columns.len().max(2) - 1) as f64;
    let at = |i: usize, value: f64| {
        (SIDE + i as f64 * step, 30.0 + (1.0 - value / most) * (HEIGHT - 30.0))
    };
    let points: Vec<(f64, f64)> =
        row.figures.iter().enumerate().filter_map(|(i, f)| f.map(|v| at(i, v))).collect();
    let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    let class = colour(table.column);
    let mut body = format!(
        "<text x=\"0\" y=\"14\">{}</text><path class=\"axis\" d=\"M{SIDE} {HEIGHT}H{HALF}M{SIDE} \
         30H{HALF}\"/><text class=\"soft\" x=\"{x}\" y=\"{HEIGHT}\" text-anchor=\"end\">0</text>\
         <text class=\"soft\" x=\"{x}\" y=\"34\" text-anchor=\"end\">{}</text>\n\
         <path class=\"{class}\" d=\"M{}\"/>\n",
        escaped(&row.what),
        shown(most),
        path.join("L"),
        x = SIDE - 6.0
    );
    for (x, y) in points {
        let _ = write!(body, "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>");
    }
    for (i, name) in table.columns.iter().enumerate() {
        let (x, y) = (at(i, 0.0).0, HEIGHT + 18.0);
        let name = escaped(name);
        let _ = write!(
            body,
            "<text class=\"soft\" x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{name}</text>"
        );
    }
    format!(
        "<svg viewBox=\"0 0 {HALF} {:.0}\" width=\"{HALF}\" role=\"img\">{body}</svg>\n",
        HEIGHT + 24.0
    )
}
