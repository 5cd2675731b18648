//! Constraints on each row of a table: NOT NULL, and CHECK.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, DataFusionError};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    EmptyRelation, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, cast,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType as SqlType, Expr as SqlExpr, ExprWithAlias, Value,
};
use datafusion::sql::sqlparser::parser::Parser;

use super::table::RowColumns;
use crate::error::Error;
use crate::failure::from_datafusion;
use crate::grammar::CellarDialect;

/// The conditions of a table.
#[derive(Debug)]
pub(crate) struct Checks {
    table: String,
    schema: SchemaRef,
    /// Columns that are never NULL.
    not_null: Vec<usize>,
    conditions: Vec<(String, Arc<dyn PhysicalExpr>)>,
}

/// An expression from its text, as a statement would plan it.
///
/// # Errors
/// The text is no expression, or names something that does not exist.
pub(crate) fn expression(
    state: &SessionState,
    text: &str,
    names: &DFSchema,
) -> Result<Expr, Error> {
    let made = Parser::new(&CellarDialect).try_with_sql(text);
    let made = made.and_then(|mut parser| parser.parse_expr());
    parsed(state, made.map_err(|error| Error::syntax(error.to_string()))?, names)
}

/// An expression as a statement would plan it.
///
/// # Errors
/// It names something that does not exist, or its types do not fit.
pub(crate) fn parsed(state: &SessionState, expr: SqlExpr, names: &DFSchema) -> Result<Expr, Error> {
    parsed_as(state, expr, names, None)
}

/// The same, converted to a column's type.
///
/// # Errors
/// As of [`parsed`].
pub(crate) fn parsed_as(
    state: &SessionState,
    expr: SqlExpr,
    names: &DFSchema,
    data_type: Option<&DataType>,
) -> Result<Expr, Error> {
    let failed = |error| from_datafusion(&error);
    let expr = ExprWithAlias { expr, alias: None };
    let mut made = state.create_logical_expr_from_sql_expr(expr, names).map_err(failed)?;
    if let Some(data_type) = data_type {
        made = cast(made, data_type.clone());
    }
    // Analyzer rules are part of the expression's meaning; they run only on plans, so it is made a query.
    let schema = Arc::new(names.clone());
    let source = LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: true, schema });
    let plan = LogicalPlanBuilder::from(source).project([made]).and_then(LogicalPlanBuilder::build);
    let options = state.config_options();
    let analyzer = state.analyzer();
    let plan = plan.and_then(|plan| analyzer.execute_and_check(plan, options, |_, _| {}));
    match plan.map_err(failed)? {
        LogicalPlan::Projection(projection) => {
            let made = projection.expr.into_iter().next().map(Expr::unalias);
            let made = made.ok_or_else(|| Error::new(600, "XX000", "an expression became none"))?;
            rewritten(made).map_err(failed)
        }
        _ => Err(Error::not_yet("this expression, here")),
    }
}

/// The result type of a cast to a type named in a statement.
pub(crate) fn type_of_cast(state: &SessionState, said: &SqlType) -> Result<DataType, Error> {
    let null = Box::new(SqlExpr::Value(Value::Null.into()));
    let (kind, data_type) = (CastKind::Cast, said.clone());
    let expr = SqlExpr::Cast { kind, expr: null, data_type, array: false, format: None };
    let names = DFSchema::empty();
    let made = parsed_as(state, expr, &names, None)?;
    made.get_type(&names).map_err(|error| from_datafusion(&error))
}

/// Functions that are never called: the optimizer replaces them.
const REWRITTEN: [&str; 3] = ["coalesce", "nvl2", "arrow_cast"];

/// An expression without such functions. Nothing else is simplified: the expression is kept, and `now()`
/// in it is evaluated anew each time.
fn rewritten(made: Expr) -> Result<Expr, DataFusionError> {
    let made = made.transform_up(|expr| match expr {
        Expr::ScalarFunction(call) if REWRITTEN.contains(&call.func.name()) => {
            let ScalarFunction { func, args } = call;
            Ok(match func.simplify(args, &SimplifyContext::default())? {
                ExprSimplifyResult::Simplified(simple) => Transformed::yes(simple),
                ExprSimplifyResult::Original(args) => {
                    Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args }))
                }
            })
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(made.data)
}

