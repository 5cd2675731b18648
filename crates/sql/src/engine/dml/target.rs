//! The table that a statement changes, and queries over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, FromTable, GroupByExpr, Ident, ObjectName, Query, Select, SelectFlavor,
    SelectItem, SetExpr, Statement as SqlStatement, TableAlias, TableFactor, TableWithJoins,
    WildcardAdditionalOptions, helpers::attached_token::AttachedToken,
};

use crate::engine::{Engine, is_public};
use crate::error::Error;
use crate::failure::from_datafusion;
use crate::rows::{ROW_ID, RowColumns, default_expr, with_row_ids};

/// A temporary result table of a statement, registered under its name until this is dropped.
pub(super) struct ResultTable<'a> {
    engine: &'a Engine,
    name: String,
}

impl Drop for ResultTable<'_> {
    fn drop(&mut self) {
        // A missing table is no error.
        let _ = self.engine.context().deregister_table(TableReference::bare(self.name.as_str()));
    }
}

impl Engine {
    /// An unused number for such a table.
    pub(super) fn next_made(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        NEXT.fetch_add(1, Ordering::Relaxed)
    }

    /// Registers a table for queries under this name.
    pub(super) fn make(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<ResultTable<'_>, Error> {
        let registered = self.context().register_table(TableReference::bare(name.as_str()), table);
        registered.map_err(|error| from_datafusion(&error))?;
        Ok(ResultTable { engine: self, name })
    }

    /// The table that is changed.
    pub(super) fn target(&self, table: &TableWithJoins) -> Result<RowColumns, Error> {
        let TableFactor::Table { name, .. } = &table.relation else {
            return Err(Error::not_yet("a change of anything but a table"));
        };
        let reference = TableReference::parse_str(&name.to_string());
        self.check_own(&reference)?;
        match self.row_table(&reference)? {
            Some(columns) => Ok(columns),
            None => {
                self.refuse_view(&reference, "UPDATE and DELETE of")?;
                Err(self.unchangeable(&reference))
            }
        }
    }

    /// Why a statement cannot change rows: it names no table whose rows can be changed.
    pub(in crate::engine) fn no_change(&self, statement: &SqlStatement) -> Error {
        let target = match statement {
            SqlStatement::Update(update) => Some(&update.table),
            SqlStatement::Delete(delete) => {
                let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) =
                    &delete.from;
                tables.first()
            }
            _ => None,
        };
        match (self.host.rows(), target) {
            (Some(_), Some(target)) => match self.target(target) {
                Err(error) => error,
                Ok(_) => Error::new(70162, "55000", "the heap is not open"),
            },
            _ => crate::allowed::refused(statement),
        }
    }

    /// Why the rows of a table cannot be changed.
    fn unchangeable(&self, reference: &TableReference) -> Error {
        let name = reference.table();
        if !is_public(reference) || !self.has_table(name) {
            let text = format!("table \"{name}\" does not exist");
            return Error::new(942, "42P01", text).of_name([name]);
        }
        if self.is_columnar(name) {
            return Error::not_yet(format!("UPDATE and DELETE of the columnar table \"{name}\""))
                .next("keep rows that change in a table made with USING heap");
        }
        Error::not_yet(format!("UPDATE and DELETE of the external table \"{name}\""))
            .next("its rows are files of yours: create a table USING heap, and INSERT them there")
    }
}

/// The place of a column that a statement names.
pub(super) fn column(columns: &RowColumns, name: &ObjectName) -> Result<usize, Error> {
    let ident = name.0.last().and_then(|part| part.as_ident());
    let wanted = ident.map(crate::names::folded);
    let found = wanted
        .as_ref()
        .and_then(|wanted| columns.schema.fields().iter().position(|field| field.name() == wanted));
    found.ok_or_else(|| {
        let names: Vec<&str> =
            columns.schema.fields().iter().map(|field| field.name().as_str()).collect();
        let text = format!("table \"{}\" has no column {name}", columns.name);
        Error::new(904, "42703", text)
            .of_name(wanted.as_deref())
            .next(format!("its columns are {}", names.join(", ")))
    })
}

