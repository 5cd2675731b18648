//! CREATE, ALTER and DROP ROLE, memberships, and the role that a session acts as.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_recursion::async_recursion as boxed;
use cellar_instance::catalog::{Catalog, Membership, OWNER, OWNER_OID, Rights, Role, name};
use cellar_instance::roles::scram::{Verifier, new_salt};

use crate::engine::{Engine, Outcome, done};
use crate::error::Error;
use crate::instants::written::stamp;
use crate::instants::zoned::{instant_of, zone_of};
use crate::settings::{Acts, denied as lacks, no_role};
use crate::statement::{Assume, Password, RoleName, RoleOptions, RoleStatement};

/// Names that mean something else, or are the system's.
const RESERVED: [&str; 2] = ["none", "public"];

/// Characters of a name at most, as in PostgreSQL.
const NAME_MAX: usize = 63;

/// The role that a session acts as.
#[derive(Clone, Debug)]
pub(crate) struct Acting {
    pub name: String,
    pub oid: u32,
    pub role: Role,
}

fn denied(what: impl Into<String>) -> Error {
    Error::new(1031, "42501", what).next("ask a superuser, as the owner of the database is")
}

fn taken(name: &str) -> Error {
    Error::new(1921, "42710", format!("role \"{name}\" already exists")).next("choose another name")
}

/// Refuses a name that no role may have.
fn check_name(name: &str) -> Result<(), Error> {
    let wrong = if RESERVED.contains(&name) || name.starts_with("pg_") {
        format!("role name \"{name}\" is reserved")
    } else if name.is_empty() || name.len() > NAME_MAX || name.chars().any(char::is_control) {
        format!("the name of a role has up to {NAME_MAX} bytes, and no control characters")
    } else {
        return Ok(());
    };
    Err(Error::new(1948, "42939", wrong).next("choose another name"))
}

/// The stored form of a password, which may be given in that form already; `None`: no password.
fn kept(password: Option<Password>) -> Result<Option<String>, Error> {
    let Some(Password(text)) = password else { return Ok(None) };
    let is_md5 = text.len() == 35
        && text.starts_with("md5")
        && text[3..].bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_md5 {
        return Err(Error::not_yet("a password hashed by MD5")
            .next("give the password itself, or its SCRAM-SHA-256 text"));
    }
    if text.is_empty() {
        return Err(Error::new(1005, "22023", "a password has at least one character")
            .next("password null is none"));
    }
    if text.contains('\0') {
        return Err(Error::new(1005, "22023", "a password has no NUL"));
    }
    if let Some(verifier) = Verifier::read(&text) {
        return Ok(Some(verifier.text()));
    }
    let salt =
        new_salt().ok_or_else(|| Error::new(1005, "58000", "the system has no random bytes"))?;
    Ok(Some(Verifier::of(&text, &salt).text()))
}

impl Engine {
    /// The role that the session acts as.
    ///
    /// # Errors
    /// 42704 it was dropped meanwhile.
    pub(crate) fn acting(&self, catalog: &Catalog) -> Result<Acting, Error> {
        let name = self.settings.now().role.to_string();
        let (oid, role) = catalog.role(&name).ok_or_else(|| no_role(&name))?;
        let role = role.into_owned();
        Ok(Acting { name, oid, role })
    }

    /// Refuses a statement of a role that was dropped since.
    ///
    /// # Errors
    /// 42501.
    pub(super) fn check_role(&self) -> Result<(), Error> {
        if self.settings.is_owner() {
            return Ok(());
        }
        match self.settings.who(&self.catalog()?) {
            Some(_) => Ok(()),
            None => {
                let role = Arc::clone(&self.settings.now().role);
                Err(denied(format!("role \"{role}\" was dropped")))
            }
        }
    }

