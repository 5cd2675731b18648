//! The header of a log group on one medium: copy A in its first 4,096 bytes, copy B in its last.

use super::{
    Damage, DatabaseId, Fields, HEADER_BYTES, MEDIA_MAX, check_abn, check_head, crc_without_field,
    put,
};
use crate::lsn::Abn;

const MAGIC: u32 = u32::from_le_bytes(*b"CLRH");
/// The version of the format of headers, blocks and control data.
pub const FORMAT_VERSION: u16 = 1;
/// Features that this program knows.
pub const FEATURES_KNOWN: u64 = 0;
const MEDIA_AT: usize = 104;
const USED: usize = MEDIA_AT + MEDIA_MAX * 16;

/// Whether a medium takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediumState {
    /// It gets every block.
    Active,
    /// It lacks blocks from `since` on, and is not trusted until it has been copied anew.
    Failed {
        /// The first block that it may lack.
        since: Abn,
    },
}

impl MediumState {
    /// Whether it takes part.
    pub fn is_active(self) -> bool {
        self == MediumState::Active
    }
}

/// How many media must have a block before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Quorum {
    /// 1 of 1, 2 of 2, 2 of 3 and more.
    #[default]
    Auto,
    /// So many, at most as many as there are.
    Of(u8),
}

impl Quorum {
    /// How many of `media` that take part; at least 1.
    pub fn of(self, media: usize) -> usize {
        match self {
            Quorum::Auto => media.clamp(1, 2),
            Quorum::Of(k) => usize::from(k).clamp(1, media.max(1)),
        }
    }

    pub(super) fn encode(self) -> u8 {
        match self {
            Quorum::Auto => 0,
            Quorum::Of(k) => k,
        }
    }

    pub(super) fn decode(byte: u8) -> Result<Quorum, Damage> {
        match byte {
            0 => Ok(Quorum::Auto),
            k if usize::from(k) <= MEDIA_MAX => Ok(Quorum::Of(k)),
            k => Err(Damage::Field { field: "quorum", value: k.into() }),
        }
    }
}

/// What a group header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupHeader {
    /// The database.
    pub database: DatabaseId,
    /// Number of the group, from 1.
    pub group: u32,
    /// Counts the groups in the order in which they were written; 0: not yet.
    pub sequence: u64,
    /// Number of its first block.
    pub first: Abn,
    /// How many blocks it holds.
    pub capacity: u64,
    /// 512 or 4096.
    pub block_size: u32,
    /// Size of the file in bytes.
    pub size: u64,
    /// The opening of the log that wrote the header.
    pub incarnation: u32,
    /// `first` of the sequence before.
    pub previous_first: Abn,
    /// This medium's number, from 0.
    pub medium: u8,
    /// How many media must have a block.
    pub quorum: Quorum,
    /// Generation of the control data that it was written from.
    pub generation: u64,
    /// Whether each medium takes part.
    pub media: Vec<MediumState>,
}

impl GroupHeader {
    /// Its bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        assert!(self.media.len() <= MEDIA_MAX, "the log never has more media");
        let mut bytes = [0; HEADER_BYTES];
        let b = &mut bytes;
        put(b, 0, MAGIC.to_le_bytes());
        put(b, 8, FORMAT_VERSION.to_le_bytes());
        b[10] = self.medium;
        b[11] = self.media.len() as u8;
        b[12] = self.quorum.encode();
        put(b, 24, self.database.0.to_le_bytes());
        put(b, 40, self.group.to_le_bytes());
        put(b, 44, self.block_size.to_le_bytes());
        put(b, 48, self.sequence.to_le_bytes());
        put(b, 56, self.first.0.to_le_bytes());
        put(b, 64, self.capacity.to_le_bytes());
        put(b, 72, self.size.to_le_bytes());
        put(b, 80, self.previous_first.0.to_le_bytes());
        put(b, 88, self.generation.to_le_bytes());
        put(b, 96, self.incarnation.to_le_bytes());
        for (medium, state) in self.media.iter().enumerate() {
            let at = MEDIA_AT + medium * 16;
            let (code, since) = encode_state(*state);
            b[at] = code;
            put(b, at + 8, since.to_le_bytes());
        }
        let crc = crc_without_field(b);
        put(b, 4, crc.to_le_bytes());
        bytes
    }

    /// Reads it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(b: &[u8]) -> Result<GroupHeader, Damage> {
        if b.len() != HEADER_BYTES {
            return Err(Damage::Truncated);
        }
        check_head(b, MAGIC)?;
        check_version(b.u16_at(8))?;
        let unknown = b.u64_at(16) & !FEATURES_KNOWN;
        if unknown != 0 {
            return Err(Damage::Features { bits: unknown });
        }
        let field = |field, value: u64| Damage::Field { field, value };
        let reserved = [13..16, 100..104, USED..HEADER_BYTES];
        if reserved.into_iter().any(|range| b[range].iter().any(|b| *b != 0)) {
            return Err(field("reserved", 1));
        }
        let count = usize::from(b[11]);
        let block_size = b.u32_at(44);
        let capacity = b.u64_at(64);
        let size = b.u64_at(72);
        check_geometry(block_size, capacity, size)?;
        if count == 0 || count > MEDIA_MAX || usize::from(b[10]) >= count {
            return Err(field("media", count as u64));
        }
        let media = (0..count)
            .map(|medium| {
                let at = MEDIA_AT + medium * 16;
                decode_state(b[at], b.u64_at(at + 8))
            })
            .collect::<Result<_, _>>()?;
        Ok(GroupHeader {
            database: DatabaseId(b.u128_at(24)),
            group: b.u32_at(40),
            sequence: b.u64_at(48),
            first: check_abn("first abn", b.u64_at(56))?,
            capacity,
            block_size,
            size,
            incarnation: b.u32_at(96),
            previous_first: check_abn("previous first abn", b.u64_at(80))?,
            medium: b[10],
            quorum: Quorum::decode(b[12])?,
            generation: b.u64_at(88),
            media,
        })
    }
}

/// How many blocks a file of `size` bytes holds between its two headers.
pub fn capacity_of(size: u64, block_size: u32) -> u64 {
    size.saturating_sub(2 * HEADER_BYTES as u64) / u64::from(block_size)
}

fn check_geometry(block_size: u32, capacity: u64, size: u64) -> Result<(), Damage> {
    if block_size != 512 && block_size != 4096 {
        return Err(Damage::Field { field: "block size", value: block_size.into() });
    }
    match capacity_of(size, block_size) == capacity && capacity > 0 {
        true => Ok(()),
        false => Err(Damage::Field { field: "capacity", value: capacity }),
    }
}

pub(super) fn check_version(found: u16) -> Result<(), Damage> {
    match found {
        0 => Err(Damage::Field { field: "format version", value: 0 }),
        1..=FORMAT_VERSION => Ok(()),
        _ => Err(Damage::Version { found, supported: FORMAT_VERSION }),
    }
}

pub(super) fn encode_state(state: MediumState) -> (u8, u64) {
    match state {
        MediumState::Active => (1, 0),
        MediumState::Failed { since } => (2, since.0),
    }
}

pub(super) fn decode_state(code: u8, since: u64) -> Result<MediumState, Damage> {
    match code {
        1 => Ok(MediumState::Active),
        2 => Ok(MediumState::Failed { since: check_abn("failed since", since)? }),
        other => Err(Damage::Field { field: "medium state", value: other.into() }),
    }
}
