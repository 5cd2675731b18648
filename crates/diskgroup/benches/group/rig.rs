//! Disks, groups and load for benchmarks.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{
    CreateGroup, File, FileSpec, FoundDisk, Group, MountOptions, NewDisk, Redundancy, create,
};
use cellar_io::real::{Access, OpenOptions, Runtime, RuntimeOptions, open_disk};
use cellar_io::sched::{ScheduleOptions, Scheduled};
use cellar_io::shape::ShapeOptions;
use cellar_io::{Buffer, Device, DeviceExt, Durability, EnvExt, Io, SharedEnv};
use cellar_wait::{Kind, Waits};

/// Space on each disk besides the file: metadata, checksums, spare AUs.
pub const SPARE: u64 = 128 << 20;

/// CPU seconds used by this process.
pub fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos: f64 = stat.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0.0);
    nanos / 1e9
}

/// A file used as a disk; removed when dropped.
pub struct Backing(pub PathBuf);

impl Backing {
    /// Creates it with `bytes` that were all written: a hole would measure nothing.
    pub fn written(dir: &Path, name: &str, bytes: u64) -> Backing {
        let backing = Backing(dir.join(format!("cellar-bench-{}-{name}", std::process::id())));
        let mut file = std::fs::File::create(&backing.0).unwrap();
        let noise = noise(4 << 20);
        for _ in 0..bytes.div_ceil(noise.len() as u64) {
            std::io::Write::write_all(&mut file, &noise).unwrap();
        }
        file.sync_all().unwrap();
        backing
    }

    /// Creates it as a hole of `bytes`.
    pub fn sparse(dir: &Path, name: &str, bytes: u64) -> Backing {
        let backing = Backing(dir.join(format!("cellar-bench-{}-{name}", std::process::id())));
        std::fs::File::create(&backing.0).unwrap().set_len(bytes).unwrap();
        backing
    }

