//! Names of figures, those of v$sysstat where they exist, and their counts.

use std::collections::BTreeMap;

use crate::table_scan::ask::QueryRun;

pub(super) const ELIGIBLE: &str = "cell physical IO bytes eligible for predicate offload";
pub(super) const SAVED: &str = "cell physical IO bytes saved by storage index";
pub(super) const HEADERS: &str = "cell physical IO bytes answered by row group headers";
pub(super) const DISK: &str = "cell physical IO bytes read from disk";
pub(super) const CACHE: &str = "cell physical IO bytes found in cell cache";
pub(super) const RETURNED: &str = "cell physical IO interconnect bytes";
pub(super) const BY_SMART_SCAN: &str = "cell physical IO interconnect bytes returned by smart scan";
pub(super) const READS: &str = "cell reads of disks";
pub(super) const GROUPS: &str = "cell row groups scanned";
pub(super) const GROUPS_LEFT_OUT: &str = "cell row groups left out by storage index";
pub(super) const ROWS: &str = "rows looked at";
pub(super) const ROWS_RETURNED: &str = "rows returned";
pub(super) const WAITS: &str = "cell smart table scan, waits";
pub(super) const WAITED: &str = "cell smart table scan, ns";
pub(super) const ELAPSED: &str = "elapsed, ns";

/// The counters of one query.
pub(super) fn all(asked: &QueryRun, offload: bool) -> BTreeMap<String, f64> {
    let totals = &asked.totals;
    let mut counted = vec![
        (ELIGIBLE, totals.eligible_bytes),
        (SAVED, totals.saved_bytes),
        (HEADERS, totals.header_bytes),
        (DISK, totals.disk_bytes),
        (CACHE, totals.cache_bytes),
        (RETURNED, totals.returned_bytes),
        (READS, totals.reads),
        (GROUPS, totals.row_groups),
        (GROUPS_LEFT_OUT, totals.pruned_row_groups),
        (ROWS, totals.rows),
        (ROWS_RETURNED, totals.returned_rows),
        (WAITS, asked.waits),
        (WAITED, asked.wait_nanos),
        (ELAPSED, asked.nanos),
    ];
    if offload {
        counted.push((BY_SMART_SCAN, totals.returned_bytes));
    }
    counted.into_iter().map(|(name, value)| (name.to_owned(), value as f64)).collect()
}
