//! Kernels over blocks of 1,024 numbers. Each is compiled twice, for the baseline processor and for one
//! with AVX2, and chooses once per call: the loops are plain, and the compiler turns them into the widest
//! vector code that the processor has.

mod key_filter;
mod prefetch;
mod views;

use crate::bits::{BLOCK, Lane, keep_inline, unpack_inline};
pub use key_filter::keep_keys;
pub use prefetch::prefetch;
pub use views::Views;

/// Numbers that are added up beside each other.
const EIGHT: usize = 8;

/// Whether each number of a block counts: all bits of its byte, or none.
pub type Mask = [u8; BLOCK];

/// Whether the processor has all that the fast versions are compiled for.
#[inline(always)]
fn is_fast() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("avx2")
            && std::arch::is_x86_feature_detected!("bmi1")
            && std::arch::is_x86_feature_detected!("bmi2")
            && std::arch::is_x86_feature_detected!("lzcnt")
            && std::arch::is_x86_feature_detected!("popcnt")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

macro_rules! kernels {
    ($($(#[$doc:meta])* fn $name:ident<$($t:ident),*>($($arg:ident: $ty:ty),*) $(-> $ret:ty)? $body:block)+) => {
        $(
            $(#[$doc])*
            #[inline]
            pub fn $name<$($t: Lane),*>($($arg: $ty),*) $(-> $ret)? {
                #[inline(always)]
                fn plain<$($t: Lane),*>($($arg: $ty),*) $(-> $ret)? $body

                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt")]
                fn fast<$($t: Lane),*>($($arg: $ty),*) $(-> $ret)? {
                    plain::<$($t),*>($($arg),*)
                }

                #[cfg(target_arch = "x86_64")]
                if is_fast() {
                    // SAFETY: the processor has these features, as was just asked.
                    #[expect(unsafe_code, reason = "a function for a processor that was asked for")]
                    return unsafe { fast::<$($t),*>($($arg),*) };
                }
                plain::<$($t),*>($($arg),*)
            }
        )+
    };
}

kernels! {
    /// Unpacks a block of that width.
    fn unpack<T>(packed: &[T], width: usize, out: &mut [T; BLOCK]) {
        unpack_inline(packed, width, out);
    }

    /// Leaves in `mask` those of a packed block whose number is from `low` to `low + span`.
    fn keep_packed<T>(packed: &[T], width: usize, low: T, span: T, mask: &mut Mask) {
        keep_inline(packed, width, low, span, mask);
    }

    /// Leaves in `mask` those whose number is from `low` to `low + span`.
    fn keep_range<T>(numbers: &[T; BLOCK], low: T, span: T, mask: &mut Mask) {
        for (mask, number) in mask.iter_mut().zip(numbers) {
            *mask &= u8::from(number.minus(low) <= span).wrapping_neg();
        }
    }

    /// Each number and a base, in 64 bits.
    fn widen<T>(codes: &[T; BLOCK], base: i64, out: &mut [i64; BLOCK]) {
        for (out, code) in out.iter_mut().zip(codes) {
            *out = base.wrapping_add(code.wide() as i64);
        }
    }

    /// Each number times a factor, and a base, in 64 bits.
    fn widen_times<T>(codes: &[T; BLOCK], factor: u64, base: i64, out: &mut [i64; BLOCK]) {
        for (out, code) in out.iter_mut().zip(codes) {
            *out = base.wrapping_add(code.wide().wrapping_mul(factor) as i64);
        }
    }

    /// Each number times a factor, as far as the lane holds it.
    fn times<A, B>(codes: &[A; BLOCK], factor: u64, out: &mut [B; BLOCK]) {
        for (out, code) in out.iter_mut().zip(codes) {
            *out = B::of(code.wide().wrapping_mul(factor));
        }
    }

    /// What steps lead to, each added to `least`: `first` before any of them; the bits of `mask` of it.
    fn walk<T>(steps: &mut [T; BLOCK], first: T, least: T, mask: T) {
        // Not one after the other: sums of four neighbours, and of them sums of eight, are made of all at
        // a time, and what eight rows lead to is eight further, for each of them. Zeros come before.
        let mut own = [T::default(); EIGHT + BLOCK];
        for (own, step) in own[EIGHT..].iter_mut().zip(steps.iter()) {
            *own = step.plus(least);
        }
        own[EIGHT] = first;
        let mut fours = [T::default(); EIGHT + BLOCK];
        let before = |rows: usize| &own[EIGHT - rows..];
        let all = own[EIGHT..].iter().zip(before(1)).zip(before(2)).zip(before(3));
        for (four, (((a, b), c), d)) in fours[EIGHT..].iter_mut().zip(all) {
            *four = a.plus(*b).plus(c.plus(*d));
        }
        let mut sums = [T::default(); EIGHT];
        let eights = fours[EIGHT..].chunks_exact(EIGHT).zip(fours[EIGHT / 2..].chunks_exact(EIGHT));
        for (out, (a, b)) in steps.as_chunks_mut::<EIGHT>().0.iter_mut().zip(eights) {
            for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
                *sum = sum.plus(a.plus(*b));
            }
            *out = sums.map(|sum| sum.field(0, mask));
        }
    }

    /// The sums of two blocks and a base, of which what is beyond 32 bits is lost.
    fn add_u32<A, B>(a: &[A; BLOCK], b: &[B; BLOCK], base: u32, out: &mut [u32; BLOCK]) {
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            *out = (a.wide() as u32).wrapping_add(b.wide() as u32).wrapping_add(base);
        }
    }

    /// The differences of two blocks and a base, of which what is beyond 32 bits is lost.
    fn subtract_u32<A, B>(a: &[A; BLOCK], b: &[B; BLOCK], base: u32, out: &mut [u32; BLOCK]) {
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            *out = (a.wide() as u32).wrapping_sub(b.wide() as u32).wrapping_add(base);
        }
    }

    /// The products of two blocks, each with a base of its own, of which what is beyond 32 bits is lost.
    fn multiply_u32<A, B>(
        a: &[A; BLOCK], a_base: u32, b: &[B; BLOCK], b_base: u32, out: &mut [u32; BLOCK]
    ) {
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            *out = (a.wide() as u32).wrapping_add(a_base)
                .wrapping_mul((b.wide() as u32).wrapping_add(b_base));
        }
    }

    /// The products, in 64 bits, of two blocks that with their bases fit 32 bits.
    fn multiply_to_i64<A, B>(
        a: &[A; BLOCK], a_base: u32, b: &[B; BLOCK], b_base: u32, out: &mut [i64; BLOCK]
    ) {
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            let a = u64::from((a.wide() as u32).wrapping_add(a_base));
            let b = u64::from((b.wide() as u32).wrapping_add(b_base));
            *out = a.wrapping_mul(b) as i64;
        }
    }

    /// Adds to the place of each row that of its number, as far as `last`, so many apart. The sum fits a byte.
    fn place<T>(codes: &[T; BLOCK], base: u64, last: u64, stride: u8, out: &mut [u8; BLOCK]) {
        match i32::try_from(base as i64) {
            // Narrow numbers, that lose nothing above 32 bits; less than none is beyond the last place.
            Ok(base) if T::BITS <= 16 => {
                for (out, code) in out.iter_mut().zip(codes) {
                    let at = (code.wide() as u32).wrapping_add(base as u32).min(last as u32);
                    *out = out.wrapping_add((at as u8).wrapping_mul(stride));
                }
            }
            _ => {
                for (out, code) in out.iter_mut().zip(codes) {
                    let at = base.wrapping_add(code.wide()).min(last);
                    *out = out.wrapping_add((at as u8).wrapping_mul(stride));
                }
            }
        }
    }

    /// Leaves in `mask` those whose bit is one.
    fn keep_bits<>(bits: &[u8], mask: &mut Mask) {
        for (mask, byte) in mask.chunks_exact_mut(8).zip(bits) {
            // Each byte of the word has the whole byte, of which its own bit is asked.
            let word = u64::from(*byte).wrapping_mul(0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
            let ones = word.wrapping_add(0x7f7f_7f7f_7f7f_7f7f) | word;
            let ones = (ones >> 7) & 0x0101_0101_0101_0101;
            let ones = ones.wrapping_mul(0xff).to_le_bytes();
            mask.iter_mut().zip(ones).for_each(|(mask, ones)| *mask &= ones);
        }
    }

    /// The sums of two blocks with bases, of which what is beyond 64 bits is lost.
    fn add_i64<A, B>(
        a: &[A; BLOCK], a_base: i64, b: &[B; BLOCK], b_base: i64, out: &mut [i64; BLOCK]
    ) {
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            let (a, b) = (a.wide() as i64, b.wide() as i64);
            *out = a.wrapping_add(a_base).wrapping_add(b.wrapping_add(b_base));
        }
    }

    /// The differences of two blocks with bases, of which what is beyond 64 bits is lost.
    fn subtract_i64<A, B>(
        a: &[A; BLOCK], a_base: i64, b: &[B; BLOCK], b_base: i64, out: &mut [i64; BLOCK]
    ) {
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            let (a, b) = (a.wide() as i64, b.wide() as i64);
            *out = a.wrapping_add(a_base).wrapping_sub(b.wrapping_add(b_base));
        }
    }

    /// The products of two blocks with bases, of which what is beyond 64 bits is lost.
    fn multiply_i64<A, B>(
        a: &[A; BLOCK], a_base: i64, b: &[B; BLOCK], b_base: i64, out: &mut [i64; BLOCK]
    ) {
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            let (a, b) = (a.wide() as i64, b.wide() as i64);
            *out = a.wrapping_add(a_base).wrapping_mul(b.wrapping_add(b_base));
        }
    }

    /// Leaves in `mask` those of which the first is less than the second.
    fn keep_less<>(a: &[i64; BLOCK], b: &[i64; BLOCK], mask: &mut Mask) {
        for ((mask, a), b) in mask.iter_mut().zip(a).zip(b) {
            *mask &= u8::from(a < b).wrapping_neg();
        }
    }

    /// Leaves in `mask` those of which the first is not more than the second.
    fn keep_less_or_equal<>(a: &[i64; BLOCK], b: &[i64; BLOCK], mask: &mut Mask) {
        for ((mask, a), b) in mask.iter_mut().zip(a).zip(b) {
            *mask &= u8::from(a <= b).wrapping_neg();
        }
    }

    /// Leaves in `mask` those of which both are the same, or (with `turned` all ones) are not.
    fn keep_equal<>(a: &[i64; BLOCK], b: &[i64; BLOCK], turned: u8, mask: &mut Mask) {
        for ((mask, a), b) in mask.iter_mut().zip(a).zip(b) {
            *mask &= u8::from(a == b).wrapping_neg() ^ turned;
        }
    }

    /// The least of those that count; the largest of its type if none does.
    fn least<T>(numbers: &[T; BLOCK], mask: &Mask) -> T {
        let mut least = T::of(u64::MAX);
        for (number, mask) in numbers.iter().zip(mask) {
            let number = if *mask == 0 { T::of(u64::MAX) } else { *number };
            least = if number < least { number } else { least };
        }
        least
    }

    /// The greatest of those that count; 0 if none does.
    fn greatest<T>(numbers: &[T; BLOCK], mask: &Mask) -> T {
        let mut greatest = T::default();
        for (number, mask) in numbers.iter().zip(mask) {
            let number = if *mask == 0 { T::default() } else { *number };
            greatest = if number > greatest { number } else { greatest };
        }
        greatest
    }

    /// Adds to `out` those of `mask`.
    fn join<>(mask: &Mask, out: &mut Mask) {
        for (out, mask) in out.iter_mut().zip(mask) {
            *out |= *mask;
        }
    }

    /// The sum of those that count.
    fn sum<T>(numbers: &[T; BLOCK], mask: &Mask) -> u64 {
        T::sum(numbers, mask)
    }

    /// The sum of those that count, if it fits 64 bits.
    fn sum_i64<>(numbers: &[i64; BLOCK], mask: &Mask) -> i64 {
        let mut sum = 0i64;
        for (number, mask) in numbers.iter().zip(mask) {
            sum = sum.wrapping_add(*number & i64::from(*mask as i8));
        }
        sum
    }

    /// Leaves in `own` those of `mask` that are in group `group`.
    fn of_group<G>(groups: &[G; BLOCK], group: G, mask: &Mask, own: &mut Mask) {
        for ((own, mask), of) in own.iter_mut().zip(mask).zip(groups) {
            *own = *mask & u8::from(*of == group).wrapping_neg();
        }
    }

    /// How many count.
    fn count<>(mask: &Mask) -> usize {
        // Each adds to a byte of its own, which holds far more than the 16 that come to it.
        let mut lanes = [0u8; 64];
        for masks in mask.as_chunks::<64>().0 {
            for (lane, mask) in lanes.iter_mut().zip(masks) {
                *lane = lane.wrapping_add(mask & 1);
            }
        }
        let mut sum = 0u32;
        for lane in &lanes {
            sum = sum.wrapping_add(u32::from(*lane));
        }
        sum as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_kept_counted_and_summed() {
        let mut numbers = [0u16; BLOCK];
        numbers.iter_mut().enumerate().for_each(|(i, n)| *n = (i * 37 % 1000) as u16);
        let mut mask = [0xff; BLOCK];
        keep_range(&numbers, 100, 99, &mut mask);
        keep_range(&numbers, 150, 1000, &mut mask);
        let kept: Vec<u64> =
            numbers.iter().filter(|n| (150..200).contains(*n)).map(|n| u64::from(*n)).collect();
        assert_eq!((count(&mask), sum(&numbers, &mask)), (kept.len(), kept.iter().sum()));
    }

    #[test]
    fn the_largest_numbers_are_summed_right() {
        let all = [0xff; BLOCK];
        assert_eq!(sum(&[u8::MAX; BLOCK], &all), 255 * 1024);
        assert_eq!(sum(&[u16::MAX; BLOCK], &all), 65_535 * 1024);
        assert_eq!(sum(&[u32::MAX; BLOCK], &all), u64::from(u32::MAX) * 1024);
        assert_eq!(sum(&[u64::MAX; BLOCK], &all), 0u64.wrapping_sub(1024));
        assert_eq!(sum(&[u32::MAX; BLOCK], &[0; BLOCK]), 0);
    }

    #[test]
    fn groups_are_told_apart_and_products_have_their_bases() {
        let mut groups = [0u8; BLOCK];
        groups.iter_mut().enumerate().for_each(|(i, g)| *g = (i % 3) as u8);
        let mut own = [0; BLOCK];
        of_group(&groups, 2, &[0xff; BLOCK], &mut own);
        assert_eq!(count(&own), groups.iter().filter(|g| **g == 2).count());
        let mut out = [0; BLOCK];
        multiply_u32(&[7u32; BLOCK], 100, &[3u8; BLOCK], 10, &mut out);
        assert_eq!(sum(&out, &own), 107 * 13 * 341);
        let mut wide = [0; BLOCK];
        multiply_to_i64(&[u32::MAX; BLOCK], 0, &[255u8; BLOCK], 100, &mut wide);
        assert_eq!(sum_i64(&wide, &own), i64::from(u32::MAX) * 355 * 341);
        let mut places = [3; BLOCK];
        place(
            &[2u64, 9, u64::MAX].repeat(BLOCK)[..BLOCK].try_into().expect("a block"),
            1,
            5,
            2,
            &mut places,
        );
        assert_eq!(places[..3], [9, 13, 3]);
        let mut below = [0; BLOCK];
        place(&[1u8; BLOCK], u64::MAX, 5, 1, &mut below);
        place(&[0u16; BLOCK], u64::MAX, 5, 2, &mut below);
        assert_eq!(below[0], 10, "one above what is one below is the first; below it is the last");
    }
}
