//! The data path: reads and writes of files over their copies.
//!
//! Three promises, and who keeps them:
//! - copies agree after a crash: a region is in the dirty log before a written piece of it is
//!   overwritten (`region`, `dirty_log`), and resync makes dirty regions equal (`resync`);
//! - what was never written reads as zeros: a piece counts as written only once its first write,
//!   filled up with zeros, is durable on every copy (`region`, `write`, `flush`);
//! - damage is found: every 4 KiB has a checksum that is durable before its region is clean
//!   (`checksum`, `clean`).

pub(crate) mod access;
pub(crate) mod arbitrate;
pub(crate) mod checksum;
pub(crate) mod clean;
pub(crate) mod dirty_log;
pub(crate) mod dirty_recovery;
pub(crate) mod file;
pub(crate) mod flush;
pub(crate) mod range_lock;
pub(crate) mod read;
pub(crate) mod region;
pub(crate) mod relocate;
pub(crate) mod resync;
pub(crate) mod scrub;
pub(crate) mod unflushed_history;
pub(crate) mod validate;
pub(crate) mod write;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use cellar_io::{Class, Io};

use crate::base::Base;
use crate::base::listeners::Listener;
use crate::disk::lock;
use crate::error::Error;
use crate::on_disk::dirty::RegionKey;
use crate::state::FileState;
use checksum::Checksums;
use dirty_log::DirtyLog;
use file::FileRuntime;
use region::Regions;
use unflushed_history::UnflushedHistory;

/// Written pieces that a reader found without checksums: a checksum block is written in place, and
/// one that a power cut tears loses all its entries.
#[derive(Default)]
pub(crate) struct Unknown {
    pieces: Mutex<BTreeMap<RegionKey, u64>>,
    pub found: event_listener::Event,
}

impl Unknown {
    /// The pieces that `length` bytes from `offset` on touch have unknown checksums.
    pub fn add(&self, file: &FileRuntime, offset: u64, length: u64) {
        let mut pieces = lock(&self.pieces);
        for (region, bits) in write::pieces_of(offset, offset + length) {
            *pieces.entry(file.key(region)).or_insert(0) |= bits;
        }
        drop(pieces);
        self.found.notify(1);
    }

    /// Takes some pieces to work on.
    pub fn take(&self) -> Option<(RegionKey, u64)> {
        lock(&self.pieces).pop_first()
    }
}

/// What the data path keeps in RAM for a mounted group.
pub(crate) struct Data {
    base: Arc<Base>,
    pub regions: Regions,
    pub dirty_log: DirtyLog,
    pub checksums: Checksums,
    /// Pieces that hold data whose checksums are not known, to be made known again.
    pub unknown: Unknown,
    pub unflushed: UnflushedHistory,
    /// Too many regions are dirty.
    pub cleaner_wanted: event_listener::Event,
    /// Reads and writes of files that somebody waits for, since the mount.
    asked: AtomicU64,
    files: Mutex<BTreeMap<u32, Arc<FileRuntime>>>,
}

impl Deref for Data {
    type Target = Arc<Base>;

    fn deref(&self) -> &Arc<Base> {
        &self.base
    }
}

impl Listener for Data {
    fn stopped(&self) {
        self.wake_all();
    }
}

impl Data {
    /// The data path over `base`, which notifies it.
    pub fn new(
        base: Arc<Base>,
        regions: Regions,
        dirty_log: DirtyLog,
        checksums: Checksums,
    ) -> Arc<Data> {
        let data = Arc::new(Data {
            base,
            regions,
            dirty_log,
            checksums,
            unknown: Unknown::default(),
            unflushed: UnflushedHistory::new(),
            cleaner_wanted: event_listener::Event::new(),
            asked: AtomicU64::new(0),
            files: Mutex::new(BTreeMap::new()),
        });
        data.listeners.add(&data);
        data
    }

    /// Somebody reads or writes a file.
    pub fn asked(&self, io: Io) {
        self.asked.fetch_add(u64::from(io.class != Class::Background), Ordering::Relaxed);
    }

    /// How often somebody did so.
    pub fn asked_count(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// The runtime part of a file, made on first use.
    pub fn file(&self, file: &FileState) -> Arc<FileRuntime> {
        let mut files = lock(&self.files);
        let slot = files.entry(file.number).or_insert_with(|| FileRuntime::new(file));
        if slot.incarnation != file.incarnation {
            *slot = FileRuntime::new(file);
        }
        Arc::clone(slot)
    }

    /// Files that were used since the mount.
    pub fn open_files(&self) -> Vec<Arc<FileRuntime>> {
        lock(&self.files).values().cloned().collect()
    }

    /// Whether somebody has a handle to the file.
    pub fn in_use(&self, number: u32) -> bool {
        let files = lock(&self.files);
        files.get(&number).is_some_and(|f| f.users.load(Ordering::Acquire) > 0)
    }

    /// Whether a file was used since the mount.
    pub fn knows(&self, number: u32) -> bool {
        lock(&self.files).contains_key(&number)
    }

    /// Forgets what is kept for a file, if nobody uses it and nothing of it waits for anything.
    pub fn forget_idle(&self, number: u32) {
        let mut files = lock(&self.files);
        if files.get(&number).is_some_and(|f| Arc::strong_count(f) == 1 && f.is_idle()) {
            files.remove(&number);
        }
    }

    /// A file is gone.
    pub fn forget_file(&self, number: u32) {
        lock(&self.files).remove(&number);
    }

    /// From here on only the dismount changes anything: it waits for what has entered a file, and
    /// what comes later is refused.
    pub async fn close_to_changes(&self) -> Result<(), Error> {
        self.begin_dismount()?;
        for file in self.open_files() {
            // One that is gone is used by nobody.
            let _ = file.close().await;
        }
        Ok(())
    }

    /// After the group has stopped: waits for those who still read, because a read may repair a copy.
    /// Their writes must not reach the disks after those of later users.
    pub async fn wait_left(&self) {
        for file in self.open_files() {
            let _ = file.close().await;
        }
    }

    /// Disks leave. What was written where they have the only copy, and was not flushed, may be lost:
    /// the next flush of its file says so.
    pub fn lost_unflushed(&self, disks: &[u16]) {
        for file in self.open_files().iter().filter(|f| f.attributes.copies == 1) {
            let core = lock(&self.core);
            let Some(state) = core.state.files.get(&file.number) else { continue };
            if state.legs.iter().any(|leg| disks.contains(&leg.disk)) {
                file.lost_copy();
            }
        }
    }

    /// A disk is back. What had its only copy there, and was not flushed, counts as never written.
    pub fn forget_unflushed(&self, disk: u16) {
        for file in self.open_files().iter().filter(|f| f.attributes.copies == 1) {
            let core = lock(&self.core);
            let Some(state) = core.state.files.get(&file.number) else { continue };
            for region in file.fresh().into_keys() {
                file.remove_fresh(region, state.pieces_on(disk, region, self.au_size));
            }
        }
    }

    /// The group stopped: whoever waits here must look again.
    pub fn wake_all(&self) {
        self.regions.wake_all();
        self.dirty_log.wake_all();
        self.unknown.found.notify(usize::MAX);
        for file in self.open_files() {
            file.wake_all();
        }
    }
}
