//! Cellar's redo log on one medium: committers are tasks on a few threads, as in its server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cellar_io::real::{OpenOptions, Runtime, RuntimeOptions, open_disk};
use cellar_io::{Device, IoError, IoErrorKind, IoFuture, Op};
use cellar_redo::on_disk::DatabaseId;
use cellar_redo::{
    Control, CreateLog, Log, Medium, NewGroup, OpenLog, Options, Quorum, Recovery, create,
};
use cellar_wait::{Kind, Waits};
use serde_json::json;

use super::{fresh, locked, written};
use crate::Error;
use crate::load::{Body, Load, Watch, nanos, settle};

pub const GROUPS: u32 = 3;
pub const GROUP_BYTES: u64 = 256 << 20;

/// Control data in a file that is replaced as a whole.
pub struct FileControl(pub PathBuf);

impl FileControl {
    fn replace(&self, bytes: &[u8]) -> std::io::Result<()> {
        let part = self.0.with_extension("part");
        let mut file = std::fs::File::create(&part)?;
        std::io::Write::write_all(&mut file, bytes)?;
        file.sync_all()?;
        std::fs::rename(part, &self.0)?;
        std::fs::File::open(self.0.parent().unwrap_or(&self.0))?.sync_all()
    }

    fn failed(&self, op: Op) -> IoError {
        IoError::new(IoErrorKind::Media, &self.0.to_string_lossy().into(), op, 0, 0)
    }
}

impl Control for FileControl {
    fn load(&self) -> IoFuture<'_, Vec<u8>> {
        Box::pin(async { std::fs::read(&self.0).map_err(|_| self.failed(Op::Read)) })
    }

    fn store(&self, bytes: Vec<u8>) -> IoFuture<'_, ()> {
        Box::pin(async move { self.replace(&bytes).map_err(|_| self.failed(Op::Write)) })
    }
}

pub fn run(load: &Load) -> Result<String, Error> {
    let options = RuntimeOptions { workers: load.workers, ..RuntimeOptions::default() };
    let runtime = Runtime::new(&options)?;
    let mut engine = String::new();
    let mut files = BTreeMap::new();
    for group in 1..=GROUPS {
        let path = load.dir.join(format!("cellar-{group}"));
        written(&path, GROUP_BYTES)?;
        let disk = open_disk(runtime.real_env(), &path, &OpenOptions::default())?;
        engine = disk.effective().to_string();
        files.insert(group, disk as Arc<dyn Device>);
    }
    let media = vec![Medium { name: "medium".to_owned(), files }];
    let control = Arc::new(FileControl(fresh(load, "cellar")?.join("control")));
    let log = runtime.block_on(open(&runtime, load, control, media))?;
    settle(load)?;
    commits(&runtime, &log, load, load.warm)?;
    let watch = Watch::new(load)?;
    let (took, time) = commits(&runtime, &log, load, load.time)?;
    let how = format!("1 medium, blocks of {}, {} workers, {engine}", load.block, load.workers);
    let about = json!({"version": locked("cellar-redo"), "how": how});
    let line = watch.line("cellar", load, took, time, &about)?;
    runtime.block_on(log.close())?;
    Ok(line)
}

async fn open(
    runtime: &Runtime,
    load: &Load,
    control: Arc<dyn Control>,
    media: Vec<Medium>,
) -> Result<Log, Error> {
    let env = runtime.env();
    let spec = CreateLog {
        database: DatabaseId(u128::from(env.random())),
        block_size: load.block,
        quorum: Quorum::Auto,
        archiving: false,
        groups: (1..=GROUPS).map(|number| NewGroup { number, size: GROUP_BYTES }).collect(),
        media: media.clone(),
    };
    create(&env, &control, spec).await?;
    let opening = OpenLog {
        env,
        session: Waits::new().session("redo", Kind::Background),
        control,
        media,
        options: Options::default(),
        returning: Vec::new(),
        force: false,
    };
    Ok(Recovery::start(opening).await?.open().await?.0)
}

/// Commits for some time; returns the latencies, in nanoseconds.
fn commits(
    runtime: &Runtime,
    log: &Log,
    load: &Load,
    time: Duration,
) -> Result<(Vec<u32>, Duration), Error> {
    runtime.block_on(async {
        let waits = Waits::new();
        let start = Instant::now();
        let end = start + time;
        let tasks: Vec<_> = (0..load.committers)
            .map(|committer| {
                let (log, bytes) = (log.clone(), load.bytes);
                let session = waits.session("committer", Kind::User);
                tokio::spawn(async move {
                    let mut body = Body::new(committer, bytes);
                    let mut took = Vec::with_capacity(1 << 16);
                    let mut before = Instant::now();
                    while before < end {
                        let record = Bytes::copy_from_slice(body.next());
                        log.commit(&session, 0, 0, record).await?;
                        let now = Instant::now();
                        took.push(nanos(now - before));
                        before = now;
                        let full = || matches!(log.ring(), (used, all) if used * 2 > all);
                        if took.len().is_multiple_of(64) && full() {
                            log.set_checkpoint(log.durable_lsn()).await?;
                        }
                    }
                    Ok::<_, Error>(took)
                })
            })
            .collect();
        let mut all = Vec::new();
        for task in tasks {
            all.extend(task.await??);
        }
        Ok((all, start.elapsed()))
    })
}
