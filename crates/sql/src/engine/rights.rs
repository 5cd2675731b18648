//! The check that the role of a session may do what a statement does, with tables and with other objects
//! of the catalog.

use std::sync::Arc;

use cellar_instance::catalog::{Catalog, Principal, Rights, Table, name};
use cellar_instance::heap::TableLock;
use datafusion::common::TableReference;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    CreateTable, CreateTableLikeKind, CreateView, DataType, ObjectName, ObjectType, SetExpr,
    Statement as SqlStatement,
};

use crate::engine::Engine;
use crate::engine::ddl::bare_name;
use crate::engine::resolving::makes_temporary;
use crate::engine::sequences::bare;
use crate::error::Error;
use crate::settings::{denied, no_role};
use crate::statement::{About, Define, EnumChange, OwnedBy, Reindexed};

/// The error for a role that is no superuser.
pub(super) fn not_superuser(what: &str) -> Error {
    Error::new(1031, "42501", format!("must be superuser {what}"))
        .next("ask a superuser, as the owner of the database is")
}

/// The error for a role that does not own an object.
pub(super) fn not_owner(table: &Table) -> Error {
    let own = match name::schema_of_key(&table.name) {
        Some(schema) => schema,
        None => name::parts(&table.name).1,
    };
    let word = table.word();
    Error::new(1031, "42501", format!("must be owner of {word} {own}"))
        .next(format!("its owner may say: alter {word} {own} owner to .."))
}

/// The rights check for a session that is not a superuser's.
pub(super) struct AccessCheck {
    pub catalog: Arc<Catalog>,
    pub who: Arc<Principal>,
}

impl AccessCheck {
    /// Refuses to use a schema.
    fn schema(&self, schema: &str, wanted: Rights) -> Result<(), Error> {
        let (word, key) = ("schema", name::schema_key(schema));
        match self.catalog.schema_object(schema) {
            Some(own) if !own.rights_of(&self.who).has(wanted) => Err(denied(word, &key, wanted)),
            // A missing object is reported as such.
            _ => Ok(()),
        }
    }

    /// Refuses to create an object with this key.
    pub(super) fn make(&self, key: &str) -> Result<(), Error> {
        let schema = name::parts(key).0;
        if !name::is_temporary(schema) {
            return self.schema(schema, Rights::CREATE);
        }
        self.database(Rights::TEMPORARY)
    }

    /// Refuses to do something with the database.
    pub(super) fn database(&self, wanted: Rights) -> Result<(), Error> {
        match self.catalog.database_object().rights_of(&self.who).has(wanted) {
            true => Ok(()),
            false => Err(denied("database", name::DATABASE_KEY, wanted)),
        }
    }

    /// Refuses to use an object in a schema that the role may not use.
    fn seen(&self, key: &str) -> Result<(), Error> {
        let schema = name::parts(key).0;
        match name::is_temporary(schema) {
            true => Ok(()),
            false => self.schema(schema, Rights::USAGE),
        }
    }

    /// Refuses to do something with an object.
    pub(super) fn may(&self, key: &str, wanted: Rights) -> Result<(), Error> {
        self.seen(key)?;
        match self.catalog.table(key) {
            Some(table) if !table.rights_of(&self.who).has(wanted) => {
                let missing = wanted.without(table.rights_of(&self.who));
                Err(denied(table.word(), key, missing))
            }
            _ => Ok(()),
        }
    }

    /// Refuses to do something with columns of a table; with none of them: with any.
    pub(super) fn may_with<'c>(
        &self,
        key: &str,
        wanted: Rights,
        columns: impl IntoIterator<Item = &'c str>,
    ) -> Result<(), Error> {
        self.seen(key)?;
        let Some(table) = self.catalog.table(key) else { return Ok(()) };
        if table.rights_of(&self.who).has(wanted) {
            return Ok(());
        }
        let (mut count, mut is_allowed) = (0, true);
        for column in columns {
            count += 1;
            is_allowed &= table.column_rights(column, &self.who).has(wanted);
        }
        match is_allowed && (count > 0 || table.has_right_on_some(wanted, &self.who)) {
            true => Ok(()),
            false => Err(denied(table.word(), key, wanted)),
        }
    }

    /// Refuses to change what an object is.
    pub(super) fn own(&self, key: &str) -> Result<(), Error> {
        let found = self.catalog.table(key);
        let found = found.or_else(|| self.catalog.index(key).map(|(table, _)| table));
        match found {
            Some(table) if !self.who.is_like(table.owner()) => Err(not_owner(table)),
            _ => Ok(()),
        }
    }

    /// Refuses to drop an object, which the owner of its schema may too.
    pub(super) fn drop(&self, key: &str) -> Result<(), Error> {
        let schema = self.catalog.schema_object(name::parts(key).0);
        match schema.is_some_and(|own| self.who.is_like(own.owner())) {
            true => Ok(()),
            false => self.own(key),
        }
    }

    /// Refuses to change what a schema is.
    pub(super) fn own_schema(&self, schema: &str) -> Result<(), Error> {
        match self.catalog.schema_object(schema) {
            Some(own) if !self.who.is_like(own.owner()) => Err(not_owner(&own)),
            _ => Ok(()),
        }
    }
}

