//! The dirty log as a mount finds it on the members, and making the members agree.
//!
//! A mark is acknowledged when every member has it, so one member that can be read whole has every
//! acknowledged mark, and the newest version of a block on any member has all of that block. A
//! mark that only some members have was never acknowledged, or is of a region that was clean before the
//! others joined, but the mount takes it for durable: so the others get it before anybody may rely on it.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering as Order};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use cellar_io::{DeviceExt, Durability, Io, IoError, IoErrorKind, Op};
use futures_util::future::join_all;

use crate::base::request_timeout::RequestTimeout;
use crate::data::Data;
use crate::disk::{Disk, lock};
use crate::on_disk::dirty::{DIRTY_BLOCKS, DirtyBlock, ENTRIES_PER_BLOCK};
use crate::on_disk::layout::{BLOCK, BLOCK_U64, DIRTY_LOG, DIRTY_LOG_BYTES};
use crate::on_disk::{Damage, Uuid};

/// A generation so far past any found that no unreadable version can be newer.
const BEYOND: u64 = 1 << 32;

/// An unreadable place holds at most the generation after the newest one found. This many are past that, and fall
/// on the same place.
const BEHIND_UNREAD: u64 = 3;

/// What was found.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundDirty {
    /// The newest version of each block.
    pub newest: BTreeMap<u16, DirtyBlock>,
    /// Blocks that no member has whole: what they named is not known.
    pub lost: Vec<u16>,
    /// Member and block: the member has an older version of it, or none.
    behind: Vec<(u16, u16)>,
    /// Blocks that got a generation which no member has.
    newer: BTreeSet<u16>,
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

impl Place {
    fn is_unread(&self) -> bool {
        matches!(self, Place::Unreadable)
    }

    fn valid(self) -> Option<DirtyBlock> {
        match self {
            Place::Valid(block) => Some(block),
            Place::Blank | Place::Damaged | Place::Unreadable => None,
        }
    }
}

impl FoundDirty {
    /// Reads the dirty logs of all members that are here at once, and notes which have `answered` and have all of
    /// it. A member that does not answer fails, if it can be done without.
    pub async fn read(
        group: Uuid,
        members: &[&Arc<Disk>],
        request_timeout: RequestTimeout<'_>,
        answered: &Mutex<BTreeSet<u16>>,
    ) -> FoundDirty {
        let mut found = FoundDirty::default();
        let mut whole = vec![false; DIRTY_BLOCKS];
        let mut own: Vec<(u16, BTreeMap<u16, DirtyBlock>)> = Vec::new();
        let both = members.iter().map(|disk| async {
            let silent = AtomicBool::new(false);
            let first = read_half(group, disk, DIRTY_LOG[0], request_timeout, &silent).await;
            let second = read_half(group, disk, DIRTY_LOG[1], request_timeout, &silent).await;
            let whole = first.iter().zip(&second).map(|(first, second)| is_whole(first, second));
            let whole: Vec<bool> = whole.collect();
            if whole.iter().all(|whole| *whole) {
                lock(answered).insert(disk.no);
            }
            (first, second, whole)
        });
        let mut unread = BTreeSet::new();
        for (disk, (first, second, all_whole)) in members.iter().zip(join_all(both).await) {
            whole.iter_mut().zip(all_whole).for_each(|(any, own)| *any |= own);
            for half in [&first, &second] {
                let places = (0u16..).zip(half);
                unread.extend(places.filter(|(_, own)| own.is_unread()).map(|(number, _)| number));
            }
            let pairs = (0u16..).zip(first.into_iter().zip(second));
            let newest = pairs.filter_map(|(number, (first, second))| {
                let places = [first, second].into_iter().filter_map(Place::valid);
                Some((number, places.max_by_key(|block| block.generation)?))
            });
            own.push((disk.no, newest.collect()));
        }
        for block in own.iter().flat_map(|(_, blocks)| blocks.values()) {
            found.add(block);
        }
        found.compare(&own, &unread);
        let newest = found.newest.values().map(|b| b.generation).max().unwrap_or(0);
        let fits = |number: &u16| {
            found.newest.get(number).is_none_or(|block| block.entries.len() <= ENTRIES_PER_BLOCK)
        };
        let known = (0u16..).zip(whole).filter(|(number, whole)| !whole || !fits(number));
        let lost: Vec<u16> = known.map(|(number, _)| number).collect();
        for number in lost {
            found.lost.push(number);
            found.behind.retain(|(_, behind)| *behind != number);
            let empty = DirtyBlock { number, generation: 0, mount_id: 0, entries: Vec::new() };
            let block = found.newest.entry(number).or_insert(empty);
            block.generation = newest + BEYOND;
            if block.entries.len() > ENTRIES_PER_BLOCK {
                // All pieces are made equal, whatever the block named.
                block.entries.clear();
            }
        }
        found
    }

    /// Takes in the newest version of a block on one member. A member that joined later in the same mount has a
    /// version of the same generation without what was clean by then: all regions that any of them names count.
    fn add(&mut self, block: &DirtyBlock) {
        let Some(known) = self.newest.get_mut(&block.number) else {
            self.newest.insert(block.number, block.clone());
            return;
        };
        match block.generation.cmp(&known.generation) {
            Ordering::Less => {}
            Ordering::Equal => {
                let new = block.entries.iter().filter(|key| !known.entries.contains(key));
                let new: Vec<_> = new.copied().collect();
                known.entries.extend(new);
            }
            Ordering::Greater => known.clone_from(block),
        }
    }

