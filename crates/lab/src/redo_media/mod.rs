//! `redo-media`: is flash a better place for redo than disk, and what is gained by waiting for the first of
//! the two?
//!
//! Records of 1 KB, committed in a tight loop by 1 and by 10 sessions, to a log on a disk, on flash
//! that works in pages of 4 KB, and on both, where the first one wins; in blocks of 512 and of 4096
//! bytes; and, as a reader asked, concurrent with an archiver and queries. After G. Harrison, "Using flash
//! disk for Redo on Exadata", 2011.

mod answer;
mod options;
mod words;

use std::collections::BTreeMap;

use cellar_redo::Quorum;

pub use self::answer::report;
use self::options::Job;
pub use self::options::{Archive, Options};

use crate::column::Column;
use crate::commit::{Bench, Crew, Plan};
use crate::control::Control;
use crate::error::LabError;
use crate::experiment::{Experiment, OptionSpec, Request};
use crate::place::{Model, Place, Sharing};
use crate::preset::{FLASH_4K_2011, Preset, SAS_CACHED_2011};
use crate::run::{Raw, Run};

/// The name of the experiment.
pub const NAME: &str = "redo-media";
const QUESTION: &str = "Is flash a better place for redo than disk, or are both together?";
/// The name of committers in figures.
const CREW: &str = "session";

/// `redo-media` for the command line.
pub struct RedoMedia;

impl Experiment for RedoMedia {
    fn name(&self) -> &'static str {
        NAME
    }

    fn question(&self) -> &'static str {
        QUESTION
    }

    fn examples(&self) -> &'static str {
        "  cellar lab run redo-media                       models of 2011, in seconds
  cellar lab run redo-media --archive off,same,other --with scan=4
                                                  the whole job, in a minute
  cellar lab run redo-media --in-flight 1         one write at a time, as in 2011
  cellar lab run redo-media --flash-shape 90us,page:4096/300us,late:0.1%/20ms
  cellar lab run redo-media --dir /srv            scratch files, beside it
  cellar lab run redo-media --disks /dev/disk/by-id/DISK,/dev/disk/by-id/FLASH
  cellar lab run redo-media --dir /srv --disk-shape 400us \\
    --flash-shape 90us,page:4096/300us            files here slowed to models"
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
    let place = match (&request.disks[..], &request.asked.dir) {
        ([], None) => return Ok(None),
        ([], Some(dir)) => Here::files(request.runtime, dir, None),
        (disks, _) => {
            if disks.len() < options.disks() {
                return Err(LabError::Few { given: disks.len(), needed: options.disks() });
            }
            for disk in disks {
                disk.holds(options.areas().total())?;
            }
            Here::disks(request.runtime, disks.to_vec())
        }
    };
    // The third is for archives, and has no model.
    let shapes = vec![options.disk_shape, options.flash_shape, None];
    let place = place.shaped_each(shapes).sectors(options.blocks[0]);
    measure(&place, options, &request.control).map(Some)
}

/// The media of the redo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Disk,
    Flash,
    Both,
}

const LAYOUTS: [Layout; 3] = [Layout::Disk, Layout::Flash, Layout::Both];

/// Media by their indexes among the disks.
const MEDIA: [(usize, &str); 2] = [(0, "disk"), (1, "flash")];

impl Layout {
    fn name(self) -> &'static str {
        match self {
            Layout::Disk => "disk",
            Layout::Flash => "flash",
            Layout::Both => "both",
        }
    }

    fn media(self) -> Vec<(usize, &'static str)> {
        match self {
            Layout::Disk => MEDIA[..1].to_vec(),
            Layout::Flash => MEDIA[1..].to_vec(),
            Layout::Both => MEDIA.to_vec(),
        }
    }
}

/// One way of committing, on each layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    job: Job,
    sessions: usize,
    block: u32,
}

impl Way {
    /// The name of its arm.
    fn arm(self) -> String {
        format!("{}x{}{}", self.sessions, self.block, self.job.suffix())
    }
}

/// All ways, with the concurrent work changing last.
fn ways(options: &Options) -> Vec<Way> {
    let mut all = Vec::new();
    for job in options.jobs() {
        for block in &options.blocks {
            for sessions in &options.sessions {
                all.push(Way { job, sessions: *sessions, block: *block });
            }
        }
    }
    all
}

/// The measurements of one place.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    column: Column,
    words: String,
    kind: &'static str,
    caches: &'static str,
    sharing: Sharing,
    /// What the models omit.
    limits: Vec<&'static str>,
    raw: Vec<Raw>,
}

/// Rounds sufficient for a model.
const MODEL_ROUNDS: u32 = 3;
/// The arm of a model with one write in flight at a time, as a log writer process does.
const ONE_AT_A_TIME: &str = "one at a time";

