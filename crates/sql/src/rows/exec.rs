//! The leaf of a plan that reads a table in the heap.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Bound, RangeInclusive};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use cellar_format::rows::RowAggregate;
use cellar_format::{Aggregate, Predicate};
use cellar_instance::heap::{Entries, Shares, TableSize};
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
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
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, Statistics,
};
use futures_util::stream;

use super::access::Access;
use super::distinct::Distinct;
use super::probes::{Choice, Probes};
use super::read::{Reading, Shape, Source};
use super::sample::Sample;
use super::scan_filters::{DynamicFilter, ScanFilters, known};
use super::scope::Scope;
use super::size::{rows_until, statistics};
use super::table::RowColumns;
use crate::columnar::exec::Partial;
use crate::columnar::keys::{JoinKeys, columns_of};
use crate::error::Error;
use crate::walk::Walk;
use crate::words::{of_schema, words};

/// A scan of a table in the heap, as the statement sees it.
#[derive(Clone, Debug)]
pub(crate) struct HeapScanExec {
    columns: Arc<RowColumns>,
    size: TableSize,
    distinct: Arc<Distinct>,
    sample: Sample,
    /// The index that is used; `None`: all rows are read.
    access: Option<Access>,
    /// Without an index, each partition's share of the table: divided once, as the table may grow meanwhile.
    shares: Option<Arc<Shares>>,
    scope: Scope,
    /// The columns produced; the number after the table's last means the row number.
    projection: Vec<usize>,
    schema: SchemaRef,
    /// Conditions over the table's columns, tested on rows as stored.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    /// Conditions that become known while the scan runs.
    dynamic: Vec<Arc<dyn PhysicalExpr>>,
    /// Join keys, by the ids of the filters they belong to.
    keys: Arc<Mutex<BTreeMap<u64, JoinKeys>>>,
    choice: Arc<Choice>,
    fetch: Option<usize>,
    /// Whether operators above rely on the order of its rows.
    is_ordered: bool,
    /// A partial aggregate: the scan produces groups, not rows.
    partial: Option<Arc<Partial>>,
    properties: Arc<PlanProperties>,
}

/// What is read: the table, its estimated size and distinct values, and the index used; `None`: all rows are read.
pub(crate) struct Read {
    pub columns: Arc<RowColumns>,
    pub size: TableSize,
    pub distinct: Distinct,
    /// Rows from all over the table.
    pub sample: Sample,
    pub access: Option<Access>,
}

fn properties(equal: EquivalenceProperties, partitions: usize) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        equal,
        Partitioning::UnknownPartitioning(partitions),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}

impl HeapScanExec {
    /// A scan of these columns, by so many tasks.
    pub fn new(
        read: Read,
        scope: Scope,
        projection: Vec<usize>,
        schema: SchemaRef,
        partitions: usize,
    ) -> Result<HeapScanExec> {
        let Read { columns, size, distinct, sample, access } = read;
        let partitions = if access.is_some() { 1 } else { partitions.max(1) };
        let shares = match access {
            Some(_) => None,
            None => {
                let shares = scope.statement.shares(&columns.rows, partitions);
                Some(Arc::new(shares.map_err(|error| external(error.into()))?))
            }
        };
        let properties = properties(EquivalenceProperties::new(Arc::clone(&schema)), partitions);
        Ok(HeapScanExec {
            columns,
            size,
            distinct: Arc::new(distinct),
            sample,
            access,
            shares,
            scope,
            projection,
            schema,
            filters: Vec::new(),
            dynamic: Vec::new(),
            keys: Arc::default(),
            choice: Arc::default(),
            fetch: None,
            is_ordered: false,
            partial: None,
            properties,
        })
    }

    /// The same scan by an index, whose rows come in this order.
    pub fn by_index(&self, access: Access, order: &[PhysicalSortExpr]) -> HeapScanExec {
        let mut equal = EquivalenceProperties::new(Arc::clone(&self.schema));
        equal.add_ordering(order.to_vec());
        let (access, properties) = (Some(access), properties(equal, 1));
        HeapScanExec { access, shares: None, is_ordered: true, properties, ..self.clone() }
    }

