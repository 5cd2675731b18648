//! Owners and rights as the catalogs show them: aclitem texts and the functions on them.

use std::collections::HashMap;
use std::sync::Arc;

use cellar_instance::catalog::{Catalog, EVERYBODY, Grant, OWNER_OID, Principal, Rights, Table};

use super::ask::Ask;
use super::object::{Kind, Object};
use super::snapshot::Snapshot;
use super::value::Value;

/// The catalog's objects by their keys, and the names of roles.
pub(super) struct Acls {
    pub catalog: Arc<Catalog>,
    /// Indexes into the catalog.
    by_key: HashMap<String, usize>,
    /// The tables of indexes.
    of_index: HashMap<u32, u32>,
    by_oid: HashMap<u32, usize>,
}

/// A name as written in aclitems.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| c == '_' || c.is_ascii_alphanumeric();
    match name.chars().all(is_plain) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

impl Acls {
    pub fn of(ask: &Ask, snapshot: &Snapshot) -> Acls {
        let catalog = ask.catalog();
        let tables = || catalog.tables.iter().enumerate();
        Acls {
            by_key: tables().map(|(at, table)| (table.name.clone(), at)).collect(),
            by_oid: tables().map(|(at, table)| (table.oid(), at)).collect(),
            of_index: snapshot.indexes.iter().map(|index| (index.oid, index.table)).collect(),
            catalog,
        }
    }

    /// The catalog entry of an object; for an index, that of its table.
    pub fn table(&self, object: &Object) -> Option<&Table> {
        let at = match self.of_index.get(&object.oid) {
            Some(table) => self.by_oid.get(table),
            None => self.by_key.get(&object.key),
        };
        at.and_then(|at| self.catalog.tables.get(*at))
    }

    /// The same by oid.
    pub fn by_oid(&self, oid: u32) -> Option<&Table> {
        self.by_oid.get(&oid).and_then(|at| self.catalog.tables.get(*at))
    }

    /// The oid of the owner of an object.
    pub fn owner(&self, object: &Object) -> u32 {
        self.table(object).map_or(OWNER_OID, Table::owner)
    }

    /// The name of a role.
    pub fn role(&self, oid: u32) -> String {
        let name = self.catalog.role_name(oid).map(str::to_owned);
        name.unwrap_or_else(|| oid.to_string())
    }

    /// Grants as texts.
    pub fn texts(&self, grants: &[Grant]) -> Value {
        let of = |grant: &Grant| {
            let to =
                if grant.to == EVERYBODY { String::new() } else { quoted(&self.role(grant.to)) };
            let letters = grant.rights.letters(grant.options);
            format!("{to}={letters}/{}", quoted(&self.role(grant.by)))
        };
        Value::Texts(grants.iter().map(of).collect())
    }

    /// The rights granted on an object; NULL: the defaults apply.
    pub fn said(&self, table: Option<&Table>) -> Value {
        let own = table.and_then(|table| table.grants.own.as_ref());
        own.map_or(Value::Null, |own| self.texts(own))
    }

    /// The same for a column.
    pub fn said_of_column(&self, table: Option<&Table>, column: &str) -> Value {
        let own = table.and_then(|table| table.grants.columns.get(column));
        own.map_or(Value::Null, |own| self.texts(own))
    }
}

/// Rights to check, each with whether the grant option is required.
pub(super) type WantedRights = Vec<(Rights, bool)>;

/// Whether a role has any of these rights.
pub(super) fn may(
    table: &Table,
    column: Option<&str>,
    who: &Principal,
    asked: &WantedRights,
) -> bool {
    let mut grants = table.granted().into_owned();
    let on_column = column.and_then(|column| table.grants.columns.get(column));
    grants.extend(on_column.into_iter().flatten());
    asked.iter().any(|(rights, with_option)| match with_option {
        true => who.options(&grants, table.owner()).has(*rights),
        false => who.is_superuser || who.rights(&grants).has(*rights),
    })
}

/// Whether a role has any of these rights on a relation of ours, or of PostgreSQL's catalogs.
pub(super) fn may_system(kind: Kind, who: &Principal, asked: &WantedRights) -> bool {
    let is_read = asked.iter().any(|(rights, with_option)| {
        !with_option && *rights == Rights::SELECT && matches!(kind, Kind::System(_))
    });
    who.is_superuser || is_read
}
