//! The type of an integer literal beside another integer: integer if it fits, as in PostgreSQL.
//!
//! DataFusion reads every literal as a bigint, so that the sum of an integer and 1 was not an integer,
//! and did not overflow where PostgreSQL's does.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Plans such literals.
#[derive(Debug)]
pub(crate) struct WholeNumbers;

/// A literal as an integer; `None`: it is not one, or too large.
pub(crate) fn as_integer(expr: &Expr) -> Option<Expr> {
    let Expr::Literal(ScalarValue::Int64(Some(number)), metadata) = expr else { return None };
    let number = i32::try_from(*number).ok()?;
    Some(Expr::Literal(ScalarValue::Int32(Some(number)), metadata.clone()))
}

impl ExprPlanner for WholeNumbers {
    fn plan_binary_op(
        &self,
        own: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator as B;
        let RawBinaryExpr { op, mut left, mut right } = own;
        if matches!(op, B::Plus | B::Minus | B::Multiply | B::Divide | B::Modulo) {
            let is_narrow = |expr: &Expr| {
                let own = expr.get_type(schema);
                own.is_ok_and(|own| matches!(own, DataType::Int16 | DataType::Int32))
            };
            match (as_integer(&left), as_integer(&right)) {
                (Some(one), Some(other)) => (left, right) = (one, other),
                (Some(one), None) if is_narrow(&right) => left = one,
                (None, Some(other)) if is_narrow(&left) => right = other,
                _ => {}
            }
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}
