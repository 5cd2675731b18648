//! DataFusion's context of a session: made when a statement first needs it, and dropped while the session
//! is idle. A session whose statements all take the fast path has none.

use std::sync::{Arc, Mutex, PoisonError};

use cellar_instance::catalog::Table;
use datafusion::catalog::SchemaProvider;
use datafusion::prelude::SessionContext;

use crate::engine::common::Common;
use crate::engine::context;
use crate::engine::namespaces::Namespaces;
use crate::engine::tables::Tables;
use crate::fast::NamedStatements;
use crate::host::Host;
use crate::names::CATALOG;
use crate::names::path::Paths;
use crate::parse::foreign_table::foreign_options;
use crate::pgcatalog::Ask;
use crate::recorded_errors::RecordedErrors;
use crate::settings::Settings;

/// What a context is made of, and the context while there is one.
pub(super) struct Planner {
    pub common: Arc<Common>,
    pub host: Arc<dyn Host>,
    pub settings: Arc<Settings>,
    pub paths: Arc<Paths>,
    pub recorded: Arc<RecordedErrors>,
    pub tables: Arc<Tables>,
    pub prepared: Arc<NamedStatements>,
    pub made: Mutex<Option<SessionContext>>,
}

impl Planner {
    /// The context. All that a session keeps is elsewhere, so that one is as good as the next.
    pub fn context(&self) -> SessionContext {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.get_or_insert_with(|| self.make()).clone()
    }

    /// Whether there is a context.
    pub fn is_made(&self) -> bool {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Drops the context; running statements keep using it.
    pub fn rest(&self) {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(made);
    }

    fn make(&self) -> SessionContext {
        let (common, paths) = (&self.common, &self.paths);
        let external = (&common.columns, foreign_options as fn(&Table) -> Vec<String>);
        let ask = Ask::new(&self.host, paths, (&self.settings, &self.prepared), external);
        let ask = Arc::new(ask);
        let own = (&self.settings, paths, &ask);
        let more = (&self.tables, &self.recorded);
        let context = context::of_session(&common.state, &self.host, own, more);
        let namespaces = Namespaces {
            ask: Arc::clone(&ask),
            host: Arc::clone(&self.host),
            tables: Arc::clone(&self.tables),
            views: Arc::clone(&common.views) as Arc<dyn SchemaProvider>,
            paths: Arc::clone(paths),
        };
        context.register_catalog(CATALOG, Arc::new(namespaces));
        context
    }
}
