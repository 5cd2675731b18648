//! Log-linear histograms of durations.
//!
//! The unit is 1/16 us. Below 1 us each unit is a bucket; above, each power of two is cut into
//! sixteen equal buckets. So every power-of-two number of microseconds is a bound between two
//! buckets, and a value is known to 6.25 % (below 1 us: to 62.5 ns). The last bucket holds all
//! from 2^32 us (71 minutes) on.

/// Steps per power of two.
const STEPS: u64 = 16;
const STEPS_LOG2: u32 = 4;
/// Durations of 2^32 us and more share the last bucket.
const POWERS: u64 = 32;

/// How many buckets a histogram has.
pub const BUCKETS: usize = (STEPS + POWERS * STEPS + 1) as usize;

/// The bucket of a duration.
#[expect(clippy::cast_possible_truncation, reason = "the index is below BUCKETS, which is 529")]
pub const fn bucket_of(nanos: u64) -> usize {
    // floor(nanos * 16 / 1000), without overflow: the quotient first.
    let units = nanos / 125 * 2 + nanos % 125 * 2 / 125;
    if units < STEPS {
        return units as usize;
    }
    let power = units.ilog2() - STEPS_LOG2;
    if power as u64 >= POWERS {
        return BUCKETS - 1;
    }
    ((power as u64 + 1) * STEPS + (units >> power) - STEPS) as usize
}

/// The first duration of a bucket, in nanoseconds. The first behind the last bucket is
/// `u64::MAX`.
pub const fn bucket_start(bucket: usize) -> u64 {
    if bucket >= BUCKETS {
        return u64::MAX;
    }
    let bucket = bucket as u64;
    let units = if bucket < STEPS {
        bucket
    } else {
        let power = bucket / STEPS - 1;
        (STEPS + bucket % STEPS) << power
    };
    (units * 125).div_ceil(2)
}

