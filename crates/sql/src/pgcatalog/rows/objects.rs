//! Rows about objects: pg_class and related relations.

use super::super::constants::{
    BTREE_OID, COLUMNAR_OID, DEFAULT_COLLATION_OID, EXTENSION_OID, FILES_SERVER_OID,
    FILES_WRAPPER_OID, HEAP_OID, OWNER_OID, PUBLIC_OID, VIEWS_OID,
};
use super::super::definition;
use super::super::object::{Column, Kind, Object};
use super::super::snapshot::{Snapshot, number_of};
use super::super::types;
use super::super::value::{Rows, Value};
use super::{Make, Seen};
use cellar_instance::catalog::Identity;

/// Oids of catalogs that are referred to elsewhere.
pub(crate) const CLASS: u32 = 1259;
pub(crate) const CONSTRAINT: u32 = 2606;
pub(crate) const NAMESPACE: u32 = 2615;
const ATTRDEF: u32 = 2604;
const TYPE: u32 = 1247;
const REWRITE: u32 = 2618;
const EXTENSION: u32 = 3079;
const SERVER: u32 = 1417;
const WRAPPER: u32 = 2328;

pub(super) fn of(name: &str) -> Option<Make> {
    Some(match name {
        "pg_class" => classes,
        "pg_namespace" => namespaces,
        "pg_attribute" => attributes,
        "pg_attrdef" => defaults,
        "pg_description" => descriptions,
        "pg_depend" => dependencies,
        "pg_rewrite" => rules,
        "pg_tables" => tables,
        "pg_views" => views,
        "pg_foreign_table" => foreign_tables,
        _ => return None,
    })
}

/// The access method of an object.
fn method(object: &Object) -> u32 {
    match object.kind {
        Kind::Heap => HEAP_OID,
        Kind::Columnar { .. } => COLUMNAR_OID,
        Kind::Index => BTREE_OID,
        Kind::System(relation) if relation.kind == "r" => HEAP_OID,
        _ => 0,
    }
}

fn classes(seen: &Seen<'_>, rows: &mut Rows) {
    let snapshot = &seen.snapshot;
    let acls = seen.acls();
    for object in &snapshot.objects {
        let table = acls.table(object);
        let (pages, count) = match (object.kind, seen.sizes.get(&object.oid)) {
            (Kind::Columnar { rows, bytes }, _) => (bytes.div_ceil(8192), rows as f64),
            (_, Some((pages, rows))) => (*pages, *rows as f64),
            (Kind::Heap, None) => (0, -1.0),
            _ => (0, 0.0),
        };
        let checks = snapshot.checks.iter().filter(|check| check.table == object.oid).count();
        let has_index = snapshot.indexes_of(object.oid).next().is_some();
        // PostgreSQL enforces foreign keys by triggers on both tables: clients look for them if there
        // are foreign keys.
        let refers = snapshot.foreign.iter().any(|key| [key.table, key.to].contains(&object.oid));
        let count_of = |count: usize| Value::Int(i64::try_from(count).unwrap_or(i64::MAX));
        let is_view = object.kind.letter() == "v";
        rows.add([
            ("oid", object.oid.into()),
            ("relname", object.name.clone().into()),
            ("relnamespace", object.schema.into()),
            ("relowner", acls.owner(object).into()),
            ("relam", method(object).into()),
            ("relfilenode", if is_view { Value::Oid(0) } else { object.oid.into() }),
            ("relpages", Value::Int(i64::try_from(pages).unwrap_or(i64::MAX))),
            ("reltuples", Value::Real(count)),
            ("relhasindex", has_index.into()),
            ("relpersistence", if object.is_temporary { "t" } else { "p" }.into()),
            ("relkind", object.kind.letter().into()),
            ("relnatts", count_of(object.columns.len())),
            ("relchecks", count_of(checks)),
            ("relhastriggers", refers.into()),
            ("relhasrules", (is_view && object.kind.is_of_people()).into()),
            ("relispopulated", true.into()),
            ("relacl", if object.kind == Kind::Index { Value::Null } else { acls.said(table) }),
            ("relreplident", if object.kind.letter() == "r" { "d" } else { "n" }.into()),
        ]);
    }
}

fn namespaces(seen: &Seen<'_>, rows: &mut Rows) {
    let acls = seen.acls();
    for schema in &seen.snapshot.schemas {
        let own = acls.catalog.schema_object(&schema.name);
        // For public, PostgreSQL always lists the rights.
        let acl = match &own {
            Some(own) if schema.oid == PUBLIC_OID => acls.texts(&own.granted()),
            own => acls.said(own.as_deref()),
        };
        rows.add([
            ("oid", schema.oid.into()),
            ("nspname", schema.name.clone().into()),
            ("nspowner", own.map_or(OWNER_OID, |own| own.owner()).into()),
            ("nspacl", acl),
        ]);
    }
}

/// The default of a column, if any.
pub(super) fn default_of(column: &Column) -> Option<&str> {
    column.default.as_deref()
}

