//! The loader: Parquet and CSV files and TPC-H's generated rows become Parquet objects in a store. An
//! object appears whole or not at all; so does a set of them, as long as this process lives.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path as FilePath;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use futures_util::StreamExt;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use crate::csv::CsvForm;
use crate::csv::file::{CsvFile, read_csv};
use crate::csv::reject::Rejects;
use crate::error::{Error, stopped};
use crate::failure::{from_arrow, from_store, io_error, parquet_error};
use crate::files::parquet_check;
use crate::source_format::SourceFormat;
use crate::tpch::TpchTable;

/// The most rows of a row group.
const ROW_GROUP_ROWS: u64 = 1 << 20;
/// A smaller table is divided more finely, so that all cores can read it; but not below this.
const ROW_GROUP_ROWS_MIN: u64 = 1 << 17;
/// Bytes of one part of an upload.
const UPLOAD_PART: usize = 8 << 20;
/// Parts of an upload in flight.
const UPLOAD_PARTS: usize = 4;

/// How much has been done, for a progress bar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Rows written so far.
    pub rows: u64,
    /// Bytes of Parquet written so far.
    pub bytes: u64,
}

/// A callback, called now and then with the progress of a load.
pub type OnProgress = Arc<dyn Fn(Progress) + Send + Sync>;

/// Options of a load.
#[derive(Clone)]
pub struct LoadOptions {
    /// Threads that generate and encode.
    pub threads: usize,
    /// The progress callback.
    pub on_progress: Option<OnProgress>,
}

impl std::fmt::Debug for LoadOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LoadOptions({} threads)", self.threads)
    }
}

/// An object that was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The table it is for.
    pub table: String,
    /// Its path in the store.
    pub path: Path,
    /// Rows in it.
    pub rows: u64,
    /// Its bytes.
    pub bytes: u64,
}

fn properties(schema: &Schema) -> WriterProperties {
    let level = ZstdLevel::try_new(1).expect("level 1 exists");
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS as usize));
    for field in schema.fields() {
        // Nearly every comment is unique: a dictionary costs time and saves nothing.
        if field.name().ends_with("_comment") {
            properties =
                properties.set_column_dictionary_enabled(field.name().as_str().into(), false);
        }
    }
    properties.build()
}

/// An object being uploaded to a store: visible when [`Upload::finish`] returns, never before.
struct Upload {
    writer: BufWriter,
    bytes: u64,
}

impl Upload {
    fn new(store: &Arc<dyn ObjectStore>, path: &Path) -> Upload {
        let writer = BufWriter::with_capacity(Arc::clone(store), path.clone(), UPLOAD_PART)
            .with_max_concurrency(UPLOAD_PARTS);
        Upload { writer, bytes: 0 }
    }

    async fn put(&mut self, bytes: Bytes) -> Result<(), Error> {
        self.bytes += bytes.len() as u64;
        self.writer.put(bytes).await.map_err(|e| from_store(&e))
    }

    async fn finish(mut self) -> Result<u64, Error> {
        match self.writer.shutdown().await {
            Ok(()) => Ok(self.bytes),
            Err(e) => Err(io_error(&e)),
        }
    }

    async fn abort(mut self) {
        // If the abort fails, nothing becomes visible either: the upload was not completed.
        let _ = self.writer.abort().await;
    }
}

/// Generates TPC-H at `scale` into objects `prefix/table.parquet` of `store`, all eight or none.
///
/// # Errors
/// What the store reports; everything written before is removed.
#[boxed]
pub async fn tpch(
    store: Arc<dyn ObjectStore>,
    prefix: &Path,
    scale: f64,
    options: &LoadOptions,
) -> Result<Vec<Loaded>, Error> {
    if !(scale > 0.0 && scale <= 1000.0) {
        return Err(Error::new(
            70011,
            "22023",
            format!("scale {scale} is not between 0 (excluded) and 1000"),
        ));
    }
    let mut loaded = Vec::new();
    let mut before = Progress::default();
    for table in TpchTable::ALL {
        let path = prefix.clone().join(format!("{}.parquet", table.name()));
        match tpch_table(&store, table, &path, scale, before, options).await {
            Ok(one) => {
                before.rows += one.rows;
                before.bytes += one.bytes;
                loaded.push(one);
            }
            Err(error) => {
                for one in &loaded {
                    // The first error is the one to report.
                    let _ = store.delete(&one.path).await;
                }
                return Err(error);
            }
        }
    }
    Ok(loaded)
}