    /// Sets the role that has connected in this session.
    ///
    /// # Errors
    /// 42704 it was dropped meanwhile; 42501 it may not connect to the database.
    pub fn connected_as(&self, role: &str) -> Result<(), Error> {
        let is_superuser = match self.catalog() {
            Ok(catalog) => {
                let who = catalog.who(role).ok_or_else(|| no_role(role))?;
                if !catalog.database_object().rights_of(&who).has(Rights::CONNECT) {
                    return Err(lacks("database", name::DATABASE_KEY, Rights::CONNECT));
                }
                who.is_superuser
            }
            // If the catalog of roles cannot be read, only the owner may connect.
            Err(error) if role != OWNER => return Err(error),
            Err(_) => true,
        };
        self.settings.connected_as(role, is_superuser);
        Ok(())
    }

    /// SET ROLE, SET SESSION AUTHORIZATION.
    pub(super) async fn assume(&self, what: &Assume, is_local: bool) -> Result<Outcome, Error> {
        let is_in_block = match self.host.rows() {
            Some(rows) => rows.is_in_block().await,
            None => false,
        };
        if is_local && !is_in_block {
            return Ok(Outcome::Done {
                message: "Nothing is set.".to_owned(),
                notices: vec!["SET LOCAL has effect in a transaction alone".to_owned()],
            });
        }
        let catalog = self.catalog()?;
        let now = self.settings.now();
        let find = |name: &str| catalog.role(name).ok_or_else(|| no_role(name));
        let (acts, wanted) = match what {
            Assume::Role(name) => {
                let wanted = name.as_deref().unwrap_or(&now.session_role).to_owned();
                let (session, own) = find(&now.session_role)?;
                let (oid, _) = find(&wanted)?;
                if !own.is_superuser && !catalog.roles_of(session, false).contains(&oid) {
                    return Err(denied(format!("permission denied to set role \"{wanted}\"")));
                }
                (Acts::As(name.as_deref()), wanted)
            }
            Assume::Session(name) => {
                let connected = self.settings.connected();
                let wanted = name.clone().unwrap_or_else(|| connected.clone());
                let (_, own) = find(&connected)?;
                find(&wanted)?;
                if !own.is_superuser && wanted != connected {
                    let text =
                        format!("permission denied to set session authorization \"{wanted}\"");
                    return Err(denied(text));
                }
                (Acts::Session(name.as_deref()), wanted)
            }
        };
        let is_superuser = find(&wanted)?.1.is_superuser;
        self.settings.act(acts, is_superuser, is_local);
        Ok(done(format!("The role is {wanted}.")))
    }

    /// Runs a statement about roles.
    #[boxed]
    pub(super) async fn about_roles(&self, statement: RoleStatement) -> Result<Outcome, Error> {
        match statement {
            RoleStatement::Create { name, options } => self.create_role(name, options).await,
            RoleStatement::Alter { name, options } => self.alter_role(&name, options).await,
            RoleStatement::Rename { name, to } => self.rename_role(&name, &to).await,
            RoleStatement::Drop { names, if_exists } => self.drop_roles(&names, if_exists).await,
            RoleStatement::Grant { roles, to, is_admin } => {
                self.change_members((&roles, &to), Some(is_admin), false).await
            }
            RoleStatement::Revoke { roles, from, only_admin } => {
                self.change_members((&roles, &from), None, only_admin).await
            }
        }
    }

    /// The name of the role that a statement means.
    pub(super) fn named_role(&self, name: &RoleName) -> Result<String, Error> {
        let now = self.settings.now();
        match name {
            RoleName::Named(name) => Ok(name.clone()),
            RoleName::Current => Ok(now.role.to_string()),
            RoleName::Session => Ok(now.session_role.to_string()),
            RoleName::Public => {
                let text = "role name \"public\" is reserved: it is everybody";
                Err(Error::new(1948, "42939", text).next("name a role"))
            }
        }
    }

    /// Locks roles, and gives the catalog as it is then.
    async fn locked_roles(&self, names: &[String]) -> Result<Arc<Catalog>, Error> {
        let scope = self.definer()?;
        scope.definitions.lock_roles(&mut *scope.open().await?, names).await?;
        self.catalog()
    }

