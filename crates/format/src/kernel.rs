//! What is done to a block of 1,024 numbers at a time. Each kernel is compiled twice, for any x86-64 (or
//! other) processor and for one with AVX2, and picks once per call: the loops are plain, and the
//! compiler makes the widest vector code of them that the processor has.

use crate::bits::{BLOCK, Lane, unpack_inline};

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

    /// Leaves in `mask` those whose number is from `low` to `low + span`.
    fn keep_range<T>(numbers: &[T; BLOCK], low: T, span: T, mask: &mut Mask) {
        for (mask, number) in mask.iter_mut().zip(numbers) {
            *mask &= u8::from(number.minus(low) <= span).wrapping_neg();
        }
    }

    /// The products of two blocks, each with a base of its own, that fit 32 bits.
    fn multiply<A, B>(
        a: &[A; BLOCK], a_base: u32, b: &[B; BLOCK], b_base: u32, out: &mut [u32; BLOCK]
    ) {
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            *out = (a.wide() as u32).wrapping_add(a_base)
                .wrapping_mul((b.wide() as u32).wrapping_add(b_base));
        }
    }

    /// The products of two blocks, the second with a base, that fit 64 bits.
    fn multiply_wide<A, B>(a: &[A; BLOCK], b: &[B; BLOCK], b_base: u32, out: &mut [u64; BLOCK]) {
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            let b = (b.wide() as u32).wrapping_add(b_base);
            *out = a.wide().wrapping_mul(b.into());
        }
    }

    /// The sum of those that count.
    fn sum<T>(numbers: &[T; BLOCK], mask: &Mask) -> u64 {
        T::sum(numbers, mask)
    }

    /// Leaves in `own` those of `mask` that are in group `group`.
    fn of_group<G>(groups: &[G; BLOCK], group: G, mask: &Mask, own: &mut Mask) {
        for ((own, mask), of) in own.iter_mut().zip(mask).zip(groups) {
            *own = *mask & u8::from(*of == group).wrapping_neg();
        }
    }

    /// How many count.
    fn count<>(mask: &Mask) -> usize {
        let mut sum = 0u32;
        for mask in mask {
            sum = sum.wrapping_add(u32::from(mask & 1));
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
        multiply(&[7u32; BLOCK], 100, &[3u8; BLOCK], 10, &mut out);
        assert_eq!(sum(&out, &own), 107 * 13 * 341);
        let mut wide = [0; BLOCK];
        multiply_wide(&[u32::MAX; BLOCK], &[255u8; BLOCK], 100, &mut wide);
        assert_eq!(sum(&wide, &own), u64::from(u32::MAX) * 355 * 341);
    }
}
