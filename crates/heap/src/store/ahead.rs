//! Pages that are ahead of the log: after an opening by force, of which the log has lost the newest records.

use cellar_io::{Buffer, Device, Io};
use cellar_page::{PAGE_BYTES, PageRef, check};
use cellar_redo::Recovery;

use super::Header;
use crate::header::LSN_MAX;
use crate::recovery::Replayed;

/// Pages that are read at once.
const PAGES: usize = 128;

/// The newest LSN of a page in its place, 0 where there is none, and whether all pages could be read. Pages that are
/// damaged have none: no record is ever applied to one.
pub(super) async fn newest_page(device: &dyn Device, store: u64) -> (u64, bool) {
    let (size, mut first, mut newest, mut all) = (device.geometry().size, 0u32, 0, true);
    let pages = u32::try_from(size / PAGE_BYTES as u64).unwrap_or(u32::MAX);
    let mut most = PAGES;
    while first < pages {
        let count = most.min((pages - first) as usize);
        let buffers = (0..count).map(|_| Buffer::new(PAGE_BYTES)).collect();
        let offset = u64::from(first) * PAGE_BYTES as u64;
        let read = match device.read(Io::BACKGROUND, offset, buffers).await {
            Ok(read) => read,
            Err(_) if count > 1 => {
                // One of them: each by itself.
                most = 1;
                continue;
            }
            Err(_) => {
                all = false;
                Vec::new()
            }
        };
        for (number, bytes) in (first..).zip(&read) {
            if let Ok(raw) = bytes[..].try_into()
                && check(raw, store, number).is_ok()
            {
                newest = newest.max(PageRef::new(raw).lsn().min(LSN_MAX));
            }
        }
        first += count as u32;
        if first.is_multiple_of(PAGES as u32) {
            most = PAGES;
        }
    }
    (newest, all)
}

/// The LSN below which the pages are that have what the log, which was read to its end, has lost; 0: it has lost
/// nothing that a page has.
pub(super) async fn ahead_of_log(
    recovery: &Recovery,
    header: &Header,
    replayed: &Replayed,
    device: &dyn Device,
) -> u64 {
    if header.ahead > 0 || !recovery.is_forced() {
        return header.ahead;
    }
    let (newest, all) = newest_page(device, header.store).await;
    let (newest, end) = (newest.max(replayed.newest), recovery.end().0);
    // A page that cannot be read may come back, and have what is lost.
    let is_ahead = newest >= replayed.known || header.checkpoint > end || !all;
    if is_ahead { header.checkpoint.max(newest.max(end) + 1) } else { 0 }
}
