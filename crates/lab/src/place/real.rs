//! Disks of this machine: scratch files in a directory, or disks given by the user. With direct
//! I/O.

use std::any::Any;
use std::future::Future;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use cellar_io::real::{Access, OpenOptions, Runtime, open_disk};
use cellar_io::shape::{ShapeOptions, Shaped};
use cellar_io::{Buffer, Device, DeviceExt, Durability, EnvExt, Io, SharedEnv};
use futures_util::StreamExt;

use super::given::Given;
use super::scratch::{self, Scratch};
use super::{Disk, Needed, Place, Sharing};
use crate::column::Column;
use crate::content::noise;
use crate::control::Control;
use crate::counters::DeviceUse;
use crate::error::LabError;

/// The time for which disks are watched before a run: other users of them are reported.
const IDLE_FOR: Duration = Duration::from_millis(300);

/// Disks of this machine.
pub struct Here<'a> {
    runtime: &'a Runtime,
    source: Source,
    /// Models put in front of the disks, in order; further disks get the last.
    shapes: Vec<Option<ShapeOptions>>,
    /// The logical sector, if the disk supports it; else its own.
    sector: u32,
    seen: Mutex<Seen>,
    buffered: AtomicBool,
}

enum Source {
    /// Scratch files below a directory, removed afterwards.
    Dir(PathBuf),
    Disks(Vec<Given>),
}

/// Facts found when the disks were opened.
#[derive(Default)]
struct Seen {
    disks: Vec<Given>,
    effective: Vec<String>,
    busy: Vec<String>,
}

impl Seen {
    fn sharing(&self) -> Sharing {
        match &self.disks[..] {
            [one, two, ..] if one.bottom.is_some() && one.bottom == two.bottom => {
                Sharing::Device(one.bottom.clone().unwrap_or_default())
            }
            _ => Sharing::Apart,
        }
    }
}

impl<'a> Here<'a> {
    /// Scratch files below `dir`. With `shape`, a model is put in front of each: it determines the speed if it is
    /// the slower of the two.
    pub fn files(runtime: &'a Runtime, dir: &Path, shape: Option<ShapeOptions>) -> Here<'a> {
        Here::new(runtime, Source::Dir(dir.to_owned())).shaped(shape)
    }

    /// Disks that passed [`check`](super::given::check). Their contents are lost.
    pub fn disks(runtime: &'a Runtime, disks: Vec<Given>) -> Here<'a> {
        Here::new(runtime, Source::Disks(disks))
    }

    fn new(runtime: &'a Runtime, source: Source) -> Here<'a> {
        // Groups of the lab have 4096-byte sectors; any disk accepts that.
        let (shapes, sector) = (Vec::new(), 4096);
        let (seen, buffered) = (Mutex::default(), AtomicBool::new(false));
        Here { runtime, source, shapes, sector, seen, buffered }
    }

    /// Puts a model in front of each disk.
    pub fn shaped(self, shape: Option<ShapeOptions>) -> Here<'a> {
        self.shaped_each(vec![shape])
    }

    /// Puts a model in front of each disk that has one; the remaining disks get the last.
    pub fn shaped_each(self, shapes: Vec<Option<ShapeOptions>>) -> Here<'a> {
        Here { shapes, ..self }
    }

    /// Sets the logical sectors to this many bytes (512 or 4096); a disk with larger ones keeps them.
    pub fn sectors(self, sector: u32) -> Here<'a> {
        Here { sector, ..self }
    }

