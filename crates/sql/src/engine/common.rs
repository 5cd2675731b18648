//! State shared by the sessions of a server: the views of the instance, memory for queries, and the parts
//! of DataFusion's state that belong to no session.

use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::{MemTable, MemorySchemaProvider, SchemaProvider};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;

use crate::engine::{EngineOptions, context};
use crate::error::Error;
use crate::failure::from_datafusion;
use crate::fast::Plans;
use crate::memory::WorkMemory;
use crate::view::{ViewSource, ViewTable, schema_of};

/// A view of the instance, as the schema `cellar` has it, and its columns.
pub(crate) type ViewColumns = (String, Vec<Field>);

/// What engines share. Made once, for all sessions of a server.
pub struct Common {
    /// The schema `cellar`.
    pub(super) views: Arc<MemorySchemaProvider>,
    /// System objects in `public`: views by their own names, and `dual`.
    pub(super) system: Arc<MemorySchemaProvider>,
    pub(super) columns: Arc<[ViewColumns]>,
    pub(super) state: SessionState,
    /// Plans of the fast path that depend on no session.
    pub(super) plans: Plans,
}

impl std::fmt::Debug for Common {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Common({} views)", self.columns.len())
    }
}

impl Common {
    /// The state shared by engines over an instance with `views`; their queries share memory.
    ///
    /// # Errors
    /// The directory for spilled data cannot be used.
    pub fn new(views: Vec<Arc<dyn ViewSource>>, options: &EngineOptions) -> Result<Common, Error> {
        Common::made(views, options).map_err(|error| from_datafusion(&error))
    }

    fn made(
        sources: Vec<Arc<dyn ViewSource>>,
        options: &EngineOptions,
    ) -> Result<Common, DataFusionError> {
        let state = context::common(options, &WorkMemory::new(options.memory_limit))?;
        let (views, system) = (MemorySchemaProvider::new(), MemorySchemaProvider::new());
        let mut columns = Vec::with_capacity(sources.len());
        for source in sources {
            let name = source.name();
            let short = name.strip_prefix("v$").unwrap_or(name).to_owned();
            let schema = schema_of(source.columns());
            let fields = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
            columns.push((short.clone(), fields));
            let table = Arc::new(ViewTable::new(source));
            views.register_table(short, Arc::clone(&table) as _)?;
            system.register_table(name.to_owned(), table)?;
        }
        // Oracle's table of one row, for `select sysdate from dual`.
        let schema = Arc::new(Schema::new(vec![Field::new("dummy", DataType::Utf8, true)]));
        let row = StringArray::from(vec!["X"]);
        let row = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(row)])?;
        let dual = MemTable::try_new(schema, vec![vec![row]])?;
        system.register_table("dual".to_owned(), Arc::new(dual))?;
        let (views, system) = (Arc::new(views), Arc::new(system));
        Ok(Common { views, system, columns: columns.into(), state, plans: Plans::default() })
    }
}
