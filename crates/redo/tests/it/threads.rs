//! A log on real files, used from several threads at once: what one thread of a simulation cannot
//! show.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cellar_io::real::{OpenOptions, Runtime, RuntimeOptions, open_disk};
use cellar_io::{Buffer, Device, Discard, Durability, EnvExt, Geometry, Io, IoFuture, SharedEnv};
use cellar_redo::on_disk::control::{ControlData, INCARNATIONS_MAX};
use cellar_redo::{
    Control, CreateLog, Error, Log, Medium, NewGroup, OpenLog, Options, Quorum, Recovery, create,
};
use cellar_wait::{Kind, Waits};

use crate::support::DATABASE;

#[derive(Default)]
pub struct MemoryControl(Mutex<Vec<u8>>);

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

const SIZE: u64 = 4 << 20;

/// A medium of two files in `directory`.
fn medium(runtime: &Runtime, directory: &tempfile::TempDir) -> Medium {
    let file = |group: u32| {
        let path = directory.path().join(format!("group{group}"));
        if !path.exists() {
            std::fs::write(&path, vec![0; SIZE as usize]).unwrap();
        }
        let disk = open_disk(runtime.real_env(), &path, &OpenOptions::default()).unwrap();
        (group, disk as Arc<dyn Device>)
    };
    Medium { name: "disk".to_owned(), files: (1..=2).map(file).collect() }
}

fn spec(media: &[Medium]) -> CreateLog {
    CreateLog {
        database: DATABASE,
        block_size: 4096,
        quorum: Quorum::Auto,
        archiving: false,
        groups: (1..=2).map(|number| NewGroup { number, size: SIZE }).collect(),
        media: media.to_vec(),
    }
}

fn opening(runtime: &Runtime, control: &Arc<dyn Control>, media: &[Medium]) -> OpenLog {
    OpenLog {
        env: runtime.env(),
        session: Waits::new().session("redo", Kind::Background),
        control: Arc::clone(control),
        media: media.to_vec(),
        options: Options::default(),
        returning: Vec::new(),
        force: false,
    }
}

async fn open(runtime: &Runtime, control: &Arc<dyn Control>, media: &[Medium]) -> (Log, u64) {
    let opened = Recovery::start(opening(runtime, control, media));
    let (log, report) = opened.await.unwrap().open().await.unwrap();
    (log, report.records)
}

/// A device that answers writes later.
struct Late(Arc<dyn Device>, SharedEnv);

impl Device for Late {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn read(&self, io: Io, offset: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        self.0.read(io, offset, buffers)
    }
    fn write(&self, io: Io, at: u64, data: Vec<Bytes>, how: Durability) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.0.write(io, at, data, how).await?;
            self.1.sleep(Duration::from_millis(20)).await;
            Ok(())
        })
    }
    fn flush(&self, io: Io) -> IoFuture<'_, ()> {
        self.0.flush(io)
    }
    fn discard(&self, io: Io, offset: u64, length: u64, how: Discard) -> IoFuture<'_, ()> {
        self.0.discard(io, offset, length, how)
    }
}

