//! The session that queries the catalogs: its database, path and settings.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::Field;
use cellar_instance::catalog::{Catalog, Table};
use datafusion::common::TableReference;

use super::constants::PG_CATALOG_OID;
use super::object::Object;
use super::snapshot::{Found, Snapshot};
use crate::fast::NamedStatements;
use crate::host::Host;
use crate::names::path::Paths;
use crate::settings::Settings;

/// Names of views, with their columns.
type OurViews = Arc<[(String, Vec<Field>)]>;

/// A catalog, and the snapshot made from it.
type Kept = (Arc<Catalog>, Vec<String>, Arc<Snapshot>);

/// A session that asks.
pub(crate) struct Ask {
    pub(super) host: Arc<dyn Host>,
    pub(super) paths: Arc<Paths>,
    pub(super) settings: Arc<Settings>,
    /// The prepared statements of the session.
    pub(super) prepared: Arc<NamedStatements>,
    /// Our views, with their columns.
    views: OurViews,
    /// The options of an external table, `name=value`: CREATE FOREIGN TABLE recreates it from them.
    pub(super) options: fn(&Table) -> Vec<String>,
    /// The last snapshot, as long as the catalog is the same.
    kept: Mutex<Option<Kept>>,
    /// Sizes of heap objects, in bytes, as of the last read of pg_class.
    sizes: Mutex<HashMap<u32, i64>>,
}

impl std::fmt::Debug for Ask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ask of {:?}", self.host)
    }
}

impl Ask {
    /// For a session.
    pub fn new(
        host: &Arc<dyn Host>,
        paths: &Arc<Paths>,
        (settings, prepared): (&Arc<Settings>, &Arc<NamedStatements>),
        (views, options): (&OurViews, fn(&Table) -> Vec<String>),
    ) -> Ask {
        Ask {
            host: Arc::clone(host),
            paths: Arc::clone(paths),
            settings: Arc::clone(settings),
            prepared: Arc::clone(prepared),
            views: Arc::clone(views),
            options,
            kept: Mutex::default(),
            sizes: Mutex::default(),
        }
    }

    /// Whether the session acts as a superuser.
    pub(super) fn is_superuser(&self) -> bool {
        let role = Arc::clone(&self.settings.now().role);
        self.catalog().role(&role).is_some_and(|(_, role)| role.is_superuser)
    }

    /// The catalog as the session sees it.
    pub(super) fn catalog(&self) -> Arc<Catalog> {
        self.host.rows().and_then(|rows| rows.catalog().ok()).unwrap_or_default()
    }

    fn made(&self, catalog: &Catalog, path: &[String], found: &Found) -> Snapshot {
        let mut made = Snapshot::of(catalog, self.paths.temporary(), (found, &self.views));
        let own = path.iter().filter_map(|own| made.schema_named(own)).map(|schema| schema.oid);
        let own: Vec<u32> = own.collect();
        let first = (!own.contains(&PG_CATALOG_OID)).then_some(PG_CATALOG_OID);
        made.path = first.into_iter().chain(own).collect();
        made
    }

    /// The current snapshot, without the columns of external tables that are defined only by their files.
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        let catalog = self.catalog();
        let path = self.paths.schemas(&catalog, true);
        {
            let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((of, own, made)) = &*kept
                && Arc::ptr_eq(of, &catalog)
                && *own == path
            {
                return Arc::clone(made);
            }
        }
        let made = Arc::new(self.made(&catalog, &path, &Found::new()));
        let kept = (catalog, path, Arc::clone(&made));
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        made
    }

    /// The current snapshot, with columns that were found in files.
    pub(super) fn snapshot_with(&self, found: &Found) -> Arc<Snapshot> {
        if found.is_empty() {
            return self.snapshot();
        }
        let catalog = self.catalog();
        let path = self.paths.schemas(&catalog, true);
        Arc::new(self.made(&catalog, &path, found))
    }

    /// Sets the sizes of heap objects.
    pub(super) fn set_sizes(&self, sizes: HashMap<u32, i64>) {
        *self.sizes.lock().unwrap_or_else(PoisonError::into_inner) = sizes;
    }

    /// The size of a heap object, in bytes.
    pub(super) fn size(&self, oid: u32) -> Option<i64> {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner).get(&oid).copied()
    }

    /// The object that a text names, resolved as in a statement.
    pub(super) fn object<'s>(&self, snapshot: &'s Snapshot, text: &str) -> Option<&'s Object> {
        if let Ok(oid) = text.trim().parse::<u32>() {
            return snapshot.object(oid);
        }
        let reference = TableReference::parse_str(text.trim());
        match reference.schema() {
            None => snapshot.in_path(reference.table()),
            Some(schema) => {
                let schema = snapshot.schema_named(self.paths.schema(schema))?;
                snapshot.named(schema.oid, reference.table())
            }
        }
    }
}
