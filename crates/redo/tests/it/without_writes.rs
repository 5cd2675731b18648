//! Recoveries that write nothing: they give the records that another one would, whatever a crash has left, and read
//! no further ahead of whoever asks than they must.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use cellar_io::sim::Rng;
use cellar_io::{Buffer, Device, Discard, Durability, Geometry, Io, IoFuture};
use cellar_redo::{Control, Error, Medium, OpenLog, Record, Recovery};

use crate::support::{Rig, Shape};

/// What was asked of all media and of the control data.
#[derive(Default)]
struct Asked {
    /// Writes, flushes, discards; control data that were stored.
    changes: AtomicU64,
    bytes_read: AtomicU64,
}

/// A file, or control data, of which it is counted what is asked of it.
struct Counted<T: ?Sized> {
    of: Arc<T>,
    asked: Arc<Asked>,
}

impl<T: ?Sized> Counted<T> {
    fn note_change(&self) {
        self.asked.changes.fetch_add(1, Ordering::Relaxed);
    }
}

impl Device for Counted<dyn Device> {
    fn geometry(&self) -> Geometry {
        self.of.geometry()
    }

    fn read(&self, io: Io, offset: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        let bytes: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        self.asked.bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
        self.of.read(io, offset, buffers)
    }

    fn write(&self, io: Io, offset: u64, data: Vec<Bytes>, how: Durability) -> IoFuture<'_, ()> {
        self.note_change();
        self.of.write(io, offset, data, how)
    }

    fn flush(&self, io: Io) -> IoFuture<'_, ()> {
        self.note_change();
        self.of.flush(io)
    }

    fn discard(&self, io: Io, offset: u64, length: u64, how: Discard) -> IoFuture<'_, ()> {
        self.note_change();
        self.of.discard(io, offset, length, how)
    }
}

impl Control for Counted<dyn Control> {
    fn load(&self) -> IoFuture<'_, Vec<u8>> {
        self.of.load()
    }

    fn store(&self, bytes: Vec<u8>) -> IoFuture<'_, ()> {
        self.note_change();
        self.of.store(bytes)
    }
}

/// As the rig opens its log, and counted.
fn counted(rig: &Rig, asked: &Arc<Asked>) -> OpenLog {
    let file = |(group, of): (u32, Arc<dyn Device>)| {
        let counted: Arc<dyn Device> = Arc::new(Counted { of, asked: Arc::clone(asked) });
        (group, counted)
    };
    let medium = |Medium { name, files }: Medium| {
        let files: BTreeMap<_, _> = files.into_iter().map(file).collect();
        Medium { name, files }
    };
    let mut spec = rig.spec(rig.media().into_iter().map(medium).collect(), false);
    spec.control = Arc::new(Counted { of: spec.control, asked: Arc::clone(asked) });
    spec
}

/// All records and the end, or why there is none.
async fn read(recovery: &mut Recovery) -> (Vec<Record>, Result<u64, String>) {
    let mut records = Vec::new();
    loop {
        match recovery.next().await {
            Ok(Some(record)) => records.push(record),
            Ok(None) => return (records, Ok(recovery.end().0)),
            Err(error) => return (records, Err(error.to_string())),
        }
    }
}

/// All that is on the disks.
fn content(rig: &Rig) -> Vec<Vec<u8>> {
    let disks = rig.disks.iter().chain([&rig.control_disk]);
    disks.map(|disk| disk.peek(0, disk.geometry().size)).collect()
}

