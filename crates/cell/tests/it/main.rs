//! Laws that scans keep on simulated disks: they answer what a plain look at every row answers, from
//! disks that are slow, rotten or gone; they read what they need and no more; and they end.
//!
//! `CELLAR_SEED=n` runs that seed, `CELLAR_SEEDS=n` so many from there on.

mod ask;
mod broken;
mod bytes_read;
mod dropped;
mod first;
mod mirrored;
mod rig;
mod scans;
mod slow;
mod tables;

// Random rows and questions, and what they mean row by row, are those that row groups are tested with.
#[path = "../../../format/tests/it/naive.rs"]
#[expect(dead_code, reason = "row groups are tested with more of it")]
mod naive;
#[path = "../../../format/tests/it/questions.rs"]
mod questions;
#[path = "../../../format/tests/it/table.rs"]
#[expect(dead_code, reason = "row groups are tested with more of it")]
mod table;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// Runs so many seeds, or what the environment says; the first that fails says how to run it again.
fn seeds(usual: u64, run: impl Fn(u64)) {
    let seed = number("CELLAR_SEED");
    let from = seed.unwrap_or(0);
    let count = number("CELLAR_SEEDS").unwrap_or(if seed.is_some() { 1 } else { usual });
    for seed in from..from + count {
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(seed)));
        if let Err(panic) = ran {
            eprintln!("seed {seed} failed: run it again with CELLAR_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
