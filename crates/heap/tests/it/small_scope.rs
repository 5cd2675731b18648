//! The small scope, all of it: every order of a few changes of two rows, commits and checkpoints, and a crash at
//! each step of the last of them. What was acknowledged is there, and nothing else but all of a commit that was not
//! answered.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use cellar_heap::locks::LockTimeout;
use cellar_heap::{Error, Isolation, Key, RowKey, RowRef, Store, TableOf, Transaction};
use cellar_io::sim::Snapshot;
use cellar_wait::Session;

use crate::support::Rig;

const TABLE: u32 = 3;
const INDEX: u32 = 4;
/// So long that a row which gets longer has to move.
const FILLER: usize = 7_600;
const SHORT: usize = 60;
const LONG: usize = 700;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Insert(u8),
    /// Of the same length, with another key.
    Same(u8),
    /// The row moves to another page.
    Longer(u8),
    Delete(u8),
    Commit,
    Checkpoint,
}

/// A row by its name: what it is, and which version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    length: usize,
    version: u8,
}

type Rows = BTreeMap<u8, Row>;

fn key(name: u8, version: u8) -> Vec<RowKey> {
    let key = Key { index: INDEX, bytes: Bytes::copy_from_slice(&[name, version]) };
    vec![RowKey { key, is_unique: true }]
}

fn bytes(name: u8, row: Row) -> Bytes {
    let mut bytes = vec![row.version; row.length];
    bytes[0] = name;
    bytes.into()
}

/// What could be done next.
fn next(rows: &Rows, is_changed: bool, last: Option<Op>) -> Vec<Op> {
    let mut ops = Vec::new();
    for name in *b"AB" {
        match rows.get(&name) {
            None => ops.push(Op::Insert(name)),
            Some(row) => {
                ops.extend([Op::Same(name), Op::Delete(name)]);
                ops.extend((row.length == SHORT).then_some(Op::Longer(name)));
            }
        }
    }
    ops.extend(is_changed.then_some(Op::Commit));
    ops.extend((last != Some(Op::Checkpoint)).then_some(Op::Checkpoint));
    ops
}

/// What an operation makes of the rows.
fn after(rows: &Rows, op: Op, version: u8) -> Rows {
    let mut rows = rows.clone();
    match op {
        Op::Insert(name) => drop(rows.insert(name, Row { length: SHORT, version })),
        Op::Same(name) => rows.get_mut(&name).unwrap().version = version,
        Op::Longer(name) => drop(rows.insert(name, Row { length: LONG, version })),
        Op::Delete(name) => drop(rows.remove(&name)),
        Op::Commit | Op::Checkpoint => {}
    }
    rows
}

/// A machine with a store, and what is on its disks when it is closed.
struct Machine {
    rig: Rig,
    disks: Vec<Snapshot>,
    control: Vec<u8>,
    rows: Rows,
}

/// A store under way.
struct Open {
    store: Store,
    session: Session,
    transaction: Option<Transaction>,
    ids: BTreeMap<u8, RowRef>,
    committed: Rows,
    now: Rows,
}

impl Open {
    async fn new(rig: &Rig, rows: &Rows) -> Open {
        let (store, session) = (rig.open().await.unwrap().0, rig.session());
        let (committed, now) = (rows.clone(), rows.clone());
        let (ids, transaction) = (BTreeMap::new(), None);
        let mut open = Open { store, session, transaction, ids, committed, now };
        open.look().await;
        open
    }

    /// Where the rows are.
    async fn look(&mut self) {
        let all = &[][..]..=&[0xFF; 3][..];
        let view = self.store.view();
        let found = view.range(&self.session, INDEX, all, false, 9).await.unwrap();
        self.ids = found.into_iter().map(|(key, id)| (key[0], RowRef::Stored(id))).collect();
    }

    async fn run(&mut self, op: Op, version: u8) -> Result<(), Error> {
        let before = self.now.clone();
        self.now = after(&before, op, version);
        if op == Op::Checkpoint {
            return self.store.checkpoint().await;
        }
        let begin =
            || self.store.begin(&self.session, Isolation::ReadCommitted, LockTimeout::Forever);
        let transaction = self.transaction.get_or_insert_with(begin);
        let row = |name: u8| bytes(name, self.now[&name]);
        let gone = |name: u8| key(name, before[&name].version);
        match op {
            Op::Insert(name) => {
                let id = transaction.insert(TABLE, row(name), key(name, version)).await?;
                self.ids.insert(name, id);
            }
            Op::Same(name) | Op::Longer(name) => {
                let at = (TABLE, self.ids[&name]);
                transaction.update(at, row(name), gone(name), key(name, version)).await?;
            }
            Op::Delete(name) => transaction.delete(TABLE, self.ids[&name], gone(name)).await?,
            Op::Checkpoint => {}
            Op::Commit => {
                self.transaction.take().unwrap().commit().await?;
                self.committed = self.now.clone();
                self.look().await;
            }
        }
        Ok(())
    }
}