fn key_of(name: &ObjectName) -> String {
    bare_name(name).unwrap_or_else(|_| name.to_string())
}

impl Engine {
    /// The role whose rights are checked; `None`: the owner of the database or another superuser, who may
    /// do everything.
    ///
    /// # Errors
    /// 42704 the role was dropped meanwhile.
    pub(super) fn asking(&self) -> Result<Option<AccessCheck>, Error> {
        if self.settings.is_owner() || self.host.rows().is_none() {
            return Ok(None);
        }
        let catalog = self.catalog()?;
        let who = self.settings.who(&catalog);
        let who = who.ok_or_else(|| no_role(&self.settings.now().role))?;
        Ok((!who.is_superuser).then_some(AccessCheck { catalog, who }))
    }

    /// The role the session acts as.
    ///
    /// # Errors
    /// 42704 the role was dropped meanwhile.
    pub(super) fn who(&self) -> Result<Arc<Principal>, Error> {
        let catalog = self.catalog()?;
        self.settings.who(&catalog).ok_or_else(|| no_role(&self.settings.now().role))
    }

    /// Refuses what superusers alone may do.
    ///
    /// # Errors
    /// 42501.
    pub(super) fn check_superuser(&self, what: &str) -> Result<(), Error> {
        match self.asking()? {
            None => Ok(()),
            Some(_) => Err(not_superuser(what)),
        }
    }

    /// Refuses to do something with all of a table.
    ///
    /// # Errors
    /// 42501.
    pub(super) fn check_whole(&self, key: &str, wanted: Rights) -> Result<(), Error> {
        match self.asking()? {
            None => Ok(()),
            Some(asking) => asking.may(key, wanted),
        }
    }

    /// Refuses to do something with columns of a table; with none of them: with any.
    ///
    /// # Errors
    /// 42501.
    pub(super) fn check_columns<'c>(
        &self,
        key: &str,
        wanted: Rights,
        columns: impl IntoIterator<Item = &'c str>,
    ) -> Result<(), Error> {
        match self.asking()? {
            None => Ok(()),
            Some(asking) => asking.may_with(key, wanted, columns),
        }
    }

    /// Refuses a statement, with the keys of what it names, that defines or drops something of others.
    ///
    /// # Errors
    /// 42501.
    pub(super) fn check_rights(&self, statement: &DfStatement) -> Result<(), Error> {
        let Some(asking) = self.asking()? else { return Ok(()) };
        match statement {
            DfStatement::Statement(inner) => {
                if makes_temporary(statement) {
                    asking.database(Rights::TEMPORARY)?;
                }
                check_sql(&asking, inner)
            }
            DfStatement::Explain(explain) => self.check_rights(&explain.statement),
            DfStatement::CreateExternalTable(_) => {
                Err(not_superuser("to make an external table: it reads files in place"))
            }
            DfStatement::CopyTo(_) => Err(not_superuser("to write files of the server")),
            DfStatement::Reset(_) => Ok(()),
        }
    }

    /// The same of a statement of our own.
    ///
    /// # Errors
    /// 42501.
    pub(super) fn check_define(&self, define: &Define) -> Result<(), Error> {
        let Some(asking) = self.asking()? else { return Ok(()) };
        let own = |reference: &TableReference| asking.own(reference.table());
        match define {
            Define::CreateSchema { .. } => asking.database(Rights::CREATE),
            Define::DropSchema { names, .. } => {
                names.iter().try_for_each(|schema| asking.own_schema(schema))
            }
            Define::RenameSchema { name, .. } => {
                asking.own_schema(name)?;
                asking.database(Rights::CREATE)
            }
            Define::Comment { about, .. } => match about {
                About::Schema(schema) => asking.own_schema(schema),
                About::Table(name)
                | About::View(name)
                | About::Sequence(name)
                | About::Type(name)
                | About::Index(name)
                | About::Column(name, _)
                | About::Constraint(name, _) => own(name),
            },
            Define::SetSchema { name, schema, .. } => {
                own(name)?;
                asking.make(&name::key_of(schema, ""))
            }
            Define::CreateLike { name, source, .. } => {
                asking.make(name.table())?;
                asking.may(source.table(), Rights::SELECT)
            }
            Define::CreateEnum { name, .. } => asking.make(name.table()),
            Define::AlterEnum { name, change } => {
                own(name)?;
                match change {
                    EnumChange::SetSchema(schema) => asking.make(&name::key_of(schema, "")),
                    _ => Ok(()),
                }
            }
            Define::DropTypes { names, .. } | Define::DropForeign { names, .. } => {
                names.iter().try_for_each(|name| asking.drop(name.table()))
            }
            Define::CreateSequence { name, owned_by, .. } => {
                asking.make(name.table())?;
                own_target(&asking, owned_by.as_ref())
            }
            Define::AlterSequence { name, owned_by, .. } => {
                own(name)?;
                own_target(&asking, owned_by.as_ref())
            }
            Define::AddIdentity { table, .. } => own(table),
            Define::Reindex { of, .. } => match of {
                Reindexed::Index(name) | Reindexed::Table(name) => own(name),
                Reindexed::Schema(schema) => asking.own_schema(schema),
                Reindexed::Database(_) => Err(not_superuser("to build all indexes anew")),
            },
            Define::Lock { tables, lock, .. } => {
                tables.iter().try_for_each(|table| may_lock(&asking, table, *lock))
            }
            // Checked where they are carried out; and maintenance changes nothing.
            Define::Role(_)
            | Define::Rights(_)
            | Define::SetOwner { .. }
            | Define::SetConstraints { .. }
            | Define::Maintain { .. } => Ok(()),
        }
    }
}