    fn shape(&self, disk: usize) -> Option<ShapeOptions> {
        self.shapes.get(disk).or(self.shapes.last()).copied().flatten()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn open(
        &self,
        number: usize,
        path: &Path,
        bytes: u64,
        keep: Option<Box<dyn Any + Send + Sync>>,
    ) -> Result<Disk, LabError> {
        let env = self.env();
        let options = OpenOptions { access: Access::Direct, lock: true, ..OpenOptions::default() };
        let given = Given::look(path)?;
        let sector = self.sector.max(given.facts.logical_sector.unwrap_or(0).min(4096));
        let options = OpenOptions { sector: Some(sector), ..options };
        let disk = open_disk(self.runtime.real_env(), path, &options)?;
        let effective = disk.effective();
        self.buffered.fetch_or(!effective.direct, Ordering::Relaxed);
        let block = given.block.clone();
        let size = disk.geometry().size;
        if size < bytes {
            let path = path.to_owned();
            return Err(LabError::Small { path, size, needed: bytes });
        }
        let mut seen = self.seen();
        seen.effective.push(effective.to_string());
        seen.disks.push(given);
        drop(seen);
        let device: Arc<dyn Device> = match self.shape(number) {
            None => disk,
            Some(shape) => Arc::new(Shaped::new(disk, Arc::clone(&env), shape)),
        };
        Ok(Disk::new(path.display().to_string(), device, &env, block, keep))
    }

    /// Other current users of the disks.
    fn watch(&self, disks: &[Disk]) {
        let names: Vec<&str> = disks.iter().filter_map(|d| d.block.as_deref()).collect();
        let now = || names.iter().filter_map(|n| DeviceUse::now(n)).collect::<Vec<_>>();
        let before = now();
        self.run(self.env().sleep(IDLE_FOR));
        let mut busy: Vec<String> = now()
            .iter()
            .zip(&before)
            .map(|(now, before)| now.since(before))
            .filter(|used| used.reads + used.writes > 0)
            .map(|used| format!("{}: {} reads, {} writes", used.name, used.reads, used.writes))
            .collect();
        busy.sort();
        busy.dedup();
        self.seen().busy = busy;
    }
}

/// Writes all of a range: reading unwritten data measures nothing.
async fn pre_write(disk: &Disk, range: Range<u64>, control: &Control<'_>) -> Result<(), LabError> {
    const STEP: usize = 1 << 20;
    let noise = noise(STEP);
    let data = Buffer::copy_of(&noise, STEP).freeze();
    let write = |at: u64| {
        let length = (range.end - at).min(STEP as u64) as usize;
        disk.raw.write_at(Io::SCAN, at, data.slice(..length), Durability::Cached)
    };
    let bytes = range.end - range.start;
    let writes = range.clone().step_by(STEP).map(write);
    let mut writes = futures_util::stream::iter(writes).buffer_unordered(16);
    let mut done = 0;
    while let Some(written) = writes.next().await {
        written?;
        control.check()?;
        done += STEP as u64;
        control.tell(&format!("{} pre-written", disk.path), done.min(bytes), bytes);
    }
    Ok(disk.raw.flush(Io::COMMIT).await?)
}

impl Place for Here<'_> {
    fn env(&self) -> SharedEnv {
        self.runtime.env()
    }

    fn size(&self) -> Option<u64> {
        match &self.source {
            Source::Dir(_) => None,
            Source::Disks(disks) => disks.iter().map(Given::size).min(),
        }
    }

    fn disks(&self, needed: &[Needed], control: &Control<'_>) -> Result<Vec<Disk>, LabError> {
        *self.seen() = Seen::default();
        let mut made = Vec::new();
        if let Source::Dir(dir) = &self.source {
            scratch::prepare(dir, needed.iter().map(|needed| needed.bytes).sum())?;
        }
        for (i, Needed { bytes, .. }) in needed.iter().enumerate() {
            made.push(match &self.source {
                Source::Dir(dir) => {
                    let scratch = Scratch::new(dir, &i.to_string(), *bytes)?;
                    let path = scratch.path().to_owned();
                    self.open(i, &path, *bytes, Some(Box::new(scratch)))?
                }
                Source::Disks(disks) => {
                    let Some(disk) = disks.get(i) else {
                        return Err(LabError::Few { given: disks.len(), needed: i + 1 });
                    };
                    self.open(i, &disk.path, *bytes, None)?
                }
            });
        }
        self.watch(&made);
        for (disk, needed) in made.iter().zip(needed) {
            for used in &needed.used {
                self.run(pre_write(disk, used.clone(), control))?;
            }
        }
        Ok(made)
    }

    fn run<F: Future>(&self, future: F) -> F::Output {
        self.runtime.block_on(future)
    }

    fn column(&self) -> Column {
        Column::Here
    }

