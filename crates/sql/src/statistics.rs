//! Answers from statistics, only where these describe the values themselves.
//!
//! For the minimum and maximum of a cast column, DataFusion 55 casts those of the column
//! (`project_column_statistics_through_expr`): for '9' and '10' as numbers the maximum was 9, and a text
//! that is not a number went unnoticed.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::config::ConfigOptions;
use datafusion::physical_expr::expressions::CastExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::walk::Walk;

/// The rule that answers from statistics, for operators without casts below.
#[derive(Debug)]
pub(crate) struct OfValues(pub(crate) Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for OfValues {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !has_casts(&plan)? {
            return self.0.optimize(plan, config);
        }
        let children = plan.children().into_iter().map(Arc::clone);
        let children = children.map(|child| self.optimize(child, config));
        let children = children.collect::<Result<Vec<_>>>()?;
        replace_children_if_necessary(plan, children)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

fn has_casts(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut found = false;
    plan.each(|plan| {
        if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            for own in projection.expr() {
                own.expr.each(|expr| {
                    found |= expr.downcast_ref::<CastExpr>().is_some();
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}
