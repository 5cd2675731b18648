//! Seeds, run one after the other.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

/// Lines of the history reported for a failed seed.
pub const TAIL: usize = 120;

/// The result of one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The work done.
    pub stats: Stats,
    /// The digest of all events, in order.
    pub digest: u64,
}

/// A failed seed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The mode.
    pub mode: Mode,
    /// The seed.
    pub seed: u64,
    /// The load.
    pub load: Load,
    /// The failure.
    pub message: String,
    /// The history before it.
    pub history: Vec<String>,
    /// The work done up to there.
    pub stats: Stats,
}

impl Failure {
    /// The last part of the history.
    pub fn tail(&self, lines: usize) -> &[String] {
        &self.history[self.history.len().saturating_sub(lines)..]
    }

    /// The command that repeats this exactly.
    pub fn command(&self) -> String {
        let Failure { mode, seed, load, .. } = self;
        format!("cargo run --release -p cellar-sim -- --mode {mode} --load {load} --seed {seed}")
    }
}

/// Runs one seed; a failed assertion is reported, with the history before it.
///
/// # Errors
/// Something differed from the model, or the group gave up.
pub fn try_seed(seed: u64, mode: Mode, load: Load) -> Result<Outcome, Box<Failure>> {
    let w = World::new(seed, mode, load);
    let lived = catch_unwind(AssertUnwindSafe(|| match mode {
        Mode::Orders => orders::live(&w, seed),
        _ => live(&w),
    }));
    w.count_disorder(lived.is_ok());
    match lived {
        Ok(()) => Ok(Outcome { stats: w.stats.get(), digest: w.rig.sim.trace_hash() }),
        Err(payload) => {
            let words = payload.downcast_ref::<String>().map(String::as_str);
            let words = words.or_else(|| payload.downcast_ref::<&str>().copied());
            let message = words.unwrap_or("a panic without words").to_owned();
            let all = w.history.borrow();
            let mut history = all.clone();
            history.push(format!("{:?} plan {:?}", w.shape, w.plan.get()));
            let stats = w.stats.get();
            drop(all);
            Err(Box::new(Failure { mode, seed, load, message, history, stats }))
        }
    }
}

/// Runs one seed; returns the work done and the digest of all events.
///
/// # Panics
/// If something is wrong, after printing the history.
pub fn run_seed(seed: u64, mode: Mode) -> (Stats, u64) {
    match try_seed(seed, mode, Load::Usual) {
        Ok(outcome) => (outcome.stats, outcome.digest),
        Err(failure) => {
            for line in failure.tail(TAIL) {
                eprintln!("{line}");
            }
            panic!(
                "{}\nrerun it with CELLAR_SEED={seed}, or {}",
                failure.message,
                failure.command()
            );
        }
    }
}

/// All runs of the machine.
fn live(w: &World) {
    let lives = 3 + w.below(4);
    for n in 0..=lives {
        let last = n == lives;
        let crashes = !last && w.below(8) > 0 && !(rot::is_on(w) && w.below(3) == 0);
        w.crashing.set(crashes);
        if crashes {
            let most = w.load.crash_within(w);
            w.rig.sim.crash_after(1 + w.below(most));
        }
        if w.below(10) == 0 && w.created.get() {
            returns::lose_while_closed(w);
        }
        if w.below(10) == 0 && w.created.get() && !returns::are_on(w) {
            w.lose_leg();
        }
        // A disk that is 10,000 times slower takes seconds for each write that others wait for.
        let hours = if w.mode.is_hostile() { 48 } else { 1 };
        if w.rig.run_for(hours, life::life(w, last)).is_none() {
            w.crashed();
            w.rig.sim.restart();
            assert!(!last, "nothing crashes the last life");
        }
        w.rig.sim.crash_never();
        if !last {
            faults::while_closed(w);
        }
    }
}
