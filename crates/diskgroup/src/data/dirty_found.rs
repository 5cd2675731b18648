//! The dirty log as a mount finds it on the members, and bringing it level.
//!
//! A mark is acknowledged when every member has it, so one member that can be read whole has every
//! acknowledged mark, and the newest version of a block on any member has all of that block. A
//! mark that only some members have was never acknowledged, but the mount takes it for durable: so
//! the others get it before anybody may rely on it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_io::{DeviceExt, Durability, Io, SharedEnv};

use crate::disk::Disk;
use crate::group::inner::Inner;
use crate::meta::mount::within;
use crate::on_disk::dirty::{DIRTY_BLOCKS, DirtyBlock};
use crate::on_disk::layout::{BLOCK, BLOCK_U64, DIRTY_LOG, DIRTY_LOG_BYTES};
use crate::on_disk::{Damage, Uuid};

/// So far beyond anything found that no version which could not be read is newer.
const BEYOND: u64 = 1 << 32;

/// What was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundDirty {
    /// The newest version of each block.
    pub newest: BTreeMap<u16, DirtyBlock>,
    /// Blocks that no member has whole: what they named is not known.
    pub lost: Vec<u16>,
    /// Member and block: the member has an older version of it, or none.
    behind: Vec<(u16, u16)>,
}

/// One place of a block.
enum Place {
    Valid(DirtyBlock),
    /// Nothing of ours was ever written there.
    Blank,
    /// Torn or rotten.
    Damaged,
    Unreadable,
}

impl FoundDirty {
    /// Reads the dirty logs of the members that are here.
    pub async fn read(
        env: &SharedEnv,
        group: Uuid,
        members: &[&Arc<Disk>],
        timeout: Duration,
    ) -> FoundDirty {
        let mut found = FoundDirty::default();
        let mut whole = vec![false; DIRTY_BLOCKS];
        let mut own: Vec<(u16, BTreeMap<u16, u64>)> = Vec::new();
        for disk in members {
            let first = read_half(env, group, disk, DIRTY_LOG[0], timeout).await;
            let second = read_half(env, group, disk, DIRTY_LOG[1], timeout).await;
            let mut generations: BTreeMap<u16, u64> = BTreeMap::new();
            for (number, pair) in (0u16..).zip(first.into_iter().zip(second)) {
                // A torn write leaves the other place as it was; what cannot be read may be newer.
                let is_whole = !matches!(
                    &pair,
                    (Place::Unreadable, _)
                        | (_, Place::Unreadable)
                        | (Place::Damaged, Place::Damaged)
                );
                whole[usize::from(number)] |= is_whole;
                for place in [pair.0, pair.1] {
                    let Place::Valid(block) = place else { continue };
                    let generation = generations.entry(number).or_default();
                    *generation = block.generation.max(*generation);
                    if found.newest.get(&number).is_none_or(|n| n.generation < block.generation) {
                        found.newest.insert(number, block);
                    }
                }
            }
            own.push((disk.no, generations));
        }
        let newest = found.newest.values().map(|b| b.generation).max().unwrap_or(0);
        for number in (0u16..).zip(whole).filter(|(_, whole)| !whole).map(|(number, _)| number) {
            found.lost.push(number);
            let empty = DirtyBlock { number, generation: 0, life: 0, entries: Vec::new() };
            found.newest.entry(number).or_insert(empty).generation = newest + BEYOND;
        }
        for (disk, generations) in own {
            let lacks = found.newest.values().filter(|b| {
                !found.lost.contains(&b.number) && generations.get(&b.number) != Some(&b.generation)
            });
            found.behind.extend(lacks.map(|b| (disk, b.number)));
        }
        found
    }

    /// The group was dismounted in order: nothing is dirty, whatever the blocks name.
    pub fn forget(&mut self) {
        self.newest.values_mut().for_each(|block| block.entries.clear());
        self.lost.clear();
        self.behind.clear();
    }

    /// Writes to each member the blocks of which it has an older version. Its place holds the
    /// version before that one, so a torn write costs nothing. A failure fails the disk.
    pub async fn level(&self, inner: &Inner) {
        for chunk in self.behind.chunk_by(|a, b| a.0 == b.0) {
            let Some(disk) = inner.disk(chunk[0].0).filter(|d| d.is_in_sync()) else {
                continue;
            };
            for (_, number) in chunk {
                let block = &self.newest[number];
                let bytes = Bytes::from(block.encode(inner.uuid).0.to_vec());
                let write = disk.write(Io::COMMIT, block.offset(), vec![bytes], Durability::Cached);
                if write.await.is_err() {
                    break;
                }
            }
            if disk.is_alive() {
                let _ = disk.flush(Io::COMMIT).await;
            }
        }
    }
}

async fn read_half(
    env: &SharedEnv,
    group: Uuid,
    disk: &Disk,
    at: u64,
    timeout: Duration,
) -> Vec<Place> {
    let device = disk.device();
    let read = device.read_at(Io::FOREGROUND, at, DIRTY_LOG_BYTES as usize);
    let mut places = Vec::with_capacity(DIRTY_BLOCKS);
    match within(env, timeout, read).await {
        Some(Ok(bytes)) => {
            let blocks = (0u16..).zip(bytes.chunks_exact(BLOCK));
            places.extend(blocks.map(|(number, block)| place(block, group, number)));
        }
        Some(Err(_)) => {
            // A bad sector costs one block, not all of them.
            for number in 0..DIRTY_BLOCKS as u16 {
                let at = at + u64::from(number) * BLOCK_U64;
                let read = device.read_at(Io::FOREGROUND, at, BLOCK);
                match within(env, timeout, read).await {
                    Some(Ok(block)) => places.push(place(&block, group, number)),
                    Some(Err(_)) => places.push(Place::Unreadable),
                    // It does not answer any more, and is not asked for all the others.
                    None => break,
                }
            }
            places.resize_with(DIRTY_BLOCKS, || Place::Unreadable);
        }
        None => places.resize_with(DIRTY_BLOCKS, || Place::Unreadable),
    }
    places
}

fn place(block: &[u8], group: Uuid, number: u16) -> Place {
    match DirtyBlock::decode(block, group, number) {
        Ok(block) => Place::Valid(block),
        // A disk is not emptied when it is taken: what was there before is nothing of ours.
        Err(Damage::Blank | Damage::Magic { .. } | Damage::Foreign { .. }) => Place::Blank,
        Err(_) => Place::Damaged,
    }
}
