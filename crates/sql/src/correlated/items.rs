//! Subqueries over the items of an array of the outer row: `(SELECT array_agg(upper(x)) FROM
//! unnest(t.list) AS i(x) JOIN n ON ..)`. No condition ties the items to that row, so the row is carried
//! along: each outer row is unnested beside its columns, and stays once if its array is empty.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result, ScalarValue, TableReference};
use datafusion::functions::core::expr_fn::greatest;
use datafusion::functions_nested::expr_fn::{array_length, array_repeat, make_array};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, LogicalPlanBuilder, lit, when};

use super::{Inner, Pairs, THERE};
use crate::lateral_unnest::{Items, items_of, of_projection};
use crate::mark_joins::Names;
use crate::walk::Walk;

/// The columns of rows outside, under names that no row inside has.
struct Outside {
    alias: TableReference,
    plan: LogicalPlan,
    /// As they were.
    columns: Vec<Column>,
    there: String,
}

/// Rows inside, with those outside beside them.
struct Beside {
    plan: LogicalPlan,
    /// The columns of the rows inside.
    own: Vec<Column>,
}

/// Pairs of rows outside and inside; `None`: the rows inside are others.
pub(super) fn pairs(
    input: &LogicalPlan,
    rows: &LogicalPlan,
    names: &mut Names,
) -> Result<Option<Pairs>> {
    if !has_items(rows)? {
        return Ok(None);
    }
    let (number, alias) = (names.next("number"), TableReference::bare(names.next("outside")));
    let columns = input.schema().columns();
    let named = columns.iter().enumerate().map(|(at, column)| {
        Expr::Column(column.clone()).alias_qualified(Some(alias.clone()), format!("__{at}"))
    });
    let number_of = Expr::Column(Column::new_unqualified(number.clone()));
    let named: Vec<Expr> = named.chain([number_of]).collect();
    let plan = LogicalPlanBuilder::from(input.clone())
        .window([super::row_number().alias(number.clone())])?
        .project(named)?
        .build()?;
    let outside = Outside { alias, plan, columns, there: names.next("item") };
    let Some(Beside { plan, own }) = outside.beside(rows)? else { return Ok(None) };
    let inner = Inner { plan: rows.clone(), alias: TableReference::bare(names.next("rows")) };
    let of_input = outside.columns.iter().enumerate().map(|(at, column)| {
        outside.column(at).alias_qualified(column.relation.clone(), column.name.clone())
    });
    let mut all: Vec<Expr> = of_input.collect();
    all.push(Expr::Column(Column::new_unqualified(number.clone())));
    for (at, column) in own.into_iter().enumerate() {
        let own = Expr::Column(column);
        all.push(own.alias_qualified(Some(inner.alias.clone()), format!("__{at}")));
    }
    all.push(outside.is_there().alias_qualified(Some(inner.alias.clone()), THERE));
    let plan = LogicalPlanBuilder::from(plan).project(all)?.build()?;
    let columns = outside.columns.into_iter().map(Expr::Column).collect();
    Ok(Some(Pairs { plan, columns, number, inner }))
}

/// Whether rows are of items of arrays outside.
pub(super) fn has_items(rows: &LogicalPlan) -> Result<bool> {
    rows.any(|plan| Ok(items_of(plan, None, Vec::new()).is_some()))
}

impl Outside {
    fn column(&self, at: usize) -> Expr {
        Expr::Column(Column::new(Some(self.alias.clone()), format!("__{at}")))
    }

    fn is_there(&self) -> Expr {
        Expr::Column(Column::new_unqualified(self.there.clone()))
    }

    /// All columns that are carried along.
    fn carried(&self, with_there: bool) -> Vec<Expr> {
        let own = self.plan.schema().columns().into_iter().map(Expr::Column);
        own.chain(with_there.then(|| self.is_there())).collect()
    }

    /// An expression of rows inside, with columns in the place of references to rows outside.
    fn settled(&self, expr: Expr) -> Result<Expr> {
        let made = expr.map_down(|expr| match &expr {
            Expr::OuterReferenceColumn(_, column) => {
                let at = self.columns.iter().position(|own| own == column);
                Ok(match at {
                    Some(at) => Transformed::new(self.column(at), true, TreeNodeRecursion::Jump),
                    None => Transformed::no(expr),
                })
            }
            _ => Ok(Transformed::no(expr)),
        });
        made.data()
    }

