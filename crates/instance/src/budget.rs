//! The memory of an instance, divided among those who use it.
//!
//! `memory_target` (0: a quarter of what the machine or the container has) is divided into fixed shares.
//! A consumer that wants more than its share gets an error that names it, never another's memory.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use cellar_storage::size;

use crate::error::{Error, Result};
use crate::views::instance::VMemoryBudget;

/// Who uses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Consumer {
    /// Hash tables, sorts and batches of statements.
    SqlWork,
    /// Blocks on their way to and from disks.
    IoBuffers,
    /// Checksum blocks of disk groups.
    Checksums,
    /// Maps and names of disk groups, the catalog.
    Metadata,
    /// Columns of tables as they are encoded.
    CellCache,
    /// Pages of rows that change.
    BufferCache,
}

impl Consumer {
    /// Every consumer.
    pub const ALL: [Consumer; 6] = [
        Consumer::SqlWork,
        Consumer::IoBuffers,
        Consumer::Checksums,
        Consumer::Metadata,
        Consumer::CellCache,
        Consumer::BufferCache,
    ];

    /// What users read.
    pub const fn name(self) -> &'static str {
        match self {
            Consumer::SqlWork => "SQL work areas",
            Consumer::IoBuffers => "I/O buffers",
            Consumer::Checksums => "checksum blocks",
            Consumer::Metadata => "disk group metadata",
            Consumer::CellCache => "cell cache",
            Consumer::BufferCache => "buffer cache",
        }
    }

    /// The share of the whole in percent.
    pub const fn percent(self) -> u64 {
        match self {
            Consumer::SqlWork => 35,
            Consumer::BufferCache => 28,
            Consumer::CellCache => 20,
            Consumer::IoBuffers => 10,
            Consumer::Checksums => 5,
            Consumer::Metadata => 2,
        }
    }
}

#[derive(Default)]
struct Account {
    limit: AtomicU64,
    used: AtomicU64,
    peak: AtomicU64,
    refused: AtomicU64,
}

/// The accounts of all consumers. Cloning gives another handle on the same.
#[derive(Clone)]
pub struct Budget(Arc<[Account; Consumer::ALL.len()]>);

/// Memory that a consumer may use until this is dropped.
#[must_use = "the memory is given back when this is dropped"]
pub struct Reservation {
    budget: Budget,
    consumer: Consumer,
    bytes: u64,
}

impl Budget {
    /// Divides `total` bytes.
    pub fn new(total: u64) -> Budget {
        let budget = Budget(Arc::default());
        budget.set_total(total);
        budget
    }

    /// Divides `total` bytes anew. Reservations stand, even above a new limit.
    pub fn set_total(&self, total: u64) {
        for consumer in Consumer::ALL {
            // The quotient first: a total may be near 2^64.
            let limit = total / 100 * consumer.percent() + total % 100 * consumer.percent() / 100;
            self.account(consumer).limit.store(limit, Relaxed);
        }
    }

    fn account(&self, consumer: Consumer) -> &Account {
        &self.0[consumer as usize]
    }

    /// The most that `consumer` may have, in bytes.
    pub fn limit(&self, consumer: Consumer) -> u64 {
        self.account(consumer).limit.load(Relaxed)
    }

    /// What `consumer` has, in bytes.
    pub fn used(&self, consumer: Consumer) -> u64 {
        self.account(consumer).used.load(Relaxed)
    }

    /// Takes `bytes` for `consumer`.
    ///
    /// # Errors
    /// 04031, naming the consumer, if that is more than is left of its share.
    pub fn reserve(&self, consumer: Consumer, bytes: u64) -> Result<Reservation> {
        let mut reservation = Reservation { budget: self.clone(), consumer, bytes: 0 };
        reservation.grow(bytes)?;
        Ok(reservation)
    }

