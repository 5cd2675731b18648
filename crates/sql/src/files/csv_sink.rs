//! The CSV sink: the rows of COPY and INSERT, written as CSV files.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::common::Result;
use datafusion::common::runtime::SpawnedTask;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::write::BatchSerializer;
use datafusion::datasource::file_format::write::demux::DemuxedStreamReceiver;
use datafusion::datasource::file_format::write::orchestration::spawn_writer_tasks_and_join;
use datafusion::datasource::physical_plan::{FileSink, FileSinkConfig};
use datafusion::datasource::sink::DataSink;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use object_store::ObjectStore;

use crate::csv::CsvForm;
use crate::csv::write::{WriteForm, bytes_of};
use crate::files::csv_format::external;

/// The sink.
pub(crate) struct CsvSink {
    config: FileSinkConfig,
    form: CsvForm,
    how: WriteForm,
}

impl CsvSink {
    /// For the files of a statement.
    pub(crate) fn new(config: FileSinkConfig, form: CsvForm, how: WriteForm) -> CsvSink {
        CsvSink { config, form, how }
    }
}

impl Debug for CsvSink {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("CsvSink")
    }
}

impl DisplayAs for CsvSink {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut Formatter) -> fmt::Result {
        match t {
            DisplayFormatType::Default | DisplayFormatType::Verbose => f.write_str("CsvSink"),
            DisplayFormatType::TreeRender => {
                writeln!(f, "format: csv")?;
                write!(f, "file={}", self.config.original_url)
            }
        }
    }
}

#[derive(Clone)]
struct Serializer {
    form: CsvForm,
    how: WriteForm,
}

impl BatchSerializer for Serializer {
    fn serialize(&self, batch: RecordBatch, initial: bool) -> Result<Bytes> {
        let with_header = initial && self.form.has_header;
        let bytes = bytes_of(&batch, with_header, &self.form, &self.how);
        Ok(Bytes::from(bytes.map_err(external)?))
    }
}

#[async_trait]
impl FileSink for CsvSink {
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
        let serializer = Serializer { form: self.form.clone(), how: self.how.clone() };
        spawn_writer_tasks_and_join(
            context,
            Arc::new(serializer),
            FileCompressionType::UNCOMPRESSED,
            None,
            object_store,
            demux_task,
            file_stream_rx,
        )
        .await
    }
}

#[async_trait]
impl DataSink for CsvSink {
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
