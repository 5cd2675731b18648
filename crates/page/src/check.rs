//! The check that bytes read are the page that was asked for.

use crate::header::{
    CELLS_START, CRC, HOLES, KIND, Kind, PAGE_BYTES, Raw, SLOTS, VERSION, VERSION_AT, u16_at,
    u32_at,
};
use crate::slots::{CELLS_END, PageRef, SLOT_BYTES, slot_at, slot_position};

/// What is wrong with a page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// The checksum is wrong: the page is torn or rotten.
    #[error("its checksum is {found:08x}, its bytes have {computed:08x}")]
    Checksum {
        /// The checksum that the page says it has.
        found: u32,
        /// The checksum of its bytes.
        computed: u32,
    },
    /// It was written for another place.
    #[error("it is page {found}")]
    Number {
        /// The page number that it has.
        found: u32,
    },
    /// It belongs to another store.
    #[error("it belongs to the store {found:016x}")]
    Store {
        /// The store that it has.
        found: u64,
    },
    /// It was written by a later version.
    #[error("its layout has version {found}, this build knows version {VERSION}")]
    Version {
        /// The version that it has.
        found: u8,
    },
    /// The device cannot read it; for a mirrored file, no copy is good.
    #[error("it cannot be read")]
    Unreadable,
    /// A page of zeros where there should be a written one.
    #[error("it was never written")]
    Empty,
    /// Its checksum is right, but its contents are impossible: a fault of the program that wrote
    /// it.
    #[error("its {what} cannot be")]
    Structure {
        /// What is impossible.
        what: &'static str,
    },
}

fn crc(page: &Raw) -> u32 {
    crc32c::crc32c(&page[CRC + 4..])
}

/// Puts the checksum into a page, as it goes to disk.
pub fn seal(page: &mut Raw) {
    let crc = crc(page);
    page[CRC..CRC + 4].copy_from_slice(&crc.to_le_bytes());
}

/// Checks that these bytes are page `number` of `store`, whole, and can be read as such.
///
/// # Errors
/// What is wrong with them.
pub fn check(page: &Raw, store: u64, number: u32) -> Result<(), Damage> {
    let (found, computed) = (u32_at(page, CRC), crc(page));
    if found != computed {
        return Err(match page.iter().all(|byte| *byte == 0) {
            true => Damage::Empty,
            false => Damage::Checksum { found, computed },
        });
    }
    let this = PageRef(page);
    if this.store() != store {
        return Err(Damage::Store { found: this.store() });
    }
    if this.number() != number {
        return Err(Damage::Number { found: this.number() });
    }
    match page[VERSION_AT] {
        VERSION => structure(page).map_err(|what| Damage::Structure { what }),
        found => Err(Damage::Version { found }),
    }
}

/// Whether its slots and cells are possible.
fn structure(page: &Raw) -> Result<(), &'static str> {
    if Kind::from_number(page[KIND]).is_none() {
        return Err("kind");
    }
    let slots = usize::from(u16_at(page, SLOTS));
    let (start, holes) = (u16_at(page, CELLS_START), u16_at(page, HOLES));
    let (start, holes) = (usize::from(start), usize::from(holes));
    if slots > PAGE_BYTES / SLOT_BYTES || start > CELLS_END || slot_position(slots) > start {
        return Err("number of slots");
    }
    let mut cells = 0;
    for slot in 0..slots {
        let bytes = &page[slot_position(slot)..slot_position(slot + 1)];
        match slot_at(page, slot) {
            Some(cell) if cell.is_within(start) => {
                cells += cell.length;
            }
            None if bytes == [0; SLOT_BYTES] => {}
            _ => return Err("slot"),
        }
    }
    match cells + holes == CELLS_END - start {
        true => Ok(()),
        false => Err("room"),
    }
}
