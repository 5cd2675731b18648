//! The statement forms that the fast path handles, recognised in the parser's output.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Assignment, Distinct, Expr, FromTable, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, GroupByExpr, Ident, Insert, LimitClause, LockClause, ObjectName, OnConflict,
    OnInsert, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr,
    Statement as SqlStatement, TableFactor, TableObject, TableWithJoins, Value, VisitorMut,
};

use super::lex::Place;
use crate::walk;

/// A statement by its parts.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub table: ObjectName,
    /// The table's name in the statement.
    pub alias: Ident,
    pub selection: Option<Expr>,
    /// The select list, or that of RETURNING.
    pub items: Option<Vec<SelectItem>>,
    pub work: ShapeOf,
}

/// What is done.
#[derive(Clone, Debug)]
pub(crate) enum ShapeOf {
    Select {
        distinct: bool,
        order: Vec<OrderByExpr>,
        limit: Option<Box<Expr>>,
        offset: Option<Box<Expr>>,
        /// FOR UPDATE, FOR SHARE.
        lock: Option<LockClause>,
    },
    Insert {
        columns: Vec<ObjectName>,
        rows: Vec<Vec<Expr>>,
        on: Option<Box<OnConflict>>,
    },
    Update {
        assignments: Vec<Assignment>,
    },
    Delete,
}

impl Shape {
    /// The parts of a statement; `None`: it is of another form.
    pub fn of(statement: SqlStatement) -> Option<Shape> {
        match statement {
            SqlStatement::Query(query) => select(*query),
            SqlStatement::Insert(insert) => inserted(insert),
            SqlStatement::Update(update) => {
                let is_plain = update.from.is_none()
                    && update.output.is_none()
                    && update.or.is_none()
                    && update.order_by.is_empty()
                    && update.limit.is_none();
                let (table, alias) = one_table(update.table)?;
                is_plain.then_some(Shape {
                    table,
                    alias,
                    selection: update.selection,
                    items: update.returning,
                    work: ShapeOf::Update { assignments: update.assignments },
                })
            }
            SqlStatement::Delete(delete) => {
                let is_plain = delete.tables.is_empty()
                    && delete.using.is_none()
                    && delete.output.is_none()
                    && delete.order_by.is_empty()
                    && delete.limit.is_none();
                let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) =
                    delete.from;
                let [table] = <[TableWithJoins; 1]>::try_from(tables).ok()?;
                let (table, alias) = one_table(table)?;
                is_plain.then_some(Shape {
                    table,
                    alias,
                    selection: delete.selection,
                    items: delete.returning,
                    work: ShapeOf::Delete,
                })
            }
            _ => None,
        }
    }
}

/// The table of a FROM with a single one, and its name in the statement.
fn one_table(from: TableWithJoins) -> Option<(ObjectName, Ident)> {
    if !from.joins.is_empty() {
        return None;
    }
    let TableFactor::Table { name, alias, args, with_hints, version, sample, .. } = from.relation
    else {
        return None;
    };
    if args.is_some() || !with_hints.is_empty() || version.is_some() || sample.is_some() {
        return None;
    }
    let alias = match alias {
        Some(alias) if alias.columns.is_empty() => alias.name,
        Some(_) => return None,
        None => name.0.last()?.as_ident()?.clone(),
    };
    Some((name, alias))
}

fn is_plain_select(select: &Select) -> bool {
    let is_grouped = match &select.group_by {
        GroupByExpr::Expressions(groups, modifiers) => !groups.is_empty() || !modifiers.is_empty(),
        GroupByExpr::All(_) => true,
    };
    !is_grouped
        && select.top.is_none()
        && select.exclude.is_none()
        && select.into.is_none()
        && select.lateral_views.is_empty()
        && select.prewhere.is_none()
        && select.connect_by.is_empty()
        && select.cluster_by.is_empty()
        && select.distribute_by.is_empty()
        && select.sort_by.is_empty()
        && select.having.is_none()
        && select.named_window.is_empty()
        && select.qualify.is_none()
        && select.value_table_mode.is_none()
}

