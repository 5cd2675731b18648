//! `redo-block-size`: is 4096 faster because of the log's block size or the disk's format?
//!
//! A post compared a log in blocks of 512 on a disk formatted to sectors of 512 with a log in blocks
//! of 4096 on the same disk formatted to 4096: both changed at once. This experiment also measures the arm
//! in between, for large commits, for small ones, and for small ones concurrent with large ones. After A.
//! Boliński, "Advanced Format 4k - Redo Log Performance", 2016.

mod answer;
mod options;
mod words;

use std::collections::BTreeMap;

use cellar_redo::Quorum;

pub use self::answer::report;
pub use self::options::{Explanation, Options};

use crate::column::Column;
use crate::commit::{Bench, Crew, Plan};
use crate::control::Control;
use crate::error::LabError;
use crate::experiment::{Experiment, OptionSpec, Request};
use crate::place::{Model, Place};
use crate::preset::NVME_4096;
use crate::run::{Raw, Run};

/// The name of the experiment.
pub const NAME: &str = "redo-block-size";
const QUESTION: &str = "Is 4096 faster because of the log's block size or the disk's format?";

/// `redo-block-size` for the command line.
pub struct RedoBlockSize;

impl Experiment for RedoBlockSize {
    fn name(&self) -> &'static str {
        NAME
    }

    fn question(&self) -> &'static str {
        QUESTION
    }

    fn examples(&self) -> &'static str {
        "  cellar lab run redo-block-size                  a model of 2016, in seconds
  cellar lab run redo-block-size --model format   the other explanation
  cellar lab run redo-block-size --large-think 0  as much redo as the disk takes
  cellar lab run redo-block-size --dir /srv       a scratch file: blocks alone
  cellar lab run redo-block-size --disks /dev/disk/by-id/A512,/dev/disk/by-id/B4096
                                                  one disk of each format"
    }

    fn options(&self) -> &'static [OptionSpec] {
        options::SPECS
    }

    fn run(&self, request: &Request<'_>) -> Result<Run, LabError> {
        let asked = &request.asked;
        let is_here = asked.dir.is_some() || !asked.disks.is_empty();
        let options = Options::read(request.words(), is_here)?;
        #[cfg(feature = "real")]
        let here = here(request, &options)?;
        #[cfg(not(feature = "real"))]
        let here = None;
        let model = model(&options, &request.control)?;
        let run = report(request.head.clone(), &options, Some(model), here);
        Ok(Run { asked: asked.clone(), ..run })
    }
}

#[cfg(feature = "real")]
fn here(request: &Request<'_>, options: &Options) -> Result<Option<Measured>, LabError> {
    use crate::place::Here;
    let (place, disks) = match (&request.disks[..], &request.asked.dir) {
        ([], None) => return Ok(None),
        ([], Some(dir)) => (Here::files(request.runtime, dir, None), 1),
        (disks, _) => {
            for disk in disks {
                disk.holds(options.areas().total())?;
            }
            (Here::disks(request.runtime, disks.to_vec()), disks.len())
        }
    };
    let place = place.shaped(options.shape).sectors(512);
    measure(&place, disks, options, &request.control).map(Some)
}

/// A block size on a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    name: &'static str,
    /// The log's block size, in bytes.
    block: u32,
    /// The disk's sectors, in bytes.
    format: u32,
}

const LAYOUTS: [Layout; 3] = [
    Layout { name: "512/512", block: 512, format: 512 },
    Layout { name: "4096/512", block: 4096, format: 512 },
    Layout { name: "4096/4096", block: 4096, format: 4096 },
];

/// The committing sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Large,
    Small,
    Mixed,
}

const WORKS: [Work; 3] = [Work::Large, Work::Small, Work::Mixed];

impl Work {
    fn arm(self) -> &'static str {
        match self {
            Work::Large => "large",
            Work::Small => "small",
            Work::Mixed => "mixed",
        }
    }

    /// For people, at most 25 characters.
    fn what(self) -> &'static str {
        match self {
            Work::Large => "large commits",
            Work::Small => "small commits",
            Work::Mixed => "small beside large",
        }
    }

    fn crews(self, options: &Options) -> Vec<Crew> {
        match self {
            Work::Large => vec![options.large_crew()],
            Work::Small => vec![options.small_crew()],
            Work::Mixed => vec![options.small_crew(), options.large_crew()],
        }
    }

    /// The crew whose commits are evaluated.
    fn crew(self) -> &'static str {
        match self {
            Work::Large => "large",
            Work::Small | Work::Mixed => "small",
        }
    }
}

/// The measurements of one place.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    column: Column,
    words: String,
    kind: &'static str,
    caches: &'static str,
    /// What the models omit.
    limits: Vec<&'static str>,
    raw: Vec<Raw>,
}

/// Rounds sufficient for a model.
const MODEL_ROUNDS: u32 = 3;
/// The arm of a model with the other explanation.
const OTHER: &str = "large, the other explanation";

