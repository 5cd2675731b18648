//! The laws that every [`Device`] keeps, as one call: [`check_device`].
//!
//! A law that is broken panics with a sentence that names it. The content of the device is
//! overwritten in a window of at most 16 MiB.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{join, join_all};

use crate::buffer::Buffer;
use crate::device::{Device, DeviceExt, Discard, Durability, Geometry, Io, IoFuture};
use crate::env::{EnvExt, SharedEnv};
use crate::error::{IoError, IoErrorKind};
use crate::sim::Rng;

const WINDOW_MAX: u64 = 16 << 20;
const BIG: u64 = 4 << 20;
/// How long a request that nobody waits for may still take.
const SETTLE: Duration = Duration::from_millis(50);
/// Rounds that sleep: enough to meet a request at each stage, few enough for a real disk.
const ROUNDS_WITH_SLEEP: u32 = 4;

/// Checks `device` against every law, `rounds` times with other places and sizes. `seed` decides
/// them. Nobody else may write to the device meanwhile.
///
/// # Panics
/// With the name of the law, when one is broken.
pub async fn check_device(env: &SharedEnv, device: Arc<dyn Device>, seed: u64, rounds: u32) {
    let geometry = device.geometry();
    check_geometry(&geometry);
    let mut check = Check::begin(env, device, geometry, seed).await;
    check.empty_requests().await;
    check.wrong_requests().await;
    for round in 0..rounds {
        check.reads_see_writes().await;
        check.vectored_is_flat().await;
        check.last_write_wins().await;
        check.durable_and_flush().await;
        check.discards().await;
        check.disjoint_at_once().await;
        check.overlapping_at_once().await;
        if round < ROUNDS_WITH_SLEEP {
            check.dropped_in_flight().await;
        }
    }
    check.big().await;
    check.wrong_requests().await;
    check.whole("at the end everything is as it was written").await;
}

fn check_geometry(geometry: &Geometry) {
    let Geometry { size, logical_sector: logical, physical_sector: physical, .. } = *geometry;
    assert!(
        [512, 4096].contains(&logical),
        "law geometry: a logical sector is 512 or 4096 bytes, not {logical}"
    );
    assert!(
        physical >= logical && physical.is_power_of_two(),
        "law geometry: a physical sector ({physical}) is a power of two and at least logical"
    );
    assert!(
        size.is_multiple_of(u64::from(logical)) && size >= 16 * u64::from(physical),
        "law geometry: the size ({size}) is a multiple of the logical sector, and 16 physical ones"
    );
    assert!(!geometry.name.is_empty(), "law geometry: a device has a name");
}

/// A device and what its window must hold.
struct Check {
    env: SharedEnv,
    device: Arc<dyn Device>,
    geometry: Geometry,
    sector: u64,
    rng: Rng,
    /// Where the window starts on the device.
    base: u64,
    model: Vec<u8>,
}

const IO: Io = Io::FOREGROUND;

fn ok<T>(law: &str, result: Result<T, IoError>) -> T {
    result.unwrap_or_else(|error| panic!("law {law}: a legal request failed: {error}"))
}

impl Check {
    async fn begin(
        env: &SharedEnv,
        device: Arc<dyn Device>,
        geometry: Geometry,
        seed: u64,
    ) -> Check {
        let mut rng = Rng::new(seed);
        let sector = u64::from(geometry.logical_sector);
        let length = geometry.size.min(WINDOW_MAX);
        let base = match rng.below(3) {
            0 => 0,
            1 => geometry.size - length,
            _ => rng.within(0..=(geometry.size - length) / sector) * sector,
        };
        let first = device.read_at(IO, base, length as usize).await;
        let model = ok("a device can be read", first).to_vec();
        Check { env: Arc::clone(env), sector, device, geometry, rng, base, model }
    }

    /// A random range of the window: (offset in it, length), of at most `sectors`, at least one.
    fn range(&mut self, sectors: u64) -> (u64, u64) {
        let all = self.model.len() as u64 / self.sector;
        let count = self.rng.within(1..=sectors.min(all));
        let start = self.rng.within(0..=all - count);
        (start * self.sector, count * self.sector)
    }

