//! Blocks of 1,024 numbers, each in as many bits as the largest needs.
//!
//! A block is as wide as a *lane* (8, 16, 32 or 64 bits) allows: with lanes of `B` bits there are
//! `1024 / B` of them side by side, and number `i` is in lane `i % lanes`, as the `i / lanes`-th there.
//! The numbers of a lane follow each other bit by bit, the first in the lowest bits; word `k` of every
//! lane comes before word `k + 1` of any. So neighbours in a block are neighbours in memory, a row of
//! them is unpacked by the same two shifts, and the compiler makes vector code of that for whatever
//! the processor has. (The idea of unified lanes is that of FastLanes, VLDB 2023; the order of numbers
//! here is their own, as no kernel of ours needs another.) A block of width `w` takes `128 * w` bytes,
//! whatever the lane.

use bytemuck::Pod;

/// Numbers in a block.
pub const BLOCK: usize = 1024;

/// A number of 8, 16, 32 or 64 bits.
pub trait Lane: Pod + Ord + Default + std::fmt::Debug + Send + Sync + 'static {
    /// How many bits it has.
    const BITS: usize;
    /// Numbers side by side in a block.
    const LANES: usize = BLOCK / Self::BITS;

    /// The lowest bits of a number of 64.
    fn of(wide: u64) -> Self;
    /// As a number of 64 bits.
    fn wide(self) -> u64;
    /// `self - other`, wrapping around.
    fn minus(self, other: Self) -> Self;
    /// `self + other`, wrapping around.
    fn plus(self, other: Self) -> Self;
    /// The low bits of what begins `shift` bits up in `self`, and goes on in `next` where
    /// `self` ends.
    fn part(self, next: Self, shift: u32, mask: Self) -> Self;
    /// The low bits of what begins `shift` bits up in `self`, and ends in it.
    fn field(self, shift: u32, mask: Self) -> Self;
    /// `self` with the bits of `other` from `shift` on.
    fn with(self, other: Self, shift: u32) -> Self;
    /// The sum of those whose byte of `mask` is set.
    fn sum(numbers: &[Self; BLOCK], mask: &[u8; BLOCK]) -> u64;
    /// The bits of `self` that `with` has lost by a shift of `shift`.
    fn rest(self, shift: u32) -> Self;
}

