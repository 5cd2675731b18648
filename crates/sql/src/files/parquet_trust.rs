//! Trust in the statistics of a Parquet file: misleading ones are left out.
//!
//! The format leaves NaN out of the bounds of floating-point numbers, so a column of 3, NaN, 3 claims to
//! reach from 3 to 3. Bounds that old writers left in the deprecated fields compare text and unsigned
//! numbers by signed bytes. And a missing count of nulls is not 0. DataFusion takes all of that as exact.
//! Here a reader gets such columns without statistics.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use bytes::Bytes;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::basic::{LogicalType, Type};
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataBuilder,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;

/// Whether the statistics of a column chunk may mislead.
fn is_doubtful(column: &ColumnChunkMetaData) -> bool {
    let descriptor = column.column_descr();
    let of_floats = matches!(column.column_type(), Type::FLOAT | Type::DOUBLE)
        || matches!(descriptor.logical_type_ref(), Some(LogicalType::Float16));
    let Some(statistics) = column.statistics() else { return of_floats };
    let is_unsigned = matches!(
        descriptor.logical_type_ref(),
        Some(LogicalType::Integer(integer)) if !integer.is_signed
    );
    let of_bytes = matches!(column.column_type(), Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY);
    of_floats
        || statistics.null_count_opt().is_none()
        || (statistics.is_min_max_deprecated() && (of_bytes || is_unsigned))
}

/// The same metadata without misleading statistics.
pub(crate) fn believed(metadata: Arc<ParquetMetaData>) -> Arc<ParquetMetaData> {
    let metadata = without_odd_types(metadata);
    let groups = metadata.row_groups();
    if !groups.iter().flat_map(|group| group.columns()).any(is_doubtful) {
        return metadata;
    }
    let index = metadata.column_index().cloned().map(|mut index| {
        for (pages, group) in index.iter_mut().zip(groups) {
            for (pages, column) in pages.iter_mut().zip(group.columns()) {
                if is_doubtful(column) {
                    *pages = ColumnIndexMetaData::NONE;
                }
            }
        }
        index
    });
    let group = |group: &parquet::file::metadata::RowGroupMetaData| {
        let columns = group.columns().iter().map(|column| match is_doubtful(column) {
            true => column.clone().into_builder().clear_statistics().build(),
            false => Ok(column.clone()),
        });
        let columns = columns.collect::<parquet::errors::Result<Vec<_>>>()?;
        group.clone().into_builder().set_column_metadata(columns).build()
    };
    let groups: parquet::errors::Result<Vec<_>> = groups.iter().map(group).collect();
    match groups {
        Ok(groups) => {
            let builder = metadata.as_ref().clone().into_builder();
            Arc::new(builder.set_row_groups(groups).set_column_index(index).build())
        }
        // What was read can be rebuilt; if not, it stays as it was, and the reader reports what is wrong.
        Err(_) => metadata,
    }
}

/// The key under which a writer stores the Arrow types of the columns.
const ARROW_TYPES: &str = "ARROW:schema";

/// The metadata without the stored Arrow types, if some of them are dictionaries that the reader does
/// not decode, or decodes to other values (fixed-size binary, booleans, decimals): the columns then have
/// their Parquet types.
fn without_odd_types(metadata: Arc<ParquetMetaData>) -> Arc<ParquetMetaData> {
    let own = metadata.file_metadata();
    let Some(kept) = own.key_value_metadata() else { return metadata };
    let has_types = kept.iter().any(|pair| pair.key == ARROW_TYPES);
    let schema =
        has_types.then(|| parquet_to_arrow_schema(own.schema_descr(), Some(kept)).ok()).flatten();
    if !schema.is_some_and(|schema| schema.fields().iter().any(|f| is_odd(f.data_type()))) {
        return metadata;
    }
    let rest = kept.iter().filter(|pair| pair.key != ARROW_TYPES).cloned().collect();
    let plain = FileMetaData::new(
        own.version(),
        own.num_rows(),
        own.created_by().map(str::to_owned),
        Some(rest),
        own.schema_descr_ptr(),
        own.column_orders().cloned(),
    );
    let builder = ParquetMetaDataBuilder::new(plain)
        .set_row_groups(metadata.row_groups().to_vec())
        .set_column_index(metadata.column_index().cloned())
        .set_offset_index(metadata.offset_index().cloned());
    Arc::new(builder.build())
}

/// Whether a type contains such a dictionary, at any depth.
fn is_odd(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => {
            values.is_decimal()
                || matches!(**values, DataType::Boolean | DataType::FixedSizeBinary(_))
        }
        DataType::Struct(fields) => fields.iter().any(|field| is_odd(field.data_type())),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => is_odd(field.data_type()),
        _ => false,
    }
}

/// A schema with the value types in place of such dictionaries.
pub(super) fn without_odd_dictionaries(schema: SchemaRef) -> SchemaRef {
    if !schema.fields().iter().any(|field| is_odd(field.data_type())) {
        return schema;
    }
    let fields = schema.fields().iter().map(|field| match field.data_type() {
        DataType::Dictionary(_, values) if is_odd(field.data_type()) => {
            Arc::new(field.as_ref().clone().with_data_type(values.as_ref().clone()))
        }
        _ => Arc::clone(field),
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// Statistics of a file without bounds of floating-point numbers, at any depth.
pub(super) fn without_floats(mut statistics: Statistics, schema: &Schema) -> Statistics {
    for (column, field) in statistics.column_statistics.iter_mut().zip(schema.fields()) {
        if has_floats(field.data_type()) {
            *column = ColumnStatistics {
                max_value: Precision::Absent,
                min_value: Precision::Absent,
                sum_value: Precision::Absent,
                ..column.clone()
            };
        }
    }
    statistics
}

fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| has_floats(field.data_type())),
        DataType::Dictionary(_, values) => has_floats(values),
        other => other.is_floating(),
    }
}

/// The same plan, with readers that leave out misleading statistics.
pub(super) fn distrusting(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let config = plan
        .downcast_ref::<DataSourceExec>()
        .and_then(|exec| exec.data_source().downcast_ref::<FileScanConfig>());
    let source = config.and_then(|config| config.file_source().downcast_ref::<ParquetSource>());
    let factory = source.and_then(ParquetSource::parquet_file_reader_factory);
    let (Some(config), Some(source), Some(inner)) = (config, source, factory) else { return plan };
    let readers = Arc::new(Readers { inner: Arc::clone(inner) });
    let source = source.clone().with_parquet_file_reader_factory(readers);
    let config = FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source)).build();
    DataSourceExec::from_data_source(config)
}

#[derive(Debug)]
struct Readers {
    inner: Arc<dyn ParquetFileReaderFactory>,
}

impl ParquetFileReaderFactory for Readers {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>> {
        let inner = self.inner.create_reader(partition, file, hint, metrics)?;
        Ok(Box::new(Reader { inner }))
    }
}

struct Reader {
    inner: Box<dyn AsyncFileReader + Send>,
}

impl AsyncFileReader for Reader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, parquet::errors::Result<Bytes>> {
        self.inner.get_bytes(range)
    }

    fn get_byte_ranges(
        &mut self,
        ranges: Vec<Range<u64>>,
    ) -> BoxFuture<'_, parquet::errors::Result<Vec<Bytes>>> {
        self.inner.get_byte_ranges(ranges)
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, parquet::errors::Result<Arc<ParquetMetaData>>> {
        async move { self.inner.get_metadata(options).await.map(believed) }.boxed()
    }
}