    /// The rows of `v$memory_budget`.
    pub fn rows(&self) -> Vec<VMemoryBudget> {
        let row = |consumer: Consumer| {
            let account = self.account(consumer);
            VMemoryBudget {
                name: consumer.name(),
                limit_bytes: account.limit.load(Relaxed),
                used_bytes: account.used.load(Relaxed),
                peak_bytes: account.peak.load(Relaxed),
                refused: account.refused.load(Relaxed),
            }
        };
        Consumer::ALL.into_iter().map(row).collect()
    }

    fn refuse(&self, consumer: Consumer, bytes: u64, used: u64) -> Error {
        self.account(consumer).refused.fetch_add(1, Relaxed);
        let (name, limit) = (consumer.name(), self.limit(consumer));
        let message =
            format!("no memory for {bytes} bytes of {name}: {used} of {limit} bytes are in use");
        let enough = used.saturating_add(bytes).saturating_mul(100) / consumer.percent();
        let megabytes = (enough >> 20) + 1;
        Error::new(4031, message).hint(format!(
            "ALTER SYSTEM SET memory_target = '{megabytes}M' would be enough; \
             who has how much: SELECT * FROM v$memory_budget"
        ))
    }
}

impl Reservation {
    /// How much it is, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes more.
    ///
    /// # Errors
    /// 04031; what was reserved before stays.
    pub fn grow(&mut self, more: u64) -> Result<()> {
        let account = self.budget.account(self.consumer);
        let limit = account.limit.load(Relaxed);
        let taken = account.used.fetch_update(Relaxed, Relaxed, |used| {
            used.checked_add(more).filter(|sum| *sum <= limit || more == 0)
        });
        match taken {
            Ok(before) => {
                account.peak.fetch_max(before + more, Relaxed);
                self.bytes += more;
                Ok(())
            }
            Err(used) => Err(self.budget.refuse(self.consumer, more, used)),
        }
    }

    /// Gives some back, at most what it is.
    pub fn shrink(&mut self, less: u64) {
        let less = less.min(self.bytes);
        self.bytes -= less;
        self.budget.account(self.consumer).used.fetch_sub(less, Relaxed);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

/// Memory that this process may use, and where the limit comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// In bytes.
    pub bytes: u64,
    /// "machine", or the path of the control group whose limit is lower.
    pub source: String,
}

impl Memory {
    /// What this machine, or the container around this process, has.
    ///
    /// # Errors
    /// 70110 if /proc cannot be read.
    pub fn detect() -> Result<Memory> {
        Memory::detect_under(Path::new("/"))
    }

    /// As [`Memory::detect`], with `root` in the place of `/`.
    ///
    /// # Errors
    /// As [`Memory::detect`].
    pub fn detect_under(root: &Path) -> Result<Memory> {
        let path = root.join("proc/meminfo");
        let text = std::fs::read_to_string(&path).map_err(|e| Error::system("read", &path, &e))?;
        let bytes = total_of(&text)
            .ok_or_else(|| Error::new(70110, format!("{} has no line MemTotal", path.display())))?;
        let mut least = Memory { bytes, source: "machine".to_owned() };
        let groups = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        for (mount, file, group) in groups.lines().filter_map(place_of) {
            least.apply_group_limits(root, mount, file, group);
        }
        Ok(least)
    }

    /// The limits of all groups above ours apply too. Inside a container the upper ones cannot be seen,
    /// and what is seen may be mounted at the root of the tree.
    fn apply_group_limits(&mut self, root: &Path, mount: &str, file: &str, group: &str) {
        for place in Path::new(group.trim_start_matches('/')).ancestors() {
            let path = root.join(mount).join(place).join(file);
            let Ok(text) = std::fs::read_to_string(&path) else {
                continue;
            };
            // "max" is no number: no limit.
            let Ok(bytes) = text.trim().parse::<u64>() else {
                continue;
            };
            if bytes < self.bytes {
                self.bytes = bytes;
                self.source.clear();
                let _ = write!(self.source, "{}", path.display());
            }
        }
    }

