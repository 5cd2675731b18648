//! Joins with USING, rewritten as the conditions and merged columns that they stand for.
//!
//! For the `k` of `a LEFT JOIN b USING (k)`, DataFusion 55 takes the column of one side: in `SELECT *`,
//! that of the side whose name comes first in the alphabet, at its place there, which is null where a row has no
//! partner; of three tables it may take two. By the standard it is the column of the side that keeps all its rows, or
//! of either side in a FULL JOIN, and comes first. Inner joins are left as they are where no `*` is asked for.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, GroupByExpr, Ident, Join, JoinConstraint,
    JoinOperator, ObjectName, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins,
    WildcardAdditionalOptions,
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
            let is_all = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_));
            let has_all = select.projection.iter().any(is_all);
            if let Some(merged) = Merged::of(&mut select.from, has_all)? {
                put_in(&merged, select, order);
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

/// NATURAL outer joins have columns that are not known here.
fn refuse_natural(joins: &[Join]) -> Result<(), Error> {
    let is_natural = |join: &&Join| {
        is_outer(&join.join_operator)
            && matches!(constraint_of(&join.join_operator), Some(JoinConstraint::Natural))
    };
    match joins.iter().find(is_natural) {
        Some(_) => Err(Error::not_yet("NATURAL with an outer join").next("say USING (column, ..)")),
        None => Ok(()),
    }
}

fn is_outer(operator: &JoinOperator) -> bool {
    !matches!(side_of(operator), None | Some(Side::Inner))
}

impl Merged {
    /// Of each part of a FROM, if it has joins with USING that are to be written out; their conditions then are.
    /// `None`: it has not, or it cannot be told from the text in which table a column is.
    fn of(from: &mut [TableWithJoins], has_all: bool) -> Result<Option<Vec<Merged>>, Error> {
        let mut is_wanted = false;
        for TableWithJoins { joins, .. } in from.iter() {
            refuse_natural(joins)?;
            is_wanted |= joins.iter().map(|join| &join.join_operator).any(|operator| {
                let is_using = matches!(constraint_of(operator), Some(JoinConstraint::Using(_)));
                is_using && (has_all || is_outer(operator))
            });
        }
        if !is_wanted {
            return Ok(None);
        }
        let parts: Option<Vec<(Merged, Vec<Option<Expr>>)>> =
            from.iter().map(Merged::of_part).collect();
        let Some(parts) = parts else { return Ok(None) };
        let mut all = Vec::with_capacity(parts.len());
        for (part, (merged, conditions)) in from.iter_mut().zip(parts) {
            for (join, condition) in part.joins.iter_mut().zip(conditions) {
                if let Some(condition) = condition {
                    set(&mut join.join_operator, JoinConstraint::On(condition));
                }
            }
            all.push(merged);
        }
        Ok(Some(all))
    }

    /// Of one part of a FROM: with the condition of each join that is to have another one.
    fn of_part(part: &TableWithJoins) -> Option<(Merged, Vec<Option<Expr>>)> {
        let first = name_of(&part.relation)?.clone();
        let mut merged = Merged { tables: vec![(first.clone(), Vec::new())], columns: Vec::new() };
        let mut conditions = Vec::new();
        for (at, join) in part.joins.iter().enumerate() {
            let name = name_of(&join.relation)?;
            let (mut own, mut condition) = (Vec::new(), None);
            match (side_of(&join.join_operator), constraint_of(&join.join_operator)) {
                (Some(side), Some(JoinConstraint::Using(columns))) => {
                    for column in columns {
                        let [part] = &column.0[..] else { return None };
                        let column = part.as_ident()?;
                        let equal = merged.join(column, &first, name, side, at == 0)?;
                        condition = Some(match condition {
                            Some(before) => binary(before, BinaryOperator::And, equal),
                            None => equal,
                        });
                        own.push(column.clone());
                    }
                    merged.put_first(&own);
                }
                (Some(_), Some(JoinConstraint::On(on))) => {
                    let mut on = on.clone();
                    put(&by_name(std::slice::from_ref(&merged)), &mut on);
                    condition = Some(on);
                }
                (None, None) if matches!(join.join_operator, JoinOperator::CrossJoin(_)) => {}
                _ => return None,
            }
            conditions.push(condition);
            merged.tables.push((name.clone(), own));
        }
        Some((merged, conditions))
    }

    /// The columns of a USING come before those that were merged earlier.
    fn put_first(&mut self, names: &[Ident]) {
        let place = |(column, _): &(Ident, Expr)| {
            names.iter().position(|name| folded(name) == folded(column)).unwrap_or(names.len())
        };
        self.columns.sort_by_key(place);
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

/// The merged columns by their names; those that two parts of a FROM have are ambiguous.
fn by_name(all: &[Merged]) -> BTreeMap<String, Expr> {
    let (mut found, mut twice) = (BTreeMap::new(), Vec::new());
    for (name, expr) in all.iter().flat_map(|merged| &merged.columns) {
        if found.insert(folded(name), expr.clone()).is_some() {
            twice.push(folded(name));
        }
    }
    twice.iter().for_each(|name| drop(found.remove(name)));
    found
}

/// Puts merged columns in the place of their names.
fn put(by_name: &BTreeMap<String, Expr>, expr: &mut Expr) {
    let act = |expr: &mut Expr| {
        if let Expr::Identifier(name) = expr
            && let Some(merged) = by_name.get(&folded(name))
        {
            *expr = merged.clone();
        }
    };
    let _: ControlFlow<()> = visit(expr, &mut Within { depth: 0, act });
}

/// Puts the merged columns in the place of their names, and of `*`.
fn put_in(all: &[Merged], select: &mut Select, order: Vec<&mut Expr>) {
    let by_name = by_name(all);
    let put = |expr: &mut Expr| put(&by_name, expr);
    for item in std::mem::take(&mut select.projection) {
        match item {
            SelectItem::Wildcard(options) if options == WildcardAdditionalOptions::default() => {
                select.projection.extend(all.iter().flat_map(Merged::all));
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
    let is_own = |expr: &&mut Expr| !matches!(&**expr, Expr::Identifier(name) if is_selected(name));
    order.into_iter().filter(is_own).for_each(put);
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
