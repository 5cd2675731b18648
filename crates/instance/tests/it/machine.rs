//! A database on simulated disks that can lose power. Its directory is a real one.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cellar_diskgroup::{File, Redundancy};
use cellar_instance::catalog::{Segment, Table};
use cellar_instance::database::init;
use cellar_instance::directory::Directory;
use cellar_instance::tables::{SegmentFigures, TABLES_DIR};
use cellar_instance::{Database, Error, Instance};
use cellar_io::sched::{ScheduleOptions, Scheduled};
use cellar_io::sim::{Sim, SimDisk, SimDiskOptions};
use cellar_io::{Device, DeviceExt, Durability, Io, SharedEnv};
use cellar_storage::OpenMode;
use cellar_storage::disks::{Below, Disks, EffectiveModes, OpenDisk, PatternMatches};
use cellar_storage::request::{DiskRequest, GroupRequest};
use cellar_storage::{InitDisk, InitSpec};
use cellar_wait::Waits;

/// Bytes of a segment in these tests: not a whole number of blocks.
pub const BYTES: u64 = 100_001;

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

pub struct Machine {
    pub sim: Sim,
    directory: Directory,
    disks: Arc<SimDisks>,
    _parent: tempfile::TempDir,
}

impl Machine {
    /// A machine with a database, closed: group DATA with the catalog, and MORE.
    pub fn new(seed: u64) -> Machine {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::create(&parent.path().join("db")).unwrap();
        let sim = Sim::new(seed);
        let data = (0..3).map(|i| directory.path().join(format!("disks/data{i}")));
        let more = (0..2).map(|i| PathBuf::from(format!("/sim/more{i}")));
        let options = || SimDiskOptions { size: 64 << 20, ..SimDiskOptions::default() };
        let disk = |path: PathBuf| (path.clone(), sim.disk(&path.to_string_lossy(), options()));
        let all = data.chain(more).map(disk).collect();
        let disks = Arc::new(SimDisks { env: sim.env(), all });
        let machine = Machine { sim, directory, disks, _parent: parent };
        machine.run(async {
            let database = machine.init().await;
            database.storage().groups().create(&machine.more()).await.unwrap();
            database.close().await.unwrap();
        });
        machine
    }

    async fn init(&self) -> Database {
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
        let disks = Arc::clone(&self.disks) as Arc<dyn Disks>;
        init(self.instance(), self.directory.clone(), disks, &spec, &|_, _| ()).await.unwrap()
    }

    /// CREATE DISKGROUP more.
    fn more(&self) -> GroupRequest {
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

    fn instance(&self) -> Arc<Instance> {
        Arc::new(Instance::open(self.sim.env(), Waits::new(), &self.directory).unwrap())
    }

    /// A disk of DATA, from 0.
    pub fn data_disk(&self, at: usize) -> &Arc<SimDisk> {
        let path = self.directory.path().join(format!("disks/data{at}"));
        &self.disks.all[&path]
    }

    /// A disk of MORE, from 0.
    pub fn more_disk(&self, at: usize) -> &Arc<SimDisk> {
        &self.disks.all[Path::new(&format!("/sim/more{at}"))]
    }

    pub async fn open_as(&self, mode: OpenMode) -> Database {
        let disks = Arc::clone(&self.disks) as Arc<dyn Disks>;
        Database::open(self.instance(), self.directory.clone(), disks, mode).await.unwrap()
    }

    pub async fn open(&self) -> Database {
        self.open_as(OpenMode::default()).await
    }

    /// Runs what is not cut off.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.sim.run(future).expect("nothing cuts it off")
    }
}

pub fn figures() -> SegmentFigures {
    SegmentFigures { rows: 10, row_groups: 1, bytes: BYTES }
}

/// A segment full of `byte`, written and not flushed, with more room than it needs.
pub async fn written(database: &Database, group: &str, byte: u8) -> (File, SegmentFigures) {
    let file = database.tables().new_segment(group).await.unwrap();
    file.allocate(3 << 20).await.unwrap();
    let data = vec![byte; usize::try_from(BYTES).unwrap().next_multiple_of(4096)];
    file.write_at(Io::FOREGROUND, 0, data.into(), Durability::Cached).await.unwrap();
    (file, figures())
}

pub fn new_table(database: &Database, name: &str, group: &str) -> Table {
    Table::columnar(name, database.tables().new_table_id(), group, "{\"columns\":[]}")
}

/// CREATE TABLE AS SELECT of rows that are all `byte`; its id.
pub async fn create(database: &Database, name: &str, group: &str, byte: u8) -> u64 {
    let table = new_table(database, name, group);
    let id = table.id;
    let segment = written(database, group, byte).await;
    database.tables().add_columnar(table, Some(segment)).await.unwrap();
    id
}

pub async fn append(database: &Database, name: &str, id: u64, byte: u8) -> Result<(), Error> {
    let group = database.catalog().current().table(name).unwrap().group().unwrap().to_owned();
    let (file, figures) = written(database, &group, byte).await;
    database.tables().append_segment(name, id, file, figures).await
}

/// Puts a file in the place of the last segments of a table as it was; whether it still was.
pub async fn merge(database: &Database, was: &Table, last: usize, byte: u8) -> bool {
    let (file, figures) = written(database, was.group().unwrap(), byte).await;
    let gone = was.segments[was.segments.len() - last..].to_vec();
    database.tables().merge_segments(was, gone, file, figures).await.unwrap()
}

/// What a file is full of.
pub async fn byte_of(file: &File) -> u8 {
    assert_eq!(file.size(), BYTES);
    let length = usize::try_from(BYTES).unwrap().next_multiple_of(4096);
    let read = file.read_at(Io::FOREGROUND, 0, length).await.unwrap();
    assert!(read[..].iter().all(|byte| *byte == read[0]), "torn");
    read[0]
}

/// What the segments of a table are full of, in their order.
pub async fn rows(database: &Database, name: &str) -> Vec<u8> {
    let catalog = database.catalog().current();
    let table = catalog.table(name).unwrap();
    let mut bytes = Vec::new();
    for segment in &table.segments {
        bytes.push(byte_of(&database.tables().open_segment(table, segment).unwrap()).await);
    }
    bytes
}

/// The files where segments are.
pub fn files(database: &Database, group: &str) -> Vec<String> {
    let group = database.group(group).unwrap().group;
    let listed = group.list_dir(TABLES_DIR).unwrap_or_default();
    listed.into_iter().map(|file| file.path).collect()
}

/// The files that the catalog names.
pub fn named(database: &Database, group: &str) -> Vec<String> {
    let catalog = database.catalog().current();
    let tables = catalog.tables.iter().filter(|table| table.is_in(group));
    let segments = tables.flat_map(|table| table.segments.clone());
    let mut files: Vec<String> = segments.map(|Segment { file, .. }| file).collect();
    files.sort();
    files
}

/// Room of a group that nobody uses, in MB.
pub fn free(database: &Database, group: &str) -> u64 {
    database.group(group).unwrap().group.info().free_mb
}
