//! The dirty log in RAM, and writing it: marks that arrive while a write runs share the next one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cellar_io::{Durability, EnvExt, Io};
use cellar_wait::Event as WaitEvent;
use event_listener::Event;
use futures_util::future::try_join_all;

use crate::base::StopOnPanic;
use crate::data::Data;
use crate::data::dirty_recovery::FoundDirty;
use crate::disk::{Disk, lock};
use crate::error::Error;
use crate::on_disk::dirty::{DIRTY_BLOCKS, DirtyBlock, ENTRIES_PER_BLOCK, RegionKey};
use crate::on_disk::layout::BLOCK;

/// Which regions are marked, and where.
pub(crate) struct DirtyLog {
    state: Mutex<State>,
    durable: AtomicU64,
    moved: Event,
}

/// How often a joining disk looks whether the running cycle has ended.
const JOIN_POLL: Duration = Duration::from_millis(5);

struct State {
    blocks: Vec<Slots>,
    place: BTreeMap<RegionKey, u16>,
    /// Ticket of the newest mark.
    marked: u64,
    writing: bool,
    /// Disks that are being made members: written to as well.
    joining: Vec<u16>,
    /// Blocks that no member had whole when the group was mounted.
    lost: Vec<u16>,
    /// Regions in a block.
    block_entries: usize,
}

/// The right to write the log; whoever waits for it may go on when it is dropped.
struct Turn<'a>(&'a DirtyLog);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).writing = false;
        self.0.moved.notify(usize::MAX);
    }
}

#[derive(Clone, Default)]
struct Slots {
    entries: Vec<RegionKey>,
    generation: u64,
    /// The disks have marks of other regions.
    changed: bool,
    /// The disks lack a mark; a superfluous mark can stay until the next write of the block.
    lacking: bool,
}

impl DirtyLog {
    /// A log that continues from the blocks found on the members. Every entry stays in its block,
    /// so that writing one block never removes an entry that only another write would bring back.
    pub fn new(found: FoundDirty, block_entries: usize) -> DirtyLog {
        let mut state = State {
            blocks: vec![Slots::default(); DIRTY_BLOCKS],
            place: BTreeMap::new(),
            marked: 0,
            writing: false,
            joining: Vec::new(),
            lost: found.lost,
            block_entries: block_entries.clamp(1, ENTRIES_PER_BLOCK),
        };
        for (number, block) in found.newest {
            let slots = &mut state.blocks[usize::from(number)];
            slots.generation = block.generation;
            for key in block.entries {
                match state.place.entry(key) {
                    Entry::Vacant(vacant) => {
                        vacant.insert(number);
                        slots.entries.push(key);
                    }
                    // Another block names it already: the disks are to forget it here.
                    Entry::Occupied(_) => slots.changed = true,
                }
            }
        }
        DirtyLog { state: Mutex::new(state), durable: AtomicU64::new(0), moved: Event::new() }
    }

    /// Every region that is marked.
    pub fn entries(&self) -> Vec<RegionKey> {
        lock(&self.state).place.keys().copied().collect()
    }

    /// Marks a region; returns the ticket to wait for with [`DirtyLog::sync`], or `None` if the
    /// log is full.
    pub fn add(&self, key: RegionKey) -> Option<u64> {
        let mut state = lock(&self.state);
        if state.place.contains_key(&key) {
            return Some(state.marked);
        }
        let most = state.block_entries;
        let number = state.blocks.iter().position(|b| b.entries.len() < most)?;
        state.blocks[number].entries.push(key);
        state.blocks[number].changed = true;
        state.blocks[number].lacking = true;
        state.place.insert(key, number as u16);
        state.marked += 1;
        Some(state.marked)
    }

    /// Takes a mark away. It leaves the disks with the next write of its block: being late costs
    /// a resync, not data.
    pub fn remove(&self, key: &RegionKey) {
        let mut state = lock(&self.state);
        if let Some(number) = state.place.remove(key) {
            let block = &mut state.blocks[usize::from(number)];
            block.entries.retain(|k| k != key);
            block.changed = true;
        }
    }

