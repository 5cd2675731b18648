//! Rows about the server: the database, roles, settings and sessions.

use cellar_instance::catalog::Role;

use super::super::constants::{
    DATABASE, DATABASE_OID, DEFAULT_SPACE_OID, FIRST_SPACE_OID, GLOBAL_SPACE_OID, OWNER, OWNER_OID,
    PUBLIC_OWNER, PUBLIC_OWNER_OID, UTF8,
};
use super::super::object::Kind;
use super::super::value::{Rows, Value};
use super::{Make, Seen};

pub(super) fn of(name: &str) -> Option<Make> {
    Some(match name {
        "pg_database" => databases,
        "pg_authid" => identities,
        "pg_roles" => roles,
        "pg_user" => users,
        "pg_shadow" => shadows,
        "pg_group" => groups,
        "pg_auth_members" => members,
        "pg_tablespace" => spaces,
        "pg_settings" => settings,
        "pg_stat_activity" => activity,
        "pg_prepared_statements" => prepared_statements,
        "pg_stat_user_tables" => user_tables,
        "pg_stat_all_tables" => all_tables,
        _ => return None,
    })
}

fn prepared_statements(seen: &Seen<'_>, rows: &mut Rows) {
    for (name, own) in seen.ask.prepared.all().iter() {
        let types = own.prepared.parameter_oids().to_vec();
        rows.add([
            ("name", name.clone().into()),
            ("statement", own.text.clone().into()),
            ("prepare_time", own.since.map_or(Value::Null, Value::Time)),
            ("parameter_types", Value::Oids(types)),
            ("from_sql", own.from_sql.into()),
        ]);
    }
}

fn databases(seen: &Seen<'_>, rows: &mut Rows) {
    let acls = seen.acls();
    let own = acls.catalog.database_object();
    rows.add([
        ("oid", DATABASE_OID.into()),
        ("datname", DATABASE.into()),
        ("datdba", own.owner().into()),
        ("datacl", acls.said(Some(&own))),
        ("encoding", UTF8.into()),
        ("datlocprovider", "c".into()),
        ("datallowconn", true.into()),
        ("datconnlimit", Value::Int(-1)),
        ("dattablespace", DEFAULT_SPACE_OID.into()),
        ("datcollate", "C".into()),
        ("datctype", "C".into()),
    ]);
}

/// The attributes of a role, as in the catalogs.
struct RoleRow {
    name: String,
    oid: u32,
    role: Role,
}

fn all_roles(seen: &Seen<'_>) -> Vec<RoleRow> {
    let catalog = seen.ask.catalog();
    let roles = catalog.roles().into_iter();
    let told = |(name, oid, role): (_, _, std::borrow::Cow<'_, Role>)| RoleRow {
        name: String::from(name),
        oid,
        role: role.into_owned(),
    };
    let mut all: Vec<RoleRow> = roles.map(told).collect();
    // The owner of the schema public, as in PostgreSQL.
    let role = Role { inherits: true, connections: -1, ..Role::default() };
    all.push(RoleRow { name: PUBLIC_OWNER.to_owned(), oid: PUBLIC_OWNER_OID, role });
    all
}

impl RoleRow {
    fn until(&self) -> Value {
        self.role.valid_until.map_or(Value::Null, Value::Time)
    }

    /// The stored form of its password, for roles that may see it.
    fn password(&self, seen: &Seen<'_>) -> Value {
        match seen.ask.is_superuser() {
            true => self.role.verifier.clone().into(),
            false => Value::Null,
        }
    }

    /// It may do what the owner may.
    fn makes_databases(&self) -> Value {
        (self.oid == OWNER_OID).into()
    }
}

fn identities(seen: &Seen<'_>, rows: &mut Rows) {
    for own in all_roles(seen) {
        rows.add([
            ("oid", own.oid.into()),
            ("rolname", own.name.clone().into()),
            ("rolsuper", own.role.is_superuser.into()),
            ("rolinherit", own.role.inherits.into()),
            ("rolcreaterole", own.role.creates_roles.into()),
            ("rolcreatedb", own.makes_databases()),
            ("rolcanlogin", own.role.can_login.into()),
            ("rolconnlimit", Value::Int(own.role.connections.into())),
            ("rolpassword", own.password(seen)),
            ("rolvaliduntil", own.until()),
        ]);
    }
}

