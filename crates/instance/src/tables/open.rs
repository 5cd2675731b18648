//! Opening the segments of columnar tables for the cell, and checking them.

use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_cell::Segment;

use super::Tables;
use crate::catalog::{self, Table, name};
use crate::error::{Error, Result};
use crate::scans::scan_error;

impl Tables {
    /// The segments of a columnar table with that many columns, opened as far as they are not yet.
    ///
    /// # Errors
    /// As [`Tables::open_segment`]; 70124 if one is damaged on every copy.
    #[boxed]
    pub async fn segments(&self, table: &Table, columns: usize) -> Result<Vec<Arc<Segment>>> {
        let mut segments = Vec::with_capacity(table.segments.len());
        let group = table.group().unwrap_or_default().to_owned();
        for one in &table.segments {
            let place = (group.clone(), one.file.clone());
            if let Some(open) = self.scans.opened(&place) {
                segments.push(open);
                continue;
            }
            let file = Arc::new(self.open_segment(table, one)?);
            let opened = Segment::open(file, one.bytes, table.id, Some(columns), one.rows).await;
            let opened = Arc::new(opened.map_err(|error| scan_error(&table.name, &error))?);
            self.scans.keep(place, &opened);
            // Who dropped the table meanwhile may have looked here before it was put in.
            if self.catalog().current().owner(&group, &one.file).is_none() {
                self.scans.release(&group, Some(&[&one.file]));
            }
            segments.push(opened);
        }
        Ok(segments)
    }

    /// Checks the header of each segment of the columnar tables of a group, and the whole of those that
    /// `whole` names by path; returns what is wrong, by table. It finds files whose checksums are right
    /// and that are not what the table holds, as FORCE may leave them.
    #[boxed]
    pub async fn check_tables(&self, group: &str, whole: &[String]) -> Vec<(String, Error)> {
        let catalog = self.catalog().current();
        let mut found = Vec::new();
        for table in catalog.columnar_tables().filter(|t| t.group() == Some(group)) {
            for segment in &table.segments {
                match self.check_segment(table, segment, whole.contains(&segment.file)).await {
                    Ok(()) => {}
                    // It was dropped, or written anew, meanwhile.
                    Err(_) if self.catalog().current().owner(group, &segment.file).is_none() => {}
                    Err(error) => {
                        found.push((name::shown(&table.name).into_owned(), error));
                        break;
                    }
                }
            }
        }
        found
    }

    async fn check_segment(
        &self,
        table: &Table,
        one: &catalog::Segment,
        whole: bool,
    ) -> Result<()> {
        let file = Arc::new(self.open_segment(table, one)?);
        let failed = |error| scan_error(&table.name, &error);
        let opened = Segment::open(file, one.bytes, table.id, None, one.rows).await;
        let opened = opened.map_err(failed)?;
        match whole {
            true => opened.verify().await.map_err(failed),
            false => Ok(()),
        }
    }
}
