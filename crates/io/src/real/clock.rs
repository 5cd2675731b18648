//! Two clocks that only go forward: the system's, and the processor's own counter.

#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "reading the processor's counter")
)]

use rustix::time::{ClockId, clock_gettime};

/// Which clock [`RealEnv`](super::RealEnv) reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`: about 25 ns a reading.
    #[default]
    System,
    /// The processor's cycle counter, calibrated when the runtime starts: about 10 ns. Only where
    /// the counter runs at one speed and the kernel itself trusts it; else the system's.
    Counter,
}

/// A clock in nanoseconds since it was made.
pub(super) struct Source {
    start: u64,
    counter: Option<Counter>,
}

/// Nanoseconds = (ticks - start) x scale / 2^32.
struct Counter {
    start: u64,
    scale: u64,
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub(super) fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Source {
    pub(super) fn new(wanted: Clock) -> Source {
        let counter = match wanted {
            Clock::System => None,
            Clock::Counter => Counter::calibrated(),
        };
        Source { start: monotonic(), counter }
    }

    pub(super) fn now(&self) -> u64 {
        match &self.counter {
            Some(counter) => counter.now(),
            None => monotonic() - self.start,
        }
    }

    pub(super) fn effective(&self) -> Clock {
        if self.counter.is_some() { Clock::Counter } else { Clock::System }
    }
}

impl Counter {
    /// Compares the counter with the system's clock for 20 ms.
    fn calibrated() -> Option<Counter> {
        if !trusted() {
            return None;
        }
        let (first, nanos) = pair();
        // Busy, because a sleep may stop the processor; once per process.
        while monotonic() - nanos < 20_000_000 {
            std::hint::spin_loop();
        }
        let (last, nanos_later) = pair();
        let passed = last.checked_sub(first).filter(|passed| *passed > 0)?;
        let scale = (u128::from(nanos_later - nanos) << 32) / u128::from(passed);
        Some(Counter { start: ticks(), scale: u64::try_from(scale).ok()? })
    }

    fn now(&self) -> u64 {
        let passed = ticks().saturating_sub(self.start);
        ((u128::from(passed) * u128::from(self.scale)) >> 32) as u64
    }
}

/// The counter and the system's clock at one moment: the closest of several tries.
fn pair() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..16 {
        let before = ticks();
        let nanos = monotonic();
        let after = ticks();
        let width = after.saturating_sub(before);
        if width < best.0 {
            best = (width, before + width / 2, nanos);
        }
    }
    (best.1, best.2)
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> u64 {
    0
}

/// Whether the counter has one speed, and the kernel keeps its own time by it.
fn trusted() -> bool {
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    cfg!(target_arch = "x86_64")
        && std::fs::read_to_string(source).is_ok_and(|name| name.trim() == "tsc")
        && std::fs::read_to_string("/proc/cpuinfo")
            .is_ok_and(|text| text.contains("nonstop_tsc") && text.contains("constant_tsc"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_agree_within_a_thousandth() {
        for wanted in [Clock::System, Clock::Counter] {
            let source = Source::new(wanted);
            let (ours, system) = (source.now(), monotonic());
            while monotonic() - system < 30_000_000 {}
            let (ours, system) = (source.now() - ours, monotonic() - system);
            assert!(
                ours.abs_diff(system) < system / 1000 + 200_000,
                "{wanted:?} counted {ours} ns in {system} ns"
            );
        }
    }
}
