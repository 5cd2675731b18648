//! Regions whose copies may differ: which are marked, which are being written, which are to be
//! resynced.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cellar_io::Instant;
use event_listener::Event;

use crate::data::Data;
use crate::data::dirty_log::DirtyLog;
use crate::data::file::FileRuntime;
use crate::disk::lock;
use crate::error::Error;
use crate::on_disk::dirty::{DIRTY_REGIONS_MAX, RegionKey};

/// At least so many regions may be dirty, whatever the resync target says.
pub(crate) const CAP_MIN: usize = 64;

/// Regions that are not clean.
pub(crate) struct Regions {
    state: Mutex<State>,
    /// Pieces to be made equal, as found by the mount, and when it found them.
    found: (u64, Instant),
    moved: Event,
}

struct State {
    map: BTreeMap<RegionKey, Region>,
    caps: Caps,
    /// Files, with their incarnations, whose owners make equal what matters after a crash.
    recovered_by_owner: BTreeSet<(u32, u32)>,
    /// Of `map`, those that can be clean again: of such files, and of others.
    counted: [usize; 2],
    /// Rounds of cleaning so far.
    rounds: u64,
}

/// How many regions may be dirty at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    /// For files that nobody else recovers: as many as a resync can do within its target.
    pub resync: usize,
    /// For files that their owners recover: as many as their changed checksums have room for in RAM.
    pub by_owner: usize,
}

impl Caps {
    fn of(self, class: Class) -> usize {
        match class {
            Class::Resynced => self.resync,
            Class::RecoveredByOwner => self.by_owner,
        }
    }
}

/// Who makes a region's copies equal after a crash, before it is read for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Resynced,
    RecoveredByOwner,
}

impl State {
    fn class_of(&self, key: &RegionKey) -> Class {
        match self.recovered_by_owner.contains(&(key.file, key.incarnation)) {
            true => Class::RecoveredByOwner,
            false => Class::Resynced,
        }
    }

    /// Regions that count for the cap of their class: those that can be clean again.
    fn counted(&self, class: Class) -> usize {
        self.counted[class as usize]
    }

    fn count(&mut self) {
        let mut counted = [0; 2];
        for key in self.map.iter().filter(|(_, region)| !region.held).map(|(key, _)| key) {
            counted[self.class_of(key) as usize] += 1;
        }
        self.counted = counted;
    }

    /// Regions of a class to be cleaned now.
    fn due(&self, class: Class, now: Instant, idle: Duration) -> Vec<RegionKey> {
        let pressed = self.is_pressed(class);
        let mut due: Vec<(Instant, RegionKey)> = self
            .map
            .iter()
            .filter(|(_, r)| {
                r.writes == 0 && r.to_sync == 0 && r.marked && r.cleaning.is_none() && !r.held
            })
            .filter(|(key, r)| {
                (pressed || now.since(r.used) >= idle) && self.class_of(key) == class
            })
            .map(|(key, r)| (r.used, *key))
            .collect();
        due.sort_unstable();
        if pressed {
            let quarter = (self.caps.of(class) / 4).max(1);
            let long_idle = due.iter().take_while(|(used, _)| now.since(*used) >= idle).count();
            due.truncate(quarter.max(long_idle));
        }
        due.into_iter().map(|(_, key)| key).collect()
    }

    fn is_full(&self, class: Class) -> bool {
        self.counted(class) >= self.caps.of(class)
    }

    /// Whether so many are dirty that cleaning starts before they are idle.
    fn is_pressed(&self, class: Class) -> bool {
        self.counted(class) * 8 >= self.caps.of(class) * 7
    }
}

#[derive(Clone, Copy, Debug)]
struct Region {
    /// Whether the mark is durable.
    marked: bool,
    /// Writes under way.
    writes: u32,
    used: Instant,
    /// Being cleaned, by this round; a write meanwhile takes that back.
    cleaning: Option<u64>,
    /// Pieces to be made equal first, after a crash.
    to_sync: u64,
    /// Pieces that may have been written to since the region was clean.
    touched: u64,
    /// The only copies of a part of it are on disks that are away.
    held: bool,
}

/// A write under way in some regions; they stay dirty while it lasts.
pub(crate) struct WriteGuard<'a> {
    regions: &'a Regions,
    data: &'a Data,
    keys: Vec<RegionKey>,
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        let now = self.data.env.now();
        let mut state = lock(&self.regions.state);
        for key in &self.keys {
            if let Some(region) = state.map.get_mut(key) {
                region.writes -= 1;
                region.used = now;
            }
        }
    }
}

