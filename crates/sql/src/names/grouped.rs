//! Columns that are functionally dependent on a primary key: a query that groups by the key may show
//! them, because they are added to GROUP BY. They are added to the statement, not declared to
//! DataFusion, whose rules would trust in the key above UNNEST and in ROLLUP too.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, ObjectName, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableFactor, Value, VisitMut, VisitorMut,
};

use super::folded;
use crate::walk::{each_expr, visit};

/// A table that has a primary key.
#[derive(Clone, Debug)]
pub(crate) struct Keyed {
    /// Its columns.
    pub columns: Vec<String>,
    /// Those of its primary key.
    pub key: Vec<String>,
}

/// Adds the columns that each SELECT shows and that depend on the primary keys it groups by. `keyed`:
/// looks up the table that a name stands for, if it has a primary key.
pub(crate) fn group_by_keys<T: VisitMut>(
    ast: &mut T,
    keyed: &dyn Fn(&ObjectName) -> Option<Keyed>,
) {
    let _: ControlFlow<()> = visit(ast, &mut Queries(keyed));
}

struct Queries<'a>(&'a dyn Fn(&ObjectName) -> Option<Keyed>);

impl VisitorMut for Queries<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let order = match query.order_by.as_ref().map(|order| &order.kind) {
            Some(OrderByKind::Expressions(order)) => {
                order.iter().map(|by| by.expr.clone()).collect()
            }
            _ => Vec::new(),
        };
        self.in_selects(&mut query.body, &order);
        ControlFlow::Continue(())
    }
}

/// A table that a SELECT reads.
struct Relation {
    alias: String,
    of: Keyed,
}

/// The column that an expression names: its qualifier, if any, and its name.
fn column_of(expr: &Expr) -> Option<(Option<String>, String)> {
    match expr {
        Expr::Identifier(own) => Some((None, folded(own))),
        Expr::CompoundIdentifier(parts) => {
            let (column, before) = parts.split_last()?;
            Some((before.last().map(folded), folded(column)))
        }
        Expr::Nested(inner) => column_of(inner),
        _ => None,
    }
}

/// The relation that has the column of an expression, and the column's name; `None`: none, or several.
fn owner(relations: &[Relation], expr: &Expr) -> Option<(usize, String)> {
    let (table, column) = column_of(expr)?;
    let has = |relation: &Relation| {
        table.as_ref().is_none_or(|table| relation.alias == *table)
            && relation.of.columns.contains(&column)
    };
    let mut found = relations.iter().enumerate().filter(|(_, relation)| has(relation));
    let (at, _) = found.next()?;
    found.next().is_none().then_some((at, column))
}

/// What a member of GROUP BY stands for: itself, or the item at its position or with its alias.
fn meant<'a>(select: &'a Select, expr: &'a Expr) -> &'a Expr {
    let item = match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => {
                let place = number.parse::<usize>().unwrap_or(0);
                place.checked_sub(1).and_then(|at| select.projection.get(at))
            }
            _ => None,
        },
        Expr::Identifier(name) => select.projection.iter().find(|item| {
            matches!(item, SelectItem::ExprWithAlias { alias, .. } if folded(alias) == folded(name))
        }),
        _ => None,
    };
    match item {
        Some(SelectItem::UnnamedExpr(own) | SelectItem::ExprWithAlias { expr: own, .. }) => own,
        _ => expr,
    }
}

impl Queries<'_> {
    fn in_selects(&self, body: &mut SetExpr, order: &[Expr]) {
        match body {
            SetExpr::Select(select) => self.in_select(select, order),
            SetExpr::SetOperation { left, right, .. } => {
                self.in_selects(left, &[]);
                self.in_selects(right, &[]);
            }
            _ => {}
        }
    }

    fn in_select(&self, select: &mut Select, order: &[Expr]) {
        let GroupByExpr::Expressions(groups, modifiers) = &select.group_by else { return };
        let is_set =
            |expr: &Expr| matches!(expr, Expr::GroupingSets(_) | Expr::Rollup(_) | Expr::Cube(_));
        if groups.is_empty() || !modifiers.is_empty() || groups.iter().any(is_set) {
            return;
        }
        let relations = self.relations(select);
        // A name is first looked up as a column, then as an alias.
        let of_group = |expr: &Expr| {
            owner(&relations, expr).or_else(|| owner(&relations, meant(select, expr)))
        };
        let grouped: Vec<(usize, String)> = groups.iter().filter_map(of_group).collect();
        let is_decided = |at: usize| {
            let mut key = relations[at].of.key.iter();
            key.all(|column| grouped.iter().any(|(own, name)| *own == at && name == column))
        };
        let decided: Vec<bool> = (0..relations.len()).map(is_decided).collect();
        if !decided.contains(&true) {
            return;
        }
        let mut shown = shown(select, &relations, order);
        shown.retain(|own| decided[own.0] && !grouped.contains(own));
        let more: Vec<Expr> = shown
            .into_iter()
            .map(|(at, column)| {
                let parts = [relations[at].alias.as_str(), column.as_str()];
                Expr::CompoundIdentifier(parts.map(|part| Ident::with_quote('"', part)).into())
            })
            .collect();
        if let GroupByExpr::Expressions(groups, _) = &mut select.group_by {
            groups.extend(more);
        }
    }

    /// The tables that a SELECT reads and that have a primary key.
    fn relations(&self, select: &Select) -> Vec<Relation> {
        let tables = select.from.iter().flat_map(|from| {
            std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
        });
        let relation = |table: &TableFactor| {
            let TableFactor::Table { name, alias, args: None, .. } = table else { return None };
            let of = (self.0)(name)?;
            let alias = match alias {
                // Its columns may have other names.
                Some(alias) if !alias.columns.is_empty() => return None,
                Some(alias) => folded(&alias.name),
                None => folded(name.0.last()?.as_ident()?),
            };
            Some(Relation { alias, of })
        };
        tables.filter_map(relation).collect()
    }
}

/// The columns in the select list, the conditions and the ORDER BY of a SELECT, each once.
fn shown(select: &Select, relations: &[Relation], order: &[Expr]) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut add = |own: (usize, String)| {
        if !found.contains(&own) {
            found.push(own);
        }
    };
    for item in &select.projection {
        let table = match item {
            SelectItem::Wildcard(_) => None,
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                name.0.last().and_then(|part| part.as_ident()).map(folded)
            }
            _ => continue,
        };
        for (at, relation) in relations.iter().enumerate() {
            if table.as_ref().is_none_or(|table| relation.alias == *table) {
                relation.of.columns.iter().for_each(|column| add((at, column.clone())));
            }
        }
    }
    let mut column = |expr: &Expr| {
        if let Some(own) = owner(relations, expr) {
            add(own);
        }
    };
    each_expr(&select.projection, &mut column);
    if let Some(having) = &select.having {
        each_expr(having, &mut column);
    }
    order.iter().for_each(|expr| each_expr(expr, &mut column));
    found
}
