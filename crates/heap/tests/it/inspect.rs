//! The inspection of a store: each kind of page as text, what is damaged beside what is whole, and any bytes.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use cellar_heap::locks::LockTimeout;
use cellar_heap::{
    Change, Geometry, Inspection, Isolation, Key, NewStore, create, inspect, inspect_page,
};
use cellar_io::Device;
use cellar_io::sim::{Rng, Sim, SimDisk, SimDiskOptions};
use cellar_page::row::{self, Value};
use cellar_page::{CellKind, HEADER_BYTES, Kind, PAGE_BYTES, PageMut, Raw, seal};
use cellar_redo::Lsn;

use crate::support::Rig;

const TABLE: u32 = 10;
const INDEX: u32 = 11;
const COUNTER: u32 = 12;

/// Three slots: of two the older one is always the next to be written.
const GEOMETRY: Geometry = Geometry { extent_pages: 8, ring_batches: 3, batch_pages: 4 };

/// The first pages of the slots of the ring.
const SLOTS: [u32; 3] = [2, 7, 12];

/// The first pages of the extent map, of the table and of the index of a store by hand.
const MAP: u32 = 24;
const ROWS: u32 = 32;
const TREE: u32 = 40;

fn offset(page: u32) -> u64 {
    u64::from(page) * PAGE_BYTES as u64
}

fn read(disk: &SimDisk, page: u32) -> Box<Raw> {
    Box::new(disk.peek(offset(page), PAGE_BYTES as u64)[..].try_into().unwrap())
}

