//! DataFusion's state for planning and execution: options, memory, rules, functions; the part that all sessions share
//! is built once.

use std::sync::Arc;

use datafusion::catalog::MemoryCatalogProviderList;
use datafusion::error::DataFusionError;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::SessionStateDefaults;
use datafusion::execution::context::SessionState;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::object_store::DefaultObjectStoreRegistry;
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::ambiguous_names::PushdownBarrier;
use crate::apply::ApplyPlanner;
use crate::arrays::ArrayCall;
use crate::arrays::operators::{AnyOfArray, ArrayOperators};
use crate::columnar::anti_join::PlainAntiJoins;
use crate::common_aggregates::ShareAggregates;
use crate::correlated::ForEachRow;
use crate::dialect::LikeEscape;
use crate::distinct_on::KeysOfDistinctOn;
use crate::engine::advisory_calls::AdvisoryCall;
use crate::engine::enums::EnumTypes;
use crate::engine::permitted::Permitted;
use crate::engine::schema_calls::OfPath;
use crate::engine::sequence_calls::OfSequence;
use crate::engine::session_calls::SessionCall;
use crate::engine::sleep::Sleep;
use crate::engine::tables::Tables;
use crate::engine::{EngineOptions, PUBLIC, Stores};
use crate::enums::{EnumCall, EnumRule};
use crate::files::csv_format::CsvFormats;
use crate::files::json_format::JsonFormats;
use crate::files::parquet_format::ParquetFormats;
use crate::grouped_probe_side::ProbeGroups;
use crate::guarded::Guarded;
use crate::host::Host;
use crate::in_subquery::ThreeValuedIn;
use crate::instants::coalesce::Coalesce;
use crate::instants::compare::CompareInstants;
use crate::instants::forms::{InstantForms, IntervalTimes};
use crate::instants::to_char::ToChar;
use crate::instants::trunc::DateTrunc;
use crate::json::call::{JsonCall, JsonOperators};
use crate::json::known::KnownJson;
use crate::json::make::MakeJson;
use crate::json::uuids::KnownUuids;
use crate::lateral::LateralValues;
use crate::lateral_unnest::LateralUnnest;
use crate::lazy_build_side::LazyBuild;
use crate::memory::WorkMemory;
use crate::names::CATALOG;
use crate::names::apart::{Apart, NamedApart};
use crate::names::path::Paths;
use crate::nested::NestedSubqueries;
use crate::numbers::average::Average;
use crate::numbers::common::CommonNumbers;
use crate::numbers::distinct_sums::DistinctSums;
use crate::numbers::extreme::Extreme;
use crate::numbers::overflow::CheckedArithmetic;
use crate::numbers::ranks::Rank;
use crate::numbers::sliding::Sliding;
use crate::numbers::sum::Sum;
use crate::numbers::whole::WholeNumbers;
use crate::offset::OffsetAtSort;
use crate::one_row::{NullWithoutRow, OneRow};
use crate::ordered::OrderOfSubquery;
use crate::partial_aggregates::AggregateInScan;
use crate::pgcatalog::{self, Ask, Expanded};
use crate::recorded_errors::RecordedErrors;
use crate::rows::InOrderOfIndex;
use crate::set_comparison::SetComparisons;
use crate::set_operation::CountEqualRows;
use crate::settings::Settings;
use crate::spill::TempFiles;
use crate::statistics::OfValues;
use crate::subquery_values::SubqueryValues;
use crate::tied::TiedColumns;

/// A join's build side is partitioned among cores if its estimated size exceeds one of these.
const BUILD_BYTES: usize = 128 << 20;
const BUILD_ROWS: usize = 2 << 20;

/// The memory each partition of a plan should have: with less than a sort or two of its rows need, it is useless.
const PART_BYTES: usize = 14 << 20;

/// The most partitions of a plan that a memory limit allows.
pub(super) fn most_partitions(memory_limit: usize) -> usize {
    (memory_limit / PART_BYTES).max(1)
}