fn roles(seen: &Seen<'_>, rows: &mut Rows) {
    for own in all_roles(seen) {
        rows.add([
            ("rolname", own.name.clone().into()),
            ("rolsuper", own.role.is_superuser.into()),
            ("rolinherit", own.role.inherits.into()),
            ("rolcreaterole", own.role.creates_roles.into()),
            ("rolcreatedb", own.makes_databases()),
            ("rolcanlogin", own.role.can_login.into()),
            ("rolreplication", false.into()),
            ("rolconnlimit", Value::Int(own.role.connections.into())),
            ("rolpassword", "********".into()),
            ("rolvaliduntil", own.until()),
            ("rolbypassrls", false.into()),
            ("oid", own.oid.into()),
        ]);
    }
}

fn members(seen: &Seen<'_>, rows: &mut Rows) {
    for own in all_roles(seen) {
        for membership in &own.role.member_of {
            rows.add([
                ("roleid", membership.of.into()),
                ("member", own.oid.into()),
                ("grantor", membership.grantor.into()),
                ("admin_option", membership.is_admin.into()),
            ]);
        }
    }
}

fn groups(seen: &Seen<'_>, rows: &mut Rows) {
    let all = all_roles(seen);
    for own in all.iter().filter(|own| !own.role.can_login) {
        let is_member = |other: &&RoleRow| other.role.member_of.iter().any(|of| of.of == own.oid);
        let members = all.iter().filter(is_member).map(|other| other.oid).collect();
        rows.add([
            ("groname", own.name.clone().into()),
            ("grosysid", own.oid.into()),
            ("grolist", Value::Oids(members)),
        ]);
    }
}

fn user_rows(seen: &Seen<'_>, rows: &mut Rows, with_password: bool) {
    for own in all_roles(seen).iter().filter(|own| own.role.can_login) {
        let password = if with_password { own.password(seen) } else { "********".into() };
        rows.add([
            ("usename", own.name.clone().into()),
            ("usesysid", own.oid.into()),
            ("usecreatedb", own.makes_databases()),
            ("usesuper", own.role.is_superuser.into()),
            ("userepl", false.into()),
            ("usebypassrls", false.into()),
            ("passwd", password),
            ("valuntil", own.until()),
        ]);
    }
}

fn users(seen: &Seen<'_>, rows: &mut Rows) {
    user_rows(seen, rows, false);
}

fn shadows(seen: &Seen<'_>, rows: &mut Rows) {
    user_rows(seen, rows, true);
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
    let catalog = seen.ask.catalog();
    let who = seen.ask.settings.who(&catalog);
    for own in tables.database().instance().sessions().rows() {
        // Sessions without a role are the owner's: commands in the directory.
        let role = own.user_name.as_deref().and_then(|name| Some((name, catalog.role(name)?.0)));
        let (role, role_oid) = role.unwrap_or((OWNER, OWNER_OID));
        let is_user = own.kind == "USER";
        let is_active = own.status == "ACTIVE";
        let began = i64::try_from(own.logon_time.unix_nanos / 1_000).unwrap_or(i64::MAX);
        let is_waiting = own.state == Some("WAITING");
        // The activity of others is visible to them, and to superusers.
        let is_shown = who.as_ref().is_some_and(|who| who.is_like(role_oid));
        let told = |value: Value| if is_shown { value } else { Value::Null };
        let query = match is_shown {
            true => own.sql_text.into(),
            false => "<insufficient privilege>".into(),
        };
        let user = |value: Value| if is_user { value } else { Value::Null };
        rows.add([
            ("datid", user(DATABASE_OID.into())),
            ("datname", user(DATABASE.into())),
            ("pid", Value::Int(own.sid.into())),
            ("usesysid", user(role_oid.into())),
            ("usename", user(role.into())),
            ("application_name", own.program.clone().into()),
            ("backend_start", told(Value::Time(began))),
            ("wait_event_type", told(is_waiting.then_some(own.wait_class).flatten().into())),
            ("wait_event", told(is_waiting.then_some(own.event).flatten().into())),
            ("state", told(user(if is_active { "active" } else { "idle" }.into()))),
            ("query", query),
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
