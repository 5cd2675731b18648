//! Benchmark of several media: with one that is occasionally late, and with one that dies.
//!
//! `cargo bench -p cellar-redo --profile release --bench media -- --dir DIR [--only late|dying]`.
//! `late` interleaves its arms in rounds; `dying` has `--trials N --seed S`.

#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

mod common;
#[path = "media/dying.rs"]
mod dying;
#[path = "media/late.rs"]
mod late;
#[path = "media/machine.rs"]
mod machine;
#[path = "media/trial.rs"]
mod trial;

use std::path::PathBuf;

use cellar_io::real::{Runtime, RuntimeOptions};

struct Arguments {
    dir: PathBuf,
    only: Option<String>,
    /// Of `late`.
    rounds: usize,
    millis: u64,
    /// Of `dying`.
    trials: u64,
    seed: u64,
    kind: Option<String>,
}

fn main() {
    let Some(arguments) = parse() else { return };
    std::fs::create_dir_all(&arguments.dir).unwrap();
    let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
    let wanted = |name: &str| arguments.only.as_ref().is_none_or(|only| name.contains(only));
    if wanted("late") {
        late::run(&runtime, &arguments);
    }
    if wanted("dying") {
        dying::run(&runtime, &arguments);
    }
}

fn parse() -> Option<Arguments> {
    let mut parsed = Arguments {
        dir: std::env::temp_dir().join("cellar-media"),
        only: None,
        rounds: 9,
        millis: 2000,
        trials: 1000,
        seed: 1,
        kind: None,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_else(|| panic!("{argument} needs a value"));
        match argument.as_str() {
            "--dir" => parsed.dir = value().into(),
            "--only" => parsed.only = Some(value()),
            "--rounds" => parsed.rounds = value().parse().unwrap(),
            "--millis" => parsed.millis = value().parse().unwrap(),
            "--trials" => parsed.trials = value().parse().unwrap(),
            "--seed" => parsed.seed = value().parse().unwrap(),
            "--kind" => parsed.kind = Some(value()),
            "--bench" => {}
            // What `cargo test` adds: nothing to measure then.
            "--test" => return None,
            other => {
                panic!("{other}: one of --dir --only --rounds --millis --trials --seed --kind")
            }
        }
    }
    Some(parsed)
}
