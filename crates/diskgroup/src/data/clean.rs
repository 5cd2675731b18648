//! Cleaning regions: when nobody writes to them any more, their checksums are made durable and
//! their marks taken away.
//!
//! Order: checksum blocks are written, every disk is flushed (which also makes the data of the
//! regions durable on every copy), and only then the marks go. Stopped before: the regions are
//! still marked and are resynced. Stopped after: copies are equal and checksums right.

use std::sync::Arc;
use std::time::Duration;

use cellar_io::{EnvExt, Io};

use crate::data::checksum::{Checksums, Entries};
use crate::disk::lock;
use crate::error::Error;
use crate::group::inner::{Inner, StopOnPanic};
use crate::on_disk::dirty::RegionKey;
use crate::on_disk::layout::{BLOCK_U64, REGION_BYTES};
use crate::state::stretches;

/// A region that nobody wrote to for this long is cleaned.
const IDLE: Duration = Duration::from_secs(5);
/// How often the cleaner looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Starts a round of cleaning unless one runs.
pub(crate) fn start(inner: &Inner) {
    inner.cleaner_wanted.notify(1);
}

/// The cleaner's task, until the group is dismounted.
pub(crate) async fn run(inner: Arc<Inner>) {
    let _watched = StopOnPanic(&inner);
    while !inner.is_ending() {
        let listener = inner.cleaner_wanted.listen();
        let idle = IDLE;
        match round(&inner, idle).await {
            Ok(0) => {
                let pause = inner.env.sleep(LOOK_EVERY);
                futures_util::future::select(listener, pause).await;
            }
            Ok(_) => {}
            // The group has stopped, or will: there is nothing to clean any more.
            Err(_) => return,
        }
    }
}

/// Cleans what is due; returns how many regions were chosen.
pub(crate) async fn round(inner: &Arc<Inner>, idle: Duration) -> Result<usize, Error> {
    let keys = inner.data.regions.choose_to_clean(inner.env.now(), idle);
    if keys.is_empty() {
        return Ok(0);
    }
    let runs = checksum_runs(inner, &keys);
    let result = async {
        Checksums::write_back(inner, &runs).await?;
        inner.flush_disks(Io::BACKGROUND).await
    }
    .await;
    match result {
        Ok(()) => {
            inner.data.regions.cleaned(&inner.data.dirty_log, &keys);
            Ok(keys.len())
        }
        Err(error) => {
            inner.data.regions.not_cleaned(&keys);
            Err(error)
        }
    }
}

/// The checksum entries of all legs under some regions.
pub(crate) fn checksum_runs(inner: &Inner, keys: &[RegionKey]) -> Vec<Entries> {
    let core = lock(&inner.core);
    let mut runs = Vec::new();
    for key in keys {
        let Some(file) = core.state.files.get(&key.file) else {
            continue;
        };
        if file.incarnation != key.incarnation || !file.attributes.checksums {
            continue;
        }
        let start = u64::from(key.index) * REGION_BYTES;
        let end = (start + REGION_BYTES).min(file.allocated(inner.au_size));
        if start >= end {
            continue;
        }
        for s in stretches(file.attributes.striping, inner.au_size, start, end - start) {
            let moving = core.moving_to(key.file, s.extent);
            for leg in file.legs_of(s.extent).iter().copied().chain(moving) {
                runs.push(Entries {
                    leg,
                    first: s.au_offset / BLOCK_U64,
                    count: s.length / BLOCK_U64,
                });
            }
        }
    }
    runs
}
