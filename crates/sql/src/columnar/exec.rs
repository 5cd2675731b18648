//! The leaf of a plan that scans a columnar table: what it pushes down to the cell, and what it reports
//! about the scan.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use cellar_cell::{
    DynamicFilter, Error as CellError, Item, Output, Request, Residual, Scan, ScanStats, Totals,
    order_of,
};
use cellar_format::header::Order;
use cellar_format::packed::is_packed;
use cellar_format::{Aggregate, Predicate};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Statistics, internal_err, stats::Precision};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::sort_pushdown::SortOrderPushdownResult;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};

use crate::columnar::dynamic_filter::NarrowingFilter;
use crate::columnar::filter_outcome::FilterOutcome;
use crate::columnar::groups::{columns_to_batch, to_batch};
use crate::columnar::keys::JoinKeys;
use crate::columnar::metrics::metrics_of;
use crate::columnar::table::OpenTable;
use crate::columnar::translate::predicate;
use crate::walk::Walk;
use crate::words::{of_schema, words};

/// A partial aggregation in the cell.
#[derive(Clone, Debug)]
pub struct Partial {
    /// What the cell computes.
    pub aggregate: Aggregate,
    /// The resulting columns: the keys, then the partial state of each call.
    pub schema: SchemaRef,
    /// For each column after the keys: the call it belongs to, and which part of its state it is.
    pub parts: Vec<(usize, Part)>,
    /// Each call that the query makes, in words.
    pub calls: Vec<String>,
    /// Each key, in words.
    pub keys: Vec<String>,
}

impl Partial {
    /// Whether both compute the same columns.
    pub fn is_same(&self, other: &Partial) -> bool {
        self.aggregate == other.aggregate && self.parts == other.parts
    }

    /// The calls, as they are written in a query.
    pub fn call_words(&self) -> &[String] {
        &self.calls
    }

    /// The keys.
    pub fn key_words(&self) -> &[String] {
        &self.keys
    }

    /// What it computes, in words.
    pub fn text(&self) -> String {
        let calls = self.calls.join(", ");
        match self.keys.is_empty() {
            true => calls,
            false => format!("{calls} group by {}", self.keys.join(", ")).trim_start().to_owned(),
        }
    }
}

/// A part of the partial state of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The number of rows counted.
    Rows,
    /// The sum, or the least or greatest value.
    Value,
}

/// A scan of a columnar table.
#[derive(Clone, Debug)]
pub struct CellScanExec {
    table: Arc<OpenTable>,
    /// Columns of the table that come out, unless the result is groups.
    projection: Vec<usize>,
    schema: SchemaRef,
    /// Filters over the table's columns.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    dynamic: Vec<Arc<dyn PhysicalExpr>>,
    /// Keys of joins, by the numbers of their filters.
    keys: Arc<Mutex<BTreeMap<u64, JoinKeys>>>,
    fetch: Option<usize>,
    first: Option<(usize, bool)>,
    /// Whether its rows come in the order that its properties declare: those of one worker.
    ordered: bool,
    partial: Option<Arc<Partial>>,
    properties: Arc<PlanProperties>,
    stats: Arc<ScanStats>,
    run: Arc<Mutex<Run>>,
}

/// A run of the plan: the scan that all its partitions work on, started by the first that needs it.
#[derive(Debug, Default)]
struct Run {
    scan: Arc<OnceLock<Arc<Scan>>>,
    executed: BTreeSet<usize>,
}

fn properties(schema: &SchemaRef, partitions: usize) -> Arc<PlanProperties> {
    let properties = PlanProperties::new(
        EquivalenceProperties::new(Arc::clone(schema)),
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Incremental,
        Boundedness::Bounded,
    );
    Arc::new(properties)
}

impl CellScanExec {
    /// A scan of these columns, of the rows that pass the filters, by so many workers.
    pub fn new(
        table: Arc<OpenTable>,
        projection: Vec<usize>,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        fetch: Option<usize>,
        partitions: usize,
    ) -> Result<CellScanExec> {
        let schema = Arc::new(table.schema().project(&projection)?);
        let morsels = table.row_groups().max(1);
        let properties = properties(&schema, partitions.clamp(1, morsels));
        Ok(CellScanExec {
            table,
            projection,
            schema,
            filters,
            dynamic: Vec::new(),
            keys: Arc::default(),
            fetch,
            first: None,
            ordered: false,
            partial: None,
            properties,
            stats: Arc::default(),
            run: Arc::default(),
        })
    }

