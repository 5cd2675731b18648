//! Rows under ASMCMD's column names, for people and for programs.

use serde_json::{Map, Value};

use super::super::fault::Fault;
use super::super::output::{self, Format};

/// The prefix of the rest of a line that was too long.
const INDENT: &str = "    ";

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text.
    Text(String),
    /// A count or a size.
    Number(i64),
    /// A measured value, shown with three decimals.
    Real(f64),
    /// Not known here.
    Unknown,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Cell {
        Cell::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Cell {
    fn from(number: u32) -> Cell {
        Cell::Number(number.into())
    }
}

impl From<i64> for Cell {
    fn from(number: i64) -> Cell {
        Cell::Number(number)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Cell {
        Cell::Real(number)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Unknown, Into::into)
    }
}

impl Cell {
    fn text(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Number(number) => number.to_string(),
            Cell::Real(number) => format!("{number:.3}"),
            Cell::Unknown => "-".to_owned(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Cell::Text(text) => text.as_str().into(),
            Cell::Number(number) => (*number).into(),
            Cell::Real(number) => (*number).into(),
            Cell::Unknown => Value::Null,
        }
    }
}

/// A table with named columns.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// No rows yet.
    pub fn new(columns: &[&'static str]) -> Table {
        Table { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row, a value for each column.
    pub fn push(&mut self, row: Vec<Cell>) {
        assert_eq!(row.len(), self.columns.len(), "a row has a value for each column");
        self.rows.push(row);
    }

    /// An object for each row, keys in lower case.
    pub fn json(&self) -> Vec<Value> {
        let object = |row: &Vec<Cell>| {
            let pairs = self.columns.iter().zip(row);
            let map: Map<String, Value> =
                pairs.map(|(name, cell)| (name.to_lowercase(), cell.json())).collect();
            Value::Object(map)
        };
        self.rows.iter().map(object).collect()
    }

    /// Lines with a header; numbers right-aligned. Text that does not fit on a line continues on the next, or,
    /// without a header, for programs, makes the line longer.
    pub fn text(&self, header: bool) -> String {
        let width = if header { output::width() } else { usize::MAX };
        let cells: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(Cell::text).collect()).collect();
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|at| {
                let widest = cells.iter().map(|row| row[at].chars().count()).max();
                let name = if header { self.columns[at].len() } else { 0 };
                widest.unwrap_or(0).max(name)
            })
            .collect();
        let right: Vec<bool> = (0..self.columns.len())
            .map(|at| {
                self.rows.iter().any(|row| matches!(row[at], Cell::Number(_) | Cell::Real(_)))
            })
            .collect();
        let mut out = String::new();
        if header {
            let names: Vec<String> = self.columns.iter().map(ToString::to_string).collect();
            line(&mut out, &names, &widths, &right, width);
        }
        for row in &cells {
            line(&mut out, row, &widths, &right, width);
        }
        out
    }

    /// Shows people `words` instead; programs get the rows.
    ///
    /// # Errors
    /// The reader went away.
    pub fn tell(&self, format: Format, header: bool, words: &str) -> Result<(), Fault> {
        match (format, header) {
            (Format::Table, true) => output::text(words),
            _ => self.print(format, header),
        }
    }

    /// Prints it.
    ///
    /// # Errors
    /// The reader went away.
    pub fn print(&self, format: Format, header: bool) -> Result<(), Fault> {
        match format {
            Format::Json => output::json(&self.json()),
            // One column needs no heading, as in ASMCMD.
            Format::Table => output::text(&self.text(header && self.columns.len() > 1)),
        }
    }
}

fn line(out: &mut String, cells: &[String], widths: &[usize], right: &[bool], width_max: usize) {
    let mut current = String::new();
    let mut used = 0;
    for (at, cell) in cells.iter().enumerate() {
        let gap = if used == 0 { 0 } else { 2 };
        // The last text column may have any width, as for paths.
        if used > 0 && used + gap + widths[at] > width_max {
            out.push_str(current.trim_end());
            out.push('\n');
            current = INDENT.to_owned();
            used = INDENT.len();
        } else {
            current.push_str(&" ".repeat(gap));
            used += gap;
        }
        let width = widths[at];
        match right[at] {
            true => current.push_str(&format!("{cell:>width$}")),
            false => current.push_str(&format!("{cell:<width$}")),
        }
        used += width;
    }
    out.push_str(current.trim_end());
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_to_the_right_and_unknown_is_a_dash() {
        let mut table = Table::new(&["Used_MB", "Name"]);
        table.push(vec![12u64.into(), "a".into()]);
        table.push(vec![Cell::Unknown, "bc".into()]);
        assert_eq!(table.text(true), "Used_MB  Name\n     12  a\n      -  bc\n");
        assert_eq!(table.json()[1]["used_mb"], Value::Null);
    }

    #[test]
    fn a_long_line_goes_on_on_the_next() {
        let long: &'static str = "a_column_with_a_name_of_forty_characters";
        let mut table = Table::new(&[long, long]);
        table.push(vec![1u64.into(), 2u64.into()]);
        let text = table.text(true);
        assert_eq!(text.lines().count(), 4);
        assert!(text.lines().all(|l| l.len() <= 80), "{text}");
        assert_eq!(table.text(false).lines().count(), 1, "one line a row for programs");
    }
}
