//! The header of a store: two copies, of which the newer whole one counts.

use cellar_io::{Buffer, Device, Durability, Io};
use cellar_page::PAGE_BYTES;

use crate::error::Error;
use crate::geometry::{Geometry, HEADER_PAGES};
use crate::pace::Rates;

const MAGIC: [u8; 4] = *b"CLHS";
const VERSION: u16 = 1;

/// The limit of generations and LSNs: no store reaches it, and counting on from there does not overflow.
const NUMBERS_MAX: u64 = 1 << 62;

/// Pages with LSNs above are taken for ones of this: no log comes so far, and the next LSN is asked for.
pub(crate) const LSN_MAX: u64 = NUMBERS_MAX - 2;

/// The feature flag: pages are ahead of the log. A program that does not know it refuses the store.
const AHEAD: u64 = 1;

/// The header of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Counts the times that it was written.
    pub generation: u64,
    /// Tells the store from all others: it is in every page.
    pub store: u64,
    /// The database whose log this store's redo is in.
    pub database: u128,
    /// Sizes.
    pub geometry: Geometry,
    /// Extents of the file that the extent map tells of.
    pub extents: u32,
    /// Everything logged below this is in the pages.
    pub checkpoint: u64,
    /// The speed of the last recovery that had enough to do.
    pub(crate) rates: Rates,
    /// The log has lost records that pages up to this LSN have; the store is read-only. 0: it has lost none.
    pub ahead: u64,
}

impl Header {
    /// Its bytes.
    fn encode(&self) -> Buffer {
        let mut page = Buffer::zeroed(PAGE_BYTES);
        let mut at = 8;
        let mut put = |bytes: &[u8]| {
            page[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&VERSION.to_le_bytes());
        put(&[0; 6]);
        let features = if self.ahead > 0 { AHEAD } else { 0 };
        put(&features.to_le_bytes());
        put(&self.generation.to_le_bytes());
        put(&self.store.to_le_bytes());
        put(&self.database.to_le_bytes());
        put(&self.geometry.extent_pages.to_le_bytes());
        put(&self.geometry.ring_batches.to_le_bytes());
        put(&self.geometry.batch_pages.to_le_bytes());
        put(&self.extents.to_le_bytes());
        put(&self.checkpoint.to_le_bytes());
        put(&self.rates.redo.to_le_bytes());
        put(&self.rates.pages.to_le_bytes());
        put(&self.ahead.to_le_bytes());
        page[..4].copy_from_slice(&MAGIC);
        let crc = crc32c::crc32c(&page[8..]);
        page[4..8].copy_from_slice(&crc.to_le_bytes());
        page
    }

    /// The header that these bytes are, or why they are none.
    pub fn decode(page: &[u8]) -> Result<Header, String> {
        let array = |at: usize| -> [u8; 8] {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&page[at..at + 8]);
            bytes
        };
        let (long, short) =
            (|at| u64::from_le_bytes(array(at)), |at| u64::from_le_bytes(array(at)) as u32);
        if page.len() != PAGE_BYTES || page[..4] != MAGIC {
            return Err("it does not begin with CLHS".to_owned());
        }
        let (found, computed) = (short(4), crc32c::crc32c(&page[8..]));
        if found != computed {
            return Err(format!("its checksum is {found:08x}, its bytes have {computed:08x}"));
        }
        let version = short(8) as u16;
        if version != VERSION {
            return Err(format!("it has version {version}, this build knows version {VERSION}"));
        }
        let unknown = long(16) & !AHEAD;
        if unknown != 0 {
            return Err(format!("it has features {unknown:#x} that this build does not know"));
        }
        if (long(16) & AHEAD > 0) != (long(96) > 0) {
            return Err("it contradicts itself: pages are ahead of the log, or not".to_owned());
        }
        let geometry =
            Geometry { extent_pages: short(56), ring_batches: short(60), batch_pages: short(64) };
        if !geometry.is_possible() {
            return Err(format!("its sizes cannot be: {geometry:?}"));
        }
        let header = Header {
            generation: long(24),
            store: long(32),
            database: u128::from(long(40)) | u128::from(long(48)) << 64,
            geometry,
            extents: short(68),
            checkpoint: long(72),
            rates: Rates { redo: long(80), pages: long(88) }.sane(),
            ahead: long(96),
        };
        header.check()?;
        Ok(header)
    }

    /// Whether a store can be so: with fewer extents than the least, the map would be created again over the
    /// existing one.
    fn check(&self) -> Result<(), String> {
        let least = self.geometry.extents(self.geometry.least_bytes());
        if self.extents < least {
            return Err(format!("it has {} extents, {least} are the least", self.extents));
        }
        let numbers = [self.generation, self.checkpoint, self.ahead];
        match numbers.into_iter().find(|number| *number >= NUMBERS_MAX) {
            Some(number) => Err(format!("its numbers cannot be: {number:#x}")),
            None => Ok(()),
        }
    }

    /// Reads both copies and takes the newer whole one.
    pub(crate) async fn read(device: &dyn Device) -> Result<Header, Error> {
        let mut newest: Result<Header, Error> = Err(Error::HeaderDamaged { why: String::new() });
        for copy in 0..HEADER_PAGES {
            let offset = u64::from(copy) * PAGE_BYTES as u64;
            let read = device.read(Io::FOREGROUND, offset, vec![Buffer::new(PAGE_BYTES)]).await;
            let decoded = match read {
                Ok(buffers) => Header::decode(&buffers[0]),
                Err(error) => Err(error.to_string()),
            };
            newest = match (newest, decoded) {
                (Ok(old), Ok(new)) if old.generation > new.generation => Ok(old),
                (Ok(old), Err(_)) => Ok(old),
                (_, Ok(new)) => Ok(new),
                (Err(_), Err(why)) => Err(Error::HeaderDamaged { why }),
            };
        }
        newest
    }

    /// Writes both copies, one after the other, durably.
    pub(crate) async fn write(&self, device: &dyn Device) -> Result<(), Error> {
        let page = self.encode().freeze();
        for copy in 0..HEADER_PAGES {
            let (offset, data) = (u64::from(copy) * PAGE_BYTES as u64, vec![page.clone()]);
            device.write(Io::BACKGROUND, offset, data, Durability::Durable).await?;
        }
        Ok(())
    }
}
