//! The rule that checks whether a plan may read what it reads: tables by the role of the session, and
//! what a view reads by the role that owns the view. It sees each plan that is run, with all its columns
//! still as they were written.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, OnceLock};

use cellar_instance::catalog::{Catalog, Principal, Rights, Table, name};
use cellar_instance::roles::scram::new_salt;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNodeRecursion, TreeNodeVisitor};
use datafusion::common::{Result as DfResult, TableReference};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, TableScan};
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::{AnalyzerRule, Optimizer, OptimizerContext};

use crate::engine::rights::not_superuser;
use crate::engine::tables::{Tables, is_file};
use crate::engine::{VIEWS, is_public};
use crate::error::Error;
use crate::files::csv_format::external;
use crate::pgcatalog::{INFORMATION, PG_CATALOG};
use crate::rows::{HeapTable, ROW_ID, without_row_ids};
use crate::settings::{Settings, denied, no_role};

tokio::task_local! {
    /// Whether the view that is being opened is a superuser's.
    static IN_VIEW: bool;
    /// The plan is only inspected, never run.
    static UNASKED: ();
}

/// Runs `work` with plans that are never executed: it needs no rights.
pub(super) fn without_rights_check<T>(work: impl FnOnce() -> T) -> T {
    UNASKED.sync_scope((), work)
}

/// The same for async work.
pub(super) async fn without_rights_check_while<T>(work: impl Future<Output = T> + Send) -> T {
    UNASKED.scope((), work).await
}

/// The unguessable prefix of a view's key in the name of its plan. Without random bytes there is none: then no view
/// is recognised, and everything it reads is checked against the session's role.
fn mark() -> Option<&'static str> {
    static MARK: OnceLock<Option<String>> = OnceLock::new();
    let mark = MARK.get_or_init(|| {
        let digits: String = new_salt()?.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(format!("\u{1f}view {digits}\u{1f}"))
    });
    mark.as_deref()
}

/// A view's plan under a name by which the rule recognises it.
pub(super) fn as_view(plan: LogicalPlan, key: &str) -> DfResult<LogicalPlan> {
    let Some(mark) = mark() else { return Ok(plan) };
    let marked = TableReference::bare(format!("{mark}{key}"));
    LogicalPlanBuilder::from(plan).alias(marked)?.build()
}

/// The key of the view whose plan this is.
pub(super) fn view_of(plan: &LogicalPlan) -> Option<&str> {
    let LogicalPlan::SubqueryAlias(alias) = plan else { return None };
    alias.alias.table().strip_prefix(mark()?)
}

/// Plans what a view reads. Files that it names are its owner's to read.
pub(super) async fn opening_view<T>(
    owner_is_superuser: bool,
    opening: impl Future<Output = T> + Send,
) -> T {
    IN_VIEW.scope(owner_is_superuser, opening).await
}

/// Whether a view is being opened, and is a superuser's.
pub(super) fn opens_view() -> Option<bool> {
    IN_VIEW.try_with(|is_superuser| *is_superuser).ok()
}

/// The rule, for a session.
#[derive(Debug)]
pub(super) struct Permitted {
    pub settings: Arc<Settings>,
    pub tables: Arc<Tables>,
}

/// The inspection of a plan.
struct Look<'a> {
    catalog: &'a Catalog,
    tables: &'a Tables,
    /// The reading role, and the owners of the nested views.
    readers: Vec<Arc<Principal>>,
    /// Whether unread columns have been pruned from the plan.
    is_narrow: bool,
    /// Whether a table is read whose columns must be known.
    asks_columns: bool,
}

impl Permitted {
    fn look(&self, plan: &LogicalPlan) -> Result<(), Error> {
        let Some(catalog) = self.tables.catalog() else { return Ok(()) };
        let who = self.settings.who(&catalog);
        let who = who.ok_or_else(|| no_role(&self.settings.now().role))?;
        if who.is_superuser && !catalog.owned_objects().any(|own| own.owner() != who.oid) {
            return Ok(());
        }
        let mut look = Look {
            catalog: &catalog,
            tables: &self.tables,
            readers: vec![who],
            is_narrow: false,
            asks_columns: false,
        };
        visit(plan, &mut look)?;
        if !look.asks_columns {
            return Ok(());
        }
        let narrow = Optimizer::with_rules(vec![Arc::new(OptimizeProjections::new())]);
        let context = OptimizerContext::new().with_max_passes(1);
        let plan = narrow
            .optimize(plan.clone(), &context, |_, _| {})
            .map_err(|error| crate::failure::from_datafusion(&error))?;
        (look.is_narrow, look.asks_columns) = (true, false);
        visit(&plan, &mut look)
    }
}

fn visit(plan: &LogicalPlan, look: &mut Look<'_>) -> Result<(), Error> {
    plan.visit_with_subqueries(look)
        .map(drop)
        .map_err(|error| crate::failure::from_datafusion(&error))
}

impl AnalyzerRule for Permitted {
    fn name(&self) -> &'static str {
        "permitted"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DfResult<LogicalPlan> {
        if UNASKED.try_with(|()| ()).is_err() {
            self.look(&plan).map_err(external)?;
        }
        Ok(plan)
    }
}

