//! Records that say what they are, so that one that was never submitted is known.

use bytes::Bytes;

/// A small generator: the same seed gives the same run, as far as the machine allows.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// From 0 to below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    pub fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Which record it is: of which life of the program, of which committer, its how manyth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub life: u32,
    pub committer: u32,
    pub number: u32,
}

const HEAD: usize = 20;

fn chance(seed: u64, key: Key) -> Chance {
    let Key { life, committer, number } = key;
    let place = u64::from(life) << 40 | u64::from(committer) << 32 | u64::from(number);
    Chance::new(mix(seed) ^ mix(place))
}

/// The record; `seen` is an LSN below which everything was acknowledged when it was submitted.
pub fn body(seed: u64, key: Key, seen: u64, longest: usize) -> Bytes {
    let mut chance = chance(seed, key);
    let most = match chance.below(100) {
        0 => longest,
        1..10 => longest.min(20_000),
        10..40 => longest.min(3_000),
        _ => longest.min(300),
    };
    let length = HEAD + chance.below(most as u64) as usize;
    let mut bytes = Vec::with_capacity(length + 8);
    bytes.extend_from_slice(&key.life.to_le_bytes());
    bytes.extend_from_slice(&key.committer.to_le_bytes());
    bytes.extend_from_slice(&key.number.to_le_bytes());
    bytes.extend_from_slice(&seen.to_le_bytes());
    while bytes.len() < length {
        bytes.extend_from_slice(&chance.next().to_le_bytes());
    }
    bytes.truncate(length);
    bytes.into()
}

/// Kind and flags that go with it.
pub fn marks(key: Key) -> (u8, u8) {
    (key.committer as u8, (key.life ^ key.number) as u8)
}

/// What a record is and what its committer had seen, if it is byte for byte one of ours.
pub fn read(seed: u64, longest: usize, record: &cellar_redo::Record) -> Result<(Key, u64), String> {
    let lsn = record.lsn;
    let Some(head) = record.body.get(..HEAD) else {
        return Err(format!("the record at {lsn} has {} bytes", record.body.len()));
    };
    let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
    let key = Key { life: word(0), committer: word(4), number: word(8) };
    let seen = u64::from_le_bytes(head[12..HEAD].try_into().unwrap());
    if record.body != body(seed, key, seen, longest) {
        return Err(format!("the record at {lsn} was never submitted: it claims to be {key:?}"));
    }
    if (record.kind, record.flags) != marks(key) {
        return Err(format!("kind and flags of {key:?} at {lsn} are others'"));
    }
    Ok((key, seen))
}

/// A checksum over records with their places.
#[derive(Default)]
pub struct Digest(u32);

impl Digest {
    pub fn add(&mut self, record: &cellar_redo::Record) {
        self.0 = crc32c::crc32c_append(self.0, &record.lsn.0.to_le_bytes());
        self.0 = crc32c::crc32c_append(self.0, &[record.kind, record.flags]);
        self.0 = crc32c::crc32c_append(self.0, &record.body);
    }

    pub fn value(&self) -> u32 {
        self.0
    }
}
