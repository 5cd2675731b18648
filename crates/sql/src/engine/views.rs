//! CREATE and DROP VIEW. A view is its query as written, with the names and types of its columns at
//! creation, and the list of what it reads, so that nothing it depends on is dropped.

use std::collections::{BTreeMap, BTreeSet};

use arrow::datatypes::{Field, Schema, SchemaRef};
use async_recursion::async_recursion as boxed;
use cellar_instance::catalog::{Catalog, Table, TableKind, View, name as key_names};
use datafusion::common::TableReference;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::ViewTable;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{CreateView, Statement as SqlStatement};

use crate::apply::{self, Apply};
use crate::columnar::table::{schema_of_text, schema_text, with_enum_of};
use crate::engine::ddl::check_schema;
use crate::engine::permitted::{
    as_view, opening_view, without_rights_check, without_rights_check_while,
};
use crate::engine::{Engine, Outcome, done, is_public};
use crate::error::Error;
use crate::failure::from_datafusion;
use crate::names;
use crate::parse::parse;
use crate::parse::view::query_of_view;
use crate::rows::{name_of, without_row_ids};
use crate::statement::Statement;

/// Parses the text of a query.
fn parsed(query: &str) -> Result<DfStatement, Error> {
    match parse(query)? {
        Statement::Query(statement) if is_query(&statement) => Ok(*statement),
        _ => Err(Error::syntax("a view is of a query")),
    }
}

fn is_query(statement: &DfStatement) -> bool {
    matches!(statement, DfStatement::Statement(inner) if matches!(**inner, SqlStatement::Query(_)))
}

/// The plan of a view's query.
async fn plan_of(state: &SessionState, query: &str) -> Result<LogicalPlan, Error> {
    let statement = parsed(query)?;
    state.statement_to_plan(statement).await.map_err(|e| from_datafusion(&e))
}

/// A view as queries see it.
///
/// # Errors
/// What it reads is not there, or is something else now.
pub(super) async fn open_view(
    state: &SessionState,
    (table, view): (&Table, &View),
    owner_is_superuser: bool,
) -> Result<ViewTable, Error> {
    let plan = opening_view(owner_is_superuser, plan_of(state, &view.query)).await?;
    let schema = schema_of_text(&table.schema)?;
    let plan = with_columns(plan, &view.columns, &schema).map_err(|e| from_datafusion(&e))?;
    let plan = plan.ok_or_else(|| {
        let text = format!("view \"{}\" reads other columns than when it was made", table.name);
        Error::new(4063, "42703", text).next("drop it, and make it anew")
    })?;
    let plan = as_view(plan, &table.name).map_err(|e| from_datafusion(&e))?;
    // A key is always quoted there.
    let shown = view.query.replace(key_names::SEPARATOR, "\".\"");
    Ok(ViewTable::new(plan, Some(shown)))
}

/// The columns that a query had when the view was created, with the view's names and types; `None`: one of them
/// no longer exists.
fn with_columns(
    plan: LogicalPlan,
    columns: &[String],
    schema: &SchemaRef,
) -> Result<Option<LogicalPlan>, DataFusionError> {
    let found = plan.schema().columns();
    let mut made: Vec<Expr> = Vec::new();
    for (at, (name, field)) in columns.iter().zip(schema.fields()).enumerate() {
        // `*` may stand for more columns by now: then they are found by name.
        let own = match found.get(at).filter(|own| own.name == *name) {
            Some(own) => Some(own),
            None => found.iter().find(|own| own.name == *name),
        };
        let own = own.or_else(|| found.get(at).filter(|_| is_text(name)));
        let Some(own) = own else { return Ok(None) };
        let value = Expr::Column(own.clone());
        // A cast would turn a value with a type of its own into text.
        let at = plan.schema().index_of_column(own)?;
        let is_same = plan.schema().field(at).data_type() == field.data_type();
        let value = if is_same { value } else { cast(value, field.data_type().clone()) };
        made.push(value.alias(field.name()));
    }
    LogicalPlanBuilder::from(plan).project(made)?.build().map(Some)
}