fn sealed(number: u32, kind: Kind, owner: u32, fill: impl FnOnce(&mut PageMut<'_>)) -> Box<Raw> {
    let mut raw = Box::new([0; PAGE_BYTES]);
    let mut page = PageMut::format(&mut raw, 7, number, kind, owner);
    page.set_lsn(4096);
    fill(&mut page);
    seal(&mut raw);
    raw
}

fn write(disk: &SimDisk, number: u32, kind: Kind, owner: u32, fill: impl FnOnce(&mut PageMut<'_>)) {
    disk.poke(offset(number), &sealed(number, kind, owner, fill)[..]);
}

fn entry_of(extent: u32) -> usize {
    HEADER_BYTES + (extent as usize - 3) * 8
}

/// Makes a store of eight extents by hand, with a page of each kind.
async fn by_hand(sim: &Sim) -> Arc<SimDisk> {
    let options = SimDiskOptions { size: 8 * 64 * 1024, ..SimDiskOptions::default() };
    let disk = sim.disk("store", options);
    let device: Arc<dyn Device> = Arc::clone(&disk) as _;
    let new = NewStore { store: 7, database: 42, geometry: GEOMETRY, from: Lsn(512) };
    create(&device, new).await.unwrap();
    write(&disk, MAP, Kind::ExtentMap, 0, |page| {
        page.write(entry_of(4), &[10, 0, 0, 0, 1, 1]);
        page.write(entry_of(5), &[11, 0, 0, 0, 2, 1]);
    });
    write(&disk, ROWS, Kind::Space, TABLE, |page| page.write(48, &[1, 2, 3, 3, 1, 0, 0, 0]));
    write(&disk, ROWS + 1, Kind::Heap, TABLE, |page| {
        page.put(0, CellKind::Plain, b"Ada Lovelace, 10 December 1815");
        page.put(2, CellKind::Forward, &[0, 0, 0, 36, 0, 5]);
        page.put(3, CellKind::Moved, b"\0\0\0\x24\0\x09Grace, 1906");
    });
    write(&disk, ROWS + 2, Kind::Overflow, TABLE, |page| {
        page.set_level(1);
        page.write(48, &[0, 0, 0, 0, 2, 0, 0, 0, 35, 0, 0, 0, 36, 0, 0, 0]);
    });
    write(&disk, ROWS + 3, Kind::Overflow, TABLE, |page| {
        page.write(48, &[0, 0, 0, 0, 5, 0, 0, 0]);
        page.write(56, b"piece");
    });
    write(&disk, TREE, Kind::Space, INDEX, |page| page.write(48, &[1, 1, 1, 0, 0, 0, 0, 0]));
    write(&disk, TREE + 1, Kind::Inner, INDEX, |page| {
        page.set_level(1);
        page.insert(0, &[0, 0, 0, 42]);
        page.insert(1, b"G\0\0\0\x2b");
    });
    write(&disk, TREE + 2, Kind::Leaf, INDEX, |page| {
        page.insert(0, b"\x01Ada\0\x01\0\0\0\x21\0\0");
        page.insert(1, b"\x01Bob\0\x01\0\0\0\x21\0\x02");
    });
    write(&disk, TREE + 3, Kind::Free, INDEX, |_| {});
    disk.poke(offset(SLOTS[0]), &batch(3, &[(33, read(&disk, 33))]));
    disk.poke(offset(SLOTS[1]), &batch(4, &[(41, read(&disk, 41)), (42, read(&disk, 42))]));
    disk
}

/// A batch as it stands in the ring.
fn batch(number: u64, pages: &[(u32, Box<Raw>)]) -> Vec<u8> {
    let mut head = vec![0; PAGE_BYTES];
    head[..4].copy_from_slice(b"CLHD");
    head[8..16].copy_from_slice(&7u64.to_le_bytes());
    head[16..24].copy_from_slice(&number.to_le_bytes());
    head[24] = pages.len() as u8;
    for (place, (number, raw)) in pages.iter().enumerate() {
        head[32 + place * 4..][..4].copy_from_slice(&number.to_le_bytes());
        head[32 + (pages.len() + place) * 4..][..4].copy_from_slice(&raw[..4]);
    }
    let crc = crc32c::crc32c(&head[8..]);
    head[4..8].copy_from_slice(&crc.to_le_bytes());
    pages.iter().for_each(|(_, raw)| head.extend_from_slice(&raw[..]));
    head
}

fn damaged(shown: &Inspection) -> Vec<&Inspection> {
    let below = shown.parts.iter().flat_map(damaged);
    shown.damaged.then_some(shown).into_iter().chain(below).collect()
}

fn run<T>(test: impl AsyncFnOnce(&Sim) -> T) -> T {
    let sim = Sim::new(1);
    sim.run(test(&sim)).unwrap()
}

/// Each kind of page once.
const SHOWN: [u32; 17] = [1, 2, 3, 4, 12, 20, 24, 32, 33, 34, 35, 40, 41, 42, 43, 48, 64];

#[test]
fn each_kind_of_page_has_its_text() {
    run(async |sim| {
        let disk = by_hand(sim).await;
        let mut text = inspect(&*disk).await.to_string();
        for page in SHOWN {
            text.push('\n');
            text.push_str(&inspect_page(&*disk, page).await.to_string());
        }
        assert!(text == include_str!("../golden/inspect.txt"), "{text}");
    });
}

/// Changes a byte of a page, and perhaps makes its checksum right again.
fn rot(disk: &SimDisk, page: u32, at: usize, is_sealed: bool) {
    let mut raw = read(disk, page);
    raw[at] ^= 0x5a;
    if is_sealed {
        seal(&mut raw);
    }
    disk.poke(offset(page), &raw[..]);
}

#[test]
fn what_is_damaged_is_told_and_the_rest_is_shown() {
    run(async |sim| {
        let disk = by_hand(sim).await;
        assert_eq!(damaged(&inspect(&*disk).await), Vec::<&Inspection>::new());
        rot(&disk, 33, 8150, false);
        let shown = inspect_page(&*disk, 33).await;
        let told = &damaged(&shown)[0].value;
        assert!(told.starts_with("DAMAGED: its checksum is"), "{shown}");
        assert!(
            told.ends_with("batch 3 in the ring has it whole, an opening takes that"),
            "{shown}"
        );
        assert_eq!(shown.find("slot 2").unwrap().value, "forward to page 36 slot 5");
        // Right checksums, and what cannot be: a key before its neighbour, a slot that leads out of the page.
        rot(&disk, 42, 8190, true);
        rot(&disk, 42, 8168 + 1, true);
        let shown = inspect_page(&*disk, 42).await;
        assert_eq!(damaged(&shown).len(), 1, "{shown}");
        assert!(
            shown.find("slot 1").unwrap().value.contains("not behind the slot before"),
            "{shown}"
        );
        rot(&disk, 41, HEADER_BYTES + 1, true);
        let shown = inspect_page(&*disk, 41).await;
        assert!(shown.find("slot 0").unwrap().value.contains("leads to no cell"), "{shown}");
        assert_eq!(shown.find("slot 1").unwrap().value, "page 43, from 1 byte: 47 \"G\"");
        assert!(shown.value.starts_with("DAMAGED: its slot cannot be; batch 4"), "{shown}");
        // An entry and a mark that cannot be.
        rot(&disk, MAP, entry_of(6) + 4, true);
        rot(&disk, ROWS, HEADER_BYTES + 7, true);
        let shown = inspect(&*disk).await;
        let names: Vec<&str> = damaged(&shown).iter().map(|part| &part.name[..]).collect();
        assert_eq!(names, ["extent 6", "page 39"], "{shown}");
        assert_eq!(shown.find("index 11").unwrap().parts[1].value, "2 in use, 5 free");
        for (page, names) in [(MAP, ["extent 6"]), (ROWS, ["page 39"])] {
            let shown = inspect_page(&*disk, page).await;
            let found: Vec<&str> = damaged(&shown).iter().map(|part| &part.name[..]).collect();
            assert_eq!(found, names, "{shown}");
        }
    });
}

#[test]
fn a_slot_of_the_ring_and_a_header_are_told() {
    run(async |sim| {
        let disk = by_hand(sim).await;
        // The slot that is written next may be cut off; another one may not.
        disk.poke(offset(SLOTS[2]), b"CLHD");
        rot(&disk, SLOTS[0] + 1, 5000, false);
        let shown = inspect(&*disk).await;
        assert!(
            shown.find("slot 2").unwrap().value.starts_with("not whole, as a crash"),
            "{shown}"
        );
        let names: Vec<&str> = damaged(&shown).iter().map(|part| &part.name[..]).collect();
        assert_eq!(names, ["slot 0"], "{shown}");
        rot(&disk, 33, 8150, false);
        let shown = inspect_page(&*disk, 33).await;
        assert!(!shown.value.contains("in the ring"), "{shown}");
        // One copy of the header is enough.
        rot(&disk, 0, 24, false);
        let shown = inspect(&*disk).await;
        let names: Vec<&str> = damaged(&shown).iter().map(|part| &part.name[..]).collect();
        assert_eq!(names, ["header in page 0", "slot 0"], "{shown}");
        assert_eq!(shown.find("checkpoint").unwrap().value, "512", "also of what is damaged");
        rot(&disk, 1, 24, false);
        let shown = inspect(&*disk).await;
        assert!(shown.damaged && shown.parts.len() == 2, "{shown}");
        let shown = inspect_page(&*disk, 42).await;
        assert!(shown.find("header").unwrap().damaged && !shown.damaged, "{shown}");
        assert!(
            shown.find("slot 1").unwrap().value.starts_with("row in page 33 slot 2"),
            "{shown}"
        );
        let shown = inspect_page(&*disk, SLOTS[1]).await;
        assert_eq!(shown.find("batch").unwrap().value, "4", "{shown}");
        // Cut off in its extents.
        let device = sim.disk("cut", SimDiskOptions { size: 6 * 65_536, ..Default::default() });
        let whole = by_hand(sim).await;
        device.poke(0, &whole.peek(0, 6 * 65_536));
        let shown = inspect(&*device).await;
        assert!(shown.find("extents").unwrap().value.contains("it is cut off"), "{shown}");
        assert_eq!(damaged(&shown).len(), 1, "{shown}");
    });
}

/// Commits rows that grow, their keys, a counter and a long value.
async fn fill(rig: &Rig) {
    rig.create().await;
    let (store, _) = rig.open().await.unwrap();
    let session = rig.session();
    store.create_table(&session, TABLE).await.unwrap();
    store.create_index(&session, INDEX).await.unwrap();
    store.create_counter(&session, COUNTER, 1).await.unwrap();
    for number in 0u32..600 {
        let row = |length| Bytes::from(vec![number as u8; length]);
        let key = Key { index: INDEX, bytes: Bytes::copy_from_slice(&number.to_be_bytes()) };
        let insert = Change::Insert { table: TABLE, row: row(100), keys: vec![key] };
        let id = store.commit(&session, vec![insert]).await.unwrap().rows[0].unwrap();
        if number % 20 == 0 {
            let (gone, new) = (Vec::new(), Vec::new());
            let grown = Change::Update { table: TABLE, id, row: row(3000), gone, new };
            store.commit(&session, vec![grown]).await.unwrap();
        }
    }
    let mut transaction = store.begin(&session, Isolation::ReadCommitted, LockTimeout::Forever);
    let page = transaction.put_long(TABLE, vec![b'x'; 20_000].into()).await.unwrap();
    let long = row::encode(&[Value::Overflow { page, length: 20_000 }]);
    transaction.insert(TABLE, long.into(), Vec::new()).await.unwrap();
    transaction.commit().await.unwrap();
    store.close().await.unwrap();
}

#[test]
fn a_real_store_has_nothing_damaged_and_each_kind_of_page() {
    let rig = Rig::new(3, 4 << 20, 4 << 20);
    rig.run(async {
        fill(&rig).await;
        let shown = inspect(&*rig.data).await;
        assert_eq!(damaged(&shown), Vec::<&Inspection>::new(), "{shown}");
        let pages = |name| &shown.find(name).unwrap().parts[1].value[..];
        assert!(pages("table 10").contains(" 4 of long values"), "{shown}");
        assert_eq!(pages("table of counters"), "1 in use, 0 full, 0 of long values, 6 free");
        let (mut kinds, mut text) = (BTreeSet::new(), String::new());
        for page in 0..(4 << 20) / PAGE_BYTES as u32 {
            let shown = inspect_page(&*rig.data, page).await;
            assert_eq!(damaged(&shown), Vec::<&Inspection>::new(), "{shown}");
            text.push_str(&shown.to_string());
            kinds.insert(shown.value);
        }
        for kind in ["heap", "index leaf", "index inner", "overflow", "extent map", "space"] {
            assert!(kinds.contains(kind), "{kind}: {kinds:?}");
        }
        for part in
            ["forward to page", "row moved from page", "counter 12, goes on with", "image of"]
        {
            assert!(text.contains(part), "{part}");
        }
    });
}

/// Whatever is on the disk, it is shown to the end; checksums are made right half of the time, so that what
/// lies behind them is looked at.
#[test]
fn any_bytes_are_shown() {
    run(async |sim| {
        let disk = by_hand(sim).await;
        let whole = disk.peek(0, 64 * PAGE_BYTES as u64);
        for seed in 0..400 {
            let mut rng = Rng::stream(seed, 3);
            disk.poke(0, &whole);
            for _ in 0..rng.within(1..=6) {
                // Mostly pages that hold something; one in three is a copy of the header.
                let pages = [0, 1, 0, 1, 2, 7, 24, 32, 33, 34, 35, 40, 41, 42];
                let page = pages[rng.below(pages.len() as u64) as usize];
                scramble(&disk, page, &mut rng);
            }
            let mut text = inspect(&*disk).await.to_string();
            for page in (0..66).chain([u32::MAX - 1, u32::MAX]) {
                text.push_str(&inspect_page(&*disk, page).await.to_string());
            }
            assert!(text.len() > 1000);
        }
        let empty = sim.disk("empty", SimDiskOptions { size: 4096, ..Default::default() });
        assert!(inspect(&*empty).await.damaged && inspect_page(&*empty, 9).await.damaged);
    });
}

fn scramble(disk: &SimDisk, page: u32, rng: &mut Rng) {
    let mut raw = read(disk, page);
    if rng.one_in(8) {
        rng.fill(&mut raw[24..]);
    }
    let range = match rng.below(3) {
        0 => 24..100,
        1 => 48..120,
        _ => 24..PAGE_BYTES as u64,
    };
    for _ in 0..rng.within(1..=4) {
        let at = range.start + rng.below(range.end - range.start);
        raw[at as usize] = rng.bits() as u8;
    }
    if rng.coin() {
        let crc = crc32c::crc32c(&raw[8..]);
        match raw.starts_with(b"CLH") {
            true => raw[4..8].copy_from_slice(&crc.to_le_bytes()),
            false => seal(&mut raw),
        }
    }
    disk.poke(offset(page), &raw[..]);
}
