//! The catalog as rows of the heap: a row for each table, a row for each segment of a columnar one.
//!
//! | object | what it is | columns | key |
//! |---|---|---|---|
//! | 1 | objects | id, kind, schema, name, definition | |
//! | 2 | index of objects | | schema, name |
//! | 3 | segments | table, place, file, rows, row groups, bytes, created | |
//! | 4 | index of segments | | table, place |
//!
//! A definition is JSON; one that is long is in pages of its own. The object with an empty name is the
//! catalog itself: where its row is, the catalog is here, and nowhere else. Each change of the catalog is one
//! transaction, which locks table 1 against other changes.

use std::collections::{BTreeMap, BTreeSet};

use async_recursion::async_recursion as boxed;
use bytes::Bytes;
use cellar_heap::locks::{LockTimeout, Mode, Resource};
use cellar_heap::{
    Error as HeapError, Isolation, Key, LocksOf, LongValue, RowKey, RowRef, Transaction, View,
};
use cellar_page::row::{INLINE_BYTES_MAX, Type, Value, decode, encode};
use serde::{Deserialize, Serialize};

use super::{Heap, from_heap};
use crate::catalog::{Catalog, CatalogStore, STALE, Segment, StoreFuture, Table, name};
use crate::error::{Error, INTERNAL, NextStep, Result};

const OBJECTS: u32 = 1;
const NAMES: u32 = 2;
const SEGMENTS: u32 = 3;
const PLACES: u32 = 4;

/// The catalog's own tables and indexes, with the names that views give them.
pub(super) const OWN_NAMES: [(u32, &str); 4] = [
    (OBJECTS, "objects"),
    (NAMES, "objects_schema_name"),
    (SEGMENTS, "segments"),
    (PLACES, "segments_table_place"),
];

/// The counter of object numbers; those below its first value are the catalog's.
pub(super) const NUMBERS: u32 = 1;
pub(super) const FIRST_NUMBER: i64 = 64;

const OBJECT: [Type; 5] = [Type::Int8, Type::Text, Type::Text, Type::Text, Type::Text];
const SEGMENT: [Type; 7] =
    [Type::Int8, Type::Int4, Type::Text, Type::Int8, Type::Int4, Type::Int8, Type::Int8];

/// Kinds of objects.
const TABLE: &str = "table";
const CATALOG: &str = "catalog";

/// The definition of the catalog itself.
#[derive(Serialize, Deserialize)]
struct Itself {
    version: u32,
    serial: u64,
}

/// The catalog in the heap.
#[derive(Clone, Debug)]
pub(crate) struct HeapCatalog(pub Heap);

fn damaged(why: impl std::fmt::Display) -> Error {
    Error::new(70108, format!("the catalog is damaged: {why}"))
        .hint(NextStep::from("see what else is: ").cellar("validate", ""))
}

fn name_key(schema: &str, name: &str) -> RowKey {
    let mut bytes = Vec::new();
    cellar_page::key::push(&mut bytes, &Value::Text(schema), false);
    cellar_page::key::push(&mut bytes, &Value::Text(name), false);
    RowKey { key: Key { index: NAMES, bytes: bytes.into() }, is_unique: true }
}

fn place_key(table: u64, place: usize) -> RowKey {
    let mut bytes = Vec::new();
    cellar_page::key::push(&mut bytes, &Value::Int8(table.cast_signed()), false);
    cellar_page::key::push(&mut bytes, &Value::Int4(place_of(place)), false);
    RowKey { key: Key { index: PLACES, bytes: bytes.into() }, is_unique: true }
}

fn place_of(place: usize) -> i32 {
    i32::try_from(place).unwrap_or(i32::MAX)
}

fn json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Error::new(INTERNAL, format!("the catalog: {error}")))
}

/// A table without its segments, which have rows of their own.
fn definition(table: &Table) -> Result<String> {
    json(&Table { segments: Vec::new(), ..table.clone() })
}