    /// The same scan, with groups of rows as its result.
    pub fn with_partial(&self, partial: Partial) -> HeapScanExec {
        let schema = Arc::clone(&partial.schema);
        let partitions = self.properties.partitioning.partition_count();
        let properties = properties(EquivalenceProperties::new(Arc::clone(&schema)), partitions);
        HeapScanExec { partial: Some(Arc::new(partial)), schema, properties, ..self.clone() }
    }

    /// What is aggregated here.
    pub fn partial(&self) -> Option<&Partial> {
        self.partial.as_deref()
    }

    /// Whether it produces groups, has a limit, or its order is relied on.
    pub fn is_bound(&self) -> bool {
        self.partial.is_some() || self.fetch.is_some() || self.is_ordered
    }

    /// Whether both give the same groups, or all rows of the same columns: the scans of a plan see one snapshot.
    pub fn is_same(&self, other: &HeapScanExec) -> bool {
        let result = match (&self.partial, &other.partial) {
            (Some(one), Some(other)) => one.is_same(other),
            (None, None) => self.projection == other.projection,
            _ => false,
        };
        let is_whole = |scan: &HeapScanExec| {
            scan.access.is_none() && scan.dynamic.is_empty() && scan.fetch.is_none()
        };
        result
            && self.columns.rows.object == other.columns.rows.object
            && self.columns.schema == other.columns.schema
            && self.filters == other.filters
            && is_whole(self)
            && is_whole(other)
            && self.properties.partitioning.partition_count()
                == other.properties.partitioning.partition_count()
    }

    /// Whether it can compute this aggregate.
    pub fn sums_up(&self, wanted: &Aggregate) -> bool {
        RowAggregate::knows(self.columns.layout(), wanted)
    }

    /// The table.
    pub fn columns(&self) -> &Arc<RowColumns> {
        &self.columns
    }

    /// About how large it is.
    pub fn size(&self) -> TableSize {
        self.size
    }

    /// The index that is used.
    pub fn access(&self) -> Option<&Access> {
        self.access.as_ref()
    }

    /// What the statement reads.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The table column behind output column `at`.
    pub fn column(&self, at: usize) -> Option<usize> {
        self.projection.get(at).copied().filter(|at| *at < self.columns.schema.fields().len())
    }

    /// How many conditions the index does not answer.
    pub fn other_filters(&self) -> usize {
        let answered = self.access.as_ref().map_or(0, |access| access.conditions.len());
        self.filters.len().saturating_sub(answered)
    }

    /// About how many rows are read until `fetch` pass these conditions and `others` of unknown selectivity.
    pub fn rows_until(&self, fetch: usize, others: usize) -> f64 {
        let own = self.sample.share(&self.columns, &self.filters);
        match own.filter(|_| self.access.is_none()) {
            Some(share) => rows_until(fetch, others) / share,
            None => rows_until(fetch, self.other_filters() + others),
        }
    }

    /// Records where join keys will appear, by the ids of the filters they belong to.
    pub fn know_keys(&self, filters: &BTreeMap<u64, JoinKeys>) {
        let ids = self.dynamic.iter().filter_map(|expr| expr.expression_id());
        let own = ids.filter_map(|id| Some((id, Arc::clone(filters.get(&id)?))));
        let own: Vec<_> = own.collect();
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
    }

    /// The name of the table.
    pub fn table(&self) -> &str {
        &self.columns.name
    }

    /// The index used, and what selects its keys, in words; `None`: all rows are read.
    pub fn index(&self) -> Option<(&str, String)> {
        let access = self.access.as_ref()?;
        let index = &self.columns.rows.indexes[access.index];
        let mut words = match access.conditions.is_empty() {
            true => "in its order".to_owned(),
            false => access.conditions.join(" and "),
        };
        if access.backwards {
            words.push_str(", backwards");
        }
        if self.is_index_only() {
            words.push_str(", without rows");
        }
        Some((&index.name, words))
    }

    /// The conditions tested on rows as stored, in words.
    pub fn conditions(&self) -> Vec<String> {
        let schema = self.columns.query_schema(true);
        self.filters.iter().map(|filter| words(filter, &of_schema(&schema))).collect()
    }

