//! The doublewrite ring: pages are first written here, durably, and then to their places. A page that a crash tears
//! in its place is whole here.

use std::collections::BTreeMap;

use bytes::Bytes;
use cellar_io::{Buffer, Device, Durability, Io};
use cellar_page::{PAGE_BYTES, PageRef, Raw, check, seal};

use crate::error::Error;
use crate::geometry::{BATCH_PAGES_MAX, Geometry};
use crate::header::LSN_MAX;

pub(crate) const MAGIC: [u8; 4] = *b"CLHD";

/// Bytes before the numbers in the first page of a slot.
pub(crate) const HEAD_BYTES: usize = 32;

/// Where the first page of a slot has the newest LSN of a page that this or an earlier batch has written; 0: it was
/// written by a build that did not note it.
pub(crate) const NEWEST_AT: usize = PAGE_BYTES - 8;

/// Numbers of batches are below.
const BATCH_MAX: u64 = 1 << 62;

fn lsn_of(raw: &Raw) -> u64 {
    PageRef::new(raw).lsn()
}

/// Where a page is in the file, in bytes.
fn offset_of(page: u32) -> u64 {
    u64::from(page) * PAGE_BYTES as u64
}

/// A batch of pages with the page that names them.
pub(crate) struct Batch {
    bytes: Bytes,
    numbers: Vec<u32>,
}

impl Batch {
    /// A batch of these pages, which are in the order of their numbers. `newest`: the newest LSN of a page that was
    /// ever written.
    pub fn new(store: u64, batch: u64, newest: u64, pages: &[(u32, &Raw)]) -> Batch {
        let mut bytes = Buffer::zeroed((1 + pages.len()) * PAGE_BYTES);
        let (head, images) = bytes.split_at_mut(PAGE_BYTES);
        head[8..16].copy_from_slice(&store.to_le_bytes());
        head[16..24].copy_from_slice(&batch.to_le_bytes());
        head[24..28].copy_from_slice(&(pages.len() as u32).to_le_bytes());
        head[NEWEST_AT..].copy_from_slice(&newest.to_le_bytes());
        for (place, (number, raw)) in pages.iter().enumerate() {
            let at = HEAD_BYTES + place * 4;
            head[at..at + 4].copy_from_slice(&number.to_le_bytes());
            let image = &mut images[place * PAGE_BYTES..(place + 1) * PAGE_BYTES];
            image.copy_from_slice(&raw[..]);
            seal(image.try_into().expect("a page"));
            let at = HEAD_BYTES + (pages.len() + place) * 4;
            head[at..at + 4].copy_from_slice(&image[..4]);
        }
        head[..4].copy_from_slice(&MAGIC);
        let crc = crc32c::crc32c(&head[8..]);
        head[4..8].copy_from_slice(&crc.to_le_bytes());
        let numbers = pages.iter().map(|(number, _)| *number).collect();
        Batch { bytes: bytes.freeze(), numbers }
    }

    /// Writes it to the ring, durably.
    pub async fn write_to_ring(&self, device: &dyn Device, slot: u32) -> Result<(), Error> {
        let data = vec![self.bytes.clone()];
        device.write(Io::BACKGROUND, offset_of(slot), data, Durability::Durable).await?;
        Ok(())
    }

    /// Writes its pages to their places, durably.
    pub async fn write_to_places(&self, device: &dyn Device) -> Result<(), Error> {
        let io = Io::BACKGROUND;
        let writes = self.runs().into_iter().map(|(page, bytes)| {
            device.write(io, offset_of(page), vec![bytes], Durability::Cached)
        });
        // All writes must be answered before any result is returned: a late one must not collide with a later batch.
        let answers = futures_util::future::join_all(writes).await;
        answers.into_iter().collect::<Result<Vec<()>, _>>()?;
        device.flush(io).await?;
        Ok(())
    }

    /// Runs of adjacent pages, one write each.
    fn runs(&self) -> Vec<(u32, Bytes)> {
        let mut runs = Vec::new();
        let mut from = 0;
        for at in 1..=self.numbers.len() {
            if self.numbers.get(at).is_some_and(|next| *next == self.numbers[at - 1] + 1) {
                continue;
            }
            let bytes = self.bytes.slice((1 + from) * PAGE_BYTES..(1 + at) * PAGE_BYTES);
            runs.push((self.numbers[from], bytes));
            from = at;
        }
        runs
    }
}

/// The contents of the ring: for each page the newest image that may replace it.
pub(crate) struct Ring {
    /// The number of the last batch.
    pub last: u64,
    /// The newest LSN of a page that was written by way of it, as far as that is known.
    pub newest: u64,
    pages: BTreeMap<u32, Buffer>,
}

