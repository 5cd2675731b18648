//! A real process that is killed again and again while it commits, and in its openings: what it acknowledged is
//! recorded outside it, and must be there when it opens the next time. `CELLAR_KILLS=n` kills n times (40).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![expect(clippy::disallowed_methods, reason = "processes are killed in real time")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cellar_heap::locks::{LockTimeout, Mode};
use cellar_heap::{
    Change, Geometry, Isolation, Key, NewStore, OpenStore, Options, RowKey, RowRef, Store, TableOf,
    Transaction,
};
use cellar_io::real::{OpenOptions, Runtime, RuntimeOptions, open_disk};
use cellar_io::{Device, IoError, IoErrorKind, IoFuture, Op};
use cellar_redo::on_disk::DatabaseId;
use cellar_redo::{Control, CreateLog, Medium, NewGroup, OpenLog, Quorum, Recovery};
use cellar_wait::{Kind, Session, Waits};

const TABLE: u32 = 1;
const INDEX: u32 = 2;
const ROWS: u64 = 12;
/// How many rows of its journal a client keeps.
const JOURNAL: u64 = 20;
/// At each multiple of this a client replaces many rows at once.
const MANY_AT: u64 = 16;
const MANY: u64 = 150;
const GROUP_BYTES: u64 = 2 << 20;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    match words.iter().position(|word| word == "child") {
        Some(at) => child(Path::new(&words[at + 1])),
        // What a test harness is asked.
        None if words.iter().any(|word| word == "--list") => println!("kill: test"),
        None => parent(),
    }
}

/// Control data in a file that is replaced as a whole.
struct FileControl(PathBuf);

impl FileControl {
    fn replace(&self, bytes: &[u8]) -> std::io::Result<()> {
        let part = self.0.with_extension("part");
        let mut file = std::fs::File::create(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(part, &self.0)
    }

    fn failed(&self, op: Op) -> IoError {
        IoError::new(IoErrorKind::Media, &self.0.to_string_lossy().into(), op, 0, 0)
    }
}

impl Control for FileControl {
    fn load(&self) -> IoFuture<'_, Vec<u8>> {
        Box::pin(async { std::fs::read(&self.0).map_err(|_| self.failed(Op::Read)) })
    }
    fn store(&self, bytes: Vec<u8>) -> IoFuture<'_, ()> {
        Box::pin(async move { self.replace(&bytes).map_err(|_| self.failed(Op::Write)) })
    }
}

fn key(number: u64) -> Key {
    Key { index: INDEX, bytes: Bytes::copy_from_slice(&number.to_be_bytes()) }
}

/// A row of a client's journal: what it did when its own row became `value`.
fn journal_key(number: u64, value: u64) -> Key {
    key(1 << 60 | number << 48 | value)
}

/// One of the many rows of a client.
fn many_key(number: u64, value: u64, of: u64) -> Key {
    key(1 << 61 | number << 48 | value << 8 | of)
}

/// The keys that there are when the rows of clients have these values, each with the value of its row.
fn wanted(values: &BTreeMap<u64, u64>) -> BTreeMap<Bytes, u64> {
    let mut all = BTreeMap::new();
    for (number, value) in values {
        all.insert(key(*number).bytes, *value);
        for value in (value.saturating_sub(JOURNAL) + 1)..=*value {
            all.insert(journal_key(*number, value).bytes, value);
        }
        let many = value / MANY_AT * MANY_AT;
        for of in (0..MANY).filter(|_| many > 0) {
            all.insert(many_key(*number, many, of).bytes, of * 40);
        }
    }
    all
}

fn row(value: u64) -> Bytes {
    // It grows and shrinks, so that it moves now and then.
    let mut bytes = vec![value as u8; 100 + (value % 40) as usize * 90];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    bytes.into()
}

/// Opens the store, says what is in it, and commits until it is killed.
fn child(directory: &Path) {
    let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
    let waits = Waits::new();
    let store = runtime.block_on(open(&runtime, directory, &waits));
    let session = waits.session("client", Kind::User);
    runtime.block_on(async {
        let has = check(&store, &session).await;
        has.iter().for_each(|(number, value)| println!("has {number} {value}"));
        println!("ready");
        let tasks: Vec<_> = (0..ROWS)
            .map(|number| {
                let (store, session) = (store.clone(), waits.session("client", Kind::User));
                tokio::spawn(async move {
                    loop {
                        let value = add_one(&store, &session, number).await;
                        println!("ack {number} {value}");
                    }
                })
            })
            .collect();
        // They end with the process.
        futures_util::future::join_all(tasks).await;
    });
}

