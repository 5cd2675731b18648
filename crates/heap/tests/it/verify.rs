//! The check of a store: a healthy one has no findings, and what is changed on its disk behind its back is
//! found, by the page that was changed.

use std::collections::BTreeSet;
use std::ops::Range;

use bytes::Bytes;
use cellar_heap::{Change, Finding, Key, KeysOf, Report, RowId, RowKey, Store, TableOf, View};
use cellar_io::sim::Rng;
use cellar_io::{Device, DeviceExt, Durability, Io};
use cellar_page::{CellKind, HEADER_BYTES, Kind, PAGE_BYTES, PageMut, PageRef, Raw, seal};
use cellar_wait::Session;

use crate::support::{Rig, SMALL};

const TABLE: u32 = 10;
const INDEX: u32 = 11;
const SECOND: u32 = 12;
const OTHER: u32 = 20;

/// Numbers have a unique index, and one that many share an entry's key of.
fn keys(number: u64) -> Vec<Key> {
    let bytes = Bytes::copy_from_slice(&number.to_be_bytes());
    let shared = Bytes::copy_from_slice(&(number as u16 % 50).to_be_bytes());
    vec![Key { index: INDEX, bytes }, Key { index: SECOND, bytes: shared }]
}

fn keys_of(table: u32, row: &[u8]) -> Option<Vec<RowKey>> {
    let number = u64::from_be_bytes(*row.first_chunk()?);
    let is_ours = table == TABLE && number < 1 << 32;
    let key = |key: Key| RowKey { is_unique: key.index == INDEX, key };
    is_ours.then(|| keys(number).into_iter().map(key).collect())
}

fn row(number: u64, length: usize) -> Bytes {
    let mut bytes = vec![number as u8; length.max(8)];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

fn insert(number: u64, length: usize) -> Change {
    Change::Insert { table: TABLE, row: row(number, length), keys: keys(number) }
}

fn tables() -> Vec<TableOf> {
    vec![TableOf { table: TABLE, indexes: vec![INDEX, SECOND] }]
}

async fn verify(view: &View, session: &Session, has_keys: bool) -> Report {
    let keys: Option<&KeysOf<'_>> = has_keys.then_some(&keys_of);
    view.verify(session, &tables(), keys).await.unwrap()
}

async fn check(store: &Store, session: &Session, rows: u64) {
    for has_keys in [true, false] {
        let report = verify(&store.view(), session, has_keys).await;
        assert_eq!((&report.findings[..], report.left_out), (&[][..], 0));
        assert_eq!((report.rows, report.entries), (rows, rows * 2));
        assert!(report.pages > rows / 80, "{report:?}");
    }
}

/// Makes a store with some rows, of which one in 20 has moved.
async fn fill(rig: &Rig, count: u64) -> Store {
    rig.create().await;
    let (store, _) = rig.open().await.unwrap();
    let session = rig.session();
    store.create_table(&session, TABLE).await.unwrap();
    store.create_index(&session, INDEX).await.unwrap();
    store.create_index(&session, SECOND).await.unwrap();
    for from in (0..count).step_by(20) {
        let changes = (from..from + 20).map(|n| insert(n * 7919 % count, 100)).collect();
        let done = store.commit(&session, changes).await.unwrap();
        let (number, id) = (from * 7919 % count, done.rows[0].unwrap());
        let (gone, new) = (Vec::new(), Vec::new());
        let grown = Change::Update { table: TABLE, id, row: row(number, 3000), gone, new };
        store.commit(&session, vec![grown]).await.unwrap();
    }
    store
}

#[test]
fn a_healthy_store_has_no_findings() {
    let rig = Rig::new(1, 16 << 20, 4 << 20);
    rig.run(async {
        let store = fill(&rig, 2000).await;
        let session = rig.session();
        check(&store, &session, 2000).await;
        let before = store.view();
        store.create_table(&session, OTHER).await.unwrap();
        store.create_index(&session, OTHER + 1).await.unwrap();
        for number in 0..300 {
            let key = Key { index: OTHER + 1, bytes: keys(number).remove(0).bytes };
            let insert = Change::Insert { table: OTHER, row: row(number, 900), keys: vec![key] };
            store.commit(&session, vec![insert]).await.unwrap();
        }
        // Most of the rows go, those that have moved too, and so leaves are given back.
        let (from, to) = (0u64.to_be_bytes(), 1899u64.to_be_bytes());
        let range = &from[..]..=&to[..];
        for (key, id) in store.view().range(&session, INDEX, range, false, 5000).await.unwrap() {
            let keys = keys(u64::from_be_bytes(key[..].try_into().unwrap()));
            store.commit(&session, vec![Change::Delete { table: TABLE, id, keys }]).await.unwrap();
        }
        store.drop_object(&session, OTHER).await.unwrap();
        store.truncate(&session, OTHER + 1).await.unwrap();
        check(&store, &session, 100).await;
        let seen = verify(&before, &session, true).await;
        assert_eq!((&seen.findings[..], seen.rows), (&[][..], 2000), "a view stays as it is");
        drop(before);
        for number in 0..900 {
            store.commit(&session, vec![insert(number, 300)]).await.unwrap();
        }
        check(&store, &session, 1000).await;
        store.close().await.unwrap();
        let (store, _) = rig.open().await.unwrap();
        check(&store, &session, 1000).await;
    });
}

/// The disk of a store that is closed.
struct Disk<'a>(&'a Rig);

