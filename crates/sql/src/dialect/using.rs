//! Outer joins with USING, rewritten as the conditions and merged columns that they stand for.
//!
//! For the `k` of `a LEFT JOIN b USING (k)`, DataFusion 55 takes the column of one side: in `SELECT *`,
//! that of the side whose name comes first in the alphabet, which is null where a row has no partner. By
//! the standard it is the column of the side that keeps all its rows, or of either side in a FULL JOIN,
//! and comes first.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, GroupByExpr, Ident, JoinConstraint, JoinOperator,
    ObjectName, OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    TableFactor, TableWithJoins, WildcardAdditionalOptions,
};

use crate::call::call;
use crate::error::Error;
use crate::names::apart::Within;
use crate::names::folded;
use crate::walk::visit;

/// Writes them out in each SELECT of a query.
///
/// # Errors
/// 03001 for NATURAL outer joins, whose columns are not known here.
pub(super) fn rewrite(query: &mut Query) -> Result<(), Error> {
    let order = match query.order_by.as_mut().map(|order| &mut order.kind) {
        Some(OrderByKind::Expressions(order)) => order.iter_mut().map(|by| &mut by.expr).collect(),
        _ => Vec::new(),
    };
    in_selects(&mut query.body, order)
}

fn in_selects(body: &mut SetExpr, order: Vec<&mut Expr>) -> Result<(), Error> {
    match body {
        SetExpr::Select(select) => {
            if let Some(merged) = Merged::of(&mut select.from)? {
                merged.put_in(select, order);
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            in_selects(left, Vec::new())?;
            in_selects(right, Vec::new())?;
        }
        _ => {}
    }
    Ok(())
}

/// The tables of a chain of joins, and the columns that they have together.
struct Merged {
    /// By what each table is called, with the columns of its USING.
    tables: Vec<(Ident, Vec<Ident>)>,
    columns: Vec<(Ident, Expr)>,
}

impl Merged {
    /// Of a FROM with an outer join with USING, whose conditions are written out; `None`: of any other, or
    /// one where it cannot be told from the text in which table a column is.
    fn of(from: &mut [TableWithJoins]) -> Result<Option<Merged>, Error> {
        let [TableWithJoins { relation, joins }] = from else { return Ok(None) };
        let is_outer =
            |operator: &JoinOperator| !matches!(side_of(operator), None | Some(Side::Inner));
        for join in joins.iter().filter(|join| is_outer(&join.join_operator)) {
            if let Some(JoinConstraint::Natural) = constraint_of(&join.join_operator) {
                return Err(
                    Error::not_yet("NATURAL with an outer join").next("say USING (column, ..)")
                );
            }
        }
        if !joins.iter().any(|join| is_outer(&join.join_operator)) {
            return Ok(None);
        }
        let Some(first) = name_of(relation).cloned() else { return Ok(None) };
        let mut merged = Merged { tables: vec![(first.clone(), Vec::new())], columns: Vec::new() };
        let mut conditions = Vec::new();
        for (at, join) in joins.iter().enumerate() {
            let (Some(name), Some(side), Some(JoinConstraint::Using(columns))) = (
                name_of(&join.relation),
                side_of(&join.join_operator),
                constraint_of(&join.join_operator),
            ) else {
                return Ok(None);
            };
            let mut condition: Option<Expr> = None;
            let mut own = Vec::new();
            for column in columns {
                let [part] = &column.0[..] else { return Ok(None) };
                let Some(column) = part.as_ident() else { return Ok(None) };
                let Some(equal) = merged.join(column, &first, name, side, at == 0) else {
                    return Ok(None);
                };
                condition = Some(match condition {
                    Some(before) => binary(before, BinaryOperator::And, equal),
                    None => equal,
                });
                own.push(column.clone());
            }
            let Some(condition) = condition else { return Ok(None) };
            conditions.push(condition);
            merged.tables.push((name.clone(), own));
        }
        for (join, condition) in joins.iter_mut().zip(conditions) {
            set(&mut join.join_operator, JoinConstraint::On(condition));
        }
        Ok(Some(merged))
    }

    /// Adds a table's column to the merged one of its name: what makes them equal. `None`: it is not known in
    /// which of the tables before it is.
    fn join(
        &mut self,
        column: &Ident,
        first: &Ident,
        name: &Ident,
        side: Side,
        is_first: bool,
    ) -> Option<Expr> {
        let of = |table: &Ident| Expr::CompoundIdentifier(vec![table.clone(), column.clone()]);
        let known = self.columns.iter().position(|(own, _)| folded(own) == folded(column));
        let at = match known {
            Some(at) => at,
            None if is_first => {
                self.columns.push((column.clone(), of(first)));
                self.columns.len() - 1
            }
            None => return None,
        };
        let before = self.columns[at].1.clone();
        let equal = binary(before.clone(), BinaryOperator::Eq, of(name));
        self.columns[at].1 = match side {
            Side::Inner | Side::Left => before,
            Side::Right => of(name),
            Side::Full => call("coalesce", vec![before, of(name)]),
        };
        Some(equal)
    }

    /// Puts the merged columns in the place of their names, and of `*`.
    fn put_in(&self, select: &mut Select, order: Vec<&mut Expr>) {
        let by_name: BTreeMap<String, &Expr> =
            self.columns.iter().map(|(name, expr)| (folded(name), expr)).collect();
        let act = |expr: &mut Expr| {
            if let Expr::Identifier(name) = expr
                && let Some(merged) = by_name.get(&folded(name))
            {
                *expr = (*merged).clone();
            }
        };
        let put = |expr: &mut Expr| {
            let _: ControlFlow<()> = visit(expr, &mut Within { depth: 0, act });
        };
        for item in std::mem::take(&mut select.projection) {
            match item {
                SelectItem::Wildcard(options)
                    if options == WildcardAdditionalOptions::default() =>
                {
                    select.projection.extend(self.all());
                }
                SelectItem::UnnamedExpr(Expr::Identifier(alias))
                    if by_name.contains_key(&folded(&alias)) =>
                {
                    let expr = by_name[&folded(&alias)].clone();
                    select.projection.push(SelectItem::ExprWithAlias { expr, alias });
                }
                SelectItem::UnnamedExpr(mut expr) => {
                    put(&mut expr);
                    select.projection.push(SelectItem::UnnamedExpr(expr));
                }
                SelectItem::ExprWithAlias { mut expr, alias } => {
                    put(&mut expr);
                    select.projection.push(SelectItem::ExprWithAlias { expr, alias });
                }
                other => select.projection.push(other),
            }
        }
        let conditions = [&mut select.selection, &mut select.having, &mut select.qualify];
        conditions.into_iter().flatten().for_each(put);
        if let GroupByExpr::Expressions(groups, _) = &mut select.group_by {
            groups.iter_mut().for_each(put);
        }
        let is_selected = |name: &Ident| {
            select.projection.iter().any(|item| {
                matches!(item, SelectItem::ExprWithAlias { alias, .. }
                if folded(alias) == folded(name))
            })
        };
        // What is sorted by is first a name of the result.
        let is_own =
            |expr: &&mut Expr| !matches!(&**expr, Expr::Identifier(name) if is_selected(name));
        order.into_iter().filter(is_own).for_each(put);
    }

    /// `*`: the merged columns, then what else each table has.
    fn all(&self) -> Vec<SelectItem> {
        let merged = self.columns.iter().map(|(alias, expr)| SelectItem::ExprWithAlias {
            expr: expr.clone(),
            alias: alias.clone(),
        });
        let every: Vec<Ident> = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let rest = self.tables.iter().enumerate().map(|(at, (table, own))| {
            let left_out = if at == 0 { &every } else { own };
            let names = left_out.iter().map(|name| ObjectName::from(vec![name.clone()])).collect();
            let options = WildcardAdditionalOptions {
                opt_exclude: Some(ExcludeSelectItem::Multiple(names)),
                ..WildcardAdditionalOptions::default()
            };
            let table = ObjectName::from(vec![table.clone()]);
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(table),
                options,
            )
        });
        merged.chain(rest).collect()
    }
}

