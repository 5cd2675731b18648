//! The on-disk format: every byte that a disk group puts on a disk. No other module knows it.
//!
//! The format document is `docs/format/disk-group.md`; the golden test pins what is here to it.
//! All integers are little-endian. Every structure is written in whole 4,096-byte blocks,
//! carries a magic number, the group's identity and a CRC-32C of itself.

pub mod checkpoint;
pub mod checksum;
pub mod dirty;
pub mod label;
pub mod layout;
pub mod record;
pub mod superblock;

use layout::BLOCK;

/// One block under construction or being read: fixed offsets, checked once by its length.
#[derive(Clone)]
pub struct Block(pub Box<[u8]>);

impl Default for Block {
    fn default() -> Block {
        Block(vec![0; BLOCK].into_boxed_slice())
    }
}

/// Fixed-offset access to little-endian fields; offsets are layout constants, so a bad one is a
/// bug and panics in the first test.
pub(crate) trait Fields {
    fn bytes(&self) -> &[u8];
    fn u16_at(&self, at: usize) -> u16 {
        let b = self.bytes();
        u16::from_le_bytes([b[at], b[at + 1]])
    }
    fn u32_at(&self, at: usize) -> u32 {
        let b = self.bytes();
        u32::from_le_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]])
    }
    fn u64_at(&self, at: usize) -> u64 {
        u64::from(self.u32_at(at)) | u64::from(self.u32_at(at + 4)) << 32
    }
    fn uuid_at(&self, at: usize) -> Uuid {
        Uuid(u128::from(self.u64_at(at)) | u128::from(self.u64_at(at + 8)) << 64)
    }
    /// Text padded with zeros; `None` if it is not UTF-8.
    fn text_at(&self, at: usize, room: usize) -> Option<String> {
        let raw = &self.bytes()[at..at + room];
        let end = raw.iter().position(|b| *b == 0).unwrap_or(room);
        String::from_utf8(raw[..end].to_vec()).ok()
    }
}

impl Fields for [u8] {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// Writes of little-endian fields at fixed offsets.
pub(crate) trait FieldsMut {
    fn bytes_mut(&mut self) -> &mut [u8];
    fn put_u16(&mut self, at: usize, v: u16) {
        self.bytes_mut()[at..at + 2].copy_from_slice(&v.to_le_bytes());
    }
    fn put_u32(&mut self, at: usize, v: u32) {
        self.bytes_mut()[at..at + 4].copy_from_slice(&v.to_le_bytes());
    }
    fn put_u64(&mut self, at: usize, v: u64) {
        self.bytes_mut()[at..at + 8].copy_from_slice(&v.to_le_bytes());
    }
    fn put_uuid(&mut self, at: usize, v: Uuid) {
        self.bytes_mut()[at..at + 16].copy_from_slice(&v.0.to_le_bytes());
    }
    /// Text padded with zeros, cut at a character boundary if the room is too small.
    fn put_text(&mut self, at: usize, room: usize, text: &str) {
        let mut end = text.len().min(room);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let field = &mut self.bytes_mut()[at..at + room];
        field.fill(0);
        field[..end].copy_from_slice(&text.as_bytes()[..end]);
    }
}

impl FieldsMut for [u8] {
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}

/// The identity of a group or a disk, random at creation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub u128);

impl std::fmt::Display for Uuid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let h = format!("{:032x}", self.0);
        write!(f, "{}-{}-{}-{}-{}", &h[..8], &h[8..12], &h[12..16], &h[16..20], &h[20..])
    }
}

impl std::fmt::Debug for Uuid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// Seals a structure: puts the CRC-32C of everything behind the field at `crc_at` and of
/// everything before it, the field itself counting as zero.
pub(crate) fn seal(bytes: &mut [u8], crc_at: usize) {
    bytes.put_u32(crc_at, 0);
    let crc = crc32c::crc32c(bytes);
    bytes.put_u32(crc_at, crc);
}

/// Whether a structure is as [`seal`] left it.
pub(crate) fn sealed(bytes: &[u8], crc_at: usize) -> bool {
    let stored = bytes.u32_at(crc_at);
    let head = crc32c::crc32c(&bytes[..crc_at]);
    let zeroed = crc32c::crc32c_append(head, &[0; 4]);
    crc32c::crc32c_append(zeroed, &bytes[crc_at + 4..]) == stored
}

/// Why bytes read from a disk are not the structure that should be there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// All zeros: never written.
    #[error("never written")]
    Blank,
    /// Another magic number.
    #[error("no Cellar structure here (magic {found:#010x}, expected {expected:#010x})")]
    Magic {
        /// What the block begins with.
        found: u32,
        /// What it should begin with.
        expected: u32,
    },
    /// The checksum is wrong.
    #[error("its checksum is wrong")]
    Checksum,
    /// Written by a later version.
    #[error("format version {found} is newer than {supported}, use a later Cellar")]
    Version {
        /// The version on the disk.
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
    /// A field has a value that cannot be.
    #[error("its field `{field}` has the impossible value {value}")]
    Field {
        /// The name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// It belongs to another group, disk or place.
    #[error("it belongs elsewhere ({what})")]
    Foreign {
        /// What does not match.
        what: &'static str,
    },
    /// The content ended too early.
    #[error("it ends too early")]
    Truncated,
}

/// Checks what every structure begins with: magic at 0, CRC-32C at 4.
pub(crate) fn check_head(bytes: &[u8], magic: u32) -> Result<(), Damage> {
    let found = bytes.u32_at(0);
    if found != magic {
        let blank = is_blank(bytes);
        return Err(if blank { Damage::Blank } else { Damage::Magic { found, expected: magic } });
    }
    if sealed(bytes, 4) { Ok(()) } else { Err(Damage::Checksum) }
}

/// Whether there are only zeros. A mount looks at megabytes that were never written: 64 bytes at a
/// time, which one instruction can or together.
fn is_blank(bytes: &[u8]) -> bool {
    let (lines, rest) = bytes.as_chunks::<64>();
    let zeros = |bytes: &[u8]| bytes.iter().fold(0, |all, b| all | b) == 0;
    lines.iter().all(|line| zeros(line)) && zeros(rest)
}

/// Counters on disk stay below this, so that adding to one that was read cannot overflow.
pub(crate) const COUNTER_MAX: u64 = 1 << 62;

/// Checks a counter that was read.
pub(crate) fn check_counter(field: &'static str, value: u64) -> Result<(), Damage> {
    match value < COUNTER_MAX {
        true => Ok(()),
        false => Err(Damage::Field { field, value }),
    }
}

/// Four letters as the number that they make on the disk.
pub(crate) const fn magic(letters: &[u8; 4]) -> u32 {
    u32::from_le_bytes(*letters)
}