/// A histogram that one owner fills or that was merged from others.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: Box<[u64]>,
    sum: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: vec![0; BUCKETS].into_boxed_slice(), sum: 0, max: 0 }
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("sum", &self.sum)
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Histogram {
        Histogram::default()
    }

    /// Counts one duration.
    pub fn record(&mut self, nanos: u64) {
        self.buckets[bucket_of(nanos)] += 1;
        self.sum = self.sum.saturating_add(nanos);
        self.max = self.max.max(nanos);
    }

    /// Adds all that `other` has counted.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.add_sum(other.sum, other.max);
    }

    pub(crate) fn add_bucket(&mut self, bucket: usize, count: u64) {
        self.buckets[bucket] += count;
    }

    pub(crate) fn add_sum(&mut self, sum: u64, max: u64) {
        self.sum = self.sum.saturating_add(sum);
        self.max = self.max.max(max);
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Their sum in nanoseconds.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The longest in nanoseconds, exactly; 0 if none was counted.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean in nanoseconds, `None` if nothing was counted.
    pub fn mean(&self) -> Option<u64> {
        self.sum.checked_div(self.count())
    }

    /// The duration in nanoseconds that `percent` of those counted do not exceed: never less than
    /// the true one, at most 6.25 % (or 62.5 ns) more. `None` if nothing was counted.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank near 2^53 may be off by one; the result is clamped to 1..=count"
    )]
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = (percent / 100.0 * count as f64).ceil() as u64;
        let rank = rank.clamp(1, count);
        let mut seen = 0;
        for (bucket, &here) in self.buckets.iter().enumerate() {
            seen += here;
            if seen >= rank {
                return Some((bucket_start(bucket + 1) - 1).min(self.max));
            }
        }
        Some(self.max)
    }

    /// How many were shorter than `nanos`. Exact where `nanos` is a bucket's bound, as every
    /// power-of-two number of microseconds is; else the whole buckets below.
    pub fn count_below(&self, nanos: u64) -> u64 {
        (0..BUCKETS)
            .take_while(|&bucket| bucket_start(bucket + 1) <= nanos)
            .map(|bucket| self.buckets[bucket])
            .sum()
    }

    /// The buckets of `V$EVENT_HISTOGRAM_MICRO`: bounds 1, 2, 4 .. 2^32 us, each with the number of
    /// durations below it that are in no smaller bucket. The last also holds all longer ones.
    pub fn micro_buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let steps = STEPS as usize;
        (0..=POWERS as usize).map(move |power| {
            // One more at the end: the bucket of all that is longer.
            let end = if power == POWERS as usize { BUCKETS } else { (power + 1) * steps };
            (1u64 << power, self.buckets[power * steps..end].iter().sum())
        })
    }

    /// The buckets that are not empty: first nanosecond, first nanosecond behind it, count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let filled = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(bucket, &count)| (bucket_start(bucket), bucket_start(bucket + 1), count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gap() {
        for bucket in 0..BUCKETS {
            let start = bucket_start(bucket);
            assert_eq!(bucket_of(start), bucket);
            assert_eq!(bucket_of(bucket_start(bucket + 1) - 1), bucket);
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn every_power_of_two_microseconds_is_a_bound() {
        for power in 0..=32 {
            let bound = (1u64 << power) * 1_000;
            assert_eq!(bucket_start(bucket_of(bound)), bound, "2^{power} us");
            assert_ne!(bucket_of(bound - 1), bucket_of(bound), "2^{power} us");
        }
    }

    #[test]
    fn a_bucket_is_at_most_a_sixteenth_wide() {
        for bucket in 16..BUCKETS - 1 {
            let (start, end) = (bucket_start(bucket), bucket_start(bucket + 1));
            assert!((end - 1 - start) * 16 <= start, "bucket {bucket}: {start}..{end}");
        }
        for bucket in 0..16 {
            assert!(bucket_start(bucket + 1) - bucket_start(bucket) <= 63);
        }
    }

    #[test]
    fn percentiles_are_never_low_and_at_most_a_sixteenth_high() {
        let mut state = 42u64;
        let mut values = Vec::new();
        let mut histogram = Histogram::new();
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // From under a microsecond to a minute, as many in each power of two.
            let value = (state >> 20) >> ((state >> 58) % 34 + 8);
            values.push(value);
            histogram.record(value);
        }
        values.sort_unstable();
        for percent in [0.1, 1.0, 10.0, 50.0, 90.0, 99.0, 99.9, 99.99, 100.0] {
            let rank = (percent / 100.0 * values.len() as f64).ceil() as usize;
            let exact = values[rank.max(1) - 1];
            let told = histogram.percentile(percent).unwrap();
            assert!(told >= exact, "p{percent}: {told} < {exact}");
            assert!(told - exact <= (exact / 16).max(63), "p{percent}: {told} for {exact}");
        }
        assert_eq!(histogram.percentile(100.0), values.last().copied());
        assert_eq!(histogram.sum(), values.iter().sum::<u64>());
        assert_eq!(histogram.count(), 20_000);
    }

    #[test]
    fn an_empty_histogram_has_no_percentile_and_no_mean() {
        assert_eq!(Histogram::new().percentile(50.0), None);
        assert_eq!(Histogram::new().mean(), None);
        assert_eq!(Histogram::new().buckets().count(), 0);
    }

    #[test]
    fn merging_is_counting_together() {
        let (mut left, mut right, mut both) = Default::default();
        let targets: [(&mut Histogram, u64); 2] = [(&mut left, 3), (&mut right, 700_000)];
        for (histogram, step) in targets {
            for n in 0..1_000 {
                histogram.record(n * step);
                Histogram::record(&mut both, n * step);
            }
        }
        left.merge(&right);
        assert_eq!(left, both);
    }

    #[test]
    fn micro_buckets_count_each_wait_once() {
        let mut histogram = Histogram::new();
        let hour = 3_600_000_000_000;
        for nanos in [0, 999, 1_000, 1_999, 2_000, 8_191_999, 8_192_000, 2 * hour, u64::MAX] {
            histogram.record(nanos);
        }
        let micro: Vec<_> = histogram.micro_buckets().collect();
        assert_eq!(micro.len(), 33);
        assert_eq!(micro[..3], [(1, 2), (2, 2), (4, 1)]);
        assert_eq!(micro[13], (8_192, 1));
        assert_eq!(micro[14], (16_384, 1));
        assert_eq!(micro[32], (1 << 32, 2));
        assert_eq!(micro.iter().map(|(_, count)| count).sum::<u64>(), histogram.count());
        assert_eq!(histogram.count_below(1_000), 2);
        assert_eq!(histogram.count_below(8_192_000), 6);
    }
}
