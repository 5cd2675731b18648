//! Output of benchmarks: rows, medians, goals.

use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use crate::Options;

/// Prints arms and goals, records raw rows, counts missed goals.
pub struct Report {
    /// Missed goals.
    pub missed: usize,
    record: Option<PathBuf>,
    head: serde_json::Value,
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or(String::new(), |o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
}

/// Median, minimum and maximum.
pub fn median(values: &[f64]) -> (f64, f64, f64) {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

impl Report {
    /// Begins the report of a measurement.
    pub fn new(what: &str, options: &Options) -> Report {
        let head = serde_json::json!({
            "what": what,
            "date": said("date", &["-u", "+%FT%TZ"]),
            "machine": said("uname", &["-nrm"]),
            "commit": said("git", &["rev-parse", "--short", "HEAD"]),
            "load": said("cat", &["/proc/loadavg"]),
            "rounds": options.rounds,
            "seconds": options.seconds,
            "bytes": options.size,
        });
        println!("{head}");
        Report { missed: 0, record: options.record.clone(), head }
    }

    /// Prints the median and spread of an arm and returns the median.
    pub fn arm(&mut self, arm: &str, who: &str, unit: &str, values: &[f64]) -> f64 {
        let (middle, least, most) = median(values);
        println!("  {arm:<34} {who:<8} {middle:>10.2} {unit:<8} ({least:.2}..{most:.2})");
        if let Some(path) = &self.record {
            let row = serde_json::json!({
                "run": self.head, "arm": arm, "who": who, "unit": unit, "values": values,
            });
            let mut file =
                std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
            writeln!(file, "{row}").unwrap();
        }
        middle
    }

    /// A goal that is a minimum.
    pub fn at_least(&mut self, what: impl Display, value: f64, goal: f64) {
        self.goal(what, value, "at least", goal, value >= goal);
    }

    /// A goal that is a maximum.
    pub fn at_most(&mut self, what: impl Display, value: f64, goal: f64) {
        self.goal(what, value, "at most", goal, value <= goal);
    }

    fn goal(&mut self, what: impl Display, value: f64, word: &str, goal: f64, met: bool) {
        self.missed += usize::from(!met);
        let verdict = if met { "met" } else { "MISSED" };
        println!("  => {what}: {value:.3} (goal: {word} {goal}) {verdict}");
    }
}
