//! Benchmark of statements by key: prepared, through all SQL layers except the protocol, on real files.
//!
//! `cargo bench --profile release --bench keyed -- --dir DIR`. Arms alternate; each prints the median and the best of
//! its rounds; `--arm NAME` runs one of them. `select` reads one row by its key, in memory; `scan` the same with the
//! fast path switched off; `bare` inserts one row into the heap without SQL, `insert` the same by SQL, both with
//! their commit; `update N` updates one row of 1 KB by its key and commits, in N concurrent sessions.
//! Goals: 8 us for a select, an insert at most 1.2 times a bare one.

#![expect(clippy::disallowed_methods, reason = "a benchmark looks at the true clock")]
#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use cellar_diskgroup::Redundancy;
use cellar_instance::directory::Directory;
use cellar_instance::heap::{Begin, IndexKey};
use cellar_instance::{Database, Instance};
use cellar_io::real::{Runtime, RuntimeOptions};
use cellar_sql::host::instance::{InstanceHost, views};
use cellar_sql::{Answer, Engine, EngineOptions, Outcome, Parameter};
use cellar_storage::disks::RealDisks;
use cellar_storage::{InitDisk, InitSpec};
use cellar_wait::Waits;
use futures_util::TryStreamExt;

/// The program's own.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Rows of the table.
const ROWS: i64 = 100_000;

struct Bench {
    runtime: Runtime,
    database: Arc<Database>,
    /// The next unused key.
    next: i64,
    /// The source of random keys.
    seed: u64,
}

fn open(dir: &Path) -> (Runtime, Arc<Database>) {
    let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
    let directory = Directory::create(&dir.join("keyed.db")).unwrap();
    let instance = Arc::new(Instance::open(runtime.env(), Waits::new(), &directory).unwrap());
    let disks = Arc::new(RealDisks::new(runtime.real_env(), instance.parameters()));
    let spec = InitSpec {
        name: "DATA".into(),
        redundancy: Redundancy::External,
        au_size: 4 << 20,
        sector_size: None,
        disks: vec![InitDisk::File { size: 4 << 30 }],
        failgroups: Vec::new(),
        erase: std::collections::BTreeMap::new(),
    };
    let made = cellar_instance::database::init(instance, directory, disks, &spec, &|_, _| ());
    let database = runtime.block_on(made).unwrap();
    (runtime, Arc::new(database))
}

async fn engine(database: &Arc<Database>) -> Engine {
    let session = database.instance().sessions().user("bench", "keyed");
    let host = Arc::new(InstanceHost::new(Arc::clone(database), session));
    let options = EngineOptions { memory_limit: 1 << 30, target_partitions: 2 };
    Engine::open(host, views(database), &options).await.unwrap()
}

async fn run(engine: &Engine, sql: &str) {
    match engine.execute(sql).await {
        Ok(Outcome::Rows(rows)) => drop(rows.try_collect::<Vec<_>>().await.unwrap()),
        Ok(_) => {}
        Err(error) => panic!("{sql}: {error}"),
    }
}

async fn done(answer: Answer) -> usize {
    match answer {
        Answer::Rows(rows) => rows.num_rows(),
        Answer::Changed(count, _) => usize::try_from(count).unwrap(),
        Answer::Other(Outcome::Rows(rows)) => {
            rows.try_collect::<Vec<_>>().await.unwrap().iter().map(|batch| batch.num_rows()).sum()
        }
        Answer::Other(_) => 0,
    }
}

