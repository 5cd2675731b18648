//! Row groups: encoded from Arrow arrays, and opened from their bytes.

use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::{Array, ArrayRef};

use crate::bits::BLOCK;
use crate::column::{Column, PLAIN_MAX};
use crate::from_arrow::input_of;
use crate::header::{Header, REGION, ROWS_MAX, header_bytes};
use crate::ints::{ALIGN, Damage};

/// The owner of a row group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The table's number.
    pub table: u64,
    /// The segment's number.
    pub segment: u64,
}

/// An encoded row group, without its place.
#[derive(Clone, Debug)]
pub struct Encoded {
    header: Header,
    columns: Vec<Vec<u8>>,
}

/// Why rows cannot become a row group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// They do not fit: they take more bytes than there are.
    TooLarge {
        /// Bytes that they take.
        bytes: usize,
        /// Bytes that there are.
        most: usize,
    },
    /// There is no column for values of the type of this one.
    Type {
        /// Which column.
        column: usize,
    },
}

/// Encodes rows, at least one and at most [`ROWS_MAX`]: an array for each column of the table.
///
/// # Errors
/// They take more than a storage region, or are of a type that there is no column for.
pub fn encode(arrays: &[ArrayRef], owner: Owner) -> Result<Encoded, Refused> {
    let rows = arrays.first().map_or(0, |array| array.len());
    assert!((1..=ROWS_MAX).contains(&rows), "{rows} rows of a row group");
    let mut columns = Vec::with_capacity(arrays.len());
    let mut entries = Vec::with_capacity(arrays.len());
    for (column, array) in arrays.iter().enumerate() {
        assert_eq!(array.len(), rows, "every column has every row");
        let input = input_of(array).ok_or(Refused::Type { column })?;
        let (entry, bytes) = input.encode().map_err(|plain| {
            // As many more than there is room for, so that fewer rows are tried.
            let bytes = (REGION as f64 * plain as f64 / PLAIN_MAX as f64) as usize;
            Refused::TooLarge { bytes: header_bytes(arrays.len()) + bytes, most: REGION }
        })?;
        entries.push(entry);
        columns.push(bytes);
    }
    // Columns that are scanned often are short; they come first, so that several of them lie side by side.
    let mut order: Vec<usize> = (0..columns.len()).collect();
    order.sort_by_key(|at| columns[*at].len());
    let mut at = header_bytes(columns.len());
    for column in order {
        entries[column].offset = at as u32;
        at = (at + columns[column].len()).next_multiple_of(ALIGN);
    }
    if at > REGION {
        return Err(Refused::TooLarge { bytes: at, most: REGION });
    }
    let header = Header {
        table: owner.table,
        segment: owner.segment,
        position: 0,
        first_row: 0,
        lsn: 0,
        rows: rows as u32,
        used: at as u32,
        entries,
    };
    Ok(Encoded { header, columns })
}

/// Encodes rows: as one row group, or, if they do not fit, as several of about the same size. `target` is set to the
/// number of rows to try next.
///
/// # Errors
/// One row does not fit, or is of a type that there is no column for.
pub fn encode_all(
    arrays: &[ArrayRef],
    owner: Owner,
    target: &AtomicUsize,
    out: &mut Vec<Encoded>,
) -> Result<(), Refused> {
    let rows = arrays.first().map_or(0, |array| array.len());
    match encode(arrays, owner) {
        Ok(encoded) => {
            let used = encoded.header().used as usize;
            target.store(rows_to_try(rows, used, arrays.len()), Ordering::Relaxed);
            out.push(encoded);
            Ok(())
        }
        Err(Refused::TooLarge { bytes, most }) if rows > 1 => {
            target.store(rows_to_try(rows, bytes, arrays.len()), Ordering::Relaxed);
            let parts = (bytes.div_ceil(most) + usize::from(bytes % most > most / 10 * 9)).max(2);
            let each = rows.div_ceil(parts).max(1);
            for start in (0..rows).step_by(each) {
                let slice = |array: &ArrayRef| array.slice(start, each.min(rows - start));
                let part: Vec<ArrayRef> = arrays.iter().map(slice).collect();
                encode_all(&part, owner, target, out)?;
            }
            Ok(())
        }
        Err(refused) => Err(refused),
    }
}

impl Encoded {
    /// What it says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Its header and its bytes at that place of its segment, behind so many rows: as many as are used, of a storage
    /// region.
    pub fn place(mut self, position: u64, first_row: u64) -> (Header, Vec<u8>) {
        self.header.position = position;
        self.header.first_row = first_row;
        let mut out = self.header.encode();
        out.resize(self.header.used as usize, 0);
        for (entry, column) in self.header.entries.iter().zip(&self.columns) {
            out[entry.offset as usize..][..column.len()].copy_from_slice(column);
        }
        (self.header, out)
    }
}

/// How many rows to try next, so that they fill a region, if `before` took `bytes`: fewer than those if they
/// did not fit, or one.
pub fn rows_to_try(before: usize, bytes: usize, columns: usize) -> usize {
    let room = (REGION - header_bytes(columns)) as f64;
    let taken = bytes.saturating_sub(header_bytes(columns)).max(1) as f64;
    // Consecutive row groups usually differ by less than that: packed text by 0.6 % (one standard deviation). Rows
    // that do not fit are encoded twice, and cut into two groups that each fill half a region.
    let rows = (before as f64 * room / taken * 0.985) as usize;
    // Quarters of blocks: whole ones leave one in eighty empty. But for rows that are so long that not
    // even one block is full: what a few rows take does not follow their number closely, so that steps
    // are not to be too small.
    let rows = match rows {
        0..BLOCK if bytes > REGION => rows.min(before * 7 / 8),
        0..BLOCK => rows,
        _ => rows / (BLOCK / 4) * (BLOCK / 4),
    };
    rows.clamp(1, ROWS_MAX)
}

/// Takes up a column of a row group whose bytes from `from` on are in `bytes`.
///
/// # Errors
/// It is not as it was written; its crc is asked only if `check` is set.
pub fn column<'a>(
    header: &Header,
    column: usize,
    bytes: &'a [u8],
    check: bool,
) -> Result<Column<'a>, Damage> {
    let unknown = Damage::Field { name: "number of a column", value: column as u64 };
    let entry = header.entries.get(column).ok_or(unknown)?;
    if check && !entry.is_whole(bytes) {
        return Err(Damage::Field { name: "crc of a column", value: entry.crc.into() });
    }
    Column::new(entry, header.rows as usize, bytes)
}