    /// Refuses a role that may not create or change another one. `is_superuser`: that one is a superuser,
    /// or is to become one.
    fn check_makes_roles(&self, catalog: &Catalog, is_superuser: bool) -> Result<Acting, Error> {
        let acting = self.acting(catalog)?;
        if !acting.role.is_superuser && (is_superuser || !acting.role.creates_roles) {
            return Err(match is_superuser {
                true => denied("must be superuser to make or change superusers"),
                false => denied("permission denied to make, change or drop roles"),
            });
        }
        Ok(acting)
    }

    /// A role with these options applied.
    fn changed_role(&self, was: Role, options: RoleOptions) -> Result<Role, Error> {
        let mut now = was;
        now.is_superuser = options.is_superuser.unwrap_or(now.is_superuser);
        now.can_login = options.can_login.unwrap_or(now.can_login);
        now.creates_roles = options.creates_roles.unwrap_or(now.creates_roles);
        now.inherits = options.inherits.unwrap_or(now.inherits);
        now.connections = options.connections.unwrap_or(now.connections);
        if let Some(password) = options.password {
            now.verifier = kept(password)?;
        }
        if let Some(until) = options.valid_until {
            now.valid_until = self.point_in_time(&until)?;
        }
        Ok(now)
    }

    /// Microseconds since 1970; `None`: for ever.
    fn point_in_time(&self, text: &str) -> Result<Option<i64>, Error> {
        if text.trim().eq_ignore_ascii_case("infinity") {
            return Ok(None);
        }
        let wrong = || {
            let wrong =
                format!("invalid input syntax for type timestamp with time zone: \"{text}\"");
            Error::new(1861, "22007", wrong).next("valid until '2030-01-31 12:00', or 'infinity'")
        };
        let stamp = stamp(text.trim().as_bytes()).ok_or_else(wrong)?;
        let micros = stamp.seconds.checked_mul(1_000_000).ok_or_else(wrong)?;
        let micros = micros + i64::from(stamp.nanos / 1_000);
        if stamp.has_offset {
            return Ok(Some(micros));
        }
        let zone = zone_of(&self.settings.now().zone).map_err(|_| wrong())?;
        instant_of(micros, &zone).map(Some).ok_or_else(wrong)
    }

    async fn create_role(&self, name: String, options: RoleOptions) -> Result<Outcome, Error> {
        check_name(&name)?;
        let named = |names: &[RoleName]| -> Result<Vec<String>, Error> {
            names.iter().map(|name| self.named_role(name)).collect()
        };
        let (in_roles, members) = (named(&options.in_roles)?, named(&options.members)?);
        let admins = named(&options.admins)?;
        let all = [&in_roles[..], &members, &admins, std::slice::from_ref(&name)].concat();
        let catalog = self.locked_roles(&all).await?;
        let acting = self.check_makes_roles(&catalog, options.is_superuser == Some(true))?;
        if catalog.role(&name).is_some() {
            return Err(taken(&name));
        }
        let role = self.changed_role(Role::default(), options)?;
        self.definer()?.definitions.put_role(&name, role)?;
        for of in in_roles {
            self.put_member((&of, &name), Some(false), false, &acting)?;
        }
        for (members, is_admin) in [(members, false), (admins, true)] {
            for member in members {
                self.put_member((&name, &member), Some(is_admin), false, &acting)?;
            }
        }
        Ok(done(format!("Role {name} created.")))
    }

    async fn alter_role(&self, name: &RoleName, options: RoleOptions) -> Result<Outcome, Error> {
        let name = self.named_role(name)?;
        let catalog = self.locked_roles(std::slice::from_ref(&name)).await?;
        let (_, was) = catalog.role(&name).ok_or_else(|| no_role(&name))?;
        let acting = self.acting(&catalog)?;
        let only_password =
            RoleOptions { password: options.password.clone(), ..RoleOptions::default() };
        // A role may change its own password.
        if acting.name != name || options != only_password {
            let is_superuser = was.is_superuser || options.is_superuser.is_some();
            self.check_makes_roles(&catalog, is_superuser)?;
        }
        let is_less = [options.is_superuser, options.can_login].contains(&Some(false));
        if name == OWNER && is_less {
            let text =
                format!("role \"{OWNER}\" is the owner's: it stays a superuser that may log in");
            return Err(Error::new(1918, "2BP01", text).next("make another role"));
        }
        let now = self.changed_role(was.into_owned(), options)?;
        self.definer()?.definitions.put_role(&name, now)?;
        Ok(done(format!("Role {name} altered.")))
    }

