//! Keys of rows: the bytes that an index has for a row, and bounds of ranges of them.

use std::ops::{Bound, RangeInclusive};

use arrow_array::{Array, ArrayRef};
use cellar_page::key::push;
use cellar_page::row::{BadRow, Reader, Type, Value, Writer};

use super::error::RowError;
use super::layout::{DefaultValue, RowLayout, is_list};
use super::source::Source;

/// No column of a key begins with it.
const BEHIND: u8 = 0xFF;

/// A column of an index.
#[derive(Clone, Copy, Debug)]
struct KeyColumn {
    column: usize,
    descending: bool,
}

/// Writes the keys of an index.
#[derive(Clone, Debug)]
pub struct KeyWriter {
    layout: RowLayout,
    columns: Vec<KeyColumn>,
}

impl KeyWriter {
    /// Keys of these columns of a layout: the number of each, and whether it is descending.
    ///
    /// # Errors
    /// [`RowError::NoColumn`], [`RowError::NoOrder`].
    pub fn new(layout: &RowLayout, columns: &[(usize, bool)]) -> Result<KeyWriter, RowError> {
        columns.iter().try_for_each(|(column, _)| layout.check(*column))?;
        // Their bytes are not in the order of the values.
        let list = columns.iter().find(|own| is_list(layout.schema.field(own.0).data_type()));
        if let Some((column, _)) = list {
            return Err(RowError::NoOrder { column: layout.name(*column) });
        }
        let columns = columns
            .iter()
            .map(|(column, descending)| KeyColumn { column: *column, descending: *descending });
        Ok(KeyWriter { layout: layout.clone(), columns: columns.collect() })
    }

    /// Appends the key of a row to `out`. True: one of its values is NULL, so that a unique index allows other rows
    /// with that key.
    ///
    /// # Errors
    /// [`RowError::Damaged`]; [`RowError::NoKey`] where a value is in pages of its own. `out` is as it was.
    pub fn key(&self, row: &[u8], out: &mut Vec<u8>) -> Result<bool, RowError> {
        let from = out.len();
        let written = self.push_row(row, out);
        if written.is_err() {
            out.truncate(from);
        }
        written
    }

    fn push_row(&self, row: &[u8], out: &mut Vec<u8>) -> Result<bool, RowError> {
        let start = Reader::new(row)?;
        let (mut reader, mut next, mut has_null) = (start, 0, false);
        for KeyColumn { column, descending } in &self.columns {
            if *column < next {
                (reader, next) = (start, 0);
            }
            let value = if *column < reader.columns() {
                for column in next..*column {
                    if !reader.is_null(column) {
                        reader.skip(self.layout.types[column]).ok_or(BadRow { column })?;
                    }
                }
                next = column + 1;
                match reader.is_null(*column) {
                    true => Value::Null,
                    false => value(&mut reader, *column, self.layout.types[*column])?,
                }
            } else {
                self.default(*column)?
            };
            has_null |= value == Value::Null;
            self.push(*column, &value, *descending, out)?;
        }
        Ok(has_null)
    }

