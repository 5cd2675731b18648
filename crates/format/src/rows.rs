//! Conversion between rows of row tables and Arrow columns.
//!
//! Pages store such rows one by one, as `docs/format/heap.md` describes and `cellar_page::row` encodes them. A
//! [`RowLayout`] describes their columns, a [`RowWriter`] makes rows from arrays, [`RowColumns`] makes arrays of the
//! columns wanted from rows, and a [`KeyWriter`] makes the index keys of rows. A [`RowFilter`] tests rows before
//! columns are made of them, and a [`RowAggregate`] sums them up where only groups of them are wanted.
//!
//! ```
//! use std::ops::Bound;
//! use std::sync::Arc;
//!
//! use arrow_array::{ArrayRef, Int32Array, RecordBatch, StringArray, cast::AsArray};
//! use arrow_schema::{DataType, Field, Schema};
//! use bytes::Bytes;
//! use cellar_format::rows::{KeyWriter, LongValue, RowColumns, RowError, RowLayout, RowWriter};
//!
//! fn main() -> Result<(), RowError> {
//!     let fields = vec![
//!         Field::new("born", DataType::Int32, false),
//!         Field::new("name", DataType::Utf8, true),
//!     ];
//!     let layout = RowLayout::of(&Schema::new(fields.clone()))?;
//!     let born: ArrayRef = Arc::new(Int32Array::from(vec![1815, 1906, 1912]));
//!     let names = [Some("Ada".to_owned()), None, Some("x".repeat(5_000))];
//!     let names: ArrayRef = Arc::new(StringArray::from_iter(names));
//!
//!     // Rows and keys. What is too long for a row is stored first; here it is said to be in page 42.
//!     let arrays = [born, names];
//!     let writer = RowWriter::new(&layout, &arrays)?;
//!     let by_year = KeyWriter::new(&layout, &[(0, true)])?;
//!     let (mut rows, mut keys) = (Vec::new(), Vec::new());
//!     for at in 0..writer.rows() {
//!         let stored = writer.long_values(at).into_iter();
//!         let stored = stored.map(|(column, bytes)| LongValue { column, page: 42, length: bytes.len() as u32 });
//!         let (mut row, mut key) = (Vec::new(), Vec::new());
//!         writer.write(at, &stored.collect::<Vec<_>>(), &mut row)?;
//!         let has_null = by_year.key(&row, &mut key)?;
//!         assert!(!has_null);
//!         rows.push(row);
//!         keys.push(key);
//!     }
//!     assert!(keys.is_sorted_by(|later, earlier| later > earlier), "the latest year is first");
//!
//!     // where born >= 1900
//!     let year: ArrayRef = Arc::new(Int32Array::from(vec![1900]));
//!     let range = by_year.range(&[], Bound::Included(&year), Bound::Unbounded)?;
//!     assert!(!range.contains(&keys[0]) && range.contains(&keys[1]) && range.contains(&keys[2]));
//!
//!     // A column is added: rows that were written before are read with its default.
//!     let mut fields = fields;
//!     fields.push(Field::new("stars", DataType::Int32, false));
//!     let layout = RowLayout::of(&Schema::new(fields))?;
//!     let layout = layout.with_default(2, Arc::new(Int32Array::from(vec![5])))?;
//!     let mut columns = RowColumns::new(&layout, &[2, 1])?;
//!     for row in &rows {
//!         match columns.push(row, &[]) {
//!             Err(RowError::LongMissing { .. }) => {
//!                 let long = columns.long_values(row)?;
//!                 assert_eq!(long, [LongValue { column: 1, page: 42, length: 5_000 }]);
//!                 columns.push(row, &[(1, Bytes::from("x".repeat(5_000)))])?;
//!             }
//!             pushed => pushed?,
//!         }
//!     }
//!     let batch: RecordBatch = columns.finish_batch()?;
//!     assert_eq!(batch.num_rows(), 3);
//!     assert_eq!(batch.column(1).as_string::<i32>().value(0), "Ada");
//!     Ok(())
//! }
//! ```
//!
//! It does no I/O, and damaged bytes are an error, never a panic. The caller stores and reads long values: the
//! writer and the reader name them, and are given their pages and their bytes.

mod aggregate;
mod buffer;
mod columns;
mod compute;
mod error;
mod filter;
mod groups;
mod keys;
mod labels;
mod lane;
mod layout;
mod source;
mod totals;
mod write;

pub use aggregate::RowAggregate;
pub use columns::RowColumns;
pub use error::RowError;
pub use filter::{FilterRun, RowFilter};
pub use keys::{KeyWriter, before, behind};
pub use labels::Labels;
pub use layout::{COLUMNS_MAX, RowLayout};
pub use write::{LongValue, ROW_BYTES_MAX, RowWriter};