impl CatalogStore for HeapCatalog {
    fn load(&self) -> StoreFuture<'_, Option<Catalog>> {
        Box::pin(async {
            let view = self.0.view()?;
            match self.read(&view).await {
                Err(HeapFault::Heap(HeapError::WrongObject { .. })) => Ok(None),
                Err(fault) => Err(fault.into()),
                Ok(read) => Ok(read),
            }
        })
    }

    fn replace<'a>(&'a self, now: &'a Catalog, next: &'a Catalog) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let store = self.0.store()?;
            let session = self.0.session();
            // A transaction that has locked a name waits for the turn that this change has: nobody may wait for it.
            let change = store.begin(&session, Isolation::ReadCommitted, LockTimeout::None);
            self.0.commit_change(change, now, next).await.map(drop)
        })
    }
}

/// The reasons why reading the catalog fails.
enum HeapFault {
    Heap(HeapError),
    Catalog(Error),
}

impl From<HeapError> for HeapFault {
    fn from(error: HeapError) -> HeapFault {
        HeapFault::Heap(error)
    }
}

impl From<Error> for HeapFault {
    fn from(error: Error) -> HeapFault {
        HeapFault::Catalog(error)
    }
}

impl From<HeapFault> for Error {
    fn from(fault: HeapFault) -> Error {
        match fault {
            HeapFault::Heap(error) => from_heap(error),
            HeapFault::Catalog(error) => error,
        }
    }
}

impl HeapCatalog {
    /// The catalog as a view sees it; `None`: it is not here.
    ///
    /// # Errors
    /// It is damaged; those of the heap.
    pub(super) async fn at(&self, view: &View) -> Result<Option<Catalog>> {
        Ok(self.read(view).await?)
    }

    /// The same, with the heap's own errors told apart.
    async fn read(&self, view: &View) -> std::result::Result<Option<Catalog>, HeapFault> {
        let session = self.0.session();
        let (mut itself, mut definitions) = (None, Vec::new());
        // Then it may be of several moments, and what cannot be read is left out.
        let is_ahead = self.0.is_ahead();
        for (_, row) in view.scan(&session, OBJECTS).await? {
            let values = decode(&row, &OBJECT).map_err(damaged)?;
            let [_, Value::Text(kind), _, Value::Text(name), definition] = values[..] else {
                return Err(damaged("a row of an object lacks values").into());
            };
            let long;
            let definition = match definition {
                Value::Text(text) => text,
                Value::Overflow { page, length } => {
                    long = match view.long(&session, OBJECTS, page, length).await {
                        Err(_) if is_ahead => continue,
                        read => read?,
                    };
                    std::str::from_utf8(&long).map_err(damaged)?
                }
                _ => return Err(damaged(format!("object \"{name}\" has no definition")).into()),
            };
            match kind {
                CATALOG => {
                    itself = Some(serde_json::from_str::<Itself>(definition).map_err(damaged)?)
                }
                TABLE => definitions.push(definition.to_owned()),
                other => return Err(damaged(format!("\"{name}\" is a {other}")).into()),
            }
        }
        let Some(Itself { version, serial }) = itself else { return Ok(None) };
        if version > crate::catalog::VERSION {
            let text =
                format!("the catalog has version {version}, which this program does not know");
            let error = Error::new(70109, text).hint("use the program that wrote it, or newer");
            return Err(error.into());
        }
        let table = |text: String| serde_json::from_str::<Table>(&text).map_err(damaged);
        let known = definitions.into_iter().map(table);
        let mut tables: Vec<Table> = match is_ahead {
            true => known.filter_map(Result::ok).collect(),
            false => known.collect::<Result<_>>().map_err(HeapFault::Catalog)?,
        };
        let mut segments = self.read_segments(view).await?;
        for table in &mut tables {
            let own = segments.remove(&table.id).unwrap_or_default();
            table.segments = own.into_values().collect();
        }
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        if is_ahead {
            tables.dedup_by(|a, b| a.name == b.name);
            segments.clear();
        }
        let catalog = Catalog { version, serial, tables };
        match (catalog.fault(), segments.pop_first()) {
            (Some(fault), _) => Err(damaged(fault).into()),
            (None, Some((table, _))) => Err(damaged(format!("no table has id {table:#x}")).into()),
            (None, None) => Ok(Some(catalog)),
        }
    }

