//! GRANT and REVOKE on objects, ALTER .. OWNER TO, REASSIGN OWNED, DROP OWNED.

use std::collections::BTreeSet;

use async_recursion::async_recursion as boxed;
use cellar_instance::catalog::{
    Catalog, Change, Class, EVERYBODY, Grant, Grants, Principal, Rights, Table, TableKind, changed,
    name,
};
use datafusion::common::TableReference;

use crate::columnar::table::checked_schema;
use crate::engine::rights::{AccessCheck, not_owner, not_superuser};
use crate::engine::sequences::{bare, quoted};
use crate::engine::{Engine, Outcome, done};
use crate::error::Error;
use crate::names::path::SYSTEM;
use crate::names::resolve::no_schema;
use crate::settings::{denied, no_role};
use crate::statement::rights::{On, RightsStatement, Said};
use crate::statement::{About, RoleName};

/// What GRANT or REVOKE does.
struct Wanted {
    grants: bool,
    said: Vec<Said>,
    options: bool,
    cascades: bool,
    /// Numbers of roles, or [`EVERYBODY`].
    to: Vec<u32>,
}

/// The error for rights that do not exist on a kind of object.
fn invalid(rights: Rights, word: &str) -> Error {
    Error::new(990, "0LP01", format!("invalid privilege type {} for {word}", rights.words()))
        .next("ALL is all that there are")
}

fn dependent() -> Error {
    Error::new(1922, "2BP01", "dependent privileges exist").next("use CASCADE to revoke them too")
}

fn own_name(table: &Table) -> &str {
    match table.kind {
        TableKind::Schema => name::schema_of_key(&table.name).unwrap_or_default(),
        _ => name::parts(&table.name).1,
    }
}

impl Engine {
    /// Runs a statement about rights.
    #[boxed]
    pub(super) async fn about_rights(&self, statement: RightsStatement) -> Result<Outcome, Error> {
        match statement {
            RightsStatement::Change { grants, said, on, to, options, cascades } => {
                let to = self.grantees(&to)?;
                let wanted = Wanted { grants, said, options, cascades, to };
                self.change_rights(wanted, &on).await
            }
            RightsStatement::Reassign { of, to } => self.reassign(&of, &to).await,
            RightsStatement::DropOwned { of, cascades } => self.drop_owned(&of, cascades).await,
        }
    }

    /// The numbers of the roles that are to get rights.
    fn grantees(&self, names: &[RoleName]) -> Result<Vec<u32>, Error> {
        let catalog = self.catalog()?;
        let number = |name: &RoleName| match name {
            RoleName::Public => Ok(EVERYBODY),
            other => {
                let name = self.named_role(other)?;
                catalog.role(&name).map(|(oid, _)| oid).ok_or_else(|| no_role(&name))
            }
        };
        names.iter().map(number).collect()
    }

    /// The keys of the objects a statement names.
    fn keys_on(&self, catalog: &Catalog, on: &On) -> Result<Vec<String>, Error> {
        let named = |names: &[TableReference], classes: &[Class], word: &str| {
            let key = |reference: &TableReference| {
                self.check_own(reference)?;
                let key = bare(reference)?;
                match catalog.table(&key) {
                    None => Err(Error::new(
                        942,
                        if word == "type" { "42704" } else { "42P01" },
                        format!("{word} \"{key}\" does not exist"),
                    )),
                    Some(own) if own.class().is_some_and(|own| classes.contains(&own)) => Ok(key),
                    Some(own) => {
                        let text = format!("\"{key}\" is a {}, no {word}", own.word());
                        Err(Error::new(942, "42809", text))
                    }
                }
            };
            names.iter().map(key).collect::<Result<Vec<String>, Error>>()
        };
        let within = |schemas: &[String], class: Class| {
            let mut keys = Vec::new();
            for schema in schemas {
                if !catalog.has_schema(schema) {
                    return Err(no_schema(schema));
                }
                let own = catalog.in_schema(schema).filter(|table| table.class() == Some(class));
                keys.extend(own.map(|table| table.name.clone()));
            }
            Ok(keys)
        };
        match on {
            On::Tables(names) => named(names, &[Class::Table, Class::Sequence], "table"),
            On::Sequences(names) => named(names, &[Class::Sequence], "sequence"),
            On::Types(names) => named(names, &[Class::Type], "type"),
            On::Schemas(schemas) => schemas
                .iter()
                .map(|schema| {
                    let is_there = !SYSTEM.contains(&schema.as_str()) && catalog.has_schema(schema);
                    if is_there { Ok(name::schema_key(schema)) } else { Err(no_schema(schema)) }
                })
                .collect(),
            On::Database(names) => names
                .iter()
                .map(|own| match own == DATABASE {
                    true => Ok(name::DATABASE_KEY.to_owned()),
                    false => Err(Error::new(
                        12514,
                        "3D000",
                        format!("database \"{own}\" does not exist"),
                    )
                    .next(format!("it is called {DATABASE} here"))),
                })
                .collect(),
            On::AllTables(schemas) => within(schemas, Class::Table),
            On::AllSequences(schemas) => within(schemas, Class::Sequence),
        }
    }

