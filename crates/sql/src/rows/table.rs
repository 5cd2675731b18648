//! A table in the heap as rows and columns: its columns for Arrow, its rows as the heap stores them.

use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use cellar_format::rows::{
    KeyWriter, LongValue, RowColumns as Builder, RowError, RowFilter, RowLayout, RowWriter,
};
use cellar_instance::catalog::{Catalog, Missing, RowTable, Table};
use cellar_instance::heap::{IndexKey, MayShare, Statement};

use crate::columnar::table::{checked_schema, enum_of, form_of};
use crate::enums::{field_with_labels, layout_of, no_label, query_metadata};
use crate::error::Error;
use crate::instants::zoned::fields_in_zone;
use crate::json::form::Form;

/// The column with the row numbers of a table to be changed.
pub(crate) const ROW_ID: &str = "\u{1}row";

/// Suffix of the name of a table whose rows come with their numbers.
const WITH_ROW_IDS: char = '\u{1}';

/// The name of a table whose rows come with their numbers.
pub(crate) fn with_row_ids(name: &str) -> String {
    format!("{name}{WITH_ROW_IDS}")
}

/// The table with such a name; `None`: it is no such name.
pub(crate) fn without_row_ids(name: &str) -> Option<&str> {
    name.strip_suffix(WITH_ROW_IDS)
}

/// The error of a row, of the named table.
pub(crate) fn row_error(table: &str, error: &RowError) -> Error {
    match error {
        RowError::Beyond { .. } => {
            Error::new(error.number(), "22003", format!("numeric overflow: {error}"))
        }
        RowError::NoOrder { .. } => {
            Error::new(error.number(), "0A000", format!("table \"{table}\": {error}"))
        }
        RowError::NoLabel { labels, label } => no_label(labels, label),
        _ => Error::new(error.number(), "XX001", format!("table \"{table}\": {error}")),
    }
}

/// The value of a column in rows that lack it, as the catalog keeps it. `None`: it is too long for that.
///
/// # Errors
/// The value is of another type.
pub(crate) fn missing(
    column: usize,
    field: &Field,
    value: &ArrayRef,
) -> Result<Option<Missing>, RowError> {
    let layout = layout_of(&Schema::new(vec![field.clone().with_nullable(true)]))?;
    let values = layout.packed(&[Arc::clone(value)])?;
    let writer = RowWriter::new(&layout, &values)?;
    if !writer.long_values(0).is_empty() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    writer.write(0, &[], &mut bytes)?;
    let row = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Some(Missing { column, row }))
}

/// The value that [`missing`] has encoded.
fn present(schema: &Schema, column: usize, row: &str) -> Result<ArrayRef, RowError> {
    let columns = schema.fields().len();
    let field = schema.fields().get(column).ok_or(RowError::NoColumn { column, columns })?;
    let field = field.as_ref().clone().with_nullable(true);
    let digits = row.as_bytes().chunks(2).map(|two| std::str::from_utf8(two).unwrap_or_default());
    let bytes = digits.map(|two| u8::from_str_radix(two, 16));
    // Text that is not hexadecimal is reported like a damaged row.
    let bytes: Vec<u8> = bytes.collect::<Result<_, _>>().unwrap_or_default();
    let layout = layout_of(&Schema::new(vec![field]))?;
    let mut builder = Builder::new(&layout, &[0])?;
    builder.push(&bytes, &[])?;
    let made = builder.finish()?.into_iter().next();
    made.ok_or(RowError::NoColumn { column, columns })
}

/// Columns with the labels of their types, and these types.
fn with_types(schema: SchemaRef, catalog: &Catalog) -> (SchemaRef, Vec<Table>) {
    let mut types = Vec::new();
    let fields = schema.fields().iter().map(|field| match field_with_labels(field, catalog) {
        Some((table, field)) => {
            types.push(table);
            Arc::new(field)
        }
        None => Arc::clone(field),
    });
    let fields: Vec<Arc<Field>> = fields.collect();
    match types.is_empty() {
        true => (schema, types),
        false => (Arc::new(Schema::new(fields)), types),
    }
}

/// The columns of a table, and how its rows and keys are encoded from them.
#[derive(Debug)]
pub(crate) struct RowColumns {
    /// The name of the table.
    pub name: String,
    /// Where its rows are.
    pub rows: RowTable,
    /// Its columns, with lengths and defaults.
    pub schema: SchemaRef,
    /// The enum types of columns.
    pub types: Vec<Table>,
    layout: RowLayout,
    keys: Vec<KeyWriter>,
    /// A builder of all columns, which finds the long values of rows.
    all: Builder,
}

