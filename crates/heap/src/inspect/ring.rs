//! The doublewrite ring, slot by slot, and of which pages it has whole images.

use std::collections::BTreeMap;

use cellar_page::{PAGE_BYTES, Raw, check};

use super::source::Source;
use super::text;
use super::tree::Inspection;
use crate::doublewrite::{HEAD_BYTES, MAGIC, NEWEST_AT};
use crate::geometry::{BATCH_PAGES_MAX, HEADER_PAGES};
use crate::store::Header;

/// What the first page of a slot says.
pub(super) struct Head {
    store: u64,
    batch: u64,
    newest: u64,
    count: u32,
    /// Each page of the batch and its checksum.
    pub pages: Vec<(u32, u32)>,
}

fn u32_at(raw: &Raw, at: usize) -> u32 {
    let bytes = raw.get(at..).and_then(|bytes| bytes.first_chunk::<4>());
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(raw: &Raw, at: usize) -> u64 {
    u64::from(u32_at(raw, at)) | u64::from(u32_at(raw, at + 4)) << 32
}

impl Head {
    /// What the bytes say, whether that can be or not.
    fn of(raw: &Raw) -> Head {
        let count = u32_at(raw, 24);
        let named = count.min(BATCH_PAGES_MAX) as usize;
        let page = |place: usize| {
            let at = HEAD_BYTES + place * 4;
            (u32_at(raw, at), u32_at(raw, at + named * 4))
        };
        let (store, batch, newest) = (u64_at(raw, 8), u64_at(raw, 16), u64_at(raw, NEWEST_AT));
        Head { store, batch, newest, count, pages: (0..named).map(page).collect() }
    }

    /// The head of a slot of this store.
    pub fn decode(raw: &Raw, header: &Header, slot: u32) -> Result<Head, String> {
        let head = Head::of(raw);
        let geometry = &header.geometry;
        whole(raw)?;
        if head.store != header.store {
            return Err(format!("it belongs to the store {:016x}", head.store));
        }
        if head.count > geometry.batch_pages {
            let (count, most) = (head.count, geometry.batch_pages);
            return Err(format!("it names {count} pages, a batch has {most} at most"));
        }
        let belongs = head.batch % u64::from(geometry.ring_batches);
        if belongs != u64::from(slot) {
            return Err(format!("batch {} belongs in slot {belongs}", head.batch));
        }
        Ok(head)
    }
}

fn whole(raw: &Raw) -> Result<(), String> {
    if raw[..4] != MAGIC {
        return Err("it does not begin with CLHD".to_owned());
    }
    let (found, computed) = (u32_at(raw, 4), crc32c::crc32c(&raw[8..]));
    match found == computed {
        true => Ok(()),
        false => Err(format!("its checksum is {found:08x}, its bytes have {computed:08x}")),
    }
}

/// Describes the first page of a slot. Without a header nobody knows which slot that is.
pub(super) fn head_page(raw: &Raw, name: String, place: Option<(&Header, u32)>) -> Inspection {
    let decoded = match place {
        Some((header, slot)) => Head::decode(raw, header, slot).map(drop),
        None => whole(raw),
    };
    let head = Head::of(raw);
    let title = match place {
        Some((_, slot)) => format!("first page of slot {slot} of the ring"),
        None => "first page of a slot of the ring".to_owned(),
    };
    let named = |(number, crc): &(u32, u32)| {
        Inspection::leaf(format!("page {number}"), format!("checksum {crc:08x}"))
    };
    let parts = vec![
        Inspection::leaf("checksum", format!("{:08x}", u32_at(raw, 4))),
        Inspection::leaf("store", format!("{:016x}", head.store)),
        Inspection::leaf("batch", head.batch),
        Inspection::leaf("newest LSN of a page so far", head.newest),
        Inspection::leaf("pages", head.count).with(head.pages.iter().map(named).collect()),
    ];
    match (is_blank(raw), decoded) {
        (true, _) => Inspection::leaf(name, format!("{title}, never written")),
        (_, Ok(())) => Inspection::leaf(name, title).with(parts),
        (_, Err(why)) if raw[..4] == MAGIC => {
            Inspection::damage(name, format!("{title}: {why}")).with(parts)
        }
        (_, Err(why)) => Inspection::damage(name, format!("{title}: {why}")),
    }
}

pub(super) fn is_blank(raw: &Raw) -> bool {
    raw == &[0; PAGE_BYTES]
}

/// The slot of the ring that a page is in, and its place there: 0 names the others.
pub(super) fn place_of(header: &Header, page: u32) -> Option<(u32, u32)> {
    let each = header.geometry.ring_slot_pages();
    let at = page.checked_sub(HEADER_PAGES)?;
    (at / each < header.geometry.ring_batches).then_some((at / each, at % each))
}

/// A slot: its batch and the pages of that, or why it is not whole; `None` where it was never written.
type Slot = Option<Result<(u64, Vec<u32>), String>>;

async fn slot(source: &Source<'_>, header: &Header, slot: u32) -> Slot {
    let first = header.geometry.ring_slot(u64::from(slot));
    let raw = match source.read(first).await {
        Ok(raw) if is_blank(&raw) => return None,
        Ok(raw) => raw,
        Err(why) => return Some(Err(why)),
    };
    let head = match Head::decode(&raw, header, slot) {
        Ok(head) => head,
        Err(why) => return Some(Err(why)),
    };
    let images = match source.read_all(first + 1, head.pages.len()).await {
        Ok(images) => images,
        Err(why) => return Some(Err(why)),
    };
    for ((number, crc), image) in head.pages.iter().zip(&images) {
        let checked = check(image, header.store, *number).map_err(|damage| damage.to_string());
        let found = u32_at(image, 0);
        let same = match found == *crc {
            true => Ok(()),
            false => Err(format!("its checksum is {found:08x}, the batch has {crc:08x}")),
        };
        if let Err(why) = checked.and(same) {
            let batch = head.batch;
            return Some(Err(format!("batch {batch}, the image of page {number}: {why}")));
        }
    }
    Some(Ok((head.batch, head.pages.iter().map(|(number, _)| *number).collect())))
}

/// The ring: how it is shown, and the pages that an opening may take from it, each with its newest batch.
pub(super) struct Ring {
    pub shown: Inspection,
    pub images: BTreeMap<u32, u64>,
}

impl Ring {
    pub async fn read(source: &Source<'_>, header: &Header) -> Ring {
        let geometry = &header.geometry;
        let mut slots = Vec::new();
        for number in 0..geometry.ring_batches {
            slots.push(slot(source, header, number).await);
        }
        let whole = slots.iter().flatten().flatten();
        let batches: BTreeMap<u64, &Vec<u32>> = whole.map(|(batch, at)| (*batch, at)).collect();
        let last = batches.keys().last().copied().unwrap_or(0);
        let mut images = BTreeMap::new();
        let mut next = last;
        // As an opening does it: what is older than a batch that cannot be read does not count.
        while let Some(pages) = batches.get(&next) {
            for page in *pages {
                images.entry(*page).or_insert(next);
            }
            next = next.saturating_sub(1);
            if next == 0 {
                break;
            }
        }
        // A crash may have cut off the batch behind the last one, and no other.
        let open = last.wrapping_add(1) % u64::from(geometry.ring_batches);
        let parts = (0u64..).zip(&slots).map(|(number, slot)| show(number, slot, number == open));
        let (count, pages) = (slots.len(), geometry.batch_pages);
        let value = format!("{count} slots of {pages} pages, the last batch is {last}");
        let shown = Inspection::leaf("ring", value).with(parts.collect());
        Ring { shown, images }
    }

    /// What is wrong with a page, and whether an opening mends it.
    pub fn told(&self, page: u32, why: &str) -> String {
        match self.images.get(&page) {
            Some(batch) => {
                format!("{why}; batch {batch} in the ring has it whole, an opening takes that")
            }
            None => why.to_owned(),
        }
    }
}

fn show(number: u64, slot: &Slot, may_be_cut: bool) -> Inspection {
    let name = format!("slot {number}");
    match slot {
        None => Inspection::leaf(name, "never written"),
        Some(Ok((batch, pages))) => {
            let count = text::count(pages.len(), "page");
            let numbers = text::runs(pages.iter().copied());
            Inspection::leaf(name, format!("batch {batch}, {count}: {numbers}"))
        }
        Some(Err(why)) if may_be_cut => {
            Inspection::leaf(name, format!("not whole, as a crash leaves it: {why}"))
        }
        Some(Err(why)) => Inspection::damage(name, why),
    }
}
