//! A table like TPC-H's lineitem, generated from a seed: rows, and the file that contains them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::{ArrayRef, Date32Array, Decimal128Array, Int64Array, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use cellar_cell::Segment;
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{File, FileSpec, Group};
use cellar_format::group::encode_all;
use cellar_format::header::{PAGE, REGION, ROWS_MAX};
use cellar_format::segment::{directory, offset_of};
use cellar_format::{Encoded, Header, Owner};
use cellar_io::{Device, DeviceExt, Durability, EnvExt, Io, SharedEnv};
use futures_util::{StreamExt, TryStreamExt};

use crate::content::Chance;
use crate::control::Control;
use crate::error::LabError;
use crate::group::settle;

/// The columns, by number.
pub(crate) mod column {
    pub(crate) const ORDERKEY: usize = 0;
    pub(crate) const SHIPDATE: usize = 1;
    pub(crate) const QUANTITY: usize = 2;
    pub(crate) const EXTENDEDPRICE: usize = 3;
    pub(crate) const DISCOUNT: usize = 4;
    pub(crate) const TAX: usize = 5;
    pub(crate) const RETURNFLAG: usize = 6;
    pub(crate) const LINESTATUS: usize = 7;
    pub(crate) const COUNT: usize = 10;
}

/// Number of the table and of its segment.
const OWNER: Owner = Owner { table: 7, segment: 1 };
/// Rows to try in the first row group, as in the product.
const FIRST_ROWS: usize = 32 * 1024;
/// Row groups built concurrently: a fixed number, so that the result is always the same.
const AT_ONCE: usize = 4;
/// Writes in flight.
const WRITES: usize = 8;
/// Step by which the file is extended.
const ROOM: u64 = 16 << 20;
/// Days over which rows loaded at one moment are spread.
const SPREAD_DAYS: u64 = 30;
const MODES: [&str; 7] = ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"];
const WORDS: [&str; 32] = [
    "accounts",
    "across",
    "after",
    "blithely",
    "bold",
    "boost",
    "carefully",
    "deposits",
    "express",
    "final",
    "fluffily",
    "foxes",
    "furiously",
    "haggle",
    "ideas",
    "instructions",
    "ironic",
    "nag",
    "packages",
    "pending",
    "pinto beans",
    "platelets",
    "quickly",
    "regular",
    "requests",
    "silent",
    "sleep",
    "slyly",
    "special",
    "theodolites",
    "unusual",
    "wake",
];

/// A day of these years, counted from 1970: `of_year` from 0.
pub(crate) fn day(year: i128, of_year: i128) -> i128 {
    // Every fourth year from 1972 on is a leap year, within the range of these tables.
    365 * (year - 1970) + (year - 1969) / 4 + of_year
}

fn field(column: usize) -> Field {
    let decimal = DataType::Decimal128(15, 2);
    let (name, data_type) = match column {
        column::ORDERKEY => ("orderkey", DataType::Int64),
        column::SHIPDATE => ("shipdate", DataType::Date32),
        column::QUANTITY => ("quantity", decimal),
        column::EXTENDEDPRICE => ("extendedprice", decimal),
        column::DISCOUNT => ("discount", decimal),
        column::TAX => ("tax", decimal),
        column::RETURNFLAG => ("returnflag", DataType::Utf8View),
        column::LINESTATUS => ("linestatus", DataType::Utf8View),
        8 => ("shipmode", DataType::Utf8View),
        _ => ("comment", DataType::Utf8View),
    };
    Field::new(name, data_type, false)
}

/// Some of the columns, in the order read.
pub(crate) fn schema(columns: &[usize]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|column| field(*column)).collect::<Vec<_>>()))
}

/// Rows to generate: the first row, their number, and their range in time, as
/// fractions of the whole.
#[derive(Clone, Copy, Debug)]
struct Part {
    first: u64,
    rows: usize,
    time: (f64, f64),
    clustered: bool,
    seed: u64,
}

impl Part {
    /// The ship date of a row.
    fn shipped(&self, row: usize, chance: &mut Chance) -> i32 {
        let (from, to) = (day(1992, 1) as u64, day(1998, 334) as u64);
        let at = if self.clustered {
            let part = self.time.0 + (self.time.1 - self.time.0) * row as f64 / self.rows as f64;
            (part.min(1.0) * (to - from - SPREAD_DAYS) as f64) as u64 + chance.below(SPREAD_DAYS)
        } else {
            chance.below(to - from)
        };
        (from + at) as i32
    }

