//! Columns that DISTINCT ON partitions and sorts by, computed beforehand.
//!
//! DataFusion 55 turns DISTINCT ON into groups. There, two expressions that differ only by a cast have
//! the same name and are refused, and correlated subqueries are not planned.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{
    Distinct, DistinctOn, Expr, LogicalPlan, LogicalPlanBuilder, SortExpr,
};
use datafusion::optimizer::AnalyzerRule;

use crate::mark_joins::{Names, handing_on, outer_columns};
use crate::walk::{Walk, WalkPlan};

/// The rule.
#[derive(Debug, Default)]
pub(crate) struct KeysOfDistinctOn;

impl AnalyzerRule for KeysOfDistinctOn {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut names = Names::default();
        let rewrite = |plan: LogicalPlan| match plan {
            LogicalPlan::Distinct(Distinct::On(own)) => with_keys_below(own, &mut names),
            other => Ok(Transformed::no(other)),
        };
        Ok(plan.map_up_with_subqueries(rewrite)?.data)
    }

    fn name(&self) -> &'static str {
        "keys_of_distinct_on"
    }
}

fn with_keys_below(own: DistinctOn, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    let mut below = Below { names, computed: Vec::new() };
    let on: Vec<Expr> = own.on_expr.iter().map(|expr| below.column(expr.clone())).collect();
    let sort: Option<Vec<SortExpr>> = own.sort_expr.as_ref().map(|keys| {
        let key = |key: &SortExpr| SortExpr { expr: below.column(key.expr.clone()), ..key.clone() };
        keys.iter().map(key).collect()
    });
    let mut select = Vec::new();
    for expr in &own.select_expr {
        select.push(match expr.any(|expr| Ok(matches!(expr, Expr::ScalarSubquery(_))))? {
            true => {
                let name = expr.schema_name().to_string();
                below.column(expr.clone().unalias()).alias(name)
            }
            false => expr.clone(),
        });
    }
    let Below { computed, .. } = below;
    if computed.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::On(own))));
    }
    let tied_to: Vec<Column> = computed.iter().flat_map(|(expr, _)| outer_columns(expr)).collect();
    let input = handing_on(Arc::unwrap_or_clone(own.input), &tied_to)?;
    let columns = input.schema().columns().into_iter().map(Expr::Column);
    let computed = computed.into_iter().map(|(expr, name)| expr.alias(name));
    let exprs: Vec<Expr> = columns.chain(computed).collect();
    let input = LogicalPlanBuilder::from(input).project(exprs)?.build()?;
    let new = DistinctOn::try_new(on, select, sort, Arc::new(input))?;
    Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(new))))
}

/// Expressions computed below, and their names.
struct Below<'a> {
    names: &'a mut Names,
    computed: Vec<(Expr, String)>,
}

impl Below<'_> {
    fn column(&mut self, expr: Expr) -> Expr {
        let expr = expr.unalias();
        if matches!(expr, Expr::Column(_)) {
            return expr;
        }
        let known =
            self.computed.iter().find(|(own, _)| *own == expr).map(|(_, name)| name.clone());
        let name = known.unwrap_or_else(|| {
            let name = self.names.next("key");
            self.computed.push((expr, name.clone()));
            name
        });
        Expr::Column(Column::new_unqualified(name))
    }
}