    /// Segments, by the id of their table and their place in it.
    async fn read_segments(
        &self,
        view: &View,
    ) -> std::result::Result<BTreeMap<u64, BTreeMap<i32, Segment>>, HeapFault> {
        let session = self.0.session();
        let mut segments: BTreeMap<u64, BTreeMap<i32, Segment>> = BTreeMap::new();
        for (_, row) in view.scan(&session, SEGMENTS).await? {
            let values = decode(&row, &SEGMENT).map_err(damaged)?;
            let [
                Value::Int8(table),
                Value::Int4(place),
                Value::Text(file),
                Value::Int8(rows),
                Value::Int4(row_groups),
                Value::Int8(bytes),
                Value::Int8(created),
            ] = values[..]
            else {
                return Err(damaged("a row of a segment lacks values").into());
            };
            let segment = Segment {
                file: file.to_owned(),
                rows: rows.cast_unsigned(),
                row_groups: row_groups.cast_unsigned(),
                bytes: bytes.cast_unsigned(),
                created: created.cast_unsigned(),
            };
            segments.entry(table.cast_unsigned()).or_default().insert(place, segment);
        }
        Ok(segments)
    }

    /// Makes the tables that hold the catalog, as far as they are missing.
    ///
    /// # Errors
    /// No room; those of the log.
    #[boxed]
    pub(crate) async fn make(&self) -> Result<()> {
        let (store, session) = (self.0.store()?, self.0.session());
        let made = [
            store.create_table(&session, OBJECTS).await,
            store.create_index(&session, NAMES).await,
            store.create_table(&session, SEGMENTS).await,
            store.create_index(&session, PLACES).await,
            store.create_counter(&session, NUMBERS, FIRST_NUMBER).await,
        ];
        for made in made {
            match made {
                // A crash has come before the catalog, and behind this.
                Ok(()) | Err(HeapError::WrongObject { .. }) => {}
                Err(error) => return Err(from_heap(error)),
            }
        }
        Ok(())
    }
}

impl Heap {
    /// Commits a transaction that turns the catalog `now` into `next`; returns the LSN. The locks are
    /// held until the returned value is dropped.
    pub(super) async fn commit_change(
        &self,
        mut change: Transaction,
        now: &Catalog,
        next: &Catalog,
    ) -> Result<(LocksOf, u64)> {
        write(&mut change, now, next).await?;
        let (committed, locks) = change.commit_locked().await.map_err(from_heap)?;
        self.catalog_changed(committed.lsn);
        Ok((locks, committed.lsn))
    }
}

/// Locks the name of an object until a transaction ends, even a name that nothing has; its schema stays
/// meanwhile.
pub(super) async fn lock_name(
    change: &mut Transaction,
    key: &str,
) -> std::result::Result<(), HeapError> {
    let (schema, name) = name::parts(key);
    if schema != name::PUBLIC && !schema.is_empty() && !name.is_empty() {
        change.lock_key(&name_key(schema, "").key, Mode::Share).await?;
    }
    change.lock_key(&name_key(schema, name).key, Mode::Exclusive).await
}

/// Keeps the name of an object until a transaction ends: nobody drops or renames it meanwhile.
pub(super) async fn keep_name(
    change: &mut Transaction,
    key: &str,
) -> std::result::Result<(), HeapError> {
    let (schema, name) = name::parts(key);
    change.lock_key(&name_key(schema, name).key, Mode::Share).await
}