/// Measures on a model of both formats of one disk, in virtual time, and large commits once more
/// with the other explanation; 3 rounds are enough.
///
/// # Errors
/// As [`measure`].
pub fn model(options: &Options, control: &Control<'_>) -> Result<Measured, LabError> {
    options.check()?;
    let options = Options { rounds: options.rounds.min(MODEL_ROUNDS), ..options.clone() };
    let formats = |explanation: Explanation| vec![explanation.preset(), NVME_4096];
    let place = Model::mixed(formats(options.explanation), options.seed);
    let mut measured = measure(&place, 2, &options, control)?;
    let limits = formats(options.explanation).into_iter().map(|preset| preset.limits);
    measured.limits = limits.collect();
    let other = Model::mixed(formats(options.explanation.other()), options.seed);
    let mut rig = Rig::new(&other, 2, &options, control)?;
    for layout in LAYOUTS {
        rig.row(1, OTHER, Work::Large, layout)?;
    }
    measured.raw.extend(rig.raw);
    Ok(measured)
}

/// Measures every workload with every block size on the `count` disks of `place`, for each format on the first
/// that has it.
///
/// # Errors
/// An unusable option, disks that are unavailable or fail, a log that stops.
pub fn measure<P: Place>(
    place: &P,
    count: usize,
    options: &Options,
    control: &Control<'_>,
) -> Result<Measured, LabError> {
    options.check()?;
    let mut rig = Rig::new(place, count, options, control)?;
    let measured = (1..=options.rounds).try_for_each(|round| rig.round(round));
    // Even after a failure.
    let wiped = place.run(rig.bench.wipe());
    measured.and(wiped)?;
    Ok(Measured {
        column: place.column(),
        words: place.words(),
        kind: place.kind(),
        caches: place.caches(),
        limits: Vec::new(),
        raw: rig.raw,
    })
}

/// Disks on which logs are created one after another.
struct Rig<'a, P> {
    place: &'a P,
    options: &'a Options,
    control: &'a Control<'a>,
    /// Sectors of each disk, in bytes.
    formats: Vec<u32>,
    bench: Bench,
    raw: Vec<Raw>,
}

impl<'a, P: Place> Rig<'a, P> {
    fn new(
        place: &'a P,
        count: usize,
        options: &'a Options,
        control: &'a Control<'a>,
    ) -> Result<Rig<'a, P>, LabError> {
        let areas = options.areas();
        let disks = place.disks(&vec![areas.needed(); count], control)?;
        let formats = disks.iter().map(|disk| disk.raw.geometry().logical_sector).collect();
        let bytes_max = options.large.max(options.small);
        let bench = Bench::new(place.env(), disks, areas, bytes_max, control);
        Ok(Rig { place, options, control, formats, bench, raw: Vec::new() })
    }

    /// Every workload on every layout that there is a disk for. Each round starts with another workload and,
    /// every other time, with the last layout, so that changes over time affect all alike.
    fn round(&mut self, round: u32) -> Result<(), LabError> {
        let what = match self.place.column() {
            Column::Model => format!("logs of {NAME} on the model"),
            Column::Here => format!("logs of {NAME} here"),
        };
        let mut layouts: Vec<Layout> =
            LAYOUTS.into_iter().filter(|layout| self.formats.contains(&layout.format)).collect();
        let first = layouts.first().copied();
        if round.is_multiple_of(2) {
            layouts.reverse();
        }
        let each = (WORKS.len() * layouts.len()) as u64;
        let total = each * u64::from(self.options.rounds);
        let mut done = each * u64::from(round - 1);
        let mut works = WORKS;
        works.rotate_left((round as usize - 1) % WORKS.len());
        for work in works {
            for layout in &layouts {
                self.row(round, work.arm(), work, *layout)?;
                done += 1;
                self.control.tell(&what, done, total);
            }
        }
        // An A/A pair: the same work at different times.
        for arm in ["a", "a'"] {
            if let Some(layout) = first {
                self.row(round, arm, Work::Small, layout)?;
            }
        }
        Ok(())
    }

    fn row(&mut self, round: u32, arm: &str, work: Work, layout: Layout) -> Result<(), LabError> {
        self.control.check()?;
        let disk = self.formats.iter().position(|format| *format == layout.format);
        let Some(disk) = disk else { return Ok(()) };
        let plan = Plan {
            media: vec![(disk, "disk")],
            block_size: layout.block,
            quorum: Quorum::Auto,
            in_flight: self.options.in_flight,
            archive: None,
            scans: 0,
            time: self.options.time,
        };
        self.place.before();
        let done = self.place.run(self.bench.run(&plan, &work.crews(self.options)))?;
        self.raw.push(Raw {
            column: self.place.column(),
            round,
            layout: layout.name.to_owned(),
            arm: arm.to_owned(),
            sample: None,
            figures: done.figures(),
            notes: BTreeMap::new(),
        });
        Ok(())
    }
}