/// What the rows of the clients are; all else must be as they say.
async fn check(store: &Store, session: &Session) -> BTreeMap<u64, u64> {
    let view = store.view();
    let tables = [TableOf { table: TABLE, indexes: vec![INDEX] }];
    let report = view.verify(session, &tables, None).await.unwrap();
    assert_eq!((report.findings, report.left_out), (Vec::new(), 0));
    let (from, to) = (0u64.to_be_bytes(), u64::MAX.to_be_bytes());
    let (mut found, mut values) = (BTreeMap::new(), BTreeMap::new());
    for (key, id) in view.range(session, INDEX, &from..=&to, false, 100_000).await.unwrap() {
        let row = view.row(session, TABLE, id).await.unwrap().unwrap();
        let number = u64::from_be_bytes(key[..].try_into().unwrap());
        let value = u64::from_le_bytes(row[..8].try_into().unwrap());
        assert_eq!(row, self::row(value), "all of the row is of one commit");
        found.insert(Bytes::from(key), value);
        if number < ROWS {
            values.insert(number, value);
        }
    }
    assert!(found == wanted(&values), "all of each transaction, or nothing of it: {values:?}");
    assert_eq!(
        view.scan(session, TABLE).await.unwrap().len(),
        found.len(),
        "index and table agree"
    );
    values
}

/// Deletes the row with a key.
async fn delete(own: &mut Transaction, key: Key) {
    let bytes = key.bytes.clone();
    let at = own.range(INDEX, bytes.clone()..=bytes).await.unwrap()[0].1;
    own.lock_row(TABLE, at, Mode::Exclusive).await.unwrap();
    own.delete(TABLE, at, vec![RowKey { key, is_unique: true }]).await.unwrap();
}

/// Adds one to a client's row, writes that into its journal, and replaces many rows now and then.
async fn add_one(store: &Store, session: &Session, number: u64) -> u64 {
    let mut own = store.begin(session, Isolation::ReadCommitted, LockTimeout::Forever);
    let bytes = key(number).bytes;
    let at = own.range(INDEX, bytes.clone()..=bytes).await.unwrap()[0].1;
    let before = own.lock_row(TABLE, at, Mode::Exclusive).await.unwrap().unwrap();
    let value = u64::from_le_bytes(before[..8].try_into().unwrap()) + 1;
    own.update((TABLE, at), row(value), Vec::new(), Vec::new()).await.unwrap();
    assert!(matches!(at, RowRef::Stored(_)));
    let unique = |key| vec![RowKey { key, is_unique: true }];
    own.insert(TABLE, row(value), unique(journal_key(number, value))).await.unwrap();
    if value > JOURNAL {
        delete(&mut own, journal_key(number, value - JOURNAL)).await;
    }
    if value.is_multiple_of(MANY_AT) {
        for of in 0..MANY {
            if value > MANY_AT {
                delete(&mut own, many_key(number, value - MANY_AT, of)).await;
            }
            // All rows of this length are short.
            own.insert(TABLE, row(of * 40), unique(many_key(number, value, of))).await.unwrap();
        }
    }
    own.commit().await.unwrap();
    value
}

