//! `multi-disk`: is a scan over two disks twice as fast as over one, or slower?
//!
//! The same file on a group of one disk and on a group of two, read in the ways of C. Kutrovsky's
//! "ASM multi-disk performance" (Pythian, 2006), in the way Cellar reads, and at queue depths from
//! 1 to 64.

mod answer;
mod asked;
mod options;
mod scanned;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use self::answer::report;
pub use self::options::{Layout, Options};

use crate::ceiling;
use crate::column::Column;
use crate::content::STEP;
use crate::control::Control;
use crate::error::LabError;
use crate::experiment::{Experiment, OptionSpec, Request};
use crate::load::{Bench, Load, Plan, raw};
use crate::place::{Disk, Model, Needed, Place, Sharing};
use crate::preset::Preset;
use crate::run::{Raw, Run};
use crate::sample::Sample;

/// The name of the experiment.
pub const NAME: &str = "multi-disk";
const QUESTION: &str = "Is a scan over two disks twice as fast as over one, or slower?";

/// Reads in flight for each disk, in a scan as Cellar does it.
const SCAN_DEPTH: usize = 32;
const DEPTHS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// A model reads at most this many bytes: more would take longer and give the same figures.
const MODEL_BYTES: u64 = 512 << 20;

/// `multi-disk` for the command line.
pub struct MultiDisk;

impl Experiment for MultiDisk {
    fn name(&self) -> &'static str {
        NAME
    }

    fn question(&self) -> &'static str {
        QUESTION
    }

    fn examples(&self) -> &'static str {
        "  cellar lab run multi-disk                       a model of 2006, in seconds
  cellar lab run multi-disk --dir /srv            scratch files, beside it
  cellar lab run multi-disk --disks /dev/disk/by-id/A,/dev/disk/by-id/B
  cellar lab run multi-disk --layout one,two,each,same --html page.html
  cellar lab run multi-disk --dir /srv --table 256M    and a table, by the cell"
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
        let model = model(options.preset, &options, &request.control)?;
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
            let needed = options.plan().1;
            if disks.len() < needed.len() {
                return Err(LabError::Few { given: disks.len(), needed: needed.len() });
            }
            for (disk, needed) in disks.iter().zip(needed) {
                disk.holds(needed)?;
            }
            Here::disks(request.runtime, disks.to_vec())
        }
    };
    measure(&place, options, &request.control).map(Some)
}

/// One way of reading.
struct ArmSpec {
    name: &'static str,
    what: &'static str,
    /// A description, for readers who ask for the method.
    how: &'static str,
    /// MB/s from one and from two disks.
    published: Option<[f64; 2]>,
    /// Whether the model was fitted to this row.
    fitted: bool,
    /// The load for one group: its disks, and the groups that are read at the same time.
    load: fn(disks: usize, groups: usize, options: &Options) -> Load,
}

static ARMS: [ArmSpec; 7] = [
    ArmSpec {
        name: "serial-1",
        what: "serial, 1 read in flight",
        how: "1 MB reads from start to end, the next when the last is there",
        published: Some([110.0, 81.0]),
        fitted: true,
        load: |_, _, _| Load::Scan { in_flight: 1 },
    },
    ArmSpec {
        name: "serial",
        what: "serial, as Cellar does",
        how: "1 MB reads from start to end, 32 in flight for each disk",
        published: None,
        fitted: false,
        load: |disks, _, _| Load::Scan { in_flight: SCAN_DEPTH * disks },
    },
    ArmSpec {
        name: "parallel-8",
        what: "8 scans at once",
        how: "8 tasks in all, each reads its part as serial-1 does",
        published: Some([192.0, 365.0]),
        fitted: false,
        load: |_, groups, _| Load::Scans { count: 8 / groups },
    },
    ArmSpec {
        name: "validate",
        what: "validate (like RMAN BACKUP VALIDATE)",
        how: "every AU of the file, as cellar validate reads it",
        published: Some([182.0, 345.0]),
        fitted: false,
        load: |_, _, _| Load::Validate,
    },
    ArmSpec {
        name: "random-1",
        what: "8 KB random, 1 in flight",
        how: "8 KB at places that the seed decides, one at a time",
        published: None,
        fitted: false,
        load: |_, _, options| random(1, options),
    },
    ArmSpec {
        name: "random-32",
        what: "8 KB random, 32 in all",
        how: "the same, 32 in flight in all",
        published: None,
        fitted: false,
        load: |_, groups, options| random(32 / groups, options),
    },
    ArmSpec {
        name: scanned::ARM,
        what: "a table, by the cell",
        how: "the columns of sums over all rows, read and summed up by a cell without memory, 32 \
              reads in flight for each disk; MB are of encoded columns as they were read",
        published: None,
        fitted: false,
        load: |_, _, _| Load::Table,
    },
];