impl<'n> TreeNodeVisitor<'n> for Look<'_> {
    type Node = LogicalPlan;

    fn f_down(&mut self, plan: &'n LogicalPlan) -> DfResult<TreeNodeRecursion> {
        if let Some(key) = view_of(plan) {
            let columns = plan.schema().fields().iter().map(|field| field.name().clone());
            self.object(key, columns.collect()).map_err(external)?;
            let owner = self.catalog.table(key).map(Table::owner);
            let owner = owner.and_then(|owner| self.catalog.who_is(owner));
            let owner = owner.ok_or_else(|| external(no_role("of a view")))?;
            self.readers.push(Arc::new(owner));
        }
        if let LogicalPlan::TableScan(scan) = plan {
            self.scan(scan).map_err(external)?;
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn f_up(&mut self, plan: &'n LogicalPlan) -> DfResult<TreeNodeRecursion> {
        if view_of(plan).is_some() {
            self.readers.pop();
        }
        Ok(TreeNodeRecursion::Continue)
    }
}

impl Look<'_> {
    fn reader(&self) -> Option<&Arc<Principal>> {
        self.readers.last()
    }

    fn is_superuser(&self) -> bool {
        self.reader().is_some_and(|who| who.is_superuser)
    }

    fn scan(&mut self, scan: &TableScan) -> Result<(), Error> {
        if self.is_superuser() {
            return Ok(());
        }
        let columns = || {
            let own = scan.projected_schema.fields().iter().map(|field| field.name().clone());
            let filters = scan.filters.iter().flat_map(Expr::column_refs);
            own.chain(filters.map(|column| column.name.clone())).collect::<BTreeSet<String>>()
        };
        // Whatever name a table of the heap has in the plan.
        if let Ok(provider) = source_as_provider(&scan.source)
            && let Some(table) = provider.downcast_ref::<HeapTable>()
        {
            return self.object(table.key(), columns());
        }
        let own = &scan.table_name;
        match own.schema() {
            Some(PG_CATALOG | INFORMATION) => return Ok(()),
            Some(VIEWS) => return Err(view_of_instance(own.table())),
            _ if !is_public(own) => return self.object(&key_of(own), columns()),
            _ => {}
        }
        let key = without_row_ids(own.table()).unwrap_or(own.table());
        match self.tables.whose(key) {
            NameScope::Session => Ok(()),
            NameScope::Instance => Err(view_of_instance(key)),
            NameScope::Catalog if self.catalog.table(key).is_some() => self.object(key, columns()),
            NameScope::Catalog if is_file(key) => Err(file_of_server()),
            // A function, or a temporary result of the statement.
            NameScope::Catalog => Ok(()),
        }
    }

    /// Checks a table, view or sequence of which these columns are read.
    fn object(&mut self, key: &str, columns: BTreeSet<String>) -> Result<(), Error> {
        let (Some(who), Some(table)) = (self.reader(), self.catalog.table(key)) else {
            return Ok(());
        };
        if who.is_superuser {
            return Ok(());
        }
        let schema = name::parts(key).0;
        // Names in the query of a view were looked up when it was made.
        if self.readers.len() == 1
            && !name::is_temporary(schema)
            && let Some(own) = self.catalog.schema_object(schema)
            && !own.rights_of(who).has(Rights::USAGE)
        {
            return Err(denied("schema", &own.name, Rights::USAGE));
        }
        if table.rights_of(who).has(Rights::SELECT) {
            return Ok(());
        }
        let refused = || Err(denied(table.word(), key, Rights::SELECT));
        // A role that may change rows may see which rows exist.
        let counts = match columns.contains(ROW_ID) {
            true => Rights::SELECT.and(Rights::UPDATE).and(Rights::DELETE),
            false => Rights::SELECT,
        };
        if !table.has_right_on_some(counts, who) {
            return refused();
        }
        if !self.is_narrow {
            self.asks_columns = true;
            return Ok(());
        }
        let read: Vec<&String> = columns.iter().filter(|own| *own != ROW_ID).collect();
        let may = |column: &&String| table.column_rights(column, who).has(Rights::SELECT);
        let is_allowed = match read.is_empty() {
            true => table.has_right_on_some(counts, who),
            false => read.iter().all(may),
        };
        match is_allowed {
            true => Ok(()),
            false => refused(),
        }
    }
}

/// The error for a role that reads a view of the instance.
fn view_of_instance(name: &str) -> Error {
    denied("view", name, Rights::SELECT).next("ask a superuser: it tells what all sessions do")
}

/// The error for a role that reads a file in place.
pub(super) fn file_of_server() -> Error {
    not_superuser("to read files of the server")
}

pub(super) fn key_of(reference: &TableReference) -> String {
    name::key_of(reference.schema().unwrap_or(name::PUBLIC), reference.table())
}

/// What an unqualified name belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameScope {
    /// A view of the session, or what a statement names for itself.
    Session,
    /// A view of the instance.
    Instance,
    /// The catalog's, or a file.
    Catalog,
}
