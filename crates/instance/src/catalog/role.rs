//! A role as the catalog keeps it: who may connect, what it may do, and of which others it is a member.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Catalog, PUBLIC_OWNER, PUBLIC_OWNER_OID, Table, name};
use crate::error::{Error, Result};

/// The role that every database has: its owner.
pub const OWNER: &str = "cellar";

/// Its number, as that of PostgreSQL's first role.
pub const OWNER_OID: u32 = 10;

/// A role.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Role {
    /// It may do everything.
    #[serde(default)]
    pub is_superuser: bool,
    /// It may connect.
    #[serde(default)]
    pub can_login: bool,
    /// It may make roles.
    #[serde(default)]
    pub creates_roles: bool,
    /// INHERIT: it has the rights of the roles it is a member of without SET ROLE.
    pub inherits: bool,
    /// The most sessions; negative: any number.
    pub connections: i32,
    /// What is kept of its password: see [`scram`](crate::roles::scram). Never the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier: Option<String>,
    /// When the password expires, in microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<i64>,
    /// The roles that it is a member of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub member_of: Vec<Membership>,
}

impl std::fmt::Debug for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let has_password = self.verifier.is_some();
        f.debug_struct("Role").field("has_password", &has_password).finish_non_exhaustive()
    }
}

/// A membership in another role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The number of that role.
    pub of: u32,
    /// ADMIN OPTION: it may make others members.
    #[serde(default)]
    pub is_admin: bool,
    /// The number of the role that granted it.
    pub grantor: u32,
}

impl Default for Role {
    fn default() -> Role {
        Role {
            is_superuser: false,
            can_login: false,
            creates_roles: false,
            inherits: true,
            connections: -1,
            verifier: None,
            valid_until: None,
            member_of: Vec::new(),
        }
    }
}

impl Role {
    /// The role that every database has, while nothing else is recorded of it.
    fn of_owner() -> Role {
        Role { is_superuser: true, can_login: true, creates_roles: true, ..Role::default() }
    }
}

/// The error for a missing role.
pub(crate) fn no_role(role: &str) -> Error {
    Error::new(1918, format!("role \"{role}\" does not exist"))
        .hint("see which there are: select rolname from pg_roles")
}

impl Catalog {
    /// A role and its number.
    pub fn role(&self, role: &str) -> Option<(u32, Cow<'_, Role>)> {
        let found = self.table(&name::role_key(role));
        match found.and_then(|table| Some((table.oid(), table.role.as_ref()?))) {
            Some((oid, role)) => Some((oid, Cow::Borrowed(role))),
            None if role == OWNER => Some((OWNER_OID, Cow::Owned(Role::of_owner()))),
            None => None,
        }
    }

    /// All roles: name, number, and what each is.
    pub fn roles(&self) -> Vec<(&str, u32, Cow<'_, Role>)> {
        let made = self.tables.iter().filter_map(|table| {
            let role = table.role.as_ref()?;
            Some((name::role_of_key(&table.name)?, table.oid(), Cow::Borrowed(role)))
        });
        let mut roles: Vec<_> = made.collect();
        if !roles.iter().any(|(name, ..)| *name == OWNER) {
            roles.insert(0, (OWNER, OWNER_OID, Cow::Owned(Role::of_owner())));
        }
        roles
    }

    /// The name of the role with a number.
    pub fn role_name(&self, oid: u32) -> Option<&str> {
        if oid == OWNER_OID {
            return Some(OWNER);
        }
        if oid == PUBLIC_OWNER_OID {
            return Some(PUBLIC_OWNER);
        }
        let mut roles = self.tables.iter().filter(|table| table.role.is_some());
        let found = roles.find(|table| table.oid() == oid)?;
        name::role_of_key(&found.name)
    }

