//! Columnar and external tables as parts of a transaction: a segment is durable and named at once, and
//! belongs to its table when the transaction commits.

use std::collections::BTreeSet;

use async_recursion::async_recursion as boxed;
use cellar_diskgroup::File;

use super::Definitions;
use crate::catalog::{Catalog, Table, TableKind};
use crate::error::{Error, Result};
use crate::tables::SegmentFigures;

impl Definitions {
    /// Adds a columnar table, with its first rows if there are any.
    ///
    /// # Errors
    /// 00955 the name is used; the group is not mounted; what writing reports.
    #[boxed]
    pub async fn add_columnar(
        &self,
        mut table: Table,
        segment: Option<(File, SegmentFigures)>,
    ) -> Result<()> {
        self.catalog()?.check_free(&table.name)?;
        if let Some((file, figures)) = segment {
            let segment = self.publish(&table, file, figures).await?;
            table.segments.push(segment);
        }
        self.define(|catalog| catalog.with(table, false))
    }

    /// Adds rows to the columnar table that had this name and id when they were made.
    ///
    /// # Errors
    /// 00942 the table was dropped or made anew meanwhile; what writing reports.
    #[boxed]
    pub async fn append_segment(
        &self,
        name: &str,
        id: u64,
        file: File,
        figures: SegmentFigures,
    ) -> Result<()> {
        let table = self.catalog()?.check_same(name, id)?.clone();
        let segment = self.publish(&table, file, figures).await?;
        self.define(|catalog| catalog.appended(name, id, segment))
    }

    /// Takes all rows from a columnar table; returns it as it was.
    ///
    /// # Errors
    /// 00942 there is none, 70118 it is not columnar.
    pub fn truncate_columnar(&self, name: &str) -> Result<Table> {
        let was = self.catalog()?.columnar(name)?.clone();
        self.define(|catalog| Ok(catalog.truncated(name)?.0))?;
        Ok(was)
    }

    /// Drops a columnar or external table.
    ///
    /// # Errors
    /// 00942 there is none, 70118 it is in the heap.
    pub fn drop_other(&self, name: &str) -> Result<()> {
        if self.catalog()?.table(name).is_some_and(|table| table.kind == TableKind::Heap) {
            return Err(Error::new(70118, format!("table \"{name}\" is in the heap")));
        }
        self.define(|catalog| Ok(catalog.without(name)?.0))
    }

    /// Adds an external table, in the place of one of the same name if there is one.
    ///
    /// # Errors
    /// 00955 the name is used by something else.
    pub fn put_external(&self, table: Table) -> Result<()> {
        self.define(|catalog| catalog.with(table, true))
    }
}

/// Tables with the segments that they had and a newer catalog does not name.
pub(super) fn left_segments(was: &Catalog, now: &Catalog) -> Vec<Table> {
    let named: BTreeSet<&str> = files_of(now).collect();
    let left = |table: &Table| {
        let segments = table.segments.iter().filter(|segment| !named.contains(&*segment.file));
        Table { segments: segments.cloned().collect(), ..table.clone() }
    };
    was.columnar_tables().map(left).filter(|table| !table.segments.is_empty()).collect()
}

/// The files of columnar tables.
pub(super) fn files_of(catalog: &Catalog) -> impl Iterator<Item = &str> {
    let segments = catalog.columnar_tables().flat_map(|table| &table.segments);
    segments.map(|segment| segment.file.as_str())
}
