//! The check of long values: what is changed of their pages behind the store's back is found, by the page.

use bytes::Bytes;
use cellar_heap::locks::LockTimeout;
use cellar_heap::{Finding, Isolation, Known, LongValue, RowId, Store, TableOf};
use cellar_page::row::{self, Type, Value};
use cellar_page::{HEADER_BYTES, Kind, PAGE_BYTES, PageRef, Raw, seal};
use cellar_wait::Session;

use crate::support::{Rig, SMALL};

const TABLE: u32 = 3;
const OTHER: u32 = 4;
/// One in its own page, two with a directory page each, and one with two of these.
const LENGTHS: [usize; 4] = [5_000, 60_000, 90_000, 17_000_000];

fn longs_of(table: u32, bytes: &[u8]) -> Option<Vec<LongValue>> {
    let values = row::decode(bytes, &[Type::Int4, Type::Bytes]).ok().filter(|_| table == TABLE)?;
    let long = |value: &Value<'_>| match *value {
        Value::Overflow { page, length } => Some(LongValue { page, length }),
        _ => None,
    };
    Some(values.iter().filter_map(long).collect())
}

async fn put(store: &Store, session: &Session, length: usize) -> (RowId, u32) {
    let mut transaction = store.begin(session, Isolation::ReadCommitted, LockTimeout::Forever);
    let value = Bytes::from(vec![length as u8; length]);
    let page = transaction.put_long(TABLE, value).await.unwrap();
    let named = Value::Overflow { page, length: length as u32 };
    let row = Bytes::from(row::encode(&[Value::Int4(1), named]));
    transaction.insert(TABLE, row, Vec::new()).await.unwrap();
    (transaction.commit().await.unwrap().rows[0].unwrap(), page)
}

/// The findings, where rows say which long values they have and where not.
async fn check(store: &Store, session: &Session) -> [Vec<Finding>; 2] {
    let tables = [TableOf { table: TABLE, indexes: Vec::new() }];
    let (view, longs) = (store.view(), Known { keys: None, longs: Some(&longs_of) });
    let known = view.verify_with(session, &tables, longs, &|_| ()).await.unwrap();
    let unknown = view.verify(session, &tables, None).await.unwrap();
    assert_eq!(known.rows, unknown.rows);
    if known.findings.is_empty() {
        assert_eq!(known.pages, unknown.pages, "each page is counted once");
    }
    for finding in known.findings.iter().chain(&unknown.findings) {
        assert!(!finding.to_string().is_empty() && finding.to_string().len() < 200, "{finding}");
    }
    [known.findings, unknown.findings]
}

/// The disk of a store that is closed, with its long values: the row and the first page of each.
struct Disk<'a>(&'a Rig, Vec<(RowId, u32)>);

impl Disk<'_> {
    fn read(&self, page: u32) -> Box<Raw> {
        let bytes = self.0.data.peek(u64::from(page) * PAGE_BYTES as u64, PAGE_BYTES as u64);
        bytes.try_into().unwrap()
    }

    fn long(&self, page: u32, at: usize) -> u32 {
        u32::from_le_bytes(*self.read(page)[HEADER_BYTES + at..].first_chunk().unwrap())
    }

    /// The pages that a directory page names.
    fn named(&self, page: u32) -> Vec<u32> {
        (0..self.long(page, 4) as usize).map(|at| self.long(page, 8 + 4 * at)).collect()
    }

    /// Changes a page as if that were right.
    fn change(&self, page: u32, at: usize, bytes: &[u8]) {
        let mut raw = self.read(page);
        raw[at..at + bytes.len()].copy_from_slice(bytes);
        seal(&mut raw);
        self.0.data.poke(u64::from(page) * PAGE_BYTES as u64, &raw[..]);
    }

    fn set_long(&self, page: u32, at: usize, number: u32) {
        self.change(page, HEADER_BYTES + at, &number.to_le_bytes());
    }

    fn rot(&self, page: u32) {
        self.0.data.corrupt(u64::from(page) * PAGE_BYTES as u64 + 4096, 64);
    }

    fn mark(&self, page: u32, state: u8) {
        self.change(space_of(page), HEADER_BYTES + (page - space_of(page)) as usize, &[state]);
    }

    /// A page of the table that is free.
    fn free(&self) -> u32 {
        let pages = (self.0.data.peek(0, 0).len() as u32..).skip(24);
        let is_free = |page: &u32| {
            let raw = self.read(space_of(*page));
            let space = PageRef::new(&raw);
            let is_ours = space.kind() == Some(Kind::Space) && space.owner() == TABLE;
            is_ours && raw[HEADER_BYTES + (page - space_of(*page)) as usize] == 0
        };
        pages.take(4000).find(is_free).unwrap()
    }
}

fn space_of(page: u32) -> u32 {
    page / SMALL.extent_pages * SMALL.extent_pages
}

/// What is found when something was done to the disk.
fn found<T>(damage: impl FnOnce(&Disk<'_>) -> T) -> (T, [Vec<Finding>; 2]) {
    let mut rig = Rig::new(31, 32 << 20, 24 << 20);
    (rig.options.cache_pages, rig.options.dirty_max) = (10_000, 5_000);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        store.create_table(&session, TABLE).await.unwrap();
        let mut values = Vec::new();
        for length in LENGTHS {
            values.push(put(&store, &session, length).await);
        }
        assert_eq!(check(&store, &session).await, [Vec::new(), Vec::new()]);
        // An opening does the last commit again: it must not mend what is damaged.
        store.create_table(&session, OTHER).await.unwrap();
        store.close().await.unwrap();
        for page in 2..2 + SMALL.ring_batches * (1 + SMALL.batch_pages) {
            rig.data.poke(u64::from(page) * PAGE_BYTES as u64, &[0; PAGE_BYTES]);
        }
        let damaged = damage(&Disk(&rig, values));
        let (store, _) = rig.open().await.unwrap();
        (damaged, check(&store, &session).await)
    })
}

