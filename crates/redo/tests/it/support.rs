//! A simulated machine with media and control data on disks of their own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_io::sim::{Sim, SimDisk, SimDiskOptions};
use cellar_io::{Device, DeviceExt, Durability, EnvExt, Io, IoFuture, SharedEnv};
use cellar_redo::on_disk::DatabaseId;
use cellar_redo::on_disk::control::ControlData;
use cellar_redo::{
    Control, CreateLog, Error, Log, Medium, NewGroup, OpenLog, Options, Quorum, Record, Recovery,
    Report, create,
};
use cellar_wait::{Kind, Session, Waits};

use crate::archive_store::SimArchives;

pub const DATABASE: DatabaseId = DatabaseId(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10);

/// Control data in two slots of a disk, written in turn.
pub struct DiskControl(pub Arc<dyn Device>);

/// Files for so many groups that are not made at first.
pub const SPARE: u32 = 1;

const SLOT: usize = 8192;

/// The newer of both slots.
fn newest(both: &[u8]) -> Option<(ControlData, Vec<u8>)> {
    let slot = |at: usize| {
        let length = u32::from_le_bytes(both[at..at + 4].try_into().unwrap()) as usize;
        let bytes = both.get(at + 4..at + 4 + length.min(SLOT - 4))?.to_vec();
        Some((ControlData::decode(&bytes).ok()?, bytes))
    };
    [slot(0), slot(SLOT)].into_iter().flatten().max_by_key(|(data, _)| data.generation)
}

impl Control for DiskControl {
    fn load(&self) -> IoFuture<'_, Vec<u8>> {
        Box::pin(async move {
            let both = self.0.read_at(Io::COMMIT, 0, 2 * SLOT).await?;
            Ok(newest(&both).map(|(_, bytes)| bytes).unwrap_or_default())
        })
    }

    fn store(&self, bytes: Vec<u8>) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let generation = ControlData::decode(&bytes).expect("whole").generation;
            let mut slot = vec![0; SLOT];
            slot[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
            slot[4..4 + bytes.len()].copy_from_slice(&bytes);
            let at = generation % 2 * SLOT as u64;
            self.0.write_at(Io::COMMIT, at, Bytes::from(slot), Durability::Durable).await
        })
    }
}

/// What the log is to be.
#[derive(Clone, Debug)]
pub struct Shape {
    pub media: usize,
    pub groups: u32,
    pub blocks: u64,
    pub block_size: u32,
    pub quorum: Quorum,
    pub archiving: bool,
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            media: 2,
            groups: 3,
            blocks: 32,
            block_size: 512,
            quorum: Quorum::Auto,
            archiving: false,
        }
    }
}

impl Shape {
    pub fn file_size(&self) -> u64 {
        8192 + self.blocks * u64::from(self.block_size)
    }
}

/// A machine with a disk for each medium, all groups on it one after the other.
pub struct Rig {
    pub sim: Sim,
    pub shape: Shape,
    pub disks: Vec<Arc<SimDisk>>,
    pub control: Arc<DiskControl>,
    pub control_disk: Arc<SimDisk>,
    pub waits: Waits,
    pub archives: Arc<SimArchives>,
}

/// A part of a disk.
struct Part {
    disk: Arc<dyn Device>,
    start: u64,
    size: u64,
}

impl Device for Part {
    fn geometry(&self) -> cellar_io::Geometry {
        cellar_io::Geometry { size: self.size, ..self.disk.geometry() }
    }
    fn read(
        &self,
        io: Io,
        offset: u64,
        buffers: Vec<cellar_io::Buffer>,
    ) -> IoFuture<'_, Vec<cellar_io::Buffer>> {
        self.disk.read(io, self.start + offset, buffers)
    }
    fn write(&self, io: Io, offset: u64, data: Vec<Bytes>, d: Durability) -> IoFuture<'_, ()> {
        self.disk.write(io, self.start + offset, data, d)
    }
    fn flush(&self, io: Io) -> IoFuture<'_, ()> {
        self.disk.flush(io)
    }
    fn discard(&self, io: Io, o: u64, l: u64, how: cellar_io::Discard) -> IoFuture<'_, ()> {
        self.disk.discard(io, self.start + o, l, how)
    }
}