    fn words(&self) -> String {
        let seen = self.seen();
        let what = match &self.source {
            Source::Dir(dir) => {
                let on = seen.disks.first().and_then(|d| d.bottom.clone());
                let on = on.map_or_else(String::new, |name| format!(" on {name}"));
                format!("scratch files in {}{on}", dir.display())
            }
            Source::Disks(_) => {
                let names = seen.disks.iter().map(|d| d.path.display().to_string());
                names.collect::<Vec<_>>().join(", ")
            }
        };
        let known = |f: Option<u32>| f.map_or("?".to_owned(), |n| n.to_string());
        let mut each: Vec<String> = seen
            .disks
            .iter()
            .map(|disk| {
                let facts = &disk.facts;
                let sectors =
                    format!("{}/{}", known(facts.logical_sector), known(facts.physical_sector));
                format!("sectors {sectors}, queue {}", known(facts.queue_depth))
            })
            .collect();
        // For identical disks it is stated once.
        if each.windows(2).all(|pair| pair[0] == pair[1]) {
            each.truncate(1);
        }
        let first = (!each.is_empty()).then(|| format!("; {}", each.join(" and ")));
        let mut effective = seen.effective.clone();
        effective.dedup();
        let effective = effective.join("; ");
        let shape =
            if self.shapes.iter().any(Option::is_some) { "; slowed to a model" } else { "" };
        let idle = match seen.busy.is_empty() {
            true => "idle before the run".to_owned(),
            false => format!("NOT idle in the 0.3 s before the run ({})", seen.busy.join("; ")),
        };
        let sharing = match seen.sharing() {
            Sharing::Apart => String::new(),
            Sharing::Device(name) => {
                format!(". Both are on one device, {name}: they cannot be twice as fast as one")
            }
        };
        let in_memory = match &self.source {
            Source::Dir(dir) => cellar_io::real::in_memory(dir),
            Source::Disks(_) => None,
        };
        let in_memory = in_memory.map_or(String::new(), |kind| {
            format!(". NOTHING THERE IS DURABLE: {kind} is memory, and its figures are of memory")
        });
        format!(
            "{what}{}, {effective}{shape}, {idle}{sharing}{in_memory}",
            first.unwrap_or_default()
        )
    }

    fn nominal(&self) -> u64 {
        let seen = self.seen();
        let link = seen.disks.first().and_then(Given::link);
        self.shape(0).map_or(link.unwrap_or(0), |s| s.bytes_per_second)
    }

    fn sharing(&self) -> Sharing {
        let seen = self.seen();
        match (seen.sharing(), &self.source) {
            // Files of one directory share the underlying device, whether or not it is known.
            (Sharing::Apart, Source::Dir(dir)) if seen.disks.len() > 1 => {
                Sharing::Device(dir.display().to_string())
            }
            (sharing, _) => sharing,
        }
    }

    fn queue(&self) -> Option<u32> {
        let seen = self.seen();
        seen.disks.first().and_then(|d| d.facts.queue_depth)
    }

    fn request_max(&self) -> Option<u64> {
        let seen = self.seen();
        seen.disks.first().and_then(|d| d.facts.transfer_max)
    }

    fn kind(&self) -> &'static str {
        match self.source {
            Source::Dir(_) => "scratch files",
            Source::Disks(_) => "disks",
        }
    }

    fn caches(&self) -> &'static str {
        match (self.buffered.load(Ordering::Relaxed), may_drop()) {
            (false, _) => {
                "page cache bypassed (O_DIRECT), checksums in RAM; caches of the device or of a \
                 host below it are not known"
            }
            (true, true) => {
                "page cache (O_DIRECT is refused here), asked to be dropped before each load; a \
                 file system in memory has nothing else, and its figures are of memory"
            }
            (true, false) => "page cache, NOT dropped: that takes root. Figures are of memory",
        }
    }

    fn before(&self) {
        if self.buffered.load(Ordering::Relaxed) && may_drop() {
            // Permission was just checked; a later failure shows up as memory-speed figures.
            let _ = std::fs::write(DROP_CACHES, "3");
        }
    }
}

const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

fn may_drop() -> bool {
    std::fs::OpenOptions::new().write(true).open(DROP_CACHES).is_ok()
}