impl RowColumns {
    /// The columns of a table as the catalog has it, for a session in this time zone.
    ///
    /// # Errors
    /// 70108 the catalog has something else.
    pub fn of(
        table: &Table,
        rows: &RowTable,
        (zone, catalog): (&Arc<str>, &Catalog),
    ) -> Result<RowColumns, Error> {
        let schema = fields_in_zone(&checked_schema(&table.schema)?, zone);
        let (schema, types) = with_types(schema, catalog);
        let failed = |error: RowError| row_error(&table.name, &error);
        let mut layout = layout_of(&schema).map_err(failed)?;
        for Missing { column, row } in &rows.missing {
            let value = present(&schema, *column, row).map_err(failed)?;
            layout = layout.with_default(*column, value).map_err(failed)?;
        }
        let key = |index: &cellar_instance::catalog::Index| {
            let columns: Vec<(usize, bool)> =
                index.columns.iter().map(|column| (column.column, column.descending)).collect();
            KeyWriter::new(&layout, &columns).map_err(failed)
        };
        let keys = rows.indexes.iter().map(key).collect::<Result<Vec<_>, Error>>()?;
        let every: Vec<usize> = (0..schema.fields().len()).collect();
        let all = Builder::new(&layout, &every).map_err(failed)?;
        let (name, rows) = (table.name.clone(), rows.clone());
        Ok(RowColumns { name, rows, schema, types, layout, keys, all })
    }

    /// Whether a column is of an enum type.
    fn is_enum(&self, column: usize) -> bool {
        !self.types.is_empty() && enum_of(self.schema.field(column)).is_some()
    }

    /// Whether the values of a column order differently from their stored form: only plan rules know that order.
    pub fn has_own_order(&self, column: usize) -> bool {
        self.is_enum(column) || form_of(self.schema.field(column)) == Some(Form::Jsonb)
    }

    /// Whether a catalog still has its columns' enum types unchanged.
    pub fn has_types_of(&self, catalog: &Catalog) -> bool {
        self.types.iter().all(|own| catalog.table(&own.name) == Some(own))
    }

    /// Whether one of its foreign keys refers to the table itself.
    pub fn refers_to_itself(&self) -> bool {
        let is_own = |name: &String| self.rows.indexes.iter().any(|index| index.name == *name);
        self.rows.foreign.iter().any(|key| is_own(&key.index))
    }

    /// How its rows are laid out.
    pub fn layout(&self) -> &RowLayout {
        &self.layout
    }

    /// The keys of a row, one for each index.
    ///
    /// # Errors
    /// A value is too long for a key.
    pub fn keys(&self, row: &[u8]) -> Result<Vec<IndexKey>, Error> {
        let key = |writer: &KeyWriter| {
            let mut bytes = Vec::new();
            let has_null =
                writer.key(row, &mut bytes).map_err(|error| row_error(&self.name, &error))?;
            Ok(IndexKey { bytes: bytes.into(), has_null })
        };
        self.keys.iter().map(key).collect()
    }

    /// The key of a row, for one of the indexes.
    ///
    /// # Errors
    /// A value is too long for a key.
    pub fn key(&self, index: usize, row: &[u8]) -> Result<IndexKey, cellar_instance::Error> {
        let mut bytes = Vec::new();
        let has_null = self.keys[index].key(row, &mut bytes).map_err(|error| {
            let text = format!("table \"{}\": {error}", self.name);
            cellar_instance::Error::new(error.number(), text)
        })?;
        Ok(IndexKey { bytes: bytes.into(), has_null })
    }

    /// Whether a value of a key of an index is NULL.
    pub fn has_null(&self, index: usize, key: &[u8]) -> bool {
        self.keys[index].has_null(key)
    }

    /// Tells which keys of a unique index, given by its number in the heap, may repeat: those with a NULL.
    pub fn may_share(&self) -> MayShare {
        let objects: Vec<u32> = self.rows.indexes.iter().map(|index| index.object).collect();
        let keys = self.keys.clone();
        Arc::new(move |index, key| {
            let at = objects.iter().position(|object| *object == index);
            at.is_some_and(|at| keys[at].has_null(key))
        })
    }

    /// The position of the column with this name.
    ///
    /// # Errors
    /// 00904, with the names of all columns.
    pub fn column(&self, name: &str) -> Result<usize, Error> {
        let fields = self.schema.fields();
        fields.iter().position(|field| field.name() == name).ok_or_else(|| {
            let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
            let text = format!("table \"{}\" has no column \"{name}\"", self.name);
            Error::new(904, "42703", text)
                .of_name([name])
                .next(format!("its columns are {}", names.join(", ")))
        })
    }

    /// The range of index keys whose first columns have these values and whose next lies between bounds.
    ///
    /// # Errors
    /// A value is of another type.
    pub fn key_range(
        &self,
        index: usize,
        equal: &[ArrayRef],
        low: Bound<&ArrayRef>,
        high: Bound<&ArrayRef>,
    ) -> Result<RangeInclusive<Vec<u8>>, Error> {
        let range = self.keys[index].range(equal, low, high);
        range.map_err(|error| row_error(&self.name, &error))
    }

