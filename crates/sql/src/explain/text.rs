//! A plan for people: one line for each operator, then by number what scans filter, what is left to
//! others and why.

use std::time::Duration;

use crate::explain::details::{Detail, details};
use crate::explain::facts::{Actual, Kind, Operator, Plan, Run};
use crate::explain::numbers::{bytes, count, nanos};
use crate::explain::operation::operation;

/// The parts of a plan that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Details {
    /// Estimated rows.
    pub costs: bool,
    /// Times, if the plan ran.
    pub timing: bool,
    /// The last line.
    pub summary: bool,
}

/// The least number of columns that a plan can be shown in.
const NARROWEST: usize = 40;
/// A blank at which a line is not broken.
const TOGETHER: char = '\u{a0}';
/// The column at which details begin: after the number and the word for the kind of operator.
const INDENT: usize = 12;

/// The lines of a plan, none wider than `width` characters if its words allow it.
pub(crate) fn lines(plan: &Plan, told: Details, width: usize) -> Vec<String> {
    let width = width.max(NARROWEST);
    let operators = plan.root.lines();
    let columns = columns(&operators, told, plan.run.is_some());
    let taken: usize = columns.iter().map(|column| column.width + 2).sum();
    let room = width.saturating_sub(taken + 5).max(16);
    let texts: Vec<(String, bool)> = operators
        .iter()
        .map(|(operator, depth)| {
            let text = format!("{}{}", " ".repeat(*depth), operation(&operator.kind));
            cut(&text, room)
        })
        .collect();
    let longest = texts.iter().map(|(text, _)| text.chars().count()).max().unwrap_or(0);
    let wide = longest.max("Operation".len());
    let mut lines = Vec::new();
    let titles = columns.iter().map(|column| column.title.to_owned()).collect();
    lines.push(line("Id", "Operation", wide, &columns, titles));
    for (at, ((operator, _), (text, _))) in operators.iter().zip(&texts).enumerate() {
        let cells = columns.iter().map(|column| column.cells[at].clone()).collect();
        lines.push(line(&operator.id.to_string(), text, wide, &columns, cells));
    }
    let mut more = Vec::new();
    for ((operator, _), (_, is_cut)) in operators.iter().zip(&texts) {
        more.extend(detail_lines(operator, &details(operator, *is_cut), width));
    }
    if !more.is_empty() {
        lines.push(String::new());
        lines.push("Predicate Information (by Id):".to_owned());
        lines.append(&mut more);
    }
    if let Some(run) = plan.run.filter(|_| told.summary) {
        lines.push(String::new());
        lines.extend(folded(" ", 2, &summary(run, &operators, told.timing), width));
    }
    lines
}

struct Column {
    title: &'static str,
    width: usize,
    cells: Vec<String>,
}

impl Column {
    fn new(title: &'static str, cells: Vec<String>) -> Column {
        let longest = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        Column { title, width: longest.max(title.chars().count()), cells }
    }
}

fn columns(operators: &[(&Operator, usize)], told: Details, ran: bool) -> Vec<Column> {
    let estimated = |operator: &Operator| operator.estimated.map_or("-".to_owned(), count);
    if !ran {
        let cells = operators.iter().map(|(operator, _)| estimated(operator)).collect();
        return if told.costs { vec![Column::new("Rows", cells)] } else { Vec::new() };
    }
    let of = |text: &dyn Fn(&Actual) -> String| -> Vec<String> {
        let cell = |actual: &Actual| if actual.ran { text(actual) } else { "-".to_owned() };
        let actual = operators.iter().map(|(operator, _)| operator.actual);
        actual.map(|actual| actual.as_ref().map_or(String::new(), cell)).collect()
    };
    let rows = of(&|actual| count(actual.rows));
    let mut columns = vec![match told.costs {
        true => {
            let widest = rows.iter().map(String::len).max().unwrap_or(0);
            let both = operators.iter().zip(&rows).map(|((operator, _), rows)| match &**rows {
                "" => estimated(operator),
                rows => format!("{} / {rows:>widest$}", estimated(operator)),
            });
            Column::new("Rows est/actual", both.collect())
        }
        false => Column::new("Rows", rows),
    }];
    if told.timing {
        columns.push(Column::new("Time", of(&|actual| nanos(actual.nanos))));
    }
    let blank = |size: u64| if size == 0 { String::new() } else { bytes(size) };
    columns.push(Column::new("Memory", of(&|actual| blank(actual.memory))));
    let spilled = of(&|actual| blank(actual.spilled));
    if operators.iter().any(|(operator, _)| operator.actual.is_some_and(|a| a.spilled > 0)) {
        columns.push(Column::new("Spilled", spilled));
    }
    columns
}

