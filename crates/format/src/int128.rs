//! A column of whole numbers of 128 bits of which some do not fit 64: two columns of 64 bits.
//!
//! ```text
//! 0   4  bytes of the column of the upper halves
//! 4   60 zeros
//! 64  .. the upper halves, signed: a column of whole numbers ([`ints`](crate::ints)); zeros up to the next 64
//!     .. the lower halves, the highest bit turned, so that their order as signed numbers is right
//! ```

use crate::bits::BLOCK;
use crate::ints::{self, ALIGN, Damage, Ints};

/// Encodes a column.
pub fn encode(numbers: &[i128]) -> Vec<u8> {
    let upper: Vec<i64> = numbers.iter().map(|number| (number >> 64) as i64).collect();
    let lower: Vec<i64> = numbers.iter().map(|number| *number as i64 ^ i64::MIN).collect();
    let upper = ints::encode(&upper);
    let mut out = vec![0; ALIGN];
    out[..4].copy_from_slice(&u32::try_from(upper.len()).expect("a row group").to_le_bytes());
    out.extend_from_slice(&upper);
    out.resize(out.len().next_multiple_of(ALIGN), 0);
    out.extend_from_slice(&ints::encode(&lower));
    out
}

/// A column as it is encoded.
#[derive(Clone, Debug)]
pub struct Int128<'a> {
    upper: Ints<'a>,
    lower: Ints<'a>,
}

impl<'a> Int128<'a> {
    /// Takes up a column.
    ///
    /// # Errors
    /// The bytes are no such column.
    pub fn new(bytes: &'a [u8]) -> Result<Int128<'a>, Damage> {
        let header = ints::cut(bytes, 0, ALIGN)?;
        let length = u32::from_le_bytes(header[..4].try_into().expect("four")) as usize;
        let upper = Ints::new(ints::cut(bytes, ALIGN, length)?)?;
        let at = (ALIGN + length).next_multiple_of(ALIGN);
        let lower = Ints::new(ints::cut(bytes, at, bytes.len().saturating_sub(at))?)?;
        if upper.rows() != lower.rows() {
            return Err(Damage::Field { name: "rows of the halves", value: lower.rows() as u64 });
        }
        Ok(Int128 { upper, lower })
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.upper.rows()
    }

    /// Decodes the block `block`: 1,024 numbers, of which those behind the last row say nothing.
    pub fn decode(&self, block: usize, out: &mut [i128; BLOCK]) {
        let (mut upper, mut lower) = ([0; BLOCK], [0; BLOCK]);
        self.upper.decode(block, &mut upper);
        self.lower.decode(block, &mut lower);
        for ((out, upper), lower) in out.iter_mut().zip(&upper).zip(&lower) {
            *out = i128::from(*upper) << 64 | i128::from((*lower ^ i64::MIN) as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use bytemuck::cast_slice;
    use proptest::prelude::*;

    use super::*;
    use crate::ints::placed;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            numbers in prop::collection::vec(
                prop_oneof![any::<i128>(), Just(i128::MIN), Just(i128::MAX), -9..9i128], 0..2500
            )
        ) {
            let bytes = encode(&numbers);
            let words = placed(&bytes);
            let column = Int128::new(&cast_slice(&words)[..bytes.len()]).expect("a column");
            prop_assert_eq!(column.rows(), numbers.len());
            for (block, rows) in numbers.chunks(BLOCK).enumerate() {
                let mut out = [0; BLOCK];
                column.decode(block, &mut out);
                prop_assert_eq!(&out[..rows.len()], rows);
            }
        }

        #[test]
        fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            if let Some(length) = bytes.get_mut(..4) {
                length.copy_from_slice(&[192, 0, 0, 0]);
            }
            for at in [64, 256] {
                if let Some(header) = bytes.get_mut(at + 8..at + 13) {
                    header.copy_from_slice(&[5, 0, 0, 0, 8]);
                }
            }
            let words = placed(&bytes);
            if let Ok(column) = Int128::new(&cast_slice(&words)[..bytes.len()]) {
                column.decode(0, &mut [0; BLOCK]);
            }
        }
    }
}
