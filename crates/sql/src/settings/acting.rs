//! The role that a session acts as, with all roles whose rights it has, looked up once for each catalog.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cellar_instance::catalog::{Catalog, OWNER, OWNER_OID, Principal, Rights, name};

use super::Settings;
use crate::error::Error;

/// What a catalog says about a role.
#[derive(Debug)]
struct Found {
    catalog: Arc<Catalog>,
    role: Arc<str>,
    who: Arc<Principal>,
    /// By the keys of tables.
    rights: HashMap<String, Rights>,
}

/// The last result.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<Option<Found>>);

impl Kept {
    fn of<T>(
        &self,
        catalog: &Arc<Catalog>,
        role: &Arc<str>,
        ask: impl FnOnce(&mut Found) -> T,
    ) -> Option<T> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |found: &Found| Arc::ptr_eq(&found.catalog, catalog) && found.role == *role;
        if !kept.as_ref().is_some_and(is_same) {
            let who = Arc::new(catalog.who(role)?);
            let (catalog, role) = (Arc::clone(catalog), Arc::clone(role));
            *kept = Some(Found { catalog, role, who, rights: HashMap::new() });
        }
        kept.as_mut().map(ask)
    }
}

impl Settings {
    /// Whether the session acts as the owner of the database, who may do everything whatever the catalog says.
    pub fn is_owner(&self) -> bool {
        &*self.now().role == OWNER
    }

    /// The role that the session acts as; `None`: it was dropped.
    pub fn who(&self, catalog: &Arc<Catalog>) -> Option<Arc<Principal>> {
        let role = Arc::clone(&self.now().role);
        if &*role == OWNER {
            let roles = [OWNER_OID].into();
            return Some(Arc::new(Principal { oid: OWNER_OID, is_superuser: true, roles }));
        }
        self.acting.of(catalog, &role, |found| Arc::clone(&found.who))
    }

    /// Whether the session has these rights on the whole of a table that it may see; answered quickly.
    pub fn may(&self, catalog: &Arc<Catalog>, key: &str, wanted: Rights) -> bool {
        let role = Arc::clone(&self.now().role);
        let ask = |found: &mut Found| {
            if found.who.is_superuser {
                return true;
            }
            if let Some(rights) = found.rights.get(key) {
                return rights.has(wanted);
            }
            let rights = visible_rights(&found.catalog, key, &found.who);
            found.rights.insert(key.to_owned(), rights);
            rights.has(wanted)
        };
        &*role == OWNER || self.acting.of(catalog, &role, ask).unwrap_or(false)
    }
}

/// The rights on the whole of a table whose schema may be used.
fn visible_rights(catalog: &Catalog, key: &str, who: &Principal) -> Rights {
    let schema = name::parts(key).0;
    let may_use = name::is_temporary(schema)
        || catalog.schema_object(schema).is_some_and(|own| own.rights_of(who).has(Rights::USAGE));
    match (may_use, catalog.table(key)) {
        (true, Some(table)) => table.rights_of(who),
        _ => Rights::NONE,
    }
}

/// The error for a role that does not exist.
pub(crate) fn no_role(name: &str) -> Error {
    Error::new(1918, "42704", format!("role \"{name}\" does not exist"))
        .next("see which there are: select rolname from pg_roles")
}

/// The error for a role that lacks a right.
pub(crate) fn denied(word: &str, key: &str, wanted: Rights) -> Error {
    let own = match name::schema_of_key(key) {
        Some(schema) => schema,
        None => name::parts(key).1,
    };
    let right = match wanted.is_empty() {
        true => "..".to_owned(),
        false => wanted.words().to_lowercase(),
    };
    let kind = if matches!(word, "view") { String::new() } else { format!("{word} ") };
    Error::new(1031, "42501", format!("permission denied for {word} {own}"))
        .next(format!("its owner may say: grant {right} on {kind}{own} to .."))
}
