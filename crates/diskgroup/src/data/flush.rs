//! Making a file's completed writes durable.
//!
//! Order: checksum blocks of pieces written for the first time, then a flush of every disk (data
//! and checksums), then the record that these pieces are written. Stopped before the record: the
//! pieces read as zeros, which is what they were before the unflushed writes.

use std::sync::Arc;

use cellar_io::Io;

use crate::data::checksum::Checksums;
use crate::data::clean::checksum_runs;
use crate::data::file::FileRuntime;
use crate::error::Error;
use crate::group::inner::Inner;
use crate::on_disk::dirty::RegionKey;
use crate::state::Op;

/// Piece records in one operation on the log; a region each.
const REGIONS_PER_CHANGE: usize = 4096;

/// Makes every write to `file` that completed before the call durable.
pub(crate) async fn flush_file(
    inner: &Arc<Inner>,
    file: &FileRuntime,
    io: Io,
) -> Result<(), Error> {
    let _entered = file.enter().await?;
    // Asked inside: who is inside is waited for by a dismount.
    inner.check_writable()?;
    flush_inside(inner, file, io).await
}

/// Flushes for somebody who has entered the file.
pub(crate) async fn flush_inside(
    inner: &Arc<Inner>,
    file: &FileRuntime,
    io: Io,
) -> Result<(), Error> {
    let fresh: Vec<(u32, u64)> = file.fresh().into_iter().collect();
    if file.attributes.checksums && !fresh.is_empty() {
        let keys: Vec<RegionKey> = fresh.iter().map(|(region, _)| file.key(*region)).collect();
        Checksums::write_back(inner, &checksum_runs(inner, &keys)).await?;
    }
    inner.flush_disks(io).await?;
    for part in fresh.chunks(REGIONS_PER_CHANGE) {
        let ops: Vec<Op> = part
            .iter()
            .map(|(region, pieces)| Op::Pieces { region: file.key(*region), pieces: *pieces })
            .collect();
        inner.change_inside(&ops).await?;
        for (region, pieces) in part {
            file.remove_fresh(*region, *pieces);
        }
    }
    Ok(())
}