    /// The same scan, as if it had not been run.
    fn anew(&self) -> CellScanExec {
        CellScanExec { stats: Arc::default(), run: Arc::default(), ..self.clone() }
    }

    /// The same scan, with its rows in order.
    fn in_order(&self, order: &[PhysicalSortExpr], first: Option<(usize, bool)>) -> CellScanExec {
        let mut equal = EquivalenceProperties::new(Arc::clone(&self.schema));
        equal.add_ordering(order.to_vec());
        let properties = PlanProperties::new(
            equal,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        CellScanExec { first, ordered: true, properties: Arc::new(properties), ..self.anew() }
    }

    /// The same scan, with groups of rows as its result.
    pub fn with_partial(&self, partial: Partial) -> CellScanExec {
        let properties = properties(&partial.schema, self.partitions());
        let schema = Arc::clone(&partial.schema);
        CellScanExec { partial: Some(Arc::new(partial)), properties, schema, ..self.anew() }
    }

    /// The table.
    pub fn table(&self) -> &Arc<OpenTable> {
        &self.table
    }

    /// The column of the table that comes out as column `at`.
    pub fn column(&self, at: usize) -> Option<usize> {
        self.projection.get(at).copied()
    }

    /// Whether both have the same result: from the same segments, the same groups or all rows of the
    /// same columns.
    pub fn is_same(&self, other: &CellScanExec) -> bool {
        let segments = (self.table.segments(), other.table.segments());
        let partial = match (&self.partial, &other.partial) {
            (Some(one), Some(other)) => one.is_same(other),
            (None, None) => self.projection == other.projection,
            _ => false,
        };
        partial
            && self.table.name() == other.table.name()
            && segments.0.len() == segments.1.len()
            && segments.0.iter().zip(segments.1).all(|(one, other)| Arc::ptr_eq(one, other))
            && self.filters == other.filters
            && self.dynamic.is_empty()
            && other.dynamic.is_empty()
            && (self.fetch, other.fetch) == (None, None)
            && (self.first, other.first) == (None, None)
            && self.partitions() == other.partitions()
    }

    fn partitions(&self) -> usize {
        self.properties.partitioning.partition_count()
    }

    /// Whether it returns groups of rows.
    pub fn gives_groups(&self) -> bool {
        self.partial.is_some()
    }

    /// Whether it returns groups, or only some of the rows.
    pub fn is_bound(&self) -> bool {
        self.partial.is_some() || self.fetch.is_some()
    }

    /// Sets where the keys of joins will be found, by the numbers of their filters.
    pub fn know_keys(&self, filters: &BTreeMap<u64, JoinKeys>) {
        let ids = self.dynamic.iter().filter_map(|expr| expr.expression_id());
        let own = ids.filter_map(|id| Some((id, Arc::clone(filters.get(&id)?))));
        let own: Vec<_> = own.collect();
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
    }

    /// What is aggregated in the cell.
    pub fn partial(&self) -> Option<&Partial> {
        self.partial.as_deref()
    }

    /// The conditions that are known before it runs, and the outcome of each.
    pub fn told(&self) -> Vec<FilterOutcome> {
        self.split().2
    }

    /// The filters that become known only while it runs, over the columns of the table.
    pub fn dynamic(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.dynamic
    }

    /// The column that orders its row groups, and whether the greatest values come first.
    pub fn first(&self) -> Option<(usize, bool)> {
        self.first
    }

    /// What it has done so far.
    pub fn totals(&self) -> Totals {
        self.stats.totals()
    }

    /// Row groups of the table that may have matching rows, according to their headers.
    pub fn row_groups_left(&self) -> usize {
        self.table.row_groups_after(&self.split().0)
    }

    /// The columns of the table that it reads.
    pub fn columns_read(&self) -> BTreeSet<usize> {
        let mut columns: BTreeSet<usize> = self
            .filters
            .iter()
            .chain(&self.dynamic)
            .flat_map(collect_columns)
            .map(|column| column.index())
            .collect();
        match &self.partial {
            Some(partial) => partial.aggregate.columns(&mut columns),
            None => columns.extend(&self.projection),
        }
        columns
    }

    /// About how many rows pass the conditions.
    pub fn rows_expected(&self) -> usize {
        match self.filters.is_empty() {
            true => usize::try_from(self.table.rows()).unwrap_or(usize::MAX),
            false => self.rows_left(),
        }
    }

    /// Whether its rows come in an order.
    pub fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// What the cell evaluates itself, and what is left, with the reasons.
    fn split(&self) -> (Vec<Predicate>, Vec<Arc<dyn PhysicalExpr>>, Vec<FilterOutcome>) {
        let (mut conjuncts, mut residual, mut told) = (Vec::new(), Vec::new(), Vec::new());
        for filter in &self.filters {
            let conjunct = words(filter, &of_schema(self.table.schema()));
            let known = predicate(filter, false, self.table.schema());
            match known.and_then(|known| self.table.fitting(known)) {
                Ok(known) => {
                    conjuncts.push(known);
                    told.push(FilterOutcome { conjunct, reason: None });
                }
                Err(reason) => {
                    residual.push(Arc::clone(filter));
                    told.push(FilterOutcome { conjunct, reason: Some(reason) });
                }
            }
        }
        (conjuncts, residual, told)
    }

    fn request(&self) -> (Request, Vec<FilterOutcome>) {
        let (conjuncts, residual, told) = self.split();
        let schema = self.table.schema();
        let residual = residual.into_iter().reduce(and);
        let residual = residual.map(|expr| Arc::new(Rest::new(&expr, schema)) as Arc<dyn Residual>);
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let live = self.dynamic.iter().map(|expr| {
            let keys = expr.expression_id().and_then(|id| keys.get(&id).cloned());
            Arc::new(NarrowingFilter::new(Arc::clone(expr), Arc::clone(&self.table), keys))
                as Arc<dyn DynamicFilter>
        });
        let output = match &self.partial {
            Some(partial) => Output::Groups(partial.aggregate.clone(), Arc::clone(schema)),
            None => {
                Output::Rows { columns: self.projection.clone(), schema: Arc::clone(&self.schema) }
            }
        };
        let request = Request {
            segments: self.table.segments().to_vec(),
            conjuncts,
            residual,
            live: live.collect(),
            output,
            limit: self.fetch.map(|fetch| fetch as u64),
            first: self.first,
            ordered: self.ordered,
            depth: self.table.depth(),
            waits: Some(self.table.waits()),
        };
        (request, told)
    }

    /// The run that an execution of a partition belongs to. A partition that is executed again returns
    /// all its rows again: that is a new run.
    fn run(&self, partition: usize) -> Arc<OnceLock<Arc<Scan>>> {
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        if !run.executed.insert(partition) {
            *run = Run::default();
            run.executed.insert(partition);
        }
        Arc::clone(&run.scan)
    }

    fn begin(&self) -> Arc<Scan> {
        let (request, told) = self.request();
        let stats = Arc::clone(&self.stats);
        self.table.begin_scan(request, told, stats, self.partial.as_ref().map(|p| p.text()))
    }
}

fn and(a: Arc<dyn PhysicalExpr>, b: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    use datafusion::logical_expr::Operator;
    Arc::new(datafusion::physical_plan::expressions::BinaryExpr::new(a, Operator::And, b))
}

/// Filters that are evaluated on decoded columns.
struct Rest {
    expr: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    columns: Vec<(usize, DataType)>,
}

impl Rest {
    fn new(expr: &Arc<dyn PhysicalExpr>, table: &SchemaRef) -> Rest {
        use datafusion::physical_expr::utils::reassign_expr_columns;
        let mut columns: Vec<usize> = collect_columns(expr).iter().map(Column::index).collect();
        columns.sort_unstable();
        let schema = Arc::new(table.project(&columns).expect("columns of the table"));
        let expr = reassign_expr_columns(Arc::clone(expr), &schema);
        let types = columns.iter().map(|at| (*at, table.field(*at).data_type().clone()));
        let columns = types.collect();
        Rest { expr: expr.expect("each column is in the schema"), schema, columns }
    }
}

impl Residual for Rest {
    fn columns(&self) -> &[(usize, DataType)] {
        &self.columns
    }

