//! Rot of each kind of page in a mirrored file: of one copy the answers are right and it is mended, of both the page is
//! named, and nothing is answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cellar_diskgroup::Group;
use cellar_heap::locks::LockTimeout;
use cellar_heap::{Change, Error, Finding, Isolation, Key, RowId, Store, TableOf, View};
use cellar_io::{Buffer, Device, Io};
use cellar_page::row::{self, Value};
use cellar_page::{Kind, PAGE_BYTES, PageRef, Raw};
use cellar_wait::Session;

use crate::on_group::{FILE, Life};
use crate::support::SMALL;

const TABLE: u32 = 3;
const INDEX: u32 = 4;
const ROWS: u64 = 300;
const LONG: usize = 200_000;

fn key(number: u64) -> Key {
    // So long that the index has an inner page.
    let mut bytes = vec![7; 400];
    bytes.extend_from_slice(&number.to_be_bytes());
    Key { index: INDEX, bytes: bytes.into() }
}

fn row(number: u64) -> Bytes {
    vec![number as u8; 100 + number as usize].into()
}

fn long() -> Bytes {
    (0..LONG).map(|at| (at / 13) as u8).collect::<Vec<_>>().into()
}

/// Makes a store with pages of each kind. Returns the first page of its long value.
async fn fill(store: &Store, session: &Session) -> u32 {
    store.create_table(session, TABLE).await.unwrap();
    store.create_index(session, INDEX).await.unwrap();
    let mut transaction = store.begin(session, Isolation::ReadCommitted, LockTimeout::Forever);
    let page = transaction.put_long(TABLE, long()).await.unwrap();
    let named = Value::Overflow { page, length: LONG as u32 };
    let row_of_it = Bytes::from(row::encode(&[Value::Int4(1), named]));
    transaction.insert(TABLE, row_of_it, Vec::new()).await.unwrap();
    transaction.commit().await.unwrap();
    let mut last = None;
    for number in 0..ROWS {
        let insert = Change::Insert { table: TABLE, row: row(number), keys: vec![key(number)] };
        last = store.commit(session, vec![insert]).await.unwrap().rows[0];
    }
    // The ring has images of these alone afterwards.
    for _ in 0..SMALL.ring_batches + 1 {
        store.checkpoint().await.unwrap();
        let (id, gone, new) = (last.unwrap(), Vec::new(), Vec::new());
        let update = Change::Update { table: TABLE, id, row: row(ROWS - 1), gone, new };
        store.commit(session, vec![update]).await.unwrap();
    }
    page
}

/// All that a reader may ask for; whatever is answered is right.
async fn read(view: &View, session: &Session, first: u32) -> Result<(), Error> {
    let all = &[][..]..=&[0xFF; 9][..];
    let entries = view.range(session, INDEX, all, false, usize::MAX).await?;
    let keys: Vec<Bytes> = entries.iter().map(|(key, _)| Bytes::copy_from_slice(key)).collect();
    assert!(keys == (0..ROWS).map(|number| key(number).bytes).collect::<Vec<_>>());
    for (number, (_, id)) in entries.iter().enumerate() {
        assert_eq!(view.row(session, TABLE, *id).await?, Some(row(number as u64)));
    }
    let scanned: BTreeMap<RowId, Bytes> = view.scan(session, TABLE).await?.into_iter().collect();
    assert_eq!(scanned.len() as u64, ROWS + 1);
    assert!(view.long(session, TABLE, first, LONG as u32).await? == long());
    Ok(())
}

struct Rotting {
    life: Life,
    first: u32,
}

impl Rotting {
    fn new() -> Rotting {
        let life = Life::new(5);
        let rig = Arc::clone(&life.rig);
        let first = rig.run(async {
            life.create().await;
            let group = life.mount().await;
            let (store, _) = rig.open_on(Self::file(&group)).await.unwrap();
            let first = fill(&store, &rig.session()).await;
            store.close().await.unwrap();
            group.dismount().await.unwrap();
            first
        });
        Rotting { life, first }
    }

    fn file(group: &Group) -> Arc<dyn Device> {
        Arc::new(group.open(FILE).unwrap())
    }

    /// The pages of the file, as the group reads them.
    async fn pages(&self) -> Vec<Vec<u8>> {
        let group = self.life.mount().await;
        let file = Self::file(&group);
        let mut pages = Vec::new();
        for page in 0..file.geometry().size / PAGE_BYTES as u64 {
            let buffers = vec![Buffer::new(PAGE_BYTES)];
            let offset = page * PAGE_BYTES as u64;
            pages.push(file.read(Io::FOREGROUND, offset, buffers).await.unwrap()[0].to_vec());
        }
        drop(file);
        group.dismount().await.unwrap();
        pages
    }

    /// All that is on each disk.
    fn content(&self) -> Vec<Vec<u8>> {
        self.life.disks.iter().map(|disk| disk.peek(0, disk.geometry().size)).collect()
    }

    /// Opens the store and reads all of it; and what a check finds.
    async fn use_store(&self) -> (Result<(), Error>, Vec<Finding>) {
        let rig = &self.life.rig;
        let group = self.life.mount().await;
        let (store, _) = match rig.open_on(Self::file(&group)).await {
            Ok(opened) => opened,
            Err(error) => return (Err(error), Vec::new()),
        };
        let (view, session) = (store.view(), rig.session());
        let answer = read(&view, &session, self.first).await;
        // Not every row has an entry.
        let table = TableOf { table: TABLE, indexes: Vec::new() };
        let report = view.verify(&session, &[table], None).await.unwrap();
        drop(view);
        store.close().await.unwrap();
        group.dismount().await.unwrap();
        (answer, report.findings)
    }
}