fn attributes(seen: &Seen<'_>, rows: &mut Rows) {
    let acls = seen.acls();
    for object in &seen.snapshot.objects {
        let table = acls.table(object).filter(|_| object.kind != Kind::Index);
        for (column, number) in object.columns.iter().zip(1i64..) {
            let of = types::by_oid(column.of);
            let identity = match column.identity {
                Some(Identity::Always) => "a",
                Some(Identity::Default) => "d",
                None => "",
            };
            let collation = of.map_or(0, |of| of.collation);
            let of_enum = seen.snapshot.enum_type(column.of);
            let (is_enum, is_list) = (of_enum.is_some(), of_enum.is_some_and(|(_, list)| list));
            let is_list = is_list || of.is_some_and(|of| of.category == "A");
            let length = if is_enum && !is_list { 4 } else { of.map_or(-1, |of| of.length) };
            rows.add([
                ("attrelid", object.oid.into()),
                ("attname", column.name.clone().into()),
                ("atttypid", column.of.into()),
                ("attlen", Value::Int(length)),
                ("attnum", Value::Int(number)),
                ("attcacheoff", Value::Int(-1)),
                ("atttypmod", Value::Int(column.modifier)),
                ("attbyval", (length == 4 && is_enum || of.is_some_and(|of| of.by_value)).into()),
                ("attalign", of.map_or("i", |of| of.alignment).into()),
                (
                    "attstorage",
                    of.map_or(if length == 4 { "p" } else { "x" }, |of| of.storage).into(),
                ),
                ("attstattarget", Value::Int(-1)),
                ("attnotnull", column.not_null.into()),
                ("atthasdef", default_of(column).is_some().into()),
                ("attidentity", identity.into()),
                ("attislocal", true.into()),
                ("attacl", acls.said_of_column(table, &column.name)),
                ("attndims", Value::Int(i64::from(is_list))),
                ("attcollation", if collation == 0 { 0 } else { DEFAULT_COLLATION_OID }.into()),
            ]);
        }
    }
}

/// The oid of a default.
fn default_oid(table: u32, number: i64) -> u32 {
    number_of(table, &number.to_string())
}

fn defaults(seen: &Seen<'_>, rows: &mut Rows) {
    for object in &seen.snapshot.objects {
        for (column, number) in object.columns.iter().zip(1i64..) {
            let Some(text) = default_of(column) else { continue };
            rows.add([
                ("oid", default_oid(object.oid, number).into()),
                ("adrelid", object.oid.into()),
                ("adnum", Value::Int(number)),
                ("adbin", text.into()),
            ]);
        }
    }
}

/// The comments on all objects: catalog, oid, column number, text.
pub(crate) fn comments(snapshot: &Snapshot) -> Vec<(u32, u32, i64, &str)> {
    let mut all = Vec::new();
    for object in &snapshot.objects {
        all.extend(object.comment.as_deref().map(|text| (CLASS, object.oid, 0, text)));
        for (column, number) in object.columns.iter().zip(1i64..) {
            all.extend(column.comment.as_deref().map(|text| (CLASS, object.oid, number, text)));
        }
    }
    for index in snapshot.indexes.iter().filter(|index| index.constraint.is_some()) {
        all.extend(index.comment.as_deref().map(|text| (CONSTRAINT, index.oid, 0, text)));
    }
    for check in &snapshot.checks {
        all.extend(check.comment.as_deref().map(|text| (CONSTRAINT, check.oid, 0, text)));
    }
    for key in &snapshot.foreign {
        all.extend(key.comment.as_deref().map(|text| (CONSTRAINT, key.oid, 0, text)));
    }
    for own in &snapshot.enums {
        all.extend(own.comment.as_deref().map(|text| (TYPE, own.oid, 0, text)));
    }
    for schema in &snapshot.schemas {
        all.extend(schema.comment.as_deref().map(|text| (NAMESPACE, schema.oid, 0, text)));
    }
    all
}

fn descriptions(seen: &Seen<'_>, rows: &mut Rows) {
    for (class, oid, number, text) in comments(&seen.snapshot) {
        rows.add([
            ("objoid", oid.into()),
            ("classoid", class.into()),
            ("objsubid", Value::Int(number)),
            ("description", text.into()),
        ]);
    }
}

/// The oid of the rule behind a view, as in PostgreSQL.
fn rule_oid(view: u32) -> u32 {
    number_of(view, "_RETURN")
}

fn rules(seen: &Seen<'_>, rows: &mut Rows) {
    for view in seen.snapshot.objects.iter().filter(|object| object.kind == Kind::View) {
        rows.add([
            ("oid", rule_oid(view.oid).into()),
            ("rulename", "_RETURN".into()),
            ("ev_class", view.oid.into()),
            ("ev_type", "1".into()),
            ("ev_enabled", "O".into()),
            ("is_instead", true.into()),
        ]);
    }
}