    /// What `memory_target` comes to: itself, or a quarter of this if it is 0.
    pub fn target(&self, memory_target: u64) -> u64 {
        if memory_target == 0 { self.bytes / 4 } else { memory_target }
    }
}

impl std::fmt::Display for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} MB ({})", self.bytes >> 20, self.source)
    }
}

fn total_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    size::parse(&line.trim().replace(" kB", "K"))
}

/// Where the limit of a line of /proc/self/cgroup stands: mount, file, group.
fn place_of(line: &str) -> Option<(&'static str, &'static str, &str)> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, group) = (parts.next()?, parts.next()?, parts.next()?);
    if controllers.is_empty() {
        Some(("sys/fs/cgroup", "memory.max", group))
    } else if controllers.split(',').any(|controller| controller == "memory") {
        Some(("sys/fs/cgroup/memory", "memory.limit_in_bytes", group))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_the_whole() {
        assert_eq!(Consumer::ALL.iter().map(|consumer| consumer.percent()).sum::<u64>(), 100);
        for (at, consumer) in Consumer::ALL.into_iter().enumerate() {
            assert_eq!(consumer as usize, at);
        }
        assert_eq!(Budget::new(u64::MAX).limit(Consumer::Metadata), u64::MAX / 50);
    }

    #[test]
    fn a_share_is_kept_and_given_back() {
        let budget = Budget::new(1_000);
        let mut held = budget.reserve(Consumer::Checksums, 30).unwrap();
        let Err(error) = budget.reserve(Consumer::Checksums, 21) else { panic!("too much") };
        assert_eq!((error.number(), error.sqlstate()), (4031, "53200"));
        assert!(error.to_string().contains("21 bytes of checksum blocks: 30 of 50 bytes"));
        held.grow(20).unwrap();
        assert!(held.grow(1).is_err());
        assert!(budget.reserve(Consumer::SqlWork, 350).is_ok(), "another's share is free");
        held.shrink(40);
        assert_eq!((held.bytes(), budget.used(Consumer::Checksums)), (10, 10));
        drop(held);
        let row = &budget.rows()[Consumer::Checksums as usize];
        assert_eq!((row.used_bytes, row.peak_bytes, row.refused), (0, 50, 2));
    }

    #[test]
    fn a_smaller_target_takes_nothing_away() {
        let budget = Budget::new(1_000);
        let held = budget.reserve(Consumer::SqlWork, 350).unwrap();
        budget.set_total(100);
        assert!(budget.reserve(Consumer::SqlWork, 1).is_err());
        assert!(budget.reserve(Consumer::SqlWork, 0).is_ok());
        drop(held);
        assert!(budget.reserve(Consumer::SqlWork, 35).is_ok());
    }

    fn machine(files: &[(&str, &str)]) -> Memory {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Memory::detect_under(root.path()).unwrap()
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:        8388608 kB\nMemFree: 1 kB\n");

    #[test]
    fn without_a_limit_the_machine_counts() {
        let memory = machine(&[MEMINFO, ("proc/self/cgroup", "0::/\n")]);
        assert_eq!((memory.bytes, memory.source.as_str()), (8 << 30, "machine"));
        assert_eq!(memory.target(0), 2 << 30);
        assert_eq!(memory.target(5), 5);
    }

    #[test]
    fn the_lowest_limit_of_any_upper_group_counts() {
        let memory = machine(&[
            MEMINFO,
            ("proc/self/cgroup", "0::/user/session\n"),
            ("sys/fs/cgroup/user/session/memory.max", "max\n"),
            ("sys/fs/cgroup/user/memory.max", "1073741824\n"),
        ]);
        assert_eq!(memory.bytes, 1 << 30);
        assert!(memory.source.ends_with("user/memory.max"), "{memory}");
    }

    #[test]
    fn the_first_version_of_control_groups_counts_too() {
        let memory = machine(&[
            MEMINFO,
            ("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n"),
            // As seen from inside a container: its own group is the root of the tree.
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"),
        ]);
        assert_eq!(memory.bytes, 512 << 20);
    }
}