/// Commits until the power goes, and does something to copies of what there is.
fn live(rig: &Rig, rng: &mut Rng) {
    rig.disks.iter().for_each(|disk| disk.tear_sectors(rng.coin()));
    rig.run(async { rig.create().await.unwrap() });
    rig.sim.crash_after(rng.within(30..=900));
    rig.run(async {
        let Ok((log, ..)) = rig.open().await else { return };
        let session = rig.session();
        for number in 0u64.. {
            let body = Bytes::from(vec![number as u8; rng.within(0..=1500) as usize]);
            let Ok(done) = log.commit(&session, number as u8, 0, body).await else { return };
            // There is always room for more.
            if number % 16 == 15 && log.set_checkpoint(done.lsn).await.is_err() {
                return;
            }
        }
    });
    rig.sim.crash();
    rig.sim.crash_never();
    rig.sim.restart();
    let blocks = rig.shape.file_size() * u64::from(rig.shape.groups) / 512;
    for _ in 0..rng.below(6) {
        let disk = &rig.disks[rng.below(rig.disks.len() as u64) as usize];
        let at = rng.below(blocks) * 512;
        match rng.below(3) {
            0 => disk.corrupt(at, 512),
            1 => disk.poke(at, &[0; 2048]),
            _ => disk.fail_reads_until_written(at..at + 512),
        }
    }
}

#[test]
fn they_give_what_another_recovery_gives_and_change_nothing() {
    let (mut whole, mut refused, mut repaired, mut all) = (0, 0, 0, 0);
    for seed in 0..250 {
        let mut rng = Rng::stream(seed, 5);
        let media = rng.within(1..=3) as usize;
        let rig = Rig::new(seed, Shape { media, ..Shape::default() });
        live(&rig, &mut rng);
        let before = content(&rig);
        rig.run(async {
            let asked = Arc::default();
            let recovery = Recovery::start(counted(&rig, &asked)).await.unwrap();
            let mut recovery = recovery.without_writes();
            let found = read(&mut recovery).await;
            let error = recovery.open().await.err().unwrap();
            assert!(matches!(error, Error::Stopped { .. }), "seed {seed}: {error}");
            assert_eq!(asked.changes.load(Ordering::Relaxed), 0, "seed {seed}");
            assert!(content(&rig) == before, "seed {seed}");
            let mut other = Recovery::start(counted(&rig, &asked)).await.unwrap();
            assert!(read(&mut other).await == found, "seed {seed}");
            all += found.0.len();
            if found.1.is_err() {
                refused += 1;
                return;
            }
            whole += 1;
            let (_, report) = other.open().await.unwrap();
            repaired += report.repaired;
            assert!(asked.changes.load(Ordering::Relaxed) > 0, "it counts");
        });
    }
    println!("{whole} whole, {refused} refused, {repaired} repaired, {all} records");
    assert!(whole > 150 && refused > 5 && repaired > 200 && all > 1000);
}

#[test]
fn they_read_no_further_ahead_than_a_few_pieces() {
    let rig = Rig::new(1, Shape { blocks: 40_000, media: 2, ..Shape::default() });
    rig.run(async {
        rig.create().await.unwrap();
        let (log, ..) = rig.open().await.unwrap();
        let session = rig.session();
        for number in 0..600u64 {
            let body = Bytes::from(vec![number as u8; 50_000]);
            log.append(&session, 0, 0, body).await.unwrap();
        }
        log.close().await.unwrap();
        // One medium has nothing of it: all of it would be repaired.
        let size = rig.shape.file_size();
        for group in 0..u64::from(rig.shape.groups) {
            let zeros = vec![0; size as usize - 8192];
            rig.disks[1].poke(group * size + 4096, &zeros);
        }
        let asked = Arc::<Asked>::default();
        let recovery = Recovery::start(counted(&rig, &asked)).await.unwrap();
        let (mut recovery, mut bytes, mut most) = (recovery.without_writes(), 0, 0);
        while let Some(record) = recovery.next().await.unwrap() {
            bytes += record.body.len() as u64;
            most = most.max(asked.bytes_read.load(Ordering::Relaxed).saturating_sub(2 * bytes));
        }
        assert_eq!(bytes, 600 * 50_000);
        // Of each medium four pieces of 1 MB, and what headers of blocks take.
        assert!(most < 2 * (5 << 20) + bytes / 5, "{most} bytes ahead");
        assert_eq!(asked.changes.load(Ordering::Relaxed), 0);
    })
    .unwrap();
}
