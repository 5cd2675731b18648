//! Models of devices that say that their sectors have 512 bytes, for tests and for the benchmark, which
//! has this file too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;
use cellar_io::shape::{Shaped, parse};
use cellar_io::sim::{Sim, SimDiskOptions};
use cellar_io::{Buffer, Device, Discard, Durability, Geometry, Io, IoFuture, SharedEnv};

/// When a write costs what it can cost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum When {
    Always,
    /// By chance, every other time.
    Half,
    /// When its page is not that of the write before, which the device still has in memory.
    OtherPage,
    /// When it covers a page of 4096 in part.
    InPart,
    /// In phases of 30 ms that come by chance: what else runs on the machine.
    Phases,
}

/// Its name, what a write costs where it is dear, what it costs else, and when it is dear.
pub type Model = (&'static str, &'static str, &'static str, When);

pub const MODELS: [Model; 19] = [
    ("pages 10 us", "1GB/s,60us,page:4096/10us", "", When::Always),
    ("pages 100 us", "1GB/s,60us,page:4096/100us", "", When::Always),
    ("pages 1 ms", "1GB/s,60us,page:4096/1ms", "", When::Always),
    ("no pages", "1GB/s,60us", "", When::Always),
    ("4 MB/s", "4MB/s,60us", "", When::Always),
    ("40 MB/s, pages 80 us", "40MB/s,60us,page:4096/80us", "", When::Always),
    ("late, pages 30 us", "1GB/s,60us,page:4096/30us,late:1%/20ms", "", When::Always),
    ("late, no pages", "1GB/s,60us,late:1%/20ms", "", When::Always),
    ("half of pages 100 us", "1GB/s,60us,page:4096/100us", "1GB/s,60us", When::Half),
    ("half of pages 20 us", "1GB/s,60us,page:4096/20us", "1GB/s,60us", When::Half),
    ("first of page 200 us", "1GB/s,60us,page:4096/200us", "1GB/s,60us", When::OtherPage),
    ("part of page in turn", "1GB/s,60us,qd1", "1GB/s,60us", When::InPart),
    ("phases, pages 30 us", "1GB/s,2ms,page:4096/1ms", "1GB/s,60us,page:4096/30us", When::Phases),
    ("phases, no pages", "1GB/s,2ms", "1GB/s,60us", When::Phases),
    ("half 1 ms, no pages", "1GB/s,1ms", "1GB/s,60us", When::Half),
    ("5 ms", "1GB/s,5ms", "", When::Always),
    ("5 ms, pages 1 ms", "1GB/s,5ms,page:4096/1ms", "", When::Always),
    ("5 ms, pages 100 us", "1GB/s,5ms,page:4096/100us", "", When::Always),
    ("seek 5 ms, pages 300 us", "150MB/s,200us,seek:5ms,page:4096/300us", "", When::Always),
];

/// A device that is one of two for each write.
struct Modelled {
    dear: Shaped,
    cheap: Shaped,
    env: SharedEnv,
    when: When,
    page: AtomicU64,
}

impl Modelled {
    fn is_dear(&self, at: u64, bytes: u64) -> bool {
        let last = self.page.swap((at + bytes - 1) / 4096, Relaxed);
        match self.when {
            When::Always => true,
            When::Half => self.env.random().is_multiple_of(2),
            When::OtherPage => last != at / 4096,
            When::InPart => !(at | bytes).is_multiple_of(4096),
            When::Phases => {
                let phase = self.env.now().0 / 30_000_000;
                (phase + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 63 == 1
            }
        }
    }
}

impl Device for Modelled {
    fn geometry(&self) -> Geometry {
        self.dear.geometry()
    }
    fn read(&self, io: Io, at: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        self.dear.read(io, at, buffers)
    }
    fn write(&self, io: Io, at: u64, data: Vec<Bytes>, how: Durability) -> IoFuture<'_, ()> {
        let bytes: usize = data.iter().map(Bytes::len).sum();
        let disk = if self.is_dear(at, bytes as u64) { &self.dear } else { &self.cheap };
        disk.write(io, at, data, how)
    }
    fn flush(&self, io: Io) -> IoFuture<'_, ()> {
        self.dear.flush(io)
    }
    fn discard(&self, io: Io, at: u64, length: u64, how: Discard) -> IoFuture<'_, ()> {
        self.dear.discard(io, at, length, how)
    }
}

/// Puts a model in front of a device.
pub fn modelled(inner: &Arc<dyn Device>, env: &SharedEnv, model: Model) -> Arc<dyn Device> {
    let (_, dear, cheap, when) = model;
    let shaped = |words: &str| {
        let options = if words.is_empty() { Default::default() } else { parse(words).unwrap() };
        Shaped::new(Arc::clone(inner), Arc::clone(env), options)
    };
    let (dear, cheap) = (shaped(dear), shaped(cheap));
    Arc::new(Modelled { dear, cheap, env: Arc::clone(env), when, page: AtomicU64::new(0) })
}

/// A disk in memory that takes no time itself.
pub fn in_memory(sim: &Sim, size: u64) -> Arc<dyn Device> {
    let options = SimDiskOptions {
        size,
        physical_sector: 512,
        latency_ns_min: 0,
        latency_ns_max: 0,
        queue: 0,
        volatile_cache: false,
        ..SimDiskOptions::default()
    };
    sim.disk("model", options)
}
