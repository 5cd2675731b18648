//! The interface of the engine to the instance under it.

pub mod instance;

use std::sync::Arc;

use async_trait::async_trait;
use cellar_instance::administration::{Command, Reply, UnderWay};
use cellar_instance::tables::external::ExternalFiles;
use cellar_storage::request::WorkRequest;
use object_store::ObjectStore;
use serde::{Deserialize, Serialize};

use crate::columnar::tables::Columnar;
use crate::error::Error;
use crate::rows::RowTables;
use crate::view::{Column, Value};

/// An external table as the catalog stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableDefinition {
    /// Its name, as DataFusion resolved it (lower-case unless quoted).
    pub name: String,
    /// The location of its files, for people: `+DATA/t.parquet` or a path.
    pub location: String,
    /// Further locations, in the same form.
    #[serde(default)]
    pub more_locations: Vec<String>,
    /// The `CREATE EXTERNAL TABLE` statement that makes it.
    pub statement: String,
    /// The columns that were found in its files, if finding them takes reading all of them.
    #[serde(default)]
    pub columns: Option<String>,
    /// Whether it has never had a file: then none is missing.
    #[serde(default)]
    pub may_be_empty: bool,
}

impl TableDefinition {
    /// Adds the files that it reads in disk groups.
    pub(crate) fn add_to(&self, files: &mut ExternalFiles) {
        let first = std::iter::once(&self.location);
        let locations: Vec<String> = first.chain(&self.more_locations).cloned().collect();
        files.add(&self.name, &locations);
    }
}

/// Rows that the instance produced, each with a value for every column.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// The columns, in order.
    pub columns: &'static [Column],
    /// The values.
    pub rows: Vec<Vec<Value>>,
    /// Why the change that they describe cannot be done, if so.
    pub refused: Option<Error>,
}

/// The instance, as the engine sees it.
#[async_trait]
pub trait Host: Send + Sync + std::fmt::Debug + 'static {
    /// The files of a mounted disk group (its name in upper case) as an object store.
    fn store(&self, group: &str) -> Option<Arc<dyn ObjectStore>>;

    /// The mounted disk groups, for messages.
    fn groups(&self) -> Vec<String>;

    /// The columnar tables, if there can be any.
    fn columnar(&self) -> Option<&Columnar> {
        None
    }

    /// The heap tables, if there can be any.
    fn rows(&self) -> Option<&RowTables> {
        None
    }

    /// The number of partitions of a plan to run at once from now on, if set.
    fn target_partitions(&self) -> Option<usize> {
        None
    }

    /// The external tables of the catalog.
    fn tables(&self) -> Vec<TableDefinition>;

    /// Adds a table to the catalog, or replaces one of the same name. Durable when it returns.
    async fn put_table(&self, table: TableDefinition) -> Result<(), Error>;

    /// Removes a table from the catalog; returns whether there was one. Durable when it returns.
    async fn drop_table(&self, name: &str) -> Result<bool, Error>;

    /// Refuses a file of a group that the user must not overwrite or remove.
    ///
    /// # Errors
    /// The file is protected; the error says which file, and what it is for.
    fn check_writable(&self, group: &str, path: &str) -> Result<(), Error> {
        let _ = (group, path);
        Ok(())
    }

    /// The effects that a change of the disks of a group would have. Changes nothing.
    ///
    /// # Errors
    /// Those of the change itself.
    async fn explain_work(&self, work: WorkRequest) -> Result<Rows, Error> {
        Err(Error::not_yet(format!("EXPLAIN WORK for {}", work.group)))
    }

    /// The progress of the work that [`Host::run`] or [`Host::explain_work`] currently waits for, if it
    /// is long.
    fn progress(&self) -> Option<UnderWay> {
        None
    }

    /// Carries out a statement about disk groups or parameters.
    async fn run(&self, command: Command) -> Result<Reply, Error>;
}
