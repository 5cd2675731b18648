//! A store on simulated disks: a file for pages, a file for each group of the log.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellar_heap::{
    Error, Geometry, Growth, NewStore, OpenStore, OpenWithoutLog, Opened, Options, Reader,
    Replayed, SpillFile, Store,
};
use cellar_io::sim::{Sim, SimDisk, SimDiskOptions};
use cellar_io::{Device, IoFuture};
use cellar_redo::on_disk::DatabaseId;
use cellar_redo::{Control, CreateLog, Medium, NewGroup, OpenLog, Quorum, Recovery};
use cellar_wait::{Kind, Session, Waits};

/// Control data that the simulated power cut does not reach.
#[derive(Default)]
pub struct Kept(Mutex<Vec<u8>>);

impl Control for Kept {
    fn load(&self) -> IoFuture<'_, Vec<u8>> {
        Box::pin(async move { Ok(self.0.lock().unwrap().clone()) })
    }
    fn store(&self, bytes: Vec<u8>) -> IoFuture<'_, ()> {
        Box::pin(async move {
            *self.0.lock().unwrap() = bytes;
            Ok(())
        })
    }
}

pub struct Rig {
    pub sim: Sim,
    pub data: Arc<SimDisk>,
    pub groups: Vec<Arc<SimDisk>>,
    pub control: Arc<dyn Control>,
    pub waits: Waits,
    pub options: Options,
    pub geometry: Geometry,
    /// The log is opened by force.
    pub force: bool,
    /// Makes the file longer when it is full.
    pub growth: Option<Arc<dyn Growth>>,
    /// Where older images go.
    pub spill: Option<Arc<dyn SpillFile>>,
}

pub const SMALL: Geometry = Geometry { extent_pages: 8, ring_batches: 2, batch_pages: 7 };

impl Rig {
    pub fn new(seed: u64, data_bytes: u64, group_bytes: u64) -> Rig {
        let sim = Sim::new(seed);
        let disk = |name: &str, size: u64| {
            sim.disk(name, SimDiskOptions { size, ..SimDiskOptions::default() })
        };
        let data = disk("data", data_bytes);
        let groups = (1..=3).map(|group| disk(&format!("log{group}"), group_bytes)).collect();
        let options = Options {
            cache_pages: 64,
            dirty_max: 32,
            checkpoint_after: Duration::from_millis(20),
            ..Options::default()
        };
        let control: Arc<dyn Control> = Arc::new(Kept::default());
        Rig {
            sim,
            data,
            groups,
            control,
            waits: Waits::new(),
            options,
            geometry: SMALL,
            force: false,
            growth: None,
            spill: None,
        }
    }

    pub fn session(&self) -> Session {
        self.waits.session("client", Kind::User)
    }

    fn media(&self) -> Vec<Medium> {
        let file = |(group, disk): (usize, &Arc<SimDisk>)| {
            (group as u32 + 1, Arc::clone(disk) as Arc<dyn Device>)
        };
        let files: BTreeMap<u32, Arc<dyn Device>> =
            self.groups.iter().enumerate().map(file).collect();
        vec![Medium { name: "log".to_owned(), files }]
    }

    /// Makes log and store.
    pub async fn create(&self) {
        self.create_on(Arc::clone(&self.data) as _).await;
    }

    /// As [`Rig::create`], of another file.
    pub async fn create_on(&self, device: Arc<dyn Device>) {
        let size = self.groups[0].geometry().size;
        let new = CreateLog {
            database: DatabaseId(42),
            block_size: 512,
            quorum: Quorum::Auto,
            archiving: false,
            groups: (1..=3).map(|number| NewGroup { number, size }).collect(),
            media: self.media(),
        };
        cellar_redo::create(&self.sim.env(), &self.control, new).await.unwrap();
        let from = Recovery::start(self.log()).await.unwrap().checkpoint();
        let new = NewStore { store: 7, database: 42, geometry: self.geometry, from };
        cellar_heap::create(&device, new).await.unwrap();
    }

    fn log(&self) -> OpenLog {
        OpenLog {
            env: self.sim.env(),
            session: self.waits.session("redo", Kind::Background),
            control: Arc::clone(&self.control),
            media: self.media(),
            options: cellar_redo::Options::default(),
            returning: Vec::new(),
            force: self.force,
        }
    }

    async fn opening(&self, device: Arc<dyn Device>) -> Result<OpenStore, Error> {
        Ok(OpenStore {
            env: self.sim.env(),
            waits: self.waits.clone(),
            device,
            recovery: Recovery::start(self.log()).await?,
            options: self.options.clone(),
            growth: self.growth.clone(),
            spill: self.spill.clone(),
        })
    }

    pub async fn open(&self) -> Result<(Store, Replayed), Error> {
        self.open_on(Arc::clone(&self.data) as _).await
    }

    /// As [`Rig::open`], of another file.
    pub async fn open_on(&self, device: Arc<dyn Device>) -> Result<(Store, Replayed), Error> {
        Store::open(self.opening(device).await?).await
    }

    /// As [`Rig::open_on`], of a file that grows.
    pub async fn open_growing(
        &self,
        device: Arc<dyn Device>,
        growth: Arc<dyn Growth>,
    ) -> Result<(Store, Replayed), Error> {
        Store::open(OpenStore { growth: Some(growth), ..self.opening(device).await? }).await
    }

    /// As [`Rig::open`], also a store that may only be read.
    pub async fn open_any(&self) -> Result<Opened, Error> {
        Store::open_any(self.opening(Arc::clone(&self.data) as _).await?).await
    }

    /// Without its log.
    pub async fn open_alone(&self, gives_log_up: bool) -> Result<Option<Reader>, Error> {
        let (env, waits) = (self.sim.env(), self.waits.clone());
        let (device, options) = (Arc::clone(&self.data) as _, self.options.clone());
        Store::open_alone(OpenWithoutLog { env, waits, device, options, gives_log_up }).await
    }

    pub async fn open_read_only(&self) -> Result<(Reader, Replayed), Error> {
        Store::open_read_only(self.opening(Arc::clone(&self.data) as _).await?).await
    }

    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.sim.run(future).expect("the power is on")
    }
}
