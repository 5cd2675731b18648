//! Walks over plans, expressions and statements that are compiled once, whoever walks.
//!
//! The walks of DataFusion and of the parser are generic over what is done at a node: each closure has some
//! hundred functions made for it. Here it is behind a reference. That is a third of this crate's code.

use std::ops::ControlFlow;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, VisitMut,
    VisitorMut,
};

/// What a change of a node gives.
type Changed<T> = Result<Transformed<T>>;

/// Walks over a tree of plans or expressions. Each is called as DataFusion's, with `map` for its
/// `transform`, `each` for its `apply`, `any` for its `exists`.
pub(crate) trait Walk: TreeNode {
    /// Changes the nodes from the leaves up.
    fn map_up(self, mut f: impl FnMut(Self) -> Changed<Self>) -> Changed<Self> {
        let f: &mut dyn FnMut(Self) -> Changed<Self> = &mut f;
        self.transform_up(f)
    }

    /// Changes the nodes from the root down.
    fn map_down(self, mut f: impl FnMut(Self) -> Changed<Self>) -> Changed<Self> {
        let f: &mut dyn FnMut(Self) -> Changed<Self> = &mut f;
        self.transform_down(f)
    }

    /// Looks at the nodes from the root down.
    fn each<'n>(
        &'n self,
        mut f: impl FnMut(&'n Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let f: &mut dyn FnMut(&'n Self) -> Result<TreeNodeRecursion> = &mut f;
        self.apply(f)
    }

    /// Whether a node is one for which `f` is true.
    fn any(&self, mut f: impl FnMut(&Self) -> Result<bool>) -> Result<bool> {
        let mut found = false;
        self.each(|node| {
            found = f(node)?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(found)
    }
}

impl<T: TreeNode> Walk for T {}

/// Walks over a plan with the plans of its subqueries, and over its own expressions.
pub(crate) trait WalkPlan: Sized {
    /// Changes the nodes from the leaves up, with those of subqueries.
    fn map_up_with_subqueries(self, f: impl FnMut(Self) -> Changed<Self>) -> Changed<Self>;

    /// Changes the nodes from the root down, with those of subqueries.
    fn map_down_with_subqueries(self, f: impl FnMut(Self) -> Changed<Self>) -> Changed<Self>;

    /// Changes the expressions of this one node.
    fn map_own(self, f: impl FnMut(Expr) -> Changed<Expr>) -> Changed<Self>;
}

impl WalkPlan for LogicalPlan {
    fn map_up_with_subqueries(self, mut f: impl FnMut(Self) -> Changed<Self>) -> Changed<Self> {
        let f: &mut dyn FnMut(Self) -> Changed<Self> = &mut f;
        self.transform_up_with_subqueries(f)
    }

    fn map_down_with_subqueries(self, mut f: impl FnMut(Self) -> Changed<Self>) -> Changed<Self> {
        let f: &mut dyn FnMut(Self) -> Changed<Self> = &mut f;
        self.transform_down_with_subqueries(f)
    }

    fn map_own(self, mut f: impl FnMut(Expr) -> Changed<Expr>) -> Changed<Self> {
        let f: &mut dyn FnMut(Expr) -> Changed<Expr> = &mut f;
        self.map_expressions(f)
    }
}

/// Whether what expressions take from outside are columns of these rows; else they are further out.
pub(crate) fn are_of(exprs: &[Expr], rows: &DFSchema) -> Result<bool> {
    for expr in exprs {
        let is_other = |expr: &Expr| {
            Ok(matches!(expr, Expr::OuterReferenceColumn(_, column) if !rows.has_column(column)))
        };
        if expr.any(is_other)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Has a visitor see a part of a statement.
pub(crate) fn visit<B>(
    part: &mut impl VisitMut,
    visitor: &mut impl VisitorMut<Break = B>,
) -> ControlFlow<B> {
    part.visit(&mut Behind(visitor))
}

/// Any visitor that ends with a `B`, as one type.
struct Behind<'a, B>(&'a mut dyn VisitorMut<Break = B>);

macro_rules! handed_on {
    ($($name:ident: $node:ty),* $(,)?) => {
        $(fn $name(&mut self, node: &mut $node) -> ControlFlow<B> {
            self.0.$name(node)
        })*
    };
}

impl<B> VisitorMut for Behind<'_, B> {
    type Break = B;

    handed_on!(
        pre_visit_query: Query,
        post_visit_query: Query,
        pre_visit_select: Select,
        post_visit_select: Select,
        pre_visit_relation: ObjectName,
        post_visit_relation: ObjectName,
        pre_visit_table_factor: TableFactor,
        post_visit_table_factor: TableFactor,
        pre_visit_expr: SqlExpr,
        post_visit_expr: SqlExpr,
        pre_visit_statement: Statement,
        post_visit_statement: Statement,
        pre_visit_value: ValueWithSpan,
        post_visit_value: ValueWithSpan,
    );
}