    /// Whether another region has no place in it.
    pub fn is_full(&self) -> bool {
        let state = lock(&self.state);
        state.place.len() >= DIRTY_BLOCKS * state.block_entries
    }

    /// Whether the disks still name regions that are clean.
    pub fn is_behind(&self) -> bool {
        lock(&self.state).blocks.iter().any(|b| b.changed)
    }

    pub fn wake_all(&self) {
        self.moved.notify(usize::MAX);
    }

    /// A ticket for everything changed so far, for [`DirtyLog::sync`].
    pub fn ticket(&self) -> u64 {
        let mut state = lock(&self.state);
        for block in &mut state.blocks {
            block.lacking |= block.changed;
        }
        state.marked += 1;
        state.marked
    }

    /// Waits until the marks up to `ticket` are durable on every member.
    pub async fn sync(data: &Arc<Data>, ticket: u64) -> Result<(), Error> {
        let log = &data.dirty_log;
        if log.durable.load(Ordering::Acquire) >= ticket {
            return Ok(());
        }
        let wait = data.begin(WaitEvent::DIRTY_REGION_LOG_WRITE);
        loop {
            let listener = log.moved.listen();
            if log.durable.load(Ordering::Acquire) >= ticket {
                data.end(wait);
                return Ok(());
            }
            data.check_running()?;
            let lead = {
                let mut state = lock(&log.state);
                !std::mem::replace(&mut state.writing, true)
            };
            if lead {
                // A task of its own: the marks of others must not hang on this caller.
                let data = Arc::clone(data);
                let env = Arc::clone(&data.env);
                env.spawn("dirty region log", Box::pin(async move { write_cycle(&data).await }));
            }
            listener.await;
        }
    }

    /// From now on `disk` gets every mark; then all current marks are written to it. False if
    /// another disk failed meanwhile, which must be handled first, or the group stopped.
    pub async fn join(data: &Arc<Data>, disk: &Arc<Disk>) -> Result<bool, cellar_io::IoError> {
        let log = &data.dirty_log;
        lock(&log.state).joining.push(disk.no);
        // A cycle that began earlier may not write to the disk: wait it out. But a cycle that met a
        // failed disk waits for the committer, which is the caller here. And no cycle may begin
        // meanwhile: it could write a block before this writes an older version of it.
        while std::mem::replace(&mut lock(&log.state).writing, true) {
            if data.is_stopped() || data.disks_in_sync().iter().any(|d| !d.is_alive()) {
                return Ok(false);
            }
            data.env.sleep(JOIN_POLL).await;
        }
        let _turn = Turn(log);
        let (blocks, lost) = {
            let state = lock(&log.state);
            // What was never written to any member is still to be written to all of them.
            let blocks = (0u16..).zip(&state.blocks).filter(|(_, b)| b.generation > 0);
            let blocks = blocks.map(|(number, b)| b.encode(number, b.generation, data.mount_id));
            (blocks.collect::<Vec<_>>(), state.lost.clone())
        };
        for block in &blocks {
            if lost.contains(&block.number) {
                write_lost(data, disk, block).await?;
            } else {
                write_block(data, disk, block, Durability::Cached).await?;
            }
        }
        disk.flush(Io::COMMIT).await?;
        Ok(true)
    }

    /// Every region that the lost blocks may have named is clean: from here on the blocks count
    /// again.
    pub async fn found_again(data: &Arc<Data>) -> Result<(), Error> {
        let log = &data.dirty_log;
        let lost = std::mem::take(&mut lock(&log.state).lost);
        DirtyLog::rewrite(data, &lost).await
    }

    /// Rewrites blocks twice, that is, in both places.
    pub async fn rewrite(data: &Arc<Data>, blocks: &[u16]) -> Result<(), Error> {
        let log = &data.dirty_log;
        for _ in 0..2 {
            for number in blocks {
                lock(&log.state).blocks[usize::from(*number)].changed = true;
            }
            let ticket = log.ticket();
            DirtyLog::sync(data, ticket).await?;
        }
        Ok(())
    }

