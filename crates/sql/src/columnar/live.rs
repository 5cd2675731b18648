//! Filters that become narrower while a query runs: DataFusion's dynamic filters, as a cell asks them.

use std::sync::Arc;

use cellar_format::predicate::Predicate;
use cellar_instance::cell::Live;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::snapshot_generation;
use datafusion::physical_plan::expressions::{BinaryExpr, DynamicFilterPhysicalExpr};

use crate::columnar::table::OpenTable;
use crate::columnar::translate::predicate;

/// A dynamic filter over the columns of a table.
#[derive(Debug)]
pub struct LiveFilter {
    expr: Arc<dyn PhysicalExpr>,
    table: Arc<OpenTable>,
}

impl LiveFilter {
    /// A filter over the columns of a table.
    pub fn new(expr: Arc<dyn PhysicalExpr>, table: Arc<OpenTable>) -> LiveFilter {
        LiveFilter { expr, table }
    }
}

impl Live for LiveFilter {
    fn generation(&self) -> u64 {
        snapshot_generation(&self.expr)
    }

    fn predicates(&self) -> Vec<Predicate> {
        let mut out = Vec::new();
        understood(&self.expr, &self.table, &mut out);
        out
    }

    fn columns(&self) -> Vec<usize> {
        collect_columns(&self.expr).iter().map(|column| column.index()).collect()
    }
}

/// Those parts of a filter that are understood. The others only leave more rows than need be: whoever
/// made the filter asks each row again.
fn understood(expr: &Arc<dyn PhysicalExpr>, table: &OpenTable, out: &mut Vec<Predicate>) {
    if let Some(dynamic) = expr.downcast_ref::<DynamicFilterPhysicalExpr>() {
        if let Ok(current) = dynamic.current() {
            understood(&current, table, out);
        }
        return;
    }
    if let Some(both) = expr.downcast_ref::<BinaryExpr>()
        && *both.op() == Operator::And
    {
        understood(both.left(), table, out);
        understood(both.right(), table, out);
        return;
    }
    match predicate(expr, false, table.schema()).and_then(|known| table.fitting(known)) {
        Ok(Predicate::All) | Err(_) => {}
        Ok(known) => out.push(known),
    }
}
