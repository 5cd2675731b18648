//! Checksum blocks in RAM: read when first needed, changed by writes, written before a region is
//! clean and before a piece counts as written.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cellar_io::{Buffer, Durability, Io};
use cellar_wait::Event;

use crate::data::Data;
use crate::disk::{Disk, lock};
use crate::error::Error;
use crate::on_disk::Damage;
use crate::on_disk::checksum::ChecksumBlock;
use crate::on_disk::layout::{BLOCK, BLOCK_U64, checksum_block_offset, checksum_place};
use crate::state::Leg;

/// Disk number and checksum block number on it.
type Key = (u16, u64);

/// Neighbouring blocks that are written together.
const RUN_MAX: usize = 64;

/// The cache of checksum blocks.
pub(crate) struct Checksums {
    blocks: Mutex<BTreeMap<Key, Arc<Cached>>>,
    /// At most so many blocks are kept when they are clean.
    keep: usize,
    tick: AtomicU64,
    /// Checksum blocks whose own checksum was wrong.
    pub damaged: AtomicU64,
}

pub(crate) struct Cached {
    /// Held while the block is read from its disk.
    loading: futures_util::lock::Mutex<()>,
    /// Held while the block is written to its disk: two writes of it at once could end in either order, and
    /// whoever finds nothing left to write must not conclude that it has been written.
    writing: futures_util::lock::Mutex<()>,
    loaded: AtomicBool,
    used: AtomicU64,
    content: Mutex<Content>,
}

#[derive(Default)]
struct Content {
    block: ChecksumBlock,
    dirty: bool,
}

/// A run of checksum entries of one AU: the blocks `first..first + count` of a leg.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entries {
    pub leg: Leg,
    /// The first 4 KiB block in the AU.
    pub first: u64,
    pub count: u64,
}

impl Cached {
    /// Whether there is something to write, or a write is in progress.
    fn may_write(&self) -> bool {
        lock(&self.content).dirty || self.writing.try_lock().is_none()
    }

    /// What is to be written, if anything. The caller writes it while holding `writing`.
    fn take_changed(&self, disk: &Disk, number: u64) -> Option<Box<[u8]>> {
        let mut content = lock(&self.content);
        if !content.dirty {
            return None;
        }
        content.dirty = false;
        content.block.generation += 1;
        Some(content.block.encode(disk.uuid, number).0)
    }
}

impl Checksums {
    pub fn new(budget_bytes: usize) -> Checksums {
        Checksums {
            blocks: Mutex::new(BTreeMap::new()),
            keep: (budget_bytes / (2 * BLOCK)).max(64),
            tick: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
        }
    }

    /// The number of regions, with this many copies, whose checksums may be changed and unwritten at once, so
    /// that there is room for others.
    pub fn regions_max(&self, copies: u8) -> usize {
        self.keep * 3 / 4 / usize::from(copies.max(1))
    }

    fn slot(&self, key: Key) -> Arc<Cached> {
        let used = self.tick.fetch_add(1, Ordering::Relaxed);
        let mut blocks = lock(&self.blocks);
        if blocks.len() > self.keep && !blocks.contains_key(&key) {
            evict(&mut blocks);
        }
        let slot = blocks.entry(key).or_insert_with(|| {
            Arc::new(Cached {
                loading: futures_util::lock::Mutex::new(()),
                writing: futures_util::lock::Mutex::new(()),
                loaded: AtomicBool::new(false),
                used: AtomicU64::new(0),
                content: Mutex::new(Content::default()),
            })
        });
        slot.used.store(used, Ordering::Relaxed);
        Arc::clone(slot)
    }

    async fn get(data: &Data, disk: &Disk, number: u64) -> Arc<Cached> {
        let sums = &data.checksums;
        let slot = sums.slot((disk.no, number));
        if slot.loaded.load(Ordering::Acquire) {
            return slot;
        }
        let held = slot.loading.lock().await;
        if !slot.loaded.load(Ordering::Acquire) {
            let wait = data.begin(Event::CHECKSUM_BLOCK_READ);
            let at = checksum_block_offset(number, data.au_size);
            let read = disk.read_at(Io::FOREGROUND, at, BLOCK).await;
            data.end(wait);
            // A block that cannot be read knows nothing; data stays readable without it.
            let block = match read {
                Ok(bytes) => match ChecksumBlock::decode(&bytes, disk.uuid, number) {
                    Ok(block) => block,
                    Err(damage) => {
                        if matches!(damage, Damage::Checksum) {
                            sums.damaged.fetch_add(1, Ordering::Relaxed);
                        }
                        ChecksumBlock::default()
                    }
                },
                Err(_) => {
                    // For a failed disk it is not kept: the next disk with its number must not take it for its
                    // own.
                    if !disk.is_alive() {
                        sums.forget(&slot, (disk.no, number));
                    }
                    ChecksumBlock::default()
                }
            };
            lock(&slot.content).block = block;
            slot.loaded.store(true, Ordering::Release);
        }
        drop(held);
        slot
    }