/// The tables that a plan scans, and the columns of each that it needs.
fn scanned(
    state: &SessionState,
    plan: &LogicalPlan,
) -> Result<BTreeMap<String, BTreeSet<String>>, DataFusionError> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    plan.apply_with_subqueries(|plan| {
        if let LogicalPlan::TableScan(scan) = plan
            && is_public(&scan.table_name)
        {
            let name = scan.table_name.table();
            let own = found.entry(without_row_ids(name).unwrap_or(name).to_owned()).or_default();
            own.extend(scan.projected_schema.fields().iter().map(|field| field.name().clone()));
            let filters = scan.filters.iter().flat_map(Expr::column_refs);
            own.extend(filters.map(|column| column.name.clone()));
        }
        if let Some(own) = Apply::of(plan) {
            let subquery = without_rights_check(|| state.optimize(&own.subquery))?;
            for (table, columns) in scanned(state, &subquery)? {
                found.entry(table).or_default().extend(columns);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// Whether a column is named by the text of its expression, as in earlier versions.
fn is_text(name: &str) -> bool {
    !names::shown(name).chars().all(|c| c.is_alphanumeric() || c == '_')
}

impl Engine {
    /// Whether a view is stored in the catalog; otherwise it lasts as long as the session.
    fn keeps_views(&self, create: &CreateView) -> bool {
        !create.temporary && self.host.rows().is_some()
    }

    /// CREATE VIEW.
    #[boxed]
    pub(super) async fn create_view(
        &self,
        sql: &str,
        create: &CreateView,
    ) -> Result<Outcome, Error> {
        self.check_view_name(&create.name.to_string())?;
        let reads = query_of_view(sql).and_then(|query| self.resolved_query(query))?;
        let is_over_own = reads.contains(self.paths.temporary());
        if is_over_own || !self.keeps_views(create) {
            let mut create = create.clone();
            create.temporary = false;
            self.resolve_own_view(&mut create)?;
            let plain = SqlStatement::CreateView(create);
            self.plan_and_run(DfStatement::Statement(Box::new(plain))).await?;
            return Ok(Outcome::Done {
                message: "View created.".into(),
                notices: vec!["the view lasts as long as this session".into()],
            });
        }
        if create.materialized {
            return Err(Error::not_yet("MATERIALIZED VIEW").next("create table .. as select .."));
        }
        let reference = TableReference::parse_str(&create.name.to_string());
        let (name, catalog) = (super::sequences::bare(&reference)?, self.catalog()?);
        if names::has_controls(&name) {
            let text = "the name of a view has no control characters";
            return Err(Error::new(911, "42602", text).next("choose another name"));
        }
        let old = catalog.view(&name);
        if old.is_some() && create.if_not_exists {
            return Ok(done(format!("View {name} already exists.")));
        }
        if old.is_none() || !create.or_replace {
            self.check_free(&catalog, &name)?;
        }
        let query = &*self.resolved_query(query_of_view(sql)?)?;
        let (schema, view) = self.view_of(&catalog, &name, create, query).await?;
        if let Some((old, _)) = old {
            check_replaced(&*schema_of_text(&old.schema)?, &schema)?;
        }
        self.put_view(Table::of_view(&name, schema_text(&schema), view)).await?;
        Ok(done(format!("View {name} created.")))
    }

    /// What a view is to be: its columns, and what it reads.
    async fn view_of(
        &self,
        catalog: &Catalog,
        name: &str,
        create: &CreateView,
        query: &str,
    ) -> Result<(Schema, View), Error> {
        let (state, statement) = (self.state(), parsed(query)?);
        let plan = match plan_of(&state, query).await {
            Ok(plan) => plan,
            Err(error) => return Err(self.missing_table(&statement).unwrap_or(error)),
        };
        // With the types that its columns have when it runs.
        let settled = without_rights_check(|| self.settled(&plan))?;
        let columns: Vec<String> =
            settled.schema().fields().iter().map(|field| field.name().clone()).collect();
        if create.columns.len() > columns.len() {
            let text = "CREATE VIEW has more names than its query has columns";
            return Err(Error::new(1730, "42601", text).next(format!("it has {}", columns.len())));
        }
        let named = settled.schema().fields().iter().enumerate().map(|(at, field)| {
            let name = create.columns.get(at).map(|column| name_of(&column.name));
            let name = name.unwrap_or_else(|| names::shown(field.name()).to_owned());
            with_enum_of(Field::new(name, field.data_type().clone(), true), field)
        });
        let schema = Schema::new(named.collect::<Vec<_>>());
        names::check_unique(&schema)?;
        schema_of_text(&schema_text(&schema)).map_err(|cause| {
            Error::not_yet("a view with a column of such a type").caused_by(cause)
        })?;
        let optimized = without_rights_check_while(apply::optimized(&state, &settled)).await;
        let optimized = optimized.map_err(|e| self.failure(&e))?;
        let mut uses = scanned(&state, &optimized).map_err(|e| self.failure(&e))?;
        let named = state.resolve_table_references(&statement).map_err(|e| self.failure(&e))?;
        for reference in named.iter().filter(|reference| is_public(reference)) {
            uses.entry(reference.table().to_owned()).or_default();
            if let Some((_, other)) = catalog.view(reference.table()) {
                for (table, columns) in &other.uses {
                    uses.entry(table.clone()).or_default().extend(columns.iter().cloned());
                }
            }
        }
        // Files by their paths, and views of ours, are no part of the catalog.
        uses.retain(|own, _| catalog.table(own).is_some());
        if uses.contains_key(name) {
            let text = format!("view \"{name}\" would read itself");
            return Err(Error::new(1731, "42P17", text).next("choose another name"));
        }
        Ok((schema, View { query: query.to_owned(), columns, uses }))
    }

    /// Puts a view into the catalog.
    async fn put_view(&self, view: Table) -> Result<(), Error> {
        let rows = self.row_tables()?;
        if !rows.are_open() {
            return Ok(rows.database().catalog().put_view(view).await?);
        }
        let scope = self.definer()?;
        let mut open = scope.open().await?;
        Ok(scope.definitions.create_view(&mut open, view).await?)
    }

    /// DROP VIEW.
    #[boxed]
    pub(super) async fn drop_views(
        &self,
        names: Vec<String>,
        (if_exists, cascades): (bool, bool),
    ) -> Result<Outcome, Error> {
        let (mut kept, mut own, mut shown) = (BTreeSet::new(), Vec::new(), Vec::new());
        for name in &names {
            let reference = TableReference::parse_str(name);
            self.check_own(&reference)?;
            let bare = reference.table();
            let known = self.host.rows().and_then(|rows| rows.catalog().ok()?.table(bare).cloned());
            match known.filter(|_| is_public(&reference)) {
                Some(table) if table.kind == TableKind::View => {
                    kept.insert(bare.to_owned());
                }
                Some(table) => {
                    let kind = table.word();
                    return Err(Error::new(
                        942,
                        "42809",
                        format!("\"{bare}\" is a {kind}, no view"),
                    )
                    .next(format!("drop {kind} {bare}")));
                }
                None if self.has_table(bare) => {
                    return Err(Error::new(
                        942,
                        "42809",
                        format!("\"{bare}\" is a table, no view"),
                    )
                    .next(format!("drop table {bare}")));
                }
                None if self.context().table_exist(reference.clone()).unwrap_or(false) => {
                    own.push(reference.clone());
                }
                None if if_exists => continue,
                None => {
                    check_schema(&reference)?;
                    return Err(Error::new(
                        942,
                        "42P01",
                        format!("view \"{bare}\" does not exist"),
                    ));
                }
            }
            shown.push(bare.to_owned());
        }
        for reference in own {
            self.context().deregister_table(reference).map_err(|e| from_datafusion(&e))?;
        }
        let also = self.views_over(&kept, cascades)?;
        kept.extend(also.iter().cloned());
        self.forget_views(kept).await?;
        if shown.is_empty() {
            return Ok(done("There was no such view."));
        }
        let notices = also.iter().map(|view| format!("view {view} was dropped with it")).collect();
        Ok(Outcome::Done { message: format!("View {} dropped.", shown.join(", ")), notices })
    }

    /// The views that read one of these tables or views, if they may be dropped with it.
    ///
    /// # Errors
    /// 2BP01 they may not.
    pub(super) fn views_over(
        &self,
        names: &BTreeSet<String>,
        cascades: bool,
    ) -> Result<BTreeSet<String>, Error> {
        let Some(rows) = self.host.rows() else { return Ok(BTreeSet::new()) };
        let catalog = rows.catalog()?;
        let mut found = BTreeSet::new();
        for name in names {
            let views = catalog.views_over(name, None);
            let mut left = views.into_iter().filter(|view| !names.contains(view)).peekable();
            if let (Some(view), false) = (left.peek(), cascades) {
                return Err(needed(&format!("\"{name}\" cannot be dropped"), view));
            }
            found.extend(left);
        }
        Ok(found)
    }

    /// Drops views of the catalog.
    pub(super) async fn forget_views(&self, names: BTreeSet<String>) -> Result<(), Error> {
        if names.is_empty() {
            return Ok(());
        }
        let rows = self.row_tables()?;
        if rows.are_open() {
            let scope = self.definer()?;
            return Ok(scope.definitions.drop_names(&mut *scope.open().await?, names).await?);
        }
        for name in names {
            rows.database().catalog().drop_table(&name).await?;
        }
        Ok(())
    }

    /// Refuses to alter a table, or one of its columns, that views read.
    ///
    /// # Errors
    /// 2BP01.
    pub(super) fn refuse_under_views(
        &self,
        table: &str,
        column: Option<&str>,
        what: &str,
    ) -> Result<(), Error> {
        match self.catalog()?.views_over(table, column).pop_first() {
            None => Ok(()),
            Some(view) => Err(needed(what, &view)),
        }
    }

    /// Refuses to change the rows of a view.
    ///
    /// # Errors
    /// 0A000.
    pub(super) fn refuse_view(&self, reference: &TableReference, what: &str) -> Result<(), Error> {
        let Some(rows) = self.host.rows() else { return Ok(()) };
        let name = reference.table();
        match rows.catalog()?.view(name).filter(|_| is_public(reference)) {
            None => Ok(()),
            Some((_, view)) => {
                let tables: Vec<&str> = view.uses.keys().map(String::as_str).collect();
                Err(Error::not_yet(format!("{what} a view: \"{name}\""))
                    .next(format!("change what it reads: {}", tables.join(", "))))
            }
        }
    }
}

/// The error for an object that a view depends on.
fn needed(what: &str, view: &str) -> Error {
    Error::new(2449, "2BP01", format!("{what}: view \"{view}\" needs it"))
        .next(format!("drop view {view} first, or use CASCADE where there is that"))
}

/// Refuses to replace a view by one that lacks its columns; further columns may follow them.
fn check_replaced(old: &Schema, new: &Schema) -> Result<(), Error> {
    let refused = |text: String| Err(Error::new(4064, "42P16", text).next("drop the view first"));
    if new.fields().len() < old.fields().len() {
        return refused("columns of a view cannot be dropped".to_owned());
    }
    for (old, new) in old.fields().iter().zip(new.fields()) {
        if old.name() != new.name() {
            return refused(format!(
                "the name of view column \"{}\" cannot be changed to \"{}\"",
                old.name(),
                new.name()
            ));
        }
        if old.data_type() != new.data_type() {
            return refused(format!(
                "the data type of view column \"{}\" cannot be changed from {} to {}",
                old.name(),
                old.data_type(),
                new.data_type()
            ));
        }
    }
    Ok(())
}
