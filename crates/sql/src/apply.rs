//! Subqueries that cannot become joins: run once for each set of values that they take from the outer row.
//!
//! DataFusion turns subqueries into joins, and so do our rules. What neither can turn into one (a
//! recursive query that starts from the outer row, a window or a LIMIT over its rows, an expression over
//! both rows) is planned here: an operator puts the result of the subquery beside each row, and keeps it
//! for later rows with the same values. It is the last resort, for a plan that cannot be made with joins
//! alone.

mod exec;
mod node;
mod planner;
mod rewrite;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::ParamValues;
use datafusion::common::metadata::ScalarAndMetadata;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::scalar::ScalarValue;

pub(crate) use self::node::Apply;
pub(crate) use self::planner::ApplyPlanner;
use self::rewrite::{applied, tied};
use crate::walk::Walk;

/// With up to this many subqueries, each is tried to find the one that cannot become a join; with more,
/// all are run for each row.
const TRIED: usize = 8;

/// The physical form of a plan.
pub(crate) async fn physical(
    state: &SessionState,
    plan: &LogicalPlan,
) -> Result<Arc<dyn ExecutionPlan>> {
    match state.create_physical_plan(plan).await {
        Err(error) => match otherwise(state, plan).await {
            Some(plan) => state.query_planner().create_physical_plan(&plan, state).await,
            None => Err(error),
        },
        made => made,
    }
}

/// The optimized form of a plan that can be run.
pub(crate) async fn optimized(state: &SessionState, plan: &LogicalPlan) -> Result<LogicalPlan> {
    match attempt(state, plan).await {
        Err(error) => otherwise(state, plan).await.ok_or(error),
        made => made,
    }
}

/// The optimized form of a plan whose subqueries cannot all become joins; `None`: it cannot be run.
async fn otherwise(state: &SessionState, plan: &LogicalPlan) -> Option<LogicalPlan> {
    let count = tied(plan).ok()?;
    let each = 0..if (2..=TRIED).contains(&count) { count } else { 0 };
    let all = (count > 0).then_some(None);
    for only in each.map(Some).chain(all) {
        let Ok(plan) = applied(plan, only) else { continue };
        if let Ok(made) = attempt(state, &plan).await {
            return Some(made);
        }
    }
    None
}

/// The optimized form of a plan, from which a physical plan can be made.
async fn attempt(state: &SessionState, plan: &LogicalPlan) -> Result<LogicalPlan> {
    let plan = state.optimize(plan)?;
    let mut nulls = HashMap::new();
    for own in placeholders(&plan)? {
        let Expr::Placeholder(own) = own else { continue };
        let null = match &own.field {
            Some(field) => ScalarValue::try_from(field.data_type())?,
            None => ScalarValue::Null,
        };
        nulls.insert(own.id[1..].to_owned(), ScalarAndMetadata::from(null));
    }
    let with_nulls = plan.clone().replace_params_with_values(&ParamValues::Map(nulls))?;
    state.query_planner().create_physical_plan(&with_nulls, state).await?;
    Ok(plan)
}

/// The outer values that a plan, and the plans within it, take.
fn placeholders(plan: &LogicalPlan) -> Result<Vec<Expr>> {
    let mut found = Vec::new();
    plan.apply_with_subqueries(|plan| {
        for expr in plan.expressions() {
            expr.each(|expr| {
                if matches!(expr, Expr::Placeholder(_)) && !found.contains(expr) {
                    found.push(expr.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}
