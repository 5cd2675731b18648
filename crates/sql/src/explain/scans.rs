//! Facts about scans: those of a cell, of files, and of data in memory.

use std::sync::Arc;

use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, split_conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_plan::metrics::{MetricValue, MetricsSet};

use crate::columnar::exec::CellScanExec;
use crate::error::shown;
use crate::explain::facts::{CellScan, Conjunct, FileScan, FileTotals, Kind, Narrower, Narrowing};
use crate::explain::tables::Tables;
use crate::path::GroupPath;
use crate::words::{Names, of_schema, own_name, words};

/// Finds the producer of the filter with that number.
pub(super) type Makers<'a> = &'a dyn Fn(u64) -> Option<Narrower>;

/// A scan of a columnar table; `ran`: including what it did.
pub(super) fn cell(scan: &CellScanExec, makers: Makers<'_>, ran: bool) -> CellScan {
    let table = scan.table();
    let schema = table.schema();
    let name = |at: usize| schema.fields().get(at).map_or_else(String::new, |f| f.name().clone());
    let names = of_schema(schema);
    let conjuncts = scan.told().into_iter();
    CellScan {
        table: shown(table.name().to_owned()),
        columns: scan.columns_read().into_iter().map(name).collect(),
        conjuncts: conjuncts
            .map(|told| Conjunct { text: told.conjunct, residual: told.reason })
            .collect(),
        narrowing: scan.dynamic().iter().filter_map(|e| narrowing(e, &names, makers)).collect(),
        aggregate: scan
            .partial()
            .map(|partial| (partial.call_words().to_vec(), partial.key_words().to_vec())),
        first: scan.first().map(|(column, greatest)| (name(column), greatest)),
        ordered: scan.is_ordered(),
        fetch: scan.fetch(),
        row_groups: table.row_groups() as u64,
        row_groups_left: scan.row_groups_left() as u64,
        totals: ran.then(|| scan.totals()),
    }
}

/// A filter that is known only while the plan runs; `None`: it is not one.
fn narrowing(
    expr: &Arc<dyn PhysicalExpr>,
    names: Names<'_>,
    makers: Makers<'_>,
) -> Option<Narrowing> {
    let number = expr.expression_id()?;
    let mut columns: Vec<Column> = collect_columns(expr).into_iter().collect();
    columns.sort_by_key(Column::index);
    let columns = columns.iter().map(names).collect();
    Some(Narrowing { number, columns, by: makers(number) })
}

/// A source of DataFusion's; `None`: it has no name here.
pub(super) fn source(
    source: &DataSourceExec,
    tables: &Tables,
    makers: Makers<'_>,
    ran: bool,
) -> Option<Kind> {
    if let Some(memory) = source.data_source().downcast_ref::<MemorySourceConfig>() {
        return Some(Kind::Memory { name: tables.by_schema(&memory.original_schema()) });
    }
    let files = source.data_source().downcast_ref::<FileScanConfig>()?;
    let totals = source.metrics().filter(|_| ran).map(|metrics| totals_of(&metrics));
    Some(Kind::Files(Box::new(file_scan(files, tables, makers, totals))))
}

fn file_scan(
    scan: &FileScanConfig,
    tables: &Tables,
    makers: Makers<'_>,
    totals: Option<FileTotals>,
) -> FileScan {
    let store = scan.object_store_url.as_str();
    let place = |path: &str| match GroupPath::split_url(store) {
        Some((group, _)) => format!("+{group}/{path}"),
        None if store.starts_with("file:") => format!("/{path}"),
        None => format!("{store}{path}"),
    };
    let files = scan.file_groups.iter().flat_map(|group| group.iter());
    let mut files: Vec<String> =
        files.map(|file| place(file.object_meta.location.as_ref())).collect();
    // A large file is read in several parts.
    files.sort();
    files.dedup();
    let schema = scan.projected_schema().ok();
    let fields = schema.iter().flat_map(|schema| schema.fields().iter());
    let (mut conjuncts, mut live) = (Vec::new(), Vec::new());
    let names: Names<'_> = &own_name;
    if let Some(filter) = scan.file_source().filter() {
        for one in split_conjunction(&filter) {
            match one.downcast_ref::<DynamicFilterPhysicalExpr>() {
                Some(_) => live.extend(narrowing(one, names, makers)),
                None => conjuncts.push(words(one, names)),
            }
        }
    }
    FileScan {
        table: tables.by_files(scan),
        format: scan.file_source().file_type().to_owned(),
        files,
        columns: fields.map(|field| field.name().clone()).collect(),
        conjuncts,
        narrowing: live,
        fetch: scan.limit,
        totals,
    }
}

/// The totals in the metrics of a file scan.
fn totals_of(metrics: &MetricsSet) -> FileTotals {
    let mut totals = FileTotals::default();
    for metric in metrics.iter() {
        match metric.value() {
            MetricValue::Count { name, count } => {
                let count = count.value() as u64;
                match &**name {
                    "bytes_scanned" => *totals.bytes.get_or_insert(0) += count,
                    "row_groups_pruned_dynamic_filter" => totals.by_narrowing += count,
                    "pushdown_rows_pruned" => *totals.rows_pruned.get_or_insert(0) += count,
                    _ => {}
                }
            }
            MetricValue::PruningMetrics { name, pruning_metrics } => {
                let (pruned, matched) =
                    (pruning_metrics.pruned() as u64, pruning_metrics.matched() as u64);
                match &**name {
                    "row_groups_pruned_statistics" => {
                        let groups = totals.row_groups.get_or_insert((0, 0));
                        *groups = (groups.0 + pruned + matched, groups.1 + pruned);
                    }
                    "row_groups_pruned_bloom_filter" => totals.by_bloom += pruned,
                    "files_ranges_pruned_statistics" => totals.files_pruned += pruned,
                    "page_index_rows_pruned" => totals.rows_by_page_index += pruned,
                    _ => {}
                }
            }
            _ => {}
        }
    }
    totals
}
