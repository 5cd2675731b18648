//! A client: transactions by chance, one after another, and a note of each thing that it is told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cellar_heap::locks::{LockTimeout, Mode};
use cellar_heap::{Error, Isolation, RowId, RowRef, Savepoint, Store, Transaction};
use cellar_io::sim::Rng;
use cellar_io::{EnvExt, SharedEnv};
use cellar_wait::Session;

use super::history::{End, History, Level, Read, Step, Tick};
use super::row::{BY_EPOCH, BY_KEY, LIST_MAX, ORPHANS, PARENTS, ROWS, Row};

/// Why a transaction does not go on.
enum Stop {
    /// It was refused something, as may be.
    Refused,
    /// What it was told must not be.
    Surprise(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        match error {
            Error::Lock(_) | Error::Serialization { .. } | Error::Full { .. } => Stop::Refused,
            other => Stop::Surprise(other.to_string()),
        }
    }
}

pub struct Client {
    pub number: usize,
    pub rng: Rng,
    pub store: Store,
    pub session: Session,
    pub env: SharedEnv,
    /// The parents of the keys, by their numbers.
    pub parents: Arc<Vec<RowId>>,
    /// The longest pause in microseconds.
    pub pause_max: u64,
    pub history: Arc<Mutex<History>>,
}

/// A transaction, and what its client knows of it.
struct Open {
    transaction: Transaction,
    level: Level,
    /// Its number in the history.
    at: usize,
    /// When its point was taken.
    point: Option<Tick>,
    /// Its appends that were not taken back.
    appends: Vec<(u8, u32)>,
}

impl Open {
    /// The last number that it has appended to a list.
    fn own(&self, key: u8) -> Option<u32> {
        self.appends.iter().rfind(|(of, _)| *of == key).map(|(_, number)| *number)
    }
}

/// A row of a key that lives, or none, and what holds the list.
type Place = (Option<RowRef>, Row);

impl Client {
    pub async fn run(mut self, transactions: u64) {
        for _ in 0..transactions {
            self.pause(3).await;
            let mut open = self.begin();
            let steps = self.rng.within(1..=6);
            let done = self.steps(&mut open, steps).await;
            self.finish(open, done).await;
        }
    }

    /// Reads all keys at one point.
    pub async fn read_all(mut self) {
        let mut open = self.begin_with(Level::Snapshot, LockTimeout::Forever);
        let mut done = self.begin_statement(&mut open).await;
        let keys = 0..self.parents.len() as u8 + ORPHANS;
        for key in keys {
            done = done.and(self.read(&mut open, key).await);
        }
        self.finish(open, done).await;
    }

    async fn pause(&mut self, one_in: u64) {
        if self.rng.one_in(one_in) {
            self.env.sleep(Duration::from_micros(self.rng.below(self.pause_max))).await;
        }
    }

    fn note<T>(&self, what: impl FnOnce(&mut History) -> T) -> T {
        what(&mut self.history.lock().unwrap())
    }

    fn begin(&mut self) -> Open {
        let level = if self.rng.coin() { Level::Snapshot } else { Level::ReadCommitted };
        let timeout = match self.rng.below(4) {
            0 => LockTimeout::None,
            1 => LockTimeout::Until(Duration::from_micros(self.rng.within(100..=3000))),
            _ => LockTimeout::Forever,
        };
        self.begin_with(level, timeout)
    }

    fn begin_with(&mut self, level: Level, timeout: LockTimeout) -> Open {
        let isolation = match level {
            Level::ReadCommitted => Isolation::ReadCommitted,
            Level::Snapshot => Isolation::Snapshot,
        };
        let at = self.note(|history| history.begin(self.number, level));
        let transaction = self.store.begin(&self.session, isolation, timeout);
        Open { transaction, level, at, point: None, appends: Vec::new() }
    }

    async fn begin_statement(&mut self, open: &mut Open) -> Result<(), Stop> {
        let now = self.note(History::tick);
        if open.level == Level::ReadCommitted || open.point.is_none() {
            open.point = Some(now);
        }
        Ok(open.transaction.begin_statement().await?)
    }

    async fn steps(&mut self, open: &mut Open, steps: u64) -> Result<(), Stop> {
        let mut savepoint: Option<(Savepoint, usize)> = None;
        for _ in 0..steps {
            self.pause(3).await;
            let here = (open.transaction.savepoint(), open.appends.len());
            match (self.rng.below(8), savepoint) {
                (0, None) => savepoint = Some(here),
                (0 | 1, Some(before)) => {
                    self.rollback_to(open, before);
                    savepoint = None;
                }
                _ => match self.statement(open).await {
                    Err(Stop::Refused) if self.rng.coin() => self.rollback_to(open, here),
                    other => other?,
                },
            }
        }
        Ok(())
    }

