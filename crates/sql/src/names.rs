//! Names of the columns that a query returns: of an expression its text, as it was typed, and the same
//! name more than once where the query says so.
//!
//! DataFusion calls an expression by a text of its own and refuses a name that is there already. So a
//! repeated name gets a number behind a character that nobody types, until the rows are shown.

pub(crate) mod apart;
pub(crate) mod outer;
pub(crate) mod path;
pub(crate) mod resolve;

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, col};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, Statement,
};
use datafusion::sql::sqlparser::tokenizer::Word;

use crate::error::Error;

/// The catalog as SQL names it.
pub(crate) const CATALOG: &str = "db";

/// Whether a name that is to be given to something has characters that nobody sees.
pub(crate) fn has_controls(key: &str) -> bool {
    cellar_instance::catalog::name::parts(key).1.chars().any(char::is_control)
}

/// What is between a name and its number. Unicode gives it no meaning.
const MARK: char = '\u{f8ff}';

/// Names the columns of what a statement returns or writes.
pub(crate) fn settle(statement: &mut Statement) {
    match statement {
        Statement::Query(query) => settle_query(query),
        Statement::Insert(insert) => {
            if let Some(query) = &mut insert.source {
                settle_query(query);
            }
        }
        Statement::CreateTable(table) => {
            if let Some(query) = &mut table.query {
                settle_query(query);
            }
        }
        Statement::Explain { statement, .. } => settle(statement),
        _ => {}
    }
}

/// Names the columns of what a query returns.
pub(crate) fn settle_query(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return settle_body(&mut query.body);
    };
    let named = settle_select(select);
    let Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) = &mut query.order_by else {
        return;
    };
    // Behind DISTINCT only columns of the result can be sorted by.
    for by in order {
        if let Some((_, alias)) = named.iter().find(|(expr, _)| *expr == by.expr) {
            by.expr = Expr::Identifier(alias.clone());
        }
    }
}

fn settle_body(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => drop(settle_select(select)),
        SetExpr::Query(query) => settle_query(query),
        SetExpr::SetOperation { left, right, .. } => {
            settle_body(left);
            settle_body(right);
        }
        SetExpr::Insert(statement) | SetExpr::Update(statement) | SetExpr::Delete(statement) => {
            settle(statement);
        }
        _ => {}
    }
}

/// Names the columns of a SELECT. What comes back: the expressions that got a name.
fn settle_select(select: &mut Select) -> Vec<(Expr, Ident)> {
    let mut named = Vec::new();
    let mut taken = BTreeSet::new();
    let is_wildcard = |item: &SelectItem| {
        !matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
    };
    let has_wildcard = select.projection.iter().any(is_wildcard);
    for (at, item) in select.projection.iter_mut().enumerate() {
        let (name, is_column) = match &*item {
            SelectItem::UnnamedExpr(expr) => match column_name(expr) {
                Some(name) => (name, !matches!(expr, Expr::Cast { .. })),
                None => (expr.to_string(), false),
            },
            SelectItem::ExprWithAlias { alias, .. } => (folded(alias), true),
            _ => continue,
        };
        let may_repeat = has_wildcard && column_of(item).is_some();
        let is_free = taken.insert(name.clone()) && !may_repeat;
        if is_free && is_column {
            continue;
        }
        let name = if is_free { name } else { format!("{name}{MARK}{at}") };
        let alias = Ident::with_quote('"', name);
        let placeholder = SelectItem::UnnamedExpr(Expr::Identifier(Ident::new("")));
        *item = match std::mem::replace(item, placeholder) {
            SelectItem::UnnamedExpr(expr) if column_name(&expr).is_none() => {
                named.push((expr.clone(), alias.clone()));
                SelectItem::ExprWithAlias { expr, alias }
            }
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                SelectItem::ExprWithAlias { expr, alias }
            }
            other => other,
        };
    }
    named
}

/// The name of the column that an item is.
fn column_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expr) => column_name(expr),
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        _ => None,
    }
}

/// The name that a column, whatever it is cast to, has by itself.
fn column_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(ident) => Some(folded(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().map(folded),
        Expr::Cast { expr, .. } | Expr::Nested(expr) => column_name(expr),
        _ => None,
    }
}

/// A name as it is looked up: in small letters unless it is quoted.
pub(crate) fn folded(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// The name that a word of a statement stands for.
pub(crate) fn folded_token(word: &Word) -> String {
    match word.quote_style {
        Some(_) => word.value.clone(),
        None => word.value.to_lowercase(),
    }
}

/// A name as it is shown.
pub(crate) fn shown(name: &str) -> &str {
    name.split(MARK).next().unwrap_or(name)
}

/// The schema of rows that are shown; `None`: as it is.
pub(crate) fn shown_schema(schema: &SchemaRef) -> Option<SchemaRef> {
    if !schema.fields().iter().any(|field| field.name().contains(MARK)) {
        return None;
    }
    let fields = schema.fields().iter().map(|field| {
        let name = shown(field.name()).to_owned();
        field.as_ref().clone().with_name(name)
    });
    Some(Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone())))
}

/// Refuses names that are there twice, where only one column could be asked for.
///
/// # Errors
/// 00957.
pub(crate) fn check_unique(schema: &Schema) -> Result<(), Error> {
    let mut taken = BTreeSet::new();
    match schema.fields().iter().find(|field| !taken.insert(shown(field.name()))) {
        None => Ok(()),
        Some(field) => {
            let name = shown(field.name());
            Err(Error::new(957, "42701", format!("two columns have the name \"{name}\""))
                .next(format!("give one of them another: select ... as {name}_2")))
        }
    }
}

/// A query whose columns have the names that are shown, which are no two the same.
pub(crate) fn unmarked(plan: Arc<LogicalPlan>) -> DataFusionResult<Arc<LogicalPlan>> {
    let schema = plan.schema();
    if !schema.fields().iter().any(|field| field.name().contains(MARK)) {
        return Ok(plan);
    }
    let columns = schema.columns().into_iter().map(|column| {
        let name = column.name.clone();
        match name.contains(MARK) {
            true => col(column).alias(shown(&name)),
            false => col(column),
        }
    });
    let columns: Vec<_> = columns.collect();
    Ok(Arc::new(LogicalPlanBuilder::from(plan).project(columns)?.build()?))
}