    /// Finds which members lack what. If versions of one generation differ, their union is a newer version, which
    /// goes to the other place on each member, so that a torn write loses nothing of this generation. If a place
    /// of one member is `unread` it may have the next generation, never acknowledged, with fewer regions: the
    /// known ones are written over it as a newer version.
    fn compare(&mut self, own: &[(u16, BTreeMap<u16, DirtyBlock>)], unread: &BTreeSet<u16>) {
        for block in self.newest.values_mut() {
            let of = |(disk, blocks): &(u16, BTreeMap<u16, DirtyBlock>)| {
                let own = blocks.get(&block.number).map(|own| (own.generation, own.entries.len()));
                (*disk, own)
            };
            let versions: Vec<(u16, Option<(u64, usize)>)> = own.iter().map(of).collect();
            let same = |(_, own): &(u16, Option<(u64, usize)>)| {
                own.is_none_or(|(generation, named)| {
                    generation < block.generation || named == block.entries.len()
                })
            };
            let newer = match (unread.contains(&block.number), versions.iter().all(same)) {
                (true, _) => BEHIND_UNREAD,
                (false, false) => 1,
                (false, true) => 0,
            };
            if newer > 0 {
                block.generation += newer;
                self.newer.insert(block.number);
            }
            let behind = versions
                .iter()
                .filter(|(_, own)| own.is_none_or(|(generation, _)| generation < block.generation));
            self.behind.extend(behind.map(|(disk, _)| (*disk, block.number)));
        }
        self.behind.sort_unstable();
    }

    /// The group was dismounted cleanly: nothing is dirty, whatever the blocks name. Those that have a newer
    /// generation are written all the same.
    pub fn forget(&mut self) {
        self.newest.values_mut().for_each(|block| block.entries.clear());
        self.lost.clear();
        self.behind.retain(|(_, number)| self.newer.contains(number));
    }

    /// Writes to each member the blocks of which it has an older version. Its place holds the
    /// version before that one, so a torn write costs nothing. A failure fails the disk.
    pub async fn level(&self, data: &Data) {
        for chunk in self.behind.chunk_by(|a, b| a.0 == b.0) {
            let Some(disk) = data.disk(chunk[0].0).filter(|d| d.is_in_sync()) else {
                continue;
            };
            for (_, number) in chunk {
                let block = &self.newest[number];
                let bytes = Bytes::from(block.encode(data.uuid).0.to_vec());
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

/// Whether all marks of a block that the member acknowledged are known. A torn write leaves the other place as it
/// was; an unreadable place may be newer.
fn is_whole(first: &Place, second: &Place) -> bool {
    let unreadable = |place: &Place| matches!(place, Place::Unreadable);
    let damaged = matches!((first, second), (Place::Damaged, Place::Damaged));
    !damaged && !unreadable(first) && !unreadable(second)
}

async fn read_half(
    group: Uuid,
    disk: &Disk,
    at: u64,
    request_timeout: RequestTimeout<'_>,
    silent: &AtomicBool,
) -> Vec<Place> {
    let mut places = Vec::with_capacity(DIRTY_BLOCKS);
    // It no longer answers, and is not asked for anything else.
    let is_silent = |error: &IoError| matches!(error.kind, IoErrorKind::Timeout { .. });
    let read = |at: u64, length: usize| async move {
        let device = disk.device();
        let read = device.read_at(Io::FOREGROUND, at, length);
        let read = request_timeout.wait(device, Op::Read, read).await;
        if let Some(error) = read.as_ref().err().filter(|error| is_silent(error)) {
            silent.store(true, Order::Relaxed);
            // A member that is needed is asked again when something must be read from it.
            if request_timeout.does_without() {
                disk.fail(error.clone());
            }
        }
        read
    };
    if silent.load(Order::Relaxed) {
        places.resize_with(DIRTY_BLOCKS, || Place::Unreadable);
        return places;
    }
    match read(at, DIRTY_LOG_BYTES as usize).await {
        Ok(bytes) => {
            let blocks = (0u16..).zip(bytes.chunks_exact(BLOCK));
            places.extend(blocks.map(|(number, block)| place(block, group, number)));
        }
        // A bad sector costs one block, not all of them.
        Err(_) if !silent.load(Order::Relaxed) => {
            for number in 0..DIRTY_BLOCKS as u16 {
                let at = at + u64::from(number) * BLOCK_U64;
                match read(at, BLOCK).await {
                    Ok(block) => places.push(place(&block, group, number)),
                    Err(_) if !silent.load(Order::Relaxed) => places.push(Place::Unreadable),
                    Err(_) => break,
                }
            }
        }
        Err(_) => {}
    }
    places.resize_with(DIRTY_BLOCKS, || Place::Unreadable);
    places
}

fn place(block: &[u8], group: Uuid, number: u16) -> Place {
    match DirtyBlock::decode(block, group, number) {
        Ok(block) => Place::Valid(block),
        // A disk is not wiped when it is taken: earlier contents are nothing of ours.
        Err(Damage::Blank | Damage::Magic { .. } | Damage::Foreign { .. }) => Place::Blank,
        Err(_) => Place::Damaged,
    }
}
