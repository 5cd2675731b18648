//! A column of strings of which few differ: the different ones in order, and for each row which it is.
//!
//! ```text
//! 0   4  how many differ
//! 4   4  bytes of all of them
//! 8   56 zeros
//! 64  .. where each begins, and where the last ends, 4 bytes each; zeros up to the next 64
//!     .. the strings, in ascending order of their bytes; zeros up to the next 64
//!     .. the codes: a column of whole numbers ([`ints`](crate::ints))
//! ```
//!
//! Codes sort as the strings do, so a test for one string, for a range or for a prefix is a test for a
//! range of codes.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Bound;

use crate::ints::{self, ALIGN, Damage, Ints};

/// The most distinct strings; a column with more is encoded otherwise.
pub const STRINGS_MAX: usize = 1 << 16;

/// Hashes short strings in a fraction of the time that the standard library takes, which is most of the
/// time of building a dictionary. The seed differs each time, so that nobody can choose strings that all
/// have the same hash.
#[derive(Clone)]
struct Fold(u64);

impl Fold {
    fn new() -> Fold {
        Fold(RandomState::new().hash_one(0))
    }

    /// Both halves of a product: each bit reaches all others.
    #[inline(always)]
    fn add(&mut self, word: u64) {
        let both =
            u128::from(self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        self.0 = both as u64 ^ (both >> 64) as u64;
    }
}

impl BuildHasher for Fold {
    type Hasher = Fold;

    fn build_hasher(&self) -> Fold {
        self.clone()
    }
}

impl Hasher for Fold {
    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.add(u64::from_le_bytes(*word)));
        let last = rest.iter().fold(0, |last, byte| last << 8 | u64::from(*byte));
        self.add(last);
    }

    #[inline(always)]
    fn write_usize(&mut self, number: usize) {
        self.0 = self.0.wrapping_add(number as u64);
    }

    #[inline(always)]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// A column that was encoded.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The number of distinct strings.
    pub count: usize,
    /// The column.
    pub bytes: Vec<u8>,
}

/// Encodes a column; `None` if too many of its strings differ.
pub fn encode(strings: &[&[u8]]) -> Option<Encoded> {
    encode_if(strings, STRINGS_MAX)
}

/// Encodes a column if its strings repeat often enough: on average each occurs at least twice, in the
/// first part and in the whole.
pub fn encode_few(strings: &[&[u8]]) -> Option<Encoded> {
    const FIRST: usize = 4096;
    let few = |strings: &[&[u8]]| (strings.len() / 2).clamp(1, STRINGS_MAX);
    let first = &strings[..strings.len().min(FIRST)];
    let mut differ: HashSet<&[u8], Fold> = HashSet::with_hasher(Fold::new());
    differ.extend(first);
    if strings.len() > FIRST && differ.len() > few(first) {
        return None;
    }
    encode_if(strings, few(strings))
}

fn encode_if(strings: &[&[u8]], most: usize) -> Option<Encoded> {
    let mut found: HashMap<&[u8], u32, Fold> = HashMap::with_hasher(Fold::new());
    let mut codes = Vec::with_capacity(strings.len());
    for string in strings {
        let next = found.len() as u32;
        let code = *found.entry(string).or_insert(next);
        if code == next && found.len() > most {
            return None;
        }
        codes.push(code);
    }
    let mut sorted: Vec<(&[u8], u32)> = found.into_iter().collect();
    sorted.sort_unstable();
    let mut places = vec![0i64; sorted.len()];
    for (place, (_, code)) in sorted.iter().enumerate() {
        places[*code as usize] = place as i64;
    }
    let mut out = Vec::new();
    let bytes: usize = sorted.iter().map(|(string, _)| string.len()).sum();
    for number in [sorted.len(), bytes] {
        out.extend_from_slice(&u32::try_from(number).ok()?.to_le_bytes());
    }
    out.resize(ALIGN, 0);
    let mut at = 0u32;
    out.extend_from_slice(&at.to_le_bytes());
    for (string, _) in &sorted {
        at += string.len() as u32;
        out.extend_from_slice(&at.to_le_bytes());
    }
    out.resize(out.len().next_multiple_of(ALIGN), 0);
    sorted.iter().for_each(|(string, _)| out.extend_from_slice(string));
    out.resize(out.len().next_multiple_of(ALIGN), 0);
    let codes: Vec<i64> = codes.iter().map(|code| places[*code as usize]).collect();
    out.extend_from_slice(&ints::encode(&codes));
    Some(Encoded { count: sorted.len(), bytes: out })
}

/// A column as it is encoded.
#[derive(Clone, Debug)]
pub struct Dict<'a> {
    ends: &'a [u8],
    strings: &'a [u8],
    codes: Ints<'a>,
}

