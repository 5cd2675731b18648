//! `multi-disk`: is a scan over two disks twice as fast as over one, or slower?
//!
//! The same file on a group of one disk and on a group of two, read in the ways of C. Kutrovsky's
//! "ASM multi-disk performance" (Pythian, 2006), in the way Cellar reads, and at queue depths from
//! 1 to 64.

use std::collections::BTreeMap;

mod answer;

pub use self::answer::report;

use crate::error::LabError;
use crate::experiment::{Experiment, OptionSpec, Request, Words};
use crate::load::{Bench, Load, SPARE, STEP, Sample};
use crate::place::{Model, Place};
use crate::preset::Preset;
use crate::run::{Column, Raw, Run};

/// The name of the experiment.
pub const NAME: &str = "multi-disk";
const QUESTION: &str = "Is a scan over two disks twice as fast as over one, or slower?";

/// Reads in flight for each disk, in a scan as Cellar does it.
const SCAN_DEPTH: usize = 32;
const DEPTHS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Disks of the two layouts.
const LAYOUTS: [usize; 2] = [1, 2];

/// What may be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of the file: a multiple of 8 MiB, at least 64 MiB.
    pub file_bytes: u64,
    /// AU of the groups in bytes: a power of two from 1 to 64 MiB.
    pub au_size: u64,
    /// Rounds, interleaved; medians are reported.
    pub rounds: u32,
    /// Random reads for each in flight.
    pub random_reads: u64,
    /// Decides the places of random reads.
    pub seed: u64,
}

impl Default for Options {
    /// 512 MiB, AU 1 MiB as in 2006, 1 round (a model gives the same each time).
    fn default() -> Options {
        Options { file_bytes: 512 << 20, au_size: 1 << 20, rounds: 1, random_reads: 200, seed: 4 }
    }
}

impl Options {
    /// As the default, for disks that are here: 5 rounds.
    pub fn here() -> Options {
        Options { rounds: 5, ..Options::default() }
    }

    fn read(words: Words<'_>, here: bool) -> Result<Options, LabError> {
        let base = if here { Options::here() } else { Options::default() };
        let rounds = words.number("rounds", u64::from(base.rounds), ROUNDS)?;
        let options = Options {
            file_bytes: words.size("size", base.file_bytes, SIZE)?,
            au_size: words.size("au-size", base.au_size, AU_SIZE)?,
            rounds: u32::try_from(rounds).unwrap_or(u32::MAX),
            seed: words.number("seed", base.seed, SEED)?,
            ..base
        };
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Result<(), LabError> {
        let refuse = |name, value: u64, allowed| {
            Err(LabError::Option { name, value: value.to_string(), allowed })
        };
        if self.file_bytes < 64 << 20 || !self.file_bytes.is_multiple_of(8 << 20) {
            return refuse("size", self.file_bytes, SIZE);
        }
        if !self.au_size.is_power_of_two() || !(1 << 20..=64 << 20).contains(&self.au_size) {
            return refuse("au-size", self.au_size, AU_SIZE);
        }
        if !(1..=1000).contains(&self.rounds) {
            return refuse("rounds", u64::from(self.rounds), ROUNDS);
        }
        if !(1..=1_000_000).contains(&self.random_reads) {
            return refuse("random-reads", self.random_reads, "1 to 1000000");
        }
        Ok(())
    }
}

/// `multi-disk` for the command line.
pub struct MultiDisk;

const SIZE: &str = "a multiple of 8 MiB, at least 64 MiB";
const AU_SIZE: &str = "1, 2, 4, 8, 16, 32 or 64 MiB";
const ROUNDS: &str = "1 to 1000";
const SEED: &str = "a number";

impl Experiment for MultiDisk {
    fn name(&self) -> &'static str {
        NAME
    }

    fn question(&self) -> &'static str {
        QUESTION
    }

    fn examples(&self) -> &'static str {
        "  cellar lab run multi-disk                     a model of 2006, in seconds
  cellar lab run multi-disk --dir /srv          scratch files beside it"
    }

    fn options(&self) -> &'static [OptionSpec] {
        const fn option(
            name: &'static str,
            value: &'static str,
            default: &'static str,
            help: &'static str,
        ) -> OptionSpec {
            OptionSpec { name, value, help, default }
        }
        const {
            &[
                option("size", "SIZE", "512M", "The file that is read"),
                option("au-size", "SIZE", "1M", "The allocation unit: 1M to 64M"),
                option("rounds", "N", "5; of a model 1", "Rounds, interleaved"),
                option("seed", "N", "4", "Decides the places of random reads"),
            ]
        }
    }

    fn run(&self, request: &Request<'_>) -> Result<Run, LabError> {
        let options = Options::read(request.words(), request.asked.dir.is_some())?;
        let model = model(crate::preset::FC_LUN_2006, &options)?;
        #[cfg(feature = "real")]
        let here = match &request.asked.dir {
            Some(dir) => {
                Some(measure(&crate::place::Here::files(request.runtime, dir, None), &options)?)
            }
            None => None,
        };
        #[cfg(not(feature = "real"))]
        let here = None;
        let run = report(request.head.clone(), &options, Some(model), here);
        Ok(Run { asked: request.asked.clone(), ..run })
    }
}

