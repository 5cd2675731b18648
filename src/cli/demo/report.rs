//! The record of a demo: seconds of each step, demo.json, where the time went.

use std::path::{Path, PathBuf};

use cellar_io::{Instant, SharedEnv};
use cellar_wait::{EventTotals, WaitClass};
use serde::Serialize;

use super::added::Moved;
use super::commits::Commits;
use super::healed::Healed;
use super::killed::Killed;
use super::{Args, Found};
use crate::cli::database::Place;
use crate::cli::fault::Fault;
use crate::cli::output;

#[derive(Serialize)]
struct Step {
    name: String,
    seconds: f64,
    ok: bool,
}

#[derive(Serialize)]
struct Kept<'a> {
    version: &'static str,
    scale: f64,
    steps: &'a [Step],
    queries_failed: u64,
    queries_wrong: u64,
    commits_lost: u64,
    commits: &'a Commits,
    healed: &'a Healed,
    killed: &'a Killed,
    disk_added: &'a Moved,
    checksums_wrong: u64,
    pieces_differing: u64,
    seconds: f64,
}

/// Times of the steps.
pub struct Report {
    env: SharedEnv,
    began: Instant,
    step_began: Instant,
    scale: f64,
    path: PathBuf,
    steps: Vec<Step>,
}

impl Report {
    /// Starts now.
    pub fn new(args: &Args, place: &Place) -> Report {
        let now = place.env.now();
        Report {
            env: place.env.clone(),
            began: now,
            step_began: now,
            scale: args.scale,
            path: args.dir.join("demo.json"),
            steps: Vec::new(),
        }
    }

    /// Starts a step.
    pub fn begin(&mut self, name: &str) {
        self.step_began = self.env.now();
        self.steps.push(Step { name: name.to_owned(), seconds: 0.0, ok: false });
    }

    /// Ends it; returns how long it took, in seconds.
    pub fn done(&mut self) -> f64 {
        let seconds = self.env.now().since(self.step_began).as_secs_f64();
        if let Some(step) = self.steps.last_mut() {
            (step.seconds, step.ok) = (seconds, true);
        }
        seconds
    }

    /// Minutes and seconds since the start.
    pub fn elapsed(&self) -> String {
        let seconds = self.env.now().since(self.began).as_secs_f64();
        format!("{}:{:04.1}", (seconds / 60.0) as u64, seconds % 60.0)
    }

    /// Writes demo.json and shows where the time went.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(&self, found: Found) -> Result<(), Fault> {
        let seconds = self.env.now().since(self.began).as_secs_f64();
        let kept = Kept {
            version: env!("CARGO_PKG_VERSION"),
            scale: self.scale,
            steps: &self.steps,
            queries_failed: found.queries_failed,
            queries_wrong: found.queries_wrong,
            commits_lost: found.commits.lost + found.killed.lost,
            commits: &found.commits,
            healed: &found.healed,
            killed: &found.killed,
            disk_added: &found.moved,
            checksums_wrong: found.findings.checksums_wrong,
            pieces_differing: found.findings.pieces_differing,
            seconds,
        };
        let json = serde_json::to_vec_pretty(&kept)
            .map_err(|e| Fault::failed(format!("CELLAR-00600: demo.json: {e}")))?;
        std::fs::write(&self.path, json)?;
        self.where_time_went(&found, seconds)
    }

    fn where_time_went(&self, found: &Found, seconds: f64) -> Result<(), Fault> {
        let cpu = cpu_seconds();
        let mut waits: Vec<(&str, f64, f64, f64)> = found
            .waits
            .iter()
            .filter(|w| w.count > 0 && w.event.class() != WaitClass::Idle)
            .map(|w| {
                let ms = |p: f64| w.histogram.percentile(p).unwrap_or(0) as f64 / 1e6;
                (w.event.name(), w.nanos as f64 / 1e9, ms(50.0), ms(99.0))
            })
            .collect();
        waits.sort_by(|a, b| b.1.total_cmp(&a.1));
        let total: f64 = cpu + waits.iter().map(|w| w.1).sum::<f64>();
        let mut text = format!(
            "Where the time went                   {seconds:.1} s by the clock, {total:.1} s of work\n"
        );
        let share = |s: f64| s / total.max(1e-9) * 100.0;
        text.push_str(&format!("      {:<26}{cpu:>7.1} s {:>4.0} %\n", "CPU", share(cpu)));
        for (name, s, p50, p99) in waits.iter().take(6) {
            text.push_str(&format!(
                "      {name:<26}{s:>7.1} s {:>4.0} %    p50 {p50:.2} ms  p99 {p99:.1} ms\n",
                share(*s)
            ));
        }
        text.push('\n');
        output::text(&text)
    }
}

/// Adds waits of the same events from a later opening.
pub fn add(waits: &mut Vec<EventTotals>, more: Vec<EventTotals>) {
    for of_event in more {
        match waits.iter_mut().find(|known| known.event == of_event.event) {
            Some(known) => {
                known.count += of_event.count;
                known.nanos += of_event.nanos;
                known.histogram.merge(&of_event.histogram);
            }
            None => waits.push(of_event),
        }
    }
}

/// CPU that this process used, all threads, in seconds.
fn cpu_seconds() -> f64 {
    let Ok(stat) = std::fs::read_to_string("/proc/self/stat") else { return 0.0 };
    // Fields 14 and 15, counted after the name in parentheses, in ticks of 1/100 s.
    let Some((_, rest)) = stat.rsplit_once(')') else { return 0.0 };
    let ticks: u64 = rest
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    ticks as f64 / 100.0
}

/// A description of the machine, in one line.
pub fn machine(dir: &Path) -> String {
    let cpus = crate::cli::database::cores();
    let memory = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|l| l.starts_with("MemTotal:"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .map_or(0, |kb| (kb + (1 << 19)) >> 20);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel: String = kernel.trim().split('-').next().unwrap_or_default().to_owned();
    let below = cellar_io::real::probe(
        dir.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")),
        &[],
    );
    let below = below.ok().and_then(|f| f.below).map(|p| format!(", {}", p.display()));
    format!("Machine  {cpus} CPUs, {memory} GB, kernel {kernel}{}\n", below.unwrap_or_default())
}
