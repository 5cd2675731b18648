//! The `table` arm: a table scanned by a cell.

use super::{Layout, Measured, Options, SCAN_DEPTH};
use crate::column::Column;
use crate::load::Tables;
use crate::table_scan::scanner::workers;
use crate::table_scan::table::Spec;

/// Its name.
pub(super) const ARM: &str = "table";
/// A model scans a table of at most this many bytes: more would only take longer.
pub(super) const MODEL_BYTES: u64 = 64 << 20;

/// The tables of a layout, if any.
pub(super) fn tables(options: &Options, place: Column) -> Option<Tables> {
    let (bytes, seed) = (options.table_bytes, options.seed);
    let spec = Spec { bytes, clustered: true, seed };
    let tables = Tables { spec, depth: SCAN_DEPTH, workers: workers(place) };
    (bytes > 0).then_some(tables)
}

/// The rate of a cell, compared with reads without it.
pub(super) fn remark(options: &Options, main: &Measured) -> Option<String> {
    let of = |layout: &Layout| {
        let rate = main.rate(ARM, *layout)?;
        // The rate without a group is measured only on real disks.
        let (raw, what) = match main.rate("ceiling", *layout) {
            Some(raw) => (raw, "the raw-device rate"),
            None => (main.rate("serial", *layout)?, "1 MB reads of a file"),
        };
        let part = 100.0 * rate / raw.max(f64::MIN_POSITIVE);
        Some(format!("\"{}\" {rate:.0} MB/s, {part:.0} % of {what}", layout.name()))
    };
    let all: Vec<String> = options.layouts.iter().filter_map(of).collect();
    (!all.is_empty())
        .then(|| format!("a table by the cell, columns as encoded: {}", all.join("; ")))
}