    fn rollback_to(&self, open: &mut Open, (savepoint, appends): (Savepoint, usize)) {
        open.transaction.rollback_to(savepoint);
        open.appends.truncate(appends);
        self.note(|history| history.add(open.at, Step::RollbackTo(appends)));
    }

    async fn finish(&mut self, open: Open, done: Result<(), Stop>) {
        let Open { transaction, at, .. } = open;
        if let Err(Stop::Surprise(what)) = &done {
            self.note(|history| history.surprises.push(format!("{at}: {what}")));
        }
        if done.is_err() || self.rng.one_in(8) {
            return transaction.rollback();
        }
        self.note(|history| history.end(at, End::Unknown));
        match transaction.commit().await {
            Ok(_) => self.note(|history| {
                let now = history.tick();
                history.end(at, End::Committed(now));
            }),
            Err(Error::Full { .. }) => self.note(|history| history.end(at, End::Aborted)),
            Err(error) => self.note(|history| history.surprises.push(format!("{at}: {error}"))),
        }
    }

    /// One of the keys with parents, or the orphan whose time it is.
    fn key(&mut self) -> u8 {
        let parents = self.parents.len() as u8;
        if !self.rng.one_in(5) {
            return self.rng.below(u64::from(parents)) as u8;
        }
        let age = self.note(|history| history.transactions.len()) / 8;
        parents + (age % usize::from(ORPHANS)) as u8
    }

    fn parent(&self, key: u8) -> Option<RowRef> {
        self.parents.get(usize::from(key)).map(|id| RowRef::Stored(*id))
    }

    async fn statement(&mut self, open: &mut Open) -> Result<(), Stop> {
        let key = self.key();
        match self.rng.below(6) {
            0 | 1 => {
                self.begin_statement(open).await?;
                for _ in 0..self.rng.within(1..=3) {
                    let key = self.key();
                    self.read(open, key).await?;
                    self.pause(4).await;
                }
                Ok(())
            }
            2 => {
                let mode = if self.rng.coin() { Mode::Share } else { Mode::Exclusive };
                self.lock(open, key, mode).await.map(drop)
            }
            _ => self.append(open, key).await,
        }
    }

    /// Reads a list at the point of the statement.
    async fn read(&mut self, open: &mut Open, key: u8) -> Result<(), Stop> {
        let (_, row) = self.look(open, key).await?;
        self.note_read(open, row, open.point.unwrap_or_default(), false);
        Ok(())
    }

    fn note_read(&self, open: &Open, Row { key, list, .. }: Row, from: Tick, is_locking: bool) {
        self.note(|history| {
            let to = history.tick();
            history.add(open.at, Step::Read(Read { key, list, from, to, is_locking }));
        });
    }

    /// Finds the list of a key by one of its indexes, or in its parent.
    async fn look(&mut self, open: &mut Open, key: u8) -> Result<Place, Stop> {
        let (index, last) = match self.rng.one_in(3) {
            true => (BY_EPOCH, vec![key, 0xFF, 0xFF, 0xFF, 0xFF]),
            false => (BY_KEY, vec![key]),
        };
        let keys = Bytes::from(vec![key])..=Bytes::from(last);
        // At READ COMMITTED a row that was locked may be newer than what the statement sees: beside its own
        // rows a transaction may find one that is already gone.
        let own = open.own(key);
        let is_it = |row: &Row| {
            let has_own = own.is_none_or(|own| row.list.contains(&own));
            row.key == key && row.is_live && has_own
        };
        let mut found: Option<Place> = None;
        for (_, at) in open.transaction.range(index, keys).await? {
            let row = open.transaction.row(ROWS, at).await?.map(|bytes| Row::decode(&bytes));
            match row.filter(is_it) {
                Some(row) => {
                    let other =
                        found.replace((Some(at), row)).filter(|(other, _)| *other != Some(at));
                    if let Some(other) = other {
                        let what = format!("key {key} has two rows, {other:?} and {found:?}");
                        return Err(Stop::Surprise(what));
                    }
                }
                None if own.is_some() => {}
                None => return Err(Stop::Surprise(format!("{at:?} is not of key {key}"))),
            }
            self.pause(20).await;
        }
        let Some(parent) = self.parent(key) else {
            let none = Row { key, is_live: false, epoch: 0, list: Vec::new() };
            return Ok(found.unwrap_or((None, none)));
        };
        let parent = open.transaction.row(PARENTS, parent).await?;
        let parent = parent.map(|bytes| Row::decode(&bytes));
        let Some(parent) = parent.filter(|parent| parent.key == key) else {
            return Err(Stop::Surprise(format!("key {key} has no parent")));
        };
        if parent.is_live != found.is_some() && own.is_none() {
            let what = format!("key {key}: {found:?}, its parent says {}", parent.is_live);
            return Err(Stop::Surprise(what));
        }
        Ok(found.unwrap_or((None, parent)))
    }

