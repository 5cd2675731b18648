//! Comparison of a run with an earlier one.

use serde::{Deserialize, Serialize};

use crate::column::Column;
use crate::run::{Run, Verdict, verdict};

/// A run compared with an earlier one of the same experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Number of the earlier run.
    pub with: u64,
    /// The differences that may affect figures: settings, machine, source.
    pub differs: Vec<String>,
    /// Figures present in both.
    pub rows: Vec<Compared>,
}

/// One figure of two runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// A description, for people.
    pub what: String,
    /// The layout.
    pub layout: String,
    /// In the earlier run.
    pub before: f64,
    /// In this one.
    pub now: f64,
    /// The new value divided by the earlier one.
    pub ratio: f64,
    /// The verdict, given the noise of both. More counts as faster, whatever is measured.
    pub verdict: Verdict,
}

impl Comparison {
    /// Compares `now` with `before`, the run of that number.
    pub fn new(now: &Run, before: &Run, with: u64) -> Comparison {
        let mut differs = Vec::new();
        if now.settings_hash != before.settings_hash {
            differs.push(format!("settings ({})", changed(now, before)));
        }
        if now.head.machine != before.head.machine {
            differs.push("machine".to_owned());
        }
        if now.head.commit != before.head.commit {
            differs.push(format!("source ({}, then {})", now.head.commit, before.head.commit));
        }
        let column = match now.is_model() || before.is_model() {
            true => Column::Model,
            false => Column::Here,
        };
        let noise = match column {
            // Virtual time has no noise.
            Column::Model => 0.0,
            Column::Here => now.noise.spread.max(before.noise.spread),
        };
        let rows = now.arms.iter().flat_map(|arm| {
            let old = before.arm(&arm.name).filter(|old| old.unit == arm.unit);
            let spread = match (column, old) {
                (Column::Here, Some(old)) => noise.max(arm.spread).max(old.spread),
                _ => noise,
            };
            let row = move |(i, layout): (usize, &String)| {
                let j = before.layouts.iter().position(|l| l == layout)?;
                let figure = arm.figures(column)?.get(i).copied().flatten()?;
                let earlier = old?.figures(column)?.get(j).copied().flatten()?;
                let ratio = if earlier > 0.0 { figure / earlier } else { return None };
                Some(Compared {
                    what: arm.what.clone(),
                    layout: layout.clone(),
                    before: earlier,
                    now: figure,
                    ratio,
                    verdict: verdict(ratio, spread),
                })
            };
            now.layouts.iter().enumerate().filter_map(row).collect::<Vec<_>>()
        });
        Comparison { with, differs, rows: rows.collect() }
    }
}

/// The settings that differ.
fn changed(now: &Run, before: &Run) -> String {
    let mut names: Vec<&String> = now.settings.keys().chain(before.settings.keys()).collect();
    names.sort();
    names.dedup();
    let said = |run: &Run, name: &str| run.settings.get(name).map_or("-", |s| s).to_owned();
    names
        .into_iter()
        .filter(|name| now.settings.get(*name) != before.settings.get(*name))
        .map(|name| format!("{name} {}, then {}", said(now, name), said(before, name)))
        .collect::<Vec<_>>()
        .join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Arm, Noise};

    fn run(figure: f64, rounds: &str, spread: f64) -> Run {
        let arm = Arm {
            name: "serial".to_owned(),
            here: Some(vec![Some(100.0), Some(figure)]),
            ..Arm::default()
        };
        Run {
            arms: vec![arm],
            layouts: vec!["1 disk".to_owned(), "2 disks".to_owned()],
            settings: [("rounds".to_owned(), rounds.to_owned())].into(),
            settings_hash: rounds.to_owned(),
            noise: Noise { pairs: 1, spread },
            ..Run::default()
        }
    }

    #[test]
    fn what_differs_is_told_and_the_noise_of_both_counts() {
        let told = Comparison::new(&run(150.0, "5", 0.02), &run(140.0, "1", 0.01), 7);
        assert_eq!(told.differs, ["settings (rounds 5, then 1)"]);
        assert_eq!(told.rows.len(), 2);
        assert_eq!(told.rows[0].verdict, Verdict::NotDistinguishable);
        assert_eq!(told.rows[1].verdict, Verdict::Faster);
        let noisy = Comparison::new(&run(150.0, "5", 0.02), &run(140.0, "5", 0.2), 7);
        assert_eq!(noisy.rows[1].verdict, Verdict::NotDistinguishable);
        assert!(noisy.differs.is_empty());
    }
}