fn select(query: Query) -> Option<Shape> {
    let is_plain = query.with.is_none()
        && query.fetch.is_none()
        && query.locks.len() <= 1
        && query.for_clause.is_none()
        && query.settings.is_none()
        && query.format_clause.is_none()
        && query.pipe_operators.is_empty();
    let SetExpr::Select(select) = *query.body else { return None };
    if !is_plain || !is_plain_select(&select) {
        return None;
    }
    let order = match query.order_by {
        None => Vec::new(),
        Some(order) => match order.kind {
            OrderByKind::Expressions(order) => order,
            OrderByKind::All(_) => return None,
        },
    };
    let (limit, offset) = match query.limit_clause {
        None => (None, None),
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            (limit.map(Box::new), offset.map(|offset| Box::new(offset.value)))
        }
        Some(_) => return None,
    };
    let distinct = match select.distinct {
        None | Some(Distinct::All) => false,
        Some(Distinct::Distinct) => true,
        Some(Distinct::On(_)) => return None,
    };
    let [from] = <[TableWithJoins; 1]>::try_from(select.from).ok()?;
    let (table, alias) = one_table(from)?;
    let lock = query.locks.into_iter().next();
    // FOR UPDATE OF is left to the common path; DISTINCT and locks do not go together.
    if lock.as_ref().is_some_and(|lock| lock.of.is_some() || distinct) {
        return None;
    }
    Some(Shape {
        table,
        alias,
        selection: select.selection,
        items: Some(select.projection),
        work: ShapeOf::Select { distinct, order, limit, offset, lock },
    })
}

fn inserted(insert: Insert) -> Option<Shape> {
    let is_plain = insert.or.is_none()
        && !insert.ignore
        && !insert.overwrite
        && insert.assignments.is_empty()
        && insert.partitioned.is_none()
        && insert.output.is_none()
        && !insert.replace_into
        && insert.insert_alias.is_none()
        && insert.after_columns.is_empty();
    let TableObject::TableName(table) = insert.table else { return None };
    let alias = match insert.table_alias {
        Some(alias) => alias.alias,
        None => table.0.last()?.as_ident()?.clone(),
    };
    let on = match insert.on {
        None => None,
        Some(OnInsert::OnConflict(on)) => Some(Box::new(on)),
        Some(_) => return None,
    };
    let source = *insert.source?;
    if !is_plain
        || source.with.is_some()
        || source.order_by.is_some()
        || source.limit_clause.is_some()
        || source.fetch.is_some()
    {
        return None;
    }
    let SetExpr::Values(values) = *source.body else { return None };
    let rows = values.rows.into_iter().map(|row| row.content).collect();
    let work = ShapeOf::Insert { columns: insert.columns, rows, on };
    Some(Shape { table, alias, selection: None, items: insert.returning, work })
}

/// Replaces the placeholders of lifted constants by literals, of which only the types matter; whether there were no
/// other placeholders.
pub(crate) fn literals_for(statement: &mut SqlStatement) -> bool {
    struct Literals(bool);
    impl VisitorMut for Literals {
        type Break = ();
        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let Some(name) = placeholder(expr) else { return ControlFlow::Continue(()) };
            let value = match Place::of(name) {
                Some(Place::Integer(_)) => Value::Number("1".to_owned(), false),
                Some(Place::Long(_)) => Value::Number("2147483648".to_owned(), false),
                Some(Place::Decimal(_, digits, scale)) => {
                    let whole = usize::from(digits).saturating_sub(scale as usize);
                    let (whole, rest) = ("1".repeat(whole), "1".repeat(scale as usize));
                    Value::Number(format!("{whole}.{rest}"), false)
                }
                Some(Place::Text(_)) => Value::SingleQuotedString("x".to_owned()),
                _ => {
                    self.0 = false;
                    return ControlFlow::Continue(());
                }
            };
            *expr = Expr::Value(value.into());
            ControlFlow::Continue(())
        }
    }
    let mut literals = Literals(true);
    let _: ControlFlow<()> = walk::visit(statement, &mut literals);
    literals.0
}

/// The name of a placeholder.
pub(super) fn placeholder(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => Some(name),
            _ => None,
        },
        _ => None,
    }
}

/// An expression without parentheses around it.
pub(super) fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        Expr::Function(call) => read_as_uuid(call).unwrap_or(expr),
        other => other,
    }
}

/// The parameter of `$1::uuid`, which the parser writes as a call. Its value is in the stored form where it is
/// compared with a column of uuid.
fn read_as_uuid(call: &Function) -> Option<&Expr> {
    let FunctionArguments::List(list) = &call.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(own))] = &list.args[..] else { return None };
    let is_uuid = call.name.to_string() == "uuid_in";
    placeholder(own).filter(|_| is_uuid).map(|_| own)
}