    async fn change_rights(&self, wanted: Wanted, on: &On) -> Result<Outcome, Error> {
        if wanted.grants && wanted.options && wanted.to.contains(&EVERYBODY) {
            let text = "grant options can only be granted to roles";
            return Err(Error::new(990, "0LP01", text).next("name a role"));
        }
        let keys = self.keys_on(&*self.catalog()?, on)?;
        let is_as_table = matches!(on, On::Tables(_));
        self.lock_rights(&keys, &wanted.to).await?;
        let (who, mut notices) = (self.who()?, Vec::new());
        for key in keys {
            let catalog = self.catalog()?;
            let Some(table) = object(&catalog, &key) else {
                return Err(Error::new(942, "42P01", format!("\"{key}\" was dropped meanwhile")));
            };
            let grants = wanted.on(&who, &table, is_as_table, &mut notices)?;
            if grants != table.grants {
                let put = |was: &Table| Table { grants, ..was.clone() };
                self.definer()?.definitions.put_rights(&key, put)?;
            }
        }
        let word = if wanted.grants { "Grant" } else { "Revoke" };
        Ok(Outcome::Done { message: format!("{word} succeeded."), notices })
    }

    /// Locks objects, and the roles that are to have rights on them.
    async fn lock_rights(&self, keys: &[String], roles: &[u32]) -> Result<(), Error> {
        let scope = self.definer()?;
        let catalog = self.catalog()?;
        let mut names: BTreeSet<String> = keys.iter().cloned().collect();
        let roles = roles.iter().filter_map(|oid| catalog.role_name(*oid));
        names.extend(roles.map(name::role_key));
        Ok(scope.definitions.lock_rights(&mut *scope.open().await?, names).await?)
    }

    // --- owners ---

    /// ALTER .. OWNER TO.
    pub(super) async fn set_owner(
        &self,
        of: &About,
        if_exists: bool,
        role: &RoleName,
    ) -> Result<Outcome, Error> {
        let key = match self.owned(of) {
            Err(error) if if_exists && matches!(error.sqlstate, "42P01" | "3F000") => {
                return Ok(done("There was no such object."));
            }
            key => key?,
        };
        let role = self.named_role(role)?;
        let (oid, _) = self.catalog()?.role(&role).ok_or_else(|| no_role(&role))?;
        if matches!(of, About::Index(_)) {
            // An index is its table's.
            let message = format!("The owner of index {key} is that of its table.");
            return Ok(Outcome::Done { message, notices: Vec::new() });
        }
        self.lock_rights(std::slice::from_ref(&key), &[oid]).await?;
        let catalog = self.catalog()?;
        let Some(table) = object(&catalog, &key) else {
            return Err(Error::new(942, "42P01", format!("\"{key}\" was dropped meanwhile")));
        };
        if table.owner() == oid {
            return Ok(done(format!("The owner is {role}.")));
        }
        if let Some(asking) = self.asking()? {
            may_give_away(&asking, &table, oid)?;
        }
        if let Some((of, _)) = catalog.owner_of(&key) {
            let text = format!("cannot change owner of sequence \"{key}\"");
            return Err(Error::new(4007, "0A000", text)
                .next(format!("it goes with table {}: change the owner of that", of.name)));
        }
        let own = table.rows.iter().flat_map(|rows| &rows.owned);
        let keys: Vec<String> = own.map(|own| own.sequence.clone()).chain([key]).collect();
        for key in keys {
            self.definer()?.definitions.put_rights(&key, |was| was.owned_by(oid))?;
        }
        Ok(done(format!("The owner is {role}.")))
    }

