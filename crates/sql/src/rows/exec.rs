//! The leaf of a plan that reads a table in the heap.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use cellar_format::Predicate;
use cellar_instance::heap::{Shares, TableSize};
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
use super::asked::{Asked, Live, known};
use super::read::{Reading, Shape, Source};
use super::session::Scope;
use super::size::statistics;
use super::table::RowColumns;
use crate::columnar::keys::BuildKeys;
use crate::error::Error;
use crate::walk::Walk;
use crate::words::{of_schema, words};

/// A scan of a table in the heap, as the statement sees it.
#[derive(Clone, Debug)]
pub(crate) struct HeapScanExec {
    columns: Arc<RowColumns>,
    size: TableSize,
    /// The index that is used; `None`: all rows are read.
    access: Option<Access>,
    /// Else what each partition reads of it: divided once, for it may grow meanwhile.
    shares: Option<Arc<Shares>>,
    scope: Scope,
    /// Columns that come out; the one behind the last is the number of the row.
    projection: Vec<usize>,
    schema: SchemaRef,
    /// Conditions over the table's columns that rows are asked as they are stored.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    /// And those that become known while it runs.
    dynamic: Vec<Arc<dyn PhysicalExpr>>,
    /// Keys of joins, by the numbers of the filters that have them.
    keys: Arc<Mutex<BTreeMap<u64, Arc<BuildKeys>>>>,
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
}

/// What is read: the table, about how large it is, and the index that is used; `None`: all rows are read.
pub(crate) struct Read {
    pub columns: Arc<RowColumns>,
    pub size: TableSize,
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
        let Read { columns, size, access } = read;
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
            access,
            shares,
            scope,
            projection,
            schema,
            filters: Vec::new(),
            dynamic: Vec::new(),
            keys: Arc::default(),
            fetch: None,
            properties,
        })
    }

    /// The same scan by an index, whose rows come in this order.
    pub fn by_index(&self, access: Access, order: &[PhysicalSortExpr]) -> HeapScanExec {
        let mut equal = EquivalenceProperties::new(Arc::clone(&self.schema));
        equal.add_ordering(order.to_vec());
        let (access, properties) = (Some(access), properties(equal, 1));
        HeapScanExec { access, shares: None, properties, ..self.clone() }
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

    /// The column of the table that comes out as column `at`.
    pub fn column(&self, at: usize) -> Option<usize> {
        self.projection.get(at).copied().filter(|at| *at < self.columns.schema.fields().len())
    }

    /// Conditions that no index answers.
    pub fn other_filters(&self) -> usize {
        let answered = self.access.as_ref().map_or(0, |access| access.conditions.len());
        self.filters.len().saturating_sub(answered)
    }

    /// Tells where the keys of joins will be known, by the numbers of the filters that have them.
    pub fn know_keys(&self, filters: &BTreeMap<u64, Arc<BuildKeys>>) {
        let ids = self.dynamic.iter().filter_map(|expr| expr.expression_id());
        let own = ids.filter_map(|id| Some((id, Arc::clone(filters.get(&id)?))));
        let own: Vec<_> = own.collect();
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
    }

    /// The name of the table.
    pub fn table(&self) -> &str {
        &self.columns.name
    }

    /// The index that is used, and what chooses its keys; `None`: all rows are read.
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

    /// The conditions that rows are asked as they are stored, in words.
    pub fn conditions(&self) -> Vec<String> {
        let schema = self.columns.query_schema(true);
        self.filters.iter().map(|filter| words(filter, &of_schema(&schema))).collect()
    }

    /// Whether all that is asked of rows is in the keys of the index.
    fn is_index_only(&self) -> bool {
        let Some(access) = &self.access else { return false };
        let told = self.columns.told(access.index);
        let conditions = self.filters.iter().chain(&self.dynamic).flat_map(collect_columns);
        let row_id = self.columns.schema.fields().len();
        let mut asked = conditions.map(|column| column.index()).chain(self.projection.clone());
        asked.all(|at| at == row_id || told.contains(&at))
    }

    fn over_table(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let of_table = |expr: Arc<dyn PhysicalExpr>| {
            let Some(column) = expr.downcast_ref::<Column>() else {
                return Ok(Transformed::no(expr));
            };
            let Some(at) = self.projection.get(column.index()) else {
                return internal_err!("{column} is not one of the scan's columns");
            };
            Ok(Transformed::yes(Arc::new(Column::new(column.name(), *at)) as Arc<dyn PhysicalExpr>))
        };
        Ok(Arc::clone(expr).map_up(of_table)?.data)
    }

    fn source(&self, partition: usize) -> std::result::Result<Source, Error> {
        let (statement, table) = (&self.scope.statement, &self.columns.rows);
        let Some(access) = &self.access else {
            let shares = self.shares.as_ref();
            let error = || Error::new(600, "XX000", "a scan of the heap without its share");
            return Ok(Source::Pages(shares.ok_or_else(error)?.scan(partition)));
        };
        let index = &table.indexes[access.index];
        let bound = |key: &Vec<u8>| Bound::Included(Bytes::copy_from_slice(key));
        let entries = access.ranges.iter().map(|keys| {
            let bounds = (bound(keys.start()), bound(keys.end()));
            statement.range(index, bounds, access.backwards)
        });
        let mut entries = entries.collect::<std::result::Result<Vec<_>, _>>()?;
        // The last is read first.
        if !access.backwards {
            entries.reverse();
        }
        let keys = self.is_index_only().then_some(access.index);
        Ok(Source::Index { ranges: entries, keys })
    }

    fn begin(&self, partition: usize) -> std::result::Result<Reading, Error> {
        let fixed: std::result::Result<Vec<Predicate>, _> =
            self.filters.iter().map(|filter| known(&self.columns, filter)).collect();
        let fixed = fixed.map_err(|reason| Error::new(600, "XX000", reason))?;
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let live = self.dynamic.iter().map(|expr| {
            let keys = expr.expression_id().and_then(|id| keys.get(&id).cloned());
            Live::new(Arc::clone(expr), keys)
        });
        let shape = Shape {
            columns: Arc::clone(&self.columns),
            statement: self.scope.statement.clone(),
            projection: self.projection.clone(),
            schema: Arc::clone(&self.schema),
        };
        let asked = Asked::new(&self.columns, fixed, live.collect())?;
        Ok(Reading::new(shape, self.source(partition)?, asked, self.fetch))
    }
}

