//! A run as 80-column text.

use std::fmt::Write;

use crate::column::Column;
use crate::run::compare::Comparison;
use crate::run::{Arm, Figures, Run, Table, Verdict};

const WIDTH: usize = 80;
const LABEL: usize = 10;

/// A label and the text after it, wrapped into lines.
fn put(out: &mut String, label: &str, text: &str) {
    let mut line = format!("{label:<LABEL$}");
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            out.push_str(line.trim_end());
            out.push('\n');
            line = " ".repeat(LABEL);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

/// A figure of an arm with few digits.
fn amount(value: f64, two_decimals: bool) -> String {
    match value {
        v if v < 0.995 || two_decimals => format!("{v:.2}"),
        v if v < 9.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// The verdict on the ratio, in a word.
fn ratio(arm: &Arm) -> String {
    match (arm.ratio, arm.verdict) {
        (None, _) => "-".to_owned(),
        (Some(ratio), Verdict::NotDistinguishable) => format!("~{ratio:.2}x"),
        (Some(ratio), _) => format!("{ratio:.2}x"),
    }
}

impl Run {
    /// The report, for people: 80 columns, with a line feed at the end.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        if self.is_model() {
            put(
                &mut out,
                "A model",
                "No disks were given. These are simulated disks in virtual time: what is shown is \
                 about the software, not about disks of yours.",
            );
        }
        put(&mut out, "Question", &self.question);
        if !self.source.is_empty() {
            put(&mut out, "", &format!("After {}", self.source));
        }
        for (column, words) in &self.disks {
            let label = if column == "here" { "Disks" } else { "Model" };
            put(&mut out, label, words);
        }
        for (label, text) in &self.heads {
            put(&mut out, label, text);
        }
        self.put_method(&mut out);
        out.push('\n');
        self.put_arms(&mut out);
        for table in &self.tables {
            if table.column == Column::Here || self.is_model() {
                put_table(&mut out, table);
            }
        }
        out.push('\n');
        put(&mut out, "Finding", &self.finding);
        for (label, text) in &self.remarks {
            put(&mut out, label, text);
        }
        if let Some(compared) = &self.compared {
            put_compared(&mut out, compared);
        }
        if let Some(wrong) = crate::mispredictions::predictions(self) {
            put(&mut out, "Missed", &wrong);
        }
        out
    }

    /// The method, for people: 80 columns, with a line feed at the end.
    pub fn method_text(&self) -> String {
        let mut out = String::new();
        put(&mut out, "Question", &self.question);
        let or = |text: &str| if text.is_empty() { "unknown" } else { text }.to_owned();
        let head = &self.head;
        put(&mut out, "When", &format!("{}, commit {}", or(&head.date), or(&head.commit)));
        let machine = &head.machine;
        put(
            &mut out,
            "Machine",
            &format!(
                "{} CPUs, {} GB, kernel {}",
                machine.cpus,
                machine.memory_bytes >> 30,
                or(&machine.kernel)
            ),
        );
        for (column, words) in &self.disks {
            put(&mut out, if column == "here" { "Disks" } else { "Model" }, words);
        }
        for (label, text) in &self.heads {
            put(&mut out, label, text);
        }
        self.put_method(&mut out);
        for (label, text) in &self.details {
            put(&mut out, label, text);
        }
        let own = self.details.iter().any(|(label, _)| label == "Noise");
        if !own {
            put(
                &mut out,
                "Noise",
                "the same load twice in each round, nothing changed between; the largest \
                 difference is the A/A spread. A ratio no further from 1 than that, or than \
                 rounds of one arm are apart, reads \"not distinguishable\"",
            );
        }
        let settings: Vec<String> =
            self.settings.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        put(&mut out, "Settings", &settings.join("; "));
        put(&mut out, "Raw rows", &format!("{}, in --json F and --html F", self.raw.len()));
        out
    }

    fn put_method(&self, out: &mut String) {
        let pairs = if self.noise.pairs == 1 { "pair" } else { "pairs" };
        let noise = match self.noise.pairs {
            0 => "no A/A pair".to_owned(),
            n => format!("A/A spread {:.3} ({n} {pairs})", self.noise.spread),
        };
        let hash = &self.settings_hash;
        put(out, "Method", &format!("{}. {noise}, settings {hash}", self.method));
    }

    /// The arms: a block of lines for each unit, with as many columns as fit side by side.
    fn put_arms(&self, out: &mut String) {
        let ratio = self.arms.iter().any(|a| a.ratio.is_some());
        for (i, arms) in self.arms.chunk_by(|a, b| a.unit == b.unit).enumerate() {
            if i > 0 {
                out.push('\n');
            }
            let groups = self.groups(arms);
            let mut rest = &groups[..];
            while !rest.is_empty() {
                let used = if ratio { NAMES + 8 } else { NAMES };
                let mut sum = used;
                let fits = rest.iter().take_while(|g| {
                    sum += g.wide();
                    sum <= WIDTH
                });
                let (now, later) = rest.split_at(fits.count().max(1));
                put_block(out, arms, now, ratio && later.is_empty());
                rest = later;
            }
        }
        let unclear = |a: &&Arm| a.ratio.is_some() && a.verdict == Verdict::NotDistinguishable;
        if self.arms.iter().any(|a| unclear(&a)) {
            out.push_str("  ~ not distinguishable from 1.00: inside the spread of equal runs\n");
        }
    }

    /// Published, model and here, if there are figures of these arms.
    fn groups(&self, arms: &[Arm]) -> Vec<Group<'_>> {
        let columns: [(&'static str, FiguresOf); 3] = [
            ("published", |a| a.published.as_ref()),
            ("model", |a| a.model.as_ref()),
            ("here", |a| a.here.as_ref()),
        ];
        let mut groups = Vec::new();
        for (head, figures) in columns {
            let named = groups.is_empty();
            let mut group = Group { head, star: head == "model", figures, layouts: Vec::new() };
            for (i, name) in self.layouts.iter().enumerate() {
                let there = arms.iter().any(|arm| group.figure(arm, i).is_some());
                if !there {
                    continue;
                }
                let name = if named { name } else { short(name) };
                let cells = arms.iter().map(|arm| group.cell(arm, i).chars().count());
                let widest = cells.fold(name.chars().count(), usize::max);
                // The first is set apart from the line before it.
                let first = group.layouts.is_empty();
                let width = if first { 8.max(widest + 2) } else { 6.max(widest + 1) };
                group.layouts.push((i, name, width));
            }
            if !group.layouts.is_empty() {
                groups.push(group);
            }
        }
        groups
    }
}

/// The width of an arm's description.
const NAMES: usize = 27;

/// The figures of one source.
type FiguresOf = fn(&Arm) -> Option<&Figures>;

/// Columns of one source.
struct Group<'a> {
    head: &'static str,
    star: bool,
    figures: FiguresOf,
    /// Which, its name, its width.
    layouts: Vec<(usize, &'a str, usize)>,
}

impl Group<'_> {
    fn wide(&self) -> usize {
        self.layouts.iter().map(|(.., width)| width).sum()
    }

    fn figure(&self, arm: &Arm, layout: usize) -> Option<f64> {
        (self.figures)(arm).and_then(|f| *f.get(layout)?)
    }

    fn cell(&self, arm: &Arm, layout: usize) -> String {
        match self.figure(arm, layout) {
            Some(v) if self.star && arm.is_fitted(layout) => amount(v, arm.two_decimals) + "*",
            Some(v) => amount(v, arm.two_decimals),
            None => "-".to_owned(),
        }
    }
}