    /// The key of the object of an ALTER .. OWNER TO.
    fn owned(&self, of: &About) -> Result<String, Error> {
        let catalog = self.catalog()?;
        match of {
            About::Schema(schema) => self.commented_schema(&catalog, schema),
            About::Table(own) => {
                // ALTER TABLE applies to every kind of relation.
                let key = bare(own)?;
                let kinds = ["view", "sequence"];
                let kind = catalog.kind_of(&key).filter(|kind| kinds.contains(kind));
                self.commented(&catalog, kind.unwrap_or("table"), own)
            }
            About::View(own) => self.commented(&catalog, "view", own),
            About::Sequence(own) => self.commented(&catalog, "sequence", own),
            About::Index(own) => self.commented(&catalog, "index", own),
            About::Type(own) => self.commented(&catalog, "type", own),
            About::Column(own, _) | About::Constraint(own, _) => {
                self.commented(&catalog, "table", own)
            }
        }
    }

    /// The roles that a statement names, each of which the session may act as.
    fn own_roles(&self, names: &[RoleName]) -> Result<Vec<u32>, Error> {
        let who = self.who()?;
        let roles = self.grantees(names)?;
        match roles.iter().find(|oid| **oid == EVERYBODY || !who.is_like(**oid)) {
            None => Ok(roles),
            Some(_) => Err(Error::new(1031, "42501", "permission denied to change what roles own")
                .next("be a member of each of them, or ask a superuser")),
        }
    }

    /// REASSIGN OWNED.
    async fn reassign(&self, of: &[RoleName], to: &RoleName) -> Result<Outcome, Error> {
        let roles = self.own_roles(of)?;
        let heir = self.own_roles(std::slice::from_ref(to))?;
        let Some(heir) = heir.first().copied() else { return Ok(done("Nothing is changed.")) };
        let keys = self.keys_of(&roles)?;
        self.lock_rights(&keys, &[&roles[..], &[heir]].concat()).await?;
        let keys = self.keys_of(&roles)?;
        for key in &keys {
            self.definer()?.definitions.put_rights(key, |was| was.owned_by(heir))?;
        }
        Ok(done(format!("The owner of {} objects is another one now.", keys.len())))
    }

    /// The keys of what roles own.
    fn keys_of(&self, roles: &[u32]) -> Result<Vec<String>, Error> {
        let catalog = self.catalog()?;
        let own = catalog.owned_objects().filter(|table| roles.contains(&table.owner()));
        Ok(own.map(|table| table.name.clone()).collect())
    }

    /// DROP OWNED.
    async fn drop_owned(&self, of: &[RoleName], cascades: bool) -> Result<Outcome, Error> {
        let roles = self.own_roles(of)?;
        if roles.contains(&cellar_instance::catalog::OWNER_OID) {
            let text = "what the owner of the database owns cannot be dropped: the system needs it";
            return Err(Error::new(1922, "2BP01", text).next("drop the objects one by one"));
        }
        self.lock_rights(&self.keys_of(&roles)?, &roles).await?;
        let keys = |kinds: &[TableKind]| -> Result<Vec<TableReference>, Error> {
            let catalog = self.catalog()?;
            let own = catalog.owned_objects().filter(|table| roles.contains(&table.owner()));
            let own = own.filter(|table| kinds.contains(&table.kind));
            Ok(own.map(|table| TableReference::bare(table.name.clone())).collect())
        };
        let texts = |keys: Vec<TableReference>| -> Vec<String> {
            keys.iter().map(|key| quoted(key.table()).to_string()).collect()
        };
        let how = (true, cascades);
        let views = texts(keys(&[TableKind::View])?);
        if !views.is_empty() {
            self.drop_views(views, how).await?;
        }
        let tables = texts(keys(&[TableKind::Heap, TableKind::Columnar, TableKind::External])?);
        if !tables.is_empty() {
            self.drop_tables(tables, how).await?;
        }
        let sequences = texts(keys(&[TableKind::Sequence])?);
        let sequences: Vec<_> = sequences.iter().map(|own| quoted_name(own)).collect();
        if !sequences.is_empty() {
            self.drop_sequences(&sequences, how).await?;
        }
        let types = keys(&[TableKind::Enum])?;
        if !types.is_empty() {
            self.drop_types(&types, how).await?;
        }
        let schemas: Vec<String> = keys(&[TableKind::Schema])?
            .iter()
            .filter_map(|key| name::schema_of_key(key.table()).map(str::to_owned))
            .filter(|schema| schema != name::PUBLIC)
            .collect();
        if !schemas.is_empty() {
            self.drop_schemas(&schemas, how).await?;
        }
        self.forget_grants(&roles)?;
        Ok(done("What was owned is dropped, and what was granted is revoked."))
    }