fn line(id: &str, text: &str, wide: usize, columns: &[Column], cells: Vec<String>) -> String {
    let mut line = format!(" {id:>2}  {text:<wide$}");
    for (column, cell) in columns.iter().zip(cells) {
        line.push_str(&format!("  {cell:>width$}", width = column.width));
    }
    line.truncate(line.trim_end().len());
    line
}

/// A text cut to fit, and whether some of it was cut off.
fn cut(text: &str, room: usize) -> (String, bool) {
    if text.chars().count() <= room {
        return (text.to_owned(), false);
    }
    let kept: String = text.chars().take(room.saturating_sub(2)).collect();
    (format!("{}..", kept.trim_end()), true)
}

fn detail_lines(operator: &Operator, details: &[Detail], width: usize) -> Vec<String> {
    let word = word(&operator.kind);
    let mut lines = Vec::new();
    for (at, detail) in details.iter().enumerate() {
        let head = match at {
            0 => format!(" {:>2}  {word:<6} ", operator.id),
            _ => " ".repeat(INDENT),
        };
        lines.extend(folded(&head, INDENT + 2, &detail.0, width));
    }
    lines
}

/// A text in lines of so many characters, broken between words; all lines but the first are indented.
fn folded(head: &str, indent: usize, text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![head.to_owned()];
    let mut is_begun = false;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        // Words that must stay together are joined by other blanks.
        let mut word: Vec<char> = word.replace(TOGETHER, " ").chars().collect();
        loop {
            let Some(line) = lines.last_mut() else { return lines };
            let used = line.chars().count() + usize::from(is_begun);
            if used + word.len() <= width {
                if is_begun {
                    line.push(' ');
                }
                line.extend(&word);
                is_begun = true;
                break;
            }
            if is_begun {
                lines.push(" ".repeat(indent));
                is_begun = false;
                continue;
            }
            // A single word that is wider than a line.
            let room = width.saturating_sub(used).max(1);
            line.extend(word.drain(..room));
            is_begun = true;
        }
    }
    lines
}

/// The word for the kind of operator that details belong to.
fn word(kind: &Kind) -> &'static str {
    match kind {
        Kind::Cell(_) => "cell",
        Kind::Files(_) => "files",
        Kind::Join(_) => "join",
        Kind::Aggregate(_) => "group",
        Kind::Sort { .. } => "sort",
        Kind::Filter { .. } => "filter",
        Kind::Window { .. } => "window",
        Kind::Write { .. } => "write",
        _ => "note",
    }
}

/// The category under which work is summed up.
pub(crate) fn sort_of_work(kind: &Kind) -> &'static str {
    match kind {
        Kind::Cell(_) => "cell",
        Kind::Files(_) => "files",
        Kind::Join(_) => "join",
        Kind::Aggregate(_) => "aggregate",
        Kind::Sort { .. } => "sort",
        Kind::Window { .. } => "window",
        _ => "other",
    }
}

/// The work of all threads by category, largest first; and their wait for reads.
pub(crate) fn work(operators: &[(&Operator, usize)]) -> Vec<(&'static str, u64)> {
    let mut work: Vec<(&'static str, u64)> = Vec::new();
    let mut add = |what, nanos: u64| match work.iter_mut().find(|(known, _)| *known == what) {
        Some((_, sum)) => *sum += nanos,
        None => work.push((what, nanos)),
    };
    for (operator, _) in operators {
        add(sort_of_work(&operator.kind), operator.actual.map_or(0, |actual| actual.nanos));
        if let Kind::Cell(cell) = &operator.kind {
            add("waits", cell.totals.map_or(0, |totals| totals.wait_nanos));
        }
    }
    work.retain(|(_, nanos)| *nanos > 0);
    work.sort_by_key(|(what, nanos)| (*what == "waits", std::cmp::Reverse(*nanos)));
    work
}

fn summary(run: Run, operators: &[(&Operator, usize)], timing: bool) -> String {
    let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1e3);
    let mut text = format!("Time {} ms: planning {}", ms(run.whole), ms(run.planning));
    let work = work(operators);
    let all: u64 = work.iter().map(|(_, nanos)| nanos).sum();
    if timing && all > 0 {
        let share = |nanos: u64| (nanos as f64 / all as f64 * 100.0).round() as u64;
        let parts = work.iter().map(|(what, nanos)| (what, share(*nanos)));
        let parts = parts.filter(|(_, share)| *share > 0);
        let parts: Vec<String> =
            parts.map(|(what, share)| format!("{what}{TOGETHER}{share}{TOGETHER}%")).collect();
        text.push_str(&format!("; of all threads' {}: {}", nanos(all), parts.join(", ")));
    }
    if run.memory > 0 {
        text.push_str(&format!("; memory {} at most", bytes(run.memory)));
    }
    text
}
