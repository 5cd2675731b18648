//! Parquet for DataFusion, which trusts the footer of a file: here the footer is first checked against
//! the rest.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Result, Statistics};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::parquet::ParquetFormatFactory;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory, FileMeta};
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::{FileScanConfig, FileSinkConfig, FileSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_plan::ExecutionPlan;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use crate::csv::table::{shown_of, unreadable};
use crate::error::Error;
use crate::failure::from_datafusion;
use crate::files::csv_format::external;
use crate::files::parquet_check::{extents, footer};
use crate::files::parquet_trust::{
    believed, distrusting, without_floats, without_odd_dictionaries,
};

/// Makes such formats from a statement's options.
#[derive(Debug, Default)]
pub(crate) struct ParquetFormats(ParquetFormatFactory);

impl GetExt for ParquetFormats {
    fn get_ext(&self) -> String {
        self.0.get_ext()
    }
}

impl FileFormatFactory for ParquetFormats {
    fn create(
        &self,
        state: &dyn Session,
        format_options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        Ok(Arc::new(Checked { inner: self.0.create(state, format_options)? }))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(Checked { inner: self.0.default() })
    }
}

/// Parquet whose files are checked before they are trusted.
#[derive(Debug)]
struct Checked {
    inner: Arc<dyn FileFormat>,
}

/// Refuses a file that contradicts itself.
async fn check(
    state: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    url: &str,
    object: &ObjectMeta,
) -> Result<()> {
    let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
    let shown = shown_of(url, &object.location);
    if object.size == 0 {
        let empty = Error::new(29913, "XX001", "it is empty, without even a footer")
            .next("take it away, or write it again");
        return Err(external(unreadable(&shown, empty)));
    }
    check_tail(store, object).await.map_err(|e| external(unreadable(&shown, e)))?;
    // The planner or reader of the file gets it from the same cache.
    let metadata = DFParquetMetadata::new(store.as_ref(), object)
        .with_file_metadata_cache(Some(cache))
        .fetch_metadata()
        .await
        .map_err(|e| external(unreadable(&shown, from_datafusion(&e))))?;
    let checked = footer(&metadata).and_then(|_| extents(&metadata, object.size));
    checked.map_err(|e| external(unreadable(&shown, e)))
}

/// Refuses a footer that would begin before the start of the file.
async fn check_tail(store: &Arc<dyn ObjectStore>, object: &ObjectMeta) -> Result<(), Error> {
    let from = object.size.saturating_sub(TAIL);
    let tail = store.get_range(&object.location, from..object.size).await;
    let tail = tail.map_err(|e| crate::failure::from_any(&e))?;
    let [a, b, c, d, ..] = tail[..] else { return Err(too_short(object.size)) };
    let footer = u64::from(u32::from_le_bytes([a, b, c, d]));
    match tail.len() as u64 == TAIL && footer + TAIL <= object.size {
        true => Ok(()),
        false => Err(too_short(object.size)),
    }
}

/// The last bytes of a file: the length of the footer, and four magic bytes.
const TAIL: u64 = 8;

fn too_short(size: u64) -> Error {
    let text = format!("it has {size} bytes, too few for the footer that its end tells of");
    Error::new(29913, "XX001", text).next("check the file; write it again if it was cut short")
}

/// The statistics of the columns of a file, as far as they can be trusted.
async fn statistics(
    state: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    schema: &SchemaRef,
    object: &ObjectMeta,
) -> Result<Statistics> {
    let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
    let metadata = DFParquetMetadata::new(store.as_ref(), object)
        .with_file_metadata_cache(Some(cache))
        .fetch_metadata()
        .await?;
    let known = DFParquetMetadata::statistics_from_parquet_metadata(&believed(metadata), schema)?;
    Ok(without_floats(known, schema))
}

/// Refuses files if one of them contradicts itself.
///
/// # Errors
/// 29913 with the file.
pub(crate) async fn check_all(
    state: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    url: &str,
    objects: Vec<&ObjectMeta>,
) -> Result<()> {
    let at_once = state.config_options().execution.meta_fetch_concurrency.get();
    stream::iter(objects)
        .map(|object| check(state, store, url, object))
        .boxed()
        .buffer_unordered(at_once)
        .try_collect()
        .await
}

#[async_trait]
impl FileFormat for Checked {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }

    fn get_ext_with_compression(&self, by: &FileCompressionType) -> Result<String> {
        self.inner.get_ext_with_compression(by)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.inner.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let schema = self.inner.infer_schema(state, store, objects).await?;
        Ok(without_odd_dictionaries(schema))
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        statistics(state, store, &table_schema, object).await
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Option<LexOrdering>> {
        self.inner.infer_ordering(state, store, table_schema, object).await
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<FileMeta> {
        let schema = Arc::clone(&table_schema);
        let mut known = self.inner.infer_stats_and_ordering(state, store, schema, object).await?;
        known.statistics = statistics(state, store, &table_schema, object).await?;
        Ok(known)
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        conf: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let url = &conf.object_store_url;
        let store = state.runtime_env().object_store(url)?;
        let files = conf.file_groups.iter().flat_map(|group| group.iter());
        let objects = files.map(|file| &file.object_meta).collect();
        check_all(state, &store, url.as_str(), objects).await?;
        Ok(distrusting(self.inner.create_physical_plan(state, conf).await?))
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        conf: FileSinkConfig,
        order_requirements: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.inner.create_writer_physical_plan(input, state, conf, order_requirements).await
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        self.inner.file_source(table_schema)
    }
}
