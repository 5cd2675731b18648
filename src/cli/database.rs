//! The one place where the program meets the instance: what commands need of an open database.

use std::path::Path;
use std::sync::Arc;

use cellar_sql::view::ViewSource;
use cellar_sql::{Engine, EngineOptions, Error, Host};

use super::fault::Fault;

/// An open database.
pub struct Database {
    /// Groups, catalog and statements.
    pub host: Arc<dyn Host>,
    /// The `v$` views.
    pub views: Vec<Arc<dyn ViewSource>>,
    /// Bytes for queries.
    pub memory_limit: usize,
}

impl Database {
    /// SQL over it. What is wrong with the catalog's tables goes to stderr.
    ///
    /// # Errors
    /// When the engine cannot start.
    pub async fn engine(&self) -> Result<Engine, Fault> {
        let options = EngineOptions {
            memory_limit: self.memory_limit,
            target_partitions: cores(),
            spill_dir: None,
        };
        let engine = Engine::open(Arc::clone(&self.host), self.views.clone(), &options).await?;
        for (table, error) in engine.broken_tables() {
            eprintln!(
                "Notice: table {table} cannot be used now: {}",
                error.message
            );
        }
        Ok(engine)
    }
}

/// Cores this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

/// Opens the database in `dir`.
///
/// # Errors
/// A numbered error with the next step.
pub async fn open(dir: &Path) -> Result<Database, Fault> {
    if !dir.is_dir() {
        let message = format!("there is no directory \"{}\"", dir.display());
        let next = format!("cellar init {}", dir.display());
        return Err(Error::new(27037, "58P01", message).next(next).into());
    }
    Err(Error::not_yet("opening a database from the command line").into())
}
