//! `sim`: simulated runs of a disk group on failing disks, any number of them.

mod clock;
mod report;
mod run;

use std::process::ExitCode;

use cellar_sim::{Load, Mode};
use clap::Parser;

/// What to run, how much of it, and how to report it.
#[derive(Debug, Parser)]
#[command(
    name = "sim",
    version,
    about = "Simulated lives of a disk group on disks that fail, held against a model",
    after_help = "Examples:
  sim                                100 seeds of each mode
  sim --seeds 2000 --mode faults     2,000 seeds of one mode
  sim --minutes 10                   all modes in turn for ten minutes
  sim --mode rot --seed 437          one seed again, to the event
  sim --seeds 500 --from 10000       500 seeds, from 10000 on
  sim --format json > run.json       for a program to read
Exit codes: 0 nothing was lost or wrong, 1 a seed failed, 2 wrong usage.
A seed that failed is told with the command that runs it again."
)]
struct Args {
    /// Seeds of each mode [default: 100, or as many as fit in --minutes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// This seed alone; with --seeds the first of them
    #[arg(long, value_name = "S", conflicts_with = "from")]
    seed: Option<u64>,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 0)]
    from: u64,
    /// One mode, may be repeated [default: all of them in turn]
    #[arg(long, value_name = "NAME", value_enum)]
    mode: Vec<ModeName>,
    /// How much is done between crashes: many small operations, or few that may be large
    #[arg(long, value_name = "LOAD", value_enum, default_value_t = LoadName::Dense)]
    load: LoadName,
    /// Start no seed after this many minutes
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u64).range(1..))]
    minutes: Option<u64>,
    /// Stop after this many failed seeds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    failures: u64,
    /// What goes to standard output
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// What goes to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A table
    Text,
    /// One object
    Json,
}

/// A [`Mode`] as a word of the command line.
#[derive(Clone, Copy, Debug)]
struct ModeName(Mode);

impl clap::ValueEnum for ModeName {
    fn value_variants<'a>() -> &'a [ModeName] {
        const ALL: [ModeName; Mode::ALL.len()] = {
            let mut all = [ModeName(Mode::Stay); Mode::ALL.len()];
            let mut i = 0;
            while i < all.len() {
                all[i] = ModeName(Mode::ALL[i]);
                i += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.name()).help(self.0.about()))
    }
}

/// A [`Load`] as a word of the command line.
#[derive(Clone, Copy, Debug)]
struct LoadName(Load);

impl LoadName {
    #[expect(non_upper_case_globals, reason = "reads as the variant that it is")]
    const Dense: LoadName = LoadName(Load::Dense);
}

impl clap::ValueEnum for LoadName {
    fn value_variants<'a>() -> &'a [LoadName] {
        &[LoadName(Load::Usual), LoadName(Load::Dense)]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.name()))
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let modes: Vec<Mode> = match args.mode.is_empty() {
        true => Mode::ALL.to_vec(),
        false => args.mode.iter().map(|name| name.0).collect(),
    };
    let seeds = match (args.seeds, args.seed, args.minutes) {
        (Some(seeds), _, _) => seeds,
        (None, Some(_), _) => 1,
        (None, None, Some(_)) => u64::MAX,
        (None, None, None) => 100,
    };
    let plan = run::Plan {
        modes,
        load: args.load.0,
        from: args.seed.unwrap_or(args.from),
        seeds,
        minutes: args.minutes,
        failures_max: args.failures,
    };
    let ran = run::all(&plan);
    match args.format {
        Format::Text => report::text(&ran),
        Format::Json => report::json(&ran),
    }
    if ran.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