impl Disk<'_> {
    async fn read(&self, page: u32) -> Box<Raw> {
        let offset = u64::from(page) * PAGE_BYTES as u64;
        let bytes = self.0.data.read_at(Io::FOREGROUND, offset, PAGE_BYTES).await.unwrap();
        Box::new(bytes[..].try_into().unwrap())
    }

    async fn write(&self, page: u32, raw: &Raw) {
        let (offset, bytes) = (u64::from(page) * PAGE_BYTES as u64, Bytes::copy_from_slice(raw));
        let write = self.0.data.write_at(Io::FOREGROUND, offset, bytes, Durability::Durable);
        write.await.unwrap();
    }

    /// Changes a page as if that were right.
    async fn change(&self, page: u32, change: impl FnOnce(&mut Raw)) {
        let mut raw = self.read(page).await;
        change(&mut raw);
        seal(&mut raw);
        self.write(page, &raw).await;
    }

    /// The pages in use of an object, in order.
    async fn pages(&self, kind: Kind, owner: u32) -> Vec<u32> {
        let mut found = Vec::new();
        for page in extents(self.0) {
            let raw = self.read(page).await;
            let at = PageRef::new(&raw);
            if at.number() == page && at.kind() == Some(kind) && at.owner() == owner {
                found.push(page);
            }
        }
        found
    }

    /// The first cell of this kind in the pages of rows.
    async fn row_of_kind(&self, kind: CellKind) -> RowId {
        for page in self.pages(Kind::Heap, TABLE).await {
            let raw = self.read(page).await;
            let at = PageRef::new(&raw);
            let of_kind = |slot: &usize| at.cell(*slot).is_some_and(|cell| cell.kind == kind);
            if let Some(slot) = (0..at.slots()).find(of_kind) {
                return RowId { page, slot: slot as u16 };
            }
        }
        panic!("there is none");
    }
}

/// The pages behind the ring.
fn extents(rig: &Rig) -> Range<u32> {
    let pages = (rig.data.geometry().size / PAGE_BYTES as u64) as u32;
    2 + SMALL.ring_batches * (1 + SMALL.batch_pages)..pages
}

fn space_of(page: u32) -> (u32, usize) {
    let first = page / SMALL.extent_pages * SMALL.extent_pages;
    (first, HEADER_BYTES + (page - first) as usize)
}

