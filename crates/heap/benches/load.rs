//! Benchmark of loads: rows with a primary key, by the direct path, by one transaction, and with one transaction
//! per thousand rows; then an index built on them.
//!
//! `cargo bench -p cellar-heap --profile release --bench load -- --dir DIR`. Arms alternate; each prints the
//! median of its rounds: rows a second. Beside the rows of transactions somebody commits one row each millisecond;
//! the longest that took is printed.

#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

mod rig;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cellar_heap::locks::LockTimeout;
use cellar_heap::{BuildIndex, Change, Isolation, Key, LoadIndex, Options, RowKey, Store};
use cellar_io::real::RealEnv;
use cellar_io::{Env, EnvExt};
use cellar_wait::{Kind, Session, Waits};

use rig::{Rig, arguments, cpu};

/// As in servers: allocations of a commit are too large for the quick lists of the C library's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const TABLE: u32 = 1;
const KEY: u32 = 2;
const OTHER: u32 = 3;
const BESIDE: u32 = 4;

#[derive(Clone, Copy)]
enum Arm {
    Direct,
    /// This many rows in each transaction.
    Rows(u64),
}

fn main() {
    let temporary = std::env::temp_dir().join("cellar-load").display().to_string();
    let defaults =
        [("--dir", &temporary[..]), ("--rounds", "3"), ("--rows", "1000000"), ("--bytes", "100")];
    let Some(values) = arguments(&defaults) else { return };
    let number = |name: &str| values[name].parse::<u64>().unwrap();
    let (rows, bytes) = (number("--rows"), number("--bytes"));
    let megabytes = 256 + rows * (bytes + 60) * 2 / 1_000_000;
    let cache_pages = (megabytes << 20) as usize / 8192;
    let options = Options { cache_pages, dirty_max: cache_pages / 4 * 3, ..Options::default() };
    let rig = Rig::new(&PathBuf::from(&values["--dir"]), megabytes, options);
    let arms = [("direct", Arm::Direct), ("one", Arm::Rows(rows)), ("thousands", Arm::Rows(1000))];
    let mut all: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for _ in 0..number("--rounds") {
        for (name, arm) in arms {
            let (load, build) = run(&rig, arm, rows, bytes as usize);
            all.entry(name).or_default().push(load);
            all.entry("build index").or_default().push(build);
        }
    }
    println!("{rows} rows of {bytes} bytes with a primary key");
    for (name, rates) in &mut all {
        rates.sort_by(f64::total_cmp);
        println!("  {name:<12} {:>9.0} rows/s", rates[rates.len() / 2]);
    }
}

/// Rows a second of the load, and of the index build after it.
fn run(rig: &Rig, arm: Arm, rows: u64, bytes: usize) -> (f64, f64) {
    let (store, kept) = rig.create(false);
    let before = cpu();
    rig.runtime.block_on(async {
        let session = Waits::new().session("load", Kind::User);
        store.create_table(&session, TABLE).await.unwrap();
        store.create_table(&session, BESIDE).await.unwrap();
        store.create_index(&session, KEY).await.unwrap();
        store.create_index(&session, OTHER).await.unwrap();
        let row = |number: u64| {
            let mut row = number.to_be_bytes().to_vec();
            row.resize(bytes, number as u8);
            (Bytes::from(row), Bytes::copy_from_slice(&number.to_be_bytes()))
        };
        let start = rig.env.now();
        match arm {
            Arm::Direct => {
                let index = LoadIndex { index: KEY, is_unique: true };
                let mut load =
                    store.begin_load(&session, TABLE, &[index], 256 << 20).await.unwrap();
                for number in 0..rows {
                    let (row, key) = row(number);
                    load.row(row, &[Some(key)]).await.unwrap();
                }
                load.commit().await.unwrap();
            }
            Arm::Rows(each) => {
                let beside = Arc::new(Beside::default());
                rig.env.spawn(
                    "beside",
                    Box::pin(Arc::clone(&beside).run(Arc::clone(&rig.env), store.clone())),
                );
                for from in (0..rows).step_by(each as usize) {
                    insert(&store, &session, (from..rows.min(from + each)).map(row)).await;
                }
                let (commits, longest) = beside.end(&rig.env).await;
                println!("  {commits} commits beside it, the longest {longest:?}");
            }
        }
        let loaded = rig.env.now();
        let build = BuildIndex {
            table: TABLE,
            index: LoadIndex { index: OTHER, is_unique: true },
            memory: 256 << 20,
            key: &|row| Ok(Some(Bytes::copy_from_slice(&row[..8]))),
            may_repeat: &|_, _| false,
            progress: &|_, _| {},
        };
        store.build_index(&session, &build).await.unwrap();
        let built = rig.env.now();
        let rate = |time: std::time::Duration| rows as f64 / time.as_secs_f64();
        store.close().await.unwrap();
        let used = (cpu() - before).as_secs_f64() * 1e6 / rows as f64;
        let (store, _) = rig.open_again(&kept).await;
        let (first, last) = (0u64.to_be_bytes(), u64::MAX.to_be_bytes());
        let found = store.view().range(&session, OTHER, &first..=&last, false, usize::MAX).await;
        assert_eq!(found.unwrap().len() as u64, rows, "all are there");
        store.close().await.unwrap();
        println!("  {used:.2} us CPU a row");
        (rate(loaded.since(start)), rate(built.since(loaded)))
    })
}

/// A session that commits one row each millisecond.
#[derive(Default)]
struct Beside {
    is_over: AtomicBool,
    seen: Mutex<Option<(u64, Duration)>>,
}

impl Beside {
    async fn run(self: Arc<Self>, env: Arc<RealEnv>, store: Store) {
        let session = Waits::new().session("beside", Kind::User);
        let (mut commits, mut longest) = (0, Duration::ZERO);
        while !self.is_over.load(Ordering::SeqCst) {
            let (start, row) = (env.now(), Bytes::from_static(&[1; 100]));
            let insert = Change::Insert { table: BESIDE, row, keys: Vec::new() };
            store.commit(&session, vec![insert]).await.unwrap();
            longest = longest.max(env.now().since(start));
            commits += 1;
            env.sleep(Duration::from_millis(1)).await;
        }
        *self.seen.lock().unwrap() = Some((commits, longest));
    }

    async fn end(&self, env: &RealEnv) -> (u64, Duration) {
        self.is_over.store(true, Ordering::SeqCst);
        loop {
            if let Some(seen) = *self.seen.lock().unwrap() {
                return seen;
            }
            env.sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn insert(store: &Store, session: &Session, rows: impl Iterator<Item = (Bytes, Bytes)>) {
    let mut transaction = store.begin(session, Isolation::ReadCommitted, LockTimeout::Forever);
    for (row, bytes) in rows {
        let key = Key { index: KEY, bytes };
        let keys = vec![RowKey { key, is_unique: true }];
        transaction.insert(TABLE, row, keys).await.unwrap();
    }
    transaction.commit().await.unwrap();
}
