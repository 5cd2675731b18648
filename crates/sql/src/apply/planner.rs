//! The way from the logical operator to the physical one.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::{QueryPlanner, SessionState};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

use super::exec::{ApplyExec, Each};
use super::{Apply, optimized};

/// DataFusion's planner, extended by this operator.
#[derive(Debug)]
pub(crate) struct ApplyPlanner;

#[async_trait]
impl QueryPlanner for ApplyPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(OfApply)]);
        planner.create_physical_plan(plan, session).await
    }
}

struct OfApply;

#[async_trait]
impl ExtensionPlanner for OfApply {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(own), [input]) = (Apply::of_node(node), inputs) else { return Ok(None) };
        let Some(state) = session.as_any().downcast_ref::<SessionState>() else {
            return Err(DataFusionError::Internal("a session of another kind".to_owned()));
        };
        let schema = own.input.schema();
        let physical = |expr| planner.create_physical_expr(expr, schema, session, context);
        let values = own.values.iter().map(physical).collect::<Result<Vec<_>>>()?;
        let guard = own.guard.as_ref().map(physical).transpose()?;
        let plan = optimized(state, &own.subquery).await?;
        let names = own.names.iter().map(|name| name[1..].to_owned()).collect();
        let each = Each { plan, state: state.clone(), names, values, guard, gives: own.gives };
        let exec = ApplyExec::new(Arc::clone(input), Arc::new(each), own.own.inner());
        Ok(Some(Arc::new(exec)))
    }
}
