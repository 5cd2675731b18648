//! Filters that become narrower while a query runs: DataFusion's dynamic filters, as predicates for a cell.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, BooleanArray, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::Schema;
use cellar_cell::DynamicFilter;
use cellar_format::{KeyFilter, Predicate, Test};
use datafusion::common::cast::as_boolean_array;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr_common::physical_expr::snapshot_generation;
use datafusion::physical_plan::expressions::{BinaryExpr, CaseExpr, DynamicFilterPhysicalExpr};

use crate::columnar::keys::{JoinKeys, columns_of};
use crate::columnar::table::OpenTable;
use crate::columnar::translate::{Reason, predicate};

/// The most values that a filter is evaluated on in advance.
const DOMAIN_MAX: u64 = 1 << 22;
/// And at most one per this many rows: a test must cost less than it saves.
const ROWS_A_NUMBER: u64 = 4;
/// Values that are evaluated at once.
const ASKED_AT_ONCE: usize = 1 << 14;

/// A dynamic filter over the columns of a table.
#[derive(Debug)]
pub struct NarrowingFilter {
    expr: Arc<dyn PhysicalExpr>,
    table: Arc<OpenTable>,
    /// The keys, if it is the filter of a join.
    keys: Option<JoinKeys>,
    /// Its predicates as of a generation: all workers of a scan use the same.
    known: Mutex<Option<(u64, Vec<Predicate>)>>,
}

impl NarrowingFilter {
    /// A filter over the columns of a table; `keys` if it is the filter of a join and they will be known.
    pub fn new(
        expr: Arc<dyn PhysicalExpr>,
        table: Arc<OpenTable>,
        keys: Option<JoinKeys>,
    ) -> NarrowingFilter {
        NarrowingFilter { expr, table, keys, known: Mutex::default() }
    }

    /// The keys of a join, for its integer columns.
    fn members(&self) -> Vec<Predicate> {
        let known = columns_of(&self.expr, self.keys.as_ref()).into_iter();
        let known = known.filter_map(|(column, keys)| {
            let is_whole = self.table.schema().field(column).data_type().is_integer();
            let members = keys.all().filter(|_| is_whole)?;
            Some(Predicate::Test { column, test: Test::Member(members) })
        });
        known.collect()
    }
}

impl DynamicFilter for NarrowingFilter {
    fn generation(&self) -> u64 {
        snapshot_generation(&self.expr)
    }

    fn predicates(&self) -> Vec<Predicate> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Read before the filter is examined: if it changes meanwhile, it is examined again.
        let generation = self.generation();
        if let Some((of, predicates)) = &*known
            && *of == generation
        {
            return predicates.clone();
        }
        let (mut out, mut rest) = (Vec::new(), Vec::new());
        let table = &self.table;
        let know = |expr: &Arc<dyn PhysicalExpr>| {
            predicate(expr, false, table.schema()).and_then(|known| table.fitting(known))
        };
        understood(&self.expr, &know, &mut out, &mut rest);
        // A filter contains a part that is not understood only when all keys are known.
        if !rest.is_empty() {
            let members = self.members();
            if !members.is_empty() {
                rest.clear();
            }
            out.extend(members);
        }
        for expr in rest {
            out.extend(by_domain(&expr, &self.table, &out));
        }
        *known = Some((generation, out.clone()));
        out
    }

    fn columns(&self) -> Vec<usize> {
        collect_columns(&self.expr).iter().map(|column| column.index()).collect()
    }
}

/// A filter with a different condition for each partition of the rows: their disjunction. It occurs
/// where both sides of a join are divided among the workers by a hash that only DataFusion knows.
fn any_branch(expr: &Arc<dyn PhysicalExpr>, know: Know<'_>) -> Option<Predicate> {
    let case = expr.downcast_ref::<CaseExpr>()?;
    let otherwise = case.else_expr().map(know);
    if !matches!(otherwise, None | Some(Ok(Predicate::None))) {
        return None;
    }
    let mut any = Vec::new();
    for (_, then) in case.when_then_expr() {
        let mut all = Vec::new();
        understood(then, know, &mut all, &mut Vec::new());
        match all.iter().any(|one| matches!(one, Predicate::None)) {
            true => {}
            // A partition without a condition that is understood may have any row.
            false if all.is_empty() => return None,
            false => any.push(Predicate::And(all)),
        }
    }
    Some(if any.is_empty() { Predicate::None } else { Predicate::Or(any) })
}

