//! Figures of a load of commits, by name: kept in the raw rows of a run and read from there.

use std::collections::BTreeMap;

use cellar_wait::Histogram;

use super::Done;
use crate::run::{Raw, median};

/// The parts of a commit, in order; they add up to its whole time.
pub(crate) const PARTS: [&str; 8] =
    ["space", "queue", "slot", "form", "first", "quorum", "order", "wake"];

/// Buckets of a histogram of writes, as in an AWR report: name and exclusive upper bound in
/// milliseconds.
pub(crate) const BUCKETS: [(&str, f64); 8] = [
    ("<1ms", 1.0),
    ("<2ms", 2.0),
    ("<4ms", 4.0),
    ("<8ms", 8.0),
    ("<16ms", 16.0),
    ("<32ms", 32.0),
    ("<=1s", 1000.0),
    (">1s", f64::INFINITY),
];

/// Figures by name.
pub(crate) type Figured = BTreeMap<String, f64>;

fn millis(nanos: Option<u64>) -> f64 {
    nanos.unwrap_or(0) as f64 / 1e6
}

/// Mean, median, 99th percentile and maximum, in milliseconds.
fn of_waits(out: &mut Figured, name: &str, waits: &Histogram) {
    if waits.count() == 0 {
        return;
    }
    out.insert(format!("{name}_ms"), waits.sum() as f64 / waits.count() as f64 / 1e6);
    out.insert(format!("{name}_p50_ms"), millis(waits.percentile(50.0)));
    out.insert(format!("{name}_p99_ms"), millis(waits.percentile(99.0)));
    out.insert(format!("{name}_max_ms"), waits.max() as f64 / 1e6);
}

impl Done {
    /// All figures by name, with the unit if there is one.
    pub(crate) fn figures(&self) -> Figured {
        let mut out = Figured::new();
        let seconds = self.nanos as f64 / 1e9;
        let mut put = |name: &str, value: f64| {
            out.insert(name.to_owned(), value);
        };
        put("seconds", seconds);
        let stats = &self.stats;
        let writes = stats.redo_writes.max(1) as f64;
        let device = (stats.redo_blocks_written * u64::from(self.block_size)) as f64;
        put("redo_mb_per_second", stats.redo_size as f64 / seconds / 1e6);
        put("writes_per_second", writes / seconds);
        put("kb_per_write", device / writes / 1e3);
        put("wastage_pct", 100.0 * stats.redo_wastage as f64 / device.max(1.0));
        put("records_per_write", stats.redo_entries as f64 / writes);
        put("switches", stats.redo_log_switches as f64);
        put("paced_ms", stats.paced_time.as_secs_f64() * 1e3);
        put("scan_mb_per_second", self.scanned as f64 / seconds / 1e6);
        put("archived_mb_per_second", self.archived as f64 / seconds / 1e6);
        let commits: u64 = self.crews.iter().map(|crew| crew.commits).sum();
        put("commits_per_second", commits as f64 / seconds);
        of_waits(&mut out, "write", &self.write);
        self.buckets(&mut out);
        self.crews(&mut out);
        self.media(&mut out);
        out
    }

    fn buckets(&self, out: &mut Figured) {
        let (count, mut below) = (self.write.count().max(1) as f64, 0);
        for (name, end) in BUCKETS {
            let now = match end.is_finite() {
                true => self.write.count_below((end * 1e6) as u64),
                false => self.write.count(),
            };
            let part = now.saturating_sub(below) as f64 / count;
            out.insert(format!("write {name} pct"), 100.0 * part);
            below = now.max(below);
        }
    }

    fn crews(&self, out: &mut Figured) {
        for crew in &self.crews {
            let (name, count) = (crew.name, crew.commits.max(1) as f64);
            of_waits(out, &format!("{name} sync"), &crew.sync);
            let seconds = self.nanos as f64 / 1e9;
            out.insert(format!("{name} commits_per_second"), crew.commits as f64 / seconds);
            for (part, time) in PARTS.iter().zip(crew.parts) {
                out.insert(format!("{name} {part}_us"), time.as_secs_f64() * 1e6 / count);
            }
        }
    }

    fn media(&self, out: &mut Figured) {
        for medium in &self.media {
            let (name, stats) = (&medium.name, &medium.stats);
            let mut put = |what: &str, value: f64| {
                out.insert(format!("{name} {what}"), value);
            };
            put("units_first", stats.first as f64);
            put("units_late", stats.late as f64);
            put("outliers_prevented", stats.outliers_prevented as f64);
            put("outliers_actual", stats.outliers_actual as f64);
            put("lacked_kb_max", stats.exposure_bytes_max as f64 / 1e3);
            put("lacked_ms_max", stats.exposure_time_max.as_secs_f64() * 1e3);
            put("slowest_ms", stats.slowest.as_secs_f64() * 1e3);
            put("device_writes", stats.writes as f64);
        }
    }
}

/// The median of this figure over all rounds of an arm on a layout.
pub(crate) fn figure(raw: &[Raw], arm: &str, layout: &str, name: &str) -> Option<f64> {
    median(figures(raw, arm, layout, name))
}

/// The figure of this name of each round.
pub(crate) fn figures(raw: &[Raw], arm: &str, layout: &str, name: &str) -> Vec<f64> {
    let rows = raw.iter().filter(|row| row.arm == arm && row.layout == layout);
    rows.filter_map(|row| row.figures.get(name).copied()).collect()
}

/// The spread between rounds of an arm on a layout, as a fraction of their median.
pub(crate) fn spread(raw: &[Raw], arm: &str, layout: &str, name: &str) -> f64 {
    let all = figures(raw, arm, layout, name);
    let (low, high) = all.iter().fold((f64::MAX, 0.0_f64), |(l, h), v| (l.min(*v), h.max(*v)));
    median(all).map_or(0.0, |middle| (high - low) / middle.max(f64::MIN_POSITIVE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_those_of_a_commit() {
        let parts = cellar_redo::Breakdown::default().parts();
        assert_eq!(parts.map(|(name, _)| name), PARTS);
    }
}
