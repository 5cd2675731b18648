//! Options of `multi-disk`, and its layouts.

use crate::content::STEP;
use crate::error::LabError;
use crate::experiment::{OptionSpec, OptionTexts};
use crate::load::{SPARE, Slot};
use crate::preset::{self, Preset};
use crate::table_scan::table::room;

/// The layout of the file on the disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// A group on the first disk.
    One,
    /// A group on both disks.
    Two,
    /// A group on each disk, with half of the data; both are read at the same time.
    Each,
    /// A group on two parts of the first disk.
    Same,
}

impl Layout {
    const ALL: [(&'static str, Layout); 4] = [
        ("one", Layout::One),
        ("two", Layout::Two),
        ("each", Layout::Each),
        ("same", Layout::Same),
    ];

    /// As given to `--layout`.
    pub fn word(self) -> &'static str {
        Layout::ALL.iter().find(|(_, layout)| *layout == self).map_or("", |(word, _)| word)
    }

    /// As shown in a report.
    pub(super) fn name(self) -> &'static str {
        match self {
            Layout::One => "1 disk",
            Layout::Two => "2 disks",
            Layout::Each => "each",
            Layout::Same => "same",
        }
    }

    /// A description, if its name is not enough.
    pub(super) fn words(self) -> Option<&'static str> {
        match self {
            Layout::One | Layout::Two => None,
            Layout::Each => Some("each: a group on each of two disks, both read at the same time"),
            Layout::Same => Some("same: a group on two parts of one disk, as on two LUNs of it"),
        }
    }

    /// The disks of each group.
    fn groups(self) -> &'static [&'static [usize]] {
        match self {
            Layout::One => &[&[0]],
            Layout::Two => &[&[0, 1]],
            Layout::Each => &[&[0], &[1]],
            Layout::Same => &[&[0, 0]],
        }
    }

    fn read(text: &str) -> Option<Vec<Layout>> {
        let one = |word: &str| {
            let word = word.trim();
            Layout::ALL.iter().find(|(name, _)| *name == word).map(|(_, layout)| *layout)
        };
        let layouts: Vec<Layout> = text.split(',').map(one).collect::<Option<_>>()?;
        let twice = layouts.iter().enumerate().any(|(i, l)| layouts[..i].contains(l));
        (!twice).then_some(layouts)
    }
}

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The layouts of the file; the first is the reference.
    pub layouts: Vec<Layout>,
    /// Bytes of the file: a multiple of 16 MiB, at least 64 MiB.
    pub file_bytes: u64,
    /// Encoded size in bytes of an additional table that a cell scans: a multiple of 2 MiB, at least
    /// 8 MiB. 0: no table.
    pub table_bytes: u64,
    /// AU of the groups in bytes: a power of two from 1 to 64 MiB.
    pub au_size: u64,
    /// Rounds, interleaved; medians are reported.
    pub rounds: u32,
    /// Random reads per read in flight.
    pub random_reads: u64,
    /// Seed for the places of random reads.
    pub seed: u64,
    /// The disk model.
    pub preset: Preset,
}

const LAYOUT: &str = "one, two, each, same, each once, with commas between";
const SIZE: &str = "a multiple of 16 MiB, at least 64 MiB";
const TABLE: &str = "a multiple of 2 MiB, at least 8 MiB";
const AU_SIZE: &str = "1M, 2M, 4M, 8M, 16M, 32M or 64M";
const ROUNDS: &str = "1 to 1000";
const SEED: &str = "a number";
const PRESET: &str = "fc-lun-2006";

pub(super) const SPECS: &[OptionSpec] = &[
    OptionSpec::new(
        "layout",
        "LIST",
        "one,two",
        "one (first disk), two (both), each (a group per disk), same (two parts of one)",
    ),
    OptionSpec::new("size", "SIZE", "512M", "The file that is read: a multiple of 16M"),
    OptionSpec::new(
        "table",
        "SIZE",
        "none",
        "Also scan a table of so much by the cell; of a model at most 64M",
    ),
    OptionSpec::new("au-size", "SIZE", "1M", "The allocation unit: 1M to 64M"),
    OptionSpec::new(
        "rounds",
        "N",
        "5; of a model alone 1",
        "Rounds, interleaved; medians are shown",
    ),
    OptionSpec::new("seed", "N", "4", "Decides the places of random reads"),
    OptionSpec::new("preset", "NAME", "fc-lun-2006", "The disk model"),
];

impl Default for Options {
    /// One disk and two, 512 MiB, AU 1 MiB as in 2006, 1 round (a model gives the same each time).
    fn default() -> Options {
        Options {
            layouts: vec![Layout::One, Layout::Two],
            file_bytes: 512 << 20,
            table_bytes: 0,
            au_size: 1 << 20,
            rounds: 1,
            random_reads: 200,
            seed: 4,
            preset: preset::FC_LUN_2006,
        }
    }
}

impl Options {
    /// As the default, for real disks: 5 rounds.
    pub fn here() -> Options {
        Options { rounds: 5, ..Options::default() }
    }