    /// Revokes all rights of roles, and those that they have granted on.
    fn forget_grants(&self, roles: &[u32]) -> Result<(), Error> {
        let catalog = self.catalog()?;
        let named = |table: &&Table| table.grants.roles().iter().any(|oid| roles.contains(oid));
        let keys: Vec<String> =
            catalog.owned_objects().filter(named).map(|table| table.name.clone()).collect();
        for key in keys {
            self.definer()?.definitions.put_rights(&key, |was| {
                let owner = was.owner();
                let left = |grants: &Vec<Grant>| -> Vec<Grant> {
                    let is_gone = |oid: u32| roles.contains(&oid) && oid != owner;
                    let own = grants.iter().filter(|own| !is_gone(own.to) && !is_gone(own.by));
                    own.copied().collect()
                };
                let columns = was.grants.columns.iter();
                let columns = columns.map(|(column, own)| (column.clone(), left(own)));
                let grants = Grants {
                    own: was.grants.own.as_ref().map(left),
                    columns: columns.filter(|(_, own)| !own.is_empty()).collect(),
                };
                Table { grants, ..was.clone() }
            })?;
        }
        Ok(())
    }
}

/// The name of the database in GRANT and REVOKE.
pub(super) const DATABASE: &str = "cellar";

/// A name as parsed from a statement.
fn quoted_name(text: &str) -> datafusion::sql::sqlparser::ast::ObjectName {
    let own = TableReference::parse_str(text).table().to_owned();
    quoted(&own)
}

/// An object by its key: also the database and `public`, even if the catalog has no entry for them.
fn object(catalog: &Catalog, key: &str) -> Option<Table> {
    if key == name::DATABASE_KEY {
        return Some(catalog.database_object().into_owned());
    }
    match name::schema_of_key(key) {
        Some(schema) => catalog.schema_object(schema).map(std::borrow::Cow::into_owned),
        None => catalog.table(key).cloned(),
    }
}

/// As in PostgreSQL: the giver must own the object and may act as the new owner, and the new owner may
/// create such objects.
fn may_give_away(asking: &AccessCheck, table: &Table, to: u32) -> Result<(), Error> {
    if !asking.who.is_like(table.owner()) {
        return Err(not_owner(table));
    }
    if !asking.catalog.roles_of(asking.who.oid, false).contains(&to) {
        let role = asking.catalog.role_name(to).unwrap_or_default();
        let text = format!("must be member of role \"{role}\"");
        return Err(Error::new(1031, "42501", text).next("ask a superuser"));
    }
    if table.kind == TableKind::Schema {
        return asking.database(Rights::CREATE);
    }
    let Some(who) = asking.catalog.who_is(to) else { return Err(not_superuser("to do so")) };
    let heir = AccessCheck { catalog: std::sync::Arc::clone(&asking.catalog), who: who.into() };
    heir.make(&table.name)
}

impl Wanted {
    /// The resulting grants on an object.
    fn on(
        &self,
        who: &Principal,
        table: &Table,
        is_as_table: bool,
        notices: &mut Vec<String>,
    ) -> Result<Grants, Error> {
        let Some(class) = table.class() else { return Err(invalid(Rights::NONE, table.word())) };
        let mut grants = table.grants.clone();
        let mut whole = Rights::NONE;
        let mut is_all = false;
        for said in self.said.iter().filter(|said| said.columns.is_empty()) {
            is_all |= said.rights.is_none();
            whole = whole.and(said.rights.unwrap_or(class.all()));
        }
        let wrong = whole.without(class.all());
        if !wrong.is_empty() {
            // A sequence named as a table takes only the rights of sequences.
            let is_mild = class == Class::Sequence && is_as_table && Class::Table.all().has(wrong);
            if !is_mild {
                return Err(invalid(wrong, class.word()));
            }
            let own = own_name(table);
            notices.push(format!(
                "sequence \"{own}\" only supports USAGE, SELECT, and UPDATE privileges"
            ));
            whole = whole.within(class.all());
        }
        if !whole.is_empty() {
            self.whole(who, table, (whole, is_all), &mut grants, notices)?;
        }
        for said in self.said.iter().filter(|said| !said.columns.is_empty()) {
            if class != Class::Table {
                let text = "column privileges are only valid for relations";
                return Err(Error::new(990, "0LP01", text).next("name a table or a view"));
            }
            let rights = said.rights.unwrap_or(Class::Column.all());
            let wrong = rights.without(Class::Column.all());
            if !wrong.is_empty() {
                return Err(invalid(wrong, "column"));
            }
            for column in &said.columns {
                check_column(table, column)?;
                let what = (rights, said.rights.is_none());
                self.column(who, table, (column, what), &mut grants, notices)?;
            }
        }
        grants.columns.retain(|_, own| !own.is_empty());
        Ok(grants)
    }

