//! A small seeded generator (xoshiro256**, seeded by splitmix64), the same on every machine.

use std::ops::RangeInclusive;

/// Pseudo-random numbers that replay from their seed. Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

/// One step of splitmix64: spreads a seed over 64 bits and moves it on.
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Rng {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Rng {
        let mut state = seed;
        Rng(std::array::from_fn(|_| splitmix(&mut state)))
    }

    /// The generator of stream `stream` of `seed`: streams do not disturb each other.
    pub fn stream(seed: u64, stream: u64) -> Rng {
        let mut state = stream;
        Rng::new(seed ^ splitmix(&mut state))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `n`, which must not be 0.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "no number is below 0");
        // The high half of a 128-bit product: the bias is below n / 2^64.
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// A number in `range`, both ends included.
    pub fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (low, high) = range.into_inner();
        assert!(low <= high, "a range has its low end first");
        match (high - low).checked_add(1) {
            Some(span) => low + self.below(span),
            None => self.bits(),
        }
    }

    /// Heads or tails.
    pub fn coin(&mut self) -> bool {
        self.bits() >> 63 == 1
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let bits = self.bits().to_le_bytes();
            chunk.copy_from_slice(&bits[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_replays_and_streams_differ() {
        let draw = |mut rng: Rng| (0..100).map(|_| rng.bits()).collect::<Vec<_>>();
        assert_eq!(draw(Rng::new(7)), draw(Rng::new(7)));
        assert_ne!(draw(Rng::new(7)), draw(Rng::new(8)));
        assert_ne!(draw(Rng::stream(7, 0)), draw(Rng::stream(7, 1)));
    }

    #[test]
    fn numbers_stay_in_their_range_and_reach_both_ends() {
        let mut rng = Rng::new(1);
        let seen: Vec<u64> = (0..1000).map(|_| rng.within(3..=6)).collect();
        assert_eq!(seen.iter().min(), Some(&3));
        assert_eq!(seen.iter().max(), Some(&6));
        rng.within(0..=u64::MAX);
    }
}
