//! One slow or stuck leg: its effect on readers and writers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cellar_diskgroup::{FoundDisk, Group, MountOptions, OnlineHow, Redundancy};
use cellar_io::shape::ShapeOptions;
use cellar_io::{
    Buffer, Device, DeviceExt, Discard, Durability, EnvExt, Geometry, Io, IoFuture, SharedEnv,
};
use cellar_wait::{Kind, Waits};

use crate::Options;
use crate::moves::{CLIENTS, shape};
use crate::report::Report;
use crate::rig::{Backing, Place, Rig, SPARE, noise};

/// A device that does not answer while it is stuck.
struct Stuck {
    inner: Arc<dyn Device>,
    env: SharedEnv,
    stuck: Arc<AtomicBool>,
}

impl Stuck {
    async fn pass<T>(&self, request: IoFuture<'_, T>) -> Result<T, cellar_io::IoError> {
        while self.stuck.load(Ordering::SeqCst) {
            self.env.sleep(Duration::from_millis(20)).await;
        }
        request.await
    }
}

impl Device for Stuck {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, io: Io, offset: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        Box::pin(self.pass(self.inner.read(io, offset, buffers)))
    }

    fn write(
        &self,
        io: Io,
        offset: u64,
        data: Vec<Bytes>,
        durability: Durability,
    ) -> IoFuture<'_, ()> {
        Box::pin(self.pass(self.inner.write(io, offset, data, durability)))
    }

    fn flush(&self, io: Io) -> IoFuture<'_, ()> {
        Box::pin(self.pass(self.inner.flush(io)))
    }

    fn discard(&self, io: Io, offset: u64, length: u64, how: Discard) -> IoFuture<'_, ()> {
        Box::pin(self.pass(self.inner.discard(io, offset, length, how)))
    }
}

/// Reads of 4 KB a second.
fn reads(rig: &Rig, file: &cellar_diskgroup::File, seconds: u64) -> f64 {
    let (blocks, file) = (file.size() / 4096, file.clone());
    let load = rig.drive(CLIENTS, seconds, move |random| {
        let file = file.clone();
        async move {
            file.read_at(Io::FOREGROUND, random % blocks * 4096, 4096).await.unwrap();
        }
    });
    load.iops()
}

fn mount(rig: &Rig, devices: Vec<(Arc<dyn Device>, String)>) -> Group {
    let found = devices.into_iter().map(|(device, path)| FoundDisk { device, path }).collect();
    let session = Waits::new().session("group BENCH", Kind::Background);
    let options = MountOptions::default();
    let env = rig.env();
    let mounted = Group::mount(&env, session, "BENCH", found, options);
    rig.runtime.block_on(mounted).unwrap()
}

/// Two disks, and a file with a copy on each.
pub fn run(options: &Options, report: &mut Report) {
    let bytes = options.bytes(256 << 20);
    let rig = Rig::new();
    let backings: Vec<Backing> = (0..2)
        .map(|i| Backing::written(&options.dir, &format!("disk{i}"), bytes + SPARE))
        .collect();
    let place = Place {
        disks: backings.iter().map(Backing::path).collect(),
        redundancy: Redundancy::Normal,
        bytes: None,
        shape: None,
    };
    let group = rig.group(&place);
    drop(rig.file(&group, "f", bytes, true));
    rig.runtime.block_on(group.dismount()).unwrap();
    slow(options, report, &rig, &backings);
    stuck(report, &rig, &backings);
}

/// One leg of 2,000 requests a second, the other of 100: compared with the first one alone.
fn slow(options: &Options, report: &mut Report, rig: &Rig, backings: &[Backing]) {
    let limped = ShapeOptions { iops: 100, ..shape() };
    let device = |i: usize| {
        let shape = if i == 0 { shape() } else { limped };
        rig.open_shaped(&backings[i].path(), shape)
    };
    let group = mount(rig, (0..2).map(|i| (device(i), backings[i].path())).collect());
    let file = group.open("f").unwrap();
    let (mut both, mut alone, mut first) = (vec![], vec![], vec![]);
    let name = group.disks()[1].name.clone();
    for _ in 0..options.rounds {
        // Until the slow leg is detected; these reads count as the cost of detection.
        first.push(reads(rig, &file, 5));
        assert!(group.disks()[1].slow, "known after 5 s");
        both.push(reads(rig, &file, options.seconds.max(5)));
        rig.runtime.block_on(group.offline_disks(std::slice::from_ref(&name), None)).unwrap();
        alone.push(reads(rig, &file, options.seconds.max(5)));
        group.close_disk(&name);
        let found = FoundDisk { device: device(1), path: backings[1].path() };
        rig.runtime.block_on(async {
            group.online_disk(&name, found, OnlineHow::default()).await.unwrap();
            group.wait_returned().await.unwrap();
        });
    }
    let arm = format!("reads of 4 KB, {CLIENTS} clients");
    report.arm(&arm, "a leg of 100/s, its first 5 s", "/s", &first);
    let (both, alone) = (
        report.arm(&arm, "a leg of 100/s", "/s", &both),
        report.arm(&arm, "the healthy leg alone", "/s", &alone),
    );
    report.at_least("reads beside a slow leg over the healthy leg", both / alone, 0.95);
    drop(file);
    rig.runtime.block_on(group.dismount()).unwrap();
}

/// A leg that does not answer: the time of a write, and of a read.
fn stuck(report: &mut Report, rig: &Rig, backings: &[Backing]) {
    let stuck = Arc::new(AtomicBool::new(false));
    let device = |i: usize| -> Arc<dyn Device> {
        let inner = rig.open(&backings[i].path());
        if i == 0 {
            return inner;
        }
        Arc::new(Stuck { inner, env: rig.env(), stuck: Arc::clone(&stuck) })
    };
    let group = mount(rig, (0..2).map(|i| (device(i), backings[i].path())).collect());
    let file = group.open("f").unwrap();
    reads(rig, &file, 2);
    stuck.store(true, Ordering::SeqCst);
    let data = noise(4096);
    let read = async {
        let mut longest = 0f64;
        for i in 0..200u64 {
            let start = rig.env().now();
            file.read_at(Io::FOREGROUND, (1 << 20) + i * 4096, 4096).await.unwrap();
            longest = longest.max(rig.env().now().since(start).as_secs_f64());
        }
        longest
    };
    let start = rig.env().now();
    let write = async {
        file.write_at(Io::FOREGROUND, 0, data, Durability::Durable).await.unwrap();
        rig.env().now().since(start).as_secs_f64()
    };
    let (read, write) = rig.runtime.block_on(futures_util::future::join(read, write));
    report.arm("the longest read while a leg is stuck", "cellar", "s", &[read]);
    report.arm("a durable write to a stuck leg", "cellar", "s", &[write]);
    report.at_most("the longest read, s", read, 1.0);
    report.at_most("the write, s (disk_detach_timeout is 10 s)", write, 11.0);
    stuck.store(false, Ordering::SeqCst);
    drop(file);
    rig.runtime.block_on(group.dismount()).unwrap();
}
