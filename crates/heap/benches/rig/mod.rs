//! A store on real files, for benchmarks.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellar_heap::{Geometry, NewStore, OpenStore, Replayed, Store};
use cellar_io::real::{OpenOptions, RealEnv, Runtime, RuntimeOptions, open_disk};
use cellar_io::{Device, IoFuture};
use cellar_redo::on_disk::DatabaseId;
use cellar_redo::{
    Control, CreateLog, Medium, NewGroup, OpenLog, Options, Quorum, Recovery, create,
};
use cellar_wait::{Kind, Waits};

const GROUP_BYTES: u64 = 256 << 20;
const GROUPS: u32 = 3;

/// Control data in memory: it is not on the measured path.
#[derive(Default)]
struct MemoryControl(Mutex<Vec<u8>>);

impl Control for MemoryControl {
    fn load(&self) -> IoFuture<'_, Vec<u8>> {
        Box::pin(async { Ok(self.0.lock().unwrap().clone()) })
    }
    fn store(&self, bytes: Vec<u8>) -> IoFuture<'_, ()> {
        Box::pin(async move {
            *self.0.lock().unwrap() = bytes;
            Ok(())
        })
    }
}

/// Writes the file once: a write into a hole measures the file system.
fn prepare(file: &Path, bytes: u64) {
    if file.metadata().is_ok_and(|m| m.len() == bytes) {
        return;
    }
    let mut out = std::fs::File::create(file).unwrap();
    for _ in 0..bytes >> 20 {
        std::io::Write::write_all(&mut out, &vec![0u8; 1 << 20]).unwrap();
    }
    out.sync_all().unwrap();
}

/// Files in a directory, and their runtime.
pub struct Rig {
    pub runtime: Runtime,
    pub env: Arc<RealEnv>,
    files: BTreeMap<u32, Arc<dyn Device>>,
    data: Arc<dyn Device>,
    options: cellar_heap::Options,
}

/// The store's log, for reopening it.
pub struct Kept(Arc<dyn Control>);

/// CPU time of this process so far.
pub fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The options of the command line, with these defaults.
pub fn arguments(defaults: &[(&'static str, &str)]) -> Option<BTreeMap<&'static str, String>> {
    let mut values: BTreeMap<&str, String> =
        defaults.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), values.get_mut(argument.as_str())) {
            (_, Some(value)) => *value = arguments.next().expect("a value"),
            ("--bench", _) => {}
            // What `cargo test` adds: nothing to measure then.
            ("--test", _) => return None,
            (other, _) => panic!("{other}: one of {:?}", values.keys()),
        }
    }
    Some(values)
}

impl Rig {
    /// With this many megabytes of data.
    pub fn new(dir: &Path, megabytes: u64, options: cellar_heap::Options) -> Rig {
        let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
        std::fs::create_dir_all(dir).unwrap();
        let env = Arc::clone(runtime.real_env());
        let open = |name: String, bytes: u64| {
            let path = dir.join(name);
            prepare(&path, bytes);
            open_disk(&env, &path, &OpenOptions::default()).unwrap() as Arc<dyn Device>
        };
        let files = (1..=GROUPS).map(|group| (group, open(format!("log{group}"), GROUP_BYTES)));
        let files = files.collect();
        let data = open("data".to_owned(), megabytes << 20);
        Rig { runtime, env, files, data, options }
    }

    /// A new, empty log, optionally archived, and a new store.
    pub fn create(&self, archiving: bool) -> (Store, Kept) {
        let kept = Kept(Arc::new(MemoryControl::default()));
        let env = self.runtime.env();
        let spec = CreateLog {
            database: DatabaseId(u128::from(env.random())),
            block_size: 4096,
            quorum: Quorum::Auto,
            archiving,
            groups: (1..=GROUPS).map(|number| NewGroup { number, size: GROUP_BYTES }).collect(),
            media: vec![Medium { name: "m".to_owned(), files: self.files.clone() }],
        };
        let store = self.runtime.block_on(async {
            create(&env, &kept.0, spec).await.unwrap();
            let recovery = self.recovery(&kept).await;
            let (store, geometry) = (env.random(), Geometry::default());
            let (database, from) = (recovery.database().0, recovery.checkpoint());
            let new = NewStore { store, database, geometry, from };
            cellar_heap::create(&self.data, new).await.unwrap();
            self.open(recovery).await.0
        });
        (store, kept)
    }

    async fn recovery(&self, kept: &Kept) -> Recovery {
        let log = OpenLog {
            env: self.runtime.env(),
            session: Waits::new().session("redo", Kind::Background),
            control: Arc::clone(&kept.0),
            media: vec![Medium { name: "m".to_owned(), files: self.files.clone() }],
            options: Options::default(),
            returning: Vec::new(),
            force: false,
        };
        Recovery::start(log).await.unwrap()
    }

    async fn open(&self, recovery: Recovery) -> (Store, Replayed) {
        let (env, device, waits) = (self.runtime.env(), Arc::clone(&self.data), Waits::new());
        let options = self.options.clone();
        Store::open(OpenStore { env, waits, device, recovery, options, growth: None, spill: None })
            .await
            .unwrap()
    }

    /// Opens the store again; the log is already closed.
    pub async fn open_again(&self, kept: &Kept) -> (Store, Replayed) {
        self.open(self.recovery(kept).await).await
    }
}
