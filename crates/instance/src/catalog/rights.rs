//! Rights on objects as PostgreSQL has them, owners, and what GRANT and REVOKE make of them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Catalog, OWNER_OID, Table, TableKind, name};

/// The owner of schema public until somebody changes it, as in PostgreSQL.
pub const PUBLIC_OWNER: &str = "pg_database_owner";

/// Its number.
pub const PUBLIC_OWNER_OID: u32 = 6_171;

/// The grantee that stands for everybody.
pub const EVERYBODY: u32 = 0;

/// The letters of rights, in the order of their bits.
const LETTERS: &[u8; 12] = b"arwdDxtXUCTc";

/// The words of rights, in the same order.
const WORDS: [&str; 12] = [
    "INSERT",
    "SELECT",
    "UPDATE",
    "DELETE",
    "TRUNCATE",
    "REFERENCES",
    "TRIGGER",
    "EXECUTE",
    "USAGE",
    "CREATE",
    "TEMPORARY",
    "CONNECT",
];

/// A set of rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rights(u16);

impl Rights {
    /// None.
    pub const NONE: Rights = Rights(0);
    /// To add rows.
    pub const INSERT: Rights = Rights(1);
    /// To read.
    pub const SELECT: Rights = Rights(1 << 1);
    /// To change rows.
    pub const UPDATE: Rights = Rights(1 << 2);
    /// To delete rows.
    pub const DELETE: Rights = Rights(1 << 3);
    /// To take all rows.
    pub const TRUNCATE: Rights = Rights(1 << 4);
    /// To refer to it by foreign keys: kept for PostgreSQL's clients.
    pub const REFERENCES: Rights = Rights(1 << 5);
    /// To have triggers on it: kept for PostgreSQL's clients.
    pub const TRIGGER: Rights = Rights(1 << 6);
    /// To use a schema, a sequence or a type.
    pub const USAGE: Rights = Rights(1 << 8);
    /// To make something in it.
    pub const CREATE: Rights = Rights(1 << 9);
    /// To make temporary tables in a database.
    pub const TEMPORARY: Rights = Rights(1 << 10);
    /// To connect to a database.
    pub const CONNECT: Rights = Rights(1 << 11);

    /// All that are in either.
    #[must_use]
    pub const fn and(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }

    /// Those that are in both.
    #[must_use]
    pub const fn within(self, other: Rights) -> Rights {
        Rights(self.0 & other.0)
    }

    /// Those that the other has not.
    #[must_use]
    pub const fn without(self, other: Rights) -> Rights {
        Rights(self.0 & !other.0)
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of others are among them.
    pub const fn has(self, others: Rights) -> bool {
        self.0 & others.0 == others.0
    }

    /// Whether any of others is among them.
    pub const fn has_any(self, others: Rights) -> bool {
        self.0 & others.0 != 0
    }

    /// Each by itself.
    pub fn each(self) -> impl Iterator<Item = Rights> {
        (0..LETTERS.len()).map(|bit| Rights(1 << bit)).filter(move |one| self.has(*one))
    }

    /// The right that a word of SQL means.
    pub fn of_word(word: &str) -> Option<Rights> {
        let word = if word.eq_ignore_ascii_case("TEMP") { "TEMPORARY" } else { word };
        let bit = WORDS.iter().position(|own| own.eq_ignore_ascii_case(word))?;
        Some(Rights(1 << bit))
    }

    /// Their words, with commas.
    pub fn words(self) -> String {
        let words: Vec<&str> = self.each().map(Rights::word).collect();
        words.join(", ")
    }

    /// The word of the first.
    pub fn word(self) -> &'static str {
        WORDS.get(self.0.trailing_zeros() as usize).copied().unwrap_or("no right")
    }

    /// Their letters; `*` after one with grant option.
    pub fn letters(self, options: Rights) -> String {
        let mut text = String::new();
        for one in self.and(options).each() {
            text.push(char::from(LETTERS[one.0.trailing_zeros() as usize]));
            if options.has(one) {
                text.push('*');
            }
        }
        text
    }