    /// Reads a run of entries into `out`.
    pub async fn read(data: &Data, disk: &Disk, entries: Entries, out: &mut Vec<u32>) {
        for part in parts(entries, data.au_size) {
            let slot = Self::get(data, disk, part.number).await;
            let content = lock(&slot.content);
            out.extend_from_slice(&content.block.entries[part.first..part.first + part.count]);
        }
    }

    /// Sets a run of entries. They reach the disk with [`Checksums::write_back`].
    pub async fn set(data: &Data, disk: &Disk, entries: Entries, sums: &[u32]) {
        assert_eq!(sums.len() as u64, entries.count, "a checksum for each block");
        let mut done = 0;
        for part in parts(entries, data.au_size) {
            let slot = Self::get(data, disk, part.number).await;
            let mut content = lock(&slot.content);
            content.block.entries[part.first..part.first + part.count]
                .copy_from_slice(&sums[done..done + part.count]);
            content.dirty = true;
            done += part.count;
        }
    }

    /// Writes those of the checksum blocks that cover `runs` and have changed. Durable after the
    /// next flush of their disks.
    pub async fn write_back(data: &Arc<Data>, runs: &[Entries]) -> Result<(), Error> {
        let mut wanted: Vec<Key> = runs
            .iter()
            .flat_map(|run| parts(*run, data.au_size).map(|part| (run.leg.disk, part.number)))
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        Self::write_changed(data, wanted).await
    }

    /// Writes every changed checksum block.
    pub async fn write_back_all(data: &Arc<Data>) -> Result<(), Error> {
        let keys: Vec<Key> = lock(&data.checksums.blocks).keys().copied().collect();
        Self::write_changed(data, keys).await
    }

    /// As [`Checksums::write_keys`], but completed even if the caller goes away: a block that was taken to be
    /// written and was not would count as written.
    async fn write_changed(data: &Arc<Data>, keys: Vec<Key>) -> Result<(), Error> {
        {
            let blocks = lock(&data.checksums.blocks);
            if !keys.iter().any(|key| blocks.get(key).is_some_and(|slot| slot.may_write())) {
                return Ok(());
            }
        }
        let all = Arc::clone(data);
        let task = async move { Self::write_keys(&all, &keys).await };
        data.run("checksum blocks", task).await
    }

    /// Writes those of the blocks that have changed, neighbours together. `keys` ascend.
    async fn write_keys(data: &Data, keys: &[Key]) -> Result<(), Error> {
        let follows = |a: &Key, b: &Key| {
            let offset = |key: &Key| checksum_block_offset(key.1, data.au_size);
            a.0 == b.0 && offset(a) + BLOCK_U64 == offset(b)
        };
        let mut writes = Vec::new();
        for run in keys.chunk_by(follows).flat_map(|run| run.chunks(RUN_MAX)) {
            let Some(disk) = data.disk(run[0].0).filter(|d| d.takes_part()) else {
                continue;
            };
            let slots: Vec<(u64, Arc<Cached>)> = {
                let blocks = lock(&data.checksums.blocks);
                let slot = |key: &Key| Some((key.1, Arc::clone(blocks.get(key)?)));
                run.iter().filter_map(slot).collect()
            };
            let changed = slots.iter().any(|(_, slot)| slot.may_write());
            if changed {
                writes.push(Self::write_run(data, disk, slots));
            }
        }
        if writes.is_empty() {
            return Ok(());
        }
        let wait = data.begin(Event::CHECKSUM_BLOCK_WRITE);
        let results = futures_util::future::join_all(writes).await;
        data.end(wait);
        results.into_iter().collect()
    }

    /// Writes the changed ones of some neighbours. The slots are kept until the write is done: a
    /// block that is on its way must not be forgotten and read back as it was.
    async fn write_run(
        data: &Data,
        disk: Arc<Disk>,
        slots: Vec<(u64, Arc<Cached>)>,
    ) -> Result<(), Error> {
        let mut held = Vec::with_capacity(slots.len());
        // In ascending order everywhere, so that two runs never wait for each other.
        for (_, slot) in &slots {
            held.push(slot.writing.lock().await);
        }
        let mut at = 0;
        while at < slots.len() {
            let mut bytes = Vec::new();
            let first = slots[at].0;
            while let Some((number, slot)) = slots.get(at)
                && *number == first + (bytes.len() / BLOCK) as u64
                && let Some(block) = slot.take_changed(&disk, *number)
            {
                bytes.extend_from_slice(&block);
                at += 1;
            }
            if bytes.is_empty() {
                at += 1;
                continue;
            }
            let bytes = vec![Buffer::copy_of(&bytes, bytes.len()).freeze()];
            let offset = checksum_block_offset(first, data.au_size);
            let write = disk.write(Io::BACKGROUND, offset, bytes, Durability::Cached);
            if let Err(error) = write.await {
                data.leg_failed(&disk, error).await?;
            }
        }
        drop(held);
        Ok(())
    }

