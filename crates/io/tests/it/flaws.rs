//! The laws have teeth: a device with one flaw breaks the law that names it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use cellar_io::laws::check_device;
use cellar_io::sim::{Sim, SimDisk, SimDiskOptions};
use cellar_io::{Buffer, Device, Discard, Durability, Geometry, Io, IoError, IoFuture};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Flaw {
    None,
    OddSector,
    StaleRead,
    BuffersJoined,
    SlicesSwapped,
    LostWrite,
    MisalignedAccepted,
    EndAccepted,
    EmptyRefused,
    ZeroDoesNothing,
    ForgetTooMuch,
    DurableLost,
    ReadsReversed,
    BigCutShort,
}

struct Flawed {
    disk: Arc<SimDisk>,
    flaw: Flaw,
    count: AtomicU32,
}

impl Flawed {
    fn legal(&self, offset: u64, length: usize) -> bool {
        let room = self.disk.geometry().size.saturating_sub(offset);
        (offset | length as u64).is_multiple_of(512) && length as u64 <= room
    }

    fn sometimes(&self) -> bool {
        self.count.fetch_add(1, Ordering::Relaxed) % 7 == 6
    }
}

impl Device for Flawed {
    fn geometry(&self) -> Geometry {
        let mut geometry = self.disk.geometry();
        if self.flaw == Flaw::OddSector {
            geometry.logical_sector = 1024;
        }
        geometry
    }

    fn read(&self, io: Io, offset: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        Box::pin(async move {
            let lengths: Vec<usize> = buffers.iter().map(|b| b.len()).collect();
            let mut read = self.disk.read(io, offset, buffers).await?;
            match self.flaw {
                Flaw::StaleRead if self.sometimes() => read.iter_mut().for_each(|b| b.fill(0)),
                Flaw::BuffersJoined if read.len() > 1 => {
                    let all: Vec<u8> = read.iter().flat_map(|b| b.to_vec()).collect();
                    read = vec![Buffer::copy_of(&all, all.len())];
                }
                Flaw::ReadsReversed if lengths.len() > 1 => {
                    let all: Vec<Vec<u8>> = read.iter().map(|b| b.to_vec()).collect();
                    let rotated = all.concat();
                    let mut at = 512;
                    for buffer in &mut read {
                        for byte in buffer.iter_mut() {
                            *byte = rotated[at % rotated.len()];
                            at += 1;
                        }
                    }
                }
                _ => {}
            }
            Ok(read)
        })
    }

    fn write(
        &self,
        io: Io,
        offset: u64,
        mut data: Vec<Bytes>,
        durability: Durability,
    ) -> IoFuture<'_, ()> {
        let total: usize = data.iter().map(Bytes::len).sum();
        match self.flaw {
            Flaw::SlicesSwapped if data.len() > 1 => data.reverse(),
            Flaw::LostWrite if self.sometimes() => self.disk.lose_next_write(),
            Flaw::DurableLost if durability == Durability::Durable && self.legal(offset, total) => {
                return Box::pin(async { Ok(()) });
            }
            Flaw::MisalignedAccepted if !offset.is_multiple_of(512) => {
                return self.write(io, offset / 512 * 512, data, durability);
            }
            Flaw::EndAccepted if offset == self.disk.geometry().size => {
                return Box::pin(async { Ok(()) });
            }
            Flaw::EmptyRefused if total == 0 => {
                return Box::pin(async move {
                    let geometry = self.disk.geometry();
                    let kind = cellar_io::IoErrorKind::Media;
                    let op = cellar_io::Op::Write;
                    Err(IoError::new(kind, &geometry.name, op, offset, 0))
                });
            }
            Flaw::BigCutShort if total > 1 << 20 => {
                let all = Bytes::from(data.concat());
                data = vec![all.slice(..1 << 20)];
            }
            _ => {}
        }
        self.disk.write(io, offset, data, durability)
    }

    fn flush(&self, io: Io) -> IoFuture<'_, ()> {
        self.disk.flush(io)
    }

    fn discard(&self, io: Io, offset: u64, length: u64, how: Discard) -> IoFuture<'_, ()> {
        let room = self.disk.geometry().size.saturating_sub(offset);
        let legal = self.legal(offset, length as usize);
        let length = match (self.flaw, how) {
            (Flaw::ZeroDoesNothing, Discard::Zero) if legal => 0,
            (Flaw::ForgetTooMuch, Discard::Forget) if legal && length > 0 => {
                let more = (length + 512).min(room);
                return self.disk.discard(io, offset, more, Discard::Zero);
            }
            _ => length,
        };
        self.disk.discard(io, offset, length, how)
    }
}

/// The sentence with which a flaw is found out, if it is.
fn verdict(flaw: Flaw, seed: u64) -> Option<String> {
    let sim = Sim::new(seed);
    let disk = sim.disk("d", SimDiskOptions::default());
    let count = AtomicU32::new(0);
    let device = Arc::new(Flawed { disk, flaw, count });
    let env = sim.env();
    let run = AssertUnwindSafe(|| sim.run(check_device(&env, device, seed, 8)));
    let panic = catch_unwind(run).err()?;
    Some(panic.downcast_ref::<String>().cloned().unwrap_or_default())
}

#[test]
fn each_flaw_breaks_the_law_that_names_it() {
    assert_eq!(verdict(Flaw::None, 1), None);
    for (flaw, law) in [
        (Flaw::OddSector, "law geometry: a logical sector is 512 or 4096"),
        (Flaw::StaleRead, "law "),
        (Flaw::BuffersJoined, "a read gives back the buffers it was given"),
        (Flaw::SlicesSwapped, "a vectored request is the flat request"),
        (Flaw::LostWrite, "law "),
        (Flaw::MisalignedAccepted, "a wrong request is refused"),
        (Flaw::EndAccepted, "a wrong request is refused"),
        (Flaw::EmptyRefused, "a request of no bytes succeeds"),
        (Flaw::ZeroDoesNothing, "a zeroed range reads as zeros"),
        (Flaw::ForgetTooMuch, "forgetting a range leaves its neighbours"),
        (Flaw::DurableLost, "durable writes and flushes change nothing"),
        (Flaw::ReadsReversed, "a vectored request is the flat request"),
        (Flaw::BigCutShort, "a request of 4 MiB is done whole"),
    ] {
        for seed in 1..3 {
            let sentence = verdict(flaw, seed);
            let found = sentence.as_ref().is_some_and(|s| s.contains(law));
            assert!(found, "{flaw:?}, seed {seed}: {sentence:?}");
        }
    }
}