    async fn rename_role(&self, name: &RoleName, to: &str) -> Result<Outcome, Error> {
        let name = self.named_role(name)?;
        check_name(to)?;
        if name == OWNER {
            let text = format!("role \"{OWNER}\" is the owner's: it keeps its name");
            return Err(Error::new(1918, "2BP01", text).next("make another role"));
        }
        let catalog = self.locked_roles(&[name.clone(), to.to_owned()]).await?;
        let (_, was) = catalog.role(&name).ok_or_else(|| no_role(&name))?;
        self.check_makes_roles(&catalog, was.is_superuser)?;
        self.check_not_in_use(&name, "renamed")?;
        if catalog.role(to).is_some() {
            return Err(taken(to));
        }
        self.definer()?.definitions.rename_role(&name, to)?;
        Ok(done(format!("Role {name} is {to} now.")))
    }

    /// Refuses to drop or rename a role that this session uses.
    fn check_not_in_use(&self, name: &str, verb: &str) -> Result<(), Error> {
        let now = self.settings.now();
        let own = [&*now.role, &*now.session_role, &*self.settings.connected()];
        match own.contains(&name) {
            false => Ok(()),
            true => {
                let text = format!("role \"{name}\" is that of this session, and cannot be {verb}");
                Err(Error::new(1940, "55006", text).next("connect as another role"))
            }
        }
    }

    async fn drop_roles(&self, names: &[RoleName], if_exists: bool) -> Result<Outcome, Error> {
        let names: Vec<String> =
            names.iter().map(|name| self.named_role(name)).collect::<Result<_, _>>()?;
        let catalog = self.locked_roles(&names).await?;
        let (mut dropped, mut notices) = (BTreeSet::new(), Vec::new());
        for name in names {
            let Some((_, role)) = catalog.role(&name) else {
                match if_exists {
                    true => notices.push(format!("role \"{name}\" does not exist")),
                    false => return Err(no_role(&name)),
                }
                continue;
            };
            if name == OWNER {
                let text = format!("role \"{OWNER}\" cannot be dropped: the database is its");
                return Err(Error::new(1922, "2BP01", text).next("drop another role"));
            }
            self.check_makes_roles(&catalog, role.is_superuser)?;
            self.check_not_in_use(&name, "dropped")?;
            check_owns_nothing(&catalog, &name)?;
            dropped.insert(name);
        }
        let dropped: Vec<String> = dropped.into_iter().collect();
        self.definer()?.definitions.drop_roles(&dropped)?;
        let message = match dropped.is_empty() {
            true => "There was no such role.".to_owned(),
            false => format!("Role {} dropped.", dropped.join(", ")),
        };
        Ok(Outcome::Done { message, notices })
    }

    // --- memberships ---

    /// GRANT (`grants`: with the admin option or not) and REVOKE of roles.
    async fn change_members(
        &self,
        (roles, members): (&[RoleName], &[RoleName]),
        grants: Option<bool>,
        only_admin: bool,
    ) -> Result<Outcome, Error> {
        let named = |names: &[RoleName]| -> Result<Vec<String>, Error> {
            names.iter().map(|name| self.named_role(name)).collect()
        };
        let (roles, members) = (named(roles)?, named(members)?);
        let catalog = self.locked_roles(&[&roles[..], &members].concat()).await?;
        let acting = self.acting(&catalog)?;
        let mut notices = Vec::new();
        for role in &roles {
            self.check_admin(&catalog, &acting, role)?;
            for member in &members {
                notices.extend(self.put_member((role, member), grants, only_admin, &acting)?);
            }
        }
        let verb = if grants.is_some() { "granted" } else { "revoked" };
        Ok(Outcome::Done { message: format!("Role {} {verb}.", roles.join(", ")), notices })
    }