/// What is found, with keys and without, when something was done to the disk of a store.
fn found<T>(
    seed: u64,
    damage: impl AsyncFnOnce(&Disk<'_>) -> T,
) -> (T, Vec<Finding>, Vec<Finding>) {
    let rig = Rig::new(seed, 8 << 20, 4 << 20);
    rig.run(async {
        let store = fill(&rig, 1000).await;
        // An opening does the last commit again: it must not mend what is damaged.
        store.create_table(&rig.session(), OTHER).await.unwrap();
        store.close().await.unwrap();
        let disk = Disk(&rig);
        // Nothing is to be repaired from the ring.
        for page in 2..extents(&rig).start {
            disk.write(page, &[0; PAGE_BYTES]).await;
        }
        let named = damage(&disk).await;
        let (store, _) = rig.open().await.unwrap();
        let (view, session) = (store.view(), rig.session());
        let with_keys = verify(&view, &session, true).await;
        (named, with_keys.findings, verify(&view, &session, false).await.findings)
    })
}

fn id_at(cell: &[u8]) -> RowId {
    let id = cell.last_chunk::<6>().unwrap();
    let page = u32::from_be_bytes(*id.first_chunk().unwrap());
    RowId { page, slot: u16::from_be_bytes([id[4], id[5]]) }
}

fn is_damaged(finding: &Finding, wanted: u32) -> bool {
    matches!(finding, Finding::PageDamaged { page, .. } if *page == wanted)
}

#[test]
fn a_page_that_is_rotten_is_found_and_nothing_else() {
    let kinds = [
        (Kind::Heap, TABLE),
        (Kind::Space, TABLE),
        (Kind::Space, INDEX),
        (Kind::Leaf, INDEX),
        (Kind::Leaf, SECOND),
        (Kind::Inner, INDEX),
    ];
    for (kind, owner) in kinds {
        for which in 0..3 {
            let (page, with_keys, without) = found(2, async |disk| {
                let pages = disk.pages(kind, owner).await;
                let page = pages[which * (pages.len() - 1) / 2];
                let mut raw = disk.read(page).await;
                raw[5000] ^= 1;
                disk.write(page, &raw).await;
                page
            });
            for findings in [with_keys, without] {
                let is_it = findings.len() == 1 && is_damaged(&findings[0], page);
                assert!(is_it, "{kind:?} of {owner}, page {page}: {findings:?}");
            }
        }
    }
}

#[test]
fn a_page_of_another_object_is_found() {
    for (kind, owner) in [(Kind::Heap, TABLE), (Kind::Leaf, INDEX)] {
        let (page, with_keys, without) = found(3, async |disk| {
            let page = disk.pages(kind, owner).await[1];
            disk.change(page, |raw| raw[32..36].copy_from_slice(&OTHER.to_le_bytes())).await;
            page
        });
        let (found, object, expected) = (Some(kind), owner, kind);
        let wrong = Finding::WrongPage { page, object, expected, found, owner: OTHER };
        assert_eq!((&with_keys, &without), (&vec![wrong.clone()], &vec![wrong.clone()]));
        assert!(wrong.to_string().starts_with(&format!("page {page} should be ")), "{wrong}");
    }
}

#[test]
fn an_entry_that_is_missing_is_found() {
    let ((page, row), with_keys, without) = found(4, async |disk| {
        let page = disk.pages(Kind::Leaf, INDEX).await[1];
        let raw = disk.read(page).await;
        let row = id_at(PageRef::new(&raw).cell(3).unwrap().bytes);
        disk.change(page, |raw| PageMut::new(raw).remove(3)).await;
        (page, row)
    });
    let missing = |page| vec![Finding::MissingEntry { index: INDEX, row, page }];
    assert_eq!(with_keys, missing(Some(page)));
    assert_eq!(without, missing(None));
    let text = format!(
        "row {} in page {} has no entry in index 11: it should be in page {page}",
        row.slot, row.page
    );
    assert_eq!(with_keys[0].to_string(), text);
}

#[test]
fn an_entry_without_its_row_is_found() {
    let (row, with_keys, without) = found(5, async |disk| {
        let row = disk.row_of_kind(CellKind::Plain).await;
        disk.change(row.page, |raw| PageMut::new(raw).free(usize::from(row.slot))).await;
        row
    });
    for findings in [with_keys, without] {
        let index_of = |finding: &Finding| match finding {
            Finding::EntryWithoutRow { index, row: of, table: TABLE, .. } if *of == row => *index,
            other => panic!("{other}"),
        };
        assert_eq!(findings.iter().map(index_of).collect::<Vec<_>>(), [INDEX, SECOND]);
    }
}

#[test]
fn an_entry_of_another_row_is_found() {
    let ((page, row, other), with_keys, without) = found(6, async |disk| {
        let page = disk.pages(Kind::Leaf, INDEX).await[2];
        let raw = disk.read(page).await;
        let cell = |slot| PageRef::new(&raw).cell(slot).unwrap().bytes.to_vec();
        let (row, other) = (id_at(&cell(4)), id_at(&cell(5)));
        let id = &cell(5)[8..];
        disk.change(page, |raw| PageMut::new(raw).splice(4, CellKind::Plain, 8, 6, id)).await;
        (page, row, other)
    });
    let (index, wrong) = (INDEX, Finding::WrongKey { index: INDEX, page, row: other });
    assert_eq!(with_keys, [wrong, Finding::MissingEntry { index, row, page: Some(page) }]);
    let missing = Finding::MissingEntry { index, row, page: None };
    let twice = Finding::EntryTwice { index, row: other, count: 2 };
    assert!(without.len() == 2 && without.contains(&missing) && without.contains(&twice));
}

#[test]
fn entries_out_of_order_and_cells_that_cannot_be_are_found() {
    let (page, with_keys, _) = found(7, async |disk| {
        let page = disk.pages(Kind::Leaf, INDEX).await[2];
        // Two slots change places.
        disk.change(page, |raw| raw[HEADER_BYTES + 20..HEADER_BYTES + 28].rotate_left(4)).await;
        page
    });
    assert_eq!(with_keys[0], Finding::Order { index: INDEX, page, slot: 6 });
    let (page, with_keys, without) = found(8, async |disk| {
        let page = disk.pages(Kind::Leaf, SECOND).await[1];
        disk.change(page, |raw| PageMut::new(raw).splice(6, CellKind::Moved, 0, 0, &[])).await;
        page
    });
    let bad = Finding::Cell { page, slot: 6, object: SECOND };
    assert_eq!((&with_keys[..], &without[..]), (&[bad.clone()][..], &[bad][..]));
}

#[test]
fn a_wrong_separator_is_found() {
    for (byte, step) in [(7, 1), (7, u8::MAX)] {
        let (page, with_keys, _) = found(9, async |disk| {
            let page = disk.pages(Kind::Inner, INDEX).await[0];
            let raw = disk.read(page).await;
            let cell = PageRef::new(&raw).cell(2).unwrap().bytes.to_vec();
            assert_eq!(cell.len(), 8 + 4, "such a key has its last byte in the separator");
            let new = [cell[byte].wrapping_add(step)];
            let change =
                |raw: &mut Raw| PageMut::new(raw).splice(2, CellKind::Plain, byte, 1, &new);
            disk.change(page, change).await;
            page
        });
        let is_it =
            |finding: &Finding| matches!(finding, Finding::Bounds { above, .. } if *above == page);
        assert!(with_keys.iter().any(is_it), "{with_keys:?}");
    }
}

#[test]
fn ways_of_an_index_that_lead_wrong_are_found() {
    let child = |raw: &Raw, slot: usize| -> [u8; 4] {
        *PageRef::new(raw).cell(slot).unwrap().bytes.last_chunk().unwrap()
    };
    let lead = |raw: &mut Raw, slot: usize, to: [u8; 4]| {
        let at = PageRef::new(raw).cell(slot).unwrap().bytes.len() - 4;
        PageMut::new(raw).splice(slot, CellKind::Plain, at, 4, &to);
    };
    let (above, with_keys, _) = found(10, async |disk| {
        let above = disk.pages(Kind::Inner, INDEX).await[0];
        disk.change(above, |raw| lead(raw, 2, child(raw, 1))).await;
        above
    });
    let is_twice = |finding: &Finding| matches!(finding, Finding::ReachedTwice { above: at, .. } if *at == above);
    assert!(with_keys.iter().any(is_twice), "{with_keys:?}");
    assert!(with_keys.iter().any(|finding| matches!(finding, Finding::Leaked { .. })));
    assert!(with_keys.iter().any(|finding| matches!(finding, Finding::MissingEntry { .. })));
    for to in [u32::MAX, 0, extents(&Rig::new(0, 8 << 20, 1 << 20)).end - 1] {
        let (above, with_keys, without) = found(10, async |disk| {
            let above = disk.pages(Kind::Inner, INDEX).await[0];
            disk.change(above, |raw| lead(raw, 1, to.to_be_bytes())).await;
            above
        });
        let outside = [Finding::Outside { index: INDEX, above, page: to }];
        assert_eq!((&with_keys[..], &without[..]), (&outside[..], &outside[..]));
    }
    let (page, with_keys, _) = found(11, async |disk| {
        let page = disk.pages(Kind::Leaf, INDEX).await[1];
        disk.change(page, |raw| PageMut::new(raw).set_level(1)).await;
        page
    });
    assert_eq!(with_keys, [Finding::Level { index: INDEX, page, level: 1, expected: 0 }]);
    let (page, with_keys, _) = found(11, async |disk| {
        let page = disk.pages(Kind::Leaf, INDEX).await[1];
        disk.change(page, |raw| PageMut::new(raw).truncate(0)).await;
        page
    });
    assert_eq!(with_keys[0], Finding::Empty { index: INDEX, page });
}

#[test]
fn a_space_page_that_is_wrong_both_ways_is_found() {
    for (kind, object) in [(Kind::Leaf, INDEX), (Kind::Heap, TABLE)] {
        let ((page, space), with_keys, without) = found(12, async |disk| {
            let page = disk.pages(kind, object).await[1];
            let (space, at) = space_of(page);
            disk.change(space, |raw| raw[at] = 0).await;
            (page, space)
        });
        let free = Finding::MarkedFree { page, space, object };
        let text = format!(
            "page {page} of object {object} is in use, and its space page {space} says that it is free"
        );
        assert_eq!(free.to_string(), text);
        assert!(with_keys.contains(&free) && without.contains(&free), "{with_keys:?}");
        let is_of_space = |finding: &Finding| *finding == free;
        assert!(with_keys.iter().all(is_of_space) || kind == Kind::Heap, "{with_keys:?}");
    }
    let ((page, space), with_keys, _) = found(13, async |disk| leak(disk, INDEX).await);
    assert_eq!(with_keys, [Finding::Leaked { page, space, index: INDEX }]);
    let ((page, _), with_keys, _) = found(13, async |disk| leak(disk, TABLE).await);
    assert!(with_keys.len() == 1 && is_damaged(&with_keys[0], page), "{with_keys:?}");
    let ((space, page), with_keys, _) = found(13, async |disk| {
        let page = disk.pages(Kind::Leaf, INDEX).await[1];
        let (space, at) = space_of(page);
        disk.change(space, |raw| raw[at] = 9).await;
        (space, page)
    });
    assert_eq!(with_keys, [Finding::State { space, page, state: 9 }]);
}

/// Marks a free page of an object as in use.
async fn leak(disk: &Disk<'_>, object: u32) -> (u32, u32) {
    for space in disk.pages(Kind::Space, object).await {
        let raw = disk.read(space).await;
        let is_free = |page: &u32| raw[space_of(*page).1] == 0;
        if let Some(page) = (space..space + SMALL.extent_pages).find(is_free) {
            disk.change(space, |raw| raw[space_of(page).1] = 1).await;
            return (page, space);
        }
    }
    panic!("no page is free");
}

#[test]
fn a_row_that_has_moved_and_is_not_found_is_found() {
    let (row, with_keys, without) = found(14, async |disk| {
        let row = disk.row_of_kind(CellKind::Forward).await;
        let slot = usize::from(row.slot);
        let change =
            |raw: &mut Raw| PageMut::new(raw).splice(slot, CellKind::Forward, 4, 2, &[7; 2]);
        disk.change(row.page, change).await;
        row
    });
    for findings in [with_keys, without] {
        let is_way = |f: &Finding| matches!(f, Finding::Forward { row: of, .. } if *of == row);
        let is_row = |f: &Finding| matches!(f, Finding::Moved { home, .. } if *home == row);
        assert!(findings.iter().any(is_way) && findings.iter().any(is_row), "{findings:?}");
        let is_entry =
            |f: &&Finding| matches!(f, Finding::EntryWithoutRow { row: of, .. } if *of == row);
        assert_eq!(findings.iter().filter(is_entry).count(), 2);
        assert_eq!(findings.len(), 4, "{findings:?}");
    }
    let (there, with_keys, _) = found(14, async |disk| {
        let there = disk.row_of_kind(CellKind::Moved).await;
        let slot = usize::from(there.slot);
        let change = |raw: &mut Raw| PageMut::new(raw).splice(slot, CellKind::Moved, 0, 1, &[0xFF]);
        disk.change(there.page, change).await;
        there
    });
    let is_row = |f: &Finding| matches!(f, Finding::Moved { there: at, .. } if *at == there);
    assert!(with_keys.iter().any(is_row), "{with_keys:?}");
}

#[test]
fn an_extent_map_that_is_wrong_is_found() {
    // The page of the map is the first of the first extent.
    let map = extents(&Rig::new(0, 8 << 20, 1 << 20)).start.next_multiple_of(SMALL.extent_pages);
    let entry = |page: u32| HEADER_BYTES + ((page - map) / SMALL.extent_pages) as usize * 8;
    let ((page, extent), with_keys, _) = found(15, async |disk| {
        let page = disk.pages(Kind::Space, TABLE).await[1];
        let given = [&INDEX.to_le_bytes()[..], &[2, 0]].concat();
        disk.change(map, |raw| raw[entry(page)..entry(page) + 6].copy_from_slice(&given)).await;
        (page, page / SMALL.extent_pages)
    });
    let (object, found_kind, owner) = (INDEX, Some(Kind::Space), TABLE);
    let wrong = Finding::Extent { map, extent, object, page, found: found_kind, owner };
    assert!(with_keys.contains(&wrong), "{with_keys:?}");
    let is_lost = |f: &Finding| matches!(f, Finding::EntryWithoutRow { .. });
    assert!(with_keys.iter().any(is_lost), "its rows are no rows of the table");
    let (extent, with_keys, _) = found(15, async |disk| {
        let page = disk.pages(Kind::Space, TABLE).await[1];
        disk.change(map, |raw| raw[entry(page) + 4] = 77).await;
        page / SMALL.extent_pages
    });
    assert_eq!(with_keys[0], Finding::MapEntry { page: map, extent });
    let (_, with_keys, _) = found(15, async |disk| {
        let page = disk.pages(Kind::Space, TABLE).await[1];
        disk.change(map, |raw| raw[entry(page) + 5] = 1).await;
    });
    assert_eq!(with_keys, [Finding::FirstExtents { object: TABLE, count: 2 }]);
}

#[test]
fn an_extent_map_that_rots_while_the_store_is_open_is_found() {
    let mut rig = Rig::new(19, 8 << 20, 4 << 20);
    // So that it does not stay in memory.
    rig.options.cache_pages = 4;
    rig.run(async {
        let store = fill(&rig, 1000).await;
        let session = rig.session();
        store.checkpoint().await.unwrap();
        let disk = Disk(&rig);
        let map = disk.pages(Kind::ExtentMap, 0).await[0];
        let mut raw = disk.read(map).await;
        raw[5000] ^= 1;
        disk.write(map, &raw).await;
        verify(&store.view(), &session, true).await;
        let findings = verify(&store.view(), &session, true).await.findings;
        assert!(findings.len() == 1 && is_damaged(&findings[0], map), "{findings:?}");
    });
}

#[test]
fn keys_that_are_not_unique_and_rows_that_cannot_be_read_are_found() {
    let rig = Rig::new(16, 8 << 20, 4 << 20);
    rig.run(async {
        let store = fill(&rig, 100).await;
        let session = rig.session();
        let done = store.commit(&session, vec![insert(50, 100)]).await.unwrap();
        let id = done.rows[0].unwrap();
        let report = verify(&store.view(), &session, true).await;
        let is_it = |f: &Finding| match f {
            Finding::Duplicate { index, row, other, .. } => {
                *index == INDEX && [row, other].contains(&&id)
            }
            _ => false,
        };
        assert!(report.findings.len() == 1 && is_it(&report.findings[0]), "{report:?}");
        let gone = Change::Delete { table: TABLE, id, keys: keys(50) };
        let bad = Change::Insert { table: TABLE, row: row(1 << 40, 100), keys: Vec::new() };
        let done = store.commit(&session, vec![gone, bad]).await.unwrap();
        let report = verify(&store.view(), &session, true).await;
        let unreadable = Finding::RowUnreadable { table: TABLE, row: done.rows[1].unwrap() };
        assert_eq!(report.findings, [unreadable]);
        let others = [TableOf { table: INDEX, indexes: vec![OTHER] }];
        let report = store.view().verify(&session, &others, None).await.unwrap();
        let not_there = |object, expected| Finding::NotThere { object, expected };
        assert_eq!(report.findings, [not_there(INDEX, "table"), not_there(OTHER, "index")]);
    });
}

#[test]
fn findings_are_limited_and_rows_are_compared_in_windows() {
    const COUNT: u64 = 70_000;
    let rig = Rig::new(17, 32 << 20, 8 << 20);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        store.create_table(&session, TABLE).await.unwrap();
        store.create_index(&session, INDEX).await.unwrap();
        let change = |number: u64, is_known: bool| {
            let keys = keys(number)[..usize::from(is_known)].to_vec();
            Change::Insert { table: TABLE, row: row(number, 8), keys }
        };
        let (first, last) = (17, COUNT - 5);
        for from in (0..COUNT).step_by(500) {
            let known = |number| number != first && number != last;
            let changes = (from..from + 500).map(|number| change(number, known(number)));
            store.commit(&session, changes.collect()).await.unwrap();
        }
        let tables = [TableOf { table: TABLE, indexes: vec![INDEX] }];
        let report = store.view().verify(&session, &tables, None).await.unwrap();
        assert_eq!((report.rows, report.entries), (COUNT, COUNT - 2));
        let is_missing = |f: &Finding| matches!(f, Finding::MissingEntry { .. });
        assert!(report.findings.iter().all(is_missing));
        assert_eq!(report.findings.len(), 2, "{:?}", report.findings);
        store.truncate(&session, INDEX).await.unwrap();
        let report = store.view().verify(&session, &tables, None).await.unwrap();
        assert_eq!((report.findings.len(), report.left_out), (1000, COUNT - 1000));
    });
}

