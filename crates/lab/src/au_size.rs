//! `au-size`: does a scan need an AU of 4 MB?
//!
//! The same file in groups with AUs of 1, 4, 8, 16 and 64 MB, in turn on the same stretch of the
//! same disks, read as a cell reads: in whole 1 MB storage regions, which never cross an AU. For
//! comparison: the old way, where the reads are shifted so that they do, and both on the inner tracks of
//! the disks. After "Why Does Exadata Require a 4MB Allocation Unit Size", 2012.

mod answer;
mod options;
mod words;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use self::answer::report;
pub use self::options::{Options, Position, Shift};

use crate::column::Column;
use crate::content::STEP;
use crate::control::Control;
use crate::error::LabError;
use crate::experiment::{Experiment, OptionSpec, Request};
use crate::load::{Bench, Load, Plan, raw};
use crate::place::{Disk, Model, Place, Sharing};
use crate::preset::Preset;
use crate::run::{Raw, Run};
use crate::sample::Sample;

/// The name of the experiment.
pub const NAME: &str = "au-size";
const QUESTION: &str = "Does a scan need an AU of 4 MB, or is any size from 1 to 64 MB as fast?";

/// Reads in flight for each disk, as in a cell.
const SCAN_DEPTH: usize = 32;

/// `au-size` for the command line.
pub struct AuSize;

impl Experiment for AuSize {
    fn name(&self) -> &'static str {
        NAME
    }

    fn question(&self) -> &'static str {
        QUESTION
    }

    fn examples(&self) -> &'static str {
        "  cellar lab run au-size                       a model of 2012, in seconds
  cellar lab run au-size --position outer      without the inner tracks
  cellar lab run au-size --preset flat-200     disks that do not turn
  cellar lab run au-size --dir /srv --size 1G  scratch files, beside it
  cellar lab run au-size --dir /srv --shape 200MB/s    slowed to 200 MB/s
  cellar lab run au-size --disks /dev/disk/by-id/A,/dev/disk/by-id/B \\
    --position outer,inner                     both ends of disks here
  cellar lab run au-size --shift half-au       the old way, by half of each AU"
    }

    fn options(&self) -> &'static [OptionSpec] {
        options::SPECS
    }

    fn run(&self, request: &Request<'_>) -> Result<Run, LabError> {
        let asked = &request.asked;
        let is_here = asked.dir.is_some() || !asked.disks.is_empty();
        let options = Options::read(request.words(), is_here, asked.disks.len())?;
        #[cfg(feature = "real")]
        let here = here(request, &options)?;
        #[cfg(not(feature = "real"))]
        let here = None;
        // A model has inner tracks even if real disks are read only from their start.
        let positions = match request.words().get("position") {
            Some(_) => options.positions.clone(),
            None => Options::default().positions,
        };
        let modelled = Options { positions, ..options.clone() };
        let model = model(&modelled, &request.control)?;
        let run = report(request.head.clone(), &options, Some(model), here);
        Ok(Run { asked: asked.clone(), ..run })
    }
}

#[cfg(feature = "real")]
fn here(request: &Request<'_>, options: &Options) -> Result<Option<Measured>, LabError> {
    use crate::place::Here;
    let place = match (&request.disks[..], &request.asked.dir) {
        ([], None) => return Ok(None),
        ([], Some(dir)) => Here::files(request.runtime, dir, options.shape),
        (disks, _) => {
            if disks.len() < options.width {
                return Err(LabError::Few { given: disks.len(), needed: options.width });
            }
            for disk in disks {
                disk.holds(options.needed(0)[0].bytes)?;
            }
            Here::disks(request.runtime, disks.to_vec()).shaped(options.shape)
        }
    };
    measure(&place, options, &request.control).map(Some)
}

/// A way of reading the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Whole regions, as a cell reads.
    Cell,
    /// Reads that do not begin where regions do.
    Shifted,
}

const WAYS: [Way; 2] = [Way::Cell, Way::Shifted];

impl Way {
    fn word(self) -> &'static str {
        match self {
            Way::Cell => "cell",
            Way::Shifted => "shifted",
        }
    }

    /// The name of its arm at a position.
    fn arm(self, position: Position) -> String {
        format!("{}-{}", self.word(), position.word())
    }
}

/// The measurements of one place.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    column: Column,
    words: String,
    kind: &'static str,
    caches: &'static str,
    sharing: Sharing,
    request_max: Option<u64>,
    /// What the model omits.
    limits: Option<&'static str>,
    /// Whether the start of a disk is known to be faster than its end.
    turns: bool,
    raw: Vec<Raw>,
}

/// Measures on simulated disks like [`Options::preset`], in virtual time; one round is enough.
///
/// # Errors
/// As [`measure`].
pub fn model(options: &Options, control: &Control<'_>) -> Result<Measured, LabError> {
    options.check()?;
    let preset: Preset = options.preset;
    let options = Options { rounds: 1, ..options.clone() };
    let mut measured = measure(&Model::seeded(preset, options.seed), &options, control)?;
    measured.limits = Some(preset.limits);
    measured.turns = preset.shape.inner_bytes_per_second > 0;
    Ok(measured)
}