    /// What letters say: the rights, and those among them with grant option.
    fn of_letters(text: &str) -> Option<(Rights, Rights)> {
        let (mut rights, mut options, mut last) = (Rights::NONE, Rights::NONE, Rights::NONE);
        for letter in text.bytes() {
            if letter == b'*' {
                options = options.and(last);
                continue;
            }
            last = Rights(1 << LETTERS.iter().position(|own| *own == letter)?);
            rights = rights.and(last);
        }
        Some((rights, options))
    }
}

/// What kind of object rights are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A table or a view.
    Table,
    /// A column of one.
    Column,
    /// A sequence.
    Sequence,
    /// A schema.
    Schema,
    /// A type.
    Type,
    /// The database.
    Database,
}

impl Class {
    /// All rights that there are on one.
    pub fn all(self) -> Rights {
        let rows = Rights::INSERT.and(Rights::SELECT).and(Rights::UPDATE);
        match self {
            Class::Table => {
                let more = Rights::DELETE.and(Rights::TRUNCATE).and(Rights::REFERENCES);
                rows.and(more).and(Rights::TRIGGER)
            }
            Class::Column => rows.and(Rights::REFERENCES),
            Class::Sequence => Rights::SELECT.and(Rights::UPDATE).and(Rights::USAGE),
            Class::Schema => Rights::USAGE.and(Rights::CREATE),
            Class::Type => Rights::USAGE,
            Class::Database => Rights::CREATE.and(Rights::TEMPORARY).and(Rights::CONNECT),
        }
    }

    /// What everybody may do by default.
    fn of_everybody(self) -> Rights {
        match self {
            Class::Type => Rights::USAGE,
            Class::Database => Rights::TEMPORARY.and(Rights::CONNECT),
            _ => Rights::NONE,
        }
    }

    /// Its word in messages.
    pub fn word(self) -> &'static str {
        match self {
            Class::Table => "table",
            Class::Column => "column",
            Class::Sequence => "sequence",
            Class::Schema => "schema",
            Class::Type => "type",
            Class::Database => "database",
        }
    }
}

/// Rights that one role has granted to another, or to everybody. As a text: `grantee=letters/grantor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Grant {
    /// Who has them: the number of a role, or [`EVERYBODY`].
    pub to: u32,
    /// Who has given them.
    pub by: u32,
    /// What they are.
    pub rights: Rights,
    /// Those with grant option.
    pub options: Rights,
}

impl From<Grant> for String {
    fn from(grant: Grant) -> String {
        format!("{}={}/{}", grant.to, grant.rights.letters(grant.options), grant.by)
    }
}

impl TryFrom<String> for Grant {
    type Error = String;

    fn try_from(text: String) -> Result<Grant, String> {
        let read = || {
            let (to, rest) = text.split_once('=')?;
            let (letters, by) = rest.split_once('/')?;
            let (rights, options) = Rights::of_letters(letters)?;
            Some(Grant { to: to.parse().ok()?, by: by.parse().ok()?, rights, options })
        };
        read().ok_or_else(|| format!("\"{text}\" is no grant"))
    }
}

/// What was granted on an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grants {
    /// On the object itself; `None`: nothing was granted or revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<Vec<Grant>>,
    /// On its columns, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<String, Vec<Grant>>,
}

impl Grants {
    /// Whether nothing was granted or revoked.
    pub fn is_empty(&self) -> bool {
        self.own.is_none() && self.columns.is_empty()
    }

    /// All of them.
    fn all(&self) -> impl Iterator<Item = &Grant> {
        self.own.iter().flatten().chain(self.columns.values().flatten())
    }

    /// The roles that they name.
    pub fn roles(&self) -> BTreeSet<u32> {
        self.all().flat_map(|grant| [grant.to, grant.by]).filter(|oid| *oid != EVERYBODY).collect()
    }
}

/// A change of what is granted.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// To or from whom.
    pub to: u32,
    /// The grantor.
    pub by: u32,
    /// What.
    pub rights: Rights,
    /// GRANT, not REVOKE.
    pub grants: bool,
    /// WITH GRANT OPTION, or GRANT OPTION FOR.
    pub options: bool,
    /// CASCADE.
    pub cascades: bool,
}