impl Checks {
    /// No checks, for rows that have already passed those of the table.
    pub fn passed(columns: &RowColumns) -> Checks {
        let (table, schema) = (columns.name.clone(), Arc::clone(&columns.schema));
        Checks { table, schema, not_null: Vec::new(), conditions: Vec::new() }
    }

    /// The constraints of a table, ready to evaluate.
    ///
    /// # Errors
    /// A condition in the catalog is not boolean.
    pub fn of(state: &SessionState, columns: &RowColumns) -> Result<Checks, Error> {
        let schema = columns.query_schema(false);
        let names = DFSchema::try_from(Arc::clone(&schema)).map_err(|e| from_datafusion(&e))?;
        let condition = |check: &cellar_instance::catalog::Check| {
            let made = expression(state, &check.condition, &names)?;
            let made = state.create_physical_expr(made, &names).map_err(|e| from_datafusion(&e))?;
            let gives = made.data_type(&schema).map_err(|e| from_datafusion(&e))?;
            if gives != DataType::Boolean {
                let text = format!("check constraint \"{}\" is {gives}, no condition", check.name);
                return Err(Error::new(920, "42804", text).next("compare it with something"));
            }
            Ok((check.name.clone(), made))
        };
        let conditions = columns.rows.checks.iter().map(condition).collect::<Result<_, Error>>()?;
        let fields = columns.schema.fields().iter().enumerate();
        let not_null = fields.filter(|(_, field)| !field.is_nullable()).map(|(at, _)| at).collect();
        Ok(Checks { table: columns.name.clone(), schema, not_null, conditions })
    }

    /// Refuses rows that violate a constraint.
    ///
    /// # Errors
    /// 01400 a NULL, 02290 a check that fails, with the row.
    pub fn check(&self, arrays: &[ArrayRef]) -> Result<(), Error> {
        for at in &self.not_null {
            let nulls = arrays[*at].logical_nulls();
            let Some(row) =
                nulls.and_then(|nulls| (0..nulls.len()).find(|row| nulls.is_null(*row)))
            else {
                continue;
            };
            let (name, table) = (self.schema.field(*at).name(), &self.table);
            let text = format!("column \"{name}\" of table \"{table}\" cannot be NULL");
            return Err(Error::new(1400, "23502", text)
                .of_column(table, name)
                .next(format!("give it a value; the row is {}", self.row(arrays, row))));
        }
        if self.conditions.is_empty() {
            return Ok(());
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays.to_vec())
            .map_err(|error| crate::failure::from_arrow(&error))?;
        for (name, condition) in &self.conditions {
            let held = condition
                .evaluate(&batch)
                .and_then(|held| held.into_array(batch.num_rows()))
                .and_then(|held| as_boolean_array(&held).cloned());
            let held: BooleanArray = held.map_err(|e| from_datafusion(&e))?;
            // A check that evaluates to NULL passes, as in standard SQL.
            if let Some(row) = held.iter().position(|held| held == Some(false)) {
                let text = format!(
                    "a row of table \"{}\" violates check constraint \"{name}\"",
                    self.table
                );
                return Err(Error::new(2290, "23514", text)
                    .of_constraint(&self.table, name)
                    .next(format!("change the values; the row is {}", self.row(arrays, row))));
            }
        }
        Ok(())
    }

    /// A row in words, with long values truncated.
    fn row(&self, arrays: &[ArrayRef], row: usize) -> String {
        const MOST: usize = 64;
        let value = |array: &ArrayRef| match array.is_null(row) {
            true => "NULL".to_owned(),
            false => arrow::util::display::array_value_to_string(array, row)
                .unwrap_or_else(|_| "?".to_owned())
                .chars()
                .take(MOST)
                .collect(),
        };
        let values: Vec<String> = arrays.iter().map(value).collect();
        format!("({})", values.join(", "))
    }
}
