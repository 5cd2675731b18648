//! The measurement of `io-modes`: every load under every setting, on one scratch file.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use cellar_io::real::{
    Access, EngineChoice, OpenOptions, Runtime, RuntimeOptions, cached_pages, drop_cached_pages,
    open_disk, probe,
};
use cellar_io::{Device, EnvExt};

use super::answer::{Row, Way};
use super::kernel::{self, Counters};
use super::setting::{SETTINGS, Setting};
use super::strace::Strace;
use super::work::{self, Done, Rig, Target, Work};
use super::{Load, NAME, Options, group};
use crate::column::Column;
use crate::control::Control;
use crate::error::LabError;
use crate::place::scratch::{self, Scratch};
use crate::run::Raw;

/// A load of small writes ends after this long, however slow the disk is.
const LIMIT: Duration = Duration::from_secs(3);

/// The measurements.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// The device or file system of the file, for people.
    pub(super) words: String,
    pub(super) rows: Vec<Row>,
    /// How busy the machine was before.
    pub(super) load: Option<f64>,
    /// The reason why strace saw nothing, for people.
    pub(super) untraced: Option<String>,
}

/// Measures every setting on a scratch file in `dir`.
///
/// # Errors
/// An unusable option, a file that cannot be created or written; [`LabError::Stopped`].
pub fn measure(dir: &Path, options: &Options, control: &Control<'_>) -> Result<Measured, LabError> {
    options.check()?;
    let load = kernel::load_average();
    control.tell("writing two scratch files", 0, 1);
    let disk_bytes = group::disk_bytes(options.file_bytes);
    scratch::prepare(dir, options.file_bytes + disk_bytes)?;
    let file = written(dir, NAME, options.file_bytes)?;
    let disk = written(dir, "disk", disk_bytes)?;
    let bytes = options.file_bytes;
    let sector = with_runtime(disk.path(), |runtime| {
        let (device, _) = work::open(runtime, disk.path(), &SETTINGS[3])?;
        runtime.block_on(group::make(&runtime.env(), &device, bytes, &work::unit()))?;
        sector(runtime, file.path())
    })?;
    control.tell("writing two scratch files", 1, 1);
    let below = kernel::device_below(file.path());
    let bench = Bench {
        file: Target { path: file.path(), in_group: false, bytes },
        group: Target { path: disk.path(), in_group: true, bytes },
        stat: below.as_deref(),
    };
    let loads = options.loads(sector);
    let words = described(file.path(), options);
    let mut measured = Measured { words, load, ..Measured::default() };
    let all = u64::from(options.rounds) * (loads.len() * SETTINGS.len()) as u64;
    for round in 1..=options.rounds {
        for load in &loads {
            for i in 0..SETTINGS.len() {
                // Each round starts elsewhere, so that no setting always follows the same one.
                let setting = &SETTINGS[(i + 5 * round as usize) % SETTINGS.len()];
                control.check()?;
                let done = measured.rows.len() as u64;
                control.tell("writing under every setting", done, all);
                measured.rows.push(bench.measure(round, load, setting)?);
            }
        }
    }
    control.tell("writing under every setting", all, all);
    trace(&bench, dir, &loads, &mut measured, control)?;
    Ok(measured)
}

/// A fully written scratch file: holes would measure the file system.
fn written(dir: &Path, what: &str, bytes: u64) -> Result<Scratch, LabError> {
    let scratch = Scratch::new(dir, what, bytes)?;
    let unit = work::unit();
    let write = || {
        let file = std::fs::OpenOptions::new().write(true).open(scratch.path())?;
        for at in (0..bytes).step_by(unit.len()) {
            let part = &unit[..unit.len().min((bytes - at) as usize)];
            file.write_all_at(part, at)?;
        }
        file.sync_all()
    };
    match write() {
        Ok(()) => Ok(scratch),
        Err(source) => Err(LabError::Scratch { path: scratch.path().to_owned(), source }),
    }
}

/// The smallest legal direct write, in bytes.
fn sector(runtime: &Runtime, file: &Path) -> Result<u64, LabError> {
    let options = OpenOptions { access: Access::Direct, ..OpenOptions::default() };
    let disk = open_disk(runtime.real_env(), file, &options)?;
    Ok(u64::from(disk.geometry().logical_sector))
}

/// The device or file system of the file.
fn described(file: &Path, options: &Options) -> String {
    let place = file.parent().unwrap_or(file).display();
    let mut words = format!("a scratch file of {} MB in {place}", options.file_bytes >> 20);
    let Ok(facts) = probe(file, &[]) else { return words };
    if let Some(below) = &facts.below {
        words += &format!(", on {}", below.display());
    }
    if let (Some(logical), Some(physical)) = (facts.logical_sector, facts.physical_sector) {
        words += &format!(", sectors {logical}/{physical}");
    }
    match facts.write_cache {
        Some(true) => words + ", with a write cache: what is durable costs a flush",
        Some(false) => words + ", no write cache",
        None => words,
    }
}

/// Runs `work` with its own runtime, so that threads, rings and counters belong to it alone.
fn with_runtime<T: Send>(
    file: &Path,
    work: impl FnOnce(&Runtime) -> Result<T, LabError> + Send,
) -> Result<T, LabError> {
    let make = || {
        Runtime::new(&RuntimeOptions::default())
            .map_err(|source| LabError::Scratch { path: file.to_owned(), source })
    };
    // On a separate thread: the caller's may be driving a runtime already.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| work(&make()?));
        thread.join().unwrap_or(Err(LabError::Stopped))
    })
}