/// Turns the catalog `now` into `next` within a transaction. Nobody else changes it until the transaction
/// ends.
async fn write(change: &mut Transaction, now: &Catalog, next: &Catalog) -> Result<()> {
    change.lock(Resource::Table(OBJECTS), Mode::Exclusive).await.map_err(from_heap)?;
    change.begin_statement().await.map_err(from_heap)?;
    // Memory may be older than the heap, if somebody was cut off in the middle of a change.
    if let Some(found) = stored(change).await?
        && found.serial != now.serial
    {
        return Err(stale());
    }
    check_names(next)?;
    let by_name = |catalog: &Catalog| -> BTreeMap<String, Table> {
        catalog.tables.iter().map(|table| (table.name.clone(), table.clone())).collect()
    };
    let (before, after) = (by_name(now), by_name(next));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        let (old, new) = (before.get(name), after.get(name));
        let (old, new) = (old.map(definition).transpose()?, new.map(definition).transpose()?);
        if old != new {
            let (schema, name) = name::parts(name);
            put_object(change, (schema, TABLE, name), new).await?;
        }
    }
    let by_id = |catalog: &Catalog| -> BTreeMap<u64, Vec<Segment>> {
        catalog.columnar_tables().map(|table| (table.id, table.segments.clone())).collect()
    };
    let (before, after) = (by_id(now), by_id(next));
    let ids: BTreeSet<u64> = before.keys().chain(after.keys()).copied().collect();
    for id in ids {
        let segments = |of: &BTreeMap<u64, Vec<Segment>>| of.get(&id).cloned().unwrap_or_default();
        put_segments(change, id, &segments(&before), &segments(&after)).await?;
    }
    let itself = json(&Itself { version: next.version, serial: next.serial })?;
    put_object(change, ("", CATALOG, ""), Some(itself)).await
}

/// The catalog's own tables, and their indexes.
pub(super) const OWN_TABLES: [(u32, u32); 2] = [(OBJECTS, NAMES), (SEGMENTS, PLACES)];

/// The keys of a row of one of the catalog's own tables; `None`: it cannot be read.
pub(super) fn keys_of(table: u32, row: &[u8]) -> Option<Vec<RowKey>> {
    match table {
        OBJECTS => match decode(row, &OBJECT).ok()?[..] {
            [_, _, Value::Text(schema), Value::Text(name), _] => Some(vec![name_key(schema, name)]),
            _ => None,
        },
        SEGMENTS => match decode(row, &SEGMENT).ok()?[..] {
            [Value::Int8(table), Value::Int4(place), ..] => {
                let place = usize::try_from(place).ok()?;
                Some(vec![place_key(table.cast_unsigned(), place)])
            }
            _ => None,
        },
        _ => None,
    }
}

/// The long values of a row of one of the catalog's own tables; `None`: it cannot be read.
pub(super) fn longs_of(table: u32, row: &[u8]) -> Option<Vec<LongValue>> {
    match table {
        OBJECTS => match decode(row, &OBJECT).ok()?.get(4) {
            Some(Value::Overflow { page, length }) => {
                Some(vec![LongValue { page: *page, length: *length }])
            }
            _ => Some(Vec::new()),
        },
        SEGMENTS => Some(Vec::new()),
        _ => None,
    }
}

/// What is kept of the catalog itself.
async fn stored(change: &mut Transaction) -> Result<Option<Itself>> {
    let bytes = name_key("", "").key.bytes;
    let found = change.range(NAMES, bytes.clone()..=bytes).await.map_err(from_heap)?;
    let Some((_, row)) = found.into_iter().next() else { return Ok(None) };
    let row = change.row(OBJECTS, row).await.map_err(from_heap)?;
    let values = row.as_ref().map(|row| decode(row, &OBJECT)).transpose().map_err(damaged)?;
    match values.as_deref() {
        Some([_, _, _, _, Value::Text(text)]) => {
            serde_json::from_str(text).map(Some).map_err(damaged)
        }
        _ => Err(damaged("the row of the catalog itself lacks values")),
    }
}

/// The catalog in memory is not the one that is kept.
fn stale() -> Error {
    Error::new(STALE, "the catalog was changed meanwhile").hint("run the statement again")
}

/// Refuses names that the heap cannot keep.
///
/// # Errors
/// 00972.
pub(crate) fn check_names(catalog: &Catalog) -> Result<()> {
    match catalog.tables.iter().find(|table| table.name.len() > NAME_MAX) {
        None => Ok(()),
        Some(table) => {
            let name: String = table.name.chars().take(40).collect();
            let text = format!("the name of table \"{name}...\" has more than {NAME_MAX} bytes");
            Err(Error::new(972, text).hint("drop it, and make it with a shorter one"))
        }
    }
}