/// Whatever is in pages whose checksums are right: the check comes to an end and says something, or what was
/// changed was nothing that anybody reads.
#[test]
fn any_bytes_are_checked_to_the_end() {
    let rig = Rig::new(18, 4 << 20, 4 << 20);
    rig.run(async {
        fill(&rig, 600).await.close().await.unwrap();
        let disk = Disk(&rig);
        for page in 2..extents(&rig).start {
            disk.write(page, &[0; PAGE_BYTES]).await;
        }
        let mut used = BTreeSet::new();
        for owner in [TABLE, INDEX, SECOND] {
            for kind in [Kind::Heap, Kind::Leaf, Kind::Inner, Kind::Space] {
                used.extend(disk.pages(kind, owner).await);
            }
        }
        used.extend(disk.pages(Kind::ExtentMap, 0).await);
        let (used, session) = (Vec::from_iter(used), rig.session());
        let (mut silent, mut refused) = (0, 0);
        for seed in 0..400 {
            let mut rng = Rng::stream(seed, 7);
            let page = used[rng.below(used.len() as u64) as usize];
            let before = disk.read(page).await;
            disk.change(page, |raw| scramble(raw, &mut rng)).await;
            match rig.open().await {
                Ok((store, _)) => {
                    let with_keys = verify(&store.view(), &session, true).await;
                    let without = verify(&store.view(), &session, false).await;
                    silent += u32::from(with_keys.findings.is_empty());
                    let texts = with_keys.findings.iter().chain(&without.findings);
                    assert!(texts.map(Finding::to_string).all(|text| !text.is_empty()));
                    store.close().await.unwrap();
                }
                Err(_) => refused += 1,
            }
            disk.write(page, &before).await;
        }
        assert!(silent < 200 && refused < 100, "{silent} {refused}");
    });
}

/// Changes some bytes: of the header behind the LSN, of the slots, or anywhere.
fn scramble(raw: &mut Raw, rng: &mut Rng) {
    let range = match rng.below(3) {
        0 => 24..40,
        1 => HEADER_BYTES as u64..HEADER_BYTES as u64 + 100,
        _ => 24..PAGE_BYTES as u64,
    };
    for _ in 0..rng.within(1..=3) {
        let at = range.start + rng.below(range.end - range.start);
        raw[at as usize] = rng.bits() as u8;
    }
}