    /// The grantor and the rights that can be granted, with a notice if these are not all of them.
    fn allowed(
        &self,
        who: &Principal,
        (table, grants): (&Table, &[Grant]),
        (rights, is_all): (Rights, bool),
        notices: &mut Vec<String>,
    ) -> Result<(u32, Rights), Error> {
        let (by, may) = who.grantor(grants, table.owner(), rights);
        let own = own_name(table);
        if may.is_empty() {
            if who.rights(grants).is_empty() && who.options(grants, table.owner()).is_empty() {
                return Err(denied(table.word(), &table.name, rights));
            }
            notices.push(match self.grants {
                true => format!("no privileges were granted for \"{own}\""),
                false => format!("no privileges could be revoked for \"{own}\""),
            });
        } else if may != rights && !is_all {
            notices.push(match self.grants {
                true => format!("not all privileges were granted for \"{own}\""),
                false => format!("not all privileges could be revoked for \"{own}\""),
            });
        }
        Ok((by, may))
    }

    fn change(&self, to: u32, by: u32, rights: Rights) -> Change {
        let Wanted { grants, options, cascades, .. } = *self;
        Change { to, by, rights, grants, options, cascades }
    }

    /// Rights on all of an object.
    fn whole(
        &self,
        who: &Principal,
        table: &Table,
        wanted: (Rights, bool),
        grants: &mut Grants,
        notices: &mut Vec<String>,
    ) -> Result<(), Error> {
        let mut own = table.granted().into_owned();
        let (by, rights) = self.allowed(who, (table, &own), wanted, notices)?;
        if rights.is_empty() {
            return Ok(());
        }
        for to in &self.to {
            self.refuse_circle(&own, table.owner(), self.change(*to, by, rights))?;
            own = changed(&own, table.owner(), self.change(*to, by, rights))
                .map_err(|_| dependent())?;
            if self.grants {
                continue;
            }
            // A right revoked on a table is revoked on each of its columns.
            let rights = rights.within(Class::Column.all());
            for column in grants.columns.values_mut() {
                *column = changed(column, table.owner(), self.change(*to, by, rights))
                    .map_err(|_| dependent())?;
            }
        }
        grants.own = Some(own);
        Ok(())
    }

    /// Rights on a column.
    fn column(
        &self,
        who: &Principal,
        table: &Table,
        (column, wanted): (&str, (Rights, bool)),
        grants: &mut Grants,
        notices: &mut Vec<String>,
    ) -> Result<(), Error> {
        let mut own = grants.columns.get(column).cloned().unwrap_or_default();
        let both = [&table.granted()[..], &own].concat();
        let (by, rights) = self.allowed(who, (table, &both), wanted, notices)?;
        if rights.is_empty() {
            return Ok(());
        }
        for to in &self.to {
            self.refuse_circle(&own, table.owner(), self.change(*to, by, rights))?;
            own = changed(&own, table.owner(), self.change(*to, by, rights))
                .map_err(|_| dependent())?;
        }
        grants.columns.insert(column.to_owned(), own);
        Ok(())
    }

    /// Refuses to give grant option to the role that it comes from.
    fn refuse_circle(&self, grants: &[Grant], owner: u32, change: Change) -> Result<(), Error> {
        if !(self.grants && self.options) || change.by == owner {
            return Ok(());
        }
        let mut left = grants.to_vec();
        while let Some(own) =
            left.iter().find(|own| own.to == change.to && own.options.has_any(change.rights))
        {
            let gone = Change {
                by: own.by,
                rights: own.options.within(change.rights),
                grants: false,
                options: true,
                cascades: true,
                ..change
            };
            left = changed(&left, owner, gone).map_err(|_| dependent())?;
        }
        let still = left.iter().filter(|own| own.to == change.by);
        let still = still.fold(Rights::NONE, |all, own| all.and(own.options));
        match still.has(change.rights) {
            true => Ok(()),
            false => {
                let text = "grant options cannot be granted back to your own grantor";
                Err(Error::new(990, "0LP01", text).next("leave WITH GRANT OPTION out"))
            }
        }
    }
}

fn check_column(table: &Table, column: &str) -> Result<(), Error> {
    if table.kind == TableKind::External {
        return Err(Error::not_yet("a privilege on a column of an external table")
            .next("grant it on the table"));
    }
    let schema = checked_schema(&table.schema)?;
    match schema.fields().iter().any(|field| field.name() == column) {
        true => Ok(()),
        false => {
            let own = own_name(table);
            let text = format!("column \"{column}\" of relation \"{own}\" does not exist");
            Err(Error::new(904, "42703", text).next("see which there are: \\d in psql"))
        }
    }
}