#[test]
fn a_page_of_a_long_value_that_is_rotten_is_found_and_nothing_else() {
    for which in 0..4 {
        let (page, findings) = found(|disk| {
            let page = match which {
                0 => disk.1[0].1,
                1 => disk.1[2].1,
                2 => disk.named(disk.1[2].1)[3],
                _ => disk.long(disk.1[3].1, 0),
            };
            disk.rot(page);
            page
        });
        for findings in findings {
            let is_it =
                |f: &Finding| matches!(f, Finding::PageDamaged { page: of, .. } if *of == page);
            assert!(findings.len() == 1 && is_it(&findings[0]), "{which}: {findings:?}");
        }
    }
}

#[test]
fn a_chain_that_is_broken_is_found() {
    // A directory page leads to a page of no table, of rows, or of another kind of the value.
    for which in 0..3 {
        let ((row, lost, left), [known, unknown]) = found(|disk| {
            let (row, first) = disk.1[1];
            let left = disk.named(first)[2];
            let lost = [7, row.page, disk.1[2].1][which];
            disk.set_long(first, 8 + 4 * 2, lost);
            (row, lost, left)
        });
        let leaked = Finding::LongLeaked { table: TABLE, page: left, space: space_of(left) };
        let is_wrong = |f: &Finding| match f {
            Finding::LongLost { page, .. } | Finding::LongShared { page, .. } => *page == lost,
            _ => false,
        };
        assert!(known.iter().any(is_wrong) && known.contains(&leaked), "{which}: {known:?}");
        assert!(unknown.len() == 1 && is_wrong(&unknown[0]), "{which}: {unknown:?}");
        let is_named = known
            .iter()
            .any(|f| matches!(f, Finding::LongLost { row: Some(of), .. } if *of == row));
        assert!(is_named || which == 2, "{known:?}");
    }
    // The way to the second directory page is lost, with all that it names.
    let ((row, first, behind), [known, _]) = found(|disk| {
        let (row, first) = disk.1[3];
        let behind = disk.long(first, 0);
        assert!(behind > 0, "it has two directory pages");
        disk.set_long(first, 0, 0);
        (row, first, behind)
    });
    let (table, page, length) = (TABLE, first, LENGTHS[3] as u32);
    let is_short = |f: &Finding| {
        matches!(f, Finding::LongLength { row: of, page: at, length: told, .. }
        if (*of, *at, *told) == (row, page, length))
    };
    assert!(known.iter().any(is_short), "{known:?}");
    let space = space_of(behind);
    assert!(known.contains(&Finding::LongLeaked { table, page: behind, space }), "{known:?}");
    // The way leads around.
    let (first, findings) = found(|disk| {
        let first = disk.1[3].1;
        disk.set_long(disk.long(first, 0), 0, first);
        first
    });
    let is_shared = |f: &Finding| matches!(f, Finding::LongShared { page, .. } if *page == first);
    assert!(findings[0].iter().any(is_shared), "{findings:?}");
}

#[test]
fn a_page_that_two_values_have_is_found() {
    let ((row, page, left), [known, unknown]) = found(|disk| {
        let ((_, one), (row, other)) = (disk.1[1], disk.1[2]);
        let (page, left) = (disk.named(one)[1], disk.named(other)[5]);
        disk.set_long(other, 8 + 4 * 5, page);
        (row, page, left)
    });
    let (table, space) = (TABLE, space_of(left));
    let shared = |row| Finding::LongShared { table, row, page };
    assert_eq!(known, [shared(Some(row)), Finding::LongLeaked { table, page: left, space }]);
    assert_eq!(unknown, [shared(None)]);
}

#[test]
fn a_page_that_is_marked_otherwise_is_found_and_one_that_is_leaked() {
    let (page, findings) = found(|disk| {
        let page = disk.named(disk.1[1].1)[1];
        disk.mark(page, 0);
        page
    });
    let (object, space) = (TABLE, space_of(page));
    let free = Finding::MarkedFree { page, space, object };
    assert_eq!(findings, [vec![free.clone()], vec![free]]);
    let (page, findings) = found(|disk| {
        let page = disk.named(disk.1[1].1)[1];
        disk.mark(page, 1);
        page
    });
    let wrong = Finding::NotMarkedLong { page, space: space_of(page), object };
    assert_eq!(findings, [vec![wrong.clone()], vec![wrong]]);
    // A page that a value once had, or any other.
    let (page, [known, _]) = found(|disk| {
        let page = disk.free();
        let mut raw = disk.read(disk.named(disk.1[1].1)[1]);
        raw[4..8].copy_from_slice(&page.to_le_bytes());
        disk.change(page, 0, &raw[..]);
        disk.mark(page, 3);
        page
    });
    let (table, space) = (TABLE, space_of(page));
    assert_eq!(known, [Finding::LongLeaked { table, page, space }]);
}

#[test]
fn a_length_that_the_pages_do_not_have_is_found() {
    let ((row, page), [known, unknown]) = found(|disk| {
        let (row, first) = disk.1[2];
        let piece = disk.named(first)[0];
        disk.set_long(piece, 4, 8_000);
        (row, first)
    });
    let (table, length, bytes) = (TABLE, LENGTHS[2] as u32, LENGTHS[2] - 136);
    assert_eq!(known, [Finding::LongLength { table, row, page, length, bytes }]);
    assert_eq!(unknown, []);
}