    /// Random bytes, at an address that is aligned to nothing.
    fn data(&mut self, length: u64) -> Bytes {
        let skew = self.rng.below(64) as usize;
        let mut bytes = vec![0; skew + length as usize];
        self.rng.fill(&mut bytes);
        Bytes::from(bytes).slice(skew..)
    }

    /// Cuts `data` into slices of whole sectors.
    fn slices(&mut self, mut data: Bytes, most: u64) -> Vec<Bytes> {
        let mut slices = Vec::new();
        while !data.is_empty() {
            let count = self.rng.within(1..=most) * self.sector;
            slices.push(data.split_to((count as usize).min(data.len())));
        }
        slices
    }

    fn expect(&mut self, at: u64, data: &[u8]) {
        self.model[at as usize..at as usize + data.len()].copy_from_slice(data);
    }

    fn write(&self, at: u64, data: Vec<Bytes>, durability: Durability) -> IoFuture<'_, ()> {
        self.device.write(IO, self.base + at, data, durability)
    }

    /// The range and two sectors on either side are what the model says.
    async fn compare(&self, law: &str, at: u64, length: u64) {
        let start = at.saturating_sub(2 * self.sector);
        let end = (at + length + 2 * self.sector).min(self.model.len() as u64);
        let read = self.device.read_at(IO, self.base + start, (end - start) as usize).await;
        let seen = ok(law, read);
        let want = &self.model[start as usize..end as usize];
        if let Some(wrong) = seen.iter().zip(want).position(|(a, b)| a != b) {
            panic!(
                "law {law}: byte {} of {} is {}, not {}",
                self.base + start + wrong as u64,
                self.geometry.name,
                seen[wrong],
                want[wrong],
            );
        }
    }

    async fn whole(&self, law: &str) {
        self.compare(law, 0, self.model.len() as u64).await;
    }

    async fn reads_see_writes(&mut self) {
        let (at, length) = self.range(64);
        let data = self.data(length);
        let law = "a read sees every completed write";
        ok(law, self.write(at, vec![data.clone()], Durability::Cached).await);
        self.expect(at, &data);
        self.compare(law, at, length).await;
    }

    async fn vectored_is_flat(&mut self) {
        let law = "a vectored request is the flat request";
        let (at, length) = self.range(96);
        let data = self.data(length);
        let slices = self.slices(data.clone(), 9);
        ok(law, self.write(at, slices, Durability::Cached).await);
        self.expect(at, &data);
        self.compare(law, at, length).await;
        let cut = self.slices(data.clone(), 9);
        let lengths: Vec<usize> = cut.iter().map(Bytes::len).collect();
        let buffers = lengths.iter().map(|length| Buffer::new(*length)).collect();
        let read = ok(law, self.device.read(IO, self.base + at, buffers).await);
        let given: Vec<usize> = read.iter().map(|buffer| buffer.len()).collect();
        assert_eq!(
            given, lengths,
            "law {law}: a read gives back the buffers it was given, in order"
        );
        assert!(
            read.iter().flat_map(|buffer| buffer.iter()).eq(data.iter()),
            "law {law}: the pieces of a read hold other bytes than were written"
        );
    }

    async fn last_write_wins(&mut self) {
        let law = "of two writes one after the other the last wins";
        let (at, length) = self.range(32);
        for _ in 0..3 {
            let count = self.rng.within(1..=length / self.sector);
            let from = self.rng.within(0..=length / self.sector - count);
            let data = self.data(count * self.sector);
            let place = at + from * self.sector;
            ok(law, self.write(place, vec![data.clone()], Durability::Cached).await);
            self.expect(place, &data);
        }
        self.compare(law, at, length).await;
    }

    async fn durable_and_flush(&mut self) {
        let law = "durable writes and flushes change nothing that is read";
        for durability in [Durability::Cached, Durability::Durable] {
            let (at, length) = self.range(16);
            let data = self.data(length);
            ok(law, self.write(at, vec![data.clone()], durability).await);
            self.expect(at, &data);
            if durability == Durability::Cached {
                ok(law, self.device.flush(IO).await);
            }
            self.compare(law, at, length).await;
        }
    }

    /// A range that was written, with its neighbours: on zeros a zeroing could not be seen.
    async fn filled_range(&mut self, law: &str) -> (u64, u64) {
        let (at, length) = self.range(64);
        let start = at.saturating_sub(2 * self.sector);
        let end = (at + length + 2 * self.sector).min(self.model.len() as u64);
        let data = self.data(end - start);
        let write = self.write(start, vec![data.clone()], Durability::Cached);
        ok(law, write.await);
        self.expect(start, &data);
        (at, length)
    }

    async fn discards(&mut self) {
        let law = "a zeroed range reads as zeros and its neighbours stay";
        let (at, length) = self.filled_range(law).await;
        let zeroed = self.device.discard(IO, self.base + at, length, Discard::Zero);
        ok(law, zeroed.await);
        self.expect(at, &vec![0; length as usize]);
        self.compare(law, at, length).await;

        let law = "forgetting a range leaves its neighbours";
        let (at, length) = self.filled_range(law).await;
        let forgotten = self.device.discard(IO, self.base + at, length, Discard::Forget);
        ok(law, forgotten.await);
        let data = self.data(length);
        ok(law, self.write(at, vec![data.clone()], Durability::Cached).await);
        self.expect(at, &data);
        self.compare(law, at, length).await;
    }

    async fn disjoint_at_once(&mut self) {
        let law = "disjoint requests at once do not disturb each other";
        let all = self.model.len() as u64 / self.sector;
        let each = self.rng.within(1..=(all / 24).clamp(1, 32)) * self.sector;
        let places: Vec<u64> = (0..24.min(all)).map(|i| i * each).collect();
        let data: Vec<Bytes> = places.iter().map(|_| self.data(each)).collect();
        // Every other one is written, the others read meanwhile.
        let old = self.model.clone();
        let writes = join_all(
            places
                .iter()
                .zip(&data)
                .step_by(2)
                .map(|(at, data)| self.write(*at, vec![data.clone()], Durability::Cached)),
        );
        let reads = join_all(places.iter().skip(1).step_by(2).map(|at| async {
            let place = self.base + *at;
            let read = self.device.read_at(IO, place, each as usize).await;
            (*at, ok(law, read))
        }));
        let (written, read) = join(writes, reads).await;
        for result in written {
            ok(law, result);
        }
        for (at, seen) in read {
            assert!(
                seen[..] == old[at as usize..(at + each) as usize],
                "law {law}: a read beside writes saw other bytes"
            );
        }
        for (at, data) in places.iter().zip(&data).step_by(2) {
            self.expect(*at, data);
        }
        self.compare(law, 0, 24 * each).await;
    }

    async fn overlapping_at_once(&mut self) {
        let law = "of two writes at once each sector is wholly one of them";
        let (at, length) = self.range(16);
        let data = [self.data(length), self.data(length)];
        let writes = data.iter().map(|data| self.write(at, vec![data.clone()], Durability::Cached));
        for result in join_all(writes).await {
            ok(law, result);
        }
        let read = self.device.read_at(IO, self.base + at, length as usize);
        let seen = ok(law, read.await);
        let sector = self.sector as usize;
        for (index, found) in seen.chunks(sector).enumerate() {
            let range = index * sector..(index + 1) * sector;
            assert!(
                data.iter().any(|data| data[range.clone()] == *found),
                "law {law}: sector {index} is neither"
            );
        }
        self.expect(at, &seen);
        self.compare(law, at, length).await;
    }

    async fn dropped_in_flight(&mut self) {
        let law = "a future dropped in flight does no harm";
        let (at, length) = self.range(32);
        let data = self.data(length);
        poll_once_and_drop(self.write(at, vec![data], Durability::Cached)).await;
        let count = self.model.len().min(256 << 10);
        let read = self.device.read(IO, self.base, vec![Buffer::new(count)]);
        poll_once_and_drop(read).await;
        // Memory of the dropped read must not be handed out while the device may still fill it.
        let mine: Vec<Buffer> = (0..8)
            .map(|i| {
                let mut buffer = Buffer::new(256 << 10);
                buffer.fill(0xA0 | i);
                buffer
            })
            .collect();
        self.env.sleep(SETTLE).await;
        for (buffer, i) in mine.iter().zip(0u8..) {
            assert!(
                buffer.iter().all(|byte| *byte == 0xA0 | i),
                "law {law}: a dropped read wrote into memory that was handed out again"
            );
        }
        // The write happened, or not, or in part: from here on it must stay as it is.
        let read = self.device.read_at(IO, self.base + at, length as usize);
        let seen = ok(law, read.await);
        self.expect(at, &seen);
        self.compare(law, at, length).await;
    }

    async fn big(&mut self) {
        let law = "a request of 4 MiB is done whole";
        let length = BIG.min(self.model.len() as u64);
        let room = (self.model.len() as u64 - length) / self.sector;
        let at = self.rng.within(0..=room) * self.sector;
        let data = self.data(length);
        let slices = self.slices(data.clone(), 64);
        ok(law, self.write(at, slices, Durability::Cached).await);
        self.expect(at, &data);
        self.compare(law, at, length).await;
        let data = self.data(length);
        ok(law, self.write(at, vec![data.clone()], Durability::Durable).await);
        self.expect(at, &data);
        self.compare(law, at, length).await;
    }

    async fn empty_requests(&mut self) {
        let law = "a request of no bytes succeeds and touches nothing";
        let read = ok(law, self.device.read(IO, self.base, Vec::new()).await);
        assert!(read.is_empty(), "law {law}: no buffer in, no buffer out");
        let read = self.device.read(IO, self.base, vec![Buffer::new(0)]).await;
        assert_eq!(ok(law, read).len(), 1, "law {law}: one in, one out");
        ok(law, self.write(0, Vec::new(), Durability::Cached).await);
        ok(law, self.write(0, vec![Bytes::new()], Durability::Durable).await);
        for how in [Discard::Zero, Discard::Forget] {
            ok(law, self.device.discard(IO, self.base, 0, how).await);
        }
        ok(law, self.device.flush(IO).await);
        self.compare(law, 0, self.sector).await;
    }

    async fn wrong_requests(&mut self) {
        let law = "a wrong request is refused and touches nothing";
        let (size, sector) = (self.geometry.size, self.sector);
        let wrong = [
            (self.base + 1, sector),
            (self.base + sector / 2, sector),
            (self.base, sector - 1),
            (self.base, sector + 256),
            (size, sector),
            (size - sector, 2 * sector),
            (size + sector, sector),
            (u64::MAX - (sector - 1), sector),
            (u64::MAX / sector * sector, 2 * sector),
        ];
        for (index, (offset, length)) in wrong.into_iter().enumerate() {
            let aligned = offset.is_multiple_of(sector) && length.is_multiple_of(sector);
            let data = vec![Bytes::from(vec![0xEE; length as usize])];
            let buffers = vec![Buffer::new(length as usize)];
            let device = &self.device;
            let results = [
                device.read(IO, offset, buffers).await.map(drop),
                device.write(IO, offset, data, Durability::Durable).await,
                device.discard(IO, offset, length, Discard::Zero).await,
                device.discard(IO, offset, length, Discard::Forget).await,
            ];
            for result in results {
                let kind = result.map_err(|error| error.kind);
                let named = match &kind {
                    Err(IoErrorKind::Misaligned { .. }) => !aligned,
                    Err(IoErrorKind::OutOfRange { .. }) => aligned,
                    _ => false,
                };
                assert!(
                    named,
                    "law {law}: request {index}, {length} bytes at {offset}, answered {kind:?}"
                );
            }
        }
        self.whole(law).await;
    }
}

/// Starts a request and loses interest.
async fn poll_once_and_drop<T>(mut future: IoFuture<'_, T>) {
    poll_fn(|cx| {
        let _ = future.as_mut().poll(cx);
        Poll::Ready(())
    })
    .await;
}
