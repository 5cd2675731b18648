//! Rows of the information schema.

use std::collections::{BTreeMap, BTreeSet};

use cellar_instance::catalog::{
    Class, Constraint, Deferral, EVERYBODY, Grant, Identity, OWNER_OID, Principal, Rights, Table,
};

use super::super::acl::Acls;
use super::super::constants::DATABASE;
use super::super::definition;
use super::super::object::{Column, Kind, Object};
use super::super::types;
use super::super::value::{Rows, Value};
use super::objects::default_of;
use super::{Make, Seen};

pub(super) fn of(name: &str) -> Option<Make> {
    Some(match name {
        "information_schema_catalog_name" => database,
        "schemata" => schemata,
        "tables" => tables,
        "columns" => columns,
        "views" => views,
        "sequences" => sequences,
        "table_constraints" => table_constraints,
        "key_column_usage" => key_columns,
        "constraint_column_usage" => constraint_columns,
        "constraint_table_usage" => constraint_tables,
        "check_constraints" => checks,
        "referential_constraints" => references,
        "table_privileges" | "role_table_grants" => table_privileges,
        "column_privileges" | "role_column_grants" => column_privileges,
        "enabled_roles" | "applicable_roles" => roles,
        _ => return None,
    })
}

fn yes(flag: bool) -> Value {
    if flag { "YES" } else { "NO" }.into()
}

fn database(_: &Seen<'_>, rows: &mut Rows) {
    rows.add([("catalog_name", DATABASE.into())]);
}

fn schemata(seen: &Seen<'_>, rows: &mut Rows) {
    let acls = seen.acls();
    for schema in &seen.snapshot.schemas {
        let own = acls.catalog.schema_object(&schema.name);
        let owner = own.map_or(OWNER_OID, |own| own.owner());
        rows.add([
            ("catalog_name", DATABASE.into()),
            ("schema_name", schema.name.clone().into()),
            ("schema_owner", acls.role(owner).into()),
        ]);
    }
}

fn schema_of(seen: &Seen<'_>, object: &Object) -> Value {
    seen.snapshot.schema(object.schema).map(|own| own.name.clone()).into()
}

/// Tables and views on which the session has any right.
fn relations<'s>(seen: &'s Seen<'_>) -> Vec<&'s Object> {
    let acls = seen.acls();
    let Some(who) = seen.ask.settings.who(&acls.catalog) else { return Vec::new() };
    let may = |object: &&Object| match (acls.table(object), object.kind) {
        (Some(table), _) => {
            who.is_like(table.owner()) || table.has_right_on_some(Class::Table.all(), &who)
        }
        (None, Kind::Ours) => who.is_superuser,
        (None, _) => true,
    };
    let all = seen.snapshot.objects.iter();
    all.filter(|object| ["r", "v", "f"].contains(&object.kind.letter())).filter(may).collect()
}

fn tables(seen: &Seen<'_>, rows: &mut Rows) {
    for object in relations(seen) {
        let kind = match object.kind.letter() {
            "v" => "VIEW",
            "f" => "FOREIGN",
            _ if object.is_temporary => "LOCAL TEMPORARY",
            _ => "BASE TABLE",
        };
        let takes_rows = matches!(object.kind, Kind::Heap | Kind::Columnar { .. });
        rows.add([
            ("table_catalog", DATABASE.into()),
            ("table_schema", schema_of(seen, object)),
            ("table_name", object.name.clone().into()),
            ("table_type", kind.into()),
            ("is_insertable_into", yes(takes_rows)),
            ("is_typed", yes(false)),
            ("commit_action", object.is_temporary.then_some("PRESERVE").into()),
        ]);
    }
}

/// The type modifier in the terms of this schema.
struct Measures {
    characters: Value,
    precision: Value,
    radix: Value,
    scale: Value,
    datetime: Value,
}