impl Regions {
    /// Regions found dirty at the mount, with the pieces of each that are to be made equal.
    pub fn new(caps: Caps, found: &BTreeMap<RegionKey, u64>, now: Instant) -> Regions {
        let map: BTreeMap<RegionKey, Region> = found
            .iter()
            .map(|(key, pieces)| {
                let region = Region {
                    marked: true,
                    writes: 0,
                    used: now,
                    cleaning: None,
                    to_sync: *pieces,
                    touched: *pieces,
                    held: false,
                };
                (*key, region)
            })
            .collect();
        let resync = caps.resync.clamp(CAP_MIN, DIRTY_REGIONS_MAX / 2);
        let caps = Caps { resync, by_owner: caps.by_owner.clamp(resync, DIRTY_REGIONS_MAX / 2) };
        let pieces = found.values().map(|pieces| u64::from(pieces.count_ones())).sum();
        let counted = [map.len(), 0];
        let recovered_by_owner = BTreeSet::new();
        let state = Mutex::new(State { map, caps, recovered_by_owner, counted, rounds: 0 });
        Regions { state, found: (pieces, now), moved: Event::new() }
    }

    /// How many pieces the mount found to be made equal, and when.
    pub fn found(&self) -> (u64, Instant) {
        self.found
    }

    pub fn wake_all(&self) {
        self.moved.notify(usize::MAX);
    }

    /// How many may be dirty of files that nobody else recovers.
    pub fn cap(&self) -> usize {
        lock(&self.state).caps.resync
    }

    /// After a crash the owner of a file makes everything equal that may then differ between its copies, so its
    /// regions need no resync within the target.
    pub fn recovered_by_owner(&self, file: u32, incarnation: u32) {
        let mut state = lock(&self.state);
        if state.recovered_by_owner.insert((file, incarnation)) {
            state.count();
        }
        drop(state);
        self.moved.notify(usize::MAX);
    }

    /// Whether there is a region that could be cleaned.
    pub fn may_clean(&self) -> bool {
        lock(&self.state)
            .map
            .values()
            .any(|r| r.writes == 0 && r.to_sync == 0 && r.marked && !r.held)
    }

    /// Waits until nobody cleans any region.
    pub async fn not_cleaning(&self) {
        loop {
            let listener = self.moved.listen();
            if !lock(&self.state).map.values().any(|r| r.cleaning.is_some()) {
                return;
            }
            listener.await;
        }
    }

    /// How many regions are not clean.
    pub fn count(&self) -> usize {
        lock(&self.state).map.len()
    }

    /// The regions that cannot be clean while disks are away.
    pub fn all_held(&self) -> Vec<RegionKey> {
        let state = lock(&self.state);
        state.map.iter().filter(|(_, r)| r.held).map(|(key, _)| *key).collect()
    }

    /// Pieces of a region that are still to be made equal.
    pub fn to_sync(&self, key: &RegionKey) -> u64 {
        let state = lock(&self.state);
        if state.map.is_empty() {
            return 0;
        }
        state.map.get(key).map_or(0, |r| r.to_sync)
    }

    /// Pieces were made equal.
    pub fn synced(&self, key: &RegionKey, pieces: u64) {
        if let Some(region) = lock(&self.state).map.get_mut(key) {
            region.to_sync &= !pieces;
        }
    }

    /// The next region after `last` to be resynced, with its pieces.
    pub fn next_to_sync(&self, last: Option<RegionKey>) -> Option<(RegionKey, u64)> {
        let state = lock(&self.state);
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = state.map.range((from, Bound::Unbounded));
        rest.find(|(_, r)| r.to_sync != 0).map(|(k, r)| (*k, r.to_sync))
    }

    /// How many pieces are still to be resynced.
    pub fn pieces_to_sync(&self) -> u64 {
        lock(&self.state).map.values().map(|r| u64::from(r.to_sync.count_ones())).sum()
    }

