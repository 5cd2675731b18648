//! Kernel counters: of this process, and of the device below a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cellar_io::real::probe;

/// Nanoseconds in a clock tick, the unit of some counters of the kernel (USER_HZ is 100).
const TICK_NS: u64 = 10_000_000;

/// Counters that only grow. Counters that the kernel lacks are omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters(BTreeMap<&'static str, u64>);

impl Counters {
    /// The current values. `device` is the path of its counters.
    pub(super) fn now(device: Option<&Path>) -> Counters {
        let mut seen = BTreeMap::new();
        process(&mut seen);
        threads(&mut seen);
        if let Some(text) = device.and_then(|path| std::fs::read_to_string(path).ok()) {
            block_device(&text, &mut seen);
        }
        Counters(seen)
    }

    /// The increase since `earlier`, by name.
    pub(super) fn since(&self, earlier: &Counters) -> BTreeMap<String, f64> {
        let added = |(name, now): (&&str, &u64)| {
            let before = earlier.0.get(name)?;
            Some(((*name).to_owned(), now.saturating_sub(*before) as f64))
        };
        self.0.iter().filter_map(added).collect()
    }
}

/// The path of the counters of the device below a file.
pub(super) fn device_below(path: &Path) -> Option<PathBuf> {
    let below = probe(path, &[]).ok()?.below?;
    let counters = Path::new("/sys/class/block").join(below.file_name()?).join("stat");
    counters.exists().then_some(counters)
}

/// Capacity of all contexts of the kernel's legacy asynchronous I/O, on the whole machine;
/// `kioctx` of `/proc/slabinfo` shows it too, but only to root. It does not include io_uring.
pub(super) fn aio_reserved() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/fs/aio-nr").ok()?.trim().parse().ok()
}

/// The load average of this machine over the last minute.
pub(super) fn load_average() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// CPU time of the process in user and system mode, and its write calls (io_uring makes none).
fn process(seen: &mut BTreeMap<&'static str, u64>) {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field, in parentheses, may contain anything.
    let words: Vec<&str> =
        text.rsplit_once(')').map_or(Vec::new(), |(_, rest)| rest.split_whitespace().collect());
    for (name, index) in [("cpu_user_ns", 11), ("cpu_system_ns", 12)] {
        if let Some(ticks) = words.get(index).and_then(|word| word.parse::<u64>().ok()) {
            seen.insert(name, ticks * TICK_NS);
        }
    }
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let calls = text.lines().find_map(|line| line.strip_prefix("syscw:"));
    if let Some(calls) = calls.and_then(|count| count.trim().parse().ok()) {
        seen.insert("write_calls", calls);
    }
}

/// Of all threads that are alive, including io_uring's: exact CPU time, and the number of voluntary
/// and involuntary context switches.
fn threads(seen: &mut BTreeMap<&'static str, u64>) {
    for thread in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let path = thread.path();
        let read = |name: &str| std::fs::read_to_string(path.join(name)).unwrap_or_default();
        if let Some(ns) = read("schedstat").split_whitespace().next().and_then(|w| w.parse().ok()) {
            add(seen, "cpu_ns", ns);
        }
        for line in read("status").lines() {
            if let Some((_, count)) = line.split_once("ctxt_switches:") {
                add(seen, "context_switches", count.trim().parse().unwrap_or(0));
            }
        }
    }
}

fn add(seen: &mut BTreeMap<&'static str, u64>, name: &'static str, count: u64) {
    *seen.entry(name).or_insert(0) += count;
}

/// The fields of `/sys/block/*/stat`. They cover the whole machine.
fn block_device(text: &str, seen: &mut BTreeMap<&'static str, u64>) {
    let words: Vec<u64> = text.split_whitespace().map(|w| w.parse().unwrap_or(0)).collect();
    for (name, index, unit) in [
        ("device_reads", 0, 1),
        ("device_writes", 4, 1),
        ("device_write_bytes", 6, 512),
        ("device_discards", 11, 1),
        ("device_flushes", 15, 1),
    ] {
        // Kernels before 5.5 do not count flushes.
        if let Some(count) = words.get(index) {
            seen.insert(name, count * unit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_told_and_what_is_unknown_left_out() {
        let stat = "85 28 4089 574 683 458 4699 572 0 510 1156 27 63 325 5122 1646 531\n";
        let (mut one, mut two) = (Counters::default(), Counters::default());
        block_device(stat, &mut one.0);
        block_device(&stat.replace("683 458 4699", "700 458 4800"), &mut two.0);
        let added = two.since(&one);
        assert_eq!(added.get("device_writes"), Some(&17.0));
        assert_eq!(added.get("device_write_bytes"), Some(&(101.0 * 512.0)));
        assert_eq!(added.get("device_flushes"), Some(&0.0));
        assert_eq!(added.get("cpu_ns"), None);
    }

    #[test]
    fn this_process_is_counted() {
        let before = Counters::now(None);
        let mut x = 1_u64;
        for i in 0..50_000_000_u64 {
            x = std::hint::black_box(x.wrapping_mul(i | 1));
        }
        let added = Counters::now(None).since(&before);
        assert!(added.get("cpu_ns").is_some_and(|ns| *ns > 1e6), "{x} {added:?}");
        assert!(added.contains_key("cpu_user_ns") && added.contains_key("context_switches"));
        assert!(added.contains_key("write_calls"));
    }
}