/// Measures on models of the disks of 2011, or those in [`Options`], in virtual time; 3
/// rounds are enough.
///
/// # Errors
/// As [`measure`].
pub fn model(options: &Options, control: &Control<'_>) -> Result<Measured, LabError> {
    options.check()?;
    let like = |preset: Preset, shape| match shape {
        Some(shape) => Preset { name: "given", shape, words: "as given", limits: "", ..preset },
        None => preset,
    };
    let disk = like(SAS_CACHED_2011, options.disk_shape);
    let flash = like(FLASH_4K_2011, options.flash_shape);
    // The third, for archives, is like the disk.
    let place = Model::mixed(vec![disk, flash, disk], options.seed);
    let options = Options { rounds: options.rounds.min(MODEL_ROUNDS), ..options.clone() };
    let mut measured = measure(&place, &options, control)?;
    measured.words =
        format!("disk {}: {}. Flash {}: {}", disk.name, disk.words, flash.name, flash.words);
    measured.limits = [disk.limits, flash.limits].into_iter().filter(|l| !l.is_empty()).collect();
    Ok(measured)
}

/// Measures every way on the disks of `place`.
///
/// # Errors
/// An unusable option, disks that are unavailable or fail, a log that stops.
pub fn measure<P: Place>(
    place: &P,
    options: &Options,
    control: &Control<'_>,
) -> Result<Measured, LabError> {
    options.check()?;
    let areas = options.areas();
    let needed = vec![areas.needed(); options.disks()];
    let disks = place.disks(&needed, control)?;
    let bench = Bench::new(place.env(), disks, areas, options.record, control);
    let mut rig = Rig { place, options, control, bench, raw: Vec::new() };
    let measured = (1..=options.rounds).try_for_each(|round| rig.round(round));
    // Even after a failure.
    let wiped = place.run(rig.bench.wipe());
    measured.and(wiped)?;
    Ok(Measured {
        column: place.column(),
        words: place.words(),
        kind: place.kind(),
        caches: place.caches(),
        sharing: place.sharing(),
        limits: Vec::new(),
        raw: rig.raw,
    })
}

/// Disks on which logs are created one after another.
struct Rig<'a, P> {
    place: &'a P,
    options: &'a Options,
    control: &'a Control<'a>,
    bench: Bench,
    raw: Vec<Raw>,
}

impl<P: Place> Rig<'_, P> {
    /// Every way on every layout. Each round starts with another way and, every other time, with the
    /// last layout, so that changes over time affect all alike.
    fn round(&mut self, round: u32) -> Result<(), LabError> {
        let what = match self.place.column() {
            Column::Model => format!("logs of {NAME} on the model"),
            Column::Here => format!("logs of {NAME} here"),
        };
        let mut ways = ways(self.options);
        let first = ways[0];
        let each = ways.len() * LAYOUTS.len();
        let total = each as u64 * u64::from(self.options.rounds);
        let mut done = each as u64 * u64::from(round - 1);
        let shift = (round as usize - 1) % ways.len();
        ways.rotate_left(shift);
        for way in ways {
            let mut layouts = LAYOUTS;
            if round.is_multiple_of(2) {
                layouts.reverse();
            }
            for layout in layouts {
                self.row(round, &way.arm(), layout, way, self.options.in_flight)?;
                done += 1;
                self.control.tell(&what, done, total);
            }
        }
        // An A/A pair: the same work at different times.
        for arm in ["a", "a'"] {
            self.row(round, arm, Layout::Disk, first, self.options.in_flight)?;
        }
        if self.place.column() == Column::Model && self.options.in_flight > 1 {
            self.one_at_a_time(round)?;
        }
        Ok(())
    }

    /// As the log writer of 2011: most sessions, smallest blocks, one write at a time.
    fn one_at_a_time(&mut self, round: u32) -> Result<(), LabError> {
        let sessions = *self.options.sessions.last().unwrap_or(&1);
        let way = Way { job: Job::ALONE, sessions, block: self.options.blocks[0] };
        for layout in [Layout::Disk, Layout::Flash] {
            self.row(round, ONE_AT_A_TIME, layout, way, 1)?;
        }
        Ok(())
    }

    fn row(
        &mut self,
        round: u32,
        arm: &str,
        layout: Layout,
        way: Way,
        in_flight: usize,
    ) -> Result<(), LabError> {
        self.control.check()?;
        let media = layout.media();
        let archive = match way.job.archive {
            Archive::Off => None,
            Archive::Same => Some(media[0].0),
            Archive::Other => Some(2),
        };
        let plan = Plan {
            media,
            block_size: way.block,
            quorum: Quorum::Of(1),
            in_flight,
            archive,
            scans: way.job.scans,
            time: self.options.time,
        };
        let crew = Crew {
            name: CREW,
            sessions: way.sessions,
            bytes: self.options.record,
            think: std::time::Duration::ZERO,
        };
        self.place.before();
        let done = self.place.run(self.bench.run(&plan, &[crew]))?;
        self.raw.push(Raw {
            column: self.place.column(),
            round,
            layout: layout.name().to_owned(),
            arm: arm.to_owned(),
            sample: None,
            figures: done.figures(),
            notes: BTreeMap::new(),
        });
        Ok(())
    }
}
