//! The keys of one side of a join, for rows of the other side to be asked whether they can have a
//! partner.

/// Bits of a bitmap, at most: 1 MiB of them.
pub const BITS_MAX: u64 = 1 << 23;
/// Bits of a bloom filter for each key.
const BITS_A_KEY: usize = 16;
/// Bits of a block of a bloom filter that a key sets.
const BITS_SET: u32 = 8;

/// A set of whole numbers that has all that were put in, and perhaps more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyFilter {
    /// Exactly these: a bit for each number from `low` on.
    Bits {
        /// The number of the first bit.
        low: i64,
        /// The number of the last.
        high: i64,
        /// The bits, the first in the lowest of the first word.
        bits: Vec<u64>,
    },
    /// These and by chance others: a bloom filter of blocks of 256 bits.
    Bloom {
        /// The smallest key.
        low: i64,
        /// The largest.
        high: i64,
        /// The blocks.
        blocks: Vec<[u32; 8]>,
    },
}

impl KeyFilter {
    /// A set of these numbers: exact if they are not too far from each other.
    pub fn new(keys: &[i64]) -> KeyFilter {
        let (low, high) = (keys.iter().min(), keys.iter().max());
        let (low, high) = (low.copied().unwrap_or(0), high.copied().unwrap_or(-1));
        let span = (high.wrapping_sub(low) as u64).wrapping_add(1);
        if keys.is_empty() || (1..=BITS_MAX).contains(&span) {
            let mut bits = vec![0u64; (span as usize).div_ceil(64)];
            for key in keys {
                let at = key.wrapping_sub(low) as usize;
                bits[at / 64] |= 1 << (at % 64);
            }
            return KeyFilter::Bits { low, high, bits };
        }
        let mut blocks = vec![[0u32; 8]; (keys.len() * BITS_A_KEY).div_ceil(256).max(1)];
        for key in keys {
            let (block, set) = places(*key, blocks.len());
            blocks[block].iter_mut().zip(set).for_each(|(word, bit)| *word |= bit);
        }
        KeyFilter::Bloom { low, high, blocks }
    }

    /// The smallest and the largest key; `None`: there is none.
    pub fn range(&self) -> Option<(i64, i64)> {
        let (KeyFilter::Bits { low, high, .. } | KeyFilter::Bloom { low, high, .. }) = self;
        (low <= high).then_some((*low, *high))
    }

    /// Whether a number may be among them.
    #[inline]
    pub fn may_have(&self, number: i64) -> bool {
        match self {
            KeyFilter::Bits { low, bits, .. } => {
                let at = number.wrapping_sub(*low) as u64;
                bits.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 == 1)
            }
            KeyFilter::Bloom { low, high, blocks } => {
                if number < *low || number > *high {
                    return false;
                }
                let (block, set) = places(number, blocks.len());
                blocks[block].iter().zip(set).all(|(word, bit)| word & bit != 0)
            }
        }
    }

    /// Its bytes in memory.
    pub fn bytes(&self) -> usize {
        match self {
            KeyFilter::Bits { bits, .. } => bits.len() * 8,
            KeyFilter::Bloom { blocks, .. } => blocks.len() * 32,
        }
    }
}

/// The block of a key, and a bit in each of its words (split block bloom filters, as in Parquet).
#[inline(always)]
fn places(key: i64, blocks: usize) -> (usize, [u32; BITS_SET as usize]) {
    const SALT: [u32; 8] = [
        0x47b6_137b,
        0x4497_4d91,
        0x8824_ad5b,
        0xa2b7_289d,
        0x7054_95c7,
        0x2df1_424b,
        0x9efc_4947,
        0x5c6b_fb31,
    ];
    let mut hash = key as u64;
    // The finisher of MurmurHash3: each bit of the key reaches each bit of the hash.
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^= hash >> 33;
    let block = (((hash >> 32) * blocks as u64) >> 32) as usize;
    (block, SALT.map(|salt| 1 << ((hash as u32).wrapping_mul(salt) >> 27)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn all_that_were_put_in_are_there(
            keys in prop::collection::vec(prop_oneof![any::<i64>(), -5000..5000i64], 0..400),
            others in prop::collection::vec(any::<i64>(), 0..50),
        ) {
            let members = KeyFilter::new(&keys);
            prop_assert!(keys.iter().all(|key| members.may_have(*key)));
            if let KeyFilter::Bits { .. } = members {
                let all: std::collections::BTreeSet<i64> = keys.iter().copied().collect();
                for other in others.iter().copied().chain(-5001..5001) {
                    prop_assert_eq!(members.may_have(other), all.contains(&other));
                }
            }
            let ends = keys.iter().min().zip(keys.iter().max()).map(|(a, b)| (*a, *b));
            prop_assert_eq!(members.range(), ends);
        }
    }

    #[test]
    fn few_others_are_taken_for_members() {
        let keys: Vec<i64> = (0..100_000).map(|i| i * 1_000_003).collect();
        let members = KeyFilter::new(&keys);
        assert!(matches!(members, KeyFilter::Bloom { .. }));
        let wrong = (0..100_000).filter(|i| members.may_have(i * 1_000_003 + 1)).count();
        assert!(wrong < 300, "{wrong} of 100000");
    }
}
