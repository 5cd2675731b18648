//! The on-disk format: every byte that the log puts on a medium. No other module knows it.
//!
//! The format document is `docs/format/redo.md`; the golden test pins what is here to it.
//! All integers are little-endian.

pub mod archive;
pub mod block;
pub mod control;
pub mod header;
pub mod record;

/// Bytes of a group header, and of the step of an LSN from one block to the next.
pub const HEADER_BYTES: usize = 4096;
/// A write unit is at most so many bytes.
pub const UNIT_BYTES_MAX: usize = 1 << 20;
/// At most so many media.
pub const MEDIA_MAX: usize = 8;
/// The most units in flight at once: how far recovery looks past a gap.
pub const UNITS_IN_FLIGHT_MAX: usize = 4;

/// The identity of a database, random at creation; each block's checksum depends on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DatabaseId(pub u128);

impl std::fmt::Display for DatabaseId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl std::fmt::Debug for DatabaseId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// Why bytes read from a medium are not the structure that should be there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// All zeros: never written.
    #[error("never written")]
    Blank,
    /// Another magic number.
    #[error("no redo structure here (magic {found:#x})")]
    Magic {
        /// What it begins with.
        found: u32,
    },
    /// The checksum is wrong: torn, rotten, or of another database or incarnation.
    #[error("its checksum is wrong")]
    Checksum,
    /// Written by a later version.
    #[error("format version {found} is newer than {supported}, use a later Cellar")]
    Version {
        /// The version found.
        found: u16,
        /// The newest version this program reads.
        supported: u16,
    },
    /// A feature bit that this program does not know.
    #[error("it needs unknown features {bits:#x}, use a later Cellar")]
    Features {
        /// The bits that are not known.
        bits: u64,
    },
    /// A field has an impossible value.
    #[error("its field `{field}` has the impossible value {value}")]
    Field {
        /// The name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// It ends too early.
    #[error("it ends too early")]
    Truncated,
}

/// Fixed-offset access to little-endian fields; offsets are layout constants inside a structure
/// whose length was checked, so a bad one is a bug.
pub(crate) trait Fields {
    fn array<const N: usize>(&self, at: usize) -> [u8; N];
    fn u16_at(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }
    fn u32_at(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }
    fn u64_at(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }
    fn u128_at(&self, at: usize) -> u128 {
        u128::from_le_bytes(self.array(at))
    }
}

impl Fields for [u8] {
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut array = [0; N];
        array.copy_from_slice(&self[at..at + N]);
        array
    }
}

/// Puts bytes at a fixed offset.
pub(crate) fn put<const N: usize>(to: &mut [u8], at: usize, bytes: [u8; N]) {
    to[at..at + N].copy_from_slice(&bytes);
}

/// CRC-32C of a structure whose own field at 4..8 counts as zero.
pub(crate) fn crc_without_field(bytes: &[u8]) -> u32 {
    let head = crc32c::crc32c(&bytes[..4]);
    crc32c::crc32c_append(crc32c::crc32c_append(head, &[0; 4]), &bytes[8..])
}

/// Checks what a header or control data begins with: magic at 0, CRC-32C at 4.
pub(crate) fn check_head(bytes: &[u8], magic: u32) -> Result<(), Damage> {
    if bytes.len() < 16 {
        return Err(Damage::Truncated);
    }
    let found = bytes.u32_at(0);
    if found != magic {
        let blank = bytes.iter().all(|b| *b == 0);
        return Err(if blank { Damage::Blank } else { Damage::Magic { found } });
    }
    match crc_without_field(bytes) == bytes.u32_at(4) {
        true => Ok(()),
        false => Err(Damage::Checksum),
    }
}

/// Block numbers stay below this, so that an LSN and what is added to it fit 64 bits.
pub const ABN_MAX: u64 = 1 << 50;

/// Checks a block number that was read.
pub(crate) fn check_abn(field: &'static str, value: u64) -> Result<crate::lsn::Abn, Damage> {
    match value <= ABN_MAX {
        true => Ok(crate::lsn::Abn(value)),
        false => Err(Damage::Field { field, value }),
    }
}