fn own_target(asking: &AccessCheck, owned_by: Option<&OwnedBy>) -> Result<(), Error> {
    match owned_by {
        Some(OwnedBy::Column(table, _)) => asking.own(&bare(table)?),
        _ => Ok(()),
    }
}

/// As in PostgreSQL: a role that may change a table may lock it, and one that may read it may keep it
/// from being dropped.
fn may_lock(asking: &AccessCheck, table: &TableReference, lock: TableLock) -> Result<(), Error> {
    let changes = Rights::UPDATE.and(Rights::DELETE).and(Rights::TRUNCATE);
    let any = match lock {
        TableLock::AccessShare => changes.and(Rights::SELECT),
        TableLock::RowShare | TableLock::RowExclusive => changes.and(Rights::INSERT),
        _ => changes,
    };
    let key = table.table();
    asking.may(key, Rights::NONE)?;
    match asking.catalog.table(key) {
        Some(own) if !own.rights_of(&asking.who).has_any(any) => {
            Err(denied(own.word(), key, Rights::UPDATE))
        }
        _ => Ok(()),
    }
}

fn check_sql(asking: &AccessCheck, statement: &SqlStatement) -> Result<(), Error> {
    use SqlStatement as S;
    match statement {
        S::Query(query) => match query.body.as_ref() {
            SetExpr::Select(select) => match &select.into {
                Some(into) => asking.make(&key_of(&into.name)),
                None => Ok(()),
            },
            _ => Ok(()),
        },
        S::CreateTable(create) => check_create(asking, create),
        S::CreateView(create) => check_view(asking, create),
        S::CreateIndex(create) => asking.own(&key_of(&create.table_name)),
        S::AlterTable(alter) => asking.own(&key_of(&alter.name)),
        S::AlterIndex { name, .. } => asking.own(&key_of(name)),
        S::Drop { object_type, names, .. } if *object_type != ObjectType::Schema => {
            names.iter().try_for_each(|name| asking.drop(&key_of(name)))
        }
        S::Truncate(truncate) => truncate
            .table_names
            .iter()
            .try_for_each(|table| asking.may(&key_of(&table.name), Rights::TRUNCATE)),
        // Rights to read and change rows are checked where that is done.
        S::Insert(_)
        | S::Update(_)
        | S::Delete(_)
        | S::Explain { .. }
        | S::ExplainTable { .. }
        | S::Set(_)
        | S::ShowTables { .. }
        | S::ShowColumns { .. }
        | S::ShowFunctions { .. }
        | S::ShowVariable { .. }
        | S::ShowCreate { .. }
        | S::Prepare { .. }
        | S::Execute { .. }
        | S::Deallocate { .. } => Ok(()),
        _ => Err(not_superuser("to run this statement")),
    }
}

fn check_create(asking: &AccessCheck, create: &CreateTable) -> Result<(), Error> {
    asking.make(&key_of(&create.name))?;
    if let Some(CreateTableLikeKind::Plain(like) | CreateTableLikeKind::Parenthesized(like)) =
        &create.like
    {
        asking.may(&key_of(&like.name), Rights::SELECT)?;
    }
    create.columns.iter().try_for_each(|column| may_have(asking, &column.data_type))
}

/// Refuses an enum type that the role may not use.
fn may_have(asking: &AccessCheck, of: &DataType) -> Result<(), Error> {
    let DataType::Custom(name, _) = of else { return Ok(()) };
    let key = key_of(name);
    match asking.catalog.enum_type(&key) {
        Some(_) => asking.may(&key, Rights::USAGE),
        None => Ok(()),
    }
}

fn check_view(asking: &AccessCheck, create: &CreateView) -> Result<(), Error> {
    if create.temporary {
        return asking.database(Rights::TEMPORARY);
    }
    let key = key_of(&create.name);
    asking.make(&key)?;
    match create.or_replace {
        true => asking.own(&key),
        false => Ok(()),
    }
}
