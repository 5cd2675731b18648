//! Files in a group, of each of which it is known what it must hold after a power cut.

use std::collections::BTreeMap;

use super::programs::Programs;
use crate::program::{out, told};

/// What a file holds: bytes from a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes {
    pub seed: u64,
    pub length: usize,
}

impl Bytes {
    pub fn make(self) -> Vec<u8> {
        let mut chance = Random(self.seed);
        let mut bytes = Vec::with_capacity(self.length + 8);
        while bytes.len() < self.length {
            bytes.extend_from_slice(&chance.next().to_le_bytes());
        }
        bytes.truncate(self.length);
        bytes
    }
}

/// Numbers from a seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Of an error: there is no room for another file.
pub const NO_ROOM: &str = "CELLAR-15041";

/// What happened so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Copies and removals that the program acknowledged.
    pub acknowledged: u64,
    /// Bytes of those copies.
    pub bytes: u64,
    /// Those that were under way when the power went, and neither acknowledged nor refused.
    pub cut_off: u64,
    /// Files compared with what they must hold.
    pub compared: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.acknowledged += other.acknowledged;
        self.bytes += other.bytes;
        self.cut_off += other.cut_off;
        self.compared += other.compared;
    }
}

/// The files of one writer. A file holds what was acknowledged last; while a command is under way,
/// or after it was cut off, it may hold what that was to make of it instead.
#[derive(Default)]
pub struct Files {
    holds: BTreeMap<String, Option<Bytes>>,
    doubtful: BTreeMap<String, Option<Bytes>>,
    pub tally: Tally,
}

impl Files {
    /// Copies a file into the group, over another one or not, or removes one. What the program told
    /// if it did not acknowledge it.
    pub fn act(
        &mut self,
        programs: &Programs,
        writer: &str,
        random: &mut Random,
    ) -> Result<(), String> {
        let name = format!("{writer}{}", random.below(5));
        let path = format!("+DATA/{name}");
        let there = self.holds.get(&name).is_some_and(Option::is_some);
        let next = (!there || random.below(4) > 0).then(|| {
            let odd = [0, 0, 1, 511, 4095][random.below(5) as usize];
            let length = (random.below(1 << 12) << 10) as usize >> random.below(6);
            Bytes { seed: random.next(), length: length + odd }
        });
        self.doubtful.insert(name.clone(), next);
        let done = match next {
            Some(bytes) => {
                let new = programs.dir().join(format!("{writer}.new"));
                std::fs::write(&new, bytes.make()).unwrap();
                programs.done(&["asm", "db", "cp", new.to_str().unwrap(), &path])
            }
            None => programs.done(&["asm", "db", "rm", &path]),
        };
        if let Err(told) = done {
            if told.contains(NO_ROOM) {
                // Nothing came of it.
                self.doubtful.remove(&name);
            } else {
                self.tally.cut_off += 1;
            }
            return Err(told);
        }
        self.doubtful.remove(&name);
        self.holds.insert(name, next);
        self.tally.acknowledged += 1;
        self.tally.bytes += next.map_or(0, |bytes| bytes.length as u64);
        Ok(())
    }

    /// Reads everything back: each file is as it was acknowledged last, or, if a command was cut
    /// off, as that would have made it, whole. What is there counts from now on.
    pub fn check(&mut self, programs: &Programs) -> Result<(), String> {
        let names: Vec<String> = self.holds.keys().chain(self.doubtful.keys()).cloned().collect();
        for name in names {
            let held = self.holds.get(&name).copied().flatten();
            let mut allowed = vec![held];
            allowed.extend(self.doubtful.remove(&name));
            let found = read(programs, &name)?;
            self.tally.compared += 1;
            let is = allowed.iter().find(|allowed| match (allowed, &found) {
                (Some(bytes), Some(found)) => bytes.make() == *found,
                (None, None) => true,
                _ => false,
            });
            let Some(is) = is else {
                let is = describe(&allowed, found.as_deref());
                return Err(format!("{name} must be one of {allowed:?}, and is {is}"));
            };
            self.holds.insert(name, *is);
        }
        Ok(())
    }
}

/// What is wrong with a file, for whoever looks into it.
fn describe(allowed: &[Option<Bytes>], found: Option<&[u8]>) -> String {
    let Some(found) = found else { return "not there".to_owned() };
    let wanted = allowed.iter().flatten().find(|bytes| bytes.length == found.len());
    let Some(wanted) = wanted else { return format!("{} bytes long", found.len()) };
    let wanted = wanted.make();
    let blocks = found.chunks(4096).zip(wanted.chunks(4096)).enumerate();
    let wrong: Vec<usize> = blocks.filter(|(_, (a, b))| a != b).map(|(at, _)| at).collect();
    let zeros = wrong.iter().filter(|at| found[**at * 4096] == 0).count();
    let (first, last) = (wrong.first(), wrong.last());
    format!("wrong in {} blocks, {zeros} zeros, of {first:?}..={last:?}", wrong.len())
}

/// What a file holds; `None` if there is no such file.
fn read(programs: &Programs, name: &str) -> Result<Option<Vec<u8>>, String> {
    let back = programs.dir().join("back");
    let path = format!("+DATA/{name}");
    let words = ["asm", "db", "cp", &path, back.to_str().unwrap()];
    let output = programs.run(&words).ok_or("killed")?;
    if output.status.success() {
        let bytes = std::fs::read(&back).unwrap();
        std::fs::remove_file(back).unwrap();
        return Ok(Some(bytes));
    }
    let words = told(&output);
    match words.contains("CELLAR-15012") {
        true => Ok(None),
        false => Err(format!("cp {path}: {}{words}", out(&output))),
    }
}