impl Ring {
    /// Reads all slots. What was logged below `checkpoint` is already in the pages.
    pub async fn read(
        device: &dyn Device,
        store: u64,
        geometry: &Geometry,
        checkpoint: u64,
    ) -> Result<Ring, Error> {
        let mut slots = BTreeMap::new();
        let (mut lacks_any, mut newest) = (false, 0);
        for slot in 0..geometry.ring_batches {
            let first = geometry.ring_slot(u64::from(slot));
            let pages = read_slot(device, first, geometry.ring_slot_pages()).await;
            let found = Slot::of(store, pages).and_then(|found| found.checked(geometry, slot));
            lacks_any |= found.as_ref().is_none_or(|slot| slot.lacks_any);
            newest = newest.max(found.as_ref().map_or(0, |slot| slot.newest));
            slots.extend(found.map(|slot| (slot.batch, slot.pages)));
        }
        let last = slots.keys().last().copied().unwrap_or(0);
        let mut pages = BTreeMap::new();
        // What cannot be read may be a newer image of any page. Then an older one counts only if redo starts from it;
        // in a batch that has not reached its places all do, because the checkpoint waits for it.
        let counts = |image: &Buffer| {
            let raw = <&Raw>::try_from(&image[..]);
            !lacks_any || raw.is_ok_and(|raw| lsn_of(raw) >= checkpoint)
        };
        for (number, image) in slots.into_values().rev().flatten() {
            if counts(&image) {
                pages.entry(number).or_insert(image);
            }
        }
        Ok(Ring { last, newest, pages })
    }

    /// The pages that are not whole in their places, as the ring has them.
    pub async fn torn(self, device: &dyn Device, store: u64) -> Vec<(u32, Buffer)> {
        let mut torn = Vec::new();
        for (number, image) in self.pages {
            let buffers = vec![Buffer::new(PAGE_BYTES)];
            let read = device.read(Io::FOREGROUND, offset_of(number), buffers).await;
            let is_whole = read.is_ok_and(|buffers| {
                <&Raw>::try_from(&buffers[0][..]).is_ok_and(|raw| check(raw, store, number).is_ok())
            });
            if !is_whole {
                torn.push((number, image));
            }
        }
        torn
    }

    /// Writes these pages again. Returns how many.
    pub async fn repair(self, device: &dyn Device, store: u64) -> Result<usize, Error> {
        let torn = self.torn(device, store).await;
        let repaired = torn.len();
        for (number, image) in torn {
            let data = vec![image.freeze()];
            device.write(Io::FOREGROUND, offset_of(number), data, Durability::Cached).await?;
        }
        // Whole pages too: a killed process may have written them, and nobody has made them durable.
        device.flush(Io::FOREGROUND).await?;
        Ok(repaired)
    }
}

/// The pages of a slot; `None` for one that cannot be read.
async fn read_slot(device: &dyn Device, first: u32, count: u32) -> Vec<Option<Buffer>> {
    let buffers = (0..count).map(|_| Buffer::new(PAGE_BYTES)).collect();
    if let Ok(read) = device.read(Io::FOREGROUND, offset_of(first), buffers).await {
        return read.into_iter().map(Some).collect();
    }
    let mut pages = Vec::new();
    for page in first..first + count {
        let buffers = vec![Buffer::new(PAGE_BYTES)];
        let read = device.read(Io::FOREGROUND, offset_of(page), buffers).await;
        pages.push(read.ok().and_then(|read| read.into_iter().next()));
    }
    pages
}

/// A slot whose first page says what is in it.
struct Slot {
    batch: u64,
    /// The newest LSN of a page that was written so far.
    newest: u64,
    /// The images that are whole.
    pages: Vec<(u32, Buffer)>,
    /// Whether other images are damaged.
    lacks_any: bool,
}

impl Slot {
    fn of(store: u64, pages: Vec<Option<Buffer>>) -> Option<Slot> {
        let mut pages = pages.into_iter();
        let head = pages.next()??;
        let long = |at: usize| {
            let bytes = head.get(at..at + 8).and_then(|bytes| bytes.first_chunk::<8>());
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let (found, computed) = (long(4) as u32, crc32c::crc32c(&head[8..]));
        if head[..4] != MAGIC || found != computed || long(8) != store {
            return None;
        }
        let count = long(24) as u32 as usize;
        if count > BATCH_PAGES_MAX as usize {
            return None;
        }
        let mut whole = Vec::new();
        for (place, image) in pages.take(count).enumerate() {
            let number = long(HEAD_BYTES + place * 4) as u32;
            let crc = HEAD_BYTES + (count + place) * 4;
            let is_whole = |image: &Buffer| {
                image[..4] == head[crc..crc + 4]
                    && <&Raw>::try_from(&image[..])
                        .is_ok_and(|raw| check(raw, store, number).is_ok())
            };
            whole.extend(image.filter(is_whole).map(|image| (number, image)));
        }
        let lacks_any = whole.len() < count;
        let lsn =
            |(_, image): &(u32, Buffer)| <&Raw>::try_from(&image[..]).map(lsn_of).unwrap_or(0);
        let newest = whole.iter().map(lsn).fold(long(NEWEST_AT), u64::max).min(LSN_MAX);
        Some(Slot { batch: long(16), newest, pages: whole, lacks_any })
    }

    /// `None` where its number is none of this slot's, or so high that none can follow. Only pages of extents are
    /// ever written by way of the ring.
    fn checked(mut self, geometry: &Geometry, slot: u32) -> Option<Slot> {
        if geometry.ring_slot(self.batch) != geometry.ring_slot(u64::from(slot))
            || self.batch >= BATCH_MAX
        {
            return None;
        }
        let (first, count) = (geometry.first_page(geometry.system_extents()), self.pages.len());
        self.pages.retain(|(number, _)| *number >= first);
        self.lacks_any |= self.pages.len() < count;
        Some(self)
    }
}
