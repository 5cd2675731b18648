//! Rows about keys: indexes, constraints and sequences.

use cellar_instance::catalog::{Action, Constraint, Deferral};

use super::super::constants::DEFAULT_COLLATION_OID;
use super::super::definition;
use super::super::object::{Index, Sequence};
use super::super::types;
use super::super::value::{Rows, Value};
use super::language::class_of;
use super::{Make, Seen};

pub(super) fn of(name: &str) -> Option<Make> {
    Some(match name {
        "pg_index" => indexes,
        "pg_indexes" => index_texts,
        "pg_constraint" => constraints,
        "pg_sequence" => sequences,
        "pg_sequences" => sequence_texts,
        _ => return None,
    })
}

fn indexes(seen: &Seen<'_>, rows: &mut Rows) {
    for index in &seen.snapshot.indexes {
        let count = Value::Int(i64::try_from(index.columns.len()).unwrap_or(i64::MAX));
        let table = seen.snapshot.object(index.table);
        let type_of = |number: i64| {
            let at = usize::try_from(number - 1).ok()?;
            table?.columns.get(at).map(|column| column.of)
        };
        let types: Vec<u32> =
            index.columns.iter().map(|(number, _)| type_of(*number).unwrap_or(0)).collect();
        let collation = |of: &u32| match types::by_oid(*of) {
            Some(of) if of.collation != 0 => DEFAULT_COLLATION_OID,
            _ => 0,
        };
        let is_primary = index.constraint == Some(Constraint::Primary);
        rows.add([
            ("indexrelid", index.oid.into()),
            ("indrelid", index.table.into()),
            ("indnatts", count.clone()),
            ("indnkeyatts", count),
            ("indisunique", index.is_unique.into()),
            ("indisprimary", is_primary.into()),
            ("indimmediate", true.into()),
            ("indisvalid", true.into()),
            ("indisready", true.into()),
            ("indislive", true.into()),
            ("indkey", Value::Ints(index.columns.iter().map(|(number, _)| *number).collect())),
            ("indcollation", Value::Oids(types.iter().map(collation).collect())),
            ("indclass", Value::Oids(types.iter().map(|of| class_of(*of)).collect())),
            // DESC, and with it NULLS FIRST.
            (
                "indoption",
                Value::Ints(index.columns.iter().map(|(_, d)| 3 * i64::from(*d)).collect()),
            ),
        ]);
    }
}

fn index_texts(seen: &Seen<'_>, rows: &mut Rows) {
    let snapshot = &seen.snapshot;
    for index in &snapshot.indexes {
        let Some(table) = snapshot.object(index.table) else { continue };
        rows.add([
            ("schemaname", snapshot.schema(table.schema).map(|own| own.name.clone()).into()),
            ("tablename", table.name.clone().into()),
            ("indexname", index.name.clone().into()),
            ("indexdef", definition::of_index(snapshot, index.oid, 0, false).into()),
        ]);
    }
}

fn letter(index: &Index) -> Option<&'static str> {
    Some(match index.constraint? {
        Constraint::Primary => "p",
        Constraint::Unique => "u",
    })
}

fn constraints(seen: &Seen<'_>, rows: &mut Rows) {
    let snapshot = &seen.snapshot;
    let schema = |table: u32| Value::Oid(snapshot.object(table).map_or(0, |table| table.schema));
    for index in &snapshot.indexes {
        let Some(kind) = letter(index) else { continue };
        rows.add([
            ("oid", index.oid.into()),
            ("conname", index.name.clone().into()),
            ("connamespace", schema(index.table)),
            ("contype", kind.into()),
            ("convalidated", true.into()),
            ("conrelid", index.table.into()),
            ("conindid", index.oid.into()),
            ("confupdtype", " ".into()),
            ("confdeltype", " ".into()),
            ("confmatchtype", " ".into()),
            ("conislocal", true.into()),
            ("connoinherit", true.into()),
            ("conkey", Value::Ints(index.columns.iter().map(|(number, _)| *number).collect())),
        ]);
    }
    for check in &snapshot.checks {
        rows.add([
            ("oid", check.oid.into()),
            ("conname", check.name.clone().into()),
            ("connamespace", schema(check.table)),
            ("contype", "c".into()),
            ("convalidated", true.into()),
            ("conrelid", check.table.into()),
            ("confupdtype", " ".into()),
            ("confdeltype", " ".into()),
            ("confmatchtype", " ".into()),
            ("conislocal", true.into()),
            ("conkey", Value::Ints(check.columns.clone())),
            ("conbin", check.condition.clone().into()),
        ]);
    }
    foreign_keys(seen, rows);
}

/// The action on rows, as in pg_constraint.
fn letter_of(action: Action) -> &'static str {
    match action {
        Action::Nothing => "a",
        Action::Restrict => "r",
        Action::Cascade => "c",
        Action::Null => "n",
        Action::Default => "d",
    }
}

fn foreign_keys(seen: &Seen<'_>, rows: &mut Rows) {
    let snapshot = &seen.snapshot;
    for key in &snapshot.foreign {
        let schema = snapshot.object(key.table).map_or(0, |table| table.schema);
        rows.add([
            ("oid", key.oid.into()),
            ("conname", key.name.clone().into()),
            ("connamespace", Value::Oid(schema)),
            ("contype", "f".into()),
            ("condeferrable", (key.deferral != Deferral::Never).into()),
            ("condeferred", (key.deferral == Deferral::Deferred).into()),
            ("convalidated", true.into()),
            ("conrelid", key.table.into()),
            ("conindid", key.index.into()),
            ("confrelid", key.to.into()),
            ("confupdtype", letter_of(key.on_update).into()),
            ("confdeltype", letter_of(key.on_delete).into()),
            ("confmatchtype", "s".into()),
            ("conislocal", true.into()),
            ("connoinherit", true.into()),
            ("conkey", Value::Ints(key.columns.clone())),
            ("confkey", Value::Ints(key.to_columns.clone())),
        ]);
    }
}

/// The oid of the type of a sequence's values.
fn type_of(sequence: &Sequence) -> u32 {
    types::named(sequence.of.name()).map_or(20, |of| of.oid)
}

fn sequences(seen: &Seen<'_>, rows: &mut Rows) {
    for own in &seen.snapshot.sequences {
        rows.add([
            ("seqrelid", own.oid.into()),
            ("seqtypid", type_of(own).into()),
            ("seqstart", own.start.into()),
            ("seqincrement", own.increment.into()),
            ("seqmax", own.most.into()),
            ("seqmin", own.least.into()),
            ("seqcache", own.cache.into()),
            ("seqcycle", own.cycles.into()),
        ]);
    }
}

fn sequence_texts(seen: &Seen<'_>, rows: &mut Rows) {
    let (snapshot, acls) = (&seen.snapshot, seen.acls());
    for own in &snapshot.sequences {
        let Some(object) = snapshot.object(own.oid) else { continue };
        rows.add([
            ("schemaname", snapshot.schema(object.schema).map(|own| own.name.clone()).into()),
            ("sequencename", object.name.clone().into()),
            ("sequenceowner", acls.role(acls.owner(object)).into()),
            ("data_type", own.of.name().into()),
            ("start_value", own.start.into()),
            ("min_value", own.least.into()),
            ("max_value", own.most.into()),
            ("increment_by", own.increment.into()),
            ("cycle", own.cycles.into()),
            ("cache_size", own.cache.into()),
        ]);
    }
}