/// One way of reading.
struct ArmSpec {
    name: &'static str,
    what: &'static str,
    /// MB/s from one and from two disks.
    published: Option<[f64; 2]>,
    /// Whether the model was made to give this row.
    fitted: bool,
    load: fn(disks: usize, options: &Options) -> Load,
}

const ARMS: [ArmSpec; 6] = [
    ArmSpec {
        name: "serial-1",
        what: "serial, 1 read in flight",
        published: Some([110.0, 81.0]),
        fitted: true,
        load: |_, _| Load::Scan { in_flight: 1 },
    },
    ArmSpec {
        name: "serial",
        what: "serial, as Cellar does",
        published: None,
        fitted: false,
        load: |disks, _| Load::Scan { in_flight: SCAN_DEPTH * disks },
    },
    ArmSpec {
        name: "parallel-8",
        what: "8 scans at once",
        published: Some([192.0, 365.0]),
        fitted: false,
        load: |_, _| Load::Scans { count: 8 },
    },
    ArmSpec {
        name: "validate",
        what: "validate (RMAN's place)",
        published: Some([182.0, 345.0]),
        fitted: false,
        load: |_, _| Load::Validate,
    },
    ArmSpec {
        name: "random-1",
        what: "8 KB random, 1 in flight",
        published: None,
        fitted: false,
        load: |_, options| random(1, options),
    },
    ArmSpec {
        name: "random-32",
        what: "8 KB random, 32 in all",
        published: None,
        fitted: false,
        load: |_, options| random(32, options),
    },
];

fn random(in_flight: usize, options: &Options) -> Load {
    let reads = options.random_reads * in_flight as u64;
    Load::Random { in_flight, reads, seed: options.seed }
}

/// What was measured at one place.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    column: Column,
    words: String,
    nominal: u64,
    /// What the model leaves out.
    limits: Option<&'static str>,
    /// MB/s of `serial-1` where nothing is read ahead.
    no_prefetch: Option<[f64; 2]>,
    raw: Vec<Raw>,
}

/// Measures on simulated disks like `preset`, in virtual time, and once more without its
/// read-ahead.
///
/// # Errors
/// As [`measure`].
pub fn model(preset: Preset, options: &Options) -> Result<Measured, LabError> {
    let mut measured = measure(&Model::new(preset), options)?;
    measured.limits = Some(preset.limits);
    let mut plain = preset;
    if let Some(ahead) = &mut plain.shape.read_ahead {
        ahead.hit_latency = ahead.miss_latency;
        let raw = rows(&Model::new(plain), options, &ARMS[..1], &[], false)?;
        let rate = |disks| {
            let row = raw.iter().find(|r| r.layout == layout_name(disks));
            row.and_then(|r| r.sample.as_ref()).map_or(0.0, Sample::mb_per_second)
        };
        measured.no_prefetch = Some(LAYOUTS.map(rate));
    }
    Ok(measured)
}

/// Measures every arm on the disks of `place`.
///
/// # Errors
/// An option that will not do, disks that cannot be had or fail, bytes that are not what was
/// written.
pub fn measure<P: Place>(place: &P, options: &Options) -> Result<Measured, LabError> {
    Ok(Measured {
        column: place.column(),
        words: place.words(),
        nominal: place.nominal(),
        limits: None,
        no_prefetch: None,
        raw: rows(place, options, &ARMS, &DEPTHS, true)?,
    })
}

fn rows<P: Place>(
    place: &P,
    options: &Options,
    arms: &[ArmSpec],
    depths: &[usize],
    pairs: bool,
) -> Result<Vec<Raw>, LabError> {
    options.check()?;
    let mut benches = Vec::new();
    for disks in LAYOUTS {
        let bytes = options.file_bytes / disks as u64 + SPARE + 8 * options.au_size;
        let made = place.disks(disks, bytes.next_multiple_of(STEP))?;
        let bench = Bench::new(place.env(), made, options.au_size, options.file_bytes);
        benches.push((disks, place.run(bench)?));
    }
    let mut raw = Vec::new();
    for round in 1..=options.rounds {
        let mut measure = |disks: usize, bench: &Bench, arm: String, load| {
            let sample = place.run(bench.measure(load))?;
            raw.push(Raw {
                column: place.column(),
                round,
                layout: layout_name(disks),
                arm,
                sample: Some(sample),
                figures: BTreeMap::new(),
                notes: BTreeMap::new(),
            });
            Ok::<_, LabError>(())
        };
        for arm in arms {
            for (disks, bench) in &benches {
                measure(*disks, bench, arm.name.to_owned(), (arm.load)(*disks, options))?;
            }
        }
        if let Some((disks, bench)) = benches.last() {
            for depth in depths {
                let load = Load::Scan { in_flight: depth * disks };
                measure(*disks, bench, depth_name(*depth), load)?;
            }
        }
        if let (true, Some((disks, bench))) = (pairs, benches.first()) {
            for arm in ["a", "a'"] {
                let load = Load::Scan { in_flight: SCAN_DEPTH };
                measure(*disks, bench, arm.to_owned(), load)?;
            }
        }
    }
    for (_, bench) in benches {
        place.run(bench.close())?;
    }
    Ok(raw)
}

fn layout_name(disks: usize) -> String {
    match disks {
        1 => "1 disk".to_owned(),
        n => format!("{n} disks"),
    }
}

fn depth_name(depth: usize) -> String {
    format!("depth-{depth}")
}
