//! Names of result columns: an expression gets the name that PostgreSQL gives it, and a name may occur
//! more than once if the query says so.
//!
//! DataFusion names an expression by a text of its own and refuses duplicate names. So a repeated name
//! gets a number after a character that nobody types, until the rows are shown.

pub(crate) mod apart;
pub(crate) mod given;
pub(crate) mod grouped;
pub(crate) mod outer;
pub(crate) mod path;
pub(crate) mod resolve;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::error::Result as DataFusionResult;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, col};
use datafusion::sql::parser::{CopyToSource, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, Statement, TableFactor,
    VisitMut, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::Word;

use crate::error::Error;
use crate::walk::{self, visit};

/// The catalog as SQL names it.
pub(crate) const CATALOG: &str = "db";

/// Whether a new name has invisible characters.
pub(crate) fn has_controls(key: &str) -> bool {
    cellar_instance::catalog::name::parts(key).1.chars().any(char::is_control)
}

/// The character between a name and its number. Unicode gives it no meaning.
const MARK: char = '\u{f8ff}';

/// Names the columns of what a statement returns or writes, and of the queries in its FROM.
pub(crate) fn settle_parsed(statement: &mut DfStatement) {
    match statement {
        DfStatement::Statement(statement) => {
            settle(statement);
            settle_inner(statement.as_mut());
        }
        DfStatement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                settle_query(query);
                settle_inner(query.as_mut());
            }
        }
        DfStatement::Explain(explain) => settle_parsed(&mut explain.statement),
        DfStatement::CreateExternalTable(_) | DfStatement::Reset(_) => {}
    }
}

fn settle(statement: &mut Statement) {
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
        Statement::CreateView(view) => settle_query(&mut view.query),
        Statement::Explain { statement, .. } => settle(statement),
        _ => {}
    }
}

/// Names the columns of what a query returns.
pub(crate) fn settle_query(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return settle_body(&mut query.body);
    };
    let spoken = Spoken::of(select, query.order_by.as_ref());
    let named = settle_select(select, &spoken);
    sort_by_names(query, &named);
}

/// Makes a query sort by its result columns: after DISTINCT only those are possible.
fn sort_by_names(query: &mut Query, named: &[(Expr, Ident)]) {
    let Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) = &mut query.order_by else {
        return;
    };
    for by in order {
        if let Some((_, alias)) = named.iter().find(|(expr, _)| *expr == by.expr) {
            by.expr = Expr::Identifier(alias.clone());
        }
    }
}

fn settle_body(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            let spoken = Spoken::of(select, None);
            settle_select(select, &spoken);
        }
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

/// Names the columns of a SELECT. Returns the expressions that got a name.
fn settle_select(select: &mut Select, spoken: &Spoken) -> Vec<(Expr, Ident)> {
    let mut named = Vec::new();
    let mut taken = BTreeSet::new();
    let has_wildcard = select.projection.iter().any(is_wildcard);
    for (at, item) in select.projection.iter_mut().enumerate() {
        let (name, is_column, may_repeat) = match &*item {
            SelectItem::UnnamedExpr(expr) => match column_name(expr) {
                Some(name) => (name, !matches!(expr, Expr::Cast { .. }), has_wildcard),
                None => {
                    let name = given::name(expr);
                    let is_spoken = spoken.0.contains(&name);
                    (name, false, has_wildcard || is_spoken)
                }
            },
            SelectItem::ExprWithAlias { alias, .. } => (folded(alias), true, has_wildcard),
            _ => continue,
        };
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

fn is_wildcard(item: &SelectItem) -> bool {
    !matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
}

/// Names the expressions among the columns of the queries in FROM and WITH: outer queries may refer to
/// them.
fn settle_inner<T: VisitMut>(ast: &mut T) {
    struct Inner;
    impl VisitorMut for Inner {
        type Break = ();

        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            if let Some(with) = &mut query.with {
                with.cte_tables.iter_mut().for_each(|cte| name_expressions(&mut cte.query));
            }
            ControlFlow::Continue(())
        }

        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            if let TableFactor::Derived { subquery, .. } = factor {
                name_expressions(subquery);
            }
            ControlFlow::Continue(())
        }
    }
    let _: ControlFlow<()> = visit(ast, &mut Inner);
}

fn name_expressions(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return expressions_of(&mut query.body);
    };
    let spoken = Spoken::of(select, query.order_by.as_ref());
    let named = name_in_select(select, &spoken);
    sort_by_names(query, &named);
}

fn expressions_of(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            let spoken = Spoken::of(select, None);
            name_in_select(select, &spoken);
        }
        SetExpr::Query(query) => name_expressions(query),
        SetExpr::SetOperation { left, right, .. } => {
            expressions_of(left);
            expressions_of(right);
        }
        _ => {}
    }
}

/// Names the expressions of a SELECT that have no name yet. Returns them, with their names.
fn name_in_select(select: &mut Select, spoken: &Spoken) -> Vec<(Expr, Ident)> {
    let mut taken: BTreeSet<String> = select.projection.iter().filter_map(column_of).collect();
    let mut named = Vec::new();
    for (at, item) in select.projection.iter_mut().enumerate() {
        let SelectItem::UnnamedExpr(expr) = &*item else { continue };
        if column_name(expr).is_some() {
            continue;
        }
        let name = given::name(expr);
        let is_free = taken.insert(name.clone()) && !spoken.0.contains(&name);
        let name = if is_free { name } else { format!("{name}{MARK}{at}") };
        let (expr, alias) = (expr.clone(), Ident::with_quote('"', name));
        named.push((expr.clone(), alias.clone()));
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
    named
}

/// Columns that HAVING and the like refer to, where DataFusion would resolve the name to an expression
/// with that alias.
struct Spoken(BTreeSet<String>);

impl Spoken {
    fn of(select: &Select, order: Option<&OrderBy>) -> Spoken {
        struct Columns(BTreeSet<String>);
        impl Visitor for Columns {
            type Break = ();
            fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
                if let Expr::Identifier(own) = expr {
                    self.0.insert(folded(own));
                }
                ControlFlow::Continue(())
            }
        }
        let mut columns = Columns(BTreeSet::new());
        let mut look = |expr: &Expr| {
            let _: ControlFlow<()> = walk::look(expr, &mut columns);
        };
        select.having.iter().chain(&select.qualify).for_each(&mut look);
        if let Some(OrderBy { kind: OrderByKind::Expressions(order), .. }) = order {
            // A bare name is that of a result column.
            let within = order.iter().map(|by| &by.expr);
            within.filter(|expr| !matches!(expr, Expr::Identifier(_))).for_each(&mut look);
        }
        Spoken(columns.0)
    }
}

/// The column name that an item consists of.
fn column_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expr) => column_name(expr),
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        _ => None,
    }
}

/// The column name of an expression, ignoring casts.
fn column_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(ident) => Some(folded(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().map(folded),
        Expr::Cast { expr, .. } | Expr::Nested(expr) => column_name(expr),
        _ => None,
    }
}

/// A name as it is looked up: in lower case unless it is quoted.
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

/// A name in the form shown to users.
pub(crate) fn shown(name: &str) -> &str {
    name.split(MARK).next().unwrap_or(name)
}

/// The schema of rows shown to users; `None`: unchanged.
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

/// Refuses duplicate names, of which only one column could be queried.
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

/// A query whose columns have the names shown to users, without duplicates.
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