/// The result of a load with its system calls by name, or the reason why they are unknown.
type Seen = Result<(Done, BTreeMap<String, u64>), String>;

/// The target of the writes, and the counters of the device below it.
struct Bench<'a> {
    file: Target<'a>,
    group: Target<'a>,
    stat: Option<&'a Path>,
}

impl Bench<'_> {
    fn target(&self, load: &Load) -> &Target<'_> {
        if load.in_group { &self.group } else { &self.file }
    }

    /// One load under one setting, from a cold page cache.
    fn measure(&self, round: u32, load: &Load, setting: &Setting) -> Result<Row, LabError> {
        let target = self.target(load);
        let reserved = kernel::aio_reserved();
        with_runtime(target.path, |runtime| {
            let rig = prepared(runtime, target, setting)?;
            let before = Counters::now(self.stat);
            let done = run(runtime, &rig, load.work)?;
            let mut figures = Counters::now(self.stat).since(&before);
            if let Ok(pages) = cached_pages(target.path) {
                figures.insert("cached_pages".to_owned(), pages.cached as f64);
                figures.extend(pages.dirty.map(|n| ("dirty_pages".to_owned(), n as f64)));
            }
            if let (Some(before), Some(now)) = (reserved, kernel::aio_reserved()) {
                let added = now.saturating_sub(before);
                figures.insert("aio_reserved".to_owned(), added as f64);
            }
            figures.extend(timings(&done));
            let way = Way { engine: rig.effective.engine, direct: rig.effective.direct };
            let effective = rig.effective.to_string();
            let asynch = if way.engine == EngineChoice::Sync { "ASYNC_OFF" } else { "ASYNC_ON" };
            runtime.block_on(rig.close())?;
            let mark = if setting.again { "'" } else { "" };
            let notes = [("in force", effective), ("asynch_io", asynch.to_owned())];
            let raw = Raw {
                column: Column::Here,
                round,
                layout: setting.layout().to_owned(),
                arm: format!("{}-{}{mark}", load.name, setting.name),
                sample: None,
                figures,
                notes: notes.map(|(name, words)| (name.to_owned(), words)).into(),
            };
            Ok(Row { load: load.name.clone(), setting: *setting, way, raw })
        })
    }

    /// The system calls of a load by name. strace's output is in `dir` meanwhile.
    fn traced(
        &self,
        dir: &Path,
        load: &Load,
        work: Work,
        setting: &Setting,
    ) -> Result<Seen, LabError> {
        let target = self.target(load);
        with_runtime(target.path, |runtime| {
            let rig = prepared(runtime, target, setting)?;
            let seen = match Strace::attach(dir) {
                Ok(strace) => {
                    let done = run(runtime, &rig, work)?;
                    strace.detach().map(|calls| (done, calls))
                }
                Err(why) => Err(why),
            };
            runtime.block_on(rig.close())?;
            Ok(seen)
        })
    }
}

/// Opens the file and starts threads and rings; nothing of the file is in the page cache.
fn prepared(runtime: &Runtime, target: &Target<'_>, setting: &Setting) -> Result<Rig, LabError> {
    let rig = Rig::open(runtime, target, setting)?;
    run(runtime, &rig, Work::Batches(2))?;
    drop_cached_pages(target.path)
        .map_err(|source| LabError::Scratch { path: target.path.to_owned(), source })?;
    Ok(rig)
}

/// Runs in a task, where the disks are driven.
fn run(runtime: &Runtime, rig: &Rig, work: Work) -> Result<Done, LabError> {
    let rig = rig.clone();
    let task = runtime.env().run("lab", async move { rig.run(work, LIMIT).await });
    runtime.block_on(task).ok_or(LabError::Stopped)?
}

fn timings(done: &Done) -> [(String, f64); 6] {
    [
        ("writes", done.writes as f64),
        ("bytes", done.bytes as f64),
        ("sent_ns", done.sent_ns as f64),
        ("durable_ns", done.durable_ns as f64),
        ("p50_ns", done.percentile(50) as f64),
        ("p99_ns", done.percentile(99) as f64),
    ]
    .map(|(name, figure)| (name.to_owned(), figure))
}

/// Repeats each load once with strace, and adds the result to the rows of the first round.
fn trace(
    bench: &Bench<'_>,
    dir: &Path,
    loads: &[Load],
    measured: &mut Measured,
    control: &Control<'_>,
) -> Result<(), LabError> {
    let settings: Vec<&Setting> = SETTINGS.iter().filter(|s| !s.again).collect();
    let all = (loads.iter().filter(|l| l.traced.is_some()).count() * settings.len()) as u64;
    let mut seen = 0;
    for load in loads {
        let Some(work) = load.traced else { continue };
        for setting in &settings {
            control.tell("looking with strace", seen, all);
            seen += 1;
            control.check()?;
            let (done, calls) = match bench.traced(dir, load, work, setting)? {
                Ok(seen) => seen,
                Err(why) => {
                    measured.untraced = Some(why);
                    return Ok(());
                }
            };
            let mut rows = measured.rows.iter_mut();
            let row = rows.find(|row| row.load == load.name && row.setting == **setting);
            if let Some(Row { raw: row, .. }) = row {
                row.figures.insert("strace_writes".to_owned(), done.writes as f64);
                let calls = calls.into_iter().map(|(name, n)| (format!("strace_{name}"), n as f64));
                row.figures.extend(calls);
            }
        }
    }
    control.tell("looking with strace", all, all);
    Ok(())
}
