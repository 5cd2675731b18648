//! A log on a device, and its commit rate.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cellar_io::{Device, EnvExt, IoFuture, SharedEnv};
use cellar_redo::on_disk::DatabaseId;
use cellar_redo::{
    Control, CreateLog, Log, Medium, NewGroup, OpenLog, Options, Quorum, Recovery, create,
};
use cellar_wait::{Kind, Waits};

/// Groups of the log, and the bytes of a file of each.
pub const GROUPS: u32 = 3;
pub const GROUP_BYTES: u64 = 16 << 20;
/// The checkpoint follows the end of the log by at most this many bytes.
const CHECKPOINT: u64 = 4 << 20;

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

/// The committers and their records.
#[derive(Clone, Copy)]
pub struct Load {
    pub name: &'static str,
    pub committers: usize,
    pub bytes: usize,
}

/// Alone, in a crowd, and as much redo as the device can take.
pub const LOADS: [Load; 3] = [
    Load { name: "1 committer", committers: 1, bytes: 200 },
    Load { name: "16 committers", committers: 16, bytes: 200 },
    Load { name: "bandwidth", committers: 8, bytes: 250_000 },
];

/// A medium: a name, and for each log group a file.
pub type Files = (String, Vec<Arc<dyn Device>>);

async fn log(env: &SharedEnv, media: &[Files], block_size: u32) -> Log {
    let control: Arc<dyn Control> = Arc::new(MemoryControl::default());
    let medium = |(name, files): &Files| {
        let files: BTreeMap<_, _> = (1..=GROUPS).zip(files.iter().cloned()).collect();
        Medium { name: name.clone(), files }
    };
    let media: Vec<Medium> = media.iter().map(medium).collect();
    let spec = CreateLog {
        database: DatabaseId(u128::from(env.random())),
        block_size,
        quorum: Quorum::Auto,
        archiving: false,
        groups: (1..=GROUPS).map(|number| NewGroup { number, size: GROUP_BYTES }).collect(),
        media: media.clone(),
    };
    create(env, &control, spec).await.unwrap();
    let opening = OpenLog {
        env: env.clone(),
        session: Waits::new().session("redo", Kind::Background),
        control,
        media,
        options: Options::default(),
        returning: Vec::new(),
        force: false,
    };
    Recovery::start(opening).await.unwrap().open().await.unwrap().0
}

/// Commits a second to a new log with blocks of this size.
pub async fn commits(
    env: SharedEnv,
    media: Vec<Files>,
    block_size: u32,
    load: Load,
    time: Duration,
) -> f64 {
    let log = log(&env, &media, block_size).await;
    let (start, waits) = (env.now(), Waits::new());
    let end = start.plus(time);
    let checkpointed = Arc::new(AtomicU64::new(log.durable_lsn().abn().0));
    let tasks: Vec<_> = (0..load.committers)
        .map(|_| {
            let (log, own, checkpointed) = (log.clone(), env.clone(), Arc::clone(&checkpointed));
            let session = waits.session("committer", Kind::User);
            env.run("committer", async move {
                let body = Bytes::from(vec![7u8; load.bytes]);
                let mut count = 0u64;
                while own.now() < end {
                    log.commit(&session, 0, 0, body.clone()).await.unwrap();
                    count += 1;
                    let (at, before) = (log.durable_lsn().abn().0, checkpointed.load(Relaxed));
                    let is_far = (at - before.min(at)) * u64::from(block_size) > CHECKPOINT;
                    let mine =
                        || checkpointed.compare_exchange(before, at, Relaxed, Relaxed).is_ok();
                    if is_far && mine() {
                        log.set_checkpoint(log.durable_lsn()).await.unwrap();
                    }
                }
                count
            })
        })
        .collect();
    let mut count = 0;
    for task in tasks {
        count += task.await.unwrap();
    }
    let rate = count as f64 / env.now().since(start).as_secs_f64();
    log.close().await.unwrap();
    rate
}
