//! The schemas as DataFusion lists them: those of the catalog beside `public` and ours.

use std::sync::Arc;

use async_trait::async_trait;
use cellar_instance::catalog::name;
use datafusion::catalog::{CatalogProvider, SchemaProvider};
use datafusion::common::Result as DataFusionResult;
use datafusion::datasource::{TableProvider, TableType};

use crate::engine::resolving::schemas_of;
use crate::engine::tables::Tables;
use crate::engine::{PUBLIC, VIEWS};
use crate::host::Host;
use crate::names::path::Paths;
use crate::pgcatalog::{Ask, INFORMATION, PG_CATALOG, System};

/// All schemas of a session.
#[derive(Debug)]
pub(super) struct Namespaces {
    pub host: Arc<dyn Host>,
    pub tables: Arc<Tables>,
    pub views: Arc<dyn SchemaProvider>,
    pub paths: Arc<Paths>,
    pub ask: Arc<Ask>,
}

impl CatalogProvider for Namespaces {
    fn schema_names(&self) -> Vec<String> {
        let catalog = self.host.rows().and_then(|rows| rows.catalog().ok());
        let mut names = catalog.map(|own| schemas_of(&own)).unwrap_or_else(|| vec![PUBLIC.into()]);
        names.push(VIEWS.to_owned());
        if self.paths.has_temporary() {
            names.push(self.paths.temporary().to_owned());
        }
        names
    }

    fn schema(&self, schema: &str) -> Option<Arc<dyn SchemaProvider>> {
        match schema {
            PUBLIC => Some(Arc::clone(&self.tables) as Arc<dyn SchemaProvider>),
            VIEWS => Some(Arc::clone(&self.views)),
            PG_CATALOG | INFORMATION => {
                System::of(&self.ask, schema).map(|own| Arc::new(own) as Arc<dyn SchemaProvider>)
            }
            other => {
                let schema = self.paths.schema(other);
                let is_own = schema == self.paths.temporary();
                let is_there = || {
                    let catalog = self.host.rows().and_then(|rows| rows.catalog().ok());
                    catalog.is_some_and(|catalog| catalog.has_schema(schema))
                };
                (is_own || is_there()).then(|| {
                    let (tables, schema) = (Arc::clone(&self.tables), schema.to_owned());
                    Arc::new(Namespace { tables, schema }) as Arc<dyn SchemaProvider>
                })
            }
        }
    }
}

/// What is in a schema of the catalog.
#[derive(Debug)]
struct Namespace {
    tables: Arc<Tables>,
    schema: String,
}

impl Namespace {
    fn key(&self, own: &str) -> String {
        name::key_of(&self.schema, own)
    }
}

#[async_trait]
impl SchemaProvider for Namespace {
    fn table_names(&self) -> Vec<String> {
        let of = |key: String| {
            let (schema, own) = name::parts(&key);
            (schema == self.schema).then(|| own.to_owned())
        };
        self.tables.keys().into_iter().filter_map(of).collect()
    }

    async fn table(&self, own: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        self.tables.table(&self.key(own)).await
    }

    async fn table_type(&self, own: &str) -> DataFusionResult<Option<TableType>> {
        self.tables.table_type(&self.key(own)).await
    }

    fn table_exist(&self, own: &str) -> bool {
        self.tables.table_exist(&self.key(own))
    }
}