/// The requested arms: the last is that of a table.
fn arms(options: &Options) -> &'static [ArmSpec] {
    match options.table_bytes {
        0 => &ARMS[..ARMS.len() - 1],
        _ => &ARMS,
    }
}

fn random(in_flight: usize, options: &Options) -> Load {
    let reads = options.random_reads * in_flight as u64;
    Load::Random { in_flight, reads, seed: options.seed }
}

/// The measurements of one place.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    column: Column,
    words: String,
    kind: &'static str,
    caches: &'static str,
    nominal: u64,
    sharing: Sharing,
    queue: Option<u32>,
    request_max: Option<u64>,
    /// What the model omits.
    limits: Option<&'static str>,
    /// MB/s of `serial-1` without read-ahead, by layout.
    no_prefetch: Option<Vec<f64>>,
    raw: Vec<Raw>,
}

/// Measures on simulated disks like `preset`, in virtual time, and once more without its
/// read-ahead. A file beyond 512 MiB is limited to that; one round is enough.
///
/// # Errors
/// As [`measure`].
pub fn model(
    preset: Preset,
    options: &Options,
    control: &Control<'_>,
) -> Result<Measured, LabError> {
    options.check()?;
    let file_bytes = options.file_bytes.min(MODEL_BYTES);
    let table_bytes = options.table_bytes.min(scanned::MODEL_BYTES);
    let options = Options { file_bytes, table_bytes, rounds: 1, ..options.clone() };
    let mut measured = measure(&Model::new(preset), &options, control)?;
    measured.limits = Some(preset.limits);
    let mut plain = preset;
    if let Some(ahead) = &mut plain.shape.read_ahead {
        ahead.hit_latency = ahead.miss_latency;
        let place = Model::new(plain);
        let options = Options { table_bytes: 0, ..options };
        let bench = Benches::new(&place, &options, control)?;
        let raw = bench.rounds(&ARMS[..1], &[])?;
        let rate = |layout: &Layout| {
            let row = raw.iter().find(|r| r.layout == layout.name());
            row.and_then(|r| r.sample.as_ref()).map_or(0.0, Sample::mb_per_second)
        };
        measured.no_prefetch = Some(options.layouts.iter().map(rate).collect());
    }
    Ok(measured)
}

/// Measures every arm on the disks of `place`.
///
/// # Errors
/// An unusable option, disks that are unavailable or fail, bytes that differ from those
/// written.
pub fn measure<P: Place>(
    place: &P,
    options: &Options,
    control: &Control<'_>,
) -> Result<Measured, LabError> {
    let raw = Benches::new(place, options, control)?.rounds(arms(options), &DEPTHS)?;
    Ok(Measured {
        column: place.column(),
        words: place.words(),
        kind: place.kind(),
        caches: place.caches(),
        nominal: place.nominal(),
        sharing: place.sharing(),
        queue: place.queue(),
        request_max: place.request_max(),
        limits: None,
        no_prefetch: None,
        raw,
    })
}

/// A bench for each layout, on the same disks.
struct Benches<'a, P> {
    place: &'a P,
    options: &'a Options,
    control: &'a Control<'a>,
    disks: Arc<Vec<Disk>>,
    benches: Vec<(Layout, Bench)>,
}

