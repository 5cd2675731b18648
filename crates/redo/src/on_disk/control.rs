//! Control data: what a reader must know before it can judge any block of the log.

use super::header::{
    FEATURES_KNOWN, FORMAT_VERSION, MediumState, Quorum, check_version, decode_state, encode_state,
};
use super::{Damage, DatabaseId, Fields, MEDIA_MAX, check_abn, check_head, crc_without_field, put};
use crate::lsn::{Abn, Lsn};

const MAGIC: u32 = u32::from_le_bytes(*b"CLRC");
/// At most so many groups.
pub const GROUPS_MAX: usize = 1024;
/// At most so many openings since the checkpoint.
pub const INCARNATIONS_MAX: usize = 4096;

/// One opening of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incarnation {
    /// Its number, from 1.
    pub number: u32,
    /// The first block that it may write.
    pub first: Abn,
    /// The CRC of the block before that one.
    pub chain: u32,
}

/// A medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediumEntry {
    /// What it is called.
    pub name: String,
    /// Whether it takes part.
    pub state: MediumState,
}

/// A log group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    /// Its number, from 1.
    pub number: u32,
    /// How many blocks it holds.
    pub capacity: u64,
    /// Size of each of its files in bytes.
    pub size: u64,
    /// Counts the groups in the order in which they were written; 0: not yet.
    pub sequence: u64,
    /// Number of its first block.
    pub first: Abn,
}

/// The log was closed in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clean {
    /// The first block that was not written.
    pub end: Abn,
}

/// What a reader must know before it can judge any block of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlData {
    /// The database.
    pub database: DatabaseId,
    /// Counts the times that it was written.
    pub generation: u64,
    /// 512 or 4096.
    pub block_size: u32,
    /// How many media must have a block.
    pub quorum: Quorum,
    /// Whether a group must be archived before it is written again.
    pub archiving: bool,
    /// Recovery begins here.
    pub checkpoint: Lsn,
    /// The CRC of the block before the checkpoint, where nothing follows it; else 0.
    pub checkpoint_chain: u32,
    /// Every block below was acknowledged as durable.
    pub durable: Abn,
    /// Groups up to this sequence were archived.
    pub archived: u64,
    /// The newest incarnation that every active medium has in a header.
    pub confirmed: u32,
    /// Set while the log is closed.
    pub clean: Option<Clean>,
    /// The media, by number.
    pub media: Vec<MediumEntry>,
    /// The groups.
    pub groups: Vec<GroupEntry>,
    /// The openings of the log since the checkpoint, and the newest before it; in order.
    pub incarnations: Vec<Incarnation>,
}

impl ControlData {
    /// The newest opening.
    pub fn incarnation(&self) -> Incarnation {
        let first = Incarnation { number: 0, first: Abn(0), chain: 0 };
        self.incarnations.last().copied().unwrap_or(first)
    }

    /// The opening that wrote block `abn`, if it was written.
    pub fn incarnation_of(&self, abn: Abn) -> Option<Incarnation> {
        self.incarnations.iter().rev().find(|i| i.first <= abn).copied()
    }

    /// The group that block `abn` is in, by its place in `groups`.
    pub fn group_of(&self, abn: Abn) -> Option<usize> {
        self.groups.iter().position(|g| {
            g.sequence > 0 && g.first <= abn && abn.0 < g.first.0.saturating_add(g.capacity)
        })
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let fits = self.media.len() <= MEDIA_MAX
            && self.groups.len() <= GROUPS_MAX
            && self.incarnations.len() <= INCARNATIONS_MAX;
        assert!(fits, "whoever adds to them has looked, or nobody could read this again");
        let mut b = vec![0; 104];
        put(&mut b, 0, MAGIC.to_le_bytes());
        put(&mut b, 8, FORMAT_VERSION.to_le_bytes());
        b[10] = self.quorum.encode();
        b[11] = u8::from(self.clean.is_some()) | u8::from(self.archiving) << 1;
        put(&mut b, 12, self.block_size.to_le_bytes());
        put(&mut b, 24, self.database.0.to_le_bytes());
        put(&mut b, 40, self.generation.to_le_bytes());
        put(&mut b, 48, self.checkpoint.0.to_le_bytes());
        put(&mut b, 56, self.durable.0.to_le_bytes());
        put(&mut b, 64, self.archived.to_le_bytes());
        put(&mut b, 72, self.clean.map_or(0, |c| c.end.0).to_le_bytes());
        put(&mut b, 80, self.checkpoint_chain.to_le_bytes());
        put(&mut b, 84, (self.media.len() as u32).to_le_bytes());
        put(&mut b, 88, (self.groups.len() as u32).to_le_bytes());
        put(&mut b, 92, (self.incarnations.len() as u32).to_le_bytes());
        put(&mut b, 96, self.confirmed.to_le_bytes());
        for medium in &self.media {
            let (code, since) = encode_state(medium.state);
            b.extend_from_slice(&u32::from(code).to_le_bytes());
            b.extend_from_slice(&(medium.name.len() as u32).to_le_bytes());
            b.extend_from_slice(&since.to_le_bytes());
            b.extend_from_slice(medium.name.as_bytes());
        }
        for group in &self.groups {
            b.extend_from_slice(&group.number.to_le_bytes());
            b.extend_from_slice(&[0; 4]);
            for value in [group.capacity, group.size, group.sequence, group.first.0] {
                b.extend_from_slice(&value.to_le_bytes());
            }
        }
        for incarnation in &self.incarnations {
            b.extend_from_slice(&incarnation.number.to_le_bytes());
            b.extend_from_slice(&incarnation.chain.to_le_bytes());
            b.extend_from_slice(&incarnation.first.0.to_le_bytes());
        }
        let crc = crc_without_field(&b);
        put(&mut b, 4, crc.to_le_bytes());
        b
    }