type EncodedPart = Result<(Vec<ArrowColumnChunk>, u64), ParquetError>;

fn encode_part(
    factory: &ArrowRowGroupWriterFactory,
    index: usize,
    schema: &SchemaRef,
    batches: impl Iterator<Item = RecordBatch>,
) -> EncodedPart {
    let mut writers = factory.create_column_writers(index)?;
    let mut rows = 0;
    for batch in batches {
        rows += batch.num_rows() as u64;
        let mut next = writers.iter_mut();
        for (field, column) in schema.fields().iter().zip(batch.columns()) {
            for leaf in compute_leaves(field, column)? {
                next.next().expect("a writer for each leaf column").write(&leaf)?;
            }
        }
    }
    let chunks = writers.into_iter().map(|w| w.close()).collect::<Result<_, _>>()?;
    Ok((chunks, rows))
}

async fn tpch_table(
    store: &Arc<dyn ObjectStore>,
    table: TpchTable,
    path: &Path,
    scale: f64,
    before: Progress,
    options: &LoadOptions,
) -> Result<Loaded, Error> {
    let mut upload = Upload::new(store, path);
    match tpch_rows(&mut upload, table, scale, before, options).await {
        Ok(rows) => {
            let bytes = upload.finish().await?;
            Ok(Loaded { table: table.name().to_string(), path: path.clone(), rows, bytes })
        }
        Err(error) => {
            upload.abort().await;
            Err(error)
        }
    }
}

async fn tpch_rows(
    upload: &mut Upload,
    table: TpchTable,
    scale: f64,
    before: Progress,
    options: &LoadOptions,
) -> Result<u64, Error> {
    let threads = options.threads.max(1);
    let total = table.rows(scale);
    let group_rows = (total / (2 * threads as u64)).clamp(ROW_GROUP_ROWS_MIN, ROW_GROUP_ROWS);
    let parts = i32::try_from(total.div_ceil(group_rows).max(1)).unwrap_or(i32::MAX);
    let schema = table.schema();
    let writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), Some(properties(&schema)))
        .map_err(|e| parquet_error(&e))?;
    let (mut writer, factory) = writer.into_serialized_writer().map_err(|e| parquet_error(&e))?;
    let factory = Arc::new(factory);
    // Row groups are encoded in parallel and arrive in order; no more than `threads` exist.
    let mut encoded = futures_util::stream::iter(1..=parts)
        .map(|part| {
            let (factory, schema) = (Arc::clone(&factory), Arc::clone(&schema));
            tokio::task::spawn_blocking(move || {
                let batches = table.batches(scale, part, parts);
                encode_part(&factory, part as usize - 1, &schema, batches)
            })
        })
        .buffered(threads);
    let mut rows = 0;
    while let Some(part) = encoded.next().await {
        let (chunks, part_rows) = part.map_err(|_| stopped())?.map_err(|e| parquet_error(&e))?;
        append(&mut writer, chunks).map_err(|e| parquet_error(&e))?;
        upload.put(std::mem::take(writer.inner_mut()).into()).await?;
        rows += part_rows;
        if let Some(tell) = &options.on_progress {
            tell(Progress { rows: before.rows + rows, bytes: before.bytes + upload.bytes });
        }
    }
    writer.finish().map_err(|e| parquet_error(&e))?;
    upload.put(std::mem::take(writer.inner_mut()).into()).await?;
    Ok(rows)
}

fn append(
    writer: &mut SerializedFileWriter<Vec<u8>>,
    chunks: Vec<ArrowColumnChunk>,
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    for chunk in chunks {
        chunk.append_to_row_group(&mut group)?;
    }
    group.close()?;
    writer.flush()?;
    Ok(())
}

