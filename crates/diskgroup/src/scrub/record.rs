//! Scrub records in the metadata: the scrub under way, which resumes after a restart, and the last one
//! of the whole group. Both are attributes of the group, with names that nobody can set, and consist of
//! `name=value` pairs with spaces between; a pair that is not understood is ignored.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::data::scrub::{DiskFaults, Scrubbed};

/// The scrub under way; empty when there is none.
pub(crate) const UNDER_WAY: &str = "_scrub";
/// The last one of the whole group.
pub(crate) const LAST: &str = "_scrub_last";
/// The last one of the whole group that was stopped.
pub(crate) const STOPPED: &str = "_scrub_stopped";
/// The number of disks for which faults are kept.
const DISKS_MAX: usize = 64;

/// What is scrubbed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScrubScope {
    /// The whole group.
    #[default]
    Group,
    /// A file, by its number.
    File(u32),
    /// A disk, by its number: all extents with a copy on it.
    Disk(u16),
}

/// How a scrub yields to reads and writes of files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScrubPower {
    /// At full disk speed while nobody else wants them; otherwise a tenth of the time.
    #[default]
    Auto,
    /// A twentieth of the time, always.
    Low,
    /// At full disk speed while nobody else wants them; otherwise half of the time.
    High,
    /// At full disk speed.
    Max,
}

impl ScrubPower {
    const ALL: [ScrubPower; 4] =
        [ScrubPower::Auto, ScrubPower::Low, ScrubPower::High, ScrubPower::Max];

    /// The word for it in statements and views.
    pub fn name(self) -> &'static str {
        match self {
            ScrubPower::Auto => "AUTO",
            ScrubPower::Low => "LOW",
            ScrubPower::High => "HIGH",
            ScrubPower::Max => "MAX",
        }
    }

    /// The power of that name.
    pub fn named(name: &str) -> Option<ScrubPower> {
        Self::ALL.into_iter().find(|power| power.name().eq_ignore_ascii_case(name))
    }
}

/// What is wanted of a scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubSpec {
    /// What is scrubbed.
    pub scope: ScrubScope,
    /// Whether faults are repaired.
    pub repair: bool,
    /// How it makes way.
    pub power: ScrubPower,
    /// Also beside a rebalance and disks that return; else it waits for their end.
    pub force: bool,
}

impl Default for ScrubSpec {
    fn default() -> Self {
        ScrubSpec { scope: ScrubScope::Group, repair: true, power: ScrubPower::Auto, force: false }
    }
}

/// A scrub, how far it is, and what it found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub spec: ScrubSpec,
    /// When it began and ended, seconds since 1970.
    pub began: u64,
    pub ended: u64,
    /// How long it worked.
    pub took: Duration,
    /// File number, its incarnation and its extent: everything before is done.
    pub at: (u32, u32, u64),
    /// Whether our own structures are done.
    pub own_done: bool,
    /// Bytes of files before that place, and of all.
    pub done: u64,
    pub total: u64,
    pub found: Scrubbed,
}

impl Record {
    /// As it is kept.
    pub fn text(&self) -> String {
        let Record { spec, began, ended, took, at, own_done, done, total, found } = self;
        let scope = match spec.scope {
            ScrubScope::Group => "group".to_owned(),
            ScrubScope::File(number) => format!("file:{number}"),
            ScrubScope::Disk(number) => format!("disk:{number}"),
        };
        let Scrubbed { bytes_read, absent_bytes, faults, repaired, left, .. } = found;
        let mut text = format!(
            "scope={scope} repair={} force={} power={} began={began} ended={ended} took={} \
             at={}.{}.{} own={} done={done} total={total} read={bytes_read} absent={absent_bytes} \
             repaired={repaired} left={left}",
            u8::from(spec.repair),
            u8::from(spec.force),
            spec.power.name(),
            took.as_secs(),
            at.0,
            at.1,
            at.2,
            u8::from(*own_done),
        );
        for (disk, f) in faults.iter().take(DISKS_MAX) {
            let DiskFaults { checksum, unreadable, differs, own } = f;
            text.push_str(&format!(" disk={disk}:{checksum}:{unreadable}:{differs}:{own}"));
        }
        text
    }

