//! Storage on simulated disks, with a host that writes down what it is told. Its directory is a real one.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use cellar_diskgroup::Redundancy;
use cellar_io::sched::{ScheduleOptions, Scheduled};
use cellar_io::sim::{Sim, SimDisk, SimDiskOptions};
use cellar_io::{Device, SharedEnv};
use cellar_storage::disks::{Below, Disks, EffectiveModes, OpenDisk, PatternMatches};
use cellar_storage::redo::Redo;
use cellar_storage::request::{DiskRequest, GroupRequest};
use cellar_storage::settings::{DISK_STRING, LOG_BUFFER};
use cellar_storage::{
    Background, Error, Host, InitDisk, InitSpec, Mounted, OpenMode, OpenStorage, Settings, Storage,
    Surroundings, init,
};
use cellar_wait::{Kind, Session, Waits};

struct SimDisks {
    env: SharedEnv,
    all: BTreeMap<PathBuf, Arc<SimDisk>>,
}

impl Disks for SimDisks {
    fn open(&self, path: &Path, _write: bool) -> Result<OpenDisk, Error> {
        let disk = self.all.get(path).ok_or_else(|| Error::new(15025, "no such disk"))?;
        let disk = Arc::clone(disk) as Arc<dyn Device>;
        let options = ScheduleOptions::default();
        let scheduled = Scheduled::new(disk, Arc::clone(&self.env), options, None);
        Ok(OpenDisk {
            path: path.to_owned(),
            scheduled: Arc::new(scheduled),
            in_force: EffectiveModes { engine: "sync".into(), direct: true, remarks: Vec::new() },
            below: Below::default(),
        })
    }

    fn check_free(&self, _path: &Path, _erase: Option<&str>) -> Result<(), Error> {
        Ok(())
    }

    fn find(&self, patterns: &[String]) -> PatternMatches {
        let matches = |path: &Path, pattern: &str| match pattern.strip_suffix("/*") {
            Some(folder) => path.parent() == Some(Path::new(folder)),
            None => path == Path::new(pattern),
        };
        let found = self.all.keys().filter(|path| patterns.iter().any(|p| matches(path, p)));
        PatternMatches { paths: found.cloned().collect(), problems: Vec::new() }
    }
}

/// Parameters that only know disk_string, and the host that they are of.
#[derive(Default)]
pub struct Above {
    disk_string: Mutex<Vec<String>>,
    waits: Waits,
    /// What it was told, in order.
    pub told: Mutex<Vec<String>>,
}

impl Settings for Above {
    fn integer(&self, name: &'static str) -> u64 {
        if name == LOG_BUFFER { 16 << 20 } else { 10 }
    }

    fn flag(&self, _name: &'static str) -> bool {
        true
    }

    fn choice(&self, _name: &'static str) -> &'static str {
        "auto"
    }

    fn text(&self, _name: &'static str) -> String {
        String::new()
    }

    fn list(&self, name: &'static str) -> Vec<String> {
        match name {
            DISK_STRING => self.disk_string.lock().unwrap().clone(),
            _ => Vec::new(),
        }
    }

    fn set_list(&self, name: &'static str, parts: Vec<String>) -> Result<(), Error> {
        assert_eq!(name, DISK_STRING);
        *self.disk_string.lock().unwrap() = parts;
        Ok(())
    }
}

impl Above {
    fn hears(&self, what: &str, name: &str) {
        self.told.lock().unwrap().push(format!("{what} {name}"));
    }
}

impl Host for Above {
    fn background(&self, program: &str) -> Background {
        Background::new(self.session(program), Box::new(()))
    }

    fn checksum_bytes(&self) -> u64 {
        1 << 20
    }

    fn mounted(&self, name: &str, mounted: &Mounted) {
        self.hears(&format!("mounted {}", mounted.number), name);
    }

    fn release(&self, name: &str) {
        self.hears("let go", name);
    }

    fn gone(&self, name: &str) {
        self.hears("gone", name);
    }
}

impl Above {
    pub fn session(&self, program: &str) -> Session {
        self.waits.session(program, Kind::Background)
    }
}

pub struct Machine {
    pub sim: Sim,
    pub above: Arc<Above>,
    disks: Arc<SimDisks>,
    directory: tempfile::TempDir,
}

impl Machine {
    /// A machine with three disks in the directory, and two elsewhere.
    pub fn new(seed: u64) -> Machine {
        let directory = tempfile::tempdir().unwrap();
        let sim = Sim::new(seed);
        let own = (0..3).map(|i| directory.path().join(format!("disks/data{i}")));
        let more = (0..2).map(|i| PathBuf::from(format!("/sim/more{i}")));
        let options = || SimDiskOptions { size: 64 << 20, ..SimDiskOptions::default() };
        let disk = |path: PathBuf| (path.clone(), sim.disk(&path.to_string_lossy(), options()));
        let all = own.chain(more).map(disk).collect();
        let disks = Arc::new(SimDisks { env: sim.env(), all });
        Machine { sim, above: Arc::default(), disks, directory }
    }

    fn opening(&self, mode: OpenMode) -> OpenStorage {
        let around = Surroundings {
            env: self.sim.env(),
            disks: Arc::clone(&self.disks) as Arc<dyn Disks>,
            settings: Arc::clone(&self.above) as Arc<dyn Settings>,
            host: Arc::clone(&self.above) as Arc<dyn Host>,
        };
        let directory = self.directory.path().to_owned();
        OpenStorage { around, directory, mode, redo: Redo::default() }
    }

    /// Group DATA on the disks in the directory.
    pub async fn init(&self) -> Storage {
        let own = self.disks.all.keys().filter(|p| p.starts_with(self.directory.path()));
        let spec = InitSpec {
            name: "DATA".into(),
            redundancy: Redundancy::Normal,
            au_size: 1 << 20,
            sector_size: None,
            disks: own.map(|path| InitDisk::Path(path.clone())).collect(),
            failgroups: Vec::new(),
            erase: BTreeMap::new(),
        };
        init(self.opening(OpenMode::default()), &spec, &|_, _| ()).await.unwrap()
    }

    pub async fn open(&self, read_only: bool) -> Storage {
        let mode = OpenMode { read_only, force: false };
        Storage::open(self.opening(mode), None).await.unwrap()
    }

    /// CREATE DISKGROUP more.
    pub fn more(&self) -> GroupRequest {
        let disk = |path: &PathBuf| DiskRequest {
            path: path.to_string_lossy().into_owned(),
            name: None,
            failgroup: None,
            size: None,
            force: false,
            erase: None,
        };
        GroupRequest {
            name: "more".into(),
            redundancy: Redundancy::Normal,
            attributes: BTreeMap::from([("au_size".into(), "1M".into())]),
            disks: self.disks.all.keys().filter(|p| p.starts_with("/sim")).map(disk).collect(),
        }
    }

    /// What disk_string has now.
    pub fn disk_string(&self) -> Vec<String> {
        self.above.list(DISK_STRING)
    }

    /// What the host was told since the last time.
    pub fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.above.told.lock().unwrap())
    }

    /// Runs what is not cut off.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.sim.run(future).expect("nothing cuts it off")
    }
}