/// What may not be revoked: the role that loses it has granted it to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependent;

/// The default grants.
pub fn default_grants(class: Class, owner: u32) -> Vec<Grant> {
    let of = |to, rights| Grant { to, by: owner, rights, options: Rights::NONE };
    let everybody = Some(of(EVERYBODY, class.of_everybody()));
    let own = (class != Class::Column).then(|| of(owner, class.all()));
    everybody.into_iter().chain(own).filter(|grant| !grant.rights.is_empty()).collect()
}

/// Grants with one change; who owns the object never loses the right to pass rights on.
///
/// # Errors
/// [`Dependent`] others have what is revoked by who loses it, and that is not to go with it.
pub fn changed(grants: &[Grant], owner: u32, change: Change) -> Result<Vec<Grant>, Dependent> {
    let mut next = grants.to_vec();
    let found = next.iter().position(|own| own.to == change.to && own.by == change.by);
    let at = match found {
        Some(at) => at,
        None if !change.grants => return Ok(next),
        None => {
            let (rights, options) = (Rights::NONE, Rights::NONE);
            next.push(Grant { to: change.to, by: change.by, rights, options });
            next.len() - 1
        }
    };
    let own = &mut next[at];
    let before = own.options;
    match (change.grants, change.options) {
        (true, with_option) => {
            own.rights = own.rights.and(change.rights);
            if with_option {
                own.options = own.options.and(change.rights);
            }
        }
        (false, true) => own.options = own.options.without(change.rights),
        (false, false) => {
            own.rights = own.rights.without(change.rights);
            own.options = own.options.without(change.rights);
        }
    }
    let lost = before.without(own.options);
    next.retain(|own| !own.rights.is_empty());
    if lost.is_empty() || change.to == owner {
        return Ok(next);
    }
    // A role keeps the option if another role has granted it too.
    let left = next.iter().filter(|own| own.to == change.to);
    let left = left.fold(Rights::NONE, |all, own| all.and(own.options));
    let lost = lost.without(left);
    let passed = |own: &&Grant| own.by == change.to && own.rights.has_any(lost);
    while let Some(own) = next.iter().find(passed).copied() {
        if !change.cascades {
            return Err(Dependent);
        }
        let rights = own.rights.within(lost);
        let more = Change { to: own.to, by: own.by, rights, options: false, ..change };
        next = changed(&next, owner, more)?;
    }
    Ok(next)
}

/// The role on whose behalf something is done, with the roles whose rights it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The number of the role.
    pub oid: u32,
    /// It may do everything.
    pub is_superuser: bool,
    /// Its own number, and those of the roles whose rights it has.
    pub roles: BTreeSet<u32>,
}

impl Principal {
    /// Whether it has the rights of a role.
    pub fn is_like(&self, role: u32) -> bool {
        self.is_superuser || self.roles.contains(&role)
    }

    /// The rights that grants give it.
    pub fn rights(&self, grants: &[Grant]) -> Rights {
        let own = grants.iter().filter(|own| own.to == EVERYBODY || self.roles.contains(&own.to));
        own.fold(Rights::NONE, |all, own| all.and(own.rights))
    }

    /// The rights that it may pass on.
    pub fn options(&self, grants: &[Grant], owner: u32) -> Rights {
        if self.is_like(owner) {
            return Rights(u16::MAX);
        }
        let own = grants.iter().filter(|own| self.roles.contains(&own.to));
        own.fold(Rights::NONE, |all, own| all.and(own.options))
    }

    /// The grantor, and which of these rights it may grant: this role, or another one whose rights it
    /// has.
    pub fn grantor(&self, grants: &[Grant], owner: u32, wanted: Rights) -> (u32, Rights) {
        if self.is_like(owner) {
            return (owner, wanted);
        }
        let of = |role: &u32| {
            let own = grants.iter().filter(|own| own.to == *role);
            let all = own.fold(Rights::NONE, |all, own| all.and(own.options));
            (*role, all.within(wanted))
        };
        let own = of(&self.oid);
        let others = self.roles.iter().map(of);
        others.fold(
            own,
            |best, other| {
                if other.1.0.count_ones() > best.1.0.count_ones() { other } else { best }
            },
        )
    }
}

