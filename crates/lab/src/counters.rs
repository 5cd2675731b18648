//! Kernel counters of a block device.

use serde::{Deserialize, Serialize};

/// The requests that the kernel sent to a block device between two samples (`/sys/class/block/*/stat`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceUse {
    /// The kernel's name for it: `sda`.
    pub name: String,
    /// Completed reads.
    pub reads: u64,
    /// Reads that were merged with others.
    pub merges: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Completed writes.
    pub writes: u64,
    /// Milliseconds with at least one request.
    pub busy_ms: u64,
}

impl DeviceUse {
    /// The counts so far; `None` if the kernel does not have them.
    pub(crate) fn now(name: &str) -> Option<DeviceUse> {
        let text = std::fs::read_to_string(format!("/sys/class/block/{name}/stat")).ok()?;
        DeviceUse::parse(name, &text)
    }

    fn parse(name: &str, text: &str) -> Option<DeviceUse> {
        let fields: Vec<u64> = text.split_whitespace().filter_map(|f| f.parse().ok()).collect();
        let &[reads, merges, sectors, _, writes, _, _, _, _, busy_ms, ..] = &fields[..] else {
            return None;
        };
        // Always units of 512 bytes here, whatever the sectors of the disk.
        let bytes = sectors.saturating_mul(512);
        Some(DeviceUse { name: name.to_owned(), reads, merges, bytes, writes, busy_ms })
    }

    /// The increase since `before`.
    pub(crate) fn since(&self, before: &DeviceUse) -> DeviceUse {
        DeviceUse {
            name: self.name.clone(),
            reads: self.reads.saturating_sub(before.reads),
            merges: self.merges.saturating_sub(before.merges),
            bytes: self.bytes.saturating_sub(before.bytes),
            writes: self.writes.saturating_sub(before.writes),
            busy_ms: self.busy_ms.saturating_sub(before.busy_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_their_places() {
        let line = "  1200 30 2048 55 7 0 56 1 0 44 60 0 0 0 0 0 0\n";
        let before = DeviceUse::parse("sda", line).unwrap();
        assert_eq!((before.reads, before.merges, before.bytes), (1200, 30, 1 << 20));
        assert_eq!((before.writes, before.busy_ms), (7, 44));
        let after = DeviceUse { reads: 1300, bytes: 3 << 20, ..before.clone() };
        assert_eq!((after.since(&before).reads, after.since(&before).bytes), (100, 2 << 20));
        assert_eq!(DeviceUse::parse("sda", "1 2 3"), None);
    }
}