/// The state shared by all sessions: options, rules, and functions that depend on no session.
///
/// # Errors
/// DataFusion does not accept our file formats.
pub(super) fn common(
    options: &EngineOptions,
    memory: &WorkMemory,
) -> Result<SessionState, DataFusionError> {
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::clone(&memory.0) as _)
        // A cached listing would hide files that have come or gone since.
        .with_object_list_cache_limit(0);
    let mut state = SessionStateBuilder::new()
        .with_config(config(options))
        .with_runtime_env(runtime.build_arc()?)
        .with_default_features()
        // Before DataFusion's own.
        .with_expr_planners(expr_planners())
        .with_analyzer_rules(analyzer_rules())
        .with_optimizer_rules(optimizer_rules())
        .with_physical_optimizer_rules(physical_rules())
        .with_query_planner(Arc::new(ApplyPlanner))
        .build();
    register_own(&mut state)?;
    // Our readers and writers of files, in place of DataFusion's.
    state.register_file_format(Arc::new(CsvFormats), true)?;
    state.register_file_format(Arc::new(JsonFormats::default()), true)?;
    state.register_file_format(Arc::new(ParquetFormats::default()), true)?;
    Ok(state)
}

/// Our functions, in place of DataFusion's.
fn register_own(state: &mut SessionState) -> Result<(), DataFusionError> {
    state.register_udaf(Arc::new(Sum::udaf()))?;
    state.register_udaf(Arc::new(Average::udaf()))?;
    for function in Sliding::udafs().into_iter().chain(Extreme::udafs()) {
        state.register_udaf(Arc::new(function))?;
    }
    for function in Rank::udwfs() {
        state.register_udwf(Arc::new(function))?;
    }
    let uuid = datafusion::functions::string::uuid();
    let uuid = uuid.as_ref().clone().with_aliases(["gen_random_uuid"]);
    let own =
        [DateTrunc::udf(), ToChar::udf(), Coalesce::udf(), LikeEscape::udf(), Apart::udf(), uuid];
    let more = EnumCall::udfs()
        .into_iter()
        .chain(ArrayCall::udfs())
        .chain(MakeJson::udfs())
        .chain(JsonCall::udfs());
    for function in own.into_iter().chain(more).chain([Expanded::udf()]) {
        state.register_udf(Arc::new(function))?;
    }
    Ok(())
}

fn config(options: &EngineOptions) -> SessionConfig {
    let partitions = options.target_partitions.clamp(1, most_partitions(options.memory_limit));
    let mut config = SessionConfig::new()
        .with_target_partitions(partitions)
        .with_information_schema(true)
        .with_default_catalog_and_schema(CATALOG, PUBLIC)
        // In repartitioning, each spilled batch gets a file of its own. Otherwise a reader could wait forever for
        // more of the oldest file while the batch it needs is in another (DataFusion issue 24883, present in
        // 55.2.0).
        .set_usize("datafusion.execution.max_spill_file_size_bytes", 1);
    // One hash table of all build rows, unless they are many: the probe side then needs no hash partitioning,
    // and a scan there has one filter. TPC-H query 18 at scale 1: 800 -> 330 ms.
    config.options_mut().optimizer.hash_join_single_partition_threshold = BUILD_BYTES;
    config.options_mut().optimizer.hash_join_single_partition_threshold_rows = BUILD_ROWS;
    // Every sort reserves this to merge its spilled runs: the reservations of all sorts must fit.
    let execution = &mut config.options_mut().execution;
    let kept = execution.sort_spill_reservation_bytes.min(options.memory_limit / (8 * partitions));
    execution.sort_spill_reservation_bytes = kept;
    // 0.06 + 0.01 is 0.07 in SQL; as binary floating point it is not, and rows would be lost.
    config.options_mut().sql_parser.parse_float_as_decimal = true;
    // Lets a LIMIT outside a subquery, such as Oracle's ROWNUM, ask for the first rows of the subquery's
    // order.
    config.options_mut().sql_parser.enable_subquery_sort_elimination = false;
    config.options_mut().execution.parquet.pushdown_filters = true;
    // Nanoseconds end in 2262, before the last day that Spark and Hive write.
    config.options_mut().execution.parquet.coerce_int96 = Some("us".to_owned());
    // Otherwise a large CSV file is split at line ends for several readers, even at those inside quotes.
    config.options_mut().catalog.newlines_in_values = true;
    config
}

