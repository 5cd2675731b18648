//! The schemas `pg_catalog` and `information_schema`: tables whose rows are generated when they are read.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use cellar_instance::catalog::TableKind;
use datafusion::catalog::{SchemaProvider, Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::ask::Ask;
use super::relations::{self, Relation};
use super::rows::{self, Seen, Sizes};
use super::snapshot::Found;
use super::value::{Rows, schema_of};
use crate::names::CATALOG;
use crate::rows::Scope;

/// The schema of PostgreSQL's catalogs.
pub(crate) const PG_CATALOG: &str = "pg_catalog";

/// The information schema, under the name used in plans: DataFusion has another one with its real name.
pub(crate) const INFORMATION: &str = "pg_information_schema";

/// The schema in which tables are known by their keys.
const PUBLIC: &str = "public";

/// Bytes of a page of the heap.
const PAGE: u64 = 8192;

/// One of the two schemas.
#[derive(Debug)]
pub(crate) struct System {
    ask: Arc<Ask>,
    is_information: bool,
}

impl System {
    /// The schema of this name, for a session.
    pub fn of(ask: &Arc<Ask>, name: &str) -> Option<System> {
        let is_information = name == INFORMATION;
        let is_one = is_information || name == PG_CATALOG;
        is_one.then(|| System { ask: Arc::clone(ask), is_information })
    }
}

#[async_trait]
impl SchemaProvider for System {
    fn table_names(&self) -> Vec<String> {
        let own = relations::all().filter(|own| own.is_information == self.is_information);
        own.map(|own| own.name.to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let found = relations::find(self.is_information, name);
        Ok(found.map(|relation| {
            let schema = schema_of(relation);
            Arc::new(SystemTable { ask: Arc::clone(&self.ask), relation, schema }) as _
        }))
    }

    fn table_exist(&self, name: &str) -> bool {
        relations::find(self.is_information, name).is_some()
    }
}

/// A relation of one of them.
#[derive(Debug)]
struct SystemTable {
    ask: Arc<Ask>,
    relation: &'static Relation,
    schema: SchemaRef,
}

impl SystemTable {
    /// Columns of external tables that are defined only by their files.
    async fn found(&self, state: &dyn Session) -> Found {
        let mut found = Found::new();
        let Some(state) = state.as_any().downcast_ref::<SessionState>() else { return found };
        let schema = state.catalog_list().catalog(CATALOG).and_then(|own| own.schema(PUBLIC));
        let Some(schema) = schema else { return found };
        let catalog = self.ask.catalog();
        for table in catalog.tables.iter().filter(|table| table.kind == TableKind::External) {
            // A table that cannot be opened has no columns.
            if let Ok(Some(opened)) = schema.table(&table.name).await {
                found.insert(table.name.clone(), opened.schema());
            }
        }
        found
    }

    /// Pages and rows of heap tables, as the statement sees them.
    async fn sizes(&self, state: &dyn Session) -> Sizes {
        let mut sizes = Sizes::new();
        let Some(scope) = state.config().get_extension::<Scope>() else { return sizes };
        let catalog = self.ask.catalog();
        for table in &catalog.tables {
            let Some(rows) = &table.rows else { continue };
            // A table that another session drops meanwhile has no size.
            if let Ok(size) = scope.statement.size(rows).await {
                sizes.insert(table.oid(), (size.pages, size.rows));
            }
        }
        let bytes = |pages: u64| i64::try_from(pages.saturating_mul(PAGE)).unwrap_or(i64::MAX);
        let kept: HashMap<u32, i64> =
            sizes.iter().map(|(oid, (pages, _))| (*oid, bytes(*pages))).collect();
        self.ask.set_sizes(kept);
        sizes
    }
}

#[async_trait]
impl TableProvider for SystemTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut made = Rows::new(self.relation);
        if let Some(make) = rows::of(self.relation) {
            let found = match rows::needs_columns(self.relation) {
                true => self.found(state).await,
                false => Found::new(),
            };
            let sizes = match rows::needs_sizes(self.relation) {
                true => self.sizes(state).await,
                false => Sizes::new(),
            };
            let snapshot = self.ask.snapshot_with(&found);
            make(&Seen { ask: &self.ask, snapshot, sizes }, &mut made);
        }
        let partitions = [vec![made.batch(&self.schema)?]];
        let schema = Arc::clone(&self.schema);
        let plan = MemorySourceConfig::try_new_exec(&partitions, schema, projection.cloned())?;
        Ok(plan)
    }
}