    /// Reads what is kept; `None` where there is nothing.
    pub fn parse(text: &str) -> Option<Record> {
        let mut words = text.split_whitespace().filter_map(|word| word.split_once('=')).peekable();
        words.peek()?;
        let mut record = Record::default();
        for (name, value) in words {
            // What a later version says otherwise is left at its default.
            let _ = record.set(name, value);
        }
        Some(record)
    }

    fn set(&mut self, name: &str, value: &str) -> Option<()> {
        let number = || value.parse::<u64>().ok();
        let flag = || number().map(|value| value != 0);
        match name {
            "scope" => self.spec.scope = scope_of(value)?,
            "repair" => self.spec.repair = flag()?,
            "force" => self.spec.force = flag()?,
            "power" => self.spec.power = ScrubPower::named(value)?,
            "began" => self.began = number()?,
            "ended" => self.ended = number()?,
            "took" => self.took = Duration::from_secs(number()?),
            "own" => self.own_done = flag()?,
            "done" => self.done = number()?,
            "total" => self.total = number()?,
            "read" => self.found.bytes_read = number()?,
            "absent" => self.found.absent_bytes = number()?,
            "repaired" => self.found.repaired = number()?,
            "left" => self.found.left = number()?,
            "at" => {
                let mut parts = value.split('.');
                let at = (parts.next()?, parts.next()?, parts.next()?);
                self.at = (at.0.parse().ok()?, at.1.parse().ok()?, at.2.parse().ok()?);
            }
            "disk" => {
                let numbers: Vec<u64> = value.split(':').map_while(|n| n.parse().ok()).collect();
                let [disk, checksum, unreadable, differs, own] = numbers[..] else { return None };
                let faults = DiskFaults { checksum, unreadable, differs, own };
                self.found.faults.insert(u16::try_from(disk).ok()?, faults);
            }
            _ => return None,
        }
        Some(())
    }
}

fn scope_of(value: &str) -> Option<ScrubScope> {
    match value.split_once(':') {
        None if value == "group" => Some(ScrubScope::Group),
        Some(("file", number)) => number.parse().ok().map(ScrubScope::File),
        Some(("disk", number)) => number.parse().ok().map(ScrubScope::Disk),
        _ => None,
    }
}

/// What the metadata of a group keeps.
pub(crate) fn kept(attributes: &BTreeMap<String, String>, name: &str) -> Option<Record> {
    Record::parse(attributes.get(name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_back() {
        let mut record = Record {
            spec: ScrubSpec {
                scope: ScrubScope::Disk(7),
                repair: false,
                power: ScrubPower::High,
                force: true,
            },
            began: 1_790_000_000,
            ended: 1_790_000_100,
            took: Duration::from_secs(77),
            at: (3, 9, 1 << 40),
            own_done: true,
            done: 5,
            total: 6,
            found: Scrubbed {
                bytes_read: 1,
                absent_bytes: 2,
                repaired: 3,
                left: 4,
                ..Default::default()
            },
        };
        let faults = DiskFaults { checksum: 1, unreadable: 2, differs: 3, own: 4 };
        record.found.faults.insert(65535, faults);
        assert_eq!(Record::parse(&record.text()), Some(record.clone()));
        for scope in [ScrubScope::Group, ScrubScope::File(u32::MAX)] {
            record.spec.scope = scope;
            assert_eq!(Record::parse(&record.text()), Some(record.clone()));
        }
    }

    #[test]
    fn nothing_and_nonsense_are_no_scrub_or_a_default_one() {
        assert_eq!(Record::parse(""), None);
        assert_eq!(Record::parse("rubbish"), None);
        let odd = "scope=moon at=1.2 disk=1:2 disk=99999:1:1:1:1 done=-1 power=WARP x=y";
        assert_eq!(Record::parse(odd), Some(Record::default()));
    }
}
