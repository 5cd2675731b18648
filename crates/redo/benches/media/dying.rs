//! Death of one medium under load: how long nothing is acknowledged, and whether everything
//! acknowledged is on the remaining media.
//!
//! A trial: a new log of small groups; committers; at a random moment one medium dies, in a different way
//! each trial. When the control data record it, and at least 60 ms have passed, the machine is
//! switched off amid commits, and the log is opened again without the dead medium.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cellar_io::real::Runtime;

use crate::Arguments;
use crate::common::verdict;
use crate::machine::Death;
use crate::trial::{COMMITTERS, Disks, GROUP_BYTES, GROUPS, Outcome, Trial};

const GAP_MAX: Duration = Duration::from_millis(100);
/// A disk that takes this long for a request contributes to the gap.
const DISK_STALLS: Duration = Duration::from_millis(40);

const KINDS: [(&str, Death); 3] =
    [("writes fail", Death::Errors), ("hangs", Death::Hangs), ("goes away", Death::Goes)];

pub fn run(runtime: &Runtime, arguments: &Arguments) {
    let disks = Arc::new(Disks::open(runtime, &arguments.dir));
    println!(
        "dying: {} trials, seed {}, {COMMITTERS} committers, {GROUPS} groups of {} MB",
        arguments.trials,
        arguments.seed,
        GROUP_BYTES >> 20
    );
    let mut all: BTreeMap<(usize, usize), Vec<Outcome>> = BTreeMap::new();
    for number in 0..arguments.trials {
        let kind = number as usize % KINDS.len();
        let media = [3, 2][number as usize / KINDS.len() % 2];
        let name = KINDS[kind].0;
        if arguments.kind.as_ref().is_some_and(|wanted| !name.contains(wanted)) {
            continue;
        }
        let trial = Trial {
            disks: Arc::clone(&disks),
            media,
            death: KINDS[kind].1,
            seed: arguments.seed,
            number,
        };
        // In a task of a worker, as in a server.
        let outcome = runtime.block_on(async { tokio::spawn(trial.run()).await.unwrap() });
        if let Some(problem) = &outcome.problem {
            println!("  trial {number}, {media} media, {name}: {problem}");
        }
        if outcome.gap > GAP_MAX {
            println!(
                "  trial {number}, {media} media, {name}: {:.1?} without an acknowledgement, the \
                 death recorded after {:.1?}, the slowest request of a disk {:.1?}",
                outcome.gap, outcome.recorded, outcome.slowest
            );
        }
        all.entry((media, kind)).or_default().push(outcome);
    }
    report(&all);
}

fn report(all: &BTreeMap<(usize, usize), Vec<Outcome>>) {
    println!(
        "  trials, acknowledged, lost; longest gap, ms: p50, p90, p99, most; before the death"
    );
    let (mut trials, mut lost, mut worst) = (0, 0, Duration::ZERO);
    for ((media, kind), outcomes) in all {
        let gaps = sorted(outcomes.iter().map(|o| o.gap));
        let before = sorted(outcomes.iter().map(|o| o.gap_before));
        let recorded = sorted(outcomes.iter().filter_map(|o| o.recorded));
        let its_lost: usize = outcomes.iter().map(|o| o.lost).sum();
        println!(
            "  {media} media, one {:<12} {:>4} {:>7} {its_lost}; {}; {}",
            KINDS[*kind].0,
            outcomes.len(),
            outcomes.iter().map(|o| o.acknowledged).sum::<usize>(),
            percentiles(&gaps),
            percentiles(&before),
        );
        let slowest = sorted(outcomes.iter().map(|o| o.slowest));
        println!(
            "    the death recorded after, ms: {}; the slowest request of a disk: {}",
            percentiles(&recorded),
            percentiles(&slowest)
        );
        let over = gaps.iter().filter(|gap| **gap > GAP_MAX).count();
        if over > 0 {
            println!("    {over} of {} gaps over {} ms", gaps.len(), GAP_MAX.as_millis());
        }
        trials += outcomes.len();
        lost += its_lost;
        worst = worst.max(gaps.last().copied().unwrap_or_default());
    }
    // There may be only one real disk, and it may stall by itself.
    let calm = all.values().flatten().filter(|o| o.slowest <= DISK_STALLS);
    let calm = sorted(calm.map(|o| o.gap));
    println!("  lost in {trials} trials: {lost} (goal: 0 in 1000) {}", verdict(lost == 0));
    println!(
        "  longest gap: {:.1} ms (goal: at most {}) {}",
        worst.as_secs_f64() * 1e3,
        GAP_MAX.as_millis(),
        verdict(worst <= GAP_MAX)
    );
    println!(
        "  the same in the {} trials where no disk took over {} ms for a request, ms: {}",
        calm.len(),
        DISK_STALLS.as_millis(),
        percentiles(&calm)
    );
}

fn sorted(values: impl Iterator<Item = Duration>) -> Vec<Duration> {
    let mut values: Vec<Duration> = values.collect();
    values.sort_unstable();
    values
}

fn percentiles(sorted: &[Duration]) -> String {
    let Some(last) = sorted.len().checked_sub(1) else { return "none".to_owned() };
    let at = |share: f64| sorted[(last as f64 * share).round() as usize].as_secs_f64() * 1e3;
    format!("{:.1} {:.1} {:.1} {:.1}", at(0.5), at(0.9), at(0.99), at(1.0))
}
