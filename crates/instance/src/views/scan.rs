//! Rows about scans of columnar tables, and the statistics that they add up to.

use std::time::Duration;

use cellar_io::WallTime;
use cellar_storage::redo::Redo;

use super::row::view;
use crate::catalog::name;
use crate::roles::Logins;
use crate::scans::{ScanRecord, Scans};
use crate::temp::TempSpace;

view! {
    /// A scan of a columnar table: one of the last hundred
    VCellScan = "v$cell_scan" {
        number: u64 = "scan#", "Number of the scan, from 1 since the start";
        sid: u32 = "sid", "The session that asked";
        table: String = "table_name", "The table";
        began: WallTime = "began", "When it began";
        filters: u64 = "filters", "Conditions that rows had to pass; each is in v$cell_scan_filter";
        offloaded: u64 = "filters_offloaded", "Conditions that were evaluated on encoded columns";
        aggregate: Option<String> = "partial_aggregate", "What was aggregated in the cell";
        row_groups: u64 = "row_groups", "Row groups of the table";
        pruned: u64 = "row_groups_pruned", "Row groups that the storage index left out";
        answered: u64 = "row_groups_by_header", "Row groups that were answered from their headers";
        filtered: u64 = "row_groups_filtered",
            "Row groups of which only the columns of the conditions were read: no row passed";
        rows: u64 = "rows_scanned", "Rows of the row groups that were looked at";
        returned_rows: u64 = "rows_returned", "Rows, or groups, that were returned";
        eligible: u64 = "eligible_bytes", "Bytes of the columns that the query names";
        saved: u64 = "saved_bytes", "Bytes of them in row groups that the storage index left out";
        by_header: u64 = "by_header_bytes", "Bytes of them in row groups answered by their headers";
        disk: u64 = "disk_bytes", "Bytes that were read from disks";
        cache: u64 = "cache_bytes", "Bytes that were in the cell's memory";
        returned: u64 = "returned_bytes", "Bytes of what was returned";
        reads: u64 = "reads", "Reads of disks";
        compute_ms: f64 = "compute_ms", "Time that filtering and aggregating took, in ms of one core";
        wait_ms: f64 = "wait_ms", "Time that workers waited for reads, in ms";
    }
}

view! {
    /// A condition of a scan in v$cell_scan
    VCellScanFilter = "v$cell_scan_filter" {
        number: u64 = "scan#", "Number of the scan";
        position: u64 = "filter#", "Number of the condition, from 1";
        filter: String = "filter", "The condition";
        offloaded: &'static str = "offloaded",
            "YES: evaluated on encoded columns. NO: in the cell too, on decoded rows";
        reason: Option<String> = "reason", "Why not";
    }
}

view! {
    /// A statistic of the instance since its start
    VSysstat = "v$sysstat" {
        number: u64 = "statistic#", "Number of the statistic in this version";
        name: &'static str = "name", "Its name";
        class: u32 = "class", "1: users; 2: redo; 8: cache and storage";
        value: u64 = "value", "Its value; bytes where the name says bytes";
    }
}

fn ms(nanos: u64) -> f64 {
    Duration::from_nanos(nanos).as_secs_f64() * 1e3
}

/// The rows of v$cell_scan.
pub fn cell_scan(scans: &Scans) -> Vec<VCellScan> {
    let row = |scan: &ScanRecord| {
        let now = scan.stats.totals();
        VCellScan {
            number: scan.number,
            sid: scan.sid,
            table: name::shown(&scan.table).into_owned(),
            began: WallTime { unix_nanos: scan.began },
            filters: scan.filters.len() as u64,
            offloaded: scan.filters.iter().filter(|f| f.residual.is_none()).count() as u64,
            aggregate: scan.partial.clone(),
            row_groups: now.row_groups,
            pruned: now.pruned_row_groups,
            answered: now.header_row_groups,
            filtered: now.filtered_row_groups,
            rows: now.rows,
            returned_rows: now.returned_rows,
            eligible: now.eligible_bytes,
            saved: now.saved_bytes,
            by_header: now.header_bytes,
            disk: now.disk_bytes,
            cache: now.cache_bytes,
            returned: now.returned_bytes,
            reads: now.reads,
            compute_ms: ms(now.compute_nanos),
            wait_ms: ms(now.wait_nanos),
        }
    };
    scans.recent().0.iter().map(row).collect()
}

/// The rows of v$cell_scan_filter.
pub fn cell_scan_filter(scans: &Scans) -> Vec<VCellScanFilter> {
    let rows = |scan: &ScanRecord| {
        let number = scan.number;
        let row = |(at, filter): (usize, &crate::scans::ScanFilter)| VCellScanFilter {
            number,
            position: at as u64 + 1,
            filter: filter.text.clone(),
            offloaded: if filter.residual.is_none() { "YES" } else { "NO" },
            reason: filter.residual.clone(),
        };
        scan.filters.iter().enumerate().map(row).collect::<Vec<_>>()
    };
    scans.recent().0.iter().flat_map(rows).collect()
}

/// The rows of v$sysstat.
pub fn sysstat(scans: &Scans, temp: &TempSpace, redo: &Redo, logins: &Logins) -> Vec<VSysstat> {
    let (now, (_, count)) = (scans.totals(), scans.recent());
    let (hits, misses) = scans.cache().hits_and_misses();
    let statistics = [
        ("cell scans", count),
        ("cell physical IO bytes eligible for predicate offload", now.eligible_bytes),
        ("cell physical IO bytes saved by storage index", now.saved_bytes),
        ("cell physical IO bytes answered by row group headers", now.header_bytes),
        ("cell physical IO bytes read from disk", now.disk_bytes),
        ("cell physical IO bytes found in cell cache", now.cache_bytes),
        ("cell physical IO interconnect bytes", now.returned_bytes),
        ("cell physical IO interconnect bytes returned by smart scan", now.returned_bytes),
        ("cell row groups scanned", now.row_groups),
        ("cell row groups left out by storage index", now.pruned_row_groups),
        ("cell cache hits", hits),
        ("cell cache misses", misses),
        ("cell cache bytes", scans.cache().used()),
    ];
    // Oracle's classes: 1 is users, 2 is redo, 8 is cache.
    let others = statistics.into_iter().chain(temp.statistics()).map(|known| (known, 8));
    let users = logins.statistics().into_iter().map(|known| (known, 1));
    let redo = super::redo::statistics(redo).into_iter().map(|known| (known, 2));
    let row = |(at, ((name, value), class)): (usize, ((&'static str, u64), u32))| VSysstat {
        number: at as u64,
        name,
        class,
        value,
    };
    others.chain(redo).chain(users).enumerate().map(row).collect()
}
