//! Options of `au-size`, and the layout of its slots on each disk.

use cellar_io::shape::{self, ShapeOptions};

use crate::content::STEP;
use crate::error::LabError;
use crate::experiment::{OptionSpec, OptionTexts};
use crate::load::{SPARE, Slot};
use crate::place::Needed;
use crate::preset::{self, Preset};

/// The stretch of each disk that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// From its first byte on: the outer tracks of a rotating disk.
    Outer,
    /// Up to its last byte: the inner tracks.
    Inner,
}

impl Position {
    const ALL: [(&'static str, Position); 2] =
        [("outer", Position::Outer), ("inner", Position::Inner)];

    /// As given to `--position`.
    pub fn word(self) -> &'static str {
        Position::ALL.iter().find(|(_, own)| *own == self).map_or("", |(word, _)| word)
    }
}

/// The distance between a storage region and the start of the old way's reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shift {
    /// This many bytes, whatever the AU.
    Bytes(u64),
    /// Half an AU.
    HalfAu,
}

impl Shift {
    /// For a group of this AU, in bytes.
    pub(super) fn of(self, au_size: u64) -> u64 {
        match self {
            Shift::Bytes(bytes) => bytes,
            Shift::HalfAu => au_size / 2,
        }
    }

    pub(super) fn words(self) -> String {
        match self {
            Shift::Bytes(bytes) => format!("{} KB", bytes >> 10),
            Shift::HalfAu => "half an AU".to_owned(),
        }
    }
}

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// AUs of the groups in bytes, each once: powers of two from 1 to 64 MiB, ascending.
    pub au_sizes: Vec<u64>,
    /// Bytes of the file: a multiple of the largest AU on each disk.
    pub file_bytes: u64,
    /// Disks of the group.
    pub width: usize,
    /// The stretches of the disks that are used, one after the other.
    pub positions: Vec<Position>,
    /// The shift of the old way's reads.
    pub shift: Shift,
    /// Rounds, interleaved; medians are reported.
    pub rounds: u32,
    /// Seed for the order of tasks on a model.
    pub seed: u64,
    /// The disk model.
    pub preset: Preset,
    /// The model that real disks are slowed down to.
    pub shape: Option<ShapeOptions>,
}

const PRESETS: [Preset; 2] = [preset::SAS_15K_2012, preset::FLAT_200];

const AU: &str = "1M, 2M, 4M, 8M, 16M, 32M, 64M, each once, ascending, with commas between";
const SIZE: &str = "a multiple of the largest AU times the disks, so that each disk has as many";
const WIDTH: &str = "1 to 16";
const POSITION: &str = "outer, inner or outer,inner";
const SHIFT: &str = "4K to 1020K, a multiple of 4K; or half-au";
const ROUNDS: &str = "1 to 1000";
const SEED: &str = "a number";
const PRESET: &str = "sas-15k-2012 or flat-200";
const SHAPE: &str = "a disk model as 200MB/s,2000iops,4ms,qd32,inner:120MB/s,seek:5ms";
const NOT_IN_A_FILE: &str = "outer where scratch files are read, which lie where the file system \
     puts them; name disks with --disks, or slow the files with --shape ..,inner:RATE";

pub(super) const SPECS: &[OptionSpec] = &[
    OptionSpec::new("au", "LIST", "1M,4M,8M,16M,64M", "The allocation units: 1M to 64M"),
    OptionSpec::new("size", "SIZE", "2G", "The file that is read"),
    OptionSpec::new("width", "N", "2; with --disks all of them", "Disks of the group"),
    OptionSpec::new(
        "position",
        "LIST",
        "outer,inner; of files and disks here outer",
        "Which stretch of each disk is used: outer (its first bytes), inner (its last)",
    ),
    OptionSpec::new(
        "shift",
        "SIZE",
        "512K",
        "The old way reads so far behind each MB; half-au: half of each AU",
    ),
    OptionSpec::new(
        "rounds",
        "N",
        "3; of a model alone 1",
        "Rounds, interleaved; medians are shown",
    ),
    OptionSpec::new("seed", "N", "4", "Decides the order of tasks on the model"),
    OptionSpec::new("preset", "NAME", "sas-15k-2012", "The disk model: that or flat-200"),
    OptionSpec::new(
        "shape",
        "WORDS",
        "as they are",
        "Slow the disks here to a model: 200MB/s,inner:120MB/s,seek:5ms",
    ),
];

impl Default for Options {
    /// AU 1, 4, 8, 16, 64 MiB, 2 GiB on two disks, outer and inner tracks, one round.
    fn default() -> Options {
        Options {
            au_sizes: [1, 4, 8, 16, 64].map(|mb| mb << 20).to_vec(),
            file_bytes: 2 << 30,
            width: 2,
            positions: vec![Position::Outer, Position::Inner],
            shift: Shift::Bytes(512 << 10),
            rounds: 1,
            seed: 4,
            preset: preset::SAS_15K_2012,
            shape: None,
        }
    }
}

/// A comma-separated list without duplicates.
fn list<T: PartialEq>(text: &str, one: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    let all: Vec<T> = text.split(',').map(|word| one(word.trim())).collect::<Option<_>>()?;
    let twice = all.iter().enumerate().any(|(i, own)| all[..i].contains(own));
    (!twice).then_some(all)
}

impl Options {
    /// As the default, for files and disks of this machine: their first bytes, 3 rounds.
    pub fn here() -> Options {
        Options { positions: vec![Position::Outer], rounds: 3, ..Options::default() }
    }