impl<'a, P: Place> Benches<'a, P> {
    fn new(
        place: &'a P,
        options: &'a Options,
        control: &'a Control<'a>,
    ) -> Result<Benches<'a, P>, LabError> {
        options.check()?;
        let (plan, needed) = options.plan();
        let needed: Vec<Needed> = needed.into_iter().map(Needed::first).collect();
        let disks = Arc::new(place.disks(&needed, control)?);
        let mut all = Benches { place, options, control, disks, benches: Vec::new() };
        for (layout, groups) in options.layouts.iter().zip(&plan) {
            let name = layout.word();
            let (au_size, bytes) = (options.au_size, options.file_bytes);
            let table = scanned::tables(options, place.column());
            let plan = Plan { name, groups, au_size, bytes, table };
            let bench = Bench::new(place.env(), Arc::clone(&all.disks), &plan, control);
            match place.run(bench) {
                Ok(bench) => all.benches.push((*layout, bench)),
                Err(error) => {
                    // The first error is the one reported.
                    let _ = all.close();
                    return Err(error);
                }
            }
        }
        Ok(all)
    }

    fn close(self) -> Result<(), LabError> {
        let mut result = Ok(());
        for (_, bench) in self.benches {
            result = result.and(self.place.run(bench.close()));
        }
        result
    }

    /// Measures, then releases the disks in any case.
    fn rounds(self, arms: &[ArmSpec], depths: &[usize]) -> Result<Vec<Raw>, LabError> {
        let mut raw = Vec::new();
        let measured = (1..=self.options.rounds)
            .try_for_each(|round| self.round(round, arms, depths, &mut raw));
        let closed = self.close();
        measured.and(closed).map(|()| raw)
    }

    /// Every arm on every layout. Each round starts with another arm and, every other time, with
    /// the last layout, so that changes over time affect all alike.
    fn round(
        &self,
        round: u32,
        arms: &[ArmSpec],
        depths: &[usize],
        raw: &mut Vec<Raw>,
    ) -> Result<(), LabError> {
        let total = u64::from(self.options.rounds);
        let what = match self.place.column() {
            Column::Model => format!("rounds of {NAME} on the model"),
            Column::Here => format!("rounds of {NAME} here"),
        };
        let shift = (round as usize - 1) % arms.len().max(1);
        for arm in arms[shift..].iter().chain(&arms[..shift]) {
            for i in 0..self.benches.len() {
                let turned = round.is_multiple_of(2);
                let (layout, bench) =
                    &self.benches[if turned { self.benches.len() - 1 - i } else { i }];
                let load = (arm.load)(bench.disks_each(), bench.groups(), self.options);
                raw.push(self.row(round, *layout, arm.name, self.load(bench, load)?));
            }
        }
        if !depths.is_empty() {
            let deepest = self.deepest();
            for (layout, bench) in self.benches.iter().filter(|(l, _)| Some(*l) == deepest) {
                for depth in depths {
                    let load = Load::Scan { in_flight: depth * bench.disks_each() };
                    let sample = self.load(bench, load)?;
                    raw.push(self.row(round, *layout, &depth_name(*depth), sample));
                }
            }
            if let Some((layout, bench)) = self.benches.first() {
                for arm in ["a", "a'"] {
                    let load = Load::Scan { in_flight: SCAN_DEPTH };
                    raw.push(self.row(round, *layout, arm, self.load(bench, load)?));
                }
            }
            if self.place.column() == Column::Here {
                self.ceilings(round, raw)?;
            }
        }
        if total > 1 {
            self.control.tell(&what, u64::from(round), total);
        }
        Ok(())
    }

    fn load(&self, bench: &Bench, load: Load) -> Result<Sample, LabError> {
        self.control.check()?;
        self.place.before();
        self.place.run(bench.measure(load))
    }

    fn row(&self, round: u32, layout: Layout, arm: &str, sample: Sample) -> Raw {
        Raw { sample: Some(sample), ..self.blank(round, layout, arm) }
    }

    fn blank(&self, round: u32, layout: Layout, arm: &str) -> Raw {
        Raw {
            column: self.place.column(),
            round,
            layout: layout.name().to_owned(),
            arm: arm.to_owned(),
            sample: None,
            figures: BTreeMap::new(),
            notes: BTreeMap::new(),
        }
    }

    /// The layout for measuring queue depths: both disks if they are compared.
    fn deepest(&self) -> Option<Layout> {
        deepest(&self.options.layouts)
    }

    /// The rate of each disk alone, without a group, and of both together: by our own reads and by
    /// fio's if it is installed.
    fn ceilings(&self, round: u32, rows: &mut Vec<Raw>) -> Result<(), LabError> {
        let bytes = self.options.file_bytes;
        let needed = self.options.plan().1;
        let whole = |disk: usize| (disk, 0..bytes.min(needed[disk]) / STEP * STEP);
        let half = |disk: usize| (disk, 0..(bytes / 2).min(needed[disk]) / STEP * STEP);
        let mut sets = vec![("", Layout::One, vec![whole(0)])];
        if self.disks.len() > 1 {
            sets.push(("-b", Layout::One, vec![whole(1)]));
            sets.push(("", Layout::Two, vec![half(0), half(1)]));
        }
        for (suffix, layout, set) in sets {
            self.control.check()?;
            let devices = set
                .iter()
                .map(|(disk, range)| (Arc::clone(&self.disks[*disk].raw), range.clone()))
                .collect();
            self.place.before();
            let sample = self.place.run(raw(&self.place.env(), devices, SCAN_DEPTH))?;
            rows.push(self.row(round, layout, &format!("ceiling{suffix}"), sample));
            let paths: Vec<(&str, u64)> = set
                .iter()
                .map(|(disk, range)| (self.disks[*disk].path.as_str(), range.end))
                .collect();
            if let Some(rate) = ceiling::fio(&paths, SCAN_DEPTH) {
                let mut row = self.blank(round, layout, &format!("fio{suffix}"));
                row.figures.insert("bytes_per_second".to_owned(), rate);
                rows.push(row);
            }
        }
        Ok(())
    }
}

fn deepest(layouts: &[Layout]) -> Option<Layout> {
    layouts.iter().copied().find(|l| *l == Layout::Two).or(layouts.first().copied())
}

fn depth_name(depth: usize) -> String {
    format!("depth-{depth}")
}