    /// Marks regions durably before a write to some of their pieces; they stay dirty until the guard is dropped.
    /// `None` if too many regions are dirty: the caller then releases what it holds, because a resync may need
    /// that first, and tries again when there is [room](Regions::room).
    pub async fn begin_write(
        data: &Arc<Data>,
        touches: Vec<(RegionKey, u64)>,
    ) -> Result<Option<WriteGuard<'_>>, Error> {
        let regions = &data.regions;
        let mut guard = WriteGuard { regions, data, keys: Vec::new() };
        for (key, pieces) in touches {
            // A caller that is in with one region may exceed the cap with the others: the dirty log has room.
            let entered = regions.enter(data, (key, pieces), !guard.keys.is_empty());
            let Enter::In(ticket) = entered else {
                return Ok(None);
            };
            guard.keys.push(key);
            if let Some(ticket) = ticket {
                Box::pin(DirtyLog::sync(data, ticket)).await?;
                regions.now_marked(&key);
            }
        }
        Ok(Some(guard))
    }

    /// Waits until another region of a file may be dirty.
    pub async fn room(data: &Data, file: &FileRuntime) -> Result<(), Error> {
        let regions = &data.regions;
        loop {
            let listener = regions.moved.listen();
            {
                let state = lock(&regions.state);
                if !state.is_full(state.class_of(&file.key(0))) && !data.dirty_log.is_full() {
                    return Ok(());
                }
            }
            data.check_running()?;
            // Nothing becomes clean before what disks that are away missed is recorded.
            super::clean::check_log(data)?;
            super::clean::start(data);
            listener.await;
        }
    }

    fn enter(&self, data: &Data, (key, pieces): (RegionKey, u64), overshoot: bool) -> Enter {
        let now = data.env.now();
        let mut state = lock(&self.state);
        if let Some(region) = state.map.get_mut(&key) {
            region.writes += 1;
            region.touched |= pieces;
            region.used = now;
            region.cleaning = None;
            if region.marked {
                return Enter::In(None);
            }
        } else {
            let class = state.class_of(&key);
            if state.is_full(class) && !overshoot {
                return Enter::Full;
            }
            // The caps are half of what the log holds, but more may have been found at the mount.
            let Some(ticket) = data.dirty_log.add(key) else {
                return Enter::Full;
            };
            let region = Region {
                marked: false,
                writes: 1,
                used: now,
                cleaning: None,
                to_sync: 0,
                touched: pieces,
                held: false,
            };
            state.map.insert(key, region);
            state.counted[class as usize] += 1;
            if state.is_pressed(class) {
                // Early, so that there is room again before the cap is reached.
                super::clean::start(data);
            }
            return Enter::In(Some(ticket));
        }
        // Somebody else's mark, not durable yet.
        let ticket = data.dirty_log.add(key).expect("it is in the log since it is dirty");
        Enter::In(Some(ticket))
    }

    fn now_marked(&self, key: &RegionKey) {
        if let Some(region) = lock(&self.state).map.get_mut(key) {
            region.marked = true;
        }
    }

    /// Chooses idle regions to clean: those unused for `idle`, or, of a class of which more than seven eighths of
    /// the cap are dirty, the longest unused quarter. With the number of this round.
    pub fn choose_to_clean(&self, now: Instant, idle: Duration) -> (u64, Vec<RegionKey>) {
        let mut state = lock(&self.state);
        let mut keys = state.due(Class::Resynced, now, idle);
        keys.extend(state.due(Class::RecoveredByOwner, now, idle));
        state.rounds += 1;
        let round = state.rounds;
        for key in &keys {
            if let Some(region) = state.map.get_mut(key) {
                region.cleaning = Some(round);
            }
        }
        (round, keys)
    }

    /// The pieces that may have been written to since these regions were clean.
    pub fn touched(&self, keys: &[RegionKey]) -> Vec<(RegionKey, u64)> {
        let state = lock(&self.state);
        let touched = keys.iter().filter_map(|key| Some((*key, state.map.get(key)?.touched)));
        touched.filter(|(_, pieces)| *pieces != 0).collect()
    }

    /// Pieces that may have been written to, of every region that is not clean.
    pub fn all_touched(&self) -> Vec<(RegionKey, u64)> {
        let state = lock(&self.state);
        let touched = state.map.iter().map(|(key, region)| (*key, region.touched));
        touched.filter(|(_, pieces)| *pieces != 0).collect()
    }

    /// The checksums of these regions are durable: the regions that nobody wrote to since this round began are
    /// clean, except those that another round has taken up after such a write.
    pub fn cleaned(&self, dirty_log: &DirtyLog, round: u64, keys: &[RegionKey]) {
        let mut state = lock(&self.state);
        for key in keys {
            if state.map.get(key).is_some_and(|r| r.cleaning == Some(round) && r.writes == 0) {
                state.map.remove(key);
                dirty_log.remove(key);
            }
        }
        state.count();
        drop(state);
        self.moved.notify(usize::MAX);
    }

    /// These cannot be clean while disks are away, as the round that would have cleaned them found.
    pub fn held(&self, round: u64, keys: &[RegionKey]) {
        let mut state = lock(&self.state);
        for key in keys {
            if let Some(region) = state.map.get_mut(key).filter(|r| r.cleaning == Some(round)) {
                (region.held, region.cleaning) = (true, None);
            }
        }
        state.count();
        drop(state);
        self.moved.notify(usize::MAX);
    }

    /// A disk is back. What has its only copy there must be made known again before it is read: `pieces_of` says
    /// which pieces of a region those are. A round of cleaning in progress began before that.
    pub fn back(&self, pieces_of: impl Fn(&RegionKey) -> u64) {
        let mut state = lock(&self.state);
        for (key, region) in &mut state.map {
            (region.held, region.cleaning) = (false, None);
            region.to_sync |= region.touched & pieces_of(key);
        }
        state.count();
        drop(state);
        self.moved.notify(usize::MAX);
    }

    /// Cleaning failed: they stay dirty.
    pub fn not_cleaned(&self, keys: &[RegionKey]) {
        let mut state = lock(&self.state);
        for key in keys {
            if let Some(region) = state.map.get_mut(key) {
                region.cleaning = None;
            }
        }
        drop(state);
        self.moved.notify(usize::MAX);
    }

    /// A file, or its end, is gone: its regions from `from` on need no agreement.
    pub fn forget(&self, dirty_log: &DirtyLog, file: u32, incarnation: u32, from: u32) {
        let mut state = lock(&self.state);
        let first = RegionKey { file, incarnation, index: from };
        let last = RegionKey { file, incarnation, index: u32::MAX };
        let keys: Vec<RegionKey> = state.map.range(first..=last).map(|(k, _)| *k).collect();
        for key in keys {
            state.map.remove(&key);
            dirty_log.remove(&key);
        }
        if from == 0 {
            state.recovered_by_owner.remove(&(file, incarnation));
        }
        state.count();
        drop(state);
        self.moved.notify(usize::MAX);
    }
}