    fn keep(
        &self,
        columns: Vec<ArrayRef>,
        rows: usize,
    ) -> std::result::Result<BooleanArray, Box<dyn std::error::Error + Send + Sync>> {
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options);
        let array = self.expr.evaluate(&batch.map_err(DataFusionError::from)?)?.into_array(rows)?;
        Ok(datafusion::common::cast::as_boolean_array(&array).cloned()?)
    }
}

impl DisplayAs for CellScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, _, told) = self.split();
        write!(f, "CellScanExec: table={}", self.table.name())?;
        match &self.partial {
            Some(partial) => write!(f, ", partial aggregate in the cell=[{}]", partial.text())?,
            None => {
                let names: Vec<&str> =
                    self.schema.fields().iter().map(|field| field.name().as_str()).collect();
                write!(f, ", columns=[{}]", names.join(", "))?;
            }
        }
        let offloaded: Vec<&str> =
            told.iter().filter(|t| t.reason.is_none()).map(|t| &*t.conjunct).collect();
        if !offloaded.is_empty() {
            write!(f, ", offloaded=[{}]", offloaded.join("; "))?;
        }
        for told in &told {
            if let Some(reason) = &told.reason {
                write!(f, ", residual=[{}: {reason}]", told.conjunct)?;
            }
        }
        if !self.dynamic.is_empty() {
            let dynamic: Vec<String> = self.dynamic.iter().map(ToString::to_string).collect();
            write!(f, ", dynamic=[{}]", dynamic.join("; "))?;
        }
        if let Some((column, greatest)) = self.first {
            let name = self.table.schema().field(column).name().clone();
            let end = if greatest { "greatest" } else { "least" };
            match self.ordered {
                true => write!(f, ", in order of=[{name}]")?,
                false => write!(f, ", first=[{end} {name}]")?,
            }
        }
        match self.fetch {
            Some(fetch) => write!(f, ", fetch={fetch}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for CellScanExec {
    fn name(&self) -> &'static str {
        "CellScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        // The dynamic filters as well: a join fills only a filter that it finds here.
        for expr in self.filters.iter().chain(&self.dynamic) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.len() {
            0 => Ok(self),
            more => internal_err!("a scan has no inputs, not {more}"),
        }
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.anew()))
    }

    fn execute(&self, at: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (plan, partial) = (self.clone(), self.partial.clone());
        let run = self.run(at);
        // Started when rows are first requested: by then the other side of a join has determined its keys.
        let worker = None::<cellar_cell::Worker>;
        let stream = futures_util::stream::unfold((plan, worker), move |(plan, worker)| {
            let (partial, run) = (partial.clone(), Arc::clone(&run));
            async move {
                let begun = || run.get_or_init(|| plan.begin()).worker();
                let mut worker = worker.unwrap_or_else(begun);
                let item = worker.next().await?;
                let batch = match item {
                    Ok(Item::Rows(batch)) => Ok(batch),
                    Ok(Item::Groups(groups)) => match &partial {
                        Some(partial) => to_batch(groups, partial),
                        None => internal_err!("groups of a scan for rows"),
                    },
                    Ok(Item::Columns(columns)) => match &partial {
                        Some(partial) => columns_to_batch(columns, partial),
                        None => internal_err!("groups of a scan for rows"),
                    },
                    Err(error) => Err(plan.failed(error)),
                };
                Some((batch, (plan, Some(worker))))
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(metrics_of(&self.stats.totals()))
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        if args.partition().is_some() || self.partial.is_some() {
            return Ok(Arc::new(Statistics::new_unknown(&self.schema)));
        }
        let whole = self.table.statistics();
        let columns: Vec<ColumnStatistics> =
            self.projection.iter().map(|at| whole.column_statistics[*at].clone()).collect();
        let mut statistics = Statistics {
            num_rows: whole.num_rows,
            total_byte_size: Precision::Absent,
            column_statistics: columns,
        };
        if !self.filters.is_empty() || !self.dynamic.is_empty() {
            statistics = statistics.to_inexact();
            statistics.num_rows = Precision::Inexact(self.rows_left());
        }
        if let Some(fetch) = self.fetch {
            statistics = statistics.to_inexact();
            let rows = statistics.num_rows.get_value().copied().unwrap_or(fetch);
            statistics.num_rows = Precision::Inexact(rows.min(fetch));
        }
        Ok(Arc::new(statistics))
    }

    fn supports_limit_pushdown(&self) -> bool {
        false
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        // Each worker returns the first rows it finds; which ones those are does not matter.
        match self.partial {
            Some(_) => None,
            None => Some(Arc::new(CellScanExec { fetch: limit, ..self.anew() })),
        }
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        result: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let asked = result.parent_filters;
        let is_closed =
            self.fetch.is_some() || (self.partial.is_some() && phase == FilterPushdownPhase::Pre);
        if is_closed || asked.is_empty() {
            return Ok(FilterPushdownPropagation::with_parent_pushdown_result(
                asked.iter().map(|_| PushedDown::No).collect(),
            ));
        }
        let mut plan = self.anew();
        let mut answers = Vec::with_capacity(asked.len());
        // Over groups, only conditions on the keys are conditions on rows.
        let is_of_rows = |filter: &Arc<dyn PhysicalExpr>| {
            let columns = collect_columns(filter);
            let mut own = columns.iter().map(|column| self.source_column(column.index()));
            self.partial.is_none() || (!columns.is_empty() && own.all(|column| column.is_some()))
        };
        for filter in asked {
            if !is_of_rows(&filter.filter) {
                answers.push(PushedDown::No);
                continue;
            }
            let own = self.over_table(&filter.filter)?;
            match phase {
                FilterPushdownPhase::Pre => {
                    plan.filters.push(own);
                    answers.push(PushedDown::Yes);
                }
                // The scan may leave out rows safely, and the consumer tests each row again anyway.
                FilterPushdownPhase::Post => {
                    plan.dynamic.push(own);
                    answers.push(PushedDown::No);
                }
            }
        }
        Ok(FilterPushdownPropagation::with_parent_pushdown_result(answers)
            .with_updated_node(Arc::new(plan)))
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        let column = order.first().and_then(|sort| sort.expr.downcast_ref::<Column>());
        let Some(column) = column.and_then(|column| self.column(column.index())) else {
            return Ok(SortOrderPushdownResult::Unsupported);
        };
        // The bytes of packed values do not sort as the values do.
        let is_packed = is_packed(self.table.schema().field(column).data_type());
        if self.is_bound() || is_packed {
            return Ok(SortOrderPushdownResult::Unsupported);
        }
        let greatest = order[0].options.descending;
        let first = Some((column, greatest));
        // If all rows are wanted, one worker in order is less work than a sort. If only few are wanted,
        // several workers find them sooner.
        if !greatest && self.filters.is_empty() && self.dynamic.is_empty() {
            let own = order_of(self.table.segments(), column);
            if own == Order::Strict || (own == Order::Ascending && order.len() == 1) {
                let inner = self.in_order(order, first);
                return Ok(SortOrderPushdownResult::Exact { inner: Arc::new(inner) });
            }
        }
        let inner = CellScanExec { first, ..self.anew() };
        Ok(SortOrderPushdownResult::Inexact { inner: Arc::new(inner) })
    }
}

impl CellScanExec {
    /// The column of the table that comes out as column `at`, whether as a column or as a group key.
    fn source_column(&self, at: usize) -> Option<usize> {
        let all = self.partial.as_ref().map_or(&self.projection, |own| &own.aggregate.keys);
        all.get(at).copied()
    }

    /// An expression over the output, as one over the table's columns.
    pub fn over_table(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        use datafusion::common::tree_node::Transformed;
        let of_table = |expr: Arc<dyn PhysicalExpr>| {
            let Some(column) = expr.downcast_ref::<Column>() else {
                return Ok(Transformed::no(expr));
            };
            let Some(at) = self.source_column(column.index()) else {
                return internal_err!("{column} is not one of the scan's columns");
            };
            Ok(Transformed::yes(Arc::new(Column::new(column.name(), at)) as Arc<dyn PhysicalExpr>))
        };
        Ok(Arc::clone(expr).map_up(of_table)?.data)
    }

    /// About how many rows pass: the rows of the remaining row groups, reduced by each filter.
    fn rows_left(&self) -> usize {
        let (conjuncts, residual, _) = self.split();
        let rows = self.table.rows_after(&conjuncts) as f64;
        let filters = i32::try_from(conjuncts.len() + residual.len()).unwrap_or(i32::MAX);
        (rows * 0.3f64.powi(filters)).ceil() as usize
    }

    fn failed(&self, error: CellError) -> DataFusionError {
        let error = match error {
            // What DataFusion could not compute is reported as if DataFusion had evaluated it itself.
            CellError::Residual(error) => match error.downcast::<DataFusionError>() {
                Ok(own) => return *own,
                Err(error) => CellError::Residual(error),
            },
            error => error,
        };
        DataFusionError::External(Box::new(self.table.failed(&error)))
    }
}
