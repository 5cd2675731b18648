//! The allocation bitmap of one disk: one bit an AU and two levels of summary.

use std::collections::BTreeSet;

use super::Au;

/// Why an AU could not be taken or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuError {
    /// The disk has no such AU.
    #[error("AU {au} does not exist, the disk has {aus}")]
    OutOfRange {
        /// The AU asked for.
        au: u32,
        /// AUs of the disk.
        aus: u32,
    },
    /// The AU is taken, by a file or by our own metadata.
    #[error("AU {au} is taken already")]
    Taken {
        /// The AU asked for.
        au: u32,
    },
    /// The AU is not a file's (or, for metadata, not metadata's) to give back.
    #[error("AU {au} is not allocated")]
    NotTaken {
        /// The AU given back.
        au: u32,
    },
}

/// Free and taken AUs of one disk.
///
/// AUs that hold our own metadata are *reserved*: the checksum AUs, at every `checksum_stride`th
/// index from 0, for good; checkpoints, dirty logs and maps by [`AuMap::reserve`]. They are counted
/// apart and are in none of `total`, `used`, `free`. So are free AUs that are *held* for metadata
/// still to come ([`AuMap::hold`]): only [`AuMap::reserve`] takes them. A disk that is to become
/// smaller has a *shrink limit* ([`AuMap::limit_shrink`]): nothing new is taken at or behind it. Memory: one bit an
/// AU and 1/64 of that.
#[derive(Clone, Debug)]
pub struct AuMap {
    aus: u32,
    checksum_stride: Option<u32>,
    /// A set bit is a free AU.
    free: Vec<u64>,
    /// A set bit is a word of `free` that is not 0.
    summary: Vec<u64>,
    /// A set bit is a word of `summary` that is not 0.
    top: Vec<u64>,
    free_count: u32,
    metadata: BTreeSet<u32>,
    checksum_count: u32,
    held: u32,
    /// The new end of a disk that is to become smaller; the end where there is none.
    shrink_limit: u32,
    /// Free AUs at or behind the limit: counted in `free_count`, and given to nobody.
    free_behind: u32,
}

fn words(bits: usize) -> usize {
    bits.div_ceil(64)
}

/// The first set bit at or behind `from`.
fn next_set(level: &[u64], from: usize) -> Option<usize> {
    let (mut word, bit) = (from / 64, from % 64);
    let mut bits = level.get(word)? & (u64::MAX << bit);
    while bits == 0 {
        word += 1;
        bits = *level.get(word)?;
    }
    Some(word * 64 + bits.trailing_zeros() as usize)
}

impl AuMap {
    /// A disk of `aus` AUs, all free but the checksum AUs: every `checksum_stride`th from 0.
    ///
    /// `None` is a disk without checksum AUs. A stride of 0 or 1 would leave no AU for data.
    #[must_use]
    pub fn new(aus: u32, checksum_stride: Option<u32>) -> AuMap {
        assert!(checksum_stride.is_none_or(|s| s > 1), "a checksum AU covers at least one AU");
        let mut map = AuMap {
            aus: 0,
            checksum_stride,
            free: Vec::new(),
            summary: Vec::new(),
            top: Vec::new(),
            free_count: 0,
            metadata: BTreeSet::new(),
            checksum_count: 0,
            held: 0,
            shrink_limit: 0,
            free_behind: 0,
        };
        map.grow(aus);
        map
    }

    /// Makes the disk larger; the new AUs are free, and a limit is gone. A size not above today's
    /// changes nothing.
    pub fn grow(&mut self, aus: u32) {
        let old = self.aus;
        if aus <= old {
            return;
        }
        self.aus = aus;
        (self.shrink_limit, self.free_behind) = (aus, 0);
        self.free.resize(words(aus as usize), 0);
        self.summary.resize(words(self.free.len()), 0);
        self.top.resize(words(self.summary.len()), 0);
        let mut at = old;
        while at < aus {
            let word = (at / 64) as usize;
            let end = (at / 64 * 64).saturating_add(64).min(aus);
            let mut bits = u64::MAX << (at % 64);
            if !end.is_multiple_of(64) {
                bits &= (1 << (end % 64)) - 1;
            }
            self.free[word] |= bits;
            self.mark_filled(word);
            at = end;
        }
        self.free_count += aus - old;
        if let Some(stride) = self.checksum_stride {
            for au in (old.next_multiple_of(stride)..aus).step_by(stride as usize) {
                self.clear(au);
                self.checksum_count += 1;
            }
        }
    }

