//! Definitions as SQL: of indexes, constraints and names.

use std::borrow::Cow;

use cellar_instance::catalog::{Action, Constraint, Deferral};
use datafusion::common::TableReference;

use super::object::{Check, ForeignKey, Index, Object};
use super::qualified;
pub(super) use super::quoting::quoted;
use super::snapshot::Snapshot;

/// An object's qualified name.
pub(super) fn full_name(snapshot: &Snapshot, object: &Object) -> String {
    let schema = snapshot.schema(object.schema).map_or("public", |schema| &schema.name);
    format!("{}.{}", quoted(schema), quoted(&object.name))
}

/// An object's name, qualified if it is not found otherwise.
pub(super) fn short_name(snapshot: &Snapshot, object: &Object) -> String {
    match snapshot.is_visible(object) {
        true => quoted(&object.name),
        false => full_name(snapshot, object),
    }
}

fn column(table: &Object, number: i64) -> String {
    let at = usize::try_from(number - 1).ok();
    let own = at.and_then(|at| table.columns.get(at));
    own.map_or_else(|| "?".to_owned(), |own| quoted(&own.name))
}

/// The columns of an index.
fn columns(table: &Object, index: &Index, with_order: bool) -> String {
    let one = |(number, is_descending): &(i64, bool)| {
        let order = if with_order && *is_descending { " DESC" } else { "" };
        format!("{}{order}", column(table, *number))
    };
    index.columns.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// CREATE INDEX; or one of its columns, from 1.
pub(super) fn of_index(
    snapshot: &Snapshot,
    oid: u32,
    number: i64,
    is_pretty: bool,
) -> Option<String> {
    let index = snapshot.index(oid)?;
    let table = snapshot.object(index.table)?;
    if number > 0 {
        let at = usize::try_from(number - 1).ok()?;
        return Some(
            index.columns.get(at).map_or_else(String::new, |(own, _)| column(table, *own)),
        );
    }
    let unique = if index.is_unique { "UNIQUE " } else { "" };
    let of = match is_pretty {
        true => short_name(snapshot, table),
        false => full_name(snapshot, table),
    };
    let (own, columns) = (quoted(&index.name), columns(table, index, true));
    Some(format!("CREATE {unique}INDEX {own} ON {of} USING btree ({columns})"))
}

/// A check in the form of a constraint.
pub(super) fn of_check(check: &Check, is_pretty: bool) -> String {
    match is_pretty {
        true => format!("CHECK ({})", check.condition),
        false => format!("CHECK (({}))", check.condition),
    }
}

/// The text of ON DELETE or ON UPDATE.
pub(super) fn of_action(action: Action) -> &'static str {
    match action {
        Action::Nothing => "NO ACTION",
        Action::Restrict => "RESTRICT",
        Action::Cascade => "CASCADE",
        Action::Null => "SET NULL",
        Action::Default => "SET DEFAULT",
    }
}

/// A foreign key in the form of a constraint.
fn of_foreign(snapshot: &Snapshot, key: &ForeignKey) -> Option<String> {
    let (table, to) = (snapshot.object(key.table)?, snapshot.object(key.to)?);
    let names = |of: &Object, numbers: &[i64]| {
        numbers.iter().map(|number| column(of, *number)).collect::<Vec<_>>().join(", ")
    };
    let name = short_name(snapshot, to);
    let (own, other) = (names(table, &key.columns), names(to, &key.to_columns));
    let mut text = format!("FOREIGN KEY ({own}) REFERENCES {name}({other})");
    for (word, action) in [("UPDATE", key.on_update), ("DELETE", key.on_delete)] {
        if action != Action::Nothing {
            text += &format!(" ON {word} {}", of_action(action));
        }
    }
    text += match key.deferral {
        Deferral::Never => "",
        Deferral::Immediate => " DEFERRABLE",
        Deferral::Deferred => " DEFERRABLE INITIALLY DEFERRED",
    };
    Some(text)
}

/// A constraint, by its oid.
pub(super) fn of_constraint(snapshot: &Snapshot, oid: u32, is_pretty: bool) -> Option<String> {
    if let Some(check) = snapshot.checks.iter().find(|check| check.oid == oid) {
        return Some(of_check(check, is_pretty));
    }
    if let Some(key) = snapshot.foreign.iter().find(|key| key.oid == oid) {
        return of_foreign(snapshot, key);
    }
    let index = snapshot.index(oid)?;
    let word = match index.constraint? {
        Constraint::Primary => "PRIMARY KEY",
        Constraint::Unique => "UNIQUE",
    };
    let table = snapshot.object(index.table)?;
    Some(format!("{word} ({})", columns(table, index, false)))
}

/// The sequence that a DEFAULT draws values from.
pub(super) fn sequence_of<'s>(snapshot: &'s Snapshot, default: &str) -> Option<&'s Object> {
    let own = default.strip_prefix("nextval('")?.strip_suffix("'::regclass)")?;
    let reference = TableReference::parse_str(&own.replace("''", "'"));
    let schema = snapshot.schema_named(reference.schema()?)?;
    snapshot.named(schema.oid, reference.table())
}

/// A DEFAULT or a condition, written for the current search path.
pub(super) fn expression<'t>(snapshot: &Snapshot, text: &'t str) -> Cow<'t, str> {
    match sequence_of(snapshot, text) {
        Some(sequence) => {
            let name = short_name(snapshot, sequence).replace('\'', "''");
            format!("nextval('{name}'::regclass)").into()
        }
        None => text.into(),
    }
}

/// The query of a view: as it was written, if that has the same meaning with the current search path.
pub(super) fn of_view(snapshot: &Snapshot, oid: u32) -> Option<String> {
    let (query, renamed) = snapshot.queries.get(&oid)?;
    let query = query.trim().trim_end_matches(';').trim_end();
    let query = qualified::query(snapshot, query).map_or(Cow::Borrowed(query), Cow::Owned);
    if !renamed {
        return Some(format!(" {query};"));
    }
    // The names of its columns differ from those of its query.
    let view = snapshot.object(oid)?;
    let names: Vec<String> = view.columns.iter().map(|column| quoted(&column.name)).collect();
    let (own, names) = (quoted(&view.name), names.join(", "));
    Some(format!(" SELECT * FROM ({query}) AS {own} ({names});"))
}
