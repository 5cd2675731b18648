//! The rate meter of a rebalance: how fast it has gone of late.

use std::time::Duration;

use cellar_io::Instant;

use crate::moves::rebalance::WORKERS_MAX;

/// Anything older says nothing about the present load.
const LONGEST: Duration = Duration::from_secs(600);
/// A mark is set after this many moves for each one in flight: those begin together and form a
/// wave, and a part of a wave shows little.
const WAVES: u64 = 4;

/// Counts from the first completed move: until then as many as the power allows have been started.
/// The rate is that of the later half of the time since then, or a little more.
#[derive(Clone, Copy)]
pub(crate) struct Meter {
    /// The power at which it runs.
    pub power: u32,
    began: Mark,
    from: Mark,
    next: Mark,
    /// Whether the first move is done.
    settled: bool,
    /// Moves since `next`.
    moves: u64,
}

#[derive(Clone, Copy)]
struct Mark {
    at: Instant,
    /// Bytes that were moved by then.
    bytes: u64,
}

impl Meter {
    /// A clock that begins now, when so many bytes are moved.
    pub fn new(power: u32, at: Instant, bytes: u64) -> Meter {
        let mark = Mark { at, bytes };
        Meter { power, began: mark, from: mark, next: mark, settled: false, moves: 0 }
    }

    /// One more move is done.
    pub fn moved(&mut self, at: Instant, bytes: u64) {
        if !self.settled {
            *self = Meter { settled: true, ..Meter::new(self.power, at, bytes) };
            return;
        }
        self.moves += 1;
        let young = at.since(self.began.at);
        let is_young =
            young >= self.next.at.since(self.began.at) * 2 || at.since(self.next.at) > LONGEST;
        let workers = u64::from(self.power).min(WORKERS_MAX as u64);
        if is_young && self.moves >= workers * WAVES {
            (self.from, self.next, self.moves) = (self.next, Mark { at, bytes }, 0);
        }
    }

    /// Bytes a second, recently.
    pub fn rate(&self, now: Instant, bytes: u64) -> Option<f64> {
        let bytes = bytes.saturating_sub(self.from.bytes);
        let seconds = now.since(self.from.at).as_secs_f64();
        (bytes > 0 && seconds > 0.0).then(|| bytes as f64 / seconds)
    }

    /// All that was moved, and how long it took.
    pub fn all(&self, now: Instant, bytes: u64) -> (u64, Duration) {
        (bytes.saturating_sub(self.began.bytes), now.since(self.began.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_beginning_is_forgotten_and_a_change_of_the_load_is_seen() {
        let second = |s: u64| Instant(s * 1_000_000_000);
        let mut meter = Meter::new(1, second(0), 0);
        let mut bytes = 0;
        // 10 a second for 10 s, then 100 a second.
        for s in 1..=100 {
            bytes += if s <= 10 { 10 } else { 100 };
            meter.moved(second(s), bytes);
        }
        assert_eq!(meter.rate(second(100), bytes), Some(100.0));
        assert_eq!(meter.all(second(100), bytes), (bytes - 10, Duration::from_secs(99)));
        for s in 101..=200 {
            bytes += 50;
            meter.moved(second(s), bytes);
        }
        let rate = meter.rate(second(200), bytes).unwrap();
        assert!((50.0..75.0).contains(&rate), "{rate}");
    }
}