    /// Nothing new is taken from this AU on, until [`AuMap::shrink`] or another limit. One at the end
    /// of the disk, or behind it, is none.
    pub fn limit_shrink(&mut self, end: u32) {
        self.shrink_limit = end.min(self.aus);
        let (words, first) = (self.free.len(), (self.shrink_limit / 64) as usize);
        let free = |word: usize| match word == first {
            true => self.free[word] & (u64::MAX << (self.shrink_limit % 64)),
            false => self.free[word],
        };
        self.free_behind = (first..words).map(|word| free(word).count_ones()).sum();
    }

    /// Taken AUs at or behind the limit that are no checksum AUs: what has to leave first.
    #[must_use]
    pub fn taken_behind(&self) -> u32 {
        self.aus
            - self.shrink_limit
            - self.free_behind
            - self.checksums_in(self.shrink_limit, self.aus)
    }

    /// Cuts the disk off at its limit.
    ///
    /// # Errors
    /// An AU behind it is taken.
    pub fn shrink(&mut self) -> Result<(), AuError> {
        let end = self.shrink_limit;
        let is_taken = |au: &u32| !self.is_free(Au(*au)) && !self.is_checksum(*au);
        if self.taken_behind() > 0 {
            let au = (end..self.aus).find(is_taken).unwrap_or(end);
            return Err(AuError::Taken { au });
        }
        self.checksum_count -= self.checksums_in(end, self.aus);
        self.free_count -= self.free_behind;
        self.free_behind = 0;
        self.aus = end;
        self.free.truncate(words(end as usize));
        if let Some(last) = self.free.last_mut()
            && !end.is_multiple_of(64)
        {
            *last &= (1 << (end % 64)) - 1;
        }
        self.summarise();
        Ok(())
    }

    /// Makes the levels above the bitmap anew.
    fn summarise(&mut self) {
        self.summary = vec![0; words(self.free.len())];
        self.top = vec![0; words(self.summary.len())];
        for word in 0..self.free.len() {
            if self.free[word] != 0 {
                self.mark_filled(word);
            }
        }
    }

    fn is_checksum(&self, au: u32) -> bool {
        self.checksum_stride.is_some_and(|s| au.is_multiple_of(s))
    }

    fn checksums_in(&self, first: u32, end: u32) -> u32 {
        self.checksum_stride.map_or(0, |s| end.div_ceil(s) - first.div_ceil(s))
    }

    fn mark_filled(&mut self, word: usize) {
        self.summary[word / 64] |= 1 << (word % 64);
        self.top[word / 4096] |= 1 << (word / 64 % 64);
    }

    /// Takes a free AU out of the bitmaps.
    fn clear(&mut self, au: u32) {
        let word = (au / 64) as usize;
        debug_assert!(self.is_free(Au(au)), "only a free AU can be taken");
        self.free[word] &= !(1 << (au % 64));
        self.free_count -= 1;
        self.free_behind -= u32::from(au >= self.shrink_limit);
        if self.free[word] == 0 {
            self.summary[word / 64] &= !(1 << (word % 64));
            if self.summary[word / 64] == 0 {
                self.top[word / 4096] &= !(1 << (word / 64 % 64));
            }
        }
    }

    fn set(&mut self, au: u32) {
        let word = (au / 64) as usize;
        self.free[word] |= 1 << (au % 64);
        self.free_count += 1;
        self.free_behind += u32::from(au >= self.shrink_limit);
        self.mark_filled(word);
    }

    fn first_free_from(&self, from: u32) -> Option<u32> {
        let from = from as usize;
        let word = from / 64;
        let here = self.free.get(word)? & (u64::MAX << (from % 64));
        if here != 0 {
            return Some((word * 64) as u32 + here.trailing_zeros());
        }
        let summary_from = word + 1;
        let summary_word = summary_from / 64;
        let here = self.summary.get(summary_word)? & (u64::MAX << (summary_from % 64));
        let word = if here != 0 {
            summary_word * 64 + here.trailing_zeros() as usize
        } else {
            let filled = next_set(&self.top, summary_word + 1)?;
            next_set(&self.summary, filled * 64)?
        };
        Some((word * 64) as u32 + self.free[word].trailing_zeros())
    }

    fn find(&self, hint: Au) -> Option<u32> {
        if self.free_for_metadata() == 0 {
            return None;
        }
        let before_limit = |au: &u32| *au < self.shrink_limit;
        let first = self.first_free_from(hint.0).filter(before_limit);
        first.or_else(|| self.first_free_from(0).filter(before_limit))
    }

    /// Takes the lowest free AU at or behind `hint`, or else the lowest of all.
    ///
    /// With the AU behind a file's last one as the hint, files lie in runs.
    pub fn allocate(&mut self, hint: Au) -> Option<Au> {
        if self.free_count() == 0 {
            return None;
        }
        self.take_any(hint)
    }

