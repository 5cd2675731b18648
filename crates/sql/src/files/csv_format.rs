//! CSV for DataFusion: read and written as everywhere here, not as DataFusion does. Its own reader cannot
//! tell whether a field was quoted, infers types from pieces cut at line ends, and reports record numbers
//! where people count lines.

use std::collections::HashMap;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{GetExt, Result, Statistics};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{
    FileOpenFuture, FileOpener, FileScanConfig, FileScanConfigBuilder, FileSinkConfig, FileSource,
};
use datafusion::datasource::projection::{ProjectionOpener, SplitProjection};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::{
    DisplayFormatType, ExecutionPlan, PhysicalExpr, apply_expression_roots,
};
use futures_util::stream::StreamExt;
use object_store::{ObjectMeta, ObjectStore};

use crate::csv::look::CsvSeen;
use crate::csv::read::{Batches, Wanted, schema_of};
use crate::csv::table::{look_at, shown_of, text_of, unreadable};
use crate::csv::write::WriteForm;
use crate::csv::{Compression, CsvForm};
use crate::error::Error;
use crate::error::stopped;
use crate::files::csv_options::form_of;
use crate::files::csv_sink::CsvSink;

/// Batches in transit from the reading thread.
const AHEAD: usize = 2;

pub(crate) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Makes such formats from a statement's options.
#[derive(Debug, Default)]
pub(crate) struct CsvFormats;

impl GetExt for CsvFormats {
    fn get_ext(&self) -> String {
        "csv".to_owned()
    }
}

impl FileFormatFactory for CsvFormats {
    fn create(
        &self,
        _state: &dyn Session,
        format_options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        let (form, how) = form_of(format_options).map_err(external)?;
        Ok(Arc::new(Csv { form: Arc::new(form), how }))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(Csv { form: Arc::new(CsvForm::new(b',')), how: WriteForm::default() })
    }
}

/// CSV of one form.
#[derive(Debug)]
pub(crate) struct Csv {
    pub(crate) form: Arc<CsvForm>,
    pub(crate) how: WriteForm,
}

#[async_trait]
impl FileFormat for Csv {
    fn get_ext(&self) -> String {
        "csv".to_owned()
    }

    fn get_ext_with_compression(&self, _: &FileCompressionType) -> Result<String> {
        let packed = match self.form.compression {
            Compression::Gzip => ".gz",
            Compression::Zstd => ".zst",
            Compression::None | Compression::Detected => "",
        };
        Ok(format!("csv{packed}"))
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        // Compressed by the writer of rows itself.
        Some(FileCompressionType::UNCOMPRESSED)
    }

    async fn infer_schema(
        &self,
        _state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let mut seen = CsvSeen::default();
        for object in objects {
            look_at(store, object, &self.form, &mut seen).await.map_err(external)?;
        }
        schema_of(seen.types(), &self.form, None).map_err(external)
    }

    async fn infer_stats(
        &self,
        _state: &dyn Session,
        _store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        _object: &ObjectMeta,
    ) -> Result<Statistics> {
        Ok(Statistics::new_unknown(&table_schema))
    }

    async fn create_physical_plan(
        &self,
        _state: &dyn Session,
        conf: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(DataSourceExec::from_data_source(FileScanConfigBuilder::from(conf).build()))
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        _state: &dyn Session,
        conf: FileSinkConfig,
        order_requirements: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if conf.insert_op != InsertOp::Append {
            return Err(external(Error::not_yet("INSERT OVERWRITE of CSV files")));
        }
        let mut form = (*self.form).clone();
        if form.compression == Compression::Detected {
            form.compression = Compression::of_name(&conf.original_url);
        }
        let sink = Arc::new(CsvSink::new(conf, form, self.how.clone()));
        Ok(Arc::new(DataSinkExec::new(input, sink, order_requirements)))
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        Arc::new(CsvFiles {
            form: Arc::clone(&self.form),
            batch_rows: 8192,
            projection: SplitProjection::unprojected(&table_schema),
            table_schema,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

/// CSV files as the source of a scan.
#[derive(Clone)]
struct CsvFiles {
    form: Arc<CsvForm>,
    batch_rows: usize,
    table_schema: TableSchema,
    projection: SplitProjection,
    metrics: ExecutionPlanMetricsSet,
}

impl FileSource for CsvFiles {
    fn create_file_opener(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let wanted = Wanted {
            form: Arc::clone(&self.form),
            schema: Arc::clone(self.table_schema.file_schema()),
            columns: self.projection.file_indices.clone(),
            batch_rows: self.batch_rows,
            rejects: None,
        };
        let url = base_config.object_store_url.as_str().to_owned();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let opener = Arc::new(CsvOpener { wanted, store: object_store, url, metrics });
        ProjectionOpener::try_new(self.projection.clone(), opener, self.table_schema.file_schema())
    }

    fn table_schema(&self) -> &TableSchema {
        &self.table_schema
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(CsvFiles { batch_rows: batch_size, ..self.clone() })
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.projection.source)
    }

    fn try_pushdown_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn FileSource>>> {
        let merged = self.projection.source.try_merge(projection)?;
        let projection = SplitProjection::new(self.table_schema.file_schema(), &merged);
        Ok(Some(Arc::new(CsvFiles { projection, ..self.clone() })))
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        "csv"
    }

    fn supports_repartitioning(&self) -> bool {
        // A line end may be inside quotes: where a row begins is known only by reading from the first byte.
        false
    }

    fn fmt_extra(&self, t: DisplayFormatType, f: &mut Formatter) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, ", has_header={}", self.form.has_header)
            }
            DisplayFormatType::TreeRender => Ok(()),
        }
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.projection.source.iter(), f)
    }
}

/// Opens one of the files.
struct CsvOpener {
    wanted: Wanted,
    store: Arc<dyn ObjectStore>,
    url: String,
    metrics: BaselineMetrics,
}

impl FileOpener for CsvOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let (wanted, store) = (self.wanted.clone(), Arc::clone(&self.store));
        let shown = shown_of(&self.url, &file.object_meta.location);
        let elapsed = self.metrics.elapsed_compute().clone();
        Ok(Box::pin(async move {
            let bytes = text_of(&store, &file.object_meta).await.map_err(external)?;
            let (send, receive) = tokio::sync::mpsc::channel(AHEAD);
            // It ends when nobody listens any more.
            let reading = tokio::task::spawn_blocking(move || {
                let text = match crate::csv::text::decoded(bytes, &wanted.form) {
                    Ok(text) => text,
                    Err(e) => {
                        let _ = send.blocking_send(Err(external(unreadable(&shown, e))));
                        return;
                    }
                };
                let mut batches = Batches::new(text, wanted);
                loop {
                    let timer = elapsed.timer();
                    let Some(batch) = batches.next() else { return };
                    timer.done();
                    let batch = batch
                        .map_err(|e| external(unreadable(&shown, crate::failure::from_arrow(&e))));
                    let is_end = batch.is_err();
                    if send.blocking_send(batch).is_err() || is_end {
                        return;
                    }
                }
            });
            let state = (receive, Some(reading));
            let stream = futures_util::stream::unfold(state, |(mut receive, reading)| async move {
                if let Some(batch) = receive.recv().await {
                    return Some((batch, (receive, reading)));
                }
                // A reader that stopped before the end of the file would lose rows.
                match reading?.await {
                    Ok(()) => None,
                    Err(_) => Some((Err(external(stopped())), (receive, None))),
                }
            });
            Ok(stream.boxed())
        }))
    }
}
