//! A block of numbers of a column, or of what is computed of columns: in 64 bits where all of them fit.

use super::buffer::{Buffer, Values};
use crate::value::{key_of_f32, key_of_f64};

/// Numbers, one for each row; any where the row has NULL.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    narrow: Vec<i64>,
    /// In 128 bits, if one of them needs that: the others then say nothing.
    wide: Vec<i128>,
    is_wide: bool,
    /// None of them is smaller, none is greater.
    pub low: i128,
    pub high: i128,
}

/// The numbers of a lane.
#[derive(Clone, Copy, Debug)]
pub(super) enum Numbers<'l> {
    Narrow(&'l [i64]),
    Wide(&'l [i128]),
}

impl Numbers<'_> {
    /// The number of a row.
    #[inline]
    pub fn get(&self, row: usize) -> i128 {
        match self {
            Numbers::Narrow(own) => own[row].into(),
            Numbers::Wide(own) => own[row],
        }
    }
}

impl Lane {
    /// The same number for each of so many rows.
    pub fn constant(&mut self, number: i128, rows: usize) {
        (self.low, self.high) = (number, number);
        match i64::try_from(number) {
            Ok(number) => self.narrow.resize(rows, number),
            Err(_) => {
                self.is_wide = true;
                self.wide.resize(rows, number);
            }
        }
    }

    pub fn numbers(&self) -> Numbers<'_> {
        match self.is_wide {
            true => Numbers::Wide(&self.wide),
            false => Numbers::Narrow(&self.narrow),
        }
    }

    /// Takes numbers of 64 bits, whose bounds are known.
    pub fn set_narrow(&mut self, (low, high): (i128, i128), numbers: impl Iterator<Item = i64>) {
        (self.low, self.high, self.is_wide) = (low, high, false);
        self.narrow.clear();
        self.narrow.extend(numbers);
    }

    /// Takes numbers of 128 bits, until there is one that cannot be.
    pub fn set_wide<E>(&mut self, numbers: impl Iterator<Item = Result<i128, E>>) -> Result<(), E> {
        self.is_wide = true;
        self.wide.clear();
        for number in numbers {
            self.wide.push(number?);
        }
        let ends = (i128::MAX, i128::MIN);
        let ends = self.wide.iter().fold(ends, |(low, high), own| (low.min(*own), high.max(*own)));
        (self.low, self.high) = if self.wide.is_empty() { (0, 0) } else { ends };
        Ok(())
    }

    /// Takes the numbers of a column; floating-point numbers as the whole ones that stand for them. Texts and
    /// intervals have none.
    pub fn read(&mut self, buffer: &Buffer) {
        self.is_wide = false;
        let out = &mut self.narrow;
        out.clear();
        match &buffer.values {
            Values::Bool(bits) => {
                out.extend((0..bits.len()).map(|at| i64::from(bits.get_bit(at))));
            }
            Values::Int2(own) => out.extend(own.iter().map(|number| i64::from(*number))),
            Values::Int4(own) => out.extend(own.iter().map(|number| i64::from(*number))),
            Values::Int8(own) => out.extend_from_slice(own),
            Values::Float4(own) => out.extend(own.iter().map(|float| key_of_f32(*float))),
            Values::Float8(own) => out.extend(own.iter().map(|float| key_of_f64(*float))),
            Values::Int16(own) => {
                out.extend(own.iter().map(|number| *number as i64));
                // Without a branch: nearly always all of them fit.
                let differs = |(own, cut): (&i128, &i64)| *own ^ i128::from(*cut);
                if own.iter().zip(&*out).map(differs).fold(0, |all, one| all | one) != 0 {
                    let all = own.iter().map(|number| Ok::<_, std::convert::Infallible>(*number));
                    match self.set_wide(all) {
                        Ok(()) => return,
                        Err(never) => match never {},
                    }
                }
            }
            Values::Interval(_) | Values::Bytes(..) => {}
        }
        let ends = (i64::MAX, i64::MIN);
        let least = |(low, high): (i64, i64), own: &i64| (low.min(*own), high.max(*own));
        let (low, high) = out.iter().fold(ends, least);
        (self.low, self.high) = if out.is_empty() { (0, 0) } else { (low.into(), high.into()) };
    }
}
