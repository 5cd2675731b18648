//! The doublewrite ring where part of it cannot be read: what the rest has is used, and nothing of it stands in
//! for a page that it may be older than.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use cellar_heap::{Change, Error, Geometry, RowId, Store};
use cellar_io::sim::Rng;
use cellar_io::{Buffer, Device, Io};
use cellar_wait::Session;

use crate::support::Rig;

const TABLE: u32 = 1;
const PAGE: u64 = 8192;
const GEOMETRY: Geometry = Geometry { extent_pages: 8, ring_batches: 4, batch_pages: 7 };

fn row(number: u64, length: usize) -> Bytes {
    let mut bytes = vec![number as u8; length];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

/// A slot of the ring: where it begins in the file, its batch and the pages that this has.
#[derive(Debug)]
struct Slot {
    offset: u64,
    batch: u64,
    pages: Vec<u32>,
}

/// The slots that name pages, the newest last. As docs/format/heap.md has them.
async fn slots(rig: &Rig) -> Vec<Slot> {
    let mut slots = Vec::new();
    for slot in 0..u64::from(GEOMETRY.ring_batches) {
        let offset = (2 + slot * u64::from(GEOMETRY.batch_pages + 1)) * PAGE;
        let read = rig.data.read(Io::FOREGROUND, offset, vec![Buffer::new(8192)]).await.unwrap();
        let number = |at: usize| u32::from_le_bytes(read[0][at..at + 4].try_into().unwrap());
        let count = number(24) as usize;
        if &read[0][..4] == b"CLHD" && (1..=GEOMETRY.batch_pages as usize).contains(&count) {
            let pages = (0..count).map(|place| number(32 + place * 4)).collect();
            slots.push(Slot { offset, batch: u64::from(number(16)), pages });
        }
    }
    slots.sort_by_key(|slot| slot.batch);
    slots
}

async fn update(store: &Store, session: &Session, id: RowId, row: Bytes) -> Result<(), Error> {
    let (gone, new) = (Vec::new(), Vec::new());
    store.commit(session, vec![Change::Update { table: TABLE, id, row, gone, new }]).await?;
    Ok(())
}

/// A table with a row in each of so many pages.
async fn with_rows(store: &Store, session: &Session, count: u64) -> Vec<RowId> {
    store.create_table(session, TABLE).await.unwrap();
    let mut ids = Vec::new();
    for number in 0..count {
        let change = Change::Insert { table: TABLE, row: row(number, 8000), keys: Vec::new() };
        ids.extend(store.commit(session, vec![change]).await.unwrap().rows[0]);
    }
    ids
}

/// Damages a slot, and says which pages the ring has no longer.
fn damage(rig: &Rig, rng: &mut Rng, slot: &Slot) -> BTreeSet<u32> {
    let place = rng.below(slot.pages.len() as u64);
    let image = slot.offset + (1 + place) * PAGE;
    let (at, lost) = match rng.coin() {
        true => (slot.offset, slot.pages.iter().copied().collect()),
        false => (image, BTreeSet::from([slot.pages[place as usize]])),
    };
    match rng.coin() {
        true => rig.data.fail_reads(at + 512..at + 1024),
        false => rig.data.corrupt(at + 40, 16),
    }
    lost
}

/// Updates rows until the power goes. Returns what each row may be.
fn work(rig: &Rig, store: &Store, rng: &mut Rng, ids: &[RowId]) -> Vec<BTreeSet<Bytes>> {
    let mut may_be: Vec<BTreeSet<Bytes>> =
        (0..ids.len() as u64).map(|number| BTreeSet::from([row(number, 8000)])).collect();
    let session = rig.session();
    rig.sim.crash_after(rng.within(60..=500));
    let _ = rig.sim.run(async {
        for round in 1.. {
            let at = rng.below(ids.len() as u64) as usize;
            let next = row(round * 1000 + at as u64, 8000);
            may_be[at].insert(next.clone());
            if update(store, &session, ids[at], next.clone()).await.is_err() {
                return;
            }
            may_be[at] = BTreeSet::from([next]);
        }
    });
    may_be
}

#[test]
fn a_slot_that_cannot_be_read_hides_nothing_but_what_it_had() {
    let (mut repaired, mut named) = (0, 0);
    for seed in 0..120 {
        let mut rng = Rng::stream(seed, 1);
        let mut rig = Rig::new(seed, 4 << 20, 1 << 20);
        rig.geometry = GEOMETRY;
        rig.options.dirty_max = 20;
        rig.data.tear_sectors(true);
        let (store, ids) = rig.run(async {
            rig.create().await;
            let (store, _) = rig.open().await.unwrap();
            let ids = with_rows(&store, &rig.session(), 40).await;
            (store, ids)
        });
        let may_be = work(&rig, &store, &mut rng, &ids);
        drop(store);
        rig.sim.crash();
        rig.sim.crash_never();
        rig.sim.restart();
        rig.run(async {
            let slots = slots(&rig).await;
            let lost = match slots.len() {
                0 => BTreeSet::new(),
                // Not always the newest: those before it are the matter.
                count => {
                    let slot = &slots[rng.below(count as u64) as usize];
                    damage(&rig, &mut rng, slot)
                }
            };
            let is_lost = |error: &Error| matches!(error, Error::PageDamaged { page, .. } if lost.contains(page));
            let (store, replayed) = match rig.open().await {
                Ok(opened) => opened,
                Err(error) => {
                    assert!(is_lost(&error), "seed {seed}: {error}, of {lost:?} {slots:?}");
                    named += 1;
                    return;
                }
            };
            repaired += replayed.repaired;
            let session = rig.session();
            for (id, may_be) in ids.iter().zip(&may_be) {
                match store.view().row(&session, TABLE, *id).await {
                    Ok(row) => assert!(row.is_some_and(|row| may_be.contains(&row)), "seed {seed}: {id:?}"),
                    Err(error) => assert!(is_lost(&error), "seed {seed}: {error}, of {lost:?} {slots:?}"),
                }
            }
        });
    }
    assert!(repaired > 20 && named < 60, "{repaired} repaired, {named} lost");
}

#[test]
fn an_older_image_does_not_stand_in_for_a_page_that_is_rotten() {
    for seed in 0..8 {
        let rig = Rig { geometry: GEOMETRY, ..Rig::new(seed, 4 << 20, 1 << 20) };
        rig.run(async {
            rig.create().await;
            let (store, _) = rig.open().await.unwrap();
            let session = rig.session();
            let ids = with_rows(&store, &session, 3).await;
            store.checkpoint().await.unwrap();
            update(&store, &session, ids[0], row(100, 8000)).await.unwrap();
            // In the newest batch, or in the one before it.
            if seed % 4 < 2 {
                store.checkpoint().await.unwrap();
            }
            // An opening replays the last commit: this one.
            update(&store, &session, ids[1], row(101, 8000)).await.unwrap();
            store.close().await.unwrap();
            let slots = slots(&rig).await;
            let has: BTreeMap<u64, &Slot> = slots
                .iter()
                .filter(|slot| slot.pages.contains(&ids[0].page))
                .map(|slot| (slot.batch, slot))
                .collect();
            let (newest, before) = (has.last_key_value().unwrap().1, has.len() - 1);
            assert!(before > 0, "the ring has an older image of it: {slots:?}");
            // Its place, and the newest image of it: all of that slot, or that page.
            let place = newest.pages.iter().position(|page| *page == ids[0].page).unwrap();
            let image = newest.offset + (1 + place as u64) * PAGE;
            rig.data.corrupt(if seed % 2 == 0 { newest.offset + 8 } else { image + 100 }, 16);
            rig.data.corrupt(u64::from(ids[0].page) * PAGE + 3000, 16);
            let (store, _) = rig.open().await.unwrap();
            let read = store.view().row(&session, TABLE, ids[0]).await;
            let is_named =
                matches!(&read, Err(Error::PageDamaged { page, .. }) if *page == ids[0].page);
            assert!(is_named, "seed {seed}: {read:?}");
        });
    }
}
