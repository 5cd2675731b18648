//! Groups of rows by the values themselves, for keys that are not numbers, or too large ones.

use std::collections::HashMap;

use crate::aggregate::Key;
use crate::bits::BLOCK;
use crate::column::{Column, Data};
use crate::ints::Damage;
use crate::text::{Reader, Strings};
use crate::value::Value;

/// The values of a column for a block.
#[derive(Debug)]
enum Block {
    Nulls,
    Numbers(Box<[i128; BLOCK]>),
    /// Codes of a dictionary: as distinct as the strings.
    Codes(Box<[i64; BLOCK]>),
    Strings(Strings),
}

#[derive(Debug)]
struct One<'c, 'a> {
    column: &'c Column<'a>,
    reader: Option<Reader<'c, 'a>>,
    block: Block,
}

/// Groups, numbered in the order in which they appear.
#[derive(Debug)]
pub(super) struct HashAgg<'c, 'a> {
    columns: Vec<One<'c, 'a>>,
    /// The group of each key, as [`One::put`] encodes it.
    places: HashMap<Box<[u8]>, u32>,
    /// The values of each group.
    pub known: Vec<Key>,
}

impl<'c, 'a> HashAgg<'c, 'a> {
    pub fn new(columns: &[&'c Column<'a>]) -> HashAgg<'c, 'a> {
        let one = |column: &&'c Column<'a>| {
            let (block, reader) = match column.data() {
                Data::Nulls => (Block::Nulls, None),
                Data::Ints(_) | Data::Int128(_) => (Block::Numbers(Box::new([0; BLOCK])), None),
                Data::Dict(_) => (Block::Codes(Box::new([0; BLOCK])), None),
                Data::Text(text) => (Block::Strings(Strings::default()), Some(text.reader())),
            };
            One { column, reader, block }
        };
        let columns = columns.iter().map(one).collect();
        HashAgg { columns, places: HashMap::new(), known: Vec::new() }
    }

    /// The group of each of these rows of a block; the first row of each new group goes to `firsts`.
    pub fn of(
        &mut self,
        block: usize,
        rows: &[u16],
        out: &mut [u32; BLOCK],
        firsts: &mut Vec<u32>,
    ) -> Result<(), Damage> {
        self.columns.iter_mut().try_for_each(|one| one.decode(block, rows))?;
        let mut values = Vec::new();
        for row in rows {
            let row = usize::from(*row);
            values.clear();
            self.columns.iter().for_each(|one| one.put(block, row, &mut values));
            out[row] = match self.places.get(&values[..]) {
                Some(place) => *place,
                None => {
                    let key: Result<Key, Damage> =
                        self.columns.iter().map(|one| one.value(block, row)).collect();
                    let place = self.known.len() as u32;
                    self.known.push(key?);
                    firsts.push((block * BLOCK + row) as u32);
                    self.places.insert(values[..].into(), place);
                    place
                }
            };
        }
        Ok(())
    }
}

impl One<'_, '_> {
    fn decode(&mut self, block: usize, rows: &[u16]) -> Result<(), Damage> {
        match (self.column.data(), &mut self.block) {
            (Data::Ints(ints), Block::Numbers(out)) => {
                let mut narrow = [0; BLOCK];
                ints.decode(block, &mut narrow);
                out.iter_mut().zip(narrow).for_each(|(out, narrow)| *out = narrow.into());
            }
            (Data::Int128(wide), Block::Numbers(out)) => wide.decode(block, out),
            (Data::Dict(dict), Block::Codes(out)) => dict.codes().decode(block, out),
            (_, Block::Strings(strings)) => {
                let mut mask = [0; BLOCK];
                rows.iter().for_each(|row| mask[usize::from(*row)] = 0xff);
                strings.clear();
                if let Some(reader) = &mut self.reader {
                    reader.decode_some(block, &mask, strings)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn is_valid(&self, block: usize, row: usize) -> bool {
        self.column.is_valid(block * BLOCK + row)
    }

    /// Appends the value of a row to those of other columns, so that the encodings of two rows are
    /// equal if and only if all values are.
    fn put(&self, block: usize, row: usize, out: &mut Vec<u8>) {
        if !self.is_valid(block, row) {
            return out.push(0);
        }
        out.push(1);
        match &self.block {
            Block::Nulls => {}
            Block::Numbers(numbers) => out.extend_from_slice(&numbers[row].to_le_bytes()),
            Block::Codes(codes) => out.extend_from_slice(&codes[row].to_le_bytes()),
            Block::Strings(strings) => {
                let string = strings.get(row);
                out.extend_from_slice(&(string.len() as u64).to_le_bytes());
                out.extend_from_slice(string);
            }
        }
    }

    fn value(&self, block: usize, row: usize) -> Result<Option<Value>, Damage> {
        if !self.is_valid(block, row) {
            return Ok(None);
        }
        Ok(match (&self.block, self.column.data()) {
            (Block::Numbers(numbers), _) => Some(Value::Number(numbers[row])),
            (Block::Codes(codes), Data::Dict(dict)) => {
                let code = codes[row];
                let unknown = Damage::Field { name: "code of a string", value: code as u64 };
                let string = usize::try_from(code).ok().and_then(|code| dict.string(code));
                Some(string.ok_or(unknown)?.into())
            }
            (Block::Strings(strings), _) => Some(strings.get(row).into()),
            _ => None,
        })
    }
}