impl<'a> Dict<'a> {
    /// Opens a column.
    ///
    /// # Errors
    /// The bytes are no such column. That a code names a string is for [`Dict::string`] to see.
    pub fn new(bytes: &'a [u8]) -> Result<Dict<'a>, Damage> {
        let header = ints::cut(bytes, 0, ALIGN)?;
        let number = |at: usize| {
            let four: [u8; 4] = header[at..at + 4].try_into().expect("four");
            u32::from_le_bytes(four) as usize
        };
        let (count, length) = (number(0), number(4));
        if count > STRINGS_MAX {
            return Err(Damage::Field { name: "strings that differ", value: count as u64 });
        }
        let ends = ints::cut(bytes, ALIGN, (count + 1) * 4)?;
        let at = (ALIGN + ends.len()).next_multiple_of(ALIGN);
        let strings = ints::cut(bytes, at, length)?;
        let at = (at + length).next_multiple_of(ALIGN);
        let codes = Ints::new(ints::cut(bytes, at, bytes.len().saturating_sub(at))?)?;
        let dict = Dict { ends, strings, codes };
        let mut last = 0;
        for code in 0..=count {
            let end = dict.end(code);
            if end < last || end > length {
                return Err(Damage::Field { name: "end of a string", value: end as u64 });
            }
            last = end;
        }
        Ok(dict)
    }

    /// The number of distinct strings.
    pub fn count(&self) -> usize {
        self.ends.len() / 4 - 1
    }

    /// Which string each row has.
    pub fn codes(&self) -> &Ints<'a> {
        &self.codes
    }

    fn end(&self, code: usize) -> usize {
        let four: [u8; 4] = self.ends[code * 4..][..4].try_into().expect("four");
        u32::from_le_bytes(four) as usize
    }

    /// The string of a code; `None`: there is none.
    pub fn string(&self, code: usize) -> Option<&'a [u8]> {
        (code < self.count()).then(|| &self.strings[self.end(code)..self.end(code + 1)])
    }

    /// The first code whose string is not before `string`; `after`: not before nor equal to it.
    fn first(&self, string: &[u8], after: bool) -> usize {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low + (high - low) / 2;
            let own = self.string(middle).expect("it is below the count");
            let before = if after { own <= string } else { own < string };
            if before { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The codes of the strings in a range, half open.
    pub fn range(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> (usize, usize) {
        let from = match low {
            Bound::Unbounded => 0,
            Bound::Included(low) => self.first(low, false),
            Bound::Excluded(low) => self.first(low, true),
        };
        let to = match high {
            Bound::Unbounded => self.count(),
            Bound::Included(high) => self.first(high, true),
            Bound::Excluded(high) => self.first(high, false),
        };
        (from, to.max(from))
    }

    /// The codes of the strings with this prefix, half open.
    pub fn beginning(&self, start: &[u8]) -> (usize, usize) {
        // The first string after all of them: the last byte that can be incremented is.
        let mut after = start.to_vec();
        while after.last() == Some(&u8::MAX) {
            after.pop();
        }
        match after.last_mut() {
            Some(last) => {
                *last += 1;
                self.range(Bound::Included(start), Bound::Excluded(&after))
            }
            None => self.range(Bound::Included(start), Bound::Unbounded),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytemuck::cast_slice;
    use proptest::prelude::*;

    use super::*;
    use crate::bits::BLOCK;
    use crate::ints::placed;

    fn strings() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let string = prop_oneof![
            "[ab\u{ff}]{0,3}".prop_map(String::into_bytes),
            prop::collection::vec(prop_oneof![Just(0u8), Just(255)], 0..4),
            Just(vec![b'x'; 300]),
        ];
        prop::collection::vec(string, 0..2500)
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_found_again(
            strings in strings(), asked in prop::collection::vec(any::<u8>(), 0..3)
        ) {
            let refs: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
            let bytes = encode(&refs).expect("few differ").bytes;
            let words = placed(&bytes);
            let dict = Dict::new(&cast_slice(&words)[..bytes.len()]).expect("a column");
            for (block, rows) in refs.chunks(BLOCK).enumerate() {
                let mut codes = [0; BLOCK];
                dict.codes().decode(block, &mut codes);
                for (code, row) in codes.iter().zip(rows) {
                    prop_assert_eq!(dict.string(*code as usize), Some(*row));
                }
            }
            let all: Vec<&[u8]> = (0..dict.count()).filter_map(|code| dict.string(code)).collect();
            prop_assert!(all.is_sorted() && dict.string(all.len()).is_none());
            let asked = asked.as_slice();
            let (from, to) = dict.range(Bound::Included(asked), Bound::Included(asked));
            prop_assert_eq!(to - from, usize::from(all.contains(&asked)));
            let (from, to) = dict.beginning(asked);
            let begin: Vec<&&[u8]> = all.iter().filter(|own| own.starts_with(asked)).collect();
            prop_assert_eq!(all[from..to].iter().collect::<Vec<_>>(), begin);
            let (from, to) = dict.range(Bound::Excluded(asked), Bound::Unbounded);
            prop_assert_eq!(to - from, all.iter().filter(|own| **own > asked).count());
        }

        #[test]
        fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..600), few: bool) {
            if few && bytes.len() > 8 {
                bytes[1..4].fill(0);
                bytes[5..8].fill(0);
                bytes[0] %= 8;
            }
            let words = placed(&bytes);
            if let Ok(dict) = Dict::new(&cast_slice(&words)[..bytes.len()]) {
                dict.beginning(b"a");
            }
        }
    }

    #[test]
    fn too_many_strings_are_no_dictionary() {
        let strings: Vec<[u8; 4]> = (0..=STRINGS_MAX as u32).map(u32::to_be_bytes).collect();
        let refs: Vec<&[u8]> = strings.iter().map(|s| &s[..]).collect();
        assert!(encode(&refs).is_none() && encode(&refs[1..]).is_some());
    }
}