/// Loads one file into the object `path`.
///
/// # Errors
/// The file is not what `format` says, or the store fails; then there is no object.
#[boxed]
pub async fn file(
    source: &FilePath,
    format: SourceFormat,
    store: Arc<dyn ObjectStore>,
    path: &Path,
    table: &str,
    options: &LoadOptions,
) -> Result<Loaded, Error> {
    let shown = source.display().to_string();
    let opened = source.to_path_buf();
    let file = tokio::task::spawn_blocking(move || File::open(opened))
        .await
        .map_err(|_| stopped())?
        .map_err(|e| Error::new(27037, "58P01", format!("cannot open \"{shown}\": {e}")))?;
    // Small: the disk below is the bottleneck, and what is in the channel takes memory.
    let (send, mut receive) = mpsc::channel::<(Bytes, u64)>(2);
    let reader = tokio::task::spawn_blocking(move || match format {
        SourceFormat::Parquet => copy_parquet(file, &send),
        SourceFormat::Segment => {
            Err(Error::not_yet("a segment as a Parquet file").next("load it without --parquet"))
        }
        SourceFormat::Csv { form, rejects } => encode_csv(file, *form, rejects, &send),
    });
    let mut upload = Upload::new(&store, path);
    let mut written = Ok(());
    while let Some((bytes, rows)) = receive.recv().await {
        written = upload.put(bytes).await;
        if written.is_err() {
            break;
        }
        if let Some(tell) = &options.on_progress {
            tell(Progress { rows, bytes: upload.bytes });
        }
    }
    drop(receive);
    let read = reader.await.map_err(|_| stopped()).and_then(|r| {
        r.map_err(|e| {
            Error::new(29913, "22P04", format!("\"{}\" cannot be read", source.display()))
                .caused_by(e)
        })
    });
    let rows = match written.and(read) {
        Ok(rows) => rows,
        Err(error) => {
            upload.abort().await;
            return Err(error);
        }
    };
    let bytes = upload.finish().await?;
    Ok(Loaded { table: table.to_string(), path: path.clone(), rows, bytes })
}

type Sender = mpsc::Sender<(Bytes, u64)>;

fn copy_parquet(mut file: File, send: &Sender) -> Result<u64, Error> {
    let again = file.try_clone().map_err(|e| io_error(&e))?;
    let rows = parquet_check::check(again)?;
    file.rewind().map_err(|e| io_error(&e))?;
    loop {
        let mut chunk = Vec::with_capacity(UPLOAD_PART);
        let length = file
            .by_ref()
            .take(UPLOAD_PART as u64)
            .read_to_end(&mut chunk)
            .map_err(|e| io_error(&e))?;
        if length == 0 {
            return Ok(rows);
        }
        send.blocking_send((chunk.into(), rows)).map_err(|_| stopped())?;
    }
}

fn encode_csv(
    file: File,
    form: CsvForm,
    rejects: Option<Rejects>,
    send: &Sender,
) -> Result<u64, Error> {
    let CsvFile { schema, batches: reader, .. } = read_csv(file, form, None, rejects)?;
    let mut writer =
        ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), Some(properties(&schema)))
            .map_err(|e| parquet_error(&e))?;
    let mut rows = 0;
    for batch in reader {
        let batch = batch.map_err(|e| from_arrow(&e))?;
        rows += batch.num_rows() as u64;
        writer.write(&batch).map_err(|e| parquet_error(&e))?;
        if writer.inner().len() >= UPLOAD_PART {
            let bytes = std::mem::take(writer.inner_mut());
            send.blocking_send((bytes.into(), rows)).map_err(|_| stopped())?;
        }
    }
    writer.finish().map_err(|e| parquet_error(&e))?;
    let bytes = std::mem::take(writer.inner_mut());
    send.blocking_send((bytes.into(), rows)).map_err(|_| stopped())?;
    Ok(rows)
}