async fn open(runtime: &Runtime, directory: &Path, waits: &Waits) -> Store {
    let file = |name: &str, bytes: u64| -> Arc<dyn Device> {
        let path = directory.join(name);
        if !path.exists() {
            std::fs::write(&path, vec![0; bytes as usize]).unwrap();
        }
        open_disk(runtime.real_env(), &path, &OpenOptions::default()).unwrap()
    };
    let medium = |name: &str| {
        let group = |group: u32| (group, file(&format!("{name}{group}"), GROUP_BYTES));
        Medium { name: name.to_owned(), files: (1..=3).map(group).collect() }
    };
    let media = vec![medium("log"), medium("second")];
    let device = file("data", 32 << 20);
    let control: Arc<dyn Control> = Arc::new(FileControl(directory.join("control")));
    // Made as a whole by the first that gets so far.
    let is_new = !directory.join("made").exists();
    if is_new {
        let groups = (1..=3).map(|number| NewGroup { number, size: GROUP_BYTES }).collect();
        let (database, media) = (DatabaseId(42), media.clone());
        let (quorum, archiving) = (Quorum::Auto, false);
        let new = CreateLog { database, block_size: 4096, quorum, archiving, groups, media };
        cellar_redo::create(&runtime.env(), &control, new).await.unwrap();
    }
    let log = OpenLog {
        env: runtime.env(),
        session: waits.session("redo", Kind::Background),
        control,
        media,
        options: cellar_redo::Options::default(),
        returning: Vec::new(),
        force: false,
    };
    let recovery = Recovery::start(log).await.unwrap();
    if is_new {
        let (geometry, from) = (Geometry::default(), recovery.checkpoint());
        cellar_heap::create(&device, NewStore { store: 7, database: 42, geometry, from })
            .await
            .unwrap();
    }
    let checkpoint_after = Duration::from_millis(30);
    let recovery_target = Duration::from_millis(5);
    let options = Options {
        cache_pages: 400,
        dirty_max: 32,
        checkpoint_after,
        recovery_target,
        ..Options::default()
    };
    let (env, waits) = (runtime.env(), waits.clone());
    let session = waits.session("setup", Kind::User);
    let store =
        Store::open(OpenStore { env, waits, device, recovery, options, growth: None, spill: None })
            .await
            .unwrap()
            .0;
    if is_new {
        store.create_table(&session, TABLE).await.unwrap();
        store.create_index(&session, INDEX).await.unwrap();
        let insert = |n| Change::Insert { table: TABLE, row: row(0), keys: vec![key(n)] };
        store.commit(&session, (0..ROWS).map(insert).collect()).await.unwrap();
        std::fs::write(directory.join("made"), "").unwrap();
    }
    store
}

/// What a child said before it was killed.
#[derive(Default)]
struct Said {
    has: BTreeMap<u64, u64>,
    is_ready: bool,
    acknowledged: BTreeMap<u64, u64>,
    commits: u64,
}

/// Reads what a child says, and kills it after some time, or some time after it is ready.
fn kill_after(mut child: Child, time: Duration, from_ready: bool) -> Said {
    let output = BufReader::new(child.stdout.take().unwrap());
    let (tell, told) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut said = Said::default();
        for line in output.lines() {
            // The last line may have been cut off by the kill.
            let Ok(line) = line else { break };
            let words: Vec<&str> = line.split(' ').collect();
            let numbers = || Some((words.get(1)?.parse().ok()?, words.get(2)?.parse().ok()?));
            match (words[0], numbers()) {
                ("has", Some((number, value))) => drop(said.has.insert(number, value)),
                ("ack", Some((number, value))) => {
                    said.acknowledged.insert(number, value);
                    said.commits += 1;
                }
                ("ready", None) => {
                    said.is_ready = true;
                    let _ = tell.send(());
                }
                _ => {}
            }
        }
        said
    });
    if from_ready {
        let timeout = Duration::from_secs(60);
        told.recv_timeout(timeout).expect("it opens, and does not die of itself");
    }
    let end = Instant::now() + time;
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(!status.success() && status.code().is_none(), "it ended by itself: {status}");
    reader.join().unwrap()
}

fn parent() {
    let kills: u64 = std::env::var("CELLAR_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let directory = tempfile::tempdir().unwrap();
    let program = std::env::current_exe().unwrap();
    let mut random = 0x1234_5678_9ABC_DEF1u64;
    let mut below = |n: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % n
    };
    let mut acknowledged: BTreeMap<u64, u64> = BTreeMap::new();
    let (mut commits, mut early) = (0, 0);
    for kill in 0..kills {
        let child = Command::new(&program)
            .arg("child")
            .arg(directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The first one makes the store; of the others one in three is killed while it opens.
        let from_ready = kill == 0 || below(3) > 0;
        let millis = if from_ready { below(120) } else { below(25) };
        let said = kill_after(child, Duration::from_millis(millis), from_ready);
        early += u64::from(!said.is_ready);
        commits += said.commits;
        if said.is_ready {
            assert!(said.has.len() as u64 == ROWS, "kill {kill}: {} rows", said.has.len());
        }
        for (number, value) in &said.has {
            let known = acknowledged.get(number).copied().unwrap_or(0);
            // One more may have become durable without an answer, or with one that nobody read.
            let is_right = *value == known || *value == known + 1;
            assert!(is_right, "kill {kill}: row {number} is {value}, {known} was acknowledged");
            acknowledged.insert(*number, *value);
        }
        acknowledged.extend(said.acknowledged);
    }
    println!("{kills} kills, {early} while it opened, {commits} commits acknowledged, 0 lost");
    assert!(kills < 20 || early > 0 && commits > 100, "it was killed where it matters");
}