    /// The bytes of the first column of a key of an index: a bound of its range.
    pub fn first_of_key(&self, index: usize, key: &[u8]) -> Option<Vec<u8>> {
        self.keys[index].first(key).map(<[u8]>::to_vec)
    }

    /// The columns whose values can be read from the keys of an index.
    pub fn told(&self, index: usize) -> Vec<usize> {
        self.keys[index].told().collect()
    }

    /// Rows with the columns found in these index keys, each with its number.
    ///
    /// # Errors
    /// A key is damaged.
    pub fn rows_of_keys(
        &self,
        index: usize,
        keys: &[(bytes::Bytes, u64)],
    ) -> Result<Vec<(u64, Vec<u8>)>, Error> {
        let row = |(key, id): &(bytes::Bytes, u64)| {
            let mut row = Vec::new();
            let told = self.keys[index].row_of(key, &mut row);
            told.map_err(|error| row_error(&self.name, &error))?;
            Ok((*id, row))
        };
        keys.iter().map(row).collect()
    }

    /// The columns as queries see them: without what only writers need, and with row numbers if `row_ids`.
    pub fn query_schema(&self, row_ids: bool) -> SchemaRef {
        let fields = self.schema.fields().iter();
        // NOT NULL is checked on the rows written: here all columns are nullable, or DataFusion would refuse
        // rows in its own words.
        let plain = fields.map(|field| {
            let field = field.as_ref().clone();
            // Expressions need to know what is JSON, and clients what is a uuid.
            let metadata = query_metadata(&field);
            field.with_metadata(metadata).with_nullable(true)
        });
        let ids = row_ids.then(|| Field::new(ROW_ID, DataType::UInt64, false));
        Arc::new(Schema::new(plain.chain(ids).collect::<Vec<_>>()))
    }

    /// A builder of the projected columns.
    ///
    /// # Errors
    /// There is no such column.
    pub fn builder(&self, projection: &[usize]) -> Result<Builder, Error> {
        Builder::new(&self.layout, projection).map_err(|error| row_error(&self.name, &error))
    }

    /// Adds a row to columns; its long values are read if they are wanted.
    ///
    /// # Errors
    /// The row is damaged; the disk reports one.
    pub async fn push(
        &self,
        builder: &mut Builder,
        statement: &Statement,
        row: &[u8],
    ) -> Result<(), Error> {
        match builder.push(row, &[]) {
            Ok(()) => return Ok(()),
            Err(RowError::LongMissing { .. }) => {}
            Err(error) => return Err(row_error(&self.name, &error)),
        }
        let long = self.long(builder, statement, row).await?;
        builder.push(row, &long).map_err(|error| row_error(&self.name, &error))
    }

    /// The long values of a row that columns want, each with its column.
    async fn long(
        &self,
        builder: &Builder,
        statement: &Statement,
        row: &[u8],
    ) -> Result<Vec<(usize, bytes::Bytes)>, Error> {
        let mut long = Vec::new();
        let named = builder.long_values(row).map_err(|error| row_error(&self.name, &error))?;
        for LongValue { column, page, length } in named {
            long.push((column, statement.long(&self.rows, page, length).await?));
        }
        Ok(long)
    }

    /// Whether a row passes a filter that depends on a long value.
    ///
    /// # Errors
    /// As [`RowColumns::push`].
    pub async fn passes_long(
        &self,
        filter: &RowFilter,
        statement: &Statement,
        row: &[u8],
    ) -> Result<bool, Error> {
        let long = self.long(&self.all, statement, row).await?;
        let passes = filter.ask().passes(row, &long);
        passes.map_err(|error| row_error(&self.name, &error))
    }

    /// All columns of these rows.
    ///
    /// # Errors
    /// As [`RowColumns::push`].
    pub async fn batch(
        &self,
        statement: &Statement,
        rows: &[bytes::Bytes],
    ) -> Result<RecordBatch, Error> {
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let mut builder = self.builder(&all)?;
        for row in rows {
            self.push(&mut builder, statement, row).await?;
        }
        builder.finish_batch().map_err(|error| row_error(&self.name, &error))
    }

    /// Where the long values of a row are.
    ///
    /// # Errors
    /// The row is damaged.
    pub fn long_values(&self, row: &[u8]) -> Result<Vec<LongValue>, Error> {
        self.all.long_values(row).map_err(|error| row_error(&self.name, &error))
    }

    /// Values of a row for a message: `(1, x)`.
    pub fn key_text(&self, index: usize, arrays: &[ArrayRef], row: usize) -> (String, String) {
        let columns = &self.rows.indexes[index].columns;
        let names: Vec<&str> =
            columns.iter().map(|column| self.schema.field(column.column).name().as_str()).collect();
        let text = |at: usize| {
            arrow::util::display::array_value_to_string(&arrays[at], row)
                .unwrap_or_else(|_| "?".to_owned())
        };
        let values: Vec<String> = columns.iter().map(|column| text(column.column)).collect();
        (names.join(", "), values.join(", "))
    }
}
