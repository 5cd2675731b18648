//! Diagnosis of a failed query over Parquet files: which file, and which column of it, cannot be read.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use datafusion::datasource::physical_plan::ParquetSource;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use parquet::column::page::PageReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use crate::csv::table::{shown_of, unreadable};
use crate::error::Error;
use crate::failure::{from_datafusion, from_store, ours};
use crate::files::csv_format::external;
use crate::files::parquet_check::{footer, in_column};

/// Whether an error comes from reading Parquet, and does not name the file.
fn is_of_parquet(error: &DataFusionError) -> bool {
    let first: &(dyn std::error::Error + 'static) = error;
    ours(error).is_none()
        && std::iter::successors(Some(first), |e| e.source()).any(|e| {
            e.is::<ParquetError>()
                || matches!(e.downcast_ref(), Some(DataFusionError::ParquetError(_)))
        })
}

/// The error of a query with its file and column, if they can be found.
pub(crate) async fn diagnosed(
    plan: &Arc<dyn ExecutionPlan>,
    runtime: &RuntimeEnv,
    error: DataFusionError,
) -> DataFusionError {
    if !is_of_parquet(&error) {
        return error;
    }
    match in_plan(plan, runtime).await {
        Some(found) => external(found),
        None => error,
    }
}

async fn in_plan(plan: &Arc<dyn ExecutionPlan>, runtime: &RuntimeEnv) -> Option<Error> {
    let mut waiting = vec![Arc::clone(plan)];
    while let Some(plan) = waiting.pop() {
        waiting.extend(plan.children().into_iter().cloned());
        let source = plan.downcast_ref::<DataSourceExec>();
        let files = source.and_then(|source| source.downcast_to_file_source::<ParquetSource>());
        let Some((config, _)) = files else { continue };
        let store = runtime.object_store(&config.object_store_url).ok()?;
        for file in config.file_groups.iter().flat_map(|group| group.iter()) {
            if let Err(error) = check(&store, &file.object_meta).await {
                let shown = shown_of(config.object_store_url.as_str(), &file.object_meta.location);
                return Some(unreadable(&shown, error));
            }
        }
    }
    None
}

/// Reads every page of a file once.
async fn check(store: &Arc<dyn ObjectStore>, object: &ObjectMeta) -> Result<(), Error> {
    let metadata = DFParquetMetadata::new(store.as_ref(), object).fetch_metadata().await;
    let metadata = metadata.map_err(|e| from_datafusion(&e))?;
    footer(&metadata)?;
    for (at, group) in metadata.row_groups().iter().enumerate() {
        for column in group.columns() {
            let (start, length) = column.byte_range();
            let range = start..start.saturating_add(length);
            let bytes = store.get_range(&object.location, range).await;
            let chunk = Chunk { start, bytes: bytes.map_err(|e| from_store(&e))? };
            let rows = usize::try_from(group.num_rows()).unwrap_or(0);
            let checked = pages(chunk, column, rows);
            checked.map_err(|e| in_column(&e, &column.column_path().string(), at))?;
        }
    }
    Ok(())
}

fn pages(chunk: Chunk, column: &ColumnChunkMetaData, rows: usize) -> Result<(), ParquetError> {
    let mut pages = SerializedPageReader::new(Arc::new(chunk), column, rows, None)?;
    while pages.get_next_page()?.is_some() {}
    Ok(())
}

/// A piece of a file, with its offset.
struct Chunk {
    start: u64,
    bytes: Bytes,
}

impl Chunk {
    fn from(&self, start: u64) -> Result<Bytes, ParquetError> {
        let at = start.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        let at = at.filter(|at| *at <= self.bytes.len());
        let beyond = || ParquetError::EOF(format!("byte {start} is outside of the column"));
        Ok(self.bytes.slice(at.ok_or_else(beyond)?..))
    }
}

impl Length for Chunk {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for Chunk {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let rest = self.from(start)?;
        match rest.len() >= length {
            true => Ok(rest.slice(..length)),
            false => Err(ParquetError::EOF(format!("byte {start} is cut off"))),
        }
    }
}