/// A filter over one integer column with a narrow range of values, evaluated once for each value rather
/// than for each row: this turns the keys of a join, whose hash table only DataFusion can look into,
/// into a bitmap.
fn by_domain(
    expr: &Arc<dyn PhysicalExpr>,
    table: &OpenTable,
    known: &[Predicate],
) -> Option<Predicate> {
    let columns = collect_columns(expr);
    let column = columns.iter().next().filter(|_| columns.len() == 1)?.index();
    let field = table.schema().field(column);
    if !field.data_type().is_integer() {
        return None;
    }
    let (mut low, mut high) = table.range(column)?;
    for predicate in known {
        if let Predicate::Test { column: at, test: Test::Numbers(from, to) } = predicate
            && *at == column
        {
            (low, high) = (low.max(*from), high.min(*to));
        }
    }
    if low > high {
        return None;
    }
    let (low, high) = (i64::try_from(low).ok()?, i64::try_from(high).ok()?);
    let most = DOMAIN_MAX.min(table.rows() / ROWS_A_NUMBER);
    if high.abs_diff(low) >= most {
        return None;
    }
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    let expr = reassign_expr_columns(Arc::clone(expr), &schema).ok()?;
    let ask = |numbers: Int64Array| {
        let count = numbers.len();
        let array = cast(&numbers, field.data_type()).ok()?;
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![array]).ok()?;
        let answer = expr.evaluate(&batch).ok()?.into_array(count).ok()?;
        Some(as_boolean_array(&answer).ok()?.clone())
    };
    let passes = |answer: &BooleanArray, at: usize| answer.is_valid(at) && answer.value(at);
    let mut keys = Vec::new();
    let mut from = low;
    loop {
        let to = from.saturating_add(ASKED_AT_ONCE as i64 - 1).min(high);
        let answer = ask(Int64Array::from_iter_values(from..=to))?;
        keys.extend((from..=to).enumerate().filter(|(at, _)| passes(&answer, *at)).map(|(_, n)| n));
        if to == high {
            break;
        }
        from = to + 1;
    }
    let member = Predicate::Test { column, test: Test::Member(Arc::new(KeyFilter::new(&keys))) };
    // A join in which null equals null.
    let null = ask(Int64Array::new_null(1))?;
    match passes(&null, 0) {
        true => Some(Predicate::Or(vec![member, Predicate::Test { column, test: Test::Null }])),
        false => Some(member),
    }
}

/// The predicate that an expression stands for on rows of a table; or why it is not understood.
pub(crate) type Know<'a> = &'a dyn Fn(&Arc<dyn PhysicalExpr>) -> Result<Predicate, Reason>;

/// The parts of a filter that are understood. The others only leave more rows than necessary: the owner
/// of the filter tests each row again.
pub(crate) fn understood(
    expr: &Arc<dyn PhysicalExpr>,
    know: Know<'_>,
    out: &mut Vec<Predicate>,
    rest: &mut Vec<Arc<dyn PhysicalExpr>>,
) {
    if let Some(dynamic) = expr.downcast_ref::<DynamicFilterPhysicalExpr>() {
        if let Ok(current) = dynamic.current() {
            understood(&current, know, out, rest);
        }
        return;
    }
    if let Some(both) = expr.downcast_ref::<BinaryExpr>()
        && *both.op() == Operator::And
    {
        understood(both.left(), know, out, rest);
        understood(both.right(), know, out, rest);
        return;
    }
    if let Some(any) = any_branch(expr, know) {
        out.push(any);
        rest.push(Arc::clone(expr));
        return;
    }
    match know(expr) {
        Ok(Predicate::All) => {}
        Err(_) => rest.push(Arc::clone(expr)),
        Ok(known) => out.push(known),
    }
}
