//! The groups of rows by the values of key columns, numbered as they come.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use arrow_array::ArrayRef;
use cellar_page::row::Type;

use super::buffer::Buffer;
use super::error::RowError;
use super::lane::{Lane, Numbers};
use super::layout::RowLayout;

/// Bytes of a packed key.
const PACKED: usize = 16;

/// Bytes of a text that a packed key has room for.
const SHORT_TEXT: usize = 7;

/// Places for the keys that came last.
const NEAR: usize = 64;

/// Hash of a packed key.
#[derive(Clone, Copy, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u128(u128::from(*byte)));
    }

    fn write_u128(&mut self, key: u128) {
        // Fibonacci hashing: all bits of the key reach all of the hash.
        let both = (key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ (key >> 64) as u64;
        let mixed = (self.0 ^ both).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        self.0 = mixed ^ mixed >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn hash_of(key: u128) -> u64 {
    let mut hasher = KeyHasher::default();
    hasher.write_u128(key);
    hasher.finish()
}

/// A key column.
#[derive(Clone, Copy, Debug)]
struct KeyColumn {
    column: usize,
    kind: Type,
    /// Its place among the columns that are read.
    place: usize,
    /// Bytes that it takes of a packed key.
    width: usize,
}

/// Groups, and how rows find them.
#[derive(Debug)]
pub(super) struct RowGroups {
    keys: Vec<KeyColumn>,
    /// Whether keys are packed at all.
    can_pack: bool,
    /// The packed keys of a block, and which rows have none.
    packed: Vec<u128>,
    is_long: Vec<bool>,
    near: Vec<(u128, u32)>,
    short: HashMap<u128, u32, BuildHasherDefault<KeyHasher>>,
    long: HashMap<Box<[u8]>, u32>,
    /// The values of each group, column by column.
    stored: Vec<Buffer>,
    count: usize,
    scratch: Vec<u8>,
}

/// Which bytes of a packed key a type takes: one says whether it is there.
fn width(kind: Type) -> usize {
    match kind {
        Type::Text | Type::Bytes => 1 + SHORT_TEXT,
        // Of 128 bits those that do not fit 64 are not packed.
        Type::Decimal => 9,
        kind => 1 + kind.width().unwrap_or(PACKED),
    }
}

impl RowGroups {
    /// Groups by these columns, each with its place among those that are read.
    pub fn new(layout: &RowLayout, columns: &[(usize, usize)]) -> RowGroups {
        let key = |(column, place): &(usize, usize)| {
            let kind = layout.types[*column];
            KeyColumn { column: *column, kind, place: *place, width: width(kind) }
        };
        let keys: Vec<KeyColumn> = columns.iter().map(key).collect();
        RowGroups {
            can_pack: keys.iter().map(|key| key.width).sum::<usize>() <= PACKED,
            packed: Vec::new(),
            is_long: Vec::new(),
            near: vec![(u128::MAX, u32::MAX); NEAR],
            short: HashMap::default(),
            long: HashMap::new(),
            stored: keys.iter().map(|key| Buffer::new(key.kind)).collect(),
            keys,
            count: 0,
            scratch: Vec::new(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of the texts that are their keys.
    pub fn text_bytes(&self) -> usize {
        self.stored.iter().map(Buffer::text).sum()
    }

    /// The group of each of so many rows. `apart`: each is one of its own, also where others have its key.
    pub fn of(
        &mut self,
        (buffers, lanes): (&[Buffer], &[Lane]),
        rows: usize,
        apart: bool,
        out: &mut Vec<u32>,
    ) -> Result<(), RowError> {
        out.clear();
        if apart {
            for row in 0..rows {
                out.push(self.add(buffers, row)?);
            }
            return Ok(());
        }
        self.pack(buffers, lanes, rows);
        for row in 0..rows {
            let group = match self.is_long[row] {
                true => self.long(buffers, lanes, row)?,
                false => self.short(buffers, row)?,
            };
            out.push(group);
        }
        Ok(())
    }

    #[inline]
    fn short(&mut self, buffers: &[Buffer], row: usize) -> Result<u32, RowError> {
        let key = self.packed[row];
        let place = hash_of(key) as usize % NEAR;
        let (known, group) = self.near[place];
        if known == key && group != u32::MAX {
            return Ok(group);
        }
        let group = match self.short.get(&key) {
            Some(group) => *group,
            None => {
                let group = self.add(buffers, row)?;
                self.short.insert(key, group);
                group
            }
        };
        self.near[place] = (key, group);
        Ok(group)
    }

    /// The group of a row whose key does not fit a packed one.
    #[cold]
    fn long(&mut self, buffers: &[Buffer], lanes: &[Lane], row: usize) -> Result<u32, RowError> {
        let mut key = std::mem::take(&mut self.scratch);
        key.clear();
        for KeyColumn { kind, place, .. } in &self.keys {
            let buffer = &buffers[*place];
            key.push(u8::from(!buffer.is_null(row)));
            if buffer.is_null(row) {
                continue;
            }
            match kind {
                Type::Text | Type::Bytes => {
                    let bytes = buffer.bytes(row);
                    key.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
                    key.extend_from_slice(bytes);
                }
                _ => key.extend_from_slice(&lanes[*place].numbers().get(row).to_le_bytes()),
            }
        }
        let group = match self.long.get(&key[..]) {
            Some(group) => *group,
            None => {
                let group = self.add(buffers, row)?;
                self.long.insert(key[..].into(), group);
                group
            }
        };
        self.scratch = key;
        Ok(group)
    }

    /// A new group, whose values are those of a row.
    fn add(&mut self, buffers: &[Buffer], row: usize) -> Result<u32, RowError> {
        for (stored, key) in self.stored.iter_mut().zip(&self.keys) {
            stored.push_of(self.count, &buffers[key.place], row, key.column)?;
        }
        self.count += 1;
        Ok((self.count - 1) as u32)
    }

    /// Packs the keys of a block.
    fn pack(&mut self, buffers: &[Buffer], lanes: &[Lane], rows: usize) {
        let RowGroups { keys, packed, is_long, can_pack, .. } = self;
        packed.clear();
        packed.resize(rows, 0);
        is_long.clear();
        is_long.resize(rows, !*can_pack);
        if !*can_pack {
            return;
        }
        for KeyColumn { kind, place, width, .. } in &*keys {
            let (buffer, shift) = (&buffers[*place], 8 * width);
            match (kind, lanes[*place].numbers()) {
                (Type::Text | Type::Bytes, _) => {
                    for (row, key) in packed.iter_mut().enumerate() {
                        let (code, fits) = packed_text(buffer.bytes(row));
                        *key = key.checked_shl(shift as u32).unwrap_or(0) | code;
                        is_long[row] |= !fits;
                    }
                }
                (_, Numbers::Narrow(numbers)) => {
                    let mask = (1u128 << (shift - 8)) - 1;
                    for (key, number) in packed.iter_mut().zip(numbers) {
                        let code = i128::from(*number) as u128 & mask | 1 << (shift - 8);
                        *key = *key << shift | code;
                    }
                }
                (_, Numbers::Wide(_)) => is_long.fill(true),
            }
            // What stands where there is no value is not looked at.
            for row in &buffer.nulls {
                packed[*row] = packed[*row] >> shift << shift;
            }
        }
    }

    /// The keys of all groups, which are forgotten.
    ///
    /// # Errors
    /// [`RowError::NotText`].
    pub fn finish(&mut self, layout: &RowLayout) -> Result<Vec<ArrayRef>, RowError> {
        let rows = std::mem::take(&mut self.count);
        self.near.fill((u128::MAX, u32::MAX));
        self.short.clear();
        self.long.clear();
        let mut arrays = Vec::with_capacity(self.keys.len());
        for (stored, key) in self.stored.iter_mut().zip(&self.keys) {
            let full = std::mem::replace(stored, Buffer::new(key.kind));
            let array = full.into_array(rows, layout.schema.field(key.column).data_type());
            let name = || layout.name(key.column);
            arrays.push(array.map_err(|row| RowError::NotText { column: name(), row })?);
        }
        Ok(arrays)
    }
}

/// A text as part of a packed key; whether it fits.
#[inline]
fn packed_text(bytes: &[u8]) -> (u128, bool) {
    if bytes.len() > SHORT_TEXT {
        return (0, false);
    }
    let code = bytes.iter().fold(bytes.len() as u64 + 1, |code, byte| code << 8 | u64::from(*byte));
    (code.into(), true)
}