    /// Refuses a role that may not decide who is a member of another one.
    fn check_admin(&self, catalog: &Catalog, acting: &Acting, role: &str) -> Result<(), Error> {
        let (oid, known) = catalog.role(role).ok_or_else(|| no_role(role))?;
        let own = catalog.roles_of(acting.oid, true);
        let is_admin = || {
            catalog.roles().iter().any(|(_, member, known)| {
                own.contains(member)
                    && known.member_of.iter().any(|own| own.of == oid && own.is_admin)
            })
        };
        let may = match known.is_superuser {
            true => acting.role.is_superuser,
            false => acting.role.is_superuser || acting.role.creates_roles || is_admin(),
        };
        match may {
            true => Ok(()),
            false => Err(denied(format!("must have admin option on role \"{role}\""))),
        }
    }

    /// Makes a role a member of another one, or no longer; returns the notice to give.
    fn put_member(
        &self,
        (role, member): (&str, &str),
        grants: Option<bool>,
        only_admin: bool,
        acting: &Acting,
    ) -> Result<Option<String>, Error> {
        let catalog = self.catalog()?;
        let (of, _) = catalog.role(role).ok_or_else(|| no_role(role))?;
        let (oid, known) = catalog.role(member).ok_or_else(|| no_role(member))?;
        let mut known = known.into_owned();
        let was = known.member_of.iter().position(|own| own.of == of);
        match (grants, was) {
            (Some(_), _) if catalog.roles_of(of, false).contains(&oid) => {
                let text = format!("role \"{role}\" is a member of role \"{member}\"");
                return Err(Error::new(1934, "0LP01", text).next("no role is a member of itself"));
            }
            (Some(_), _) if of == OWNER_OID => {
                let text = format!("role \"{OWNER}\" has no members: the database is its");
                return Err(Error::new(1934, "0LP01", text).next("alter role .. superuser"));
            }
            (Some(is_admin), Some(at)) => {
                let is_same = known.member_of[at].is_admin || !is_admin;
                known.member_of[at].is_admin |= is_admin;
                if is_same {
                    return Ok(Some(format!(
                        "role \"{member}\" is already a member of role \"{role}\""
                    )));
                }
            }
            (Some(is_admin), None) => {
                known.member_of.push(Membership { of, is_admin, grantor: acting.oid });
            }
            (None, None) => {
                return Ok(Some(format!("role \"{member}\" is not a member of role \"{role}\"")));
            }
            (None, Some(at)) if only_admin => known.member_of[at].is_admin = false,
            (None, Some(at)) => drop(known.member_of.remove(at)),
        }
        self.definer()?.definitions.put_role(member, known)?;
        Ok(None)
    }
}

/// Refuses to drop a role that owns something, or has rights on something.
fn check_owns_nothing(catalog: &Catalog, role: &str) -> Result<(), Error> {
    let Some((oid, _)) = catalog.role(role) else { return Ok(()) };
    let mut lines = Vec::new();
    for table in catalog.owned_objects() {
        let own = match name::schema_of_key(&table.name) {
            Some(schema) => schema,
            None if table.name == name::DATABASE_KEY => name::parts(&table.name).1,
            None => &table.name,
        };
        let word = table.word();
        match table.owner() == oid {
            true => lines.push(format!("owner of {word} {own}")),
            false if table.grants.roles().contains(&oid) => {
                lines.push(format!("privileges for {word} {own}"));
            }
            false => {}
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    let text = format!("role \"{role}\" cannot be dropped because some objects depend on it");
    let next = format!("reassign owned by {role} to ..; drop owned by {role}");
    Err(Error::new(1922, "2BP01", text)
        .caused_by(Error::new(1922, "2BP01", lines.join("\n")).next(next)))
}
