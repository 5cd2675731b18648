//! The columnar tables of a database: opened for scans, created, extended, truncated, dropped.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cellar_cell::Segment;
use cellar_instance::budget::Consumer;
use cellar_instance::catalog::{Table, TableKind};
use cellar_instance::database::Database;
use cellar_instance::session::Session;
use cellar_instance::tables::SegmentFile;
use cellar_instance::temp::{TempFile, TempSpace};
use cellar_wait::{Event, Wait};

use crate::catalog::SessionCatalog;
use crate::columnar::small::{Came, rows_of, small_end, together};
use crate::columnar::table::{OpenTable, check_kept, checked_schema, schema_of_text, schema_text};
use crate::columnar::write::{Batches, OnProgress, Writing, write_segment};
use crate::error::Error;

/// The error number for a table that was dropped, or has lost a segment, since the catalog was read.
const DROPPED: u32 = 942;

/// The columnar tables, as one session sees them.
#[derive(Clone)]
pub struct Columnar {
    database: Arc<Database>,
    session: Session,
    catalog: Arc<SessionCatalog>,
}

impl std::fmt::Debug for Columnar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Columnar({:?})", self.database)
    }
}

/// Rows that were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// How many.
    pub rows: u64,
    /// Bytes of one copy of them.
    pub bytes: u64,
}

impl Columnar {
    /// The tables of `database` for `session`.
    pub(crate) fn new(
        database: Arc<Database>,
        session: Session,
        catalog: Arc<SessionCatalog>,
    ) -> Columnar {
        Columnar { database, session, catalog }
    }

    /// The names of all of them.
    pub fn names(&self) -> Vec<String> {
        let catalog = self.catalog.current();
        catalog.columnar_tables().map(|table| table.name.clone()).collect()
    }

    /// Whether there is a table of that name.
    pub fn has(&self, name: &str) -> bool {
        let catalog = self.catalog.current();
        catalog.table(name).is_some_and(|table| table.kind == TableKind::Columnar)
    }

    /// The columns of a table.
    ///
    /// # Errors
    /// There is no table of that name.
    pub fn schema(&self, name: &str) -> Result<SchemaRef, Error> {
        schema_of_text(&self.catalog.current().columnar(name)?.schema)
    }

    /// Opens a table for a query.
    ///
    /// # Errors
    /// There is no such table, its group is not mounted, a segment is missing or damaged.
    pub async fn open(&self, name: &str) -> Result<Arc<OpenTable>, Error> {
        let (table, schema, segments) = self.whole(name).await?;
        let group = self.database.group(table.group().unwrap_or_default())?;
        Ok(Arc::new(OpenTable::new(
            table.name.clone(),
            schema,
            segments,
            group.group.disks().len(),
            Arc::clone(self.database.instance()),
            (self.session.waits().clone(), self.session.sid()),
        )))
    }