    fn role_of_oid(&self, oid: u32) -> Option<Cow<'_, Role>> {
        self.role(self.role_name(oid)?).map(|(_, role)| role)
    }

    /// All roles that a role is a member of, directly or through others, and itself. `inherited`: only
    /// those whose rights it has without SET ROLE.
    pub fn roles_of(&self, oid: u32, inherited: bool) -> BTreeSet<u32> {
        let (mut found, mut left) = (BTreeSet::from([oid]), vec![oid]);
        while let Some(next) = left.pop() {
            let Some(role) = self.role_of_oid(next) else { continue };
            if inherited && !role.inherits {
                continue;
            }
            left.extend(role.member_of.iter().map(|own| own.of).filter(|of| found.insert(*of)));
        }
        found
    }

    /// With a role, new or in the place of the one of that name.
    pub(crate) fn with_role(&self, role: &str, now: Role) -> Result<Catalog> {
        match self.table(&name::role_key(role)) {
            Some(was) => self.altered(was, Table { role: Some(now), ..was.clone() }),
            None => {
                let number = if role == OWNER { OWNER_OID } else { 0 };
                self.with(Table { number, ..Table::of_role(role, now) }, false)
            }
        }
    }

    /// Without a role, of which nobody is a member any more then.
    pub(crate) fn without_role(&self, role: &str) -> Result<Catalog> {
        let key = name::role_key(role);
        let oid = self.table(&key).ok_or_else(|| no_role(role))?.oid();
        let mut next = self.without(&key)?.0;
        for other in next.tables.iter_mut().filter_map(|table| table.role.as_mut()) {
            other.member_of.retain(|own| own.of != oid);
        }
        Ok(next)
    }

    /// With another name for a role.
    pub(crate) fn with_role_renamed(&self, role: &str, to: &str) -> Result<Catalog> {
        let was = self.table(&name::role_key(role)).ok_or_else(|| no_role(role))?;
        self.altered(was, Table { name: name::role_key(to), ..was.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(of: u32) -> Membership {
        Membership { of, is_admin: false, grantor: OWNER_OID }
    }

    #[test]
    fn members_are_so_by_way_of_others_and_leave_with_them() {
        let plain = Role::default;
        let catalog = Catalog::default().with_role("a", plain()).unwrap_or_default();
        let oid = |catalog: &Catalog, role| catalog.role(role).map_or(0, |(oid, _)| oid);
        let a = oid(&catalog, "a");
        let b = Role { member_of: vec![member(a)], ..plain() };
        let catalog = catalog.with_role("b", b).unwrap_or_default();
        let b = oid(&catalog, "b");
        let c = Role { member_of: vec![member(b)], inherits: false, ..plain() };
        let catalog = catalog.with_role("c", c).unwrap_or_default();
        let c = oid(&catalog, "c");
        assert_eq!(catalog.roles_of(c, false), BTreeSet::from([a, b, c]));
        assert_eq!(catalog.roles_of(c, true), BTreeSet::from([c]));
        assert_eq!(catalog.roles_of(b, true), BTreeSet::from([a, b]));
        assert_eq!(catalog.version_needed(), super::super::VERSION_ROLES);
        assert_eq!(catalog.fault(), None);
        let renamed = catalog.with_role_renamed("a", "z").unwrap_or_default();
        assert_eq!(oid(&renamed, "z"), a);
        let catalog = catalog.without_role("a").unwrap_or_default();
        assert_eq!(catalog.roles_of(c, false), BTreeSet::from([b, c]));
        let read = catalog.encode().and_then(|bytes| Catalog::decode(&bytes));
        assert!(read.is_ok_and(|read| read.tables == catalog.tables));
    }

    #[test]
    fn the_owner_is_there_before_anything_is_said_of_it() {
        let catalog = Catalog::default();
        assert!(catalog.role(OWNER).is_some_and(|(oid, own)| oid == 10 && own.is_superuser));
        assert_eq!((catalog.role_name(10), catalog.role("x")), (Some(OWNER), None));
        let said = Role { connections: 5, ..Role::of_owner() };
        let catalog = catalog.with_role(OWNER, said).unwrap_or_default();
        assert_eq!(catalog.role(OWNER).map(|(oid, own)| (oid, own.connections)), Some((10, 5)));
        assert_eq!(catalog.roles().len(), 1);
    }
}
