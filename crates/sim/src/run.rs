//! Seeds, run one after the other, with all modes in turn.

use std::cell::RefCell;
use std::io::IsTerminal;
use std::time::Duration;

use cellar_sim::{Failure, Load, Mode, Outcome, Stats, try_seed};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::clock::{Clock, Took};

/// One seed in this many runs twice, and must do the same both times.
const TWICE: u64 = 100;

/// The work to run.
#[derive(Debug)]
pub struct Plan {
    pub modes: Vec<Mode>,
    pub load: Load,
    pub from: u64,
    /// Seeds per mode.
    pub seeds: u64,
    pub minutes: Option<u64>,
    pub failures_max: u64,
}

/// The result of one mode.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    pub mode: Mode,
    pub stats: Stats,
    pub took: Took,
    /// Seeds that ran twice and did the same both times.
    pub replayed: u64,
}

/// The results of all modes.
#[derive(Debug)]
pub struct Ran {
    pub load: Load,
    pub lines: Vec<Line>,
    pub failures: Vec<Failure>,
}

thread_local! {
    /// Where the last panic was.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs all seeds.
pub fn all(plan: &Plan) -> Ran {
    // A panic is a finding, reported at the end with the history before it.
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(|l| format!("{}:{}", l.file(), l.line()));
        PLACE.with(|last| *last.borrow_mut() = place);
    }));
    let clock = Clock::start();
    let bar = bar(plan);
    let line = |mode: &Mode| Line {
        mode: *mode,
        stats: Stats::default(),
        took: Took::default(),
        replayed: 0,
    };
    let mut ran =
        Ran { load: plan.load, lines: plan.modes.iter().map(line).collect(), failures: Vec::new() };
    let limit = plan.minutes.map(|m| Duration::from_secs(m.saturating_mul(60)));
    'all: for seed in plan.from..plan.from.saturating_add(plan.seeds) {
        for line in &mut ran.lines {
            if limit.is_some_and(|limit| clock.took().wall >= limit) {
                break 'all;
            }
            if let Err(failure) = one(line, seed, plan.load) {
                ran.failures.push(*failure);
                if ran.failures.len() as u64 >= plan.failures_max {
                    break 'all;
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    ran
}

/// Runs one seed; some seeds twice.
fn one(line: &mut Line, seed: u64, load: Load) -> Result<(), Box<Failure>> {
    let clock = Clock::start();
    let result = try_seed(seed, line.mode, load);
    line.took += clock.took();
    let first = match result {
        Ok(first) => first,
        Err(mut failure) => {
            if let Some(place) = PLACE.with(|last| last.borrow_mut().take()) {
                failure.message = format!("{place}: {}", failure.message);
            }
            line.stats.add(failure.stats);
            return Err(failure);
        }
    };
    line.stats.add(first.stats);
    if seed.is_multiple_of(TWICE) {
        let again = try_seed(seed, line.mode, load);
        if again.as_ref().ok() != Some(&first) {
            return Err(differs(line.mode, seed, load, first, again.ok()));
        }
        line.replayed += 1;
    }
    Ok(())
}

fn differs(
    mode: Mode,
    seed: u64,
    load: Load,
    first: Outcome,
    again: Option<Outcome>,
) -> Box<Failure> {
    let message = format!("the same seed did something else: {first:?}, then {again:?}");
    Box::new(Failure { mode, seed, load, message, history: Vec::new(), stats: Stats::default() })
}

/// A progress bar on a terminal, nothing elsewhere.
fn bar(plan: &Plan) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let total = plan.minutes.is_none().then(|| plan.seeds.saturating_mul(plan.modes.len() as u64));
    let words = match total {
        Some(_) => "      {bar:30.#/.}  {pos} of {len} seeds  {elapsed}",
        None => "      {spinner} {pos} seeds  {elapsed}",
    };
    let style = ProgressStyle::with_template(words).expect("the template is a constant");
    let target = ProgressDrawTarget::stderr();
    let bar = ProgressBar::with_draw_target(total, target).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