impl Machine {
    /// With these rows, of which long ones have moved.
    fn new(rows: Rows) -> Machine {
        let mut rig = Rig::new(rows.len() as u64, 1 << 20, 1 << 20);
        rig.options.checkpoint_after = Duration::from_secs(1000);
        rig.data.tear_sectors(true);
        rig.run(async {
            rig.create().await;
            let (store, _) = rig.open().await.unwrap();
            let session = rig.session();
            store.create_table(&session, TABLE).await.unwrap();
            store.create_index(&session, INDEX).await.unwrap();
            store.close().await.unwrap();
            let mut open = Open::new(&rig, &Rows::new()).await;
            let mut filler =
                open.store.begin(&session, Isolation::ReadCommitted, LockTimeout::None);
            let long = Row { length: FILLER, version: 0 };
            filler.insert(TABLE, bytes(b'F', long), key(b'F', 0)).await.unwrap();
            filler.commit().await.unwrap();
            for (name, row) in &rows {
                open.run(Op::Insert(*name), 0).await.unwrap();
                open.run(Op::Commit, 0).await.unwrap();
                if row.length == LONG {
                    open.run(Op::Longer(*name), 0).await.unwrap();
                    open.run(Op::Commit, 0).await.unwrap();
                }
            }
            open.store.close().await.unwrap();
        });
        let disks = rig.groups.iter().chain([&rig.data]).map(|disk| disk.snapshot()).collect();
        let control = rig.run(rig.control.load()).unwrap();
        Machine { rig, disks, control, rows }
    }

    fn restore(&self) {
        let disks = self.rig.groups.iter().chain([&self.rig.data]);
        disks.zip(&self.disks).for_each(|(disk, was)| disk.replace_with_snapshot(was));
        self.rig.run(self.rig.control.store(self.control.clone())).unwrap();
    }

    /// Does these, with a crash so many steps into the last. False: it came to its end before.
    fn run(&self, ops: &[Op], point: u64) -> bool {
        self.restore();
        let (last, first) = ops.split_last().unwrap();
        let mut open = self.rig.run(async {
            let mut open = Open::new(&self.rig, &self.rows).await;
            for (version, op) in (1..).zip(first) {
                open.run(*op, version).await.unwrap();
            }
            open
        });
        self.rig.sim.crash_after(point);
        let done = self.rig.sim.run(open.run(*last, ops.len() as u8));
        self.rig.sim.crash();
        self.rig.sim.crash_never();
        self.rig.sim.restart();
        let is_cut = done.is_none();
        let may_be = match (last, is_cut) {
            (Op::Commit, true) => vec![open.committed, open.now],
            _ => vec![open.committed],
        };
        drop((open.store, open.transaction));
        let found = self.rig.run(self.found());
        assert!(may_be.contains(&found), "{ops:?} {point}: {found:?}, not {may_be:?}");
        is_cut
    }

    /// The rows that an opening finds, the same by the index and by a scan.
    async fn found(&self) -> Rows {
        let (store, session) = (self.rig.open().await.unwrap().0, self.rig.session());
        let view = store.view();
        let mut scanned = Rows::new();
        for (_, row) in view.scan(&session, TABLE).await.unwrap() {
            let (name, of) = (row[0], Row { length: row.len(), version: row[1] });
            assert_eq!(row, bytes(name, of));
            assert_eq!(scanned.insert(name, of), None, "there once");
        }
        let all = &[][..]..=&[0xFF; 3][..];
        let entries = view.range(&session, INDEX, all, false, 9).await.unwrap();
        let keys: Vec<Vec<u8>> = entries.iter().map(|(key, _)| key.clone()).collect();
        let wanted = scanned.iter().map(|(name, row)| vec![*name, row.version]);
        assert_eq!(keys, wanted.collect::<Vec<_>>());
        let table = TableOf { table: TABLE, indexes: vec![INDEX] };
        let report = view.verify(&session, &[table], None).await.unwrap();
        assert_eq!(report.findings, []);
        scanned.remove(&b'F').expect("the filler");
        scanned
    }

    /// All sequences that go on from these operations, up to so many.
    fn go_on(&self, ops: &mut Vec<Op>, rows: &Rows, is_changed: bool, depth: usize) -> [u64; 2] {
        let mut counts = [0, 0];
        for op in next(rows, is_changed, ops.last().copied()) {
            ops.push(op);
            // Until it is committed a change does nothing to a disk.
            if matches!(op, Op::Commit | Op::Checkpoint) {
                counts[0] += 1;
                counts[1] += (1..).take_while(|point| self.run(ops, *point)).count() as u64 + 1;
            }
            if ops.len() < depth {
                let is_changed = match op {
                    Op::Commit => false,
                    Op::Checkpoint => is_changed,
                    _ => true,
                };
                let rows = after(rows, op, ops.len() as u8);
                let more = self.go_on(ops, &rows, is_changed, depth);
                counts = [counts[0] + more[0], counts[1] + more[1]];
            }
            ops.pop();
        }
        counts
    }
}

#[test]
fn all_orders_of_a_few_changes_with_a_crash_at_each_step() {
    let depth = std::env::var("CELLAR_DEPTH").ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    let row = |length| Row { length, version: 0 };
    let begins = [
        Rows::new(),
        Rows::from([(b'A', row(SHORT)), (b'B', row(SHORT))]),
        Rows::from([(b'A', row(LONG)), (b'B', row(SHORT))]),
    ];
    for rows in begins {
        let machine = Machine::new(rows.clone());
        let [sequences, crashes] = machine.go_on(&mut Vec::new(), &rows, false, depth);
        println!("{} rows: {sequences} sequences, {crashes} crashes", rows.len());
        assert!(sequences > 20 && crashes > 3 * sequences, "{sequences} {crashes}");
    }
}