    fn take_any(&mut self, hint: Au) -> Option<Au> {
        let au = self.find(hint)?;
        self.clear(au);
        Some(Au(au))
    }

    /// Keeps so many free AUs for our own metadata: files get none of them. Where fewer are free,
    /// those that become free are kept first.
    pub fn hold(&mut self, aus: u32) {
        self.held = aus;
    }

    /// Free AUs that are kept for our own metadata.
    #[must_use]
    pub fn held(&self) -> u32 {
        self.held.min(self.free_for_metadata())
    }

    /// AUs that our own metadata may still take: all that are free before the limit.
    #[must_use]
    pub fn free_for_metadata(&self) -> u32 {
        self.free_count - self.free_behind
    }

    /// Takes this very AU, as replaying a map does.
    pub fn allocate_at(&mut self, au: Au) -> Result<(), AuError> {
        self.allocate_run_at(au, 1)
    }

    /// Takes `count` AUs from `first` on, all or none.
    pub fn allocate_run_at(&mut self, first: Au, count: u32) -> Result<(), AuError> {
        let out_of_range = AuError::OutOfRange { au: first.0.saturating_add(count), aus: self.aus };
        let end = first.0.checked_add(count).ok_or(out_of_range)?;
        if end > self.aus {
            return Err(AuError::OutOfRange { au: end - 1, aus: self.aus });
        }
        if let Some(au) = (first.0..end).find(|&au| !self.is_free(Au(au))) {
            return Err(AuError::Taken { au });
        }
        (first.0..end).for_each(|au| self.clear(au));
        Ok(())
    }

    /// Gives a file's AU back.
    pub fn free(&mut self, au: Au) -> Result<(), AuError> {
        if au.0 >= self.aus {
            return Err(AuError::OutOfRange { au: au.0, aus: self.aus });
        }
        if self.is_free(au) || self.is_reserved(au) {
            return Err(AuError::NotTaken { au: au.0 });
        }
        self.set(au.0);
        Ok(())
    }

    /// Takes an AU for our own metadata, the lowest free one at or behind `hint`.
    pub fn reserve(&mut self, hint: Au) -> Option<Au> {
        let au = self.take_any(hint)?;
        self.metadata.insert(au.0);
        Some(au)
    }

    /// Takes this very AU for our own metadata.
    pub fn reserve_at(&mut self, au: Au) -> Result<(), AuError> {
        self.allocate_at(au)?;
        self.metadata.insert(au.0);
        Ok(())
    }

    /// Gives back an AU that [`AuMap::reserve`] took.
    pub fn unreserve(&mut self, au: Au) -> Result<(), AuError> {
        if !self.metadata.remove(&au.0) {
            return Err(AuError::NotTaken { au: au.0 });
        }
        self.set(au.0);
        Ok(())
    }

    /// Whether a file may take this AU.
    #[must_use]
    pub fn is_free(&self, au: Au) -> bool {
        au.0 < self.aus && self.free[(au.0 / 64) as usize] & (1 << (au.0 % 64)) != 0
    }

    /// Whether this AU holds, or will hold, our own metadata.
    #[must_use]
    pub fn is_reserved(&self, au: Au) -> bool {
        au.0 < self.aus && (self.is_checksum(au.0) || self.metadata.contains(&au.0))
    }

    /// AUs of the disk, reserved ones included.
    #[must_use]
    pub fn aus(&self) -> u32 {
        self.aus
    }

    /// AUs that hold our own metadata, without those that are kept for it.
    #[must_use]
    pub fn reserved(&self) -> u32 {
        // At most one an AU, so it fits.
        self.checksum_count + self.metadata.len() as u32
    }