macro_rules! lane {
    ($t:ty, $signed:ty, $sum:expr) => {
        impl Lane for $t {
            const BITS: usize = <$t>::BITS as usize;

            #[inline(always)]
            fn of(wide: u64) -> $t {
                wide as $t
            }

            #[inline(always)]
            fn wide(self) -> u64 {
                self.into()
            }

            #[inline(always)]
            fn minus(self, other: $t) -> $t {
                self.wrapping_sub(other)
            }

            #[inline(always)]
            fn plus(self, other: $t) -> $t {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn part(self, next: $t, shift: u32, mask: $t) -> $t {
                ((self >> shift) | (next << (<$t>::BITS - shift))) & mask
            }

            #[inline(always)]
            fn field(self, shift: u32, mask: $t) -> $t {
                (self >> shift) & mask
            }

            #[inline(always)]
            fn with(self, other: $t, shift: u32) -> $t {
                self | (other << shift)
            }

            #[inline(always)]
            fn sum(numbers: &[$t; BLOCK], mask: &[u8; BLOCK]) -> u64 {
                // A byte of ones extends to a number of ones.
                let masked = |i: usize| numbers[i] & (mask[i] as i8 as $signed as $t);
                $sum(masked)
            }

            #[inline(always)]
            fn rest(self, shift: u32) -> $t {
                self >> (<$t>::BITS - shift)
            }
        }
    };
}

lane!(u8, i8, sum_in_one);
lane!(u16, i16, sum_in_one);
lane!(u32, i32, sum_in_halves);
lane!(u64, i64, sum_wide);

/// The sum of a block of numbers so small that it fits 32 bits.
#[inline(always)]
fn sum_in_one<T: Into<u32>>(number: impl Fn(usize) -> T) -> u64 {
    (0..BLOCK).map(|i| number(i).into()).fold(0u32, u32::wrapping_add).into()
}

/// The sum of a block of numbers of 32 bits: of their halves, so that lanes stay narrow.
#[inline(always)]
fn sum_in_halves(number: impl Fn(usize) -> u32) -> u64 {
    let (mut low, mut high) = (0u32, 0u32);
    for i in 0..BLOCK {
        let number = number(i);
        low = low.wrapping_add(number & 0xffff);
        high = high.wrapping_add(number >> 16);
    }
    u64::from(low) + (u64::from(high) << 16)
}

/// The sum of a block, modulo 2^64.
#[inline(always)]
fn sum_wide(number: impl Fn(usize) -> u64) -> u64 {
    (0..BLOCK).map(number).fold(0, u64::wrapping_add)
}

/// How many bits numbers up to `largest` need.
pub fn width_of(largest: u64) -> usize {
    64 - largest.leading_zeros() as usize
}

/// Bytes of a block of that width.
pub fn packed_bytes(width: usize) -> usize {
    width * BLOCK / 8
}

/// All bits below `width`.
#[inline(always)]
fn mask<T: Lane>(width: usize) -> T {
    T::of(if width >= 64 { u64::MAX } else { (1 << width) - 1 })
}

/// Packs a block of numbers of at most `width` bits; `out` has [`packed_bytes`] of zeros.
pub fn pack<T: Lane>(numbers: &[T; BLOCK], width: usize, out: &mut [T]) {
    assert_eq!(std::mem::size_of_val(out), packed_bytes(width), "room for a block");
    for (row, numbers) in numbers.chunks_exact(T::LANES).enumerate().filter(|_| width > 0) {
        let (word, shift) = (row * width / T::BITS, (row * width % T::BITS) as u32);
        for (lane, number) in numbers.iter().enumerate() {
            let at = word * T::LANES + lane;
            out[at] = out[at].with(*number, shift);
            if shift as usize + width > T::BITS {
                out[at + T::LANES] = number.rest(shift);
            }
        }
    }
}

/// Unpacks a block of that width.
#[inline(always)]
pub(crate) fn unpack_inline<T: Lane>(packed: &[T], width: usize, out: &mut [T; BLOCK]) {
    assert_eq!(std::mem::size_of_val(packed), packed_bytes(width), "a whole block");
    if width == 0 {
        return out.fill(T::default());
    }
    let mask = mask::<T>(width);
    for (row, out) in out.chunks_exact_mut(T::LANES).enumerate() {
        let (word, shift) = (row * width / T::BITS, (row * width % T::BITS) as u32);
        let low = &packed[word * T::LANES..][..T::LANES];
        if shift as usize + width <= T::BITS {
            for (out, low) in out.iter_mut().zip(low) {
                *out = low.field(shift, mask);
            }
        } else {
            let high = &packed[(word + 1) * T::LANES..][..T::LANES];
            for ((out, low), high) in out.iter_mut().zip(low).zip(high) {
                *out = low.part(*high, shift, mask);
            }
        }
    }
}

/// Keeps in `kept` the numbers of a packed block from `from` to `from + span`. Written out as
/// [`unpack_inline`] is: through a closure the compiler does not vectorize it.
#[inline(always)]
pub(crate) fn keep_inline<T: Lane>(
    packed: &[T],
    width: usize,
    from: T,
    span: T,
    kept: &mut [u8; BLOCK],
) {
    assert_eq!(std::mem::size_of_val(packed), packed_bytes(width), "a whole block");
    let mask = mask::<T>(width);
    for (row, kept) in kept.chunks_exact_mut(T::LANES).enumerate().filter(|_| width > 0) {
        let (word, shift) = (row * width / T::BITS, (row * width % T::BITS) as u32);
        let low = &packed[word * T::LANES..][..T::LANES];
        if shift as usize + width <= T::BITS {
            for (kept, low) in kept.iter_mut().zip(low) {
                let number = low.field(shift, mask);
                *kept &= u8::from(number.minus(from) <= span).wrapping_neg();
            }
        } else {
            let high = &packed[(word + 1) * T::LANES..][..T::LANES];
            for ((kept, low), high) in kept.iter_mut().zip(low).zip(high) {
                let number = low.part(*high, shift, mask);
                *kept &= u8::from(number.minus(from) <= span).wrapping_neg();
            }
        }
    }
}

/// Number `at` of a packed block of that width; words that hold no part of it may be absent.
pub(crate) fn one_of<T: Lane>(packed: &[T], width: usize, at: usize) -> T {
    if width == 0 {
        return T::default();
    }
    let (row, lane) = (at / T::LANES, at % T::LANES);
    let place = row * width / T::BITS * T::LANES + lane;
    let (shift, mask) = ((row * width % T::BITS) as u32, mask::<T>(width));
    match shift as usize + width <= T::BITS {
        true => packed[place].field(shift, mask),
        false => packed[place].part(packed[place + T::LANES], shift, mask),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back<T: Lane>() {
        for width in 0..=T::BITS {
            let largest: T = mask(width);
            let mut state = 0x9e37_79b9_7f4a_7c15_u64;
            let mut numbers = [T::default(); BLOCK];
            for number in &mut numbers {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                *number = T::of((state >> 7) & largest.wide());
            }
            (numbers[0], numbers[BLOCK - 1]) = (largest, largest);
            let mut packed = vec![T::default(); packed_bytes(width) / size_of::<T>()];
            pack(&numbers, width, &mut packed);
            let mut back = [T::of(1); BLOCK];
            unpack_inline(&packed, width, &mut back);
            assert_eq!(numbers, back, "width {width} of {}", T::BITS);
            for (at, number) in numbers.iter().enumerate() {
                assert_eq!(one_of(&packed, width, at), *number, "{at}, width {width}");
            }
        }
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        there_and_back::<u8>();
        there_and_back::<u16>();
        there_and_back::<u32>();
        there_and_back::<u64>();
    }

    #[test]
    fn a_width_is_that_of_the_largest() {
        assert_eq!([0, 1, 2, 255, 256, u64::MAX].map(width_of), [0, 1, 2, 8, 9, 64]);
    }

    #[test]
    fn the_bytes_are_these() {
        let mut numbers = [0u8; BLOCK];
        numbers.iter_mut().enumerate().for_each(|(i, n)| *n = (i / 128) as u8);
        let mut packed = vec![0u8; packed_bytes(3)];
        pack(&numbers, 3, &mut packed);
        // 0, 1, 2 and the low bits of 3 in each of 128 first bytes, and so on.
        assert_eq!((packed[0], packed[127], packed[128], packed[256]), (0x88, 0x88, 0xc6, 0xfa));
    }
}
