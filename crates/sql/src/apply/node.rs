//! The operator in a logical plan.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::{DFSchema, DFSchemaRef, Result};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};

/// What is put beside a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd)]
pub(crate) enum Gives {
    /// The value of the only row, or null.
    Value,
    /// All rows; if there are none, the outer row is dropped.
    Rows,
    /// All rows; if there are none, the outer row stays alone.
    RowsOrNone,
}

/// Rows, each with the result of a subquery.
#[derive(Clone, Debug)]
pub(crate) struct Apply {
    pub input: LogicalPlan,
    /// The subquery, with placeholders for what it takes from the row.
    pub subquery: Arc<LogicalPlan>,
    pub gives: Gives,
    /// The names of the placeholders.
    pub names: Vec<String>,
    /// Their values: columns of the row, or values from further outside.
    pub values: Vec<Expr>,
    /// The rows for which the value is wanted; `None`: all.
    pub guard: Option<Expr>,
    /// The additional columns.
    pub own: DFSchemaRef,
    schema: DFSchemaRef,
}

impl Apply {
    pub fn new(
        input: LogicalPlan,
        (subquery, gives): (LogicalPlan, Gives),
        (names, values): (Vec<String>, Vec<Expr>),
        guard: Option<Expr>,
        own: DFSchemaRef,
    ) -> Result<Apply> {
        let schema = schema(&input, &own)?;
        let subquery = Arc::new(subquery);
        Ok(Apply { input, subquery, gives, names, values, guard, own, schema })
    }

    pub fn plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    /// The operator at the root of a plan.
    pub fn of(plan: &LogicalPlan) -> Option<&Apply> {
        match plan {
            LogicalPlan::Extension(own) => Apply::of_node(own.node.as_ref()),
            _ => None,
        }
    }

    pub fn of_node(node: &dyn UserDefinedLogicalNode) -> Option<&Apply> {
        node.as_any().downcast_ref()
    }
}

fn schema(input: &LogicalPlan, own: &DFSchema) -> Result<DFSchemaRef> {
    Ok(Arc::new(input.schema().join(own)?))
}

impl UserDefinedLogicalNodeCore for Apply {
    fn name(&self) -> &'static str {
        "for each row"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.values.iter().cloned().chain(self.guard.clone()).collect()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.own.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<String> = self.values.iter().map(ToString::to_string).collect();
        write!(f, "for each row: a subquery of {}", values.join(", "))
    }

    fn with_exprs_and_inputs(
        &self,
        mut exprs: Vec<Expr>,
        mut inputs: Vec<LogicalPlan>,
    ) -> Result<Apply> {
        let lacks = || DataFusionError::Internal("an operator without its input".to_owned());
        let input = inputs.pop().ok_or_else(lacks)?;
        let guard = match self.guard {
            Some(_) => exprs.pop(),
            None => None,
        };
        let schema = schema(&input, &self.own)?;
        Ok(Apply { input, values: exprs, guard, schema, ..self.clone() })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let columns = self.input.schema().fields().len();
        Some(vec![output_columns.iter().copied().filter(|at| *at < columns).collect()])
    }
}

// The schema follows from the rest.
impl PartialEq for Apply {
    fn eq(&self, other: &Apply) -> bool {
        self.input == other.input
            && self.subquery == other.subquery
            && self.gives == other.gives
            && self.names == other.names
            && self.values == other.values
            && self.guard == other.guard
            && self.own == other.own
    }
}

impl Eq for Apply {}

impl Hash for Apply {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.input.hash(state);
        self.subquery.hash(state);
        self.gives.hash(state);
        self.names.hash(state);
        self.values.hash(state);
        self.guard.hash(state);
    }
}

impl PartialOrd for Apply {
    fn partial_cmp(&self, other: &Apply) -> Option<Ordering> {
        match self.names.partial_cmp(&other.names) {
            Some(Ordering::Equal) if self == other => Some(Ordering::Equal),
            Some(Ordering::Equal) => None,
            order => order,
        }
    }
}
