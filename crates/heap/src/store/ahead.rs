//! Pages that are ahead of the log: after an opening by force, of which the log has lost the newest records.

use cellar_io::{Buffer, Device, Io};
use cellar_page::{PAGE_BYTES, PageRef, check};
use cellar_redo::Recovery;

use super::Header;
use crate::error::Error;
use crate::recovery::Replayed;

/// Pages that are read at once.
const PAGES: usize = 128;

/// The newest LSN of a page in its place; 0 where there is none. Pages that are damaged have none.
async fn newest_page(device: &dyn Device, store: u64) -> Result<u64, Error> {
    let (size, mut first, mut newest) = (device.geometry().size, 0u32, 0);
    let pages = u32::try_from(size / PAGE_BYTES as u64).unwrap_or(u32::MAX);
    while first < pages {
        let count = PAGES.min((pages - first) as usize);
        let buffers = (0..count).map(|_| Buffer::new(PAGE_BYTES)).collect();
        let offset = u64::from(first) * PAGE_BYTES as u64;
        let read = device.read(Io::BACKGROUND, offset, buffers).await?;
        for (number, bytes) in (first..).zip(&read) {
            if let Ok(raw) = bytes[..].try_into()
                && check(raw, store, number).is_ok()
            {
                newest = newest.max(PageRef::new(raw).lsn());
            }
        }
        first += count as u32;
    }
    Ok(newest)
}

/// The LSN below which the pages are that have what the log, which was read to its end, has lost; 0: it has lost
/// nothing that a page has.
///
/// # Errors
/// The device.
pub(super) async fn ahead_of_log(
    recovery: &Recovery,
    header: &Header,
    replayed: &Replayed,
    device: &dyn Device,
) -> Result<u64, Error> {
    if header.ahead > 0 || !recovery.is_forced() {
        return Ok(header.ahead);
    }
    let newest = newest_page(device, header.store).await?.max(replayed.newest);
    let below = header.checkpoint.max(newest + 1);
    Ok(if below > recovery.end().0 { below } else { 0 })
}
