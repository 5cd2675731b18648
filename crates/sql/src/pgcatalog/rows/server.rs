//! Rows about the server: the database, roles, settings and sessions.

use super::super::constants::{
    DATABASE, DATABASE_OID, DEFAULT_SPACE_OID, FIRST_SPACE_OID, GLOBAL_SPACE_OID, OWNER, OWNER_OID,
    UTF8,
};
use super::super::object::Kind;
use super::super::value::{Rows, Value};
use super::{Make, Seen};

pub(super) fn of(name: &str) -> Option<Make> {
    Some(match name {
        "pg_database" => databases,
        "pg_authid" => identities,
        "pg_roles" => roles,
        "pg_user" | "pg_shadow" => users,
        "pg_tablespace" => spaces,
        "pg_settings" => settings,
        "pg_stat_activity" => activity,
        "pg_stat_user_tables" => user_tables,
        "pg_stat_all_tables" => all_tables,
        _ => return None,
    })
}

fn databases(_: &Seen<'_>, rows: &mut Rows) {
    rows.add([
        ("oid", DATABASE_OID.into()),
        ("datname", DATABASE.into()),
        ("datdba", OWNER_OID.into()),
        ("encoding", UTF8.into()),
        ("datlocprovider", "c".into()),
        ("datallowconn", true.into()),
        ("datconnlimit", Value::Int(-1)),
        ("dattablespace", DEFAULT_SPACE_OID.into()),
        ("datcollate", "C".into()),
        ("datctype", "C".into()),
    ]);
}

fn identities(_: &Seen<'_>, rows: &mut Rows) {
    rows.add([
        ("oid", OWNER_OID.into()),
        ("rolname", OWNER.into()),
        ("rolsuper", true.into()),
        ("rolinherit", true.into()),
        ("rolcreaterole", true.into()),
        ("rolcreatedb", true.into()),
        ("rolcanlogin", true.into()),
        ("rolconnlimit", Value::Int(-1)),
    ]);
}

fn roles(_: &Seen<'_>, rows: &mut Rows) {
    rows.add([
        ("rolname", OWNER.into()),
        ("rolsuper", true.into()),
        ("rolinherit", true.into()),
        ("rolcreaterole", true.into()),
        ("rolcreatedb", true.into()),
        ("rolcanlogin", true.into()),
        ("rolreplication", false.into()),
        ("rolconnlimit", Value::Int(-1)),
        ("rolpassword", "********".into()),
        ("rolbypassrls", false.into()),
        ("oid", OWNER_OID.into()),
    ]);
}

fn users(_: &Seen<'_>, rows: &mut Rows) {
    rows.add([
        ("usename", OWNER.into()),
        ("usesysid", OWNER_OID.into()),
        ("usecreatedb", true.into()),
        ("usesuper", true.into()),
        ("userepl", false.into()),
        ("usebypassrls", false.into()),
    ]);
}

fn spaces(seen: &Seen<'_>, rows: &mut Rows) {
    let always = [(DEFAULT_SPACE_OID, "pg_default"), (GLOBAL_SPACE_OID, "pg_global")];
    let always = always.map(|(oid, name)| (oid, name.to_owned()));
    let groups = (FIRST_SPACE_OID..).zip(seen.ask.host.groups());
    for (oid, name) in always.into_iter().chain(groups) {
        rows.add([("oid", oid.into()), ("spcname", name.into()), ("spcowner", OWNER_OID.into())]);
    }
}

fn settings(seen: &Seen<'_>, rows: &mut Rows) {
    for own in seen.ask.settings.told() {
        let source = if own.value == own.default { "default" } else { "session" };
        rows.add([
            ("name", own.name.into()),
            ("setting", own.value.into()),
            ("category", "Client Connection Defaults".into()),
            ("short_desc", own.about.into()),
            ("context", if own.is_settable { "user" } else { "internal" }.into()),
            ("vartype", own.kind.into()),
            ("source", source.into()),
            ("boot_val", own.default.into()),
            ("reset_val", own.default.into()),
            ("pending_restart", false.into()),
        ]);
    }
}

fn activity(seen: &Seen<'_>, rows: &mut Rows) {
    let Some(tables) = seen.ask.host.rows() else { return };
    for own in tables.database().instance().sessions().rows() {
        let is_user = own.kind == "USER";
        let is_active = own.status == "ACTIVE";
        let began = i64::try_from(own.logon_time.unix_nanos / 1_000).unwrap_or(i64::MAX);
        let is_waiting = own.state == Some("WAITING");
        let user = |value: Value| if is_user { value } else { Value::Null };
        rows.add([
            ("datid", user(DATABASE_OID.into())),
            ("datname", user(DATABASE.into())),
            ("pid", Value::Int(own.sid.into())),
            ("usesysid", user(OWNER_OID.into())),
            ("usename", user(OWNER.into())),
            ("application_name", own.program.clone().into()),
            ("backend_start", Value::Time(began)),
            ("wait_event_type", is_waiting.then_some(own.wait_class).flatten().into()),
            ("wait_event", is_waiting.then_some(own.event).flatten().into()),
            ("state", user(if is_active { "active" } else { "idle" }.into())),
            ("query", own.sql_text.into()),
            ("backend_type", if is_user { "client backend".into() } else { own.program.into() }),
        ]);
    }
}

fn stat_tables(seen: &Seen<'_>, rows: &mut Rows, with_system: bool) {
    let snapshot = &seen.snapshot;
    for object in snapshot.objects.iter().filter(|object| object.kind.letter() == "r") {
        if !with_system && !object.kind.is_of_people() {
            continue;
        }
        let live = match (object.kind, seen.sizes.get(&object.oid)) {
            (Kind::Columnar { rows, .. }, _) => Some(rows),
            (_, known) => known.map(|(_, rows)| *rows),
        };
        let live = live.map(|rows| Value::Int(i64::try_from(rows).unwrap_or(i64::MAX)));
        rows.add([
            ("relid", object.oid.into()),
            ("schemaname", snapshot.schema(object.schema).map(|own| own.name.clone()).into()),
            ("relname", object.name.clone().into()),
            ("n_live_tup", live.unwrap_or_default()),
        ]);
    }
}

fn user_tables(seen: &Seen<'_>, rows: &mut Rows) {
    stat_tables(seen, rows, false);
}

fn all_tables(seen: &Seen<'_>, rows: &mut Rows) {
    stat_tables(seen, rows, true);
}