impl Table {
    /// What kind of object its rights are on; `None`: there are none on it.
    pub fn class(&self) -> Option<Class> {
        Some(match self.kind {
            TableKind::External | TableKind::Columnar | TableKind::Heap | TableKind::View => {
                Class::Table
            }
            TableKind::Sequence => Class::Sequence,
            TableKind::Schema => Class::Schema,
            TableKind::Enum => Class::Type,
            TableKind::Database => Class::Database,
            TableKind::Role => return None,
        })
    }

    fn is_public(&self) -> bool {
        name::schema_of_key(&self.name) == Some(name::PUBLIC)
    }

    /// Who owns it by default.
    fn first_owner(&self) -> u32 {
        if self.is_public() { PUBLIC_OWNER_OID } else { OWNER_OID }
    }

    /// The number of the role that owns it.
    pub fn owner(&self) -> u32 {
        if self.owner == 0 { self.first_owner() } else { self.owner }
    }

    /// With another owner, who gets what the one before had.
    #[must_use]
    pub fn owned_by(&self, role: u32) -> Table {
        let (old, grants) = (self.owner(), self.grants.clone());
        let put = |grants: Vec<Grant>| -> Vec<Grant> {
            let mut made: Vec<Grant> = Vec::with_capacity(grants.len());
            for mut own in grants {
                own.to = if own.to == old { role } else { own.to };
                own.by = if own.by == old { role } else { own.by };
                match made.iter_mut().find(|known| known.to == own.to && known.by == own.by) {
                    Some(known) => {
                        known.rights = known.rights.and(own.rights);
                        known.options = known.options.and(own.options);
                    }
                    None => made.push(own),
                }
            }
            made
        };
        let grants = Grants {
            own: grants.own.map(put),
            columns: grants.columns.into_iter().map(|(name, own)| (name, put(own))).collect(),
        };
        let owner = if role == self.first_owner() { 0 } else { role };
        Table { owner, grants, ..self.clone() }
    }

    /// What is granted on it.
    pub fn granted(&self) -> Cow<'_, [Grant]> {
        match (&self.grants.own, self.class()) {
            (Some(own), _) => Cow::Borrowed(own),
            (None, None) => Cow::Borrowed(&[]),
            (None, Some(class)) => {
                let mut grants = default_grants(class, self.owner());
                if self.is_public() {
                    let (to, by) = (EVERYBODY, self.owner());
                    let (rights, options) = (Rights::USAGE, Rights::NONE);
                    grants.push(Grant { to, by, rights, options });
                }
                Cow::Owned(grants)
            }
        }
    }

    /// What somebody may do with it.
    pub fn rights_of(&self, who: &Principal) -> Rights {
        match who.is_superuser {
            true => Rights(u16::MAX),
            false => who.rights(&self.granted()),
        }
    }

    /// What somebody may do with a column of it, by what is granted on it and on the column.
    pub fn column_rights(&self, column: &str, who: &Principal) -> Rights {
        let own = self.grants.columns.get(column).map_or(Rights::NONE, |own| who.rights(own));
        self.rights_of(who).and(own)
    }

    /// Whether somebody may do something with any column of it.
    pub fn has_right_on_some(&self, wanted: Rights, who: &Principal) -> bool {
        let columns = self.grants.columns.values();
        self.rights_of(who).has_any(wanted)
            || columns.into_iter().any(|own| who.rights(own).has_any(wanted))
    }

    /// Whether programs older than rights cannot read it as it is.
    pub(super) fn has_rights(&self) -> bool {
        self.owner != 0 || !self.grants.is_empty() || self.kind == TableKind::Database
    }
}

impl Catalog {
    /// Who a role is, with all whose rights it has; `None`: there is no such role.
    pub fn who(&self, role: &str) -> Option<Principal> {
        let (oid, known) = self.role(role)?;
        Some(Principal { oid, is_superuser: known.is_superuser, roles: self.roles_of(oid, true) })
    }