/// Whether an expression is the word DEFAULT.
pub(super) fn is_default(value: &SqlExpr) -> bool {
    matches!(value, SqlExpr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// The value of an assignment; DEFAULT is that of the column.
pub(super) fn value_of(columns: &RowColumns, at: usize, value: &SqlExpr) -> Result<SqlExpr, Error> {
    if !is_default(value) {
        return Ok(value.clone());
    }
    default_expr(columns, at)
}

/// The name in a statement of the table that it changes.
pub(super) fn alias_of(table: &TableWithJoins) -> Result<Ident, Error> {
    match &table.relation {
        TableFactor::Table { alias: Some(alias), .. } => Ok(alias.name.clone()),
        TableFactor::Table { name, .. } => name
            .0
            .last()
            .and_then(|part| part.as_ident())
            .cloned()
            .ok_or_else(|| Error::syntax("a table has no name")),
        _ => Err(Error::not_yet("a change of anything but a table")),
    }
}

/// The table with the numbers of its rows, under the name that it has in the statement.
pub(super) fn numbered(table: &TableWithJoins) -> Result<TableWithJoins, Error> {
    if !table.joins.is_empty() {
        return Err(Error::not_yet("a change of a join").next("use FROM, or USING"));
    }
    let known_as = alias_of(table)?;
    let mut numbered = table.clone();
    number(&mut numbered.relation, known_as);
    Ok(numbered)
}

/// Replaces a table by the one with row numbers, under the same name.
pub(super) fn number(table: &mut TableFactor, known_as: Ident) {
    if let TableFactor::Table { name, alias, .. } = table {
        let own = TableReference::parse_str(&name.to_string());
        *name = ObjectName::from(vec![Ident::with_quote('"', with_row_ids(own.table()))]);
        if alias.is_none() {
            *alias = Some(alias_named(known_as));
        }
    }
}

/// A table of the statement, by a name of its own.
pub(in crate::engine) fn table_named(name: &str, known_as: Ident) -> TableFactor {
    TableFactor::Table {
        name: ObjectName::from(vec![Ident::with_quote('"', name)]),
        alias: Some(alias_named(known_as)),
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

fn alias_named(name: Ident) -> TableAlias {
    TableAlias { explicit: true, name, columns: Vec::new(), at: None }
}

/// The number of a row.
pub(super) fn number_of(alias: &Ident) -> SqlExpr {
    SqlExpr::CompoundIdentifier(vec![alias.clone(), Ident::with_quote('"', ROW_ID)])
}

/// SELECT * of a table.
pub(super) fn all_of(name: &str) -> Query {
    let known_as = Ident::with_quote('"', name);
    let from = TableWithJoins { relation: table_named(name, known_as), joins: Vec::new() };
    let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
    query_of(vec![all], vec![from], None)
}

/// A query of these columns of a table.
pub(in crate::engine) fn query_over(items: Vec<SelectItem>, from: TableWithJoins) -> SqlStatement {
    SqlStatement::Query(Box::new(query_of(items, vec![from], None)))
}

/// A plain query.
pub(super) fn query_of(
    projection: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    selection: Option<SqlExpr>,
) -> Query {
    let select = Select {
        select_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection,
        exclude: None,
        into: None,
        from,
        lateral_views: Vec::new(),
        prewhere: None,
        selection,
        connect_by: Vec::new(),
        group_by: GroupByExpr::Expressions(Vec::new(), Vec::new()),
        cluster_by: Vec::new(),
        distribute_by: Vec::new(),
        sort_by: Vec::new(),
        having: None,
        named_window: Vec::new(),
        window_before_qualify: false,
        qualify: None,
        value_table_mode: None,
        flavor: SelectFlavor::Standard,
    };
    Query {
        with: None,
        body: Box::new(SetExpr::Select(Box::new(select))),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}