/// The context of a session, built on the shared state.
pub(super) fn of_session(
    common: &SessionState,
    host: &Arc<dyn Host>,
    (settings, paths, ask): (&Arc<Settings>, &Arc<Paths>, &Arc<Ask>),
    (tables, recorded): (&Arc<Tables>, &Arc<RecordedErrors>),
) -> SessionContext {
    let stores = Stores {
        host: Arc::clone(host),
        recorded: Arc::clone(recorded),
        others: DefaultObjectStoreRegistry::new(),
    };
    let base = common.runtime_env();
    let mut runtime = RuntimeEnv::clone(base);
    runtime.object_store_registry = Arc::new(stores);
    // A read-only database spills to the operating system's temporary files.
    if let Some(columnar) = host.columnar().filter(|columnar| columnar.is_writable()) {
        let files = Arc::new(TempFiles::new(columnar.clone()));
        let files = DiskManagerBuilder::default().with_temp_file_factory(files);
        runtime.disk_manager =
            files.build().map_or_else(|_| Arc::clone(&base.disk_manager), Arc::new);
    }
    let permitted = Permitted { settings: Arc::clone(settings), tables: Arc::clone(tables) };
    let mut rules = common.analyzer().rules.clone();
    // First, while the plan still shows everything as written.
    rules.insert(0, Arc::new(permitted));
    let mut state = SessionStateBuilder::new_from_existing(common.clone())
        .with_analyzer_rules(rules)
        // Each session has schemas of its own.
        .with_catalog_list(Arc::new(MemoryCatalogProviderList::new()))
        .with_runtime_env(Arc::new(runtime))
        .with_type_planner(Arc::new(EnumTypes { host: Arc::clone(host), paths: Arc::clone(paths) }))
        .build();
    // The builder may have replaced our functions by DataFusion's again, under their aliases.
    let registered = register_own(&mut state);
    debug_assert!(registered.is_ok(), "what was registered for all can be for one");
    let context = SessionContext::new_with_state(state);
    let functions = pgcatalog::udfs(ask)
        .into_iter()
        .chain(OfPath::udfs(host, paths))
        .chain(SessionCall::udfs(settings, paths))
        .chain(AdvisoryCall::udfs(host))
        .chain(Sleep::udfs(host))
        .chain(OfSequence::udfs(host));
    functions.for_each(|function| context.register_udf(function));
    context
}

/// What operators mean: ours, then DataFusion's.
fn expr_planners() -> Vec<Arc<dyn ExprPlanner>> {
    let mut planners: Vec<Arc<dyn ExprPlanner>> =
        vec![Arc::new(WholeNumbers), Arc::new(ArrayOperators)];
    planners.extend(SessionStateDefaults::default_expr_planners());
    planners.push(Arc::new(IntervalTimes));
    planners.push(Arc::new(JsonOperators));
    planners
}

/// DataFusion's rules, with ours around its choice of types.
fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = Analyzer::new().rules;
    let at = rules.iter().position(|rule| rule.name() == "type_coercion").unwrap_or(rules.len());
    rules.insert(at, Arc::new(EnumRule));
    rules.insert(at, Arc::new(NullWithoutRow));
    rules.insert(at, Arc::new(AnyOfArray));
    rules.insert(at, Arc::new(KnownJson));
    rules.insert(at, Arc::new(KnownUuids));
    rules.insert(at, Arc::new(CommonNumbers));
    rules.insert(at, Arc::new(CompareInstants));
    rules.insert(at, Arc::new(InstantForms));
    rules.insert(at, Arc::new(ThreeValuedIn));
    rules.insert(at, Arc::new(ForEachRow));
    rules.insert(at, Arc::new(TiedColumns));
    rules.insert(at, Arc::new(LateralValues));
    rules.insert(at, Arc::new(LateralUnnest));
    rules.insert(at, Arc::new(CountEqualRows));
    rules.insert(at, Arc::new(KeysOfDistinctOn));
    rules.insert(at, Arc::new(OrderOfSubquery));
    rules.push(Arc::new(CheckedArithmetic));
    rules.push(Arc::new(Guarded));
    // OneRow runs twice: by the second time, subqueries that stood alone are joined with outer rows.
    rules.insert(0, Arc::new(OneRow));
    rules.insert(0, Arc::new(NestedSubqueries));
    rules.insert(0, Arc::new(OneRow));
    rules.insert(0, Arc::new(SetComparisons));
    rules.insert(0, Arc::new(NamedApart));
    rules.insert(0, Arc::new(SubqueryValues));
    rules
}