    /// The same by its number.
    pub fn who_is(&self, oid: u32) -> Option<Principal> {
        self.who(self.role_name(oid)?)
    }

    /// The schema of a name as an object, even if the catalog has no entry for it.
    pub fn schema_object(&self, schema: &str) -> Option<Cow<'_, Table>> {
        match self.table(&name::schema_key(schema)) {
            Some(found) => Some(Cow::Borrowed(found)),
            None => (schema == name::PUBLIC).then(|| Cow::Owned(Table::of_schema(schema))),
        }
    }

    /// The database as an object.
    pub fn database_object(&self) -> Cow<'_, Table> {
        match self.table(name::DATABASE_KEY) {
            Some(found) => Cow::Borrowed(found),
            None => Cow::Owned(Table::of_database()),
        }
    }

    /// All objects that have owners and rights.
    pub fn owned_objects(&self) -> impl Iterator<Item = &Table> {
        self.tables.iter().filter(|table| table.class().is_some())
    }

    /// An object that names a missing role.
    pub(super) fn without_its_roles(&self) -> Option<&Table> {
        let is_there = |oid: u32| self.role_name(oid).is_some();
        self.tables.iter().find(|table| {
            table.has_rights()
                && !(is_there(table.owner()) && table.grants.roles().into_iter().all(is_there))
        })
    }

    /// An object that was not there before belongs to the role that made it.
    pub(crate) fn own_new(&mut self, before: &Catalog, owner: u32) {
        let is_new = |table: &Table| {
            let is_plain = table.owner == 0 && table.grants.is_empty() && !table.is_public();
            is_plain
                && !matches!(table.kind, TableKind::Role | TableKind::Database)
                && before.table(&table.name).is_none()
                && !before.tables.iter().any(|known| known.oid() == table.oid())
        };
        for table in &mut self.tables {
            if is_new(table) {
                table.owner = if owner == OWNER_OID { 0 } else { owner };
            }
        }
        if self.tables.iter().any(Table::has_rights) {
            self.own_sequences();
        }
    }

    /// A sequence that belongs to a column has the owner of the table.
    fn own_sequences(&mut self) {
        let mut owners: BTreeMap<String, u32> = BTreeMap::new();
        for table in &self.tables {
            let owned = table.rows.iter().flat_map(|rows| &rows.owned);
            owners.extend(owned.map(|own| (own.sequence.clone(), table.owner())));
        }
        for table in self.tables.iter_mut().filter(|table| table.sequence.is_some()) {
            if let Some(owner) = owners.get(&table.name).filter(|owner| **owner != table.owner()) {
                *table = table.owned_by(*owner);
            }
        }
    }

    /// With another owner or other grants of an object, whose key this is; `of` makes them of what it is.
    ///
    /// # Errors
    /// As of the change.
    pub(crate) fn with_rights(
        &self,
        key: &str,
        of: impl FnOnce(&Table) -> Table,
    ) -> crate::error::Result<Catalog> {
        if let Some(was) = self.table(key) {
            let now = of(was);
            return self.altered(was, now);
        }
        let first = match key {
            name::DATABASE_KEY => Table::of_database(),
            _ if name::schema_of_key(key) == Some(name::PUBLIC) => Table::of_schema(name::PUBLIC),
            _ => {
                let text = format!("\"{key}\" was dropped meanwhile");
                return Err(crate::error::Error::new(942, text).hint("run the statement again"));
            }
        };
        self.with(of(&first), false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Role, RowTable};

    fn change(to: u32, by: u32, rights: Rights) -> Change {
        Change { to, by, rights, grants: true, options: false, cascades: false }
    }

    #[test]
    fn grants_are_texts_and_come_back() {
        let grant = Grant {
            to: 70,
            by: 10,
            rights: Rights::INSERT.and(Rights::SELECT),
            options: Rights::SELECT,
        };
        assert_eq!(String::from(grant), "70=ar*/10");
        assert_eq!(Grant::try_from("70=ar*/10".to_owned()), Ok(grant));
        assert!(Grant::try_from("70=q/10".to_owned()).is_err());
        assert_eq!(Class::Table.all().letters(Rights::NONE), "arwdDxt");
        assert_eq!(Rights::of_word("temp"), Some(Rights::TEMPORARY));
        assert_eq!(Rights::SELECT.and(Rights::CONNECT).words(), "SELECT, CONNECT");
    }

    #[test]
    fn what_was_passed_on_goes_with_the_option_or_keeps_it() {
        let grants = default_grants(Class::Table, 10);
        let with = Change { options: true, ..change(20, 10, Rights::SELECT) };
        let grants = changed(&grants, 10, with).unwrap_or_default();
        let grants = changed(&grants, 10, change(30, 20, Rights::SELECT)).unwrap_or_default();
        assert_eq!(grants.len(), 3);
        let revoke = Change { grants: false, ..change(20, 10, Rights::SELECT) };
        assert_eq!(changed(&grants, 10, revoke), Err(Dependent));
        let cascade = Change { cascades: true, ..revoke };
        assert_eq!(changed(&grants, 10, cascade), Ok(default_grants(Class::Table, 10)));
        let only = Change { options: true, cascades: true, ..revoke };
        let left = changed(&grants, 10, only).unwrap_or_default();
        assert_eq!(left.last().map(|own| String::from(*own)), Some("20=r/10".to_owned()));
    }

    #[test]
    fn rights_come_by_way_of_roles_and_of_everybody() {
        let catalog = Catalog::default().with_role("a", Role::default()).unwrap_or_default();
        let a = catalog.who("a").map_or(0, |who| who.oid);
        let member = crate::catalog::Membership { of: a, is_admin: false, grantor: 10 };
        let b = Role { member_of: vec![member], ..Role::default() };
        let catalog = catalog.with_role("b", b).unwrap_or_default();
        let table = Table::in_heap("t", "", RowTable::plain(70)).owned_by(a);
        let mut catalog = catalog.with(table, false).unwrap_or_default();
        assert_eq!(catalog.version_needed(), crate::catalog::VERSION_RIGHTS);
        let of = |catalog: &Catalog, role: &str| {
            let Some(who) = catalog.who(role) else { return Rights::NONE };
            catalog.table("t").map(|table| table.rights_of(&who)).unwrap_or_default()
        };
        assert_eq!(of(&catalog, "b"), Class::Table.all());
        catalog.tables.iter_mut().for_each(|table| {
            if table.name == "t" {
                table.grants.own = Some(Vec::new());
            }
        });
        assert_eq!(of(&catalog, "a"), Rights::NONE);
        assert!(of(&catalog, "cellar").has(Class::Table.all()));
        let read = catalog.encode().and_then(|bytes| Catalog::decode(&bytes));
        assert!(read.is_ok_and(|read| read.tables == catalog.tables));
        let mut more = catalog.clone();
        let table = Table::in_heap("u", "", RowTable::plain(71));
        more = more.with(table, false).unwrap_or_default();
        more.own_new(&catalog, a);
        assert_eq!(more.table("u").map(Table::owner), Some(a));
        assert_eq!(more.table("t").map(Table::owner), Some(a));
    }

    #[test]
    fn public_and_the_database_are_as_in_postgresql_until_something_is_said() {
        let catalog = Catalog::default();
        let public = catalog.schema_object(name::PUBLIC);
        let texts = |table: &Table| -> Vec<String> {
            table.granted().iter().map(|own| String::from(*own)).collect()
        };
        assert_eq!(
            public.map(|own| texts(&own)),
            Some(vec!["6171=UC/6171".into(), "0=U/6171".into()])
        );
        assert_eq!(texts(&catalog.database_object()), ["0=Tc/10", "10=CTc/10"]);
        let said = catalog.with_rights(name::DATABASE_KEY, |own| own.owned_by(20));
        let said = said.unwrap_or_default();
        assert_eq!(texts(&said.database_object()), ["0=Tc/20", "20=CTc/20"]);
        assert_eq!((said.fault(), said.has_schemas()), (None, false));
        let bytes = said.encode().unwrap_or_default();
        assert!(bytes.starts_with(b"cellar catalog 9 "));
    }
}