    /// Whether the keys of the index hold every column needed.
    fn is_index_only(&self) -> bool {
        let Some(access) = &self.access else { return false };
        let told = self.columns.told(access.index);
        let conditions = self.filters.iter().chain(&self.dynamic).flat_map(collect_columns);
        let row_id = self.columns.schema.fields().len();
        let mut shown = std::collections::BTreeSet::new();
        match &self.partial {
            Some(partial) => partial.aggregate.columns(&mut shown),
            None => shown.extend(&self.projection),
        }
        let mut asked = conditions.map(|column| column.index()).chain(shown);
        asked.all(|at| at == row_id || told.contains(&at))
    }

    /// The table column behind output column `at`, which may be a group key.
    fn source_column(&self, at: usize) -> Option<usize> {
        let all = self.partial.as_ref().map_or(&self.projection, |own| &own.aggregate.keys);
        all.get(at).copied()
    }

    /// An expression over the output columns, rewritten over the table's.
    pub fn over_table(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
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

    /// The index to probe with the keys of a join, if these turn out few.
    pub fn probed(&self) -> Option<&str> {
        if self.access.is_some() {
            return None;
        }
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let mut indexes = self.dynamic.iter().filter_map(|expr| {
            let known = columns_of(expr, keys.get(&expr.expression_id()?));
            known.iter().find_map(|(column, _)| Probes::index_of(&self.columns, *column))
        });
        indexes.next().map(|index| &*self.columns.rows.indexes[index].name)
    }

    async fn source(
        &self,
        partition: usize,
        dynamic: &[DynamicFilter],
    ) -> std::result::Result<Source, Error> {
        if let Some(access) = &self.access {
            let keys = self.is_index_only().then_some(access.index);
            let ranges = self.entries(access.index, &access.ranges, access.backwards)?;
            return Ok(Source::Index { ranges, keys });
        }
        let of = (&*self.columns, &self.scope, self.size);
        if let Some(probes) = self.choice.probes(of, dynamic).await? {
            let tasks = self.properties.partitioning.partition_count();
            let ranges = self.entries(probes.index, probes.share(partition, tasks), false)?;
            return Ok(Source::Index { ranges, keys: None });
        }
        let shares = self.shares.as_ref();
        let error = || Error::new(600, "XX000", "a scan of the heap without its share");
        Ok(Source::Pages(shares.ok_or_else(error)?.scan(partition)))
    }

    /// The entries of an index in these ranges; the range to read first comes last.
    fn entries(
        &self,
        index: usize,
        ranges: &[RangeInclusive<Vec<u8>>],
        backwards: bool,
    ) -> std::result::Result<Vec<Entries>, Error> {
        let index = &self.columns.rows.indexes[index];
        let bound = |key: &Vec<u8>| Bound::Included(Bytes::copy_from_slice(key));
        let entries = ranges.iter().map(|keys| {
            let bounds = (bound(keys.start()), bound(keys.end()));
            self.scope.statement.range(index, bounds, backwards)
        });
        let mut entries = entries.collect::<std::result::Result<Vec<_>, _>>()?;
        if !backwards {
            entries.reverse();
        }
        Ok(entries)
    }

    async fn begin(&self, partition: usize) -> std::result::Result<Reading, Error> {
        let fixed: std::result::Result<Vec<Predicate>, _> =
            self.filters.iter().map(|filter| known(&self.columns, filter)).collect();
        let fixed = fixed.map_err(|reason| Error::new(600, "XX000", reason))?;
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let dynamic = self.dynamic.iter().map(|expr| {
            let keys = expr.expression_id().and_then(|id| keys.get(&id).cloned());
            DynamicFilter::new(Arc::clone(expr), keys)
        });
        let dynamic: Vec<DynamicFilter> = dynamic.collect();
        let shape = Shape {
            columns: Arc::clone(&self.columns),
            statement: self.scope.statement.clone(),
            projection: self.projection.clone(),
            schema: Arc::clone(&self.schema),
        };
        let source = self.source(partition, &dynamic).await?;
        let (asked, fetch) = (ScanFilters::new(&self.columns, fixed, dynamic)?, self.fetch);
        match &self.partial {
            None => Ok(Reading::new(shape, source, asked, fetch)),
            Some(partial) => Reading::of_groups(shape, source, asked, Arc::clone(partial)),
        }
    }
}

impl DisplayAs for HeapScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeapScanExec: table={}", self.table())?;
        match &self.partial {
            Some(partial) => write!(f, ", partial aggregate=[{}]", partial.text())?,
            None => {
                let names: Vec<&str> =
                    self.schema.fields().iter().map(|field| field.name().as_str()).collect();
                write!(f, ", columns=[{}]", names.join(", "))?;
            }
        }
        if let Some((index, keys)) = self.index() {
            write!(f, ", index={index}, keys=[{keys}]")?;
        }
        if !self.filters.is_empty() {
            write!(f, ", asked=[{}]", self.conditions().join("; "))?;
        }
        if !self.dynamic.is_empty() {
            let dynamic: Vec<String> = self.dynamic.iter().map(ToString::to_string).collect();
            write!(f, ", dynamic=[{}]", dynamic.join("; "))?;
        }
        match self.fetch {
            Some(fetch) => write!(f, ", fetch={fetch}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for HeapScanExec {
    fn name(&self) -> &'static str {
        "HeapScanExec"
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
        // Including the dynamic ones: a join fills only filters that it finds here.
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
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("a scan of the heap has no children"),
        }
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        // Begun on the first poll: by then the build side of a join has supplied its keys.
        let begin = (self.clone(), None::<Reading>);
        let rows = stream::try_unfold(begin, move |(plan, reading)| async move {
            let mut reading = match reading {
                Some(reading) => reading,
                None => plan.begin(partition).await.map_err(external)?,
            };
            let batch = reading.next().await.map_err(external)?;
            Ok(batch.map(|batch| (batch, (plan, Some(reading)))))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows)))
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        if args.partition().is_some() || self.partial.is_some() {
            return Ok(Arc::new(Statistics::new_unknown(&self.schema)));
        }
        let share = self.sample.share(&self.columns, &self.filters);
        let (rows, conditions) = match (&self.access, share) {
            (Some(access), _) if access.is_one => (1, self.other_filters()),
            (None, Some(share)) => ((self.size.rows as f64 * share).ceil() as u64, 0),
            _ => (self.size.rows, self.other_filters()),
        };
        let conditions = conditions + self.dynamic.len();
        let rows = rows.min(self.fetch.map_or(u64::MAX, |fetch| fetch as u64));
        Ok(Arc::new(statistics(
            &self.columns,
            (&self.distinct, rows),
            &self.projection,
            conditions,
        )))
    }

    fn supports_limit_pushdown(&self) -> bool {
        false
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        if self.partial.is_some() {
            return None;
        }
        // Each partition returns the first rows it finds; any will do.
        Some(Arc::new(HeapScanExec { fetch: limit, ..self.clone() }))
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
        let mut plan = self.clone();
        let mut answers = Vec::with_capacity(asked.len());
        // A condition on groups applies to rows only if it is on group keys alone.
        let is_of_rows = |filter: &Arc<dyn PhysicalExpr>| {
            let columns = collect_columns(filter);
            let mut own = columns.iter().map(|column| self.source_column(column.index()));
            let is_late = phase == FilterPushdownPhase::Post && !columns.is_empty();
            self.partial.is_none() || (is_late && own.all(|column| column.is_some()))
        };
        for filter in &asked {
            if self.fetch.is_some() || !is_of_rows(&filter.filter) {
                answers.push(PushedDown::No);
                continue;
            }
            let own = self.over_table(&filter.filter)?;
            answers.push(match phase {
                FilterPushdownPhase::Pre if known(&self.columns, &own).is_ok() => {
                    plan.filters.push(own);
                    PushedDown::Yes
                }
                FilterPushdownPhase::Pre => PushedDown::No,
                // The scan may safely omit rows; the consumer still tests each row again.
                FilterPushdownPhase::Post => {
                    plan.dynamic.push(own);
                    PushedDown::No
                }
            });
        }
        plan.sample = self.sample.anew();
        Ok(FilterPushdownPropagation::with_parent_pushdown_result(answers)
            .with_updated_node(Arc::new(plan)))
    }
}

fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
