//! Numbers of a scan as DataFusion's metrics, for code that reads those.

use std::time::Duration;

use cellar_cell::Totals;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};

/// What a scan did, as metrics of its operator.
pub(crate) fn metrics_of(now: &Totals) -> MetricsSet {
    let set = ExecutionPlanMetricsSet::new();
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    MetricBuilder::new(&set).output_rows(0).add(number(now.returned_rows));
    let computed = Duration::from_nanos(now.compute_nanos);
    MetricBuilder::new(&set).elapsed_compute(0).add_duration(computed);
    let waited = MetricBuilder::new(&set).subset_time("wait_time", 0);
    waited.add_duration(Duration::from_nanos(now.wait_nanos));
    let counts: [(&'static str, u64); 11] = [
        ("row_groups", now.row_groups),
        ("row_groups_pruned_storage_index", now.pruned_row_groups - now.live_pruned_row_groups),
        ("row_groups_pruned_dynamic_filter", now.live_pruned_row_groups),
        ("row_groups_by_header", now.header_row_groups),
        ("row_groups_filtered", now.filtered_row_groups),
        ("rows_scanned", now.rows),
        ("rows_passed", now.passed_rows),
        ("disk_bytes", now.disk_bytes),
        ("cache_bytes", now.cache_bytes),
        ("returned_bytes", now.returned_bytes),
        ("reads", now.reads),
    ];
    for (name, value) in counts {
        MetricBuilder::new(&set).counter(name, 0).add(number(value));
    }
    set.clone_inner()
}