    /// Reads from `disk` the checksum blocks that cover some runs of entries, all of which were written,
    /// whatever is in RAM; returns how many of them are not what was last written there. With `again` those are
    /// rewritten by the next [`Checksums::write_back`]; entries of them that were not in RAM are no longer
    /// known, and must be [made known](super::resync::make_known).
    pub async fn bad_on_disk(data: &Data, disk: &Disk, runs: &[Entries], again: bool) -> u64 {
        let covering = runs.iter().flat_map(|run| parts(*run, data.au_size));
        let mut numbers: Vec<u64> = covering.map(|part| part.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut bad = 0;
        for number in numbers {
            bad += u64::from(Self::is_bad_on_disk(data, disk, number, again).await);
        }
        bad
    }

    async fn is_bad_on_disk(data: &Data, disk: &Disk, number: u64, again: bool) -> bool {
        let slot = data.checksums.slot((disk.no, number));
        // Nobody loads it, or writes it, while it is read.
        let loading = slot.loading.lock().await;
        let writing = slot.writing.lock().await;
        let at = checksum_block_offset(number, data.au_size);
        let read = disk.read_at(Io::BACKGROUND, at, BLOCK).await;
        let found = read.ok().and_then(|b| ChecksumBlock::decode(&b, disk.uuid, number).ok());
        let mut content = lock(&slot.content);
        if slot.loaded.load(Ordering::Acquire) {
            // Entries still to be written say nothing about the disk.
            if content.dirty {
                return false;
            }
            let bad = found.as_ref() != Some(&content.block);
            content.dirty |= bad && again;
            return bad;
        }
        let bad = found.is_none();
        if !bad || (again && disk.is_alive()) {
            // Read once, for this and for what it is needed for next; or as one that knows nothing, so
            // that it is written again.
            content.block = found.unwrap_or_default();
            content.dirty = bad;
            slot.loaded.store(true, Ordering::Release);
        }
        drop((content, writing, loading));
        bad
    }

    fn forget(&self, slot: &Arc<Cached>, key: Key) {
        let mut blocks = lock(&self.blocks);
        if blocks.get(&key).is_some_and(|own| Arc::ptr_eq(own, slot)) {
            blocks.remove(&key);
        }
    }

    /// A disk is gone, and its number may be another's.
    pub fn forget_disk(&self, no: u16) {
        lock(&self.blocks).retain(|(disk, _), _| *disk != no);
    }

    /// A disk became smaller: its blocks from `number` on cover nothing any more.
    pub fn forget_behind(&self, no: u16, number: u64) {
        lock(&self.blocks).retain(|(disk, block), _| *disk != no || *block < number);
    }

    /// How many blocks are in RAM.
    pub fn count(&self) -> usize {
        lock(&self.blocks).len()
    }
}

/// Forgets the longest unused eighth of the clean blocks.
fn evict(blocks: &mut BTreeMap<Key, Arc<Cached>>) {
    let mut clean: Vec<(u64, Key)> = blocks
        .iter()
        .filter(|(_, c)| Arc::strong_count(c) == 1 && !lock(&c.content).dirty)
        .map(|(k, c)| (c.used.load(Ordering::Relaxed), *k))
        .collect();
    clean.sort_unstable();
    clean.truncate((blocks.len() / 8).max(1));
    for (_, key) in clean {
        blocks.remove(&key);
    }
}

struct Part {
    number: u64,
    first: usize,
    count: usize,
}

/// Cuts a run of entries at the ends of checksum blocks.
fn parts(entries: Entries, au_size: u64) -> impl Iterator<Item = Part> {
    assert!(
        (entries.first + entries.count) * BLOCK_U64 <= au_size,
        "a run of entries stays in its AU"
    );
    let mut at = entries.first;
    let end = entries.first + entries.count;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let place = checksum_place(entries.leg.au, at, au_size);
        let room = crate::on_disk::layout::CHECKSUMS_PER_BLOCK - place.entry;
        let count = room.min(end - at);
        at += count;
        Some(Part { number: place.number, first: place.entry as usize, count: count as usize })
    })
}
