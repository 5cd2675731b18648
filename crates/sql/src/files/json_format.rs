//! JSON for DataFusion, one object a line. Its own writer omits nulls, also as values in maps, and writes
//! NaN as null: a file read back would lack columns, keys and values.

use std::collections::HashMap;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::catalog::Session;
use datafusion::common::config::JsonOptions;
use datafusion::common::file_options::json_writer::JsonWriterOptions;
use datafusion::common::parsers::CompressionTypeVariant;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{GetExt, Result, Statistics};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::json::{JsonFormat, JsonFormatFactory};
use datafusion::datasource::file_format::write::BatchSerializer;
use datafusion::datasource::file_format::write::demux::DemuxedStreamReceiver;
use datafusion::datasource::file_format::write::orchestration::spawn_writer_tasks_and_join;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSink, FileSinkConfig, FileSource};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use object_store::{ObjectMeta, ObjectStore};

use crate::error::Error;
use crate::files::csv_format::external;
use crate::output::json_lines;

/// Makes such formats from a statement's options.
#[derive(Debug, Default)]
pub(crate) struct JsonFormats(JsonFormatFactory);

impl GetExt for JsonFormats {
    fn get_ext(&self) -> String {
        self.0.get_ext()
    }
}

impl FileFormatFactory for JsonFormats {
    fn create(
        &self,
        state: &dyn Session,
        format_options: &HashMap<String, String>,
    ) -> Result<Arc<dyn FileFormat>> {
        Ok(Arc::new(Json { inner: of_all_rows(self.0.create(state, format_options)?) }))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(Json { inner: of_all_rows(self.0.default()) })
    }
}

/// A format whose columns and types are inferred from all rows, not from the first thousand, unless
/// specified.
fn of_all_rows(format: Arc<dyn FileFormat>) -> Arc<dyn FileFormat> {
    match format.downcast_ref::<JsonFormat>().map(JsonFormat::options) {
        Some(options) if options.schema_infer_max_rec.is_none() => {
            let options = JsonOptions { schema_infer_max_rec: Some(usize::MAX), ..options.clone() };
            Arc::new(JsonFormat::default().with_options(options))
        }
        _ => format,
    }
}

/// JSON that is read in DataFusion's way.
#[derive(Debug)]
struct Json {
    inner: Arc<dyn FileFormat>,
}

#[async_trait]
impl FileFormat for Json {
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
        self.inner.infer_schema(state, store, objects).await
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        table_schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        self.inner.infer_stats(state, store, table_schema, object).await
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        conf: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.inner.create_physical_plan(state, conf).await
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        _: &dyn Session,
        config: FileSinkConfig,
        order_requirements: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if config.insert_op != InsertOp::Append {
            return Err(external(Error::not_yet("INSERT OVERWRITE of JSON files")));
        }
        let options = match self.inner.downcast_ref::<JsonFormat>() {
            Some(format) => JsonWriterOptions::try_from(format.options())?,
            None => JsonWriterOptions::new(CompressionTypeVariant::UNCOMPRESSED),
        };
        let sink = Arc::new(JsonSink { config, options });
        Ok(Arc::new(DataSinkExec::new(input, sink, order_requirements)))
    }

    fn file_source(&self, table_schema: TableSchema) -> Arc<dyn FileSource> {
        self.inner.file_source(table_schema)
    }
}

/// The sink.
struct JsonSink {
    config: FileSinkConfig,
    options: JsonWriterOptions,
}

impl Debug for JsonSink {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("JsonSink")
    }
}

impl DisplayAs for JsonSink {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut Formatter) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => f.write_str("JsonSink"),
            DisplayFormatType::TreeRender => {
                writeln!(f, "format: json")?;
                write!(f, "file={}", self.config.original_url)
            }
        }
    }
}

struct Serializer;

impl BatchSerializer for Serializer {
    fn serialize(&self, batch: RecordBatch, _: bool) -> Result<Bytes> {
        let mut bytes = Vec::new();
        json_lines(&batch, &mut bytes)?;
        Ok(Bytes::from(bytes))
    }
}

#[async_trait]
impl FileSink for JsonSink {
    fn config(&self) -> &FileSinkConfig {
        &self.config
    }

    async fn spawn_writer_tasks_and_join(
        &self,
        context: &Arc<TaskContext>,
        demux_task: SpawnedTask<Result<()>>,
        file_stream_rx: DemuxedStreamReceiver,
        object_store: Arc<dyn ObjectStore>,
    ) -> Result<u64> {
        spawn_writer_tasks_and_join(
            context,
            Arc::new(Serializer),
            self.options.compression.into(),
            self.options.compression_level,
            object_store,
            demux_task,
            file_stream_rx,
        )
        .await
    }
}

#[async_trait]
impl DataSink for JsonSink {
    fn schema(&self) -> &SchemaRef {
        self.config.output_schema()
    }

    async fn write_all(
        &self,
        data: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        FileSink::write_all(self, data, context).await
    }
}
