//! The spread of one file over the disks, kept so that the file goes on growing evenly.

use std::collections::BTreeMap;

use super::{Au, DiskNo, Leg, Placement};

/// What one file has on one disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskSpread {
    /// Extents (legs of any role).
    pub extents: u64,
    /// Those among them that are the primary of their extent set.
    pub primaries: u64,
    /// Where the next extent should lie: behind the last one.
    pub next: Au,
}

/// Extents of one file, by disk. Can be made again from the file's extent map at any time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileSpread {
    by_disk: BTreeMap<DiskNo, DiskSpread>,
}

impl FileSpread {
    /// A file without extents.
    #[must_use]
    pub fn new() -> FileSpread {
        FileSpread::default()
    }

    /// What the file has on this disk.
    #[must_use]
    pub fn on(&self, disk: DiskNo) -> DiskSpread {
        self.by_disk.get(&disk).copied().unwrap_or_default()
    }

    /// Disks the file lies on.
    pub fn disks(&self) -> impl Iterator<Item = (DiskNo, DiskSpread)> {
        self.by_disk.iter().map(|(&no, &spread)| (no, spread))
    }

    /// Extents of all disks.
    #[must_use]
    pub fn extents(&self) -> u64 {
        self.by_disk.values().map(|d| d.extents).sum()
    }

    pub(super) fn put(&mut self, disk: DiskNo, spread: DiskSpread) {
        if spread.extents > 0 {
            self.by_disk.insert(disk, spread);
        } else {
            self.by_disk.remove(&disk);
        }
    }

    /// Counts an extent set that the file has.
    pub fn add(&mut self, set: &Placement) {
        for (role, leg) in set.legs().iter().enumerate() {
            self.add_run(*leg, 1, role == 0);
        }
    }

    /// Counts `count` extents in a row on one disk.
    pub fn add_run(&mut self, first: Leg, count: u32, primary: bool) {
        let mut spread = self.on(first.disk);
        spread.extents += u64::from(count);
        spread.primaries += if primary { u64::from(count) } else { 0 };
        spread.next = Au(first.au.0.saturating_add(count));
        self.put(first.disk, spread);
    }

    /// Counts an extent set that the file gave back.
    pub fn remove(&mut self, set: &Placement) {
        for (role, leg) in set.legs().iter().enumerate() {
            let mut spread = self.on(leg.disk);
            assert!(spread.extents > 0, "a file gives back only extents it has");
            spread.extents -= 1;
            spread.primaries = spread.primaries.saturating_sub(u64::from(role == 0));
            self.put(leg.disk, spread);
        }
    }
}