    /// What a column is in rows that lack it.
    fn default(&self, column: usize) -> Result<Value<'_>, RowError> {
        match &self.layout.defaults[column] {
            DefaultValue::Null => Ok(Value::Null),
            DefaultValue::Row(row) => {
                value(&mut Reader::new(row)?, column, self.layout.types[column])
            }
            DefaultValue::Long(_) => Err(RowError::NoKey { column: self.layout.name(column) }),
        }
    }

    fn push(
        &self,
        column: usize,
        value: &Value<'_>,
        descending: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), RowError> {
        if matches!(value, Value::Overflow { .. }) {
            return Err(RowError::NoKey { column: self.layout.name(column) });
        }
        push(out, value, descending);
        Ok(())
    }

    /// Whether a value of a key that [`KeyWriter::key`] made is NULL.
    pub fn has_null(&self, mut key: &[u8]) -> bool {
        for KeyColumn { column, descending } in &self.columns {
            let kind = self.layout.types[*column];
            match cellar_page::key::skip(key, kind, *descending) {
                Some((true, _)) => return true,
                Some((false, rest)) => key = rest,
                None => return false,
            }
        }
        false
    }

    /// The bytes of the first column of a key that [`KeyWriter::key`] made: bounds of ranges. `None`: it is no such
    /// key.
    pub fn first<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let KeyColumn { column, descending } = self.columns.first()?;
        let kind = self.layout.types[*column];
        let (_, rest) = cellar_page::key::skip(key, kind, *descending)?;
        key.get(..key.len() - rest.len())
    }

    /// The columns whose values can be read back from a key.
    pub fn told(&self) -> impl Iterator<Item = usize> {
        let is_told = |column: &usize| {
            !matches!(self.layout.types[*column], Type::Float4 | Type::Float8 | Type::Interval)
        };
        self.columns.iter().map(|column| column.column).filter(is_told)
    }

    /// Appends a row with the values that a key holds, and NULL in all other columns, to other bytes. Ask only for
    /// columns of the key that are [told](KeyWriter::told): the others read as NULL.
    ///
    /// # Errors
    /// [`RowError::Damaged`]: it is no such key.
    pub fn row_of(&self, key: &[u8], out: &mut Vec<u8>) -> Result<(), RowError> {
        let (mut values, mut key) = (vec![None; self.layout.columns()], key);
        for KeyColumn { column, descending } in &self.columns {
            let kind = self.layout.types[*column];
            values[*column] = Some((key, *descending));
            let (_, rest) =
                cellar_page::key::skip(key, kind, *descending).ok_or(BadRow { column: *column })?;
            key = rest;
        }
        let mut writer = Writer::new(out, values.len());
        for (column, value) in values.iter().enumerate() {
            let kind = self.layout.types[column];
            let is_told = !matches!(kind, Type::Float4 | Type::Float8 | Type::Interval);
            match value.filter(|_| is_told) {
                None => writer.push(&Value::Null),
                Some((key, descending)) => {
                    cellar_page::key::read(key, kind, descending, &mut writer)
                        .ok_or(BadRow { column })?;
                }
            }
        }
        writer.finish();
        Ok(())
    }

    /// Adds what all keys begin with whose first columns have these values to `out`: one array of one value
    /// for each of as many columns as are given. True: one is NULL. A text that is too long for a key is
    /// that of no row, and lies where it would.
    ///
    /// # Errors
    /// [`RowError::Count`], [`RowError::OtherType`], [`RowError::Nanoseconds`]; `out` is as it was.
    pub fn key_of(&self, values: &[ArrayRef], out: &mut Vec<u8>) -> Result<bool, RowError> {
        if values.len() > self.columns.len() {
            let (expected, found) = (self.columns.len(), values.len());
            return Err(RowError::Count { what: "values of a key", expected, found });
        }
        let from = out.len();
        let mut has_null = false;
        for (at, value) in values.iter().enumerate() {
            match self.push_value(at, value, out) {
                Ok(is_null) => has_null |= is_null,
                Err(error) => {
                    out.truncate(from);
                    return Err(error);
                }
            }
        }
        Ok(has_null)
    }

    /// Adds the value of the key's column `at`. True: it is NULL.
    fn push_value(&self, at: usize, array: &ArrayRef, out: &mut Vec<u8>) -> Result<bool, RowError> {
        let KeyColumn { column, descending } = self.columns[at];
        if array.len() != 1 {
            return Err(RowError::Count { what: "values", expected: 1, found: array.len() });
        }
        let array = self.layout.coded(column, array)?;
        let value = Source::of(&self.layout, column, &array)?.value(0);
        let value = value.map_err(|nanos| self.layout.nanoseconds(column, nanos))?;
        push(out, &value, descending);
        Ok(value == Value::Null)
    }

    /// The range of keys whose first columns have the values `equal`, and whose next column lies between
    /// `low` and `high`, as `cellar-heap` takes ranges: from the start on, up to the end and all that begins
    /// with the end.
    ///
    /// `low` and `high` are values, not keys: in a descending column the range begins with `high`. With a bound,
    /// NULL is excluded, because a comparison with NULL is not true; without any it is included. NULL as a value
    /// means NULL: `equal` to it is IS NULL, `high` excluding it is IS NOT NULL.
    ///
    /// # Errors
    /// As of [`KeyWriter::key_of`]; [`RowError::Count`] too where there is no column for a bound.
    pub fn range(
        &self,
        equal: &[ArrayRef],
        low: Bound<&ArrayRef>,
        high: Bound<&ArrayRef>,
    ) -> Result<RangeInclusive<Vec<u8>>, RowError> {
        let mut prefix = Vec::new();
        self.key_of(equal, &mut prefix)?;
        if matches!((low, high), (Bound::Unbounded, Bound::Unbounded)) {
            return Ok(prefix.clone()..=prefix);
        }
        let at = equal.len();
        let Some(KeyColumn { descending, .. }) = self.columns.get(at).copied() else {
            return Err(RowError::Count { what: "values of a key", expected: at, found: at + 1 });
        };
        let with = |value: &ArrayRef| {
            let mut key = prefix.clone();
            self.push_value(at, value, &mut key).map(|_| key)
        };
        let mut null = prefix.clone();
        push(&mut null, &Value::Null, descending);
        let (first, last) = if descending { (high, low) } else { (low, high) };
        let start = match first {
            Bound::Included(value) => with(value)?,
            Bound::Excluded(value) => behind(with(value)?),
            Bound::Unbounded if descending => behind(null.clone()),
            Bound::Unbounded => prefix.clone(),
        };
        let end = match last {
            Bound::Included(value) => with(value)?,
            Bound::Excluded(value) => before(with(value)?),
            Bound::Unbounded if descending => prefix,
            Bound::Unbounded => before(null),
        };
        Ok(start..=end)
    }
}

fn value<'a>(reader: &mut Reader<'a>, column: usize, kind: Type) -> Result<Value<'a>, RowError> {
    Ok(reader.value(kind).ok_or(BadRow { column })?)
}

/// The first bytes behind all keys that begin with a prefix, which is one or more whole columns, or none:
/// where a range begins that excludes them. It is less than every other key that was behind them.
pub fn behind(mut prefix: Vec<u8>) -> Vec<u8> {
    prefix.push(BEHIND);
    prefix
}

/// Bytes before all keys that begin with a prefix, which is one or more whole columns: where a range ends,
/// with all that begins with them, that excludes them. It excludes no other key.
pub fn before(mut prefix: Vec<u8>) -> Vec<u8> {
    // The number one less: between the two are only keys that go on behind it, and these are less too.
    for byte in prefix.iter_mut().rev() {
        let borrows = *byte == 0;
        *byte = byte.wrapping_sub(1);
        if !borrows {
            break;
        }
    }
    prefix
}