/// DataFusion's rules over plans whose types are settled.
fn optimizer_rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = Optimizer::new().rules;
    let own = "single_distinct_aggregation_to_group_by";
    for rule in rules.iter_mut().filter(|rule| rule.name() == own) {
        *rule = Arc::new(DistinctSums(Arc::clone(rule)));
    }
    rules
}

/// DataFusion's rules, and ours once partial aggregation is settled but before dynamic filters are pushed
/// down: an aggregation in the cell needs none of its own, and passes those of joins on.
fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    for rule in rules.iter_mut().filter(|rule| rule.name() == "aggregate_statistics") {
        *rule = Arc::new(OfValues(Arc::clone(rule)));
    }
    rules.insert(0, Arc::new(OffsetAtSort));
    let at = rules.iter().position(|rule| rule.name() == "join_selection");
    rules.insert(at.unwrap_or(0), Arc::new(PlainAntiJoins));
    // The build side of a join is chosen by how many rows the scans keep, so they must have their filters by then.
    rules.insert(at.unwrap_or(0), Arc::new(FilterPushdown::new()));
    let at = rules.iter().position(|rule| rule.name() == "join_selection");
    let groups = ProbeGroups { rows_max: BUILD_ROWS };
    rules.insert(at.map_or(rules.len(), |at| at + 1), Arc::new(groups));
    let at = rules.iter().position(|rule| rule.name() == "EnsureCooperative");
    let at = at.unwrap_or(rules.len());
    rules.insert(at, Arc::new(InOrderOfIndex));
    rules.insert(at + 1, Arc::new(AggregateInScan));
    // Filters above one use of a shared aggregate must not reach the other uses.
    rules.insert(at + 2, Arc::new(ShareAggregates));
    // Last: filters would not pass the operators it inserts.
    rules.push(Arc::new(LazyBuild));
    PushdownBarrier::around(rules)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use arrow::array::{Int64Array, RecordBatch, StringArray};
    use datafusion::datasource::MemTable;

    use super::*;
    use crate::memory::Memory;

    /// Twenty batches of rows in each of two partitions.
    fn rows() -> MemTable {
        let batch = |from: i64| {
            let keys = Int64Array::from_iter_values(from..from + 8_000);
            let texts = (from..from + 8_000).map(|n| format!("{:100}", n * 7_919 % 320_000));
            let texts = StringArray::from_iter_values(texts);
            RecordBatch::try_from_iter([("k", Arc::new(keys) as _), ("s", Arc::new(texts) as _)])
                .expect("columns of one length")
        };
        let part = |from: i64| (0..20).map(|n| batch(from + n * 8_000)).collect::<Vec<_>>();
        MemTable::try_new(batch(0).schema(), vec![part(0), part(160_000)]).expect("one schema")
    }

    /// A former hang: seen once in some 300 joins at 160 MB, and in every one without memory for rows in transit.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn rows_on_their_way_that_have_no_memory_arrive() {
        let options = EngineOptions { memory_limit: 48 << 20, target_partitions: 2 };
        let memory = WorkMemory(Arc::new(Memory::without_rows_on_their_way(48 << 20)));
        let state = common(&options, &memory).expect("the state of a session");
        let context = SessionContext::new_with_state(state);
        context.register_table("rows", Arc::new(rows())).expect("a new name");
        let query = "select count(*) from (select k % 5 as g, s, count(distinct k) from rows group by 1, 2)";
        for _ in 0..12 {
            let asked = async { context.sql(query).await?.collect().await };
            let limit = Duration::from_secs(120);
            let batches = tokio::time::timeout(limit, asked).await.expect("rows arrive");
            let batches = batches.expect("an answer");
            let counts = batches[0].column(0).as_any().downcast_ref::<Int64Array>();
            assert_eq!(counts.map(|own| own.value(0)), Some(320_000));
        }
    }
}