/// The short name of a layout whose full name was already shown.
fn short(name: &str) -> &str {
    name.split(' ').next().unwrap_or(name)
}

fn put_block(out: &mut String, arms: &[Arm], groups: &[Group<'_>], with_ratio: bool) {
    let unit = arms.first().map_or("", |a| a.unit.as_str());
    let mut heads = " ".repeat(NAMES);
    let mut columns = format!("  {unit:<width$}", width = NAMES - 2);
    for group in groups {
        let _ = write!(heads, "{:>width$}", group.head, width = group.wide());
        for (_, name, width) in &group.layouts {
            let _ = write!(columns, "{name:>width$}");
        }
    }
    if with_ratio {
        let _ = write!(columns, "{:>8}", "ratio");
    }
    let _ = writeln!(out, "{heads}\n{columns}");
    for arm in arms {
        let mut shown = groups.iter().flat_map(|g| g.layouts.iter().map(move |l| (g, l.0)));
        let measured = arm.published.is_some() || arm.model.is_some() || arm.here.is_some();
        // It gets a line if it has figures.
        if measured && shown.all(|(group, at)| group.figure(arm, at).is_none()) {
            continue;
        }
        let mut line = named(out, &arm.what, NAMES - 2);
        for group in groups {
            for (layout, _, width) in &group.layouts {
                let _ = write!(line, "{:>width$}", group.cell(arm, *layout));
            }
        }
        if with_ratio {
            let _ = write!(line, "{:>8}", ratio(arm));
        }
        let _ = writeln!(out, "{line}");
    }
}

/// The start of a line with the description of its figures; one that is wider than its
/// column gets its own line.
fn named(out: &mut String, what: &str, width: usize) -> String {
    match what.chars().count() > width {
        true => {
            let _ = writeln!(out, "  {what}");
            " ".repeat(2 + width)
        }
        false => format!("  {what:<width$}"),
    }
}

/// This run compared with an earlier one.
fn put_compared(out: &mut String, compared: &Comparison) {
    let like = match compared.differs.is_empty() {
        true => "same settings, machine and source".to_owned(),
        false => format!("NOT the same: {}", compared.differs.join("; ")),
    };
    out.push('\n');
    put(out, "Like", &format!("run {}: {like}", compared.with));
    let then = format!("run {}", compared.with);
    let _ = writeln!(out, "  {:<26}{:<9}{then:>9}{:>9}{:>8}", "", "", "now", "ratio");
    for row in &compared.rows {
        let verdict = match row.verdict {
            Verdict::NotDistinguishable => "  not disting.",
            Verdict::Faster => "  more",
            Verdict::Slower => "  less",
        };
        let name = named(out, &row.what, 26);
        let _ = writeln!(
            out,
            "{name}{:<9}{:>9}{:>9}{:>7.2}x{verdict}",
            row.layout,
            amount(row.before, false),
            amount(row.now, false),
            row.ratio
        );
    }
    if compared.rows.iter().any(|row| row.verdict == Verdict::NotDistinguishable) {
        out.push_str("  not disting.: not distinguishable, inside the spread of equal runs\n");
    }
}

/// A table of further figures, split if it has more columns than fit.
fn put_table(out: &mut String, table: &Table) {
    const NAME: usize = 26;
    let longest = table.columns.iter().map(|c| c.chars().count()).max().unwrap_or(0);
    let width = (longest + 1).max(7);
    let per_line = ((WIDTH - NAME) / width).max(1);
    for start in (0..table.columns.len()).step_by(per_line) {
        let end = (start + per_line).min(table.columns.len());
        let _ = write!(out, "\n  {:<24}", table.head);
        for name in &table.columns[start..end] {
            let _ = write!(out, "{name:>width$}");
        }
        out.push('\n');
        for row in &table.rows {
            let mut line = named(out, &row.what, NAME - 2);
            for i in start..end {
                let cell = row.figures.get(i).copied().flatten().map_or("-".to_owned(), figure);
                let _ = write!(line, "{cell:>width$}");
            }
            let _ = writeln!(out, "{line}");
        }
    }
}

/// A figure of a table: with one decimal if that is significant.
fn figure(value: f64) -> String {
    match value {
        v if v == v.trunc() => format!("{v:.0}"),
        v if v.abs() < 0.0995 => format!("{v:.3}"),
        v if v.abs() < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}
