//! The disks of a mounted group, by number.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::disk::Disk;

/// The disks of a mounted group that are here, by number: looked up with every request, changed
/// when one comes or goes. A caller that has a disk keeps it until it is done; the device is closed
/// when the last one drops it.
pub(crate) struct Disks(ArcSwap<BTreeMap<u16, Arc<Disk>>>);

impl Disks {
    pub fn new(disks: BTreeMap<u16, Arc<Disk>>) -> Disks {
        Disks(ArcSwap::from_pointee(disks))
    }

    /// All of them as they are now.
    pub fn all(&self) -> Arc<BTreeMap<u16, Arc<Disk>>> {
        self.0.load_full()
    }

    /// All of them, borrowed for a moment: never kept over an await.
    pub fn look(&self) -> arc_swap::Guard<Arc<BTreeMap<u16, Arc<Disk>>>> {
        self.0.load()
    }

    /// A disk has come.
    pub fn insert(&self, disk: &Arc<Disk>) {
        self.0.rcu(|disks| {
            let mut disks = BTreeMap::clone(disks);
            disks.insert(disk.no, Arc::clone(disk));
            disks
        });
    }

    /// A disk has gone.
    pub fn remove(&self, no: u16) {
        self.0.rcu(|disks| {
            let mut disks = BTreeMap::clone(disks);
            disks.remove(&no);
            disks
        });
    }
}