/// The longest name of a table, in bytes.
const NAME_MAX: usize = 1000;

/// The row and the id of the object with a name. A long definition is freed: it is about to change.
async fn take_object(change: &mut Transaction, key: &RowKey) -> Result<Option<(RowRef, i64)>> {
    let bytes = &key.key.bytes;
    let found = change.range(NAMES, bytes.clone()..=bytes.clone()).await.map_err(from_heap)?;
    let Some((_, row)) = found.into_iter().next() else { return Ok(None) };
    let bytes = change.lock_row(OBJECTS, row, Mode::Exclusive).await.map_err(from_heap)?;
    let values = bytes.as_ref().map(|bytes| decode(bytes, &OBJECT)).transpose().map_err(damaged)?;
    match values.as_deref() {
        None => Ok(None),
        Some([Value::Int8(id), _, _, _, definition]) => {
            if let Value::Overflow { page, .. } = definition {
                change.free_long(OBJECTS, *page).await.map_err(from_heap)?;
            }
            Ok(Some((row, *id)))
        }
        Some(_) => Err(damaged("a row of an object lacks values")),
    }
}

/// Makes, changes or (`None`) removes the object with a name.
async fn put_object(
    change: &mut Transaction,
    (schema, kind, name): (&str, &str, &str),
    definition: Option<String>,
) -> Result<()> {
    let key = name_key(schema, name);
    let old = take_object(change, &key).await?;
    let Some(definition) = definition else {
        if let Some((row, _)) = old {
            change.delete(OBJECTS, row, vec![key]).await.map_err(from_heap)?;
        }
        return Ok(());
    };
    let id = match old {
        Some((_, id)) => id,
        None if kind == CATALOG => 0,
        None => change.take(NUMBERS, 1).await.map_err(from_heap)?,
    };
    let text = match definition.len() > INLINE_BYTES_MAX {
        false => Value::Text(&definition),
        true => {
            let bytes = Bytes::copy_from_slice(definition.as_bytes());
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let page = change.put_long(OBJECTS, bytes).await.map_err(from_heap)?;
            Value::Overflow { page, length }
        }
    };
    let values = [Value::Int8(id), Value::Text(kind), Value::Text(schema), Value::Text(name), text];
    let row = Bytes::from(encode(&values));
    match old {
        Some((at, _)) => {
            change.update((OBJECTS, at), row, Vec::new(), Vec::new()).await.map_err(from_heap)
        }
        None => change.insert(OBJECTS, row, vec![key]).await.map(|_| ()).map_err(from_heap),
    }
}

/// Makes the segments of a table match a list: all from the first difference on are written anew.
async fn put_segments(
    change: &mut Transaction,
    table: u64,
    old: &[Segment],
    new: &[Segment],
) -> Result<()> {
    let same = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    for place in same..old.len() {
        let key = place_key(table, place);
        let bytes = key.key.bytes.clone();
        let found = change.range(PLACES, bytes.clone()..=bytes).await.map_err(from_heap)?;
        let Some((_, row)) = found.into_iter().next() else {
            return Err(damaged(format!("segment {place} of table {table:#x} is missing")));
        };
        change.delete(SEGMENTS, row, vec![key]).await.map_err(from_heap)?;
    }
    for (place, segment) in new.iter().enumerate().skip(same) {
        let Segment { file, rows, row_groups, bytes, created } = segment;
        let row = encode(&[
            Value::Int8(table.cast_signed()),
            Value::Int4(place_of(place)),
            Value::Text(file),
            Value::Int8(rows.cast_signed()),
            Value::Int4(row_groups.cast_signed()),
            Value::Int8(bytes.cast_signed()),
            Value::Int8(created.cast_signed()),
        ]);
        let keys = vec![place_key(table, place)];
        change.insert(SEGMENTS, row.into(), keys).await.map_err(from_heap)?;
    }
    Ok(())
}