    pub(super) fn read(
        words: OptionTexts<'_>,
        here: bool,
        disks: usize,
    ) -> Result<Options, LabError> {
        let base = if here { Options::here() } else { Options::default() };
        let mega =
            |word: &str| word.strip_suffix(['M', 'm'])?.parse::<u64>().ok()?.checked_mul(1 << 20);
        let position = |word: &str| {
            Position::ALL.iter().find(|(name, _)| *name == word).map(|(_, position)| *position)
        };
        let rounds = words.number("rounds", u64::from(base.rounds), ROUNDS)?;
        let default_width = if disks > 0 { disks } else { base.width };
        let width = words.number("width", default_width as u64, WIDTH)?;
        let shift = match words.get("shift") {
            Some("half-au") => Shift::HalfAu,
            _ => Shift::Bytes(words.size("shift", 512 << 10, SHIFT)?),
        };
        let preset = |name: &str| PRESETS.into_iter().find(|p| p.name == name);
        let options = Options {
            au_sizes: words.parsed("au", base.au_sizes, AU, |text| list(text, mega))?,
            file_bytes: words.size("size", base.file_bytes, SIZE)?,
            width: usize::try_from(width).unwrap_or(usize::MAX),
            positions: words
                .parsed("position", base.positions, POSITION, |text| list(text, position))?,
            shift,
            rounds: u32::try_from(rounds).unwrap_or(u32::MAX),
            seed: words.number("seed", base.seed, SEED)?,
            preset: words.parsed("preset", base.preset, PRESET, preset)?,
            shape: words.parsed("shape", None, SHAPE, |text| shape::parse(text).ok().map(Some))?,
        };
        options.check()?;
        let places = options.shape.is_some_and(|shape| shape.inner_bytes_per_second > 0);
        if here && disks == 0 && !places && options.positions != [Position::Outer] {
            let value = words.get("position").unwrap_or_default().to_owned();
            return Err(LabError::Option { name: "position", value, allowed: NOT_IN_A_FILE });
        }
        Ok(options)
    }

    pub(super) fn check(&self) -> Result<(), LabError> {
        let refuse = |name, value: String, allowed| Err(LabError::Option { name, value, allowed });
        let is_au = |au: &u64| au.is_power_of_two() && (1 << 20..=64 << 20).contains(au);
        if self.au_sizes.is_empty()
            || !self.au_sizes.iter().all(is_au)
            || !self.au_sizes.is_sorted_by(|a, b| a < b)
        {
            let all: Vec<String> =
                self.au_sizes.iter().map(|au| format!("{}M", au >> 20)).collect();
            return refuse("au", all.join(","), AU);
        }
        if !(1..=16).contains(&self.width) {
            return refuse("width", self.width.to_string(), WIDTH);
        }
        let step = self.largest() * self.width as u64;
        if self.file_bytes == 0 || !self.file_bytes.is_multiple_of(step) {
            return refuse("size", self.file_bytes.to_string(), SIZE);
        }
        if self.positions.is_empty() {
            return refuse("position", "\"\"".to_owned(), POSITION);
        }
        if let Shift::Bytes(bytes) = self.shift
            && (bytes == 0 || bytes >= STEP || !bytes.is_multiple_of(4096))
        {
            return refuse("shift", bytes.to_string(), SHIFT);
        }
        if !(1..=1000).contains(&self.rounds) {
            return refuse("rounds", self.rounds.to_string(), ROUNDS);
        }
        Ok(())
    }

    fn largest(&self) -> u64 {
        self.au_sizes.last().copied().unwrap_or(64 << 20)
    }

    /// Bytes of each disk that hold a group of any of the AUs with its file.
    pub(super) fn stretch(&self) -> u64 {
        let bytes = self.file_bytes / self.width as u64 + SPARE + 8 * self.largest();
        bytes.next_multiple_of(self.largest())
    }

    /// Where a group lies on disks of `size` bytes, or of the minimum size.
    pub(super) fn slots(&self, position: Position, size: u64) -> Vec<Slot> {
        let length = self.stretch();
        let start = match position {
            Position::Outer => 0,
            Position::Inner => size.saturating_sub(length) / STEP * STEP,
        };
        (0..self.width).map(|disk| Slot { disk, start, size: length }).collect()
    }

    /// The size of the disks, given or chosen so that outer and inner do not overlap.
    pub(super) fn disk_bytes(&self, size: Option<u64>) -> u64 {
        size.unwrap_or(self.stretch() * self.positions.len() as u64)
    }

    /// The requirements for each disk of `size` bytes.
    pub(super) fn needed(&self, size: u64) -> Vec<Needed> {
        let used = |disk: usize| {
            let slots = self.positions.iter().map(|p| self.slots(*p, size)[disk]);
            slots.map(|slot| slot.start..slot.start + slot.size).collect()
        };
        let bytes = self.stretch() * self.positions.len() as u64;
        (0..self.width).map(|disk| Needed { bytes, used: used(disk) }).collect()
    }
}

/// The name of an AU.
pub(super) fn name(au_size: u64) -> String {
    format!("{} MB", au_size >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_au_lies_in_the_same_stretch_and_the_stretches_lie_apart() {
        let options = Options::default();
        let size = 600 << 30;
        let [outer, inner] = [Position::Outer, Position::Inner].map(|p| options.slots(p, size));
        for (outer, inner) in outer.iter().zip(&inner) {
            assert_eq!((outer.start, outer.disk, outer.size), (0, inner.disk, inner.size));
            assert!(outer.size < inner.start && inner.start + inner.size <= size);
        }
        let made = options.disk_bytes(None);
        let inner = options.slots(Position::Inner, made)[0];
        assert!(inner.start >= options.stretch() && inner.start + inner.size <= made);
    }
}
