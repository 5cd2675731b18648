//! Transactions that build on each other over power cuts: of those that were not acknowledged, none survives without
//! all those before it, whoever committed them. Locks are released before a commit is durable, so there are some.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cellar_heap::locks::{LockTimeout, Mode};
use cellar_heap::{Change, Error, Isolation, Key, RowKey, RowRef, Store, View};
use cellar_io::EnvExt;
use cellar_io::sim::Rng;
use cellar_wait::Session;

use crate::spilled;
use crate::support::Rig;

/// One row: how many transactions there were.
const COUNTER: u32 = 1;
/// A row of each of them.
const ROWS: u32 = 2;
const INDEX: u32 = 3;

pub const CLIENTS_MAX: u64 = 8;

fn row(number: u64) -> Bytes {
    let mut bytes = vec![number as u8; 30 + (number * 131 % 900) as usize];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

fn number_of(row: &Bytes) -> u64 {
    u64::from_be_bytes(row[..8].try_into().unwrap())
}

/// Adds one to the counter, and a row with the sum.
pub async fn add_one(store: &Store, session: &Session, counter: RowRef) -> Result<u64, Error> {
    let mut own = store.begin(session, Isolation::ReadCommitted, LockTimeout::Forever);
    let before = own.lock_row(COUNTER, counter, Mode::Exclusive).await?.unwrap();
    let next = number_of(&before) + 1;
    own.update((COUNTER, counter), row(next), Vec::new(), Vec::new()).await?;
    let bytes = Bytes::copy_from_slice(&next.to_be_bytes());
    let key = RowKey { key: Key { index: INDEX, bytes }, is_unique: true };
    own.insert(ROWS, row(next), vec![key]).await?;
    own.commit().await?;
    Ok(next)
}

#[derive(Default, Debug)]
struct Counts {
    commits: u64,
    /// Cuts after which some of what was not acknowledged was there.
    beyond: u64,
    /// Those in which it was more than one.
    several: u64,
}

/// What is there after a cut: all up to some number, which is at least `acknowledged`.
pub async fn check(view: &View, session: &Session, seed: u64, acknowledged: u64) -> (RowRef, u64) {
    let counter = view.scan(session, COUNTER).await.unwrap();
    assert_eq!(counter.len(), 1, "seed {seed}");
    let last = number_of(&counter[0].1);
    assert!(
        counter[0].1 == row(last) && last >= acknowledged,
        "seed {seed}: {last} of {acknowledged}"
    );
    let mut rows: Vec<Bytes> =
        view.scan(session, ROWS).await.unwrap().into_iter().map(|(_, row)| row).collect();
    rows.sort_unstable();
    let wanted: Vec<Bytes> = (1..=last).map(row).collect();
    assert!(rows == wanted, "seed {seed}: {} rows, the counter is {last}", rows.len());
    let (from, to) = (0u64.to_be_bytes(), u64::MAX.to_be_bytes());
    let entries = view.range(session, INDEX, &from[..]..=&to[..], false, 100_000).await.unwrap();
    assert_eq!(entries.len() as u64, last, "seed {seed}: the index");
    (RowRef::Stored(counter[0].0), last)
}

/// An empty store on disks of which a seed says how they are.
pub fn created(seed: u64, rng: &mut Rng) -> Rig {
    let mut rig = Rig::new(seed, 6 << 20, 1 << 20);
    rig.options.cache_pages = rng.within(4..=60) as usize;
    rig.options.dirty_max = rng.within(8..=64) as usize;
    rig.options.checkpoint_after = Duration::from_micros(rng.within(300..=20_000));
    if seed % 2 == 1 {
        spilled::spill(&mut rig, rng.within(2..=40) as usize);
    }
    rig.data.tear_sectors(rng.coin());
    let slow = rng.within(1..=8);
    rig.groups.iter().for_each(|group| group.slow(slow));
    rig.run(async {
        rig.create().await;
        let (store, _) = rig.open().await.unwrap();
        let session = rig.session();
        for table in [COUNTER, ROWS] {
            store.create_table(&session, table).await.unwrap();
        }
        store.create_index(&session, INDEX).await.unwrap();
        let first = Change::Insert { table: COUNTER, row: row(0), keys: Vec::new() };
        store.commit(&session, vec![first]).await.unwrap();
        store.close().await.unwrap();
    });
    rig
}

/// Several clients commit until the power goes. Returns the last number that was acknowledged.
pub fn until_the_power_goes(rig: &Rig, rng: &mut Rng, store: Store, from: (RowRef, u64)) -> u64 {
    let (counter, last) = from;
    let acknowledged = Arc::new(Mutex::new(last));
    rig.sim.crash_after(rng.within(20..=400));
    let env = rig.sim.env();
    let clients = (0..rng.within(2..=CLIENTS_MAX)).map(|_| {
        let (store, session) = (store.clone(), rig.session());
        let acknowledged = Arc::clone(&acknowledged);
        env.run("client", async move {
            while let Ok(number) = add_one(&store, &session, counter).await {
                let mut known = acknowledged.lock().unwrap();
                *known = number.max(*known);
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    drop(store);
    let _ = rig.sim.run(futures_util::future::join_all(clients));
    rig.sim.crash();
    rig.sim.crash_never();
    rig.sim.restart();
    *acknowledged.lock().unwrap()
}

fn life(seed: u64, counts: &mut Counts) {
    let mut rng = Rng::stream(seed, 3);
    let rig = created(seed, &mut rng);
    let mut known = 0;
    for _ in 0..5 {
        let (store, counter, last) = rig.run(async {
            let (store, _) = rig.open().await.unwrap();
            let (counter, last) = check(&store.view(), &rig.session(), seed, known).await;
            (store, counter, last)
        });
        counts.beyond += u64::from(last > known);
        counts.several += u64::from(last > known + 1);
        known = until_the_power_goes(&rig, &mut rng, store, (counter, last));
    }
    counts.commits += known;
}

#[test]
fn no_transaction_survives_without_those_before_it() {
    let number = |name| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let (first, seeds) = (number("CELLAR_SEED").unwrap_or(0), number("CELLAR_SEEDS").unwrap_or(40));
    let mut counts = Counts::default();
    (first..first + seeds).for_each(|seed| life(seed, &mut counts));
    println!("{seeds} seeds: {counts:?}");
    assert!(seeds < 20 || counts.beyond > seeds / 2 && counts.several > seeds / 4, "{counts:?}");
}
