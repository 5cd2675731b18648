//! Walks over plans, expressions and statements, compiled once for all callers.
//!
//! The walks of DataFusion and of the parser are generic over the action at a node: for each closure
//! some hundred functions are compiled. Here the action is behind a reference. Without that, copies of
//! the walks were half of what the compiler had to generate for this crate.

use std::ops::ControlFlow;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit,
    VisitMut, Visitor, VisitorMut,
};

/// The result of changing a node.
type Changed<T> = Result<Transformed<T>>;

/// Walks over a tree of plans or expressions. They correspond to DataFusion's: `map` to its `transform`,
/// `each` to its `apply`, `any` to its `exists`.
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

    /// Visits the nodes from the root down.
    fn each<'n>(
        &'n self,
        mut f: impl FnMut(&'n Self) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let f: &mut dyn FnMut(&'n Self) -> Result<TreeNodeRecursion> = &mut f;
        self.apply(f)
    }

    /// Whether `f` is true for some node.
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
    /// Changes the nodes from the leaves up, including those of subqueries.
    fn map_up_with_subqueries(self, f: impl FnMut(Self) -> Changed<Self>) -> Changed<Self>;

    /// Changes the nodes from the root down, including those of subqueries.
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

/// Whether all outer references in expressions are columns of these rows; otherwise some are further out.
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

/// Applies a mutating visitor to a part of a statement.
pub(crate) fn visit<V: VisitorMut>(
    part: &mut impl VisitMut,
    visitor: &mut V,
) -> ControlFlow<V::Break> {
    let mut held = Held { visitor, found: None };
    let _ = part.visit(&mut BehindMut(&mut held));
    held.found.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Applies a visitor to a part of a statement.
pub(crate) fn look<V: Visitor>(part: &impl Visit, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut held = Held { visitor, found: None };
    let _ = part.visit(&mut Behind(&mut held));
    held.found.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Visits the expressions of a part of a statement, the outer before the inner.
pub(crate) fn each_expr(part: &impl Visit, mut f: impl FnMut(&SqlExpr)) {
    any_expr(part, |expr| {
        f(expr);
        false
    });
}

/// Whether a part of a statement has an expression for which `f` is true.
pub(crate) fn any_expr(part: &impl Visit, f: impl FnMut(&SqlExpr) -> bool) -> bool {
    struct Any<F>(F);
    impl<F: FnMut(&SqlExpr) -> bool> Visitor for Any<F> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &SqlExpr) -> ControlFlow<()> {
            if (self.0)(expr) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    look(part, &mut Any(f)).is_break()
}

/// Changes the expressions of a part of a statement, the inner before the outer.
pub(crate) fn map_exprs(part: &mut impl VisitMut, f: impl FnMut(&mut SqlExpr)) {
    struct Map<F>(F);
    impl<F: FnMut(&mut SqlExpr)> VisitorMut for Map<F> {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut SqlExpr) -> ControlFlow<()> {
            (self.0)(expr);
            ControlFlow::Continue(())
        }
    }
    let _: ControlFlow<()> = visit(part, &mut Map(f));
}

/// A visitor, and the value that it stopped with.
struct Held<'a, V, B> {
    visitor: &'a mut V,
    found: Option<B>,
}

impl<V, B> Held<'_, V, B> {
    fn note(&mut self, flow: ControlFlow<B>) -> ControlFlow<()> {
        flow.map_break(|found| self.found = Some(found))
    }
}

/// Any read-only visitor, as one type.
struct Behind<'a>(&'a mut dyn Visitor<Break = ()>);

/// Any mutating visitor, as one type.
struct BehindMut<'a>(&'a mut dyn VisitorMut<Break = ()>);

/// The methods of both kinds of visitor, each forwarded from the wrapper to the visitor behind it.
macro_rules! handed_on {
    ($($name:ident: $node:ty),* $(,)?) => {
        impl Visitor for Behind<'_> {
            type Break = ();
            $(fn $name(&mut self, node: &$node) -> ControlFlow<()> {
                self.0.$name(node)
            })*
        }

        impl<V: Visitor> Visitor for Held<'_, V, V::Break> {
            type Break = ();
            $(fn $name(&mut self, node: &$node) -> ControlFlow<()> {
                let flow = self.visitor.$name(node);
                self.note(flow)
            })*
        }

        impl VisitorMut for BehindMut<'_> {
            type Break = ();
            $(fn $name(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.0.$name(node)
            })*
        }

        impl<V: VisitorMut> VisitorMut for Held<'_, V, V::Break> {
            type Break = ();
            $(fn $name(&mut self, node: &mut $node) -> ControlFlow<()> {
                let flow = self.visitor.$name(node);
                self.note(flow)
            })*
        }
    };
}

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