impl DisplayAs for HeapScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> =
            self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "HeapScanExec: table={}, columns=[{}]", self.table(), names.join(", "))?;
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
        // Also the dynamic ones: a join fills only a filter that it finds here.
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
        // Begun when rows are asked for: by then the other side of a join has said which.
        let begin = (self.clone(), None::<Reading>);
        let rows = stream::try_unfold(begin, move |(plan, reading)| async move {
            let mut reading = match reading {
                Some(reading) => reading,
                None => plan.begin(partition).map_err(external)?,
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
        if args.partition().is_some() {
            return Ok(Arc::new(Statistics::new_unknown(&self.schema)));
        }
        let conditions = self.other_filters() + self.dynamic.len();
        let is_one = self.access.as_ref().is_some_and(|access| access.is_one);
        let rows = if is_one { 1 } else { self.size.rows };
        let rows = rows.min(self.fetch.map_or(u64::MAX, |fetch| fetch as u64));
        Ok(Arc::new(statistics(&self.columns, (self.size, rows), &self.projection, conditions)))
    }

    fn supports_limit_pushdown(&self) -> bool {
        false
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        // Each partition gives what it finds first; which rows those are is nobody's concern.
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
        for filter in asked.iter().filter(|_| self.fetch.is_none()) {
            let own = self.over_table(&filter.filter)?;
            answers.push(match phase {
                FilterPushdownPhase::Pre if known(&self.columns, &own).is_ok() => {
                    plan.filters.push(own);
                    PushedDown::Yes
                }
                FilterPushdownPhase::Pre => PushedDown::No,
                // What it leaves out is left out; who asks looks at each row again all the same.
                FilterPushdownPhase::Post => {
                    plan.dynamic.push(own);
                    PushedDown::No
                }
            });
        }
        answers.resize(asked.len(), PushedDown::No);
        Ok(FilterPushdownPropagation::with_parent_pushdown_result(answers)
            .with_updated_node(Arc::new(plan)))
    }
}

fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