fn measures(column: &Column) -> Measures {
    let none = || Measures {
        characters: Value::Null,
        precision: Value::Null,
        radix: Value::Null,
        scale: Value::Null,
        datetime: Value::Null,
    };
    let number = |precision: i64, radix: i64, scale: Option<i64>| Measures {
        precision: precision.into(),
        radix: radix.into(),
        scale: scale.into(),
        ..none()
    };
    let said = (column.modifier >= 0).then_some(column.modifier - 4);
    match types::by_oid(column.of).map_or("", |of| of.name) {
        "varchar" | "bpchar" => Measures { characters: said.into(), ..none() },
        "int2" => number(16, 2, Some(0)),
        "int4" => number(32, 2, Some(0)),
        "int8" => number(64, 2, Some(0)),
        "float4" => number(24, 2, None),
        "float8" => number(53, 2, None),
        "numeric" => Measures {
            precision: said.map(|both| (both >> 16) & 0xffff).into(),
            radix: Value::Int(10),
            scale: said.map(|both| both & 0x7ff).into(),
            ..none()
        },
        "date" => Measures { datetime: Value::Int(0), ..none() },
        "time" | "timestamp" | "timestamptz" | "interval" => {
            Measures { datetime: Value::Int(6), ..none() }
        }
        _ => none(),
    }
}

fn columns(seen: &Seen<'_>, rows: &mut Rows) {
    for object in relations(seen) {
        for (column, number) in object.columns.iter().zip(1i64..) {
            let of = types::by_oid(column.of);
            let is_array = of.is_some_and(|of| of.category == "A" && of.name.starts_with('_'));
            let of_enum = seen.snapshot.enum_type(column.of);
            let word = match (is_array, of_enum) {
                (true, _) | (_, Some((_, true))) => "ARRAY".to_owned(),
                (_, Some((_, false))) => "USER-DEFINED".to_owned(),
                (false, None) => types::format(column.of, None),
            };
            let (of_schema, of_name) = match of_enum {
                Some((own, is_list)) => {
                    let schema = seen.snapshot.schema(own.schema).map(|own| own.name.clone());
                    let list = if is_list { "_" } else { "" };
                    (schema.unwrap_or_default(), format!("{list}{}", own.name))
                }
                None => ("pg_catalog".to_owned(), of.map_or("text", |of| of.name).to_owned()),
            };
            let told = measures(column);
            let identity = column.identity.map(|own| match own {
                Identity::Always => "ALWAYS",
                Identity::Default => "BY DEFAULT",
            });
            let octets = match (&told.characters, of.map_or("", |of| of.category)) {
                (Value::Int(count), _) => Value::Int(count.saturating_mul(4)),
                (_, "S") => Value::Int(1 << 30),
                _ => Value::Null,
            };
            let takes_rows = matches!(object.kind, Kind::Heap | Kind::Columnar { .. });
            let default = default_of(column).map(|own| definition::expression(&seen.snapshot, own));
            rows.add([
                ("table_catalog", DATABASE.into()),
                ("table_schema", schema_of(seen, object)),
                ("table_name", object.name.clone().into()),
                ("column_name", column.name.clone().into()),
                ("ordinal_position", number.into()),
                ("column_default", default.map(|text| text.into_owned()).into()),
                ("is_nullable", yes(!column.not_null)),
                ("data_type", word.into()),
                ("character_maximum_length", told.characters),
                ("character_octet_length", octets),
                ("numeric_precision", told.precision),
                ("numeric_precision_radix", told.radix),
                ("numeric_scale", told.scale),
                ("datetime_precision", told.datetime),
                ("udt_catalog", DATABASE.into()),
                ("udt_schema", of_schema.into()),
                ("udt_name", of_name.into()),
                ("dtd_identifier", number.to_string().into()),
                ("is_self_referencing", yes(false)),
                ("is_identity", yes(identity.is_some())),
                ("identity_generation", identity.into()),
                ("identity_cycle", yes(false)),
                ("is_generated", "NEVER".into()),
                ("is_updatable", yes(takes_rows)),
            ]);
        }
    }
}

fn views(seen: &Seen<'_>, rows: &mut Rows) {
    let all = seen.snapshot.objects.iter();
    for object in all.filter(|object| object.kind == Kind::View) {
        rows.add([
            ("table_catalog", DATABASE.into()),
            ("table_schema", schema_of(seen, object)),
            ("table_name", object.name.clone().into()),
            ("view_definition", definition::of_view(&seen.snapshot, object.oid).into()),
            ("check_option", "NONE".into()),
            ("is_updatable", yes(false)),
            ("is_insertable_into", yes(false)),
            ("is_trigger_updatable", yes(false)),
            ("is_trigger_deletable", yes(false)),
            ("is_trigger_insertable_into", yes(false)),
        ]);
    }
}