    /// Its columns: the same whichever task generates them, and in whatever order.
    fn arrays(self) -> Vec<ArrayRef> {
        // Far apart: rows of neighbouring parts are independent.
        let mut chance = Chance(Chance(Chance(self.seed).next() ^ self.first).next());
        let (mut keys, mut dates) = (Vec::new(), Vec::new());
        let mut numbers: [Vec<i128>; 4] = Default::default();
        let mut texts: [Vec<&str>; 3] = Default::default();
        let mut comments = Vec::new();
        // Items shipped by that day have been paid; of the others, nothing was returned.
        let paid = day(1995, 167) as i32;
        for row in 0..self.rows {
            let shipped = self.shipped(row, &mut chance);
            let quantity = 1 + chance.below(50);
            let price = quantity * (90_000 + chance.below(120_000));
            keys.push(((self.first + row as u64) / 4 + 1) as i64);
            dates.push(shipped);
            let made = [quantity * 100, price, chance.below(11), chance.below(9)];
            numbers.iter_mut().zip(made).for_each(|(column, made)| column.push(made.into()));
            let returned = if chance.below(2) == 0 { "R" } else { "A" };
            texts[0].push(if shipped <= paid { returned } else { "N" });
            texts[1].push(if shipped + 10 < paid { "F" } else { "O" });
            texts[2].push(MODES[chance.below(MODES.len() as u64) as usize]);
            let words = (0..2 + chance.below(4)).map(|_| WORDS[chance.below(32) as usize]);
            comments.push(words.collect::<Vec<_>>().join(" "));
        }
        let decimal = |column: Vec<i128>| {
            let array = Decimal128Array::from(column).with_precision_and_scale(15, 2);
            Arc::new(array.expect("15 digits, two of them behind the point")) as ArrayRef
        };
        let text = |column: Vec<&str>| Arc::new(StringArray::from_iter_values(column)) as ArrayRef;
        let mut arrays: Vec<ArrayRef> =
            vec![Arc::new(Int64Array::from(keys)), Arc::new(Date32Array::from(dates))];
        arrays.extend(numbers.map(decimal));
        arrays.extend(texts.map(text));
        arrays.push(Arc::new(StringArray::from_iter_values(comments)));
        arrays
    }
}

/// The table to generate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    /// Its encoded size in bytes: whole row groups.
    pub(crate) bytes: u64,
    /// Whether rows are in date order.
    pub(crate) clustered: bool,
    /// Seed for the rows.
    pub(crate) seed: u64,
}

/// A table that can be scanned.
pub(crate) struct Table {
    pub(crate) segment: Arc<Segment>,
    pub(crate) rows: u64,
    pub(crate) row_groups: u64,
    pub(crate) bytes: u64,
}

/// Row groups that are built and written in sequence.
struct Writer<'a> {
    env: &'a SharedEnv,
    file: &'a File,
    spec: &'a Spec,
    headers: Vec<Header>,
    rows: u64,
    end: u64,
    /// Allocated bytes of the file.
    room: u64,
    target: Arc<AtomicUsize>,
}

impl Writer<'_> {
    /// Generates the next rows, in concurrent tasks.
    async fn next(&self, count: usize) -> Result<Vec<Encoded>, LabError> {
        let wanted = (self.spec.bytes / REGION as u64) as f64;
        let rows = self.target.load(Ordering::Relaxed);
        let part = |at: usize| {
            let time = (self.headers.len() + at) as f64;
            Part {
                first: self.rows + (at * rows) as u64,
                rows,
                time: (time / wanted, (time + 1.0) / wanted),
                clustered: self.spec.clustered,
                seed: self.spec.seed,
            }
        };
        let tasks: Vec<_> = (0..count)
            .map(|at| {
                let (part, target) = (part(at), AtomicUsize::new(rows));
                self.env.run("lab encode", async move {
                    let mut out = Vec::new();
                    let encoded = encode_all(&part.arrays(), OWNER, &target, &mut out);
                    let refused = |why| LabError::Encode { rows, why: format!("{why:?}") };
                    encoded.map_err(refused)?;
                    Ok::<_, LabError>((out, target.into_inner()))
                })
            })
            .collect();
        let mut all = Vec::new();
        for task in tasks {
            let (made, target) = task.await.ok_or(LabError::Stopped)??;
            all.extend(made);
            self.target.store(target, Ordering::Relaxed);
        }
        Ok(all)
    }

    async fn write(&mut self, groups: Vec<Encoded>) -> Result<(), LabError> {
        let mut pieces = Vec::new();
        for group in groups {
            let position = self.headers.len() as u64;
            let (header, mut bytes) = group.place(position, self.rows);
            bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
            self.rows += u64::from(header.rows);
            self.end = offset_of(position) + bytes.len() as u64;
            self.headers.push(header);
            pieces.push((offset_of(position), bytes));
        }
        self.write_all(pieces).await
    }

    async fn write_all(&mut self, pieces: Vec<(u64, Vec<u8>)>) -> Result<(), LabError> {
        let end = pieces.iter().map(|(at, bytes)| at + bytes.len() as u64).max().unwrap_or(0);
        if end > self.room {
            // In large steps, so that this is rare.
            self.room = end.next_multiple_of(ROOM);
            self.file.allocate(self.room).await?;
        }
        let write = |(at, bytes): (u64, Vec<u8>)| {
            self.file.write_at(Io::SCAN, at, Bytes::from(bytes), Durability::Cached)
        };
        let writes = futures_util::stream::iter(pieces.into_iter().map(write));
        Ok(writes.buffer_unordered(WRITES).try_collect().await?)
    }

    /// Writes the footer after the row groups; returns the total bytes.
    async fn finish(&mut self) -> Result<u64, LabError> {
        let last = directory(&self.headers, OWNER.table, OWNER.segment, b"lineitem of the lab");
        let bytes = self.end + last.len() as u64;
        let at = |i: usize| self.end + (i * REGION) as u64;
        let pieces = last.chunks(REGION).enumerate().map(|(i, piece)| (at(i), piece.to_vec()));
        let pieces = pieces.collect();
        self.write_all(pieces).await?;
        Ok(bytes)
    }
}