    pub(super) fn read(words: OptionTexts<'_>, here: bool) -> Result<Options, LabError> {
        let base = if here { Options::here() } else { Options::default() };
        let rounds = words.number("rounds", u64::from(base.rounds), ROUNDS)?;
        let find = |name: &str| [preset::FC_LUN_2006].into_iter().find(|p| p.name == name);
        let options = Options {
            layouts: words.parsed("layout", base.layouts, LAYOUT, Layout::read)?,
            file_bytes: words.size("size", base.file_bytes, SIZE)?,
            table_bytes: words.size("table", base.table_bytes, TABLE)?,
            au_size: words.size("au-size", base.au_size, AU_SIZE)?,
            rounds: u32::try_from(rounds).unwrap_or(u32::MAX),
            random_reads: base.random_reads,
            seed: words.number("seed", base.seed, SEED)?,
            preset: words.parsed("preset", base.preset, PRESET, find)?,
        };
        options.check()?;
        Ok(options)
    }

    pub(super) fn check(&self) -> Result<(), LabError> {
        let refuse = |name, value: String, allowed| Err(LabError::Option { name, value, allowed });
        if self.layouts.is_empty() {
            return refuse("layout", "\"\"".to_owned(), LAYOUT);
        }
        // Eight scans of half the file then read whole MiBs.
        if self.file_bytes < 64 << 20 || !self.file_bytes.is_multiple_of(16 << 20) {
            return refuse("size", self.file_bytes.to_string(), SIZE);
        }
        // Half a table is then whole row groups.
        let table = self.table_bytes;
        if table > 0 && (table < 8 << 20 || !table.is_multiple_of(2 << 20)) {
            return refuse("table", table.to_string(), TABLE);
        }
        if !self.au_size.is_power_of_two() || !(1 << 20..=64 << 20).contains(&self.au_size) {
            return refuse("au-size", self.au_size.to_string(), AU_SIZE);
        }
        if !(1..=1000).contains(&self.rounds) {
            return refuse("rounds", self.rounds.to_string(), ROUNDS);
        }
        if !(1..=1_000_000).contains(&self.random_reads) {
            return refuse("random-reads", self.random_reads.to_string(), "1 to 1000000");
        }
        Ok(())
    }

    /// The comparison for the figures of an arm: two layouts, its description, and the
    /// name of each of the two.
    pub(super) fn compared(&self) -> Option<Compared> {
        let at = |layout| self.layouts.iter().position(|l| *l == layout);
        if let (Some(one), Some(two)) = (at(Layout::One), at(Layout::Two)) {
            return Some(Compared { base: one, other: two });
        }
        (self.layouts.len() > 1).then(|| Compared { base: 0, other: self.layouts.len() - 1 })
    }

    /// Where each layout lies on the disks, and how many bytes of each disk are needed.
    pub(super) fn plan(&self) -> (Vec<Vec<Vec<Slot>>>, Vec<u64>) {
        let mut needed: Vec<u64> = Vec::new();
        let mut place = |disk: usize, size: u64| {
            needed.resize(needed.len().max(disk + 1), 0);
            let start = needed[disk];
            needed[disk] += size;
            Slot { disk, start, size }
        };
        let mut all = Vec::new();
        for layout in &self.layouts {
            let groups = layout.groups();
            let parts = groups.iter().map(|g| g.len()).sum::<usize>() as u64;
            let size =
                (self.file_bytes + room(self.table_bytes)) / parts + SPARE + 8 * self.au_size;
            let size = size.next_multiple_of(self.au_size.max(STEP));
            let slots = |disks: &&[usize]| disks.iter().map(|d| place(*d, size)).collect();
            all.push(groups.iter().map(slots).collect());
        }
        (all, needed)
    }
}

/// Two layouts, by their places in [`Options::layouts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Compared {
    pub(super) base: usize,
    pub(super) other: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_lie_apart_on_the_disks_that_they_need() {
        let options = Options {
            layouts: vec![Layout::One, Layout::Two, Layout::Each, Layout::Same],
            ..Options::default()
        };
        let (plan, needed) = options.plan();
        let mut slots: Vec<Slot> = plan.into_iter().flatten().flatten().collect();
        assert_eq!(slots.len(), 7);
        slots.sort_by_key(|s| (s.disk, s.start));
        for pair in slots.windows(2).filter(|p| p[0].disk == p[1].disk) {
            assert!(pair[0].start + pair[0].size <= pair[1].start, "{pair:?}");
        }
        assert!(slots.iter().all(|s| s.start + s.size <= needed[s.disk]));
        let alone = Options { layouts: vec![Layout::One, Layout::Same], ..Options::default() };
        assert_eq!(alone.plan().1.len(), 1, "one disk is enough");
    }

    #[test]
    fn layouts_are_read_and_others_refused() {
        assert_eq!(Layout::read("one, same"), Some(vec![Layout::One, Layout::Same]));
        for bad in ["", "three", "one,one", "one,"] {
            assert_eq!(Layout::read(bad), None, "{bad}");
        }
        for (_, layout) in Layout::ALL {
            assert_eq!(Layout::read(layout.word()), Some(vec![layout]));
        }
    }
}