    /// A table in its current state, its columns, and all of its segments, opened.
    async fn whole(&self, name: &str) -> Result<(Table, SchemaRef, Vec<Arc<Segment>>), Error> {
        loop {
            let catalog = self.catalog.current();
            let table = catalog.columnar(name)?;
            let schema = schema_of_text(&table.schema)?;
            match self.database.tables().segments(table, schema.fields().len()).await {
                Ok(segments) => return Ok((table.clone(), schema, segments)),
                // Rows added meanwhile were merged with its last segments.
                Err(error) if error.number() == DROPPED && self.has_changed(table) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether a table still exists, but with other segments.
    fn has_changed(&self, before: &Table) -> bool {
        let catalog = self.catalog.current();
        let now = catalog.columnar(&before.name);
        now.is_ok_and(|now| now.id == before.id && now.segments != before.segments)
    }

    /// An empty file for temporary data.
    ///
    /// # Errors
    /// No group is mounted, or the database is open read-only.
    pub async fn temp_file(&self) -> Result<TempFile, Error> {
        Ok(TempFile::make(self.database.storage().groups()).await?)
    }

    /// Whether temporary data can be kept in its groups.
    pub fn is_writable(&self) -> bool {
        self.database.is_writable()
    }

    /// The bytes that buffers for reads and writes may take.
    pub fn io_buffers(&self) -> u64 {
        self.database.instance().budget().limit(Consumer::IoBuffers)
    }

    /// Statistics of temporary data.
    pub fn temp(&self) -> &TempSpace {
        self.database.instance().temp()
    }

    /// Begins a wait of the session.
    pub fn begin_wait(&self, event: Event, p: [u64; 3]) -> Wait<'static> {
        self.session.waits().begin_owned(event, p, self.now())
    }

    /// The current time, as waits measure it.
    pub fn now(&self) -> u64 {
        self.database.env().now().0
    }

    fn writing(
        &self,
        table: u64,
        schema: &SchemaRef,
        threads: usize,
        tell: Option<OnProgress>,
    ) -> Writing {
        let segment = self.database.env().random();
        Writing { table, segment, schema: Arc::clone(schema), threads, tell }
    }

    /// Creates a table in a group, with these rows, if any. It is created as a whole, durably, or not at
    /// all.
    ///
    /// # Errors
    /// The name is taken, no room, and what the rows report.
    pub async fn create(
        &self,
        name: &str,
        group: &str,
        schema: &SchemaRef,
        rows: Option<Batches>,
        (threads, tell): (usize, Option<OnProgress>),
    ) -> Result<Written, Error> {
        self.catalog.current().check_free(name)?;
        check_kept(schema)?;
        let id = self.database.tables().new_table_id();
        let table = Table::columnar(name, id, group, schema_text(schema));
        let mut written = Written { rows: 0, bytes: 0 };
        let mut segment = None;
        if let Some(rows) = rows {
            let file = self.database.tables().new_segment(group).await?;
            let writing = self.writing(id, schema, threads, tell);
            let (file, figures) = write_segment(SegmentFile::new(file), rows, &writing).await?;
            if figures.rows > 0 {
                written = Written { rows: figures.rows, bytes: figures.bytes };
                segment = Some((file, figures));
            }
        }
        match self.catalog.of_statement() {
            Some(definitions) => definitions.add_columnar(table, segment).await?,
            None => self.database.tables().add_columnar(table, segment).await?,
        }
        Ok(written)
    }

    /// Adds rows to a table: all of them, durably, or none.
    ///
    /// # Errors
    /// There is no such table, its columns differ, no room, and what the rows report.
    pub async fn append(
        &self,
        name: &str,
        columns: &SchemaRef,
        rows: Batches,
        (threads, tell): (usize, Option<OnProgress>),
    ) -> Result<Written, Error> {
        // No rows are added if the others are lost.
        let (table, ..) = self.whole(name).await?;
        let schema = checked_schema(&table.schema)?;
        check_columns(name, columns, &schema)?;
        let writing = self.writing(table.id, &schema, threads, tell);
        let came = Came::of(rows).await.map_err(|e| crate::failure::from_datafusion(&e))?;
        let in_block = self.catalog.of_block();
        if let (None, Came::Few(few)) = (&in_block, &came)
            && let Some(written) = self.merged(&table, few, &writing).await?
        {
            return Ok(written);
        }
        let rows = came.rows();
        let file = self.database.tables().new_segment(table.group().unwrap_or_default()).await?;
        let (file, figures) = write_segment(SegmentFile::new(file), rows, &writing).await?;
        match in_block {
            _ if figures.rows == 0 => {}
            Some(own) => own.append_segment(name, table.id, file, figures).await?,
            None => {
                self.database.tables().append_segment(name, table.id, file, figures).await?;
            }
        }
        Ok(Written { rows: figures.rows, bytes: figures.bytes })
    }

    /// Adds a few rows together with the small segments at the end of a table; `None`: there are none,
    /// or they cannot be read or rewritten.
    async fn merged(
        &self,
        table: &Table,
        came: &[RecordBatch],
        writing: &Writing,
    ) -> Result<Option<Written>, Error> {
        let gone = small_end(&table.segments, came);
        if gone.is_empty() {
            return Ok(None);
        }
        let mut batches = Vec::new();
        for segment in gone {
            let Ok(bytes) = self.database.tables().read_segment(table, segment).await else {
                return Ok(None);
            };
            let Ok(rows) = rows_of(bytes).await else { return Ok(None) };
            batches.extend(rows);
        }
        let count =
            |batches: &[RecordBatch]| batches.iter().map(|b| b.num_rows() as u64).sum::<u64>();
        let before: u64 = gone.iter().map(|segment| segment.rows).sum();
        if count(&batches) != before {
            return Ok(None);
        }
        batches.extend_from_slice(came);
        let Ok(file) = self.database.tables().new_segment(table.group().unwrap_or_default()).await
        else {
            return Ok(None);
        };
        let rows = together(batches, Arc::clone(&writing.schema));
        let Ok((file, figures)) = write_segment(SegmentFile::new(file), rows, writing).await else {
            return Ok(None);
        };
        let written = Written { rows: count(came), bytes: figures.bytes };
        let merged =
            self.database.tables().merge_segments(table, gone.to_vec(), file, figures).await?;
        Ok(merged.then_some(written))
    }

    /// Removes all rows from a table; returns how many there were.
    ///
    /// # Errors
    /// There is no such table.
    pub async fn truncate(&self, name: &str) -> Result<u64, Error> {
        match self.catalog.of_statement() {
            Some(definitions) => Ok(definitions.truncate_columnar(name)?.rows()),
            None => Ok(self.database.tables().truncate_columnar(name).await?.rows()),
        }
    }
}

/// Refuses rows whose columns are not the table's, in the same order: values would end up in the wrong
/// columns.
fn check_columns(table: &str, rows: &SchemaRef, schema: &SchemaRef) -> Result<(), Error> {
    let names = |schema: &SchemaRef| {
        schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>()
    };
    let (own, theirs) = (names(schema), names(rows));
    if own != theirs {
        let text = format!(
            "the columns of table \"{table}\" are {}, those of the rows are {}",
            own.join(","),
            theirs.join(",")
        );
        return Err(
            Error::new(913, "42601", text).next("give the rows the same columns in the same order")
        );
    }
    Ok(())
}
