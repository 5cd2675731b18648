//! A run as one self-contained HTML page: no scripts, plots as inline SVG, light and dark.

mod plot;

use std::fmt::Write;

use crate::run::{Arm, Raw, Run, Verdict};

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5b6675; --paper: #fff; --line: #d6dbe3;
  --c0: #8a94a3; --c1: #2f6fb7; --c2: #c8601a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e8ee; --soft: #9aa5b4; --paper: #14181f; --line: #333c49;
    --c0: #7d8794; --c1: #6aa6e8; --c2: #f09a55; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.soft, caption, th, svg text.soft { color: var(--soft); fill: var(--soft); font-weight: normal; }
.model { border-left: 4px solid var(--c1); padding: .5rem 1rem; }
.finding { border-left: 4px solid var(--c2); padding: .5rem 1rem; font-size: 1.05rem; }
.wide { overflow-x: auto; }
table { margin-top: 1rem; border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; } th[colspan] { text-align: center; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1rem; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
svg { max-width: 100%; height: auto; } svg text { fill: var(--ink); font: 13px system-ui, sans-serif; }
.s0 { fill: var(--c0); } .s1 { fill: var(--c1); } .s2 { fill: var(--c2); }
path.s0, path.s1, path.s2 { fill: none; stroke-width: 2; }
path.s0 { stroke: var(--c0); } path.s1 { stroke: var(--c1); } path.s2 { stroke: var(--c2); }
.axis { stroke: var(--line); } .b1 { opacity: .62; } .b2 { opacity: .45; } .b3 { opacity: .3; }
";

/// Text escaped for a page.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// A figure with three or four digits.
fn shown(value: f64) -> String {
    match value {
        v if v == v.trunc() => format!("{v:.0}"),
        v if v.abs() < 0.0995 => format!("{v:.4}"),
        v if v.abs() < 9.95 => format!("{v:.2}"),
        v if v.abs() < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// The sources of figures, in the order of their colours.
const SOURCES: [&str; 3] = ["published", "model", "here"];

fn of(arm: &Arm, source: usize, layout: usize) -> Option<f64> {
    let figures = match source {
        0 => arm.published.as_ref(),
        1 => arm.model.as_ref(),
        _ => arm.here.as_ref(),
    };
    figures.and_then(|f| *f.get(layout)?)
}

/// The sources and layouts that have a figure in one of the arms.
fn columns(run: &Run) -> Vec<(usize, Vec<usize>)> {
    let has = |source, layout| run.arms.iter().any(|arm| of(arm, source, layout).is_some());
    (0..SOURCES.len())
        .map(|s| (s, (0..run.layouts.len()).filter(|l| has(s, *l)).collect::<Vec<_>>()))
        .filter(|(_, layouts)| !layouts.is_empty())
        .collect()
}

impl Run {
    /// The report as a self-contained page.
    pub fn to_html(&self) -> String {
        let mut out = String::new();
        let title = escaped(&format!("{}: {}", self.experiment, self.question));
        let _ = write!(
            out,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta \
             name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
             <style>{STYLE}</style></head><body>\n<h1>{}</h1>\n",
            escaped(&self.question)
        );
        self.intro(&mut out);
        let _ = writeln!(out, "<p class=\"finding\">{}</p>", escaped(&self.finding));
        self.put_bars(&mut out);
        self.put_figures(&mut out);
        for table in self.tables.iter().filter(|t| t.plot) {
            let rows = table.rows.iter();
            let drawn: String = rows.map(|row| plot::curve(table, row)).collect();
            let source = match self.tables.len() {
                1 => String::new(),
                _ => format!(": {}", plot::source(table.column)),
            };
            let _ = writeln!(out, "<h2>By {}{source}</h2>\n{drawn}", escaped(&table.head));
        }
        self.put_tables(&mut out);
        section(&mut out, "Beside the answer", self.remarks.iter());
        self.put_compared(&mut out);
        if let Some(wrong) = crate::mispredictions::predictions(self) {
            section(&mut out, "What the model missed", [("Missed".to_owned(), wrong)].iter());
        }
        self.put_method_html(&mut out);
        self.put_raw(&mut out);
        out.push_str("</body></html>\n");
        out
    }

    fn intro(&self, out: &mut String) {
        let head = &self.head;
        let mut words = vec![format!("<code>cellar lab run {}</code>", escaped(&self.experiment))];
        words.extend((!self.source.is_empty()).then(|| format!("after {}", escaped(&self.source))));
        words.extend((!head.date.is_empty()).then(|| escaped(&head.date)));
        words
            .extend((!head.commit.is_empty()).then(|| format!("commit {}", escaped(&head.commit))));
        let _ = writeln!(out, "<p class=\"soft\">{}</p>", words.join(" · "));
        if self.is_model() {
            out.push_str(
                "<p class=\"model\">A model. No disks were given: these are simulated disks in \
                 virtual time. What is shown is about the software, not about disks of yours.</p>\n",
            );
        }
    }

    fn put_bars(&self, out: &mut String) {
        for arms in self.arms.chunk_by(|a, b| a.unit == b.unit) {
            let unit = arms.first().map_or("", |a| a.unit.as_str());
            let _ = writeln!(out, "<h2>{}</h2>", escaped(unit));
            out.push_str(&plot::bars(self, arms, &columns(self)));
        }
    }

    fn put_figures(&self, out: &mut String) {
        let columns = columns(self);
        out.push_str("<div class=\"wide\"><table><tr><th></th>");
        for (source, layouts) in &columns {
            let _ = write!(out, "<th colspan=\"{}\">{}</th>", layouts.len(), SOURCES[*source]);
        }
        let _ = write!(out, "<th>{}</th></tr>\n<tr><th></th>", escaped(&self.ratio));
        for layout in columns.iter().flat_map(|(_, layouts)| layouts) {
            let _ = write!(out, "<th>{}</th>", escaped(&self.layouts[*layout]));
        }
        out.push_str("<th></th></tr>\n");
        for arm in &self.arms {
            let _ = write!(
                out,
                "<tr><td>{} <span class=\"soft\">{}</span></td>",
                escaped(&arm.what),
                escaped(&arm.unit)
            );
            for (source, layouts) in &columns {
                for layout in layouts {
                    let star = if *source == 1 && arm.is_fitted(*layout) { "*" } else { "" };
                    let cell = of(arm, *source, *layout).map_or("-".to_owned(), shown);
                    let _ = write!(out, "<td>{cell}{star}</td>");
                }
            }
            let ratio = match (arm.ratio, arm.verdict) {
                (None, _) => "-".to_owned(),
                (Some(r), Verdict::NotDistinguishable) => {
                    format!("{r:.2}x <span class=\"soft\">not distinguishable</span>")
                }
                (Some(r), _) => format!("{r:.2}x"),
            };
            let _ = writeln!(out, "<td>{ratio}</td></tr>");
        }
        out.push_str("</table></div>\n");
        if self.arms.iter().any(|a| a.fitted) {
            out.push_str("<p class=\"soft\">* the model was made from this row</p>\n");
        }
    }

    fn put_tables(&self, out: &mut String) {
        for table in &self.tables {
            let source = plot::source(table.column);
            let _ = write!(
                out,
                "<div class=\"wide\"><table><caption>{source}</caption><tr><th>{}</th>",
                escaped(&table.head)
            );
            for name in &table.columns {
                let _ = write!(out, "<th>{}</th>", escaped(name));
            }
            out.push_str("</tr>\n");
            for row in &table.rows {
                let _ = write!(out, "<tr><td>{}</td>", escaped(&row.what));
                for figure in &row.figures {
                    let _ = write!(out, "<td>{}</td>", figure.map_or("-".to_owned(), shown));
                }
                out.push_str("</tr>\n");
            }
            out.push_str("</table></div>\n");
        }
    }

    fn put_compared(&self, out: &mut String) {
        let Some(compared) = &self.compared else { return };
        let _ = writeln!(out, "<h2>Beside run {}</h2>", compared.with);
        match compared.differs.is_empty() {
            true => out.push_str("<p>Same settings, machine and source.</p>\n"),
            false => {
                let _ =
                    writeln!(out, "<p>NOT the same: {}</p>", escaped(&compared.differs.join("; ")));
            }
        }
        out.push_str("<table><tr><th></th><th></th><th>then</th><th>now</th><th></th></tr>\n");
        for row in &compared.rows {
            let word = match row.verdict {
                Verdict::Faster => "more",
                Verdict::Slower => "less",
                Verdict::NotDistinguishable => "not distinguishable",
            };
            let _ = writeln!(
                out,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.2}x {word}</td></tr>",
                escaped(&row.what),
                escaped(&row.layout),
                shown(row.before),
                shown(row.now),
                row.ratio
            );
        }
        out.push_str("</table>\n");
    }

    fn put_method_html(&self, out: &mut String) {
        let mut rows: Vec<(String, String)> = Vec::new();
        let machine = &self.head.machine;
        rows.push((
            "Machine".to_owned(),
            format!(
                "{} CPUs, {} GB, kernel {}",
                machine.cpus,
                machine.memory_bytes >> 30,
                machine.kernel
            ),
        ));
        for (column, words) in &self.disks {
            let label = if column == "here" { "Disks" } else { "Model" };
            rows.push((label.to_owned(), words.clone()));
        }
        rows.extend(self.heads.iter().cloned());
        rows.push((
            "Measured".to_owned(),
            format!(
                "{}. A/A spread {:.3} ({} pairs), settings {}",
                self.method, self.noise.spread, self.noise.pairs, self.settings_hash
            ),
        ));
        rows.extend(self.details.iter().cloned());
        let settings: Vec<String> =
            self.settings.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        rows.push(("Settings".to_owned(), settings.join("; ")));
        section(out, "Method", rows.iter());
    }

    fn put_raw(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "<details><summary>Raw rows ({})</summary><div class=\"wide\"><table><tr><th>arm</th>\
             <th>layout</th><th>round</th><th>source</th><th>figures</th></tr>",
            self.raw.len()
        );
        for raw in &self.raw {
            let _ = writeln!(
                out,
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                escaped(&raw.arm),
                escaped(&raw.layout),
                raw.round,
                plot::source(raw.column),
                escaped(&figures(raw))
            );
        }
        out.push_str("</table></div></details>\n");
    }
}

/// A description of a raw row.
fn figures(raw: &Raw) -> String {
    let mut words = Vec::new();
    if let Some(sample) = &raw.sample {
        words.push(format!(
            "{:.1} MB/s, {} reads, {} bytes in {} ns",
            sample.mb_per_second(),
            sample.reads,
            sample.bytes,
            sample.nanos
        ));
        words.extend(sample.p50_ns.map(|ns| format!("p50 {ns} ns")));
        words.extend(sample.p99_ns.map(|ns| format!("p99 {ns} ns")));
        for device in &sample.devices {
            words.push(format!(
                "{}: {} reads, {} bytes, {} merges, busy {} ms",
                device.name, device.reads, device.bytes, device.merges, device.busy_ms
            ));
        }
    }
    words.extend(raw.figures.iter().map(|(name, value)| format!("{name} {}", shown(*value))));
    words.extend(raw.notes.iter().map(|(name, value)| format!("{name}: {value}")));
    words.join(", ")
}

/// Labels and texts below a title.
fn section<'a>(out: &mut String, title: &str, rows: impl Iterator<Item = &'a (String, String)>) {
    let _ = writeln!(out, "<h2>{title}</h2>\n<dl>");
    for (label, text) in rows {
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escaped(label), escaped(text));
    }
    out.push_str("</dl>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_keeps_what_people_wrote_as_text() {
        let arm =
            Arm { what: "a <b> & c".to_owned(), here: Some(vec![Some(3.0)]), ..Arm::default() };
        let run = Run {
            question: "<script>?".to_owned(),
            layouts: vec!["1".to_owned()],
            arms: vec![arm],
            ..Run::default()
        };
        let page = run.to_html();
        assert!(page.contains("&lt;script&gt;?") && !page.contains("<script"), "{page}");
        assert!(page.contains("a &lt;b&gt; &amp; c"), "{page}");
        for foreign in ["http://", "https://", "src=", "@import"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }
}
