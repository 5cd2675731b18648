//! The layout of each disk: areas for the log, for concurrent scans, and for archives.

use std::collections::BTreeMap;
use std::sync::Arc;

use cellar_io::Device;
use cellar_redo::{Medium, NewGroup};

use crate::content::STEP;
use crate::error::LabError;
use crate::place::part::Part;
use crate::place::{Disk, Needed};

/// Log groups: one is written to, one is archived, one is in reserve.
pub(crate) const GROUPS: u32 = 3;

/// Bytes of each area, the same on every disk: log groups, then data, then archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Areas {
    /// Size of each file of a group; a multiple of 1 MiB.
    pub(crate) group: u64,
    /// The scanned area; a multiple of 1 MiB, 0: none.
    pub(crate) data: u64,
    /// Archives, the oldest overwritten; a multiple of 1 MiB, 0: none.
    pub(crate) archive: u64,
}

impl Areas {
    fn groups(&self) -> u64 {
        self.group * u64::from(GROUPS)
    }

    /// Bytes needed of a disk.
    pub(crate) fn total(&self) -> u64 {
        self.groups() + self.data + self.archive
    }

    /// All areas are written before anything is measured.
    pub(crate) fn needed(&self) -> Needed {
        Needed::first(self.total())
    }

    /// The groups of a log.
    pub(crate) fn new_groups(&self) -> Vec<NewGroup> {
        (1..=GROUPS).map(|number| NewGroup { number, size: self.group }).collect()
    }

    /// A disk as a medium of a log.
    pub(crate) fn medium(&self, disk: &Disk, name: &str) -> Medium {
        let file = |group: u32| {
            let part = Part::new(
                Arc::clone(&disk.device),
                name,
                u64::from(group - 1) * self.group,
                self.group,
            );
            (group, Arc::new(part) as Arc<dyn Device>)
        };
        let files: BTreeMap<_, _> = (1..=GROUPS).map(file).collect();
        Medium { name: name.to_owned(), files }
    }

    /// The archives of a disk.
    pub(crate) fn archives(&self, disk: &Disk) -> Arc<dyn Device> {
        let start = self.groups() + self.data;
        Arc::new(Part::new(Arc::clone(&disk.device), "archives", start, self.archive))
    }

    /// Removes all traces of a log: the disk may be used for anything again.
    pub(crate) async fn wipe(&self, disk: &Disk) -> Result<(), LabError> {
        for group in 1..=GROUPS {
            let start = u64::from(group - 1) * self.group;
            let part = Part::new(Arc::clone(&disk.raw), "log", start, self.group);
            part.wipe().await?;
        }
        let whole = Part::new(Arc::clone(&disk.raw), "disk", 0, self.total());
        Ok(whole.wipe().await?)
    }

    /// Endless 1 MiB reads over the data, from the part of reader `which` of `readers` on.
    pub(crate) fn scan(&self, which: usize, readers: usize) -> impl Iterator<Item = u64> + use<> {
        let steps = (self.data / STEP).max(1);
        let (from, start) = (steps * which as u64 / readers.max(1) as u64, self.groups());
        (0..).map(move |i: u64| start + (from + i) % steps * STEP)
    }
}
