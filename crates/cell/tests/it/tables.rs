//! Random columnar tables: the bytes of their segments, and their rows as they were before.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use cellar_cell::Item;
use cellar_format::group::encode;
use cellar_format::header::REGION;
use cellar_format::segment::{directory, offset_of};
use cellar_format::{Owner, Value};

use crate::table::{Group, Rng, array, types, values_of};

/// The number of every table.
pub const TABLE: u64 = 7;

/// The values of a row.
pub type Row = Vec<Option<Value>>;

/// A segment as it is written: pieces, and where they begin.
pub struct Image {
    pub number: u64,
    pub pieces: Vec<(u64, Vec<u8>)>,
    pub bytes: u64,
    pub rows: u64,
}

/// A table.
pub struct Table {
    pub images: Vec<Image>,
    pub groups: Vec<Group>,
    pub types: Vec<DataType>,
}

impl Table {
    /// Of the arrays of each row group of each segment.
    pub fn of(segments: &[Vec<Vec<ArrayRef>>]) -> Table {
        let mut table = Table { images: Vec::new(), groups: Vec::new(), types: Vec::new() };
        for (at, segment) in segments.iter().enumerate() {
            table.add_segment(40 + at as u64, segment);
        }
        table.types = table.groups[0].types.clone();
        table
    }

    fn add_segment(&mut self, number: u64, segment: &[Vec<ArrayRef>]) {
        let (mut pieces, mut headers, mut rows) = (Vec::new(), Vec::new(), 0);
        for (position, arrays) in segment.iter().enumerate() {
            let group = Group::of(arrays);
            let arrays: Vec<ArrayRef> = arrays.iter().map(|a| a.slice(0, group.rows())).collect();
            let encoded = encode(&arrays, Owner { table: TABLE, segment: number }).expect("fits");
            let (header, mut bytes) = encoded.place(position as u64, rows);
            bytes.resize(bytes.len().next_multiple_of(4096), 0);
            pieces.push((offset_of(position as u64), bytes));
            rows += group.rows() as u64;
            headers.push(header);
            self.groups.push(group);
        }
        let (at, last) = pieces.last().expect("a row group");
        let end = at + last.len() as u64;
        let behind = directory(&headers, TABLE, number, b"random columns");
        let bytes = end + behind.len() as u64;
        pieces.push((end, behind));
        self.images.push(Image { number, pieces, bytes, rows });
    }

    /// A random one.
    pub fn random(rng: &mut Rng) -> Table {
        let kinds = types();
        let kinds: Vec<DataType> =
            (0..1 + rng.below(6)).map(|_| rng.pick(&kinds).clone()).collect();
        // So many rows are given out in parts.
        let mut has_many = rng.one_in(16);
        let mut group = |rng: &mut Rng| {
            let rows = match rng.below(6) {
                _ if std::mem::take(&mut has_many) => 33_000 + rng.below(6000),
                0 => 1,
                1 => 1023 + rng.below(3),
                2 => 2000 + rng.below(1500),
                _ => 2 + rng.below(300),
            };
            kinds.iter().map(|kind| array(rng, kind, rows)).collect::<Vec<ArrayRef>>()
        };
        let segments: Vec<Vec<Vec<ArrayRef>>> = (0..1 + rng.below(3))
            .map(|_| (0..1 + rng.below(4)).map(|_| group(rng)).collect())
            .collect();
        Table::of(&segments)
    }

    /// Of two columns, numbers and texts, in segments of so many row groups of 1,000 rows. Numbers count
    /// all rows; a text says its row's number.
    pub fn counted(segments: &[usize]) -> Table {
        let mut next = 0i64;
        let mut group = || -> Vec<ArrayRef> {
            let numbers: Vec<i64> = (next..next + 1000).collect();
            next += 1000;
            let texts = numbers.iter().map(|number| format!("{} of many", number * 7919 % 1000));
            let texts = StringArray::from_iter_values(texts);
            vec![Arc::new(Int64Array::from(numbers)), Arc::new(texts)]
        };
        let all: Vec<Vec<Vec<ArrayRef>>> =
            segments.iter().map(|count| (0..*count).map(|_| group()).collect()).collect();
        Table::of(&all)
    }

    /// The schema of some columns.
    pub fn schema(&self, columns: &[usize]) -> SchemaRef {
        let field = |(at, column): (usize, &usize)| {
            Field::new(format!("c{at}"), self.types[*column].clone(), true)
        };
        Arc::new(Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>()))
    }

    /// All rows that pass, as these columns have them.
    pub fn rows(&self, columns: &[usize], passes: impl Fn(&Group, usize) -> bool) -> Bag {
        let mut bag = Bag::default();
        for group in &self.groups {
            for row in (0..group.rows()).filter(|row| passes(group, *row)) {
                bag.add(columns.iter().map(|column| group.values[*column][row].clone()).collect());
            }
        }
        bag
    }

    /// Bytes of a column in all row groups.
    pub fn bytes_of(&self, column: usize) -> u64 {
        self.groups.iter().map(|group| u64::from(group.header.entries[column].length)).sum()
    }

    /// The most that a device must have for each of its segments.
    pub fn device_bytes(&self) -> u64 {
        let most = self.images.iter().map(|image| image.bytes).max().unwrap_or(0);
        most.next_multiple_of(REGION as u64)
    }
}

/// Rows in no order.
#[derive(Debug, Default, PartialEq)]
pub struct Bag {
    rows: HashMap<Row, usize>,
    pub count: usize,
}

impl Bag {
    fn add(&mut self, row: Row) {
        *self.rows.entry(row).or_default() += 1;
        self.count += 1;
    }

    /// The rows of an answer.
    pub fn of(items: &[Item]) -> Bag {
        let mut bag = Bag::default();
        for item in items {
            let Item::Rows(batch) = item else { panic!("rows were asked for: {item:?}") };
            bag.add_batch(batch);
        }
        bag
    }

    fn add_batch(&mut self, batch: &RecordBatch) {
        assert!(batch.num_rows() > 0, "an item has rows");
        let columns: Vec<Row> = batch.columns().iter().map(|array| values_of(array)).collect();
        for row in 0..batch.num_rows() {
            self.add(columns.iter().map(|column| column[row].clone()).collect());
        }
    }

    /// Whether the other has all of these rows.
    pub fn is_within(&self, other: &Bag) -> bool {
        self.rows.iter().all(|(row, count)| other.rows.get(row).is_some_and(|all| count <= all))
    }
}