impl Rig {
    pub fn new(seed: u64, shape: Shape) -> Rig {
        let sim = Sim::new(seed);
        let options = SimDiskOptions {
            size: (shape.file_size() * u64::from(shape.groups + SPARE)).next_multiple_of(4096),
            logical_sector: 512,
            ..SimDiskOptions::default()
        };
        let disks: Vec<_> =
            (0..shape.media).map(|i| sim.disk(&format!("disk{i}"), options.clone())).collect();
        let control_disk =
            sim.disk("control", SimDiskOptions { size: 2 * SLOT as u64, ..options.clone() });
        let control = Arc::new(DiskControl(control_disk.clone()));
        let archive_disk = sim.disk("archives", SimDiskOptions { size: 4096, ..options });
        let archives = Arc::new(SimArchives::new(archive_disk));
        Rig { sim, shape, disks, control, control_disk, waits: Waits::new(), archives }
    }

    /// The control data, past all faults and without the machine.
    pub fn control_now(&self) -> ControlData {
        newest(&self.control_disk.peek(0, 2 * SLOT as u64)).expect("control data").0
    }

    pub fn env(&self) -> SharedEnv {
        self.sim.env()
    }

    pub fn session(&self) -> Session {
        self.waits.session("test", Kind::User)
    }

    pub fn medium(&self, number: usize) -> Medium {
        let size = self.shape.file_size();
        let part = |group: u32| {
            let disk = self.disks[number].clone() as Arc<dyn Device>;
            let part = Part { disk, start: u64::from(group - 1) * size, size };
            (group, Arc::new(part) as Arc<dyn Device>)
        };
        let files: BTreeMap<_, _> = (1..=self.shape.groups + SPARE).map(part).collect();
        Medium { name: format!("disk{number}"), files }
    }

    pub fn media(&self) -> Vec<Medium> {
        (0..self.shape.media).map(|number| self.medium(number)).collect()
    }

    pub async fn create(&self) -> Result<(), Error> {
        self.create_as(DATABASE).await
    }

    pub async fn create_as(&self, database: DatabaseId) -> Result<(), Error> {
        let size = self.shape.file_size();
        let control: Arc<dyn Control> = self.control.clone();
        let log = CreateLog {
            database,
            block_size: self.shape.block_size,
            quorum: self.shape.quorum,
            archiving: self.shape.archiving,
            groups: (1..=self.shape.groups).map(|number| NewGroup { number, size }).collect(),
            media: self.media(),
        };
        create(&self.env(), &control, log).await
    }

    pub fn options(&self) -> Options {
        Options { unit_bytes: 8 * self.shape.block_size as usize, ..Options::default() }
    }

    pub fn spec(&self, media: Vec<Medium>, force: bool) -> OpenLog {
        OpenLog {
            env: self.env(),
            session: self.waits.session("redo", Kind::Background),
            control: self.control.clone(),
            media,
            options: self.options(),
            returning: Vec::new(),
            force,
        }
    }

    pub async fn open_with(&self, spec: OpenLog) -> Result<(Log, Vec<Record>, Report), Error> {
        let mut recovery = Recovery::start(spec).await?;
        let mut records = Vec::new();
        while let Some(record) = recovery.next().await? {
            records.push(record);
        }
        let (log, report) = recovery.open().await?;
        Ok((log, records, report))
    }

    pub async fn open(&self) -> Result<(Log, Vec<Record>, Report), Error> {
        self.open_with(self.spec(self.media(), false)).await
    }

    /// Runs a future to its end, but not for more than an hour of virtual time.
    pub fn run<F: Future>(&self, future: F) -> Option<F::Output> {
        let env = self.env();
        self.sim.run(async move {
            let limit = env.sleep(Duration::from_secs(3600));
            match futures_util::future::select(Box::pin(future), limit).await {
                futures_util::future::Either::Left((output, _)) => output,
                futures_util::future::Either::Right(_) => panic!("hung: an hour went by"),
            }
        })
    }
}