    /// The blocks of which the members have a version.
    pub fn written(&self) -> Vec<u16> {
        let state = lock(&self.state);
        let blocks = (0u16..).zip(&state.blocks).filter(|(_, b)| b.generation > 0);
        blocks.map(|(number, _)| number).filter(|number| !state.lost.contains(number)).collect()
    }

    /// The generation of a block that every member has; `None` while blocks are on their way.
    pub fn generation(&self, number: u16) -> Option<u64> {
        let state = lock(&self.state);
        (!state.writing).then(|| state.blocks[usize::from(number)].generation)
    }

    /// `disk` is a member now, or will not be.
    pub fn joined(&self, disk: u16) {
        lock(&self.state).joining.retain(|d| *d != disk);
    }
}

impl Slots {
    fn encode(&self, number: u16, generation: u64, mount_id: u64) -> DirtyBlock {
        DirtyBlock { number, generation, mount_id, entries: self.entries.clone() }
    }
}

async fn write_block(
    data: &Data,
    disk: &Disk,
    block: &DirtyBlock,
    durability: Durability,
) -> Result<(), cellar_io::IoError> {
    let bytes = Bytes::from(block.encode(data.uuid).0.to_vec());
    disk.write(Io::COMMIT, block.offset(), vec![bytes], durability).await
}

/// Marks a lost block as damaged in both places: until it is found again no member may look as if
/// it knew what the block named.
async fn write_lost(
    data: &Data,
    disk: &Disk,
    block: &DirtyBlock,
) -> Result<(), cellar_io::IoError> {
    for generation in [block.generation, block.generation + 1] {
        let block = DirtyBlock { generation, ..block.clone() };
        let mut bytes = block.encode(data.uuid).0.to_vec();
        bytes[BLOCK - 1] ^= 1;
        disk.write(Io::COMMIT, block.offset(), vec![Bytes::from(bytes)], Durability::Cached)
            .await?;
    }
    Ok(())
}

/// Writes every changed block to every member, once.
async fn write_cycle(data: &Arc<Data>) {
    let _watched = StopOnPanic(data);
    let log = &data.dirty_log;
    let turn = Turn(log);
    let (ticket, blocks, joining) = {
        let mut state = lock(&log.state);
        let ticket = state.marked;
        let mut blocks = Vec::new();
        for (number, slots) in (0u16..).zip(&mut state.blocks) {
            if std::mem::take(&mut slots.lacking) {
                slots.changed = false;
                slots.generation += 1;
                blocks.push(slots.encode(number, slots.generation, data.mount_id));
            }
        }
        (ticket, blocks, state.joining.clone())
    };
    let written = write_to_members(data, &blocks, &joining).await;
    // An error means that the group has stopped; those who wait find that out.
    if written.is_ok() {
        log.durable.fetch_max(ticket, Ordering::AcqRel);
    }
    drop(turn);
}

async fn write_to_members(
    data: &Arc<Data>,
    blocks: &[DirtyBlock],
    joining: &[u16],
) -> Result<(), Error> {
    let members = lock(&data.core).state.members.clone();
    let disks = data.disks_in_sync();
    let targets = disks.iter().filter(|d| members.contains(&d.no) || joining.contains(&d.no));
    let writes = targets.map(|disk| async move {
        let durability = if blocks.len() == 1 { Durability::Durable } else { Durability::Cached };
        let result = async {
            for block in blocks {
                write_block(data, disk, block, durability).await?;
            }
            if blocks.len() == 1 { Ok(()) } else { disk.flush(Io::COMMIT).await }
        }
        .await;
        match result {
            Ok(()) => Ok(()),
            Err(error) => data.leg_failed(disk, error).await,
        }
    });
    try_join_all(writes).await?;
    Ok(())
}