fn sequences(seen: &Seen<'_>, rows: &mut Rows) {
    for own in &seen.snapshot.sequences {
        let Some(object) = seen.snapshot.object(own.oid) else { continue };
        let bits: i64 = match own.of.name() {
            "smallint" => 16,
            "integer" => 32,
            _ => 64,
        };
        // As in PostgreSQL, those of identity columns are not included.
        if own.owner.is_some_and(|(_, _, is_identity)| is_identity) {
            continue;
        }
        rows.add([
            ("sequence_catalog", DATABASE.into()),
            ("sequence_schema", schema_of(seen, object)),
            ("sequence_name", object.name.clone().into()),
            ("data_type", own.of.name().into()),
            ("numeric_precision", bits.into()),
            ("numeric_precision_radix", Value::Int(2)),
            ("numeric_scale", Value::Int(0)),
            ("start_value", own.start.to_string().into()),
            ("minimum_value", own.least.to_string().into()),
            ("maximum_value", own.most.to_string().into()),
            ("increment", own.increment.to_string().into()),
            ("cycle_option", yes(own.cycles)),
        ]);
    }
}

/// A constraint: its table, its name, its kind in words, its columns.
type Known<'s> = (&'s Object, String, &'static str, Vec<i64>);

fn constraints<'s>(seen: &'s Seen<'_>) -> Vec<Known<'s>> {
    let snapshot = &seen.snapshot;
    let mut all = Vec::new();
    for index in &snapshot.indexes {
        let word = match index.constraint {
            Some(Constraint::Primary) => "PRIMARY KEY",
            Some(Constraint::Unique) => "UNIQUE",
            None => continue,
        };
        let Some(table) = snapshot.object(index.table) else { continue };
        let columns = index.columns.iter().map(|(number, _)| *number).collect();
        all.push((table, index.name.clone(), word, columns));
    }
    for check in &snapshot.checks {
        let Some(table) = snapshot.object(check.table) else { continue };
        all.push((table, check.name.clone(), "CHECK", check.columns.clone()));
    }
    for key in &snapshot.foreign {
        let Some(table) = snapshot.object(key.table) else { continue };
        all.push((table, key.name.clone(), FOREIGN_KEY, key.columns.clone()));
    }
    all
}

const FOREIGN_KEY: &str = "FOREIGN KEY";

/// As [`constraints`], with the columns that constraints need: for a foreign key, those that it refers to.
fn needed<'s>(seen: &'s Seen<'_>) -> Vec<Known<'s>> {
    let mut all = constraints(seen);
    all.retain(|(_, _, word, _)| *word != FOREIGN_KEY);
    for key in &seen.snapshot.foreign {
        let Some(table) = seen.snapshot.object(key.to) else { continue };
        all.push((table, key.name.clone(), FOREIGN_KEY, key.to_columns.clone()));
    }
    all
}

fn references(seen: &Seen<'_>, rows: &mut Rows) {
    let snapshot = &seen.snapshot;
    for key in &snapshot.foreign {
        let (Some(table), Some(to)) = (snapshot.object(key.table), snapshot.object(key.to)) else {
            continue;
        };
        let index = snapshot.index(key.index).filter(|index| index.constraint.is_some());
        rows.add([
            ("constraint_catalog", DATABASE.into()),
            ("constraint_schema", schema_of(seen, table)),
            ("constraint_name", key.name.clone().into()),
            ("unique_constraint_catalog", index.map(|_| DATABASE).into()),
            ("unique_constraint_schema", index.map_or(Value::Null, |_| schema_of(seen, to))),
            ("unique_constraint_name", index.map(|index| index.name.clone()).into()),
            ("match_option", "NONE".into()),
            ("update_rule", definition::of_action(key.on_update).into()),
            ("delete_rule", definition::of_action(key.on_delete).into()),
        ]);
    }
}

