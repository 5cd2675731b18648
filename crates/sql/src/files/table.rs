//! A table over files in place: each read checks whether the files still exist.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{Constraints, Result as DataFusionResult};
use datafusion::datasource::listing::{ListingTable, ListingTableUrl};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use object_store::ObjectMeta;

use crate::csv::table::{shown_of, unreadable};
use crate::error::Error;
use crate::files::csv_format::external;
use crate::files::place::Place;

/// A table over files that existed when it was opened.
#[derive(Debug)]
pub(crate) struct FileTable {
    inner: ListingTable,
    places: Vec<Place>,
    kind: Kind,
    may_be_empty: bool,
}

/// What a file must contain to define its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A footer.
    Parquet,
    /// A header, or nothing.
    Csv {
        /// Whether each file has a header.
        has_header: bool,
    },
    /// Nothing is known.
    Other,
}

/// The files of a place that are not empty.
pub(crate) async fn files_of(
    state: &SessionState,
    place: &Place,
    kind: Kind,
    may_be_empty: bool,
) -> Result<Vec<ObjectMeta>, Error> {
    let files = place.files(state).await?;
    if files.is_empty() && !may_be_empty {
        return Err(place.gone());
    }
    let (url, _) = place.store(state)?;
    let needs_bytes = kind != Kind::Csv { has_header: false };
    match files.iter().find(|file| file.size == 0 && needs_bytes) {
        Some(empty) => {
            let text = "the file is empty: it does not say what its columns are";
            let error = Error::new(29913, "22P04", text).next("take it away, or write it again");
            Err(unreadable(&shown_of(&url, &empty.location), error))
        }
        None => Ok(files),
    }
}

impl FileTable {
    /// A table over the files of `places`, which may have none if `may_be_empty`.
    pub fn new(
        inner: ListingTable,
        places: Vec<Place>,
        kind: Kind,
        may_be_empty: bool,
    ) -> FileTable {
        FileTable { inner, places, kind, may_be_empty }
    }

    /// Where its files are.
    pub fn urls(&self) -> &[ListingTableUrl] {
        self.inner.table_paths()
    }

    async fn check(&self, state: &dyn Session) -> Result<(), Error> {
        let Some(state) = state.as_any().downcast_ref::<SessionState>() else { return Ok(()) };
        for place in &self.places {
            files_of(state, place, self.kind, self.may_be_empty).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl TableProvider for FileTable {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.inner.constraints()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.inner.get_table_definition()
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.inner.get_column_default(column)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        // A file that is gone is not a file without rows.
        self.check(state).await.map_err(external)?;
        self.inner.scan(state, projection, filters, limit).await
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> DataFusionResult<Vec<TableProviderFilterPushDown>> {
        self.inner.supports_filters_pushdown(filters)
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        insert_op: InsertOp,
    ) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
        self.inner.insert_into(state, input, insert_op).await
    }
}
