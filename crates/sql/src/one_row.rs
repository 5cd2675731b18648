//! Scalar subqueries: null if there is no row, an error if there are two.
//!
//! DataFusion 55 takes a NOT NULL column of a subquery for not null even if the subquery returns no row:
//! `(SELECT 5 FROM n WHERE false) IS NULL` was false. If the subquery is correlated it accepts only
//! aggregates, which return at most one row; here any other is aggregated by a function that fails at a
//! second row.

use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Expr, LogicalPlan,
    LogicalPlanBuilder, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Subquery, Volatility,
};
use datafusion::optimizer::AnalyzerRule;

use crate::error::Error;
use crate::walk::{Walk, WalkPlan};

/// The rule for correlated subqueries. It runs before those that make joins of them.
#[derive(Debug, Default)]
pub(crate) struct OneRow;

impl AnalyzerRule for OneRow {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        each_subquery(plan, &|own| {
            if own.outer_ref_columns.is_empty() || has_one_row(&own.subquery) {
                return Ok(None);
            }
            let [column] = &own.subquery.schema().columns()[..] else { return Ok(None) };
            let function = AggregateUDF::new_from_impl(Only::new());
            let only = function.call(vec![Expr::Column(column.clone())]);
            let plan = LogicalPlanBuilder::from(own.subquery.as_ref().clone())
                .aggregate(Vec::<Expr>::new(), vec![only.alias(column.name.clone())]);
            Ok(Some(plan?.build()?))
        })
    }

    fn name(&self) -> &'static str {
        "one_row"
    }
}

/// The rule for uncorrelated subqueries: their value may be null.
#[derive(Debug, Default)]
pub(crate) struct NullWithoutRow;

impl AnalyzerRule for NullWithoutRow {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        each_subquery(plan, &|own| {
            let schema = own.subquery.schema();
            let is_nullable = schema.fields().iter().all(|field| field.is_nullable());
            let [column] = &schema.columns()[..] else { return Ok(None) };
            if !own.outer_ref_columns.is_empty() || is_nullable || always_a_row(&own.subquery) {
                return Ok(None);
            }
            let value =
                ScalarUDF::new_from_impl(Nullable::new()).call(vec![Expr::Column(column.clone())]);
            let plan = LogicalPlanBuilder::from(own.subquery.as_ref().clone())
                .project(vec![value.alias(column.name.clone())])?;
            Ok(Some(plan.build()?))
        })
    }

    fn name(&self) -> &'static str {
        "null_without_row"
    }
}

/// The error for a scalar subquery with more than one row.
pub(crate) fn several_rows() -> Error {
    Error::new(1427, "21000", "a subquery of one value has more than one row")
        .next("say which row is meant: order by .. limit 1, or an aggregate such as max")
}

/// Changes the plans of scalar subqueries, innermost first.
fn each_subquery(
    plan: LogicalPlan,
    change: &dyn Fn(&Subquery) -> Result<Option<LogicalPlan>>,
) -> Result<LogicalPlan> {
    let one = |expr: Expr| match expr {
        Expr::ScalarSubquery(own) => Ok(match change(&own)? {
            Some(plan) => {
                Transformed::yes(Expr::ScalarSubquery(own.with_plan(std::sync::Arc::new(plan))))
            }
            None => Transformed::no(Expr::ScalarSubquery(own)),
        }),
        other => Ok(Transformed::no(other)),
    };
    let rewrite = |plan: LogicalPlan| {
        let names = datafusion::logical_expr::expr_rewriter::NamePreserver::new(&plan);
        let changed = plan.map_own(|expr| {
            let name = names.save(&expr);
            Ok(expr.map_up(one)?.update_data(|expr| name.restore(expr)))
        });
        changed?.map_data(LogicalPlan::recompute_schema)
    };
    Ok(plan.map_up_with_subqueries(rewrite)?.data)
}

/// Whether a plan returns at most one row, or limits its rows itself.
fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(own) => has_one_row(&own.input),
        LogicalPlan::Filter(own) => has_one_row(&own.input),
        LogicalPlan::Sort(own) => has_one_row(&own.input),
        LogicalPlan::SubqueryAlias(own) => has_one_row(&own.input),
        LogicalPlan::Aggregate(own) => own.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(_) | LogicalPlan::Limit(_) => true,
        _ => false,
    }
}

/// Whether a plan returns a row whatever its input.
fn always_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(own) => always_a_row(&own.input),
        LogicalPlan::SubqueryAlias(own) => always_a_row(&own.input),
        LogicalPlan::Aggregate(own) => own.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(own) => own.produce_one_row,
        _ => false,
    }
}

/// A value that is always declared nullable.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Nullable {
    signature: Signature,
}

impl Nullable {
    fn new() -> Nullable {
        // Otherwise a constant would be put in its place.
        Nullable { signature: Signature::any(1, Volatility::Volatile) }
    }
}

impl ScalarUDFImpl for Nullable {
    fn name(&self) -> &'static str {
        "nullable"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let own = args.arg_fields[0].as_ref().clone();
        Ok(own.with_name(self.name()).with_nullable(true).into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }
}

/// The aggregate function that returns the only value.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Only {
    signature: Signature,
}

impl Only {
    fn new() -> Only {
        Only { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for Only {
    fn name(&self) -> &'static str {
        "only"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let value = ScalarValue::try_from(args.return_field.data_type())?;
        Ok(Box::new(OnlyValue { value, rows: 0 }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let value = Field::new(
            format!("{}[value]", args.name),
            args.return_field.data_type().clone(),
            true,
        );
        let rows = Field::new(format!("{}[rows]", args.name), DataType::UInt64, false);
        Ok(vec![value.into(), rows.into()])
    }
}

/// The only value of one group.
#[derive(Debug)]
struct OnlyValue {
    value: ScalarValue,
    rows: u64,
}

impl OnlyValue {
    fn add(&mut self, values: &ArrayRef, at: usize, rows: u64) -> Result<()> {
        self.rows = self.rows.saturating_add(rows);
        if self.rows > 1 {
            return Err(DataFusionError::External(Box::new(several_rows())));
        }
        if rows > 0 {
            self.value = ScalarValue::try_from_array(values, at)?;
            self.value.compact();
        }
        Ok(())
    }
}

impl Accumulator for OnlyValue {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        match values[0].len() {
            0 => Ok(()),
            rows => self.add(&values[0], 0, rows as u64),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(rows) = states[1].as_any().downcast_ref::<UInt64Array>() else {
            return datafusion::common::internal_err!("a state of another function");
        };
        (0..rows.len()).try_for_each(|at| self.add(&states[0], at, rows.value(at)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::UInt64(Some(self.rows))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size()
    }
}