    /// Its path, for programs.
    pub fn path(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A runtime, and its tasks.
pub struct Rig {
    pub runtime: Runtime,
}

/// The shape of a group.
pub struct Place {
    /// Paths of its disks.
    pub disks: Vec<String>,
    /// Copies.
    pub redundancy: Redundancy,
    /// Bytes of each disk that it uses; `None` is all.
    pub bytes: Option<u64>,
    /// A model in front of each disk.
    pub shape: Option<ShapeOptions>,
}

impl Rig {
    /// Starts the threads, as a server does.
    pub fn new() -> Rig {
        let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
        Rig { runtime }
    }

    /// The environment.
    pub fn env(&self) -> SharedEnv {
        self.runtime.env()
    }

    /// Opens a disk as a server does: direct, with a scheduler in front.
    pub fn open(&self, path: &str) -> Arc<dyn Device> {
        let options = OpenOptions { access: Access::Direct, ..OpenOptions::default() };
        let disk = open_disk(self.runtime.real_env(), Path::new(path), &options).unwrap();
        assert!(disk.effective().direct, "{path}: {}", disk.effective());
        let schedule = ScheduleOptions::default();
        Arc::new(Scheduled::new(disk, self.env(), schedule, None))
    }

    /// As [`Rig::open`], with a model in front.
    pub fn open_shaped(&self, path: &str, shape: ShapeOptions) -> Arc<dyn Device> {
        Arc::new(cellar_io::shape::Shaped::new(self.open(path), self.env(), shape))
    }

    fn devices(&self, place: &Place) -> Vec<Arc<dyn Device>> {
        let open = |path: &String| match place.shape {
            None => self.open(path),
            Some(shape) => self.open_shaped(path, shape),
        };
        place.disks.iter().map(open).collect()
    }

    /// Creates the group BENCH.
    pub fn create(&self, place: &Place) {
        let disks =
            self.devices(place).into_iter().zip(&place.disks).map(|(device, path)| NewDisk {
                device,
                path: path.clone(),
                name: None,
                failgroup: None,
                size: place.bytes,
                force: false,
            });
        let spec = CreateGroup {
            name: "BENCH".to_owned(),
            redundancy: place.redundancy,
            au_size: 4 << 20,
            sector_size: Some(4096),
            attributes: Default::default(),
            holds_catalog: false,
            disks: disks.collect(),
        };
        self.runtime.block_on(create(&self.env(), spec)).unwrap();
    }

    /// Mounts it.
    pub fn mount(&self, place: &Place, options: MountOptions) -> Group {
        let found = self
            .devices(place)
            .into_iter()
            .zip(&place.disks)
            .map(|(device, path)| FoundDisk { device, path: path.clone() })
            .collect();
        let session = Waits::new().session("group BENCH", Kind::Background);
        let env = self.env();
        self.runtime.block_on(Group::mount(&env, session, "BENCH", found, options)).unwrap()
    }

    /// Creates and mounts it.
    pub fn group(&self, place: &Place) -> Group {
        self.create(place);
        self.mount(place, MountOptions::default())
    }

    /// A file of `bytes`, all written and durable.
    pub fn file(&self, group: &Group, name: &str, bytes: u64, checksums: bool) -> File {
        let spec = FileSpec { checksums: Some(checksums), ..FileSpec::new(FileType::Datafile) };
        self.runtime.block_on(async {
            let file = group.create_file(&spec).await.unwrap();
            file.set_size(bytes).await.unwrap();
            let step = 4 << 20;
            let noise = noise(step);
            let writes = (0..bytes / step as u64).map(|i| {
                let (file, noise) = (file.clone(), noise.clone());
                async move {
                    let at = i * step as u64;
                    file.write_at(Io::SCAN, at, noise, Durability::Cached).await.unwrap();
                }
            });
            let writes = futures_util::stream::iter(writes);
            let writes = futures_util::StreamExt::buffer_unordered(writes, 8);
            futures_util::StreamExt::collect::<Vec<()>>(writes).await;
            file.flush(Io::COMMIT).await.unwrap();
            group.publish(&file, name, false).await.unwrap();
            file
        })
    }

    /// Runs `depth` loops of `operation` for some seconds. The operation gets a random number.
    pub fn drive<F, R>(&self, depth: usize, seconds: u64, operation: F) -> Load
    where
        F: Fn(u64) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let env = self.env();
        let operation = Arc::new(operation);
        self.runtime.block_on(async move {
            let start = env.now();
            let end = start.plus(Duration::from_secs(seconds));
            let workers: Vec<_> = (0..depth)
                .map(|_| {
                    let (clock, operation) = (Arc::clone(&env), Arc::clone(&operation));
                    let mut random = env.random() | 1;
                    env.run("load", async move {
                        let mut count = 0u64;
                        while clock.now() < end {
                            random ^= random << 13;
                            random ^= random >> 7;
                            random ^= random << 17;
                            operation(random).await;
                            count += 1;
                        }
                        count
                    })
                })
                .collect();
            let mut count = 0;
            for worker in workers {
                count += worker.await.expect("the load does not fail");
            }
            let seconds = env.now().since(start).as_secs_f64();
            Load { count, seconds, depth }
        })
    }

    /// The time of `future` in seconds, and its result.
    pub fn time<F: Future>(&self, future: F) -> (f64, F::Output) {
        let env = self.env();
        self.runtime.block_on(async {
            let start = env.now();
            let value = future.await;
            (env.now().since(start).as_secs_f64(), value)
        })
    }
}

/// The result of a load.
pub struct Load {
    /// Operations.
    pub count: u64,
    /// How long it took.
    pub seconds: f64,
    depth: usize,
}

impl Load {
    /// Operations a second.
    pub fn iops(&self) -> f64 {
        self.count as f64 / self.seconds
    }

    /// Mean time of an operation in microseconds.
    pub fn mean_us(&self) -> f64 {
        self.depth as f64 * self.seconds * 1e6 / self.count.max(1) as f64
    }
}

/// Bytes without short-period repetition.
pub fn noise(length: usize) -> Bytes {
    let mut buffer = Buffer::new(length);
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for chunk in buffer.chunks_exact_mut(8) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        chunk.copy_from_slice(&random.to_le_bytes());
    }
    buffer.freeze()
}
