//! `smart-scan`: how much does offload to the cell save?
//!
//! A table like lineitem in a mirrored group, and five queries on it. Each is run with offload, so
//! that the cell answers it, and without, so that the cell returns all rows of the columns and the caller
//! filters and sums them; each cold, from disks, and warm, from the cell's memory. All four answers
//! must be the same.

mod answer;
mod figure;
mod options;
mod words;

use std::collections::BTreeMap;
use std::sync::Arc;

use cellar_cell::Cache;
use cellar_diskgroup::{Group, Redundancy};

pub use self::answer::report;
pub use self::options::Options;
use crate::column::Column;
use crate::control::Control;
use crate::counters::DeviceUse;
use crate::error::LabError;
use crate::experiment::{Experiment, OptionSpec, Request};
use crate::group::mounted;
use crate::place::part::Part;
use crate::place::{Disk, Model, Needed, Place, Sharing};
use crate::preset::Preset;
use crate::run::{Raw, Run};
use crate::sample::Sample;
use crate::table_scan::ask::{Cell, QueryRun};
use crate::table_scan::consume::Answer;
use crate::table_scan::question::Question;
use crate::table_scan::table::Table;
use crate::table_scan::{question, scanner, table};

/// The name of the experiment.
pub const NAME: &str = "smart-scan";
const QUESTION: &str = "How much does offload to the cell save?";

/// Reads in flight for each disk, as in a cell.
const SCAN_DEPTH: usize = 32;

/// `smart-scan` for the command line.
pub struct SmartScan;

impl Experiment for SmartScan {
    fn name(&self) -> &'static str {
        NAME
    }

    fn question(&self) -> &'static str {
        QUESTION
    }

    fn examples(&self) -> &'static str {
        "  cellar lab run smart-scan                    a model of 2012, in seconds
  cellar lab run smart-scan --order none       rows in no order of their dates
  cellar lab run smart-scan --dir /srv         scratch files, beside it
  cellar lab run smart-scan --disks /dev/disk/by-id/A,/dev/disk/by-id/B --size 1G"
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
            if disks.len() < options.width {
                return Err(LabError::Few { given: disks.len(), needed: options.width });
            }
            for (disk, slot) in disks.iter().zip(options.slots()) {
                disk.holds(slot.size)?;
            }
            Here::disks(request.runtime, disks.to_vec())
        }
    };
    measure(&place, options, &request.control).map(Some)
}

/// A way of running a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    offload: bool,
    /// Whether the data for the query is in the cell's memory.
    warm: bool,
}

const WAYS: [Way; 4] = [
    Way { offload: true, warm: false },
    Way { offload: false, warm: false },
    Way { offload: true, warm: true },
    Way { offload: false, warm: true },
];

impl Way {
    /// The layout of its figures: with offload or without.
    fn layout(self) -> &'static str {
        if self.offload { "on" } else { "off" }
    }

    fn warmth(self) -> &'static str {
        if self.warm { "warm" } else { "cold" }
    }

    /// The name of the arm of a query.
    fn arm(self, question: &str) -> String {
        format!("{question}-{}", self.warmth())
    }

    fn words(self) -> String {
        format!("{} {}", self.layout(), self.warmth())
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
    /// What the model omits.
    limits: Option<&'static str>,
    workers: usize,
    rows: u64,
    row_groups: u64,
    /// Bytes of the table's file.
    bytes: u64,
    raw: Vec<Raw>,
}

/// Measures on simulated disks like [`Options::preset`], in virtual time. A table beyond 64 MiB is
/// limited to that; one round is enough.
///
/// # Errors
/// As [`measure`].
pub fn model(options: &Options, control: &Control<'_>) -> Result<Measured, LabError> {
    options.check()?;
    let preset: Preset = options.preset;
    let table_bytes = options.table_bytes.min(options::MODEL_BYTES);
    let options = Options { rounds: 1, table_bytes, ..options.clone() };
    let mut measured = measure(&Model::seeded(preset, options.seed), &options, control)?;
    measured.limits = Some(preset.limits);
    Ok(measured)
}