enum Enter {
    /// In; wait for the mark with this ticket, if any.
    In(Option<u64>),
    /// Too many regions are dirty.
    Full,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::dirty_recovery::FoundDirty;
    use crate::on_disk::dirty::ENTRIES_PER_BLOCK;

    const KEY: RegionKey = RegionKey { file: 256, incarnation: 1, index: 0 };

    const CAPS: Caps = Caps { resync: CAP_MIN, by_owner: 4 * CAP_MIN };

    /// A region that is dirty, and equal on all disks.
    fn dirty() -> (Regions, DirtyLog) {
        let regions = Regions::new(CAPS, &BTreeMap::from([(KEY, 1)]), Instant(0));
        regions.synced(&KEY, 1);
        let log = DirtyLog::new(FoundDirty::default(), ENTRIES_PER_BLOCK);
        log.add(KEY);
        (regions, log)
    }

    #[test]
    fn a_round_that_began_before_a_disk_came_back_makes_nothing_clean() {
        let (regions, log) = dirty();
        let (round, keys) = regions.choose_to_clean(Instant(0), Duration::ZERO);
        assert_eq!(keys, [KEY]);
        regions.back(|_| 1);
        regions.held(round, &keys);
        regions.cleaned(&log, round, &keys);
        assert_eq!((regions.to_sync(&KEY), regions.all_held()), (1, Vec::new()));
        assert_eq!(log.entries(), [KEY]);
    }

    #[test]
    fn a_round_makes_nothing_clean_that_another_has_begun_with_after_a_write() {
        let (regions, log) = dirty();
        let (first, keys) = regions.choose_to_clean(Instant(0), Duration::ZERO);
        // A write takes the region back.
        lock(&regions.state).map.get_mut(&KEY).expect("there").cleaning = None;
        let (second, again) = regions.choose_to_clean(Instant(0), Duration::ZERO);
        assert_eq!(again, [KEY]);
        regions.cleaned(&log, first, &keys);
        assert_eq!(log.entries(), [KEY]);
        regions.cleaned(&log, second, &again);
        assert_eq!((log.entries(), regions.count()), (Vec::new(), 0));
    }
}
