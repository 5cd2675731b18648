//! A program that commits to a log on real files is killed with SIGKILL, again and again.
//!
//! The program is this test binary, started again as [`child::child`]; it tells of every commit
//! over a pipe after it returned. Between two lives the parent may damage or take away what the
//! quorum permits, reads the log, and compares it with what it was told.
//!
//! A few seconds by default. `CELLAR_KILLS=n` for so many kills, `CELLAR_SEED=n` for another
//! seed, `CELLAR_KILL_SHAPE=n` for one shape of [`shape::shapes`] alone.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod append;
mod child;
mod damage;
mod files;
mod model;
mod record;
mod shape;
mod trial;

use trial::{Tally, Trial};

/// Kills when nobody says how many.
const KILLS: u64 = 48;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

#[test]
fn what_was_acknowledged_survives_kills() {
    let seed = number("CELLAR_SEED").unwrap_or(1);
    let only = number("CELLAR_KILL_SHAPE");
    let shapes = shape::shapes();
    let chosen: Vec<_> =
        (0..shapes.len()).filter(|at| only.is_none_or(|o| o == *at as u64)).collect();
    let each = number("CELLAR_KILLS").unwrap_or(KILLS).div_ceil(chosen.len() as u64);
    let mut all = Tally::default();
    for at in chosen {
        let mut trial = Trial::new(seed, at, shapes[at].clone());
        if let Err(what) = trial.run(each) {
            let (round, place) = (trial.round(), trial.keep());
            panic!(
                "seed {seed}, shape {at}, round {round}: {what}\nthe files are kept: {place}\n\
                 again: CELLAR_SEED={seed} CELLAR_KILL_SHAPE={at} CELLAR_KILLS={each}"
            );
        }
        println!("shape {at}: {}: {}", shapes[at], trial.tally);
        all.add(&trial.tally);
    }
    println!("all: {all}; 0 lost");
}
