//! The label: who a disk is. Two slots at each end; a change writes the slot that does not hold
//! the newest copy, flushes, then the next.

use super::layout::{BLOCK, FEATURES_KNOWN, FORMAT_VERSION};
use super::{Block, Damage, Fields, FieldsMut, Uuid, check_counter, check_head, magic, seal};

const MAGIC: u32 = magic(b"CLLB");

/// Whether the beginning of a disk is meant to be a label, whole or not.
pub fn is_label(start: &[u8]) -> bool {
    start.starts_with(&MAGIC.to_le_bytes())
}

/// The status of a disk, in its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LabelStatus {
    /// CREATE or ADD has begun and not ended; another group may take the disk.
    Creating = 1,
    /// The disk is a member of the group.
    Member = 2,
    /// The disk has left the group for good; it may be unplugged, or taken by another group.
    Former = 3,
}

/// How many copies the files of a group have by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Redundancy {
    /// One: something below protects the data, or nothing does.
    External = 1,
    /// Two.
    Normal = 2,
    /// Three.
    High = 3,
}

impl Redundancy {
    /// The word for it in statements and views.
    pub fn name(self) -> &'static str {
        match self {
            Redundancy::External => "external",
            Redundancy::Normal => "normal",
            Redundancy::High => "high",
        }
    }

    /// The default number of copies.
    pub fn copies(self) -> u8 {
        self as u8
    }

    /// As v$asm_diskgroup.type says it.
    pub fn short(self) -> &'static str {
        match self {
            Redundancy::External => "EXTERN",
            Redundancy::Normal => "NORMAL",
            Redundancy::High => "HIGH",
        }
    }

    pub(crate) fn from_u8(v: u8) -> Option<Redundancy> {
        match v {
            1 => Some(Redundancy::External),
            2 => Some(Redundancy::Normal),
            3 => Some(Redundancy::High),
            _ => None,
        }
    }
}

/// The content of a disk label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Features that must be known to mount the group.
    pub features: u64,
    /// The generation of this disk's label: it grows with each write.
    pub generation: u64,
    /// The group.
    pub group: Uuid,
    /// This disk.
    pub disk: Uuid,
    /// Its number in the group.
    pub disk_no: u16,
    /// The status of this disk.
    pub status: LabelStatus,
    /// The group's redundancy.
    pub redundancy: Redundancy,
    /// Allocation unit size in bytes.
    pub au_size: u32,
    /// The group's sector size in bytes.
    pub sector_size: u32,
    /// Size of this disk as the group uses it, in bytes.
    pub disk_bytes: u64,
    /// When it was labelled, nanoseconds since 1970.
    pub created_ns: u64,
    /// The group's name.
    pub group_name: String,
    /// The disk's name.
    pub disk_name: String,
    /// The disk's failure group.
    pub failgroup: String,
    /// Whether the catalog and the parameters of an instance live in this group.
    pub holds_catalog: bool,
    /// The ids of the last mount that used the disk, and of the one before; 0: none.
    pub mount_ids: [u64; 2],
}

const NAME: usize = 32;

impl Label {
    /// The block that holds this label.
    pub fn encode(&self) -> Block {
        let mut block = Block::default();
        let b = &mut block.0[..];
        b.put_u32(0, MAGIC);
        b.put_u16(8, FORMAT_VERSION);
        b[10] = self.status as u8;
        b[11] = self.redundancy as u8;
        b.put_u16(12, self.disk_no);
        b[14] = u8::from(self.holds_catalog);
        b.put_u64(16, self.features);
        b.put_u64(24, self.generation);
        b.put_uuid(32, self.group);
        b.put_uuid(48, self.disk);
        b.put_u32(64, self.au_size);
        b.put_u32(68, self.sector_size);
        b.put_u64(72, self.disk_bytes);
        b.put_u64(80, self.created_ns);
        b.put_text(96, NAME, &self.group_name);
        b.put_text(128, NAME, &self.disk_name);
        b.put_text(160, NAME, &self.failgroup);
        b.put_text(
            192,
            128,
            "A disk of a Cellar disk group. Do not write here; see `cellar inspect`.\n",
        );
        b.put_u64(320, self.mount_ids[0]);
        b.put_u64(328, self.mount_ids[1]);
        seal(b, 4);
        block
    }

    /// Reads a label.
    ///
    /// # Errors
    /// The block is damaged, or no label.
    pub fn decode(b: &[u8]) -> Result<Label, Damage> {
        assert_eq!(b.len(), BLOCK, "a label is one block");
        check_head(b, MAGIC)?;
        let version = b.u16_at(8);
        if version > FORMAT_VERSION {
            return Err(Damage::Version { found: version, supported: FORMAT_VERSION });
        }
        let features = b.u64_at(16);
        if features & !FEATURES_KNOWN != 0 {
            return Err(Damage::Features { bits: features & !FEATURES_KNOWN });
        }
        let impossible = |field, value: u64| Damage::Field { field, value };
        let status = match b[10] {
            1 => LabelStatus::Creating,
            2 => LabelStatus::Member,
            3 => LabelStatus::Former,
            other => return Err(impossible("status", other.into())),
        };
        let redundancy =
            Redundancy::from_u8(b[11]).ok_or(impossible("redundancy", b[11].into()))?;
        let au_size = b.u32_at(64);
        if !au_size.is_power_of_two() || !(1 << 20..=64 << 20).contains(&au_size) {
            return Err(impossible("au_size", au_size.into()));
        }
        let sector_size = b.u32_at(68);
        if sector_size != 512 && sector_size != 4096 {
            return Err(impossible("sector_size", sector_size.into()));
        }
        check_counter("generation", b.u64_at(24))?;
        let text = |at| b.text_at(at, NAME).ok_or(impossible("name", at as u64));
        Ok(Label {
            features,
            generation: b.u64_at(24),
            group: b.uuid_at(32),
            disk: b.uuid_at(48),
            disk_no: b.u16_at(12),
            status,
            redundancy,
            au_size,
            sector_size,
            disk_bytes: b.u64_at(72),
            created_ns: b.u64_at(80),
            group_name: text(96)?,
            disk_name: text(128)?,
            failgroup: text(160)?,
            holds_catalog: b[14] != 0,
            mount_ids: [b.u64_at(320), b.u64_at(328)],
        })
    }
}