fn table_constraints(seen: &Seen<'_>, rows: &mut Rows) {
    let keys = seen.snapshot.foreign.iter().filter(|key| key.deferral != Deferral::Never);
    let may_wait: BTreeMap<(u32, &str), Deferral> =
        keys.map(|key| ((key.table, key.name.as_str()), key.deferral)).collect();
    let mut add = |table: &Object, name: String, word: &str| {
        let deferral = may_wait.get(&(table.oid, name.as_str())).copied();
        rows.add([
            ("constraint_catalog", DATABASE.into()),
            ("constraint_schema", schema_of(seen, table)),
            ("constraint_name", name.into()),
            ("table_catalog", DATABASE.into()),
            ("table_schema", schema_of(seen, table)),
            ("table_name", table.name.clone().into()),
            ("constraint_type", word.into()),
            ("is_deferrable", yes(deferral.is_some())),
            ("initially_deferred", yes(deferral == Some(Deferral::Deferred))),
            ("enforced", yes(true)),
            ("nulls_distinct", (word == "UNIQUE").then_some("YES").into()),
        ]);
    };
    for (table, name, word, _) in constraints(seen) {
        add(table, name, word);
    }
    // NOT NULL is a CHECK in this schema.
    for object in seen.snapshot.objects.iter().filter(|object| object.kind == Kind::Heap) {
        for (column, number) in object.columns.iter().zip(1i64..) {
            if column.not_null {
                add(object, not_null_name(object, number), "CHECK");
            }
        }
    }
}

/// The name of a NOT NULL, as PostgreSQL generates it.
fn not_null_name(object: &Object, number: i64) -> String {
    format!("{}_{}_{number}_not_null", object.schema, object.oid)
}

fn key_columns(seen: &Seen<'_>, rows: &mut Rows) {
    for (table, name, word, numbers) in constraints(seen) {
        if word == "CHECK" {
            continue;
        }
        for (number, place) in numbers.into_iter().zip(1i64..) {
            let at = usize::try_from(number - 1).unwrap_or(usize::MAX);
            rows.add([
                ("constraint_catalog", DATABASE.into()),
                ("constraint_schema", schema_of(seen, table)),
                ("constraint_name", name.clone().into()),
                ("table_catalog", DATABASE.into()),
                ("table_schema", schema_of(seen, table)),
                ("table_name", table.name.clone().into()),
                ("column_name", table.columns.get(at).map(|own| own.name.clone()).into()),
                ("ordinal_position", place.into()),
                // The columns of foreign keys are in the order of the referenced key.
                ("position_in_unique_constraint", (word == FOREIGN_KEY).then_some(place).into()),
            ]);
        }
    }
}

fn constraint_columns(seen: &Seen<'_>, rows: &mut Rows) {
    for (table, name, _, numbers) in needed(seen) {
        for number in numbers {
            let at = usize::try_from(number - 1).unwrap_or(usize::MAX);
            rows.add([
                ("table_catalog", DATABASE.into()),
                ("table_schema", schema_of(seen, table)),
                ("table_name", table.name.clone().into()),
                ("column_name", table.columns.get(at).map(|own| own.name.clone()).into()),
                ("constraint_catalog", DATABASE.into()),
                ("constraint_schema", schema_of(seen, table)),
                ("constraint_name", name.clone().into()),
            ]);
        }
    }
}

fn constraint_tables(seen: &Seen<'_>, rows: &mut Rows) {
    for (table, name, word, _) in needed(seen) {
        if word != "CHECK" {
            rows.add([
                ("table_catalog", DATABASE.into()),
                ("table_schema", schema_of(seen, table)),
                ("table_name", table.name.clone().into()),
                ("constraint_catalog", DATABASE.into()),
                ("constraint_schema", schema_of(seen, table)),
                ("constraint_name", name.into()),
            ]);
        }
    }
}

fn checks(seen: &Seen<'_>, rows: &mut Rows) {
    let mut add = |schema: Value, name: String, clause: String| {
        rows.add([
            ("constraint_catalog", DATABASE.into()),
            ("constraint_schema", schema),
            ("constraint_name", name.into()),
            ("check_clause", clause.into()),
        ]);
    };
    for check in &seen.snapshot.checks {
        let Some(table) = seen.snapshot.object(check.table) else { continue };
        add(schema_of(seen, table), check.name.clone(), format!("(({}))", check.condition));
    }
    for object in seen.snapshot.objects.iter().filter(|object| object.kind == Kind::Heap) {
        for (column, number) in object.columns.iter().zip(1i64..) {
            if column.not_null {
                let clause = format!("{} IS NOT NULL", definition::quoted(&column.name));
                add(schema_of(seen, object), not_null_name(object, number), clause);
            }
        }
    }
}

