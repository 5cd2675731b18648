//! The layout of a table's rows: an Arrow schema, the row types for it, and the defaults of columns that rows
//! lack.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, IntervalUnit, Schema, SchemaRef, TimeUnit};
use cellar_page::row::{Type, Writer};

use super::error::RowError;
use super::labels::Labels;
use super::source::Source;
use crate::packed::pack;

/// The most columns that a row counts.
pub const COLUMNS_MAX: usize = u16::MAX as usize;

/// The columns of a table, in their order.
#[derive(Clone, Debug)]
pub struct RowLayout {
    pub(super) schema: SchemaRef,
    pub(super) types: Vec<Type>,
    pub(super) defaults: Vec<DefaultValue>,
    /// Of columns whose texts are labels.
    pub(super) labels: Vec<Option<Arc<Labels>>>,
}

/// The default of a column in a row that lacks it.
#[derive(Clone, Debug)]
pub(super) enum DefaultValue {
    Null,
    /// A row of one column.
    Row(Vec<u8>),
    /// A text or bytes that are too long for that.
    Long(ArrayRef),
}

/// The type that rows have for a type of Arrow.
fn type_of(data_type: &DataType) -> Option<Type> {
    Some(match data_type {
        DataType::Boolean => Type::Bool,
        DataType::Int16 => Type::Int2,
        DataType::Int32 => Type::Int4,
        DataType::Int64 => Type::Int8,
        DataType::Float32 => Type::Float4,
        DataType::Float64 => Type::Float8,
        DataType::Decimal128(_, _) => Type::Decimal,
        DataType::Date32 => Type::Date,
        DataType::Time64(TimeUnit::Microsecond) => Type::Time,
        DataType::Timestamp(TimeUnit::Microsecond, _) => Type::Timestamp,
        DataType::Interval(IntervalUnit::MonthDayNano) => Type::Interval,
        DataType::Utf8 | DataType::Utf8View => Type::Text,
        DataType::Binary | DataType::BinaryView => Type::Bytes,
        // As `packed` writes them.
        DataType::List(item) if !is_list(item.data_type()) => {
            type_of(item.data_type()).map(|_| Type::Bytes)?
        }
        _ => return None,
    })
}

/// Whether values of a type are packed into bytes.
pub(super) fn is_list(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(_))
}

impl RowLayout {
    /// The layout of a schema; a column that a row lacks is NULL in it.
    ///
    /// # Errors
    /// [`RowError::Type`], [`RowError::TooManyColumns`].
    pub fn of(schema: &Schema) -> Result<RowLayout, RowError> {
        let columns = schema.fields().len();
        if columns > COLUMNS_MAX {
            return Err(RowError::TooManyColumns { columns, max: COLUMNS_MAX });
        }
        let types = schema.fields().iter().map(|field| {
            let data_type = field.data_type();
            let unknown =
                || RowError::Type { column: field.name().clone(), data_type: data_type.clone() };
            type_of(data_type).ok_or_else(unknown)
        });
        let types = types.collect::<Result<Vec<Type>, RowError>>()?;
        Ok(RowLayout {
            schema: SchemaRef::new(schema.clone()),
            types,
            defaults: vec![DefaultValue::Null; columns],
            labels: vec![None; columns],
        })
    }

    /// Declares that the texts of a column, or of its lists, are these labels: rows and keys hold their codes.
    ///
    /// # Errors
    /// [`RowError::NoColumn`].
    pub fn with_labels(
        mut self,
        column: usize,
        labels: Arc<Labels>,
    ) -> Result<RowLayout, RowError> {
        self.check(column)?;
        self.labels[column] = Some(labels);
        Ok(self)
    }

    /// The codes of labels, where the column has labels.
    ///
    /// # Errors
    /// [`RowError::NoLabel`].
    pub(super) fn coded(&self, column: usize, array: &ArrayRef) -> Result<ArrayRef, RowError> {
        match &self.labels[column] {
            None => Ok(Arc::clone(array)),
            Some(labels) => labels
                .codes(array)
                .map_err(|label| RowError::NoLabel { labels: Arc::clone(labels), label }),
        }
    }

    /// Declares the default of a column for rows that were written before it was added: an array of one value.
    ///
    /// # Errors
    /// [`RowError::NoColumn`], [`RowError::Count`], [`RowError::OtherType`], [`RowError::Nanoseconds`].
    pub fn with_default(mut self, column: usize, value: ArrayRef) -> Result<RowLayout, RowError> {
        self.check(column)?;
        if value.len() != 1 {
            return Err(RowError::Count { what: "values", expected: 1, found: value.len() });
        }
        let value = self.packed_column(column, &value)?;
        let source = Source::of(&self, column, &value)?;
        self.defaults[column] = if value.is_null(0) {
            DefaultValue::Null
        } else if source.is_long(0) {
            DefaultValue::Long(value)
        } else {
            let value = source.value(0).map_err(|nanos| self.nanoseconds(column, nanos))?;
            let mut row = Vec::new();
            let mut writer = Writer::new(&mut row, 1);
            writer.push(&value);
            writer.finish();
            DefaultValue::Row(row)
        };
        Ok(self)
    }

    /// The schema that it was made of.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many columns there are.
    pub fn columns(&self) -> usize {
        self.types.len()
    }

    /// The types that rows have for the columns.
    pub fn types(&self) -> &[Type] {
        &self.types
    }

    /// Arrays of the columns as rows have them: lists are packed, labels are codes, all others as they are.
    ///
    /// # Errors
    /// [`RowError::Count`], [`RowError::OtherType`], [`RowError::NoLabel`].
    pub fn packed(&self, arrays: &[ArrayRef]) -> Result<Vec<ArrayRef>, RowError> {
        if arrays.len() != self.columns() {
            let (expected, found) = (self.columns(), arrays.len());
            return Err(RowError::Count { what: "arrays", expected, found });
        }
        arrays.iter().enumerate().map(|(at, array)| self.packed_column(at, array)).collect()
    }

    fn packed_column(&self, column: usize, array: &ArrayRef) -> Result<ArrayRef, RowError> {
        let own = self.schema.field(column).data_type();
        if !is_list(own) || *array.data_type() == DataType::Binary {
            return self.coded(column, array);
        }
        let array = &self.coded(column, array)?;
        let packed = pack(array.as_ref()).filter(|_| array.data_type() == own);
        let other = || RowError::OtherType {
            column: self.name(column),
            expected: own.clone(),
            found: array.data_type().clone(),
        };
        Ok(Arc::new(packed.ok_or_else(other)?))
    }

    /// Whether there is such a column.
    pub(super) fn check(&self, column: usize) -> Result<(), RowError> {
        match self.columns() {
            columns if column < columns => Ok(()),
            columns => Err(RowError::NoColumn { column, columns }),
        }
    }

    /// The name of a column.
    pub(super) fn name(&self, column: usize) -> String {
        self.schema.field(column).name().clone()
    }

    pub(super) fn nanoseconds(&self, column: usize, nanos: i64) -> RowError {
        RowError::Nanoseconds { column: self.name(column), nanos }
    }
}