/// A dependency: catalog, oid and column of both objects, and its kind.
type Depends = ((u32, u32), (u32, u32, i64), &'static str);

/// Each object that depends on another one, as PostgreSQL records it.
fn all_dependencies(seen: &Seen<'_>) -> Vec<Depends> {
    let mut all: Vec<Depends> = Vec::new();
    let snapshot = &seen.snapshot;
    let mut add = |own, of: (u32, i64), kind| all.push((own, (CLASS, of.0, of.1), kind));
    for sequence in &snapshot.sequences {
        if let Some((table, number, is_identity)) = sequence.owner {
            let kind = if is_identity { "i" } else { "a" };
            add((CLASS, sequence.oid), (table, number), kind);
        }
    }
    for object in snapshot.objects.iter().filter(|object| object.kind.is_of_people()) {
        for (column, number) in object.columns.iter().zip(1i64..) {
            let Some(text) = default_of(column) else { continue };
            let own = (ATTRDEF, default_oid(object.oid, number));
            add(own, (object.oid, number), "a");
            if let Some(sequence) = definition::sequence_of(snapshot, text) {
                add(own, (sequence.oid, 0), "n");
            }
        }
    }
    for index in &snapshot.indexes {
        let class = if index.constraint.is_some() { CONSTRAINT } else { CLASS };
        for (number, _) in &index.columns {
            add((class, index.oid), (index.table, *number), "a");
        }
    }
    for check in &snapshot.checks {
        for number in &check.columns {
            add((CONSTRAINT, check.oid), (check.table, *number), "a");
        }
    }
    for key in &snapshot.foreign {
        for number in &key.columns {
            add((CONSTRAINT, key.oid), (key.table, *number), "a");
        }
        for number in &key.to_columns {
            add((CONSTRAINT, key.oid), (key.to, *number), "n");
        }
        add((CONSTRAINT, key.oid), (key.index, 0), "n");
    }
    let catalog = seen.ask.catalog();
    for view in snapshot.objects.iter().filter(|object| object.kind == Kind::View) {
        let rule = (REWRITE, rule_oid(view.oid));
        add(rule, (view.oid, 0), "i");
        let uses = catalog.view(&view.key).into_iter().flat_map(|(_, own)| own.uses.keys());
        for key in uses {
            if let Some(used) = snapshot.objects.iter().find(|object| object.key == *key) {
                add(rule, (used.oid, 0), "n");
            }
        }
    }
    let members = snapshot.objects.iter().filter(|object| object.kind == Kind::Ours);
    let members = members.map(|object| (CLASS, object.oid)).chain([
        (NAMESPACE, VIEWS_OID),
        (SERVER, FILES_SERVER_OID),
        (WRAPPER, FILES_WRAPPER_OID),
    ]);
    all.extend(members.map(|own| (own, (EXTENSION, EXTENSION_OID, 0), "e")));
    all
}

fn dependencies(seen: &Seen<'_>, rows: &mut Rows) {
    for ((class, object), (of_class, of, number), kind) in all_dependencies(seen) {
        rows.add([
            ("classid", class.into()),
            ("objid", object.into()),
            ("refclassid", of_class.into()),
            ("refobjid", of.into()),
            ("refobjsubid", Value::Int(number)),
            ("deptype", kind.into()),
        ]);
    }
}

fn tables(seen: &Seen<'_>, rows: &mut Rows) {
    let (snapshot, acls) = (&seen.snapshot, seen.acls());
    for object in snapshot.objects.iter().filter(|object| object.kind.letter() == "r") {
        rows.add([
            ("schemaname", snapshot.schema(object.schema).map(|own| own.name.clone()).into()),
            ("tablename", object.name.clone().into()),
            ("tableowner", acls.role(acls.owner(object)).into()),
            ("hasindexes", snapshot.indexes_of(object.oid).next().is_some().into()),
            ("hasrules", false.into()),
            ("hastriggers", false.into()),
            ("rowsecurity", false.into()),
        ]);
    }
}

fn views(seen: &Seen<'_>, rows: &mut Rows) {
    let (snapshot, acls) = (&seen.snapshot, seen.acls());
    for object in snapshot.objects.iter().filter(|object| object.kind == Kind::View) {
        rows.add([
            ("schemaname", snapshot.schema(object.schema).map(|own| own.name.clone()).into()),
            ("viewname", object.name.clone().into()),
            ("viewowner", acls.role(acls.owner(object)).into()),
            ("definition", definition::of_view(snapshot, object.oid).into()),
        ]);
    }
}

fn foreign_tables(seen: &Seen<'_>, rows: &mut Rows) {
    let catalog = seen.ask.catalog();
    for object in seen.snapshot.objects.iter().filter(|object| object.kind == Kind::External) {
        let options = catalog.table(&object.key).map(seen.ask.options).unwrap_or_default();
        rows.add([
            ("ftrelid", object.oid.into()),
            ("ftserver", FILES_SERVER_OID.into()),
            ("ftoptions", Value::Texts(options)),
        ]);
    }
}
