//! A run as text of 80 columns.

use std::fmt::Write;

use crate::run::{Arm, DepthRow, Run, Verdict};

const WIDTH: usize = 80;
const LABEL: usize = 10;

/// A label and a text behind it, broken into lines.
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

/// A rate in few digits.
fn rate(value: f64) -> String {
    if value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn cells(pair: Option<[f64; 2]>, star: bool) -> [String; 2] {
    let star = if star { "*" } else { "" };
    match pair {
        Some(pair) => pair.map(|v| rate(v) + star),
        None => ["-".to_owned(), "-".to_owned()],
    }
}

/// What the ratio is, in a word.
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
        put(&mut out, "", &format!("After {}", self.source));
        for (column, words) in &self.disks {
            let label = if column == "here" { "Disks" } else { "Model" };
            put(&mut out, label, words);
        }
        self.put_method(&mut out);
        out.push('\n');
        self.put_arms(&mut out);
        for (rows, what) in [(&self.depth_model, "model"), (&self.depth_here, "here")] {
            if !rows.is_empty() && (what == "here" || self.is_model()) {
                put_depth(&mut out, rows);
            }
        }
        out.push('\n');
        put(&mut out, "Finding", &self.finding);
        for (label, text) in &self.remarks {
            put(&mut out, label, text);
        }
        out
    }

    fn put_method(&self, out: &mut String) {
        let set = |name: &str| self.settings.get(name).map_or("?", String::as_str);
        let rounds = set("rounds");
        let rounds = match rounds {
            "1" => "one round".to_owned(),
            n => format!("{n} rounds interleaved, medians"),
        };
        put(
            out,
            "Method",
            &format!(
                "{}, AU {}, {}, {}, checksums {}; {rounds}; every byte read was checked against \
                 its sum. A/A spread {:.3} ({} pair{}), settings {}",
                set("file"),
                set("au_size"),
                set("striping"),
                set("redundancy"),
                set("checksums"),
                self.noise.spread,
                self.noise.pairs,
                if self.noise.pairs == 1 { "" } else { "s" },
                self.settings_hash,
            ),
        );
    }

    fn put_arms(&self, out: &mut String) {
        let (model, here) = (
            self.arms.iter().any(|a| a.model.is_some()),
            self.arms.iter().any(|a| a.here.is_some()),
        );
        let mut heads = format!("{:<27}{:>16}", "", "published");
        let mut columns = format!("{:<27}{:>8}{:>8}", "  MB/s", "1 disk", "2 disks");
        for (shown, head) in [(model, "model"), (here, "here")] {
            if shown {
                let _ = write!(heads, "{head:>14}");
                let _ = write!(columns, "{:>8}{:>6}", 1, 2);
            }
        }
        let _ = writeln!(out, "{heads}\n{columns}{:>8}", "ratio");
        for arm in &self.arms {
            let [one, two] = cells(arm.published, false);
            let mut line = format!("  {:<25}{one:>8}{two:>8}", arm.what);
            for (shown, pair, star) in [(model, arm.model, arm.fitted), (here, arm.here, false)] {
                if shown {
                    let [one, two] = cells(pair, star);
                    let _ = write!(line, "{one:>8}{two:>6}");
                }
            }
            let _ = writeln!(out, "{line}{:>8}", ratio(arm));
        }
        if self.arms.iter().any(|a| a.verdict == Verdict::NotDistinguishable) {
            out.push_str("  ~ not distinguishable from 1.00: inside the spread of equal runs\n");
        }
    }
}

fn put_depth(out: &mut String, rows: &[DepthRow]) {
    let mut lines = [
        format!("\n{:<26}", "  reads in flight per disk"),
        format!("{:<26}", "  MB/s from two disks"),
        format!("{:<26}", "  p99 of a 1 MB read, ms"),
    ];
    for row in rows {
        let _ = write!(lines[0], "{:>7}", row.depth);
        let _ = write!(lines[1], "{:>7}", rate(row.mb_per_second));
        let p99 = match row.p99_ms {
            ms if ms < 99.95 => format!("{ms:.1}"),
            ms => format!("{ms:.0}"),
        };
        let _ = write!(lines[2], "{p99:>7}");
    }
    for line in lines {
        out.push_str(&line);
        out.push('\n');
    }
}
