//! Options of `smart-scan`, and the slots that it uses on each disk.

use crate::content::STEP;
use crate::error::LabError;
use crate::experiment::{OptionSpec, OptionTexts};
use crate::load::{SPARE, Slot};
use crate::preset::{self, Preset};
use crate::table_scan::table::{Spec, room};

/// The AU of the group, the default of `cellar init`.
pub(super) const AU_SIZE: u64 = 4 << 20;
/// A model scans at most this many bytes: more would only take longer.
pub(super) const MODEL_BYTES: u64 = 64 << 20;

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Encoded size of the table in bytes: a multiple of 1 MiB, at least 4 MiB.
    pub table_bytes: u64,
    /// Disks of the group; two or more are mirrored.
    pub width: usize,
    /// Whether rows are in date order, as they are if each day is loaded in turn.
    pub clustered: bool,
    /// Rounds, interleaved; medians are reported.
    pub rounds: u32,
    /// Seed for the rows.
    pub seed: u64,
    /// The disk model.
    pub preset: Preset,
}

const SIZE: &str = "a multiple of 1 MiB, at least 4 MiB";
const WIDTH: &str = "1 to 16";
const ORDER: &str = "date or none";
const ROUNDS: &str = "1 to 1000";
const SEED: &str = "a number";
const PRESET: &str = "sas-15k-2012 or flat-200";
const PRESETS: [Preset; 2] = [preset::SAS_15K_2012, preset::FLAT_200];

pub(super) const SPECS: &[OptionSpec] = &[
    OptionSpec::new("size", "SIZE", "256M; of a model at most 64M", "The table, as it is encoded"),
    OptionSpec::new(
        "width",
        "N",
        "2; with --disks all of them",
        "Disks of the group: 1 keeps one copy, 2 and more are mirrored",
    ),
    OptionSpec::new(
        "order",
        "WORD",
        "date",
        "In which order rows are loaded: date (each day in its turn) or none",
    ),
    OptionSpec::new(
        "rounds",
        "N",
        "3; of a model alone 1",
        "Rounds, interleaved; medians are shown",
    ),
    OptionSpec::new("seed", "N", "4", "Decides the rows"),
    OptionSpec::new("preset", "NAME", "sas-15k-2012", "The disk model: that or flat-200"),
];

impl Default for Options {
    /// 64 MiB on two disks, in date order, one round (a model gives the same each time).
    fn default() -> Options {
        Options {
            table_bytes: MODEL_BYTES,
            width: 2,
            clustered: true,
            rounds: 1,
            seed: 4,
            preset: preset::SAS_15K_2012,
        }
    }
}

impl Options {
    /// As the default, for real disks: 256 MiB, 3 rounds.
    pub fn here() -> Options {
        Options { table_bytes: 256 << 20, rounds: 3, ..Options::default() }
    }

    pub(super) fn read(
        words: OptionTexts<'_>,
        here: bool,
        disks: usize,
    ) -> Result<Options, LabError> {
        let base = if here { Options::here() } else { Options::default() };
        let default_width = if disks > 0 { disks } else { base.width };
        let width = words.number("width", default_width as u64, WIDTH)?;
        let rounds = words.number("rounds", u64::from(base.rounds), ROUNDS)?;
        let order = |word: &str| match word {
            "date" => Some(true),
            "none" => Some(false),
            _ => None,
        };
        let preset = |name: &str| PRESETS.into_iter().find(|p| p.name == name);
        let options = Options {
            table_bytes: words.size("size", base.table_bytes, SIZE)?,
            width: usize::try_from(width).unwrap_or(usize::MAX),
            clustered: words.parsed("order", base.clustered, ORDER, order)?,
            rounds: u32::try_from(rounds).unwrap_or(u32::MAX),
            seed: words.number("seed", base.seed, SEED)?,
            preset: words.parsed("preset", base.preset, PRESET, preset)?,
        };
        options.check()?;
        Ok(options)
    }

    pub(super) fn check(&self) -> Result<(), LabError> {
        let refuse = |name, value: String, allowed| Err(LabError::Option { name, value, allowed });
        if self.table_bytes < 4 << 20 || !self.table_bytes.is_multiple_of(STEP) {
            return refuse("size", self.table_bytes.to_string(), SIZE);
        }
        if !(1..=16).contains(&self.width) {
            return refuse("width", self.width.to_string(), WIDTH);
        }
        if !(1..=1000).contains(&self.rounds) {
            return refuse("rounds", self.rounds.to_string(), ROUNDS);
        }
        Ok(())
    }

    /// The table to create.
    pub(super) fn spec(&self) -> Spec {
        Spec { bytes: self.table_bytes, clustered: self.clustered, seed: self.seed }
    }

    /// The number of copies.
    pub(super) fn copies(&self) -> u64 {
        self.width.min(2) as u64
    }

    /// Where the group lies: from the first byte of each disk on.
    pub(super) fn slots(&self) -> Vec<Slot> {
        let table = room(self.table_bytes);
        let each = table * self.copies() / self.width as u64 + SPARE + 8 * AU_SIZE;
        let size = each.next_multiple_of(AU_SIZE);
        (0..self.width).map(|disk| Slot { disk, start: 0, size }).collect()
    }

    /// The load order of the rows, in words.
    pub(super) fn order(&self) -> &'static str {
        if self.clustered { "date" } else { "none" }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn words_are_read_and_others_refused() {
        let read = |words: &[(&str, &str)], disks| {
            let words = words.iter().map(|(n, w)| ((*n).to_owned(), (*w).to_owned()));
            Options::read(OptionTexts(&words.collect::<BTreeMap<_, _>>()), true, disks)
        };
        let options = read(&[("order", "none"), ("size", "1G")], 3).unwrap();
        assert!(!options.clustered && options.table_bytes == 1 << 30);
        assert_eq!((options.width, options.copies(), options.rounds), (3, 2, 3));
        assert_eq!(read(&[], 0).unwrap(), Options::here());
        for (name, word) in [("order", "price"), ("size", "1K"), ("width", "17"), ("preset", "x")] {
            let error = read(&[(name, word)], 0).unwrap_err().to_string();
            assert!(error.starts_with(&format!("--{name} ")), "{error}");
        }
    }

    #[test]
    fn every_disk_has_room_for_its_part_of_two_copies() {
        let room = |width| Options { width, ..Options::here() }.slots()[0].size;
        assert!(room(2) > room(4) && room(4) > (128 << 20) + SPARE);
        assert!(room(1) > (256 << 20) + SPARE && room(1) == room(2));
    }
}