/// Of which sides a join keeps rows without a partner.
#[derive(Clone, Copy)]
enum Side {
    Inner,
    Left,
    Right,
    Full,
}

fn side_of(operator: &JoinOperator) -> Option<Side> {
    match operator {
        JoinOperator::Join(_) | JoinOperator::Inner(_) => Some(Side::Inner),
        JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => Some(Side::Left),
        JoinOperator::Right(_) | JoinOperator::RightOuter(_) => Some(Side::Right),
        JoinOperator::FullOuter(_) => Some(Side::Full),
        _ => None,
    }
}

fn constraint_of(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(own)
        | JoinOperator::Inner(own)
        | JoinOperator::Left(own)
        | JoinOperator::LeftOuter(own)
        | JoinOperator::Right(own)
        | JoinOperator::RightOuter(own)
        | JoinOperator::FullOuter(own) => Some(own),
        _ => None,
    }
}

fn set(operator: &mut JoinOperator, constraint: JoinConstraint) {
    match operator {
        JoinOperator::Join(own)
        | JoinOperator::Inner(own)
        | JoinOperator::Left(own)
        | JoinOperator::LeftOuter(own)
        | JoinOperator::Right(own)
        | JoinOperator::RightOuter(own)
        | JoinOperator::FullOuter(own) => *own = constraint,
        _ => {}
    }
}

/// By what a table is called.
fn name_of(factor: &TableFactor) -> Option<&Ident> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. } => Some(&alias.name),
        TableFactor::Table { name, alias: None, .. } => name.0.last()?.as_ident(),
        _ => None,
    }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}