/// A granted right: the grant, the right, and whether it has the grant option.
type RightRow = (Grant, Rights, bool);

/// Each right in grants whose grantor or grantee is a role of the session. `with_public`: including
/// grants to PUBLIC.
fn told(
    acls: &Acls,
    who: &Principal,
    table: &Table,
    grants: &[Grant],
    with_public: bool,
) -> Vec<RightRow> {
    let is_shown = |grant: &&Grant| {
        let is_public = grant.to == EVERYBODY;
        who.is_like(grant.by) || if is_public { with_public } else { who.is_like(grant.to) }
    };
    let owner = table.owner();
    let is_of_owner = |role: u32| {
        let own = acls.catalog.who_is(role);
        role == owner || own.is_some_and(|own| own.is_like(owner))
    };
    let each = grants.iter().filter(is_shown).flat_map(|grant| {
        let passes = move |one: Rights| grant.options.has(one) || is_of_owner(grant.to);
        grant.rights.each().map(move |one| (*grant, one, passes(one)))
    });
    each.collect()
}

fn grantee(acls: &Acls, grant: &Grant) -> Value {
    match grant.to {
        EVERYBODY => "PUBLIC".into(),
        role => acls.role(role).into(),
    }
}

fn table_privileges(seen: &Seen<'_>, rows: &mut Rows) {
    let acls = seen.acls();
    let Some(who) = seen.ask.settings.who(&acls.catalog) else { return };
    let with_public = rows.relation.name == "table_privileges";
    for object in relations(seen) {
        let Some(table) = acls.table(object) else { continue };
        for (grant, right, passes) in told(&acls, &who, table, &table.granted(), with_public) {
            rows.add([
                ("grantor", acls.role(grant.by).into()),
                ("grantee", grantee(&acls, &grant)),
                ("table_catalog", DATABASE.into()),
                ("table_schema", schema_of(seen, object)),
                ("table_name", object.name.clone().into()),
                ("privilege_type", right.word().into()),
                ("is_grantable", yes(passes)),
                ("with_hierarchy", yes(right == Rights::SELECT)),
            ]);
        }
    }
}

fn column_privileges(seen: &Seen<'_>, rows: &mut Rows) {
    let acls = seen.acls();
    let Some(who) = seen.ask.settings.who(&acls.catalog) else { return };
    let with_public = rows.relation.name == "column_privileges";
    for object in relations(seen) {
        let Some(table) = acls.table(object) else { continue };
        for column in &object.columns {
            let mut grants = table.granted().into_owned();
            let on_columns = Class::Column.all();
            grants.iter_mut().for_each(|own| own.rights = own.rights.within(on_columns));
            let own = table.grants.columns.get(&column.name);
            grants.extend(own.into_iter().flatten());
            let mut seen_rights = BTreeSet::new();
            for (grant, right, passes) in told(&acls, &who, table, &grants, with_public) {
                if !seen_rights.insert((grant.by, grant.to, right.word())) {
                    continue;
                }
                rows.add([
                    ("grantor", acls.role(grant.by).into()),
                    ("grantee", grantee(&acls, &grant)),
                    ("table_catalog", DATABASE.into()),
                    ("table_schema", schema_of(seen, object)),
                    ("table_name", object.name.clone().into()),
                    ("column_name", column.name.clone().into()),
                    ("privilege_type", right.word().into()),
                    ("is_grantable", yes(passes)),
                ]);
            }
        }
    }
}

/// The roles whose rights the session has.
fn roles(seen: &Seen<'_>, rows: &mut Rows) {
    let catalog = seen.ask.catalog();
    let Some(who) = seen.ask.settings.who(&catalog) else { return };
    if rows.relation.name == "enabled_roles" {
        for (name, oid, _) in catalog.roles() {
            if who.is_like(oid) {
                rows.add([("role_name", name.into())]);
            }
        }
        return;
    }
    for (name, oid, role) in catalog.roles() {
        if !who.is_like(oid) {
            continue;
        }
        for own in &role.member_of {
            rows.add([
                ("grantee", name.into()),
                ("role_name", catalog.role_name(own.of).unwrap_or_default().into()),
                ("is_grantable", yes(own.is_admin)),
            ]);
        }
    }
}