/// Creates the table in a file of `group`, durable, and waits until the group is
/// idle. Progress is reported as row groups of `what`.
pub(crate) async fn make(
    env: &SharedEnv,
    group: &Group,
    spec: &Spec,
    what: &str,
    control: &Control<'_>,
) -> Result<Table, LabError> {
    let file = group.create_file(&FileSpec::new(FileType::Datafile)).await?;
    let mut writer = Writer {
        env,
        file: &file,
        spec,
        headers: Vec::new(),
        rows: 0,
        end: 0,
        room: 0,
        target: Arc::new(AtomicUsize::new(FIRST_ROWS.min(ROWS_MAX))),
    };
    let wanted = spec.bytes / REGION as u64;
    loop {
        let done = writer.headers.len() as u64;
        control.tell(what, done.min(wanted), wanted);
        control.check()?;
        // The first shows how many rows fit.
        let count = if done == 0 { 1 } else { AT_ONCE.min(wanted.saturating_sub(done) as usize) };
        if count == 0 {
            break;
        }
        let groups = writer.next(count).await?;
        writer.write(groups).await?;
    }
    let bytes = writer.finish().await?;
    let (rows, row_groups) = (writer.rows, writer.headers.len() as u64);
    file.set_size(bytes).await?;
    file.flush(Io::COMMIT).await?;
    settle(env, group).await;
    let device = Arc::new(file.clone()) as Arc<dyn Device>;
    let segment = Segment::open(device, bytes, OWNER.table, Some(column::COUNT), rows).await?;
    Ok(Table { segment: Arc::new(segment), rows, row_groups, bytes })
}

/// Bytes that a table may take: including the footer, and row groups that did not
/// fit and were split.
pub(crate) fn room(table_bytes: u64) -> u64 {
    table_bytes + table_bytes / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(clustered: bool, time: (f64, f64)) -> Part {
        Part { first: 4000, rows: 3000, time, clustered, seed: 4 }
    }

    fn dates(part: Part) -> (i32, i32) {
        let arrays = part.arrays();
        let dates: &Date32Array = arrays[column::SHIPDATE].as_any().downcast_ref().unwrap();
        let dates = dates.values();
        (*dates.iter().min().unwrap(), *dates.iter().max().unwrap())
    }

    #[test]
    fn rows_are_the_same_again_and_lie_in_the_order_of_their_dates_only_if_asked() {
        let one = part(true, (0.5, 0.51));
        assert_eq!(one.arrays(), one.arrays());
        let (least, most) = dates(one);
        assert!(most - least < 70, "a hundredth of seven years and 30 days: {least} to {most}");
        let (least, most) = dates(part(false, (0.5, 0.51)));
        assert!(most - least > 2000, "{least} to {most}");
        let last = dates(part(true, (0.99, 1.2)));
        assert!(i128::from(last.1) <= day(1998, 334), "beside the plan nothing is later");
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(day(1970, 0), 0);
        assert_eq!(day(1994, 0), 8766);
        assert_eq!(day(1998, 244), 10471, "the second of September");
    }
}