/// Measures every AU at every position on the disks of `place`.
///
/// # Errors
/// An unusable option, disks that are unavailable or fail, bytes that differ from those
/// written.
pub fn measure<P: Place>(
    place: &P,
    options: &Options,
    control: &Control<'_>,
) -> Result<Measured, LabError> {
    options.check()?;
    let size = options.disk_bytes(place.size());
    let disks = Arc::new(place.disks(&options.needed(size), control)?);
    let mut rig = Rig { place, options, control, disks, size, raw: Vec::new() };
    for round in 1..=options.rounds {
        rig.round(round)?;
    }
    Ok(Measured {
        column: place.column(),
        words: place.words(),
        kind: place.kind(),
        caches: place.caches(),
        sharing: place.sharing(),
        request_max: place.request_max(),
        limits: None,
        turns: options.shape.is_some_and(|shape| shape.inner_bytes_per_second > 0),
        raw: rig.raw,
    })
}

/// Disks on which groups are created one after another.
struct Rig<'a, P> {
    place: &'a P,
    options: &'a Options,
    control: &'a Control<'a>,
    disks: Arc<Vec<Disk>>,
    /// Size of each disk, in bytes.
    size: u64,
    raw: Vec<Raw>,
}

impl<P: Place> Rig<'_, P> {
    /// Measures every AU at every position. Each round starts with the next AU, and every other round
    /// reverses the positions and ways, so that drift affects all alike.
    fn round(&mut self, round: u32) -> Result<(), LabError> {
        let (options, turned) = (self.options, round.is_multiple_of(2));
        let what = match self.place.column() {
            Column::Model => format!("groups of {NAME} on the model"),
            Column::Here => format!("groups of {NAME} here"),
        };
        let each = (options.positions.len() * options.au_sizes.len()) as u64;
        let total = each * u64::from(options.rounds);
        let mut done = each * u64::from(round - 1);
        let shift = (round as usize - 1) % options.au_sizes.len();
        let sizes = options.au_sizes[shift..].iter().chain(&options.au_sizes[..shift]);
        let mut positions = options.positions.clone();
        if turned {
            positions.reverse();
        }
        for position in positions {
            if self.place.column() == Column::Here {
                self.ceiling(round, position)?;
            }
            for au_size in sizes.clone() {
                self.group(round, position, *au_size, turned)?;
                done += 1;
                self.control.tell(&what, done, total);
            }
        }
        Ok(())
    }

    /// Creates a group, reads its file in each way, and releases the disks in any case.
    fn group(
        &mut self,
        round: u32,
        position: Position,
        au_size: u64,
        turned: bool,
    ) -> Result<(), LabError> {
        let slots = [self.options.slots(position, self.size)];
        let bytes = self.options.file_bytes;
        let plan = Plan { name: "au", groups: &slots, au_size, bytes, table: None };
        let disks = Arc::clone(&self.disks);
        let bench = self.place.run(Bench::new(self.place.env(), disks, &plan, self.control))?;
        let measured = self.ways(&bench, round, position, au_size, turned);
        let closed = self.place.run(bench.close());
        self.raw.extend(measured?);
        closed
    }

    fn ways(
        &self,
        bench: &Bench,
        round: u32,
        position: Position,
        au_size: u64,
        turned: bool,
    ) -> Result<Vec<Raw>, LabError> {
        let in_flight = SCAN_DEPTH * bench.disks_each();
        // A model has no processors, and its tasks start in random order, which alone would make its
        // disks seek.
        let tasks = self.place.column() == Column::Here;
        let mut ways = WAYS;
        if turned {
            ways.reverse();
        }
        let mut rows = Vec::new();
        for way in ways {
            let shift = match way {
                Way::Cell => 0,
                Way::Shifted => self.options.shift.of(au_size),
            };
            let sample = self.load(bench, Load::Regions { in_flight, shift, tasks })?;
            rows.push(self.row(round, &options::name(au_size), &way.arm(position), sample));
        }
        // An A/A pair: the same work at different times.
        if self.options.au_sizes.first() == Some(&au_size) {
            for arm in ["a", "a'"] {
                let sample = self.load(bench, Load::Regions { in_flight, shift: 0, tasks })?;
                rows.push(self.row(round, &options::name(au_size), arm, sample));
            }
        }
        Ok(rows)
    }

    fn load(&self, bench: &Bench, load: Load) -> Result<Sample, LabError> {
        self.control.check()?;
        self.place.before();
        self.place.run(bench.measure(load))
    }

    /// The rate of the disks in that stretch, without a group.
    fn ceiling(&mut self, round: u32, position: Position) -> Result<(), LabError> {
        self.control.check()?;
        let length = self.options.file_bytes / self.options.width as u64 / STEP * STEP;
        let slots = self.options.slots(position, self.size);
        let devices = slots
            .iter()
            .map(|slot| (Arc::clone(&self.disks[slot.disk].raw), slot.start..slot.start + length));
        self.place.before();
        let sample = self.place.run(raw(&self.place.env(), devices.collect(), SCAN_DEPTH))?;
        let arm = format!("ceiling-{}", position.word());
        self.raw.push(self.row(round, "", &arm, sample));
        Ok(())
    }

    fn row(&self, round: u32, layout: &str, arm: &str, sample: Sample) -> Raw {
        Raw {
            column: self.place.column(),
            round,
            layout: layout.to_owned(),
            arm: arm.to_owned(),
            sample: Some(sample),
            figures: BTreeMap::new(),
            notes: BTreeMap::new(),
        }
    }
}