impl Bench {
    fn random(&mut self) -> i64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        i64::try_from(self.seed >> 33).unwrap() % ROWS + 1
    }

    fn fill(&self) {
        self.runtime.block_on(async {
            let at = engine(&self.database).await;
            run(&at, "create table t (id bigint primary key, k bigint, pad text)").await;
            run(&at, "create table b (id bigint primary key, k bigint, pad text)").await;
            let rows = format!(
                "insert into t select value, value % 1000, repeat('x', 1000) from generate_series(1, {ROWS}) s(value)"
            );
            run(&at, &rows).await;
            run(&at, "select count(*) from t").await;
        });
    }

    /// This many executions of a prepared statement: microseconds for one.
    fn prepared(&mut self, sql: &str, count: usize, fast: bool, new: bool) -> f64 {
        let keys: Vec<i64> = (0..count)
            .map(|_| {
                if new {
                    self.next += 1;
                    self.next
                } else {
                    self.random()
                }
            })
            .collect();
        self.runtime.block_on(async {
            let at = engine(&self.database).await;
            if !fast {
                run(&at, "set cellar.fast_path = off").await;
            }
            let statement = at.prepare_statement(sql, &[]).await.unwrap();
            let began = Instant::now();
            for key in keys {
                let answer = at.execute_prepared(&statement, &[Parameter::Integer(key)]).await;
                assert_eq!(done(answer.unwrap()).await, 1, "{sql}: {key}");
            }
            began.elapsed().as_secs_f64() * 1e6 / count as f64
        })
    }

    /// Rows inserted without SQL, each in a transaction.
    fn bare(&mut self, count: usize) -> f64 {
        let catalog = self.database.catalog().current();
        let (_, table) = catalog.row_table("b").unwrap();
        let session = self.database.instance().sessions().user("bench", "bare");
        let first = self.next;
        self.next += i64::try_from(count).unwrap();
        self.runtime.block_on(async {
            let began = Instant::now();
            for key in first + 1..=self.next {
                let mut own =
                    self.database.heap().begin(session.waits(), Begin::default()).unwrap();
                own.lock_to_read(table).await.unwrap();
                own.statement().await.unwrap();
                let mut row = vec![0; 1024];
                row[..8].copy_from_slice(&key.to_be_bytes());
                let key = Bytes::copy_from_slice(&key.to_be_bytes());
                let key = IndexKey { bytes: key, has_null: false };
                own.insert(table, row.into(), &[key]).await.unwrap();
                own.commit().await.unwrap();
            }
            began.elapsed().as_secs_f64() * 1e6 / count as f64
        })
    }

    /// Updates of rows of 1 KB by key, in several sessions: the number a second.
    fn updates(&mut self, sessions: usize, count: usize) -> f64 {
        let each = count / sessions;
        let keys: Vec<Vec<i64>> =
            (0..sessions).map(|_| (0..each).map(|_| self.random()).collect()).collect();
        let database = &self.database;
        self.runtime.block_on(async {
            let mut ready = Vec::new();
            for keys in keys {
                let at = engine(database).await;
                let sql = "update t set k = k + 1 where id = $1";
                let statement = at.prepare_statement(sql, &[]).await.unwrap();
                ready.push((at, statement, keys));
            }
            let began = Instant::now();
            let work = ready.into_iter().map(|(at, statement, keys)| {
                tokio::spawn(async move {
                    for key in keys {
                        let key = [Parameter::Integer(key)];
                        let answer = at.execute_prepared(&statement, &key).await;
                        assert_eq!(done(answer.unwrap()).await, 1);
                    }
                })
            });
            futures_util::future::try_join_all(work.collect::<Vec<_>>()).await.unwrap();
            (each * sessions) as f64 / began.elapsed().as_secs_f64()
        })
    }
}

struct Arm {
    name: &'static str,
    unit: &'static str,
    found: Vec<f64>,
    /// Less is better.
    is_time: bool,
}

impl Arm {
    fn new(name: &'static str, is_time: bool) -> Arm {
        Arm { name, unit: if is_time { "us" } else { "/s" }, found: Vec::new(), is_time }
    }

    fn told(&self) -> String {
        let mut sorted = self.found.clone();
        sorted.sort_by(f64::total_cmp);
        let best = if self.is_time { sorted[0] } else { sorted[sorted.len() - 1] };
        let middle = sorted[sorted.len() / 2];
        format!(
            "{:<12} median {middle:>10.2} {}   best {best:>10.2} {}",
            self.name, self.unit, self.unit
        )
    }
}

/// The value of an option of the command line.
fn option(name: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1)
}

fn main() {
    if std::env::args().any(|argument| argument == "--list") {
        return;
    }
    let dir = option("--dir").map_or_else(std::env::temp_dir, PathBuf::from);
    let rounds: usize = option("--rounds").map_or(5, |rounds| rounds.parse().unwrap());
    let scratch = tempfile::tempdir_in(dir).unwrap();
    let (runtime, database) = open(scratch.path());
    let mut bench = Bench { runtime, database, next: 10_000_000, seed: 1 };
    bench.fill();
    let select = "select id, k, pad from t where id = $1";
    let insert = "insert into b values ($1, 5, repeat('y', 1000))";
    let insert = insert.replace("repeat('y', 1000)", &format!("'{}'", "y".repeat(1000)));
    let mut arms = vec![
        Arm::new("select", true),
        Arm::new("scan", true),
        Arm::new("bare", true),
        Arm::new("insert", true),
        Arm::new("update 1", false),
        Arm::new("update 10", false),
        Arm::new("update 64", false),
    ];
    let wanted = option("--arm");
    arms.retain(|arm| wanted.as_ref().is_none_or(|wanted| arm.name == wanted));
    assert!(!arms.is_empty(), "there is no arm {wanted:?}");
    for _ in 0..rounds {
        for arm in &mut arms {
            arm.found.push(match arm.name {
                "select" => bench.prepared(select, 50_000, true, false),
                "scan" => bench.prepared(select, 300, false, false),
                "bare" => bench.bare(3000),
                "insert" => bench.prepared(&insert, 3000, true, true),
                "update 1" => bench.updates(1, 3000),
                "update 10" => bench.updates(10, 20_000),
                _ => bench.updates(64, 40_000),
            });
        }
    }
    for arm in &arms {
        println!("{}", arm.told());
    }
    bench.runtime.block_on(bench.database.close()).unwrap();
}
