//! Flush of a file: its completed writes become durable.
//!
//! The order is: checksum blocks of pieces written for the first time, a flush of every disk (data and
//! checksums), then the record that these pieces are written. After a crash before the record, the
//! pieces read as zeros, as they did before the unflushed writes.

use std::sync::Mutex;

use crate::base::core::Core;
use crate::data::Data;
use crate::data::access::Access;
use crate::data::checksum::Checksums;
use crate::data::clean::checksum_runs;
use crate::data::file::FileRuntime;
use crate::disk::lock;
use crate::error::Error;
use crate::on_disk::dirty::RegionKey;
use crate::state::{Leg, Op, stretches};

/// Piece records in one operation on the log; a region each.
const REGIONS_PER_CHANGE: usize = 4096;

impl Access<'_> {
    /// Makes every write to `file` that completed before the call durable.
    pub(crate) async fn flush(self) -> Result<(), Error> {
        let _entered = self.file.enter().await?;
        // Checked inside: a dismount waits for whoever is inside.
        self.data.check_writable()?;
        self.flush_inside().await
    }

    /// Flushes for a caller that has entered the file.
    pub(crate) async fn flush_inside(self) -> Result<(), Error> {
        let (ended, fresh) = (self.file.ended(), self.file.fresh().into_iter().collect::<Vec<_>>());
        if self.file.attributes.checksums && !fresh.is_empty() {
            let keys: Vec<RegionKey> =
                fresh.iter().map(|(region, _)| self.file.key(*region)).collect();
            Checksums::write_back(self.data, &checksum_runs(self.data, &keys)).await?;
        }
        let written = fresh.iter().map(|(region, pieces)| (self.file.key(*region), *pieces));
        self.data.unflushed.written(self.data.env.now(), written);
        self.data.flush_disks(self.io).await?;
        for part in fresh.chunks(REGIONS_PER_CHANGE) {
            let recorded: Mutex<Vec<(u32, u64)>> = Mutex::default();
            let ops = |core: &Core| {
                let flushed = part.iter().map(|(region, pieces)| {
                    let lost = lost_of(self.data, core, self.file, *region);
                    (*region, pieces & self.file.fresh_of(*region) & !lost)
                });
                let flushed: Vec<(u32, u64)> = flushed.filter(|(_, pieces)| *pieces != 0).collect();
                lock(&recorded).clone_from(&flushed);
                let op = |(region, pieces)| Op::Pieces { region: self.file.key(region), pieces };
                flushed.into_iter().map(op).collect()
            };
            self.data.change_inside_as(ops).await?;
            for (region, pieces) in lock(&recorded).iter() {
                self.file.remove_fresh(*region, *pieces);
            }
        }
        check_copies(self.data, self.file)?;
        match self.file.flushed(ended) {
            true => Ok(()),
            false => Err(Error::WritesLost { file: self.file.number }),
        }
    }
}

/// The pieces of a region whose only copy is on a disk that left: they are not written, as nobody
/// flushed them.
fn lost_of(data: &Data, core: &Core, file: &FileRuntime, region: u32) -> u64 {
    if file.attributes.copies > 1 {
        return 0;
    }
    let disks = data.disks.look();
    let found = core.state.files.get(&file.number);
    let Some(state) = found.filter(|f| f.incarnation == file.incarnation) else { return 0 };
    let here = |disk: &u16| disks.get(disk).is_some_and(|d| d.is_in_sync() && d.is_alive());
    let gone = core.state.disks.keys().filter(|disk| !here(disk));
    gone.fold(0, |lost, disk| lost | state.pieces_on(*disk, region, data.au_size))
}

/// Every extent must still have a copy in sync: only disks in sync were flushed, and what was written
/// to a disk that left is lost if there is no other copy. A group that would lose the last copy of a
/// mirrored extent stops itself.
fn check_copies(data: &Data, file: &FileRuntime) -> Result<(), Error> {
    if file.attributes.copies > 1 || data.disks.all().values().all(|disk| disk.is_in_sync()) {
        return Ok(());
    }
    let core = lock(&data.core);
    let Some(state) = core.state.files.get(&file.number) else {
        return Ok(());
    };
    let in_sync = |leg: &Leg| data.is_in_sync(leg.disk);
    let is_lost = |extent: u64| !state.legs_of(extent).iter().any(in_sync);
    let allocated = state.allocated(data.au_size);
    let mut all = stretches(state.attributes.striping, data.au_size, 0, allocated);
    match all.find(|s| is_lost(s.extent)) {
        Some(s) => Err(Error::NoCopy { file: file.number, offset: s.offset }),
        None => Ok(()),
    }
}