    /// AUs files may use, taken ones included; behind a limit those only that are taken.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.aus - self.free_behind - self.reserved() - self.held()
    }

    /// AUs before `end` that our own metadata takes up there, without those held for it.
    #[must_use]
    pub fn reserved_before(&self, end: u32) -> u32 {
        self.checksums_in(0, end) + self.metadata.range(..end).count() as u32
    }

    /// AUs files hold.
    #[must_use]
    pub fn used(&self) -> u32 {
        self.total() - self.free_count()
    }

    /// AUs files may still take.
    #[must_use]
    pub fn free_count(&self) -> u32 {
        self.free_for_metadata() - self.held()
    }

    /// Bytes of memory the map takes, without the struct itself.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        (self.free.len() + self.summary.len() + self.top.len()) * 8 + self.metadata.len() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn runs_are_lowest_first_and_step_over_checksum_aus() {
        let mut map = AuMap::new(2100, Some(1017));
        assert_eq!((map.total(), map.reserved(), map.used()), (2097, 3, 0));
        let first: Vec<u32> = (0..1017)
            .scan(Au(0), |hint, _| {
                let au = map.allocate(*hint)?;
                *hint = Au(au.0 + 1);
                Some(au.0)
            })
            .collect();
        assert_eq!(first[0], 1);
        assert_eq!(first[1015], 1016);
        assert_eq!(first[1016], 1018);
        assert_eq!(map.free(Au(1017)), Err(AuError::NotTaken { au: 1017 }));
        assert_eq!(map.free(Au(5)), Ok(()));
        assert_eq!(map.allocate(Au(2099)), Some(Au(2099)));
        assert_eq!(map.allocate(Au(2099)), Some(Au(5)), "behind the end it starts at the front");
    }

    #[test]
    fn metadata_is_left_out_of_the_totals() {
        let mut map = AuMap::new(100, None);
        let au = map.reserve(Au(10)).unwrap();
        assert_eq!((au, map.total(), map.free_count(), map.used()), (Au(10), 99, 99, 0));
        assert!(map.free(au).is_err());
        map.unreserve(au).unwrap();
        assert_eq!(map.total(), 100);
        assert_eq!(map.allocate_run_at(Au(95), 6), Err(AuError::OutOfRange { au: 100, aus: 100 }));
        assert!(map.allocate_run_at(Au(u32::MAX), 2).is_err());
    }

    #[test]
    fn sixteen_mi_aus_fill_up_one_by_one() {
        let aus = 16 << 20;
        let mut map = AuMap::new(aus, Some(1017));
        assert!(map.memory_bytes() < (aus / 8) as usize * 103 / 100);
        let mut hint = Au(0);
        while let Some(au) = map.allocate(hint) {
            assert!(au >= hint);
            hint = au;
        }
        assert_eq!(map.used(), map.total());
    }

    proptest! {
        #[test]
        fn a_map_does_what_a_plain_list_does(
            aus in 1_u32..10_000,
            grow in 0_u32..9_000,
            steps in proptest::collection::vec((0_u8..7, any::<u32>()), 1..400),
        ) {
            let stride = 17;
            let mut map = AuMap::new(aus, Some(stride));
            let mut list: Vec<u8> = (0..aus).map(|au| u8::from(au % stride == 0) * 2).collect();
            let mut limit = list.len();
            for (what, value) in steps {
                let au = value % (list.len() as u32 + 3);
                let state = list.get(au as usize).copied();
                match what {
                    0 => {
                        let at = |from: usize| (from..limit).find(|&i| list[i] == 0);
                        let expected = at(au as usize).or_else(|| at(0));
                        prop_assert_eq!(map.allocate(Au(au)).map(|a| a.0 as usize), expected);
                        if let Some(i) = expected { list[i] = 1; }
                    }
                    1 => {
                        prop_assert_eq!(map.free(Au(au)).is_ok(), state == Some(1));
                        if state == Some(1) { list[au as usize] = 0; }
                    }
                    2 => {
                        prop_assert_eq!(map.reserve_at(Au(au)).is_ok(), state == Some(0));
                        if state == Some(0) { list[au as usize] = 3; }
                    }
                    3 => {
                        prop_assert_eq!(map.unreserve(Au(au)).is_ok(), state == Some(3));
                        if state == Some(3) { list[au as usize] = 0; }
                    }
                    4 => {
                        map.limit_shrink(au);
                        limit = list.len().min(au as usize);
                    }
                    5 => {
                        let taken = list[limit..].iter().filter(|&&s| s % 2 == 1).count();
                        prop_assert_eq!(map.taken_behind() as usize, taken);
                        prop_assert_eq!(map.shrink().is_ok(), taken == 0);
                        if taken == 0 { list.truncate(limit); }
                    }
                    _ => {
                        let new = aus + value % (grow + 1);
                        map.grow(new);
                        if new as usize > list.len() { limit = new as usize; }
                        for au in list.len() as u32..new {
                            list.push(u8::from(au % stride == 0) * 2);
                        }
                    }
                }
            }
            let count = |of: u8| list.iter().filter(|&&s| s == of).count() as u32;
            prop_assert_eq!(map.used(), count(1));
            let before = list[..limit].iter().filter(|&&s| s == 0).count() as u32;
            prop_assert_eq!(map.free_count(), before);
            prop_assert_eq!(map.reserved(), count(2) + count(3));
            prop_assert_eq!(map.total(), before + count(1));
        }
    }
}
