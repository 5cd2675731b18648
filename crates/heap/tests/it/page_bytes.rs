//! Every page of a small store, byte for byte: what `docs/format/heap.md` describes, and what later builds must read.

use std::fmt::Write;

use bytes::Bytes;
use cellar_heap::locks::LockTimeout;
use cellar_heap::{Change, Isolation, Key, RowId, Store};
use cellar_page::row::{self, Value};
use cellar_page::{Kind, PAGE_BYTES, Raw, check};
use cellar_wait::Session;

use crate::support::Rig;

const TABLE: u32 = 10;
const INDEX: u32 = 11;
const COUNTER: u32 = 12;

/// A key so long that five do not fit into a page.
fn key(number: u8) -> Key {
    let mut bytes = vec![0; 1_950];
    bytes[0] = number;
    Key { index: INDEX, bytes: bytes.into() }
}

async fn one(store: &Store, session: &Session, change: Change) -> Option<RowId> {
    store.commit(session, vec![change]).await.unwrap().rows[0]
}

/// Rows, one of which moves to another page, a value with a directory, an index of two levels, a counter.
async fn fill(store: &Store, session: &Session) {
    store.create_table(session, TABLE).await.unwrap();
    store.create_index(session, INDEX).await.unwrap();
    store.create_counter(session, COUNTER, 3).await.unwrap();
    let insert = |row: Vec<u8>, keys| Change::Insert { table: TABLE, row: row.into(), keys };
    let mut first = None;
    for number in 1..=5 {
        let mut row = vec![0; 1_500];
        row[..2].copy_from_slice(&[number, 0xAA]);
        let id = one(store, session, insert(row, vec![key(number)])).await;
        first = first.or(id);
    }
    let row = Bytes::from([vec![9, 0xBB], vec![0; 4_500]].concat());
    let grown = Change::Update { table: TABLE, id: first.unwrap(), row, gone: vec![], new: vec![] };
    one(store, session, grown).await;
    let long = Bytes::from([&b"long"[..], &[0; 8_140]].concat());
    let length = long.len() as u32;
    let mut transaction = store.begin(session, Isolation::ReadCommitted, LockTimeout::Forever);
    let page = transaction.put_long(TABLE, long).await.unwrap();
    let row = row::encode(&[Value::Text("Ada"), Value::Overflow { page, length }]);
    transaction.insert(TABLE, row.into(), Vec::new()).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(store.take(session, COUNTER, 1).await.unwrap(), 3);
}

/// Lines of sixteen bytes, but for those of zeros.
fn lines(raw: &[u8]) -> String {
    let mut text = String::new();
    for (at, bytes) in raw.chunks(16).enumerate().filter(|(_, bytes)| bytes.iter().any(|b| *b != 0))
    {
        write!(text, "  {:4}:", at * 16).unwrap();
        bytes.iter().for_each(|byte| write!(text, " {byte:02x}").unwrap());
        text.push('\n');
    }
    text
}

/// The pages that are not empty; one in the ring that is also in its place by its number alone.
fn pages(disk: &[u8], ring: std::ops::Range<usize>) -> String {
    let page = |number: usize| &disk[number * PAGE_BYTES..(number + 1) * PAGE_BYTES];
    let mut text = String::new();
    for number in 0..disk.len() / PAGE_BYTES {
        let raw = page(number);
        let place = raw[4..8].try_into().map(u32::from_le_bytes).unwrap() as usize;
        if raw.iter().all(|byte| *byte == 0) {
            continue;
        } else if ring.contains(&number) && !raw.starts_with(b"CLHD") && page(place) == raw {
            writeln!(text, "page {number}: as page {place}").unwrap();
        } else {
            writeln!(text, "page {number}:").unwrap();
            text.push_str(&lines(raw));
        }
    }
    text
}

#[test]
fn every_page_of_a_small_store() {
    let rig = Rig::new(1, 1 << 20, 1 << 20);
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        fill(&store, &rig.session()).await;
        store.close().await.unwrap();
    });
    let disk = rig.data.peek(0, 1 << 20);
    let kind = |raw: &[u8]| {
        let raw: &Raw = raw.try_into().unwrap();
        let number = u32::from_le_bytes(raw[4..8].try_into().unwrap());
        check(raw, 7, number).ok().and_then(|()| Kind::from_number(raw[24]))
    };
    let kinds: Vec<Kind> = disk.chunks(PAGE_BYTES).filter_map(kind).collect();
    for number in 1..=6 {
        let wanted = Kind::from_number(number).unwrap();
        assert!(kinds.contains(&wanted), "no page of {}", wanted.name());
    }
    // Two headers, then two slots of eight pages.
    let text = pages(&disk, 2..18);
    assert!(text == include_str!("../golden/pages.txt"), "{text}");
}