    /// Locks the list of a key, as it is by then.
    async fn lock(&mut self, open: &mut Open, key: u8, mode: Mode) -> Result<Place, Stop> {
        for _ in 0..6 {
            self.begin_statement(open).await?;
            let (at, seen) = self.look(open, key).await?;
            let from = match open.level {
                Level::ReadCommitted => self.note(History::tick),
                Level::Snapshot => open.point.unwrap_or_default(),
            };
            let what = match (at, self.parent(key)) {
                (Some(at), _) => (ROWS, at),
                (None, Some(parent)) => (PARENTS, parent),
                (None, None) => return Ok((None, seen)),
            };
            let locked = open.transaction.lock_row(what.0, what.1, mode).await?;
            let row = locked.map(|bytes| Row::decode(&bytes));
            if let Some(other) = row.as_ref().filter(|row| row.key != key) {
                let what = format!("the place of key {key} became {other:?} under a view of it");
                return Err(Stop::Surprise(what));
            }
            if let Some(row) = row.filter(|row| row.is_live == at.is_some()) {
                self.note_read(open, row.clone(), from, true);
                return Ok((at, row));
            }
            if open.level == Level::Snapshot {
                return Err(Stop::Surprise(format!("a snapshot lost key {key} at {at:?}")));
            }
            // It has moved meanwhile, and where to is seen when that is durable.
            self.env.sleep(Duration::from_micros(self.rng.within(50..=500))).await;
        }
        Err(Stop::Refused)
    }

    /// Appends a number to a list, in one of the ways in which a row can change.
    async fn append(&mut self, open: &mut Open, key: u8) -> Result<(), Stop> {
        let (at, before) = self.lock(open, key, Mode::Exclusive).await?;
        if before.list.len() >= LIST_MAX {
            return Ok(());
        }
        self.pause(4).await;
        let number = self.note(History::number);
        let mut after = Row { is_live: true, ..before.clone() };
        after.list.push(number);
        let padding = if self.rng.one_in(6) { self.rng.below(1500) } else { 0 } as usize;
        let has_no_parent = self.parent(key).is_none();
        let transaction = &mut open.transaction;
        match (at, self.rng.below(12)) {
            (None, _) => {
                after.epoch = number;
                let inserted = transaction.insert(ROWS, after.encode(padding), after.keys()).await;
                match inserted {
                    // Somebody else was faster.
                    Err(Error::Duplicate { index: BY_KEY, .. }) if has_no_parent => {
                        return Err(Stop::Refused);
                    }
                    inserted => drop(inserted?),
                }
                let empty = Row { list: Vec::new(), ..after };
                self.change_parent(open, &empty).await?;
            }
            (Some(at), 0) if !has_no_parent => {
                transaction.delete(ROWS, at, before.keys()).await?;
                after.is_live = false;
                self.change_parent(open, &after).await?;
            }
            (Some(at), 1 | 2) => {
                after.epoch = number;
                transaction.delete(ROWS, at, before.keys()).await?;
                transaction.insert(ROWS, after.encode(padding), after.keys()).await?;
            }
            (Some(at), 3 | 4) => {
                after.epoch = number;
                let (gone, new) = (vec![before.by_epoch()], vec![after.by_epoch()]);
                transaction.update((ROWS, at), after.encode(padding), gone, new).await?;
            }
            (Some(at), _) => {
                let bytes = after.encode(padding);
                transaction.update((ROWS, at), bytes, Vec::new(), Vec::new()).await?;
            }
        }
        self.note_append(open, key, number);
        Ok(())
    }

    fn note_append(&self, open: &mut Open, key: u8, number: u32) {
        open.appends.push((key, number));
        self.note(|history| history.add(open.at, Step::Append { key, number }));
    }

    /// Changes the parent of a key, which says otherwise so far.
    async fn change_parent(&mut self, open: &mut Open, after: &Row) -> Result<(), Stop> {
        let Some(parent) = self.parent(after.key) else { return Ok(()) };
        let before = open.transaction.lock_row(PARENTS, parent, Mode::Exclusive).await?;
        let before = before.map(|bytes| Row::decode(&bytes));
        if before.as_ref().is_none_or(|before| before.is_live == after.is_live) {
            return Err(Stop::Surprise(format!("{before:?} becomes {after:?}")));
        }
        let bytes = after.encode(self.rng.below(100) as usize);
        open.transaction.update((PARENTS, parent), bytes, Vec::new(), Vec::new()).await?;
        Ok(())
    }
}