/// Runs every query in every way, on a table on the disks of `place`.
///
/// # Errors
/// An unusable option, disks that are unavailable or fail, answers that differ.
pub fn measure<P: Place>(
    place: &P,
    options: &Options,
    control: &Control<'_>,
) -> Result<Measured, LabError> {
    options.check()?;
    let slots = options.slots();
    let needed: Vec<Needed> = slots.iter().map(|slot| Needed::first(slot.size)).collect();
    let disks = place.disks(&needed, control)?;
    let part = |(disk, slot): (&Disk, &crate::load::Slot)| {
        let name = format!("{}#scan", disk.path);
        Arc::new(Part::new(Arc::clone(&disk.device), &name, slot.start, slot.size))
    };
    let parts: Vec<Arc<Part>> = disks.iter().zip(&slots).map(part).collect();
    let redundancy = match options.width {
        1 => Redundancy::External,
        _ => Redundancy::Normal,
    };
    let env = place.env();
    let group = place.run(mounted(&env, &parts, options::AU_SIZE, redundancy));
    let (measured, mut closed) = match group {
        Ok(group) => {
            let measured = with_table(place, options, control, &disks, &group);
            (measured, place.run(group.dismount()).map_err(LabError::from))
        }
        Err(error) => (Err(error), Ok(())),
    };
    for part in &parts {
        closed = closed.and(place.run(part.wipe()).map_err(LabError::from));
    }
    // The first error is the one reported; the disks are released in any case.
    let measured = measured?;
    closed.map(|()| measured)
}

/// Creates the table, and runs the queries.
fn with_table<P: Place>(
    place: &P,
    options: &Options,
    control: &Control<'_>,
    disks: &[Disk],
    group: &Group,
) -> Result<Measured, LabError> {
    let env = place.env();
    let what = match place.column() {
        Column::Model => format!("row groups of {NAME} on the model"),
        Column::Here => format!("row groups of {NAME} here"),
    };
    let table: Table = place.run(table::make(&env, group, &options.spec(), &what, control))?;
    let workers = scanner::workers(place.column());
    let cell = Cell {
        env,
        segment: Arc::clone(&table.segment),
        // Space for the whole table, even if unevenly divided.
        cache: Cache::new(4 * table.bytes + (64 << 20)),
        depth: SCAN_DEPTH * options.width,
        workers,
        stop: control.flag(),
    };
    let questions = question::all().into_iter().map(Arc::new).collect();
    let (raw, answers, warm) = (Vec::new(), Answers::default(), None);
    let mut rig = Rig { place, options, control, disks, cell, questions, raw, answers, warm };
    for round in 1..=options.rounds {
        rig.round(round)?;
    }
    Ok(Measured {
        column: place.column(),
        words: place.words(),
        kind: place.kind(),
        caches: place.caches(),
        sharing: place.sharing(),
        limits: None,
        workers,
        rows: table.rows,
        row_groups: table.row_groups,
        bytes: table.bytes,
        raw: rig.raw,
    })
}

/// A cell that runs one query after another.
struct Rig<'a, P> {
    place: &'a P,
    options: &'a Options,
    control: &'a Control<'a>,
    disks: &'a [Disk],
    cell: Cell,
    questions: Vec<Arc<Question>>,
    raw: Vec<Raw>,
    answers: Answers,
    /// The query whose columns are all in the cell's memory.
    warm: Option<&'static str>,
}

