//! Rows whose number is a member of a set of bits, eight looks at a time where the processor has them.

use crate::bits::{BLOCK, Lane};
use crate::kernel::Mask;

/// Leaves in `mask` those whose number, `base` and a code of at most `most`, has a bit of one in `bits`.
pub fn keep_keys<T: Lane>(codes: &[T; BLOCK], base: i64, most: u64, bits: &[u64], mask: &mut Mask) {
    if bits.is_empty() {
        return mask.fill(0);
    }
    #[cfg(target_arch = "x86_64")]
    if super::is_fast()
        && let Ok(codes) = bytemuck::try_cast_ref::<[T; BLOCK], [u32; BLOCK]>(codes)
        && let (Ok(base), Ok(count)) = (i32::try_from(base), i32::try_from(bits.len() * 64))
        && i64::from(base).saturating_add_unsigned(most) <= i32::MAX.into()
    {
        // SAFETY: the processor has AVX2, as was just asked.
        #[expect(unsafe_code, reason = "a function for a processor that was asked for")]
        return unsafe { fast::keep(codes, base, bits, count, mask) };
    }
    for (mask, code) in mask.iter_mut().zip(codes) {
        let at = base.wrapping_add(code.wide() as i64) as u64;
        let word = bits.get((at / 64) as usize).copied().unwrap_or(0);
        *mask &= ((word >> (at % 64)) as u8 & 1).wrapping_neg();
    }
}

#[cfg(target_arch = "x86_64")]
mod fast {
    use std::arch::x86_64::*;

    use crate::bits::BLOCK;
    use crate::kernel::Mask;

    /// As [`super::keep_keys`], of `count` bits; numbers beyond 32 bits come back as some that have none.
    #[target_feature(enable = "avx2")]
    pub fn keep(codes: &[u32; BLOCK], base: i32, bits: &[u64], count: i32, mask: &mut Mask) {
        assert_eq!(bits.len() * 64, count as usize, "all bits are counted");
        assert!(count > 0, "there is a word to look at where a number is outside");
        let (codes, masks) = (codes.as_chunks::<32>().0, mask.as_chunks_mut::<32>().0);
        for (codes, mask) in codes.iter().zip(masks) {
            let [a, b, c, d] = [0, 1, 2, 3].map(|at| {
                let eight: &[u32; 8] = &codes.as_chunks::<8>().0[at];
                members(eight, base, bits, count)
            });
            // Packed within halves; put in order again.
            let bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
            let bytes =
                _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
            let own: [u8; 32] = bytemuck::cast(bytes);
            mask.iter_mut().zip(own).for_each(|(mask, own)| *mask &= own);
        }
    }

    /// All bits of those that are members.
    #[target_feature(enable = "avx2")]
    fn members(codes: &[u32; 8], base: i32, bits: &[u64], count: i32) -> __m256i {
        let codes: __m256i = bytemuck::cast(*codes);
        let at = _mm256_add_epi32(codes, _mm256_set1_epi32(base));
        let below = _mm256_cmpgt_epi32(_mm256_set1_epi32(count), at);
        let inside = _mm256_and_si256(below, _mm256_cmpgt_epi32(at, _mm256_set1_epi32(-1)));
        let place = _mm256_and_si256(_mm256_srli_epi32::<5>(at), inside);
        // SAFETY: a place is 0, or that of a number from 0 on and below the count of bits, of which there
        // are 32 each; the words are aligned for halves of them.
        #[expect(unsafe_code, reason = "the only way to look at eight words at once")]
        let words = unsafe { _mm256_i32gather_epi32::<4>(bits.as_ptr().cast(), place) };
        let bit = _mm256_srlv_epi32(words, _mm256_and_si256(at, _mm256_set1_epi32(31)));
        // The lowest bit becomes the sign, and the sign all bits.
        let ones = _mm256_srai_epi32::<31>(_mm256_slli_epi32::<31>(bit));
        _mm256_and_si256(ones, inside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::count;

    fn as_each_says<T: Lane>(codes: &[T; BLOCK], bits: &[u64]) {
        let most = codes.iter().map(|code| code.wide()).max().unwrap_or(0);
        let ends = [i64::from(i32::MAX), i64::from(i32::MIN), i64::MAX, i64::MIN];
        for base in [0, 3, 120, -9, -1000, 1 << 33].into_iter().chain(ends) {
            let mut mask = [0xff; BLOCK];
            mask[7] = 0;
            keep_keys(codes, base, most, bits, &mut mask);
            for (row, (code, mask)) in codes.iter().zip(&mask).enumerate() {
                let at = i128::from(base) + i128::from(code.wide());
                let word = usize::try_from(at / 64).ok().filter(|_| at >= 0);
                let word = word.and_then(|word| bits.get(word)).copied().unwrap_or(0);
                let is_member = row != 7 && at >= 0 && word >> (at % 64) & 1 == 1;
                assert_eq!(*mask, if is_member { 0xff } else { 0 }, "{base} {code:?} {row}");
            }
            assert!(base != 0 || bits.len() < 2 || count(&mask) > 0);
        }
    }

    #[test]
    fn members_are_those_with_a_bit_and_none_beyond() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 33
        };
        let bits: Vec<u64> = (0..40).map(|_| next() << 33 | next() << 5).collect();
        let mut codes = [0u32; BLOCK];
        codes.iter_mut().for_each(|code| *code = (next() % 3000) as u32);
        (codes[0], codes[1], codes[2]) = (0, 40 * 64 - 1, 40 * 64);
        as_each_says(&codes, &bits);
        as_each_says(&codes, &[1 << 63]);
        as_each_says(&codes, &[]);
        codes[3] = u32::MAX;
        as_each_says(&codes, &bits);
        as_each_says(&codes.map(|code| code as u8), &bits);
        as_each_says(&codes.map(|code| code as u16), &bits);
        as_each_says(&codes.map(u64::from), &bits);
    }
}