    fn beside(&self, rows: &LogicalPlan) -> Result<Option<Beside>> {
        if let Some(items) = items_of(rows, None, Vec::new()) {
            return self.items(rows, items).map(Some);
        }
        match rows {
            LogicalPlan::Projection(own) => {
                let Some(below) = self.beside(&own.input)? else { return Ok(None) };
                let mut all = self.carried(true);
                for expr in &own.expr {
                    all.push(self.settled(expr.clone())?);
                }
                let plan = LogicalPlanBuilder::from(below.plan).project(all)?.build()?;
                Ok(Some(Beside { plan, own: own.schema.columns() }))
            }
            LogicalPlan::SubqueryAlias(own) => {
                let Some(below) = self.beside(&own.input)? else { return Ok(None) };
                let mut all = self.carried(true);
                let columns = own.schema.columns();
                for (old, new) in below.own.into_iter().zip(&columns) {
                    let old = Expr::Column(old);
                    all.push(old.alias_qualified(new.relation.clone(), new.name.clone()));
                }
                let plan = LogicalPlanBuilder::from(below.plan).project(all)?.build()?;
                Ok(Some(Beside { plan, own: columns }))
            }
            LogicalPlan::Filter(own) => {
                let Some(below) = self.beside(&own.input)? else { return Ok(None) };
                let condition = self.settled(own.predicate.clone())?;
                self.where_true(below.plan, below.own, condition).map(Some)
            }
            LogicalPlan::Join(own) if own.join_type == JoinType::Inner => self.join(own),
            _ => Ok(None),
        }
    }

    /// Rows of which those alone are there for which something is true.
    fn where_true(&self, plan: LogicalPlan, own: Vec<Column>, is: Expr) -> Result<Beside> {
        let there = when(self.is_there().and(is), lit(true)).end()?.alias(self.there.clone());
        let mut all = self.carried(false);
        all.push(there);
        all.extend(own.iter().cloned().map(Expr::Column));
        let plan = LogicalPlanBuilder::from(plan).project(all)?.build()?;
        Ok(Beside { plan, own })
    }

    /// Items with rows of something else.
    fn join(&self, join: &Join) -> Result<Option<Beside>> {
        let is_left = has_items(&join.left)?;
        let (of_items, other) =
            if is_left { (&join.left, &join.right) } else { (&join.right, &join.left) };
        if other.any(|plan| Ok(plan.expressions().iter().any(Expr::contains_outer)))? {
            return Ok(None);
        }
        let Some(below) = self.beside(of_items)? else { return Ok(None) };
        let mut conditions: Vec<Expr> =
            join.on.iter().map(|(left, right)| left.clone().eq(right.clone())).collect();
        conditions.extend(join.filter.clone());
        let settled = conditions.into_iter().map(|own| self.settled(own));
        let settled = settled.collect::<Result<Vec<Expr>>>()?;
        let found = format!("{}_found", self.there);
        let columns: Vec<Column> = other.schema().columns();
        let marked = columns.iter().cloned().map(Expr::Column);
        let marked: Vec<Expr> = marked.chain([lit(true).alias(found.clone())]).collect();
        let marked = LogicalPlanBuilder::from(other.as_ref().clone()).project(marked)?.build()?;
        let plan = LogicalPlanBuilder::from(below.plan)
            .join_on(marked, JoinType::Left, settled)?
            .build()?;
        let own = match is_left {
            true => below.own.into_iter().chain(columns).collect(),
            false => columns.into_iter().chain(below.own).collect(),
        };
        let is_found = Expr::Column(Column::new_unqualified(found)).is_not_null();
        self.where_true(plan, own, is_found).map(Some)
    }

    /// The items of each row outside, or that row alone.
    fn items(&self, rows: &LogicalPlan, items: Items) -> Result<Beside> {
        let Items { alias: _, chosen, unnest, arrays } = items;
        let mut columns = self.carried(false);
        let mut lengths = Vec::new();
        let mut exec = Vec::new();
        for (expr, column) in arrays.expr.iter().zip(arrays.schema.columns()) {
            let value = self.settled(expr.clone().unalias_nested().data)?;
            lengths.push(array_length(value.clone()));
            columns.push(value.alias(column.name.clone()));
        }
        exec.extend(unnest.exec_columns.iter().cloned());
        let longest = if lengths.len() > 1 { greatest(lengths) } else { lengths.remove(0) };
        let none = make_array(vec![lit(ScalarValue::Boolean(None))]);
        let mut marks = when(longest.clone().gt(lit(0u64)), array_repeat(lit(true), longest));
        columns.push(marks.otherwise(none)?.alias(self.there.clone()));
        exec.push(Column::new_unqualified(self.there.clone()));
        let plan = LogicalPlanBuilder::from(self.plan.clone())
            .project(columns)?
            .unnest_columns_with_options(exec, unnest.options.clone())?;
        let mut all = self.carried(true);
        let own = rows.schema().columns();
        for (at, column) in own.iter().enumerate() {
            let mut value = match chosen.first() {
                Some(last) => last.expr[at].clone().unalias_nested().data,
                None => Expr::Column(unnest.schema.columns()[at].clone()),
            };
            for below in chosen.iter().skip(1) {
                value = of_projection(value, below)?;
            }
            let value = self.settled(value)?;
            all.push(value.alias_qualified(column.relation.clone(), column.name.clone()));
        }
        let plan = plan.project(all)?.build()?;
        Ok(Beside { plan, own })
    }
}
