//! Views over the instance (`v$asm_disk` and its kin) as tables: typed rows to Arrow.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, RecordBatch, RecordBatchOptions,
    StringBuilder, TimestampMicrosecondBuilder,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result as DfResult;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

/// What a column of a view holds. Every column may be null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer.
    Integer,
    /// A number with a fraction.
    Real,
    /// Text.
    Text,
    /// True or false.
    Boolean,
    /// A point in time, in UTC.
    Time,
}

/// A column of a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, lower-case.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
}

/// One field of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Null.
    Null,
    /// For [`Kind::Integer`].
    Integer(i64),
    /// For [`Kind::Real`].
    Real(f64),
    /// For [`Kind::Text`].
    Text(String),
    /// For [`Kind::Boolean`].
    Boolean(bool),
    /// For [`Kind::Time`]: microseconds since 1970, UTC.
    Time(i64),
}

/// A view: a name, columns, and its current rows.
pub trait ViewSource: Send + Sync + std::fmt::Debug + 'static {
    /// Its name with the `v$`, lower-case.
    fn name(&self) -> &'static str;
    /// Its columns, in order.
    fn columns(&self) -> &'static [Column];
    /// Its current rows. Each has a value for every column, of the column's kind or null.
    fn rows(&self) -> Vec<Vec<Value>>;
}

/// A view as DataFusion sees it.
#[derive(Debug)]
pub(crate) struct ViewTable {
    source: Arc<dyn ViewSource>,
    schema: SchemaRef,
}

impl ViewTable {
    pub(crate) fn new(source: Arc<dyn ViewSource>) -> ViewTable {
        let schema = schema_of(source.columns());
        ViewTable { source, schema }
    }
}

/// The columns of a view for Arrow.
pub(crate) fn schema_of(columns: &[Column]) -> SchemaRef {
    let fields: Vec<Field> =
        columns.iter().map(|c| Field::new(c.name, data_type(c.kind), true)).collect();
    Arc::new(Schema::new(fields))
}

fn data_type(kind: Kind) -> DataType {
    match kind {
        Kind::Integer => DataType::Int64,
        Kind::Real => DataType::Float64,
        Kind::Text => DataType::Utf8,
        Kind::Boolean => DataType::Boolean,
        Kind::Time => DataType::Timestamp(TimeUnit::Microsecond, None),
    }
}

macro_rules! column {
    ($builder:ty, $rows:expr, $at:expr, $variant:path) => {{
        let mut builder = <$builder>::new();
        for row in $rows {
            match &row[$at] {
                $variant(value) => builder.append_value(value.clone()),
                Value::Null => builder.append_null(),
                other => panic_on_kind(other),
            }
        }
        Arc::new(builder.finish()) as ArrayRef
    }};
}

fn panic_on_kind(value: &Value) -> ! {
    unreachable!("a view gave {value:?} in a column of another kind")
}

/// Rows of a view as one batch.
pub fn to_batch(schema: &SchemaRef, columns: &[Column], rows: &[Vec<Value>]) -> RecordBatch {
    for row in rows {
        assert_eq!(row.len(), columns.len(), "a row of a view has a value for every column");
    }
    let arrays = columns
        .iter()
        .enumerate()
        .map(|(at, column)| match column.kind {
            Kind::Integer => column!(Int64Builder, rows, at, Value::Integer),
            Kind::Real => column!(Float64Builder, rows, at, Value::Real),
            Kind::Text => column!(StringBuilder, rows, at, Value::Text),
            Kind::Boolean => column!(BooleanBuilder, rows, at, Value::Boolean),
            Kind::Time => column!(TimestampMicrosecondBuilder, rows, at, Value::Time),
        })
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)
        .expect("the arrays were built from this schema")
}

#[async_trait]
impl TableProvider for ViewTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let batch = to_batch(&self.schema, self.source.columns(), &self.source.rows());
        let partitions = [vec![batch]];
        let plan = MemorySourceConfig::try_new_exec(
            &partitions,
            Arc::clone(&self.schema),
            projection.cloned(),
        )?;
        Ok(plan)
    }
}