impl<P: Place> Rig<'_, P> {
    /// Every query in every way. Each round starts with the next of both, so that changes over
    /// time affect all alike.
    fn round(&mut self, round: u32) -> Result<(), LabError> {
        let what = match self.place.column() {
            Column::Model => format!("questions of {NAME} on the model"),
            Column::Here => format!("questions of {NAME} here"),
        };
        let count = self.questions.len();
        let total = count as u64 * u64::from(self.options.rounds);
        let before = count as u64 * u64::from(round - 1);
        for at in 0..count {
            let question = Arc::clone(&self.questions[(at + round as usize - 1) % count]);
            for way in 0..WAYS.len() {
                let way = WAYS[(way + round as usize - 1) % WAYS.len()];
                self.ask(round, &question, way, &way.arm(question.name))?;
            }
            self.control.tell(&what, before + at as u64 + 1, total);
        }
        // An A/A pair: the same work at different times, which neither the storage index nor
        // headers shorten.
        if let Some(flags) = self.questions.iter().find(|q| q.name == question::FLAGS).cloned() {
            for arm in ["a", "a'"] {
                self.ask(round, &flags, WAYS[0], arm)?;
            }
        }
        Ok(())
    }

    fn ask(
        &mut self,
        round: u32,
        question: &Arc<Question>,
        way: Way,
        arm: &str,
    ) -> Result<(), LabError> {
        self.control.check()?;
        if !way.warm {
            self.cell.cache.clear();
            self.warm = None;
            self.place.before();
        } else if self.warm != Some(question.name) {
            // A run that returned all rows has read everything that either way needs.
            self.run(question, false)?;
            self.warm = Some(question.name);
        }
        let used: Vec<&str> = self.disks.iter().filter_map(|d| d.block.as_deref()).collect();
        let counters = || used.iter().filter_map(|n| DeviceUse::now(n)).collect::<Vec<_>>();
        self.disks.iter().for_each(|disk| drop(disk.meter.take()));
        let before = counters();
        let asked = self.run(question, way.offload)?;
        let devices = counters().iter().zip(&before).map(|(now, old)| now.since(old)).collect();
        let disks = self.disks.iter().map(|disk| disk.meter.take()).collect();
        let sample = Sample { disks, devices, ..sample_of(&asked) };
        let who = format!("{arm}, offload {}", way.layout());
        self.answers.agree(question, who, &asked.answer)?;
        if !way.offload && !way.warm {
            self.warm = Some(question.name);
        }
        self.raw.push(Raw {
            column: self.place.column(),
            round,
            layout: way.layout().to_owned(),
            arm: arm.to_owned(),
            sample: Some(sample),
            figures: figure::all(&asked, way.offload),
            notes: [("answer".to_owned(), asked.answer.words())].into(),
        });
        Ok(())
    }

    fn run(&self, question: &Arc<Question>, offload: bool) -> Result<QueryRun, LabError> {
        self.place.run(self.cell.ask(question, offload))
    }
}

/// The first answer to each query, and its way.
#[derive(Default)]
struct Answers(BTreeMap<&'static str, (String, Answer)>);

impl Answers {
    /// Whether this equals the answer of all others.
    fn agree(&mut self, question: &Question, who: String, answer: &Answer) -> Result<(), LabError> {
        let first = self.0.entry(question.name);
        let (base, expected) = first.or_insert_with(|| (who.clone(), answer.clone()));
        if expected == answer {
            return Ok(());
        }
        Err(LabError::Disagree {
            question: question.what,
            arm: who,
            found: answer.words(),
            base: base.clone(),
            expected: expected.words(),
        })
    }
}

fn sample_of(asked: &QueryRun) -> Sample {
    let totals = &asked.totals;
    let (bytes, reads) = (totals.disk_bytes, totals.reads);
    Sample { bytes, reads, nanos: asked.nanos, waited_ns: asked.wait_nanos, ..Sample::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table_scan::consume::Consumer;

    #[test]
    fn another_answer_is_no_measurement() {
        let mut answers = Answers::default();
        let [total, count, ..] = &question::all()[..] else { panic!("five of them") };
        let none = Consumer::new(Arc::new(total.clone()), total.best(), true);
        let sum = Consumer::finish(vec![none]);
        assert_eq!(sum.words(), "(0)", "a sum of nothing is of one group all the same");
        answers.agree(total, "total-cold, offload on".to_owned(), &sum).unwrap();
        answers.agree(total, "total-cold, offload off".to_owned(), &sum).unwrap();
        answers.agree(count, "count-cold, offload on".to_owned(), &Answer::default()).unwrap();
        let who = "total-warm, offload off".to_owned();
        let error = answers.agree(total, who, &Answer::default()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("arms disagree: to \"total of a year\" total-warm, offload off"));
        assert!(text.contains("answers (), total-cold, offload on (0): not a"), "{text}");
    }
}