/// The only thread computes for longer than a silent medium is waited for, while one is a little late.
#[test]
#[expect(clippy::disallowed_methods, reason = "a task that does not let go of its thread")]
fn a_busy_thread_costs_no_medium() {
    let directories = [(); 2].map(|()| tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    let runtime = Runtime::new(&RuntimeOptions { workers: 1, ..Default::default() }).unwrap();
    let control: Arc<dyn Control> = Arc::new(MemoryControl::default());
    let mut media = directories.each_ref().map(|directory| medium(&runtime, directory)).to_vec();
    media[1].name = "late".to_owned();
    for file in media[1].files.values_mut() {
        *file = Arc::new(Late(Arc::clone(file), runtime.env()));
    }
    runtime.block_on(async {
        create(&runtime.env(), &control, spec(&media)).await.unwrap();
        let (log, _) = open(&runtime, &control, &media).await;
        let session = Waits::new().session("committer", Kind::User);
        for _ in 0..3 {
            let (other, session) = (log.clone(), session.clone());
            let committer = tokio::spawn(async move {
                other.commit(&session, 0, 0, Bytes::from_static(b"record")).await.unwrap();
            });
            // The first medium has answered, and it is seen that the second has not.
            runtime.env().sleep(Duration::from_millis(12)).await;
            let busy = tokio::spawn(async { std::thread::sleep(Duration::from_millis(150)) });
            busy.await.unwrap();
            committer.await.unwrap();
            assert!(log.media().iter().all(|medium| medium.active), "{:?}", log.media());
        }
        log.close().await.unwrap();
    });
}

/// Runs tasks that append and wait, and tasks that commit, on all threads. Large records, that fill
/// the log more than once, have checkpoints behind them. Gives how many records came back.
fn stress(committers: u64, appenders: u64, each: u64, bytes: usize) -> u64 {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
    let control: Arc<dyn Control> = Arc::new(MemoryControl::default());
    let media = vec![medium(&runtime, &directory)];
    runtime.block_on(async {
        create(&runtime.env(), &control, spec(&media)).await.unwrap();
        let (log, _) = open(&runtime, &control, &media).await;
        let waits = Waits::new();
        let tasks = (0..committers + appenders).map(|task| {
            let (log, session) = (log.clone(), waits.session("committer", Kind::User));
            tokio::spawn(async move {
                let body = Bytes::from(vec![task as u8; bytes]);
                for _ in 0..each {
                    if bytes > 10_000 {
                        log.set_checkpoint(log.durable_lsn()).await.unwrap();
                    }
                    if task < committers {
                        log.commit(&session, 0, 0, body.clone()).await.unwrap();
                        continue;
                    }
                    let placed = log.append(&session, 0, 0, body.clone()).await.unwrap();
                    log.wait_durable(&session, placed.end).await.unwrap();
                    assert!(log.durable_lsn() >= placed.end);
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        log.close().await.unwrap();
        open(&runtime, &control, &media).await.1
    })
}

#[test]
fn committers_and_waiters_on_all_threads_get_every_record_back() {
    assert_eq!(stress(1, 0, 500, 100), 500);
    assert_eq!(stress(3, 3, 50, 100), 300);
}

#[test]
fn large_records_whose_units_are_formed_ahead_go_round_the_ring() {
    stress(2, 4, 50, 300_000);
}

#[test]
fn a_log_that_was_opened_too_often_is_refused_until_it_was_replayed() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
    let control: Arc<dyn Control> = Arc::new(MemoryControl::default());
    let media = vec![medium(&runtime, &directory)];
    runtime.block_on(async {
        create(&runtime.env(), &control, spec(&media)).await.unwrap();
        let session = Waits::new().session("committer", Kind::User);
        for _ in 0..2 {
            let (log, _) = open(&runtime, &control, &media).await;
            log.commit(&session, 0, 0, Bytes::from_static(b"record")).await.unwrap();
        }
        // As many openings as there can be, all of them before the last.
        let mut data = ControlData::decode(&control.load().await.unwrap()).unwrap();
        let last = data.incarnations.pop().unwrap();
        let more = std::iter::repeat_n(last, INCARNATIONS_MAX - data.incarnations.len());
        data.incarnations.extend(more);
        control.store(data.encode()).await.unwrap();
        let start = || Recovery::start(opening(&runtime, &control, &media));
        let refused = start().await.unwrap().open().await.err();
        assert!(matches!(refused, Some(Error::TooManyOpenings { .. })), "{refused:?}");
        let mut recovery = start().await.unwrap();
        let mut end = None;
        while let Some(record) = recovery.next().await.unwrap() {
            end = Some(record.lsn);
        }
        recovery.set_checkpoint(end.unwrap()).unwrap();
        let (log, report) = recovery.open().await.unwrap();
        assert_eq!(report.records, 2);
        log.close().await.unwrap();
        assert_eq!(open(&runtime, &control, &media).await.1, 1);
    });
}