/// Bytes that are to rot, which begin with a page: of the header both pages.
struct Rot {
    page: u32,
    bytes: Vec<u8>,
    /// The disk and the place on it of each copy.
    copies: [(usize, u64); 2],
}

/// Where disks have these bytes.
fn copies(content: &[Vec<u8>], bytes: &[u8]) -> Vec<(usize, u64)> {
    let of_disk = |(at, all): (usize, &Vec<u8>)| {
        let starts = (0..all.len() - bytes.len()).step_by(4096);
        let found = starts.filter(|start| &all[*start..*start + bytes.len()] == bytes);
        found.map(|start| (at, start as u64)).collect::<Vec<_>>()
    };
    content.iter().enumerate().flat_map(of_disk).collect()
}

/// Pages of a kind, some of them. What the ring has as well is none: it is mended from there.
fn pages_of(rotting: &Rotting, pages: &[Vec<u8>], what: &str) -> Vec<Rot> {
    let ring = 2..2 + SMALL.ring_batches * (1 + SMALL.batch_pages);
    let is_it = |number: u32, bytes: &[u8]| {
        let raw: &Raw = bytes.try_into().unwrap();
        let page = PageRef::new(raw);
        let kind = page.kind().filter(|_| number >= ring.end && page.number() == number);
        match what {
            "header" => number == 0,
            "ring" => ring.contains(&number) && bytes.starts_with(b"CLHD"),
            "heap" => kind == Some(Kind::Heap),
            "leaf" => kind == Some(Kind::Leaf) && page.owner() == INDEX,
            "inner" => kind == Some(Kind::Inner),
            "space" => kind == Some(Kind::Space),
            "map" => kind == Some(Kind::ExtentMap),
            "directory" => kind == Some(Kind::Overflow) && page.level() == 1,
            _ => kind == Some(Kind::Overflow) && page.level() == 0,
        }
    };
    let content = rotting.content();
    let all = (0..).zip(pages).filter(|(number, bytes)| is_it(*number, bytes));
    let rot = |(page, bytes): (u32, &Vec<u8>)| {
        let mut bytes = bytes.clone();
        if what == "header" {
            bytes.extend_from_slice(&pages[1]);
        }
        let copies = copies(&content, &bytes).try_into().ok()?;
        Some(Rot { page, bytes, copies })
    };
    let found: Vec<Rot> = all.filter_map(rot).take(12).collect();
    assert!(!found.is_empty(), "there is no {what} page with two copies");
    found
}

const KINDS: [&str; 9] =
    ["header", "ring", "heap", "leaf", "inner", "space", "map", "directory", "piece"];

#[test]
fn of_one_copy_answers_are_right_and_it_is_mended() {
    for what in KINDS {
        let mut mended = 0;
        for which in 0..2 {
            let rotting = Rotting::new();
            let rig = Arc::clone(&rotting.life.rig);
            let pages = rig.run(rotting.pages());
            let rots = pages_of(&rotting, &pages, what);
            let disk = &rotting.life.disks[rots[0].copies[which].0];
            for rot in &rots {
                disk.corrupt(rot.copies[which].1, rot.bytes.len() as u64);
            }
            let (answer, findings) = rig.run(rotting.use_store());
            assert!(answer.is_ok() && findings.is_empty(), "{what}: {answer:?} {findings:?}");
            // A copy that nobody reads stays as it is, until a scrub.
            let is_whole =
                |rot: &&Rot| disk.peek(rot.copies[which].1, rot.bytes.len() as u64) == rot.bytes;
            mended += rots.iter().filter(is_whole).count();
        }
        // A header is written anew when it is closed.
        assert!(mended > 0 || what == "header", "{what}: nobody has mended it");
    }
}

#[test]
fn of_both_copies_the_page_is_named_and_nothing_wrong_is_answered() {
    for what in KINDS {
        let rotting = Rotting::new();
        let rig = Arc::clone(&rotting.life.rig);
        let pages = rig.run(rotting.pages());
        let rot = pages_of(&rotting, &pages, what).swap_remove(0);
        for (disk, offset) in rot.copies {
            rotting.life.disks[disk].corrupt(offset, rot.bytes.len() as u64);
        }
        let number = rot.page;
        let (answer, findings) = rig.run(rotting.use_store());
        match (what, &answer) {
            ("header", Err(error)) => assert_eq!(error.number(), 1210, "{error}"),
            ("ring", Ok(())) => assert_eq!(findings, []),
            // Which pages are free is asked by who writes, and by the check.
            ("space", Ok(())) => assert!(names(&findings, number), "{findings:?}"),
            ("map", Err(error)) => assert!(is_named(error, number), "{what}: {error}"),
            (_, Err(error)) => {
                assert!(is_named(error, number), "{what} {number}: {error}");
                assert!(names(&findings, number), "{what} {number}: {findings:?}");
            }
            (_, Ok(())) => panic!("{what}: {answer:?} {findings:?}"),
        }
    }
}

fn is_named(error: &Error, number: u32) -> bool {
    error.number() == 1578 && error.to_string().contains(&format!("page {number} "))
}

fn names(findings: &[Finding], number: u32) -> bool {
    findings.iter().any(|f| matches!(f, Finding::PageDamaged { page, .. } if *page == number))
}