    /// Reads it; the caller has cut off whatever follows it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<ControlData, Damage> {
        let mut input = Input(bytes);
        let b = input.take(104)?;
        check_head(bytes, MAGIC)?;
        check_version(b.u16_at(8))?;
        let unknown = b.u64_at(16) & !FEATURES_KNOWN;
        if unknown != 0 {
            return Err(Damage::Features { bits: unknown });
        }
        let field = |field, value: u64| Damage::Field { field, value };
        let flags = b[11];
        if flags > 3 || b[100..104].iter().any(|b| *b != 0) {
            return Err(field("flags", flags.into()));
        }
        let block_size = b.u32_at(12);
        if block_size != 512 && block_size != 4096 {
            return Err(field("block size", block_size.into()));
        }
        let count = |at, name, max: usize| match b.u32_at(at) as usize {
            n if n <= max => Ok(n),
            n => Err(field(name, n as u64)),
        };
        let media = count(84, "media", MEDIA_MAX)?;
        let groups = count(88, "groups", GROUPS_MAX)?;
        let incarnations = count(92, "incarnations", INCARNATIONS_MAX)?;
        let clean = check_abn("clean end", b.u64_at(72))?;
        check_abn("checkpoint", Lsn(b.u64_at(48)).abn().0)?;
        let data = ControlData {
            database: DatabaseId(b.u128_at(24)),
            generation: b.u64_at(40),
            block_size,
            quorum: Quorum::decode(b[10])?,
            archiving: flags & 2 != 0,
            checkpoint: Lsn(b.u64_at(48)),
            checkpoint_chain: b.u32_at(80),
            durable: check_abn("durable abn", b.u64_at(56))?,
            archived: b.u64_at(64),
            confirmed: b.u32_at(96),
            clean: (flags & 1 != 0).then_some(Clean { end: clean }),
            media: (0..media).map(|_| input.medium()).collect::<Result<_, _>>()?,
            groups: (0..groups).map(|_| input.group()).collect::<Result<_, _>>()?,
            incarnations: (0..incarnations)
                .map(|_| input.incarnation())
                .collect::<Result<_, _>>()?,
        };
        match input.0.is_empty() {
            true => Ok(data),
            false => Err(field("bytes behind the end", input.0.len() as u64)),
        }
    }
}

/// What is still to be read.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Damage> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(Damage::Truncated)?;
        self.0 = rest;
        Ok(head)
    }

    fn medium(&mut self) -> Result<MediumEntry, Damage> {
        let fixed = self.take(16)?;
        let code = u8::try_from(fixed.u32_at(0)).unwrap_or(u8::MAX);
        let name = self.take(fixed.u32_at(4) as usize)?.to_vec();
        let length = name.len() as u64;
        let bad = Damage::Field { field: "medium name", value: length };
        Ok(MediumEntry {
            name: String::from_utf8(name).map_err(|_| bad)?,
            state: decode_state(code, fixed.u64_at(8))?,
        })
    }

    fn group(&mut self) -> Result<GroupEntry, Damage> {
        let b = self.take(40)?;
        let capacity = check_abn("group capacity", b.u64_at(8))?.0;
        Ok(GroupEntry {
            number: b.u32_at(0),
            capacity,
            size: b.u64_at(16),
            sequence: b.u64_at(24),
            first: check_abn("group first abn", b.u64_at(32))?,
        })
    }

    fn incarnation(&mut self) -> Result<Incarnation, Damage> {
        let b = self.take(16)?;
        let first = check_abn("incarnation first abn", b.u64_at(8))?;
        Ok(Incarnation { number: b.u32_at(0), chain: b.u32_at(4), first })
    }
}
