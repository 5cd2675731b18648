//! CREATE, ALTER and DROP TYPE, and the resolution of type names.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use async_recursion::async_recursion as boxed;
use cellar_instance::catalog::{Catalog, EnumType, Table, name};
use datafusion::common::{Result as PlanResult, TableReference};
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType as SqlType, Statement as SqlStatement,
};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::columnar::table::{checked_schema, default_of, enum_of};
use crate::engine::sequences::{bare, quoted};
use crate::engine::{Engine, Outcome, done};
use crate::enums::EnumInfo;
use crate::error::Error;
use crate::grammar::CellarDialect;
use crate::host::Host;
use crate::names::folded_token;
use crate::names::path::{Paths, SYSTEM};
use crate::names::resolve::{enum_key, no_schema};
use crate::parse::parse;
use crate::statement::{EnumChange, Statement};

/// The longest label, in bytes: PostgreSQL's.
const LABEL_MAX: usize = 63;

/// Types that statements name: those of the catalog.
pub(super) struct EnumTypes {
    pub host: Arc<dyn Host>,
    pub paths: Arc<Paths>,
}

impl std::fmt::Debug for EnumTypes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("EnumTypes")
    }
}

impl TypePlanner for EnumTypes {
    fn plan_type_field(&self, said: &SqlType) -> PlanResult<Option<FieldRef>> {
        let (inner, is_list) = match said {
            SqlType::Array(ArrayElemTypeDef::SquareBracket(inner, _)) => (inner.as_ref(), true),
            other => (other, false),
        };
        let SqlType::Custom(own, modifiers) = inner else { return Ok(None) };
        let catalog = self.host.rows().and_then(|rows| rows.catalog().ok());
        let (Some(catalog), true) = (catalog, modifiers.is_empty()) else { return Ok(None) };
        let key = enum_key(&catalog, &self.paths, own);
        let info = key.and_then(|key| EnumInfo::of(catalog.table(&key)?));
        Ok(info.map(|info| info.own_field(is_list)))
    }
}

/// Whether SQL text mentions a name.
fn says(text: &str, key: &str) -> bool {
    let own = name::parts(key).1;
    let tokens = Tokenizer::new(&CellarDialect, text).tokenize().unwrap_or_default();
    tokens.iter().any(|token| match token {
        Token::Word(word) => {
            let said = folded_token(word);
            said == own || said == key
        }
        _ => false,
    })
}

/// A part of a table or view that depends on a type.
struct User {
    table: String,
    /// A column of the type; `None`: a text that names the type.
    column: Option<String>,
    /// What that is.
    word: String,
    is_view: bool,
}

/// What depends on a type.
fn users(catalog: &Catalog, of: &Table) -> Result<Vec<User>, Error> {
    let mut found = Vec::new();
    let said = format!("enum:{}", of.oid());
    for table in catalog.tables.iter().filter(|table| table.name != of.name) {
        let mut add = |column: Option<&str>, word: String| {
            let (table, is_view) = (table.name.clone(), table.view.is_some());
            found.push(User { table, column: column.map(str::to_owned), word, is_view });
        };
        if table.view.as_ref().is_some_and(|view| says(&view.query, &of.name)) {
            add(None, "the query".to_owned());
            continue;
        }
        for check in table.rows.iter().flat_map(|rows| &rows.checks) {
            if says(&check.condition, &of.name) {
                add(None, format!("constraint \"{}\"", check.name));
            }
        }
        let own = table.schema.contains(&said);
        if !own && table.rows.is_none() {
            continue;
        }
        for field in checked_schema(&table.schema)?.fields() {
            let column = format!("column \"{}\"", field.name());
            if enum_of(field) == Some(of.oid()) {
                add(Some(field.name()), column);
            } else if default_of(field).is_some_and(|text| says(text, &of.name)) {
                add(None, format!("the DEFAULT of {column}"));
            }
        }
    }
    Ok(found)
}

fn no_type(reference: &TableReference) -> Error {
    let key = reference.table();
    Error::new(902, "42704", format!("type \"{key}\" does not exist"))
        .next("make it: create type .. as enum ('a', 'b')")
}

fn check_label(label: &str) -> Result<(), Error> {
    match label.is_empty() || label.len() > LABEL_MAX {
        false => Ok(()),
        true => Err(Error::new(972, "42602", format!("invalid enum label \"{label}\""))
            .next(format!("a value has 1 to {LABEL_MAX} bytes"))),
    }
}

fn is_there(label: &str) -> Error {
    Error::new(955, "42710", format!("enum label \"{label}\" already exists"))
        .next("choose another one, or leave it as it is")
}

fn is_not_there(label: &str, labels: &EnumType) -> Error {
    let known: Vec<&str> = labels.labels.iter().take(20).map(|own| own.name.as_str()).collect();
    Error::new(1722, "22023", format!("\"{label}\" is not an existing enum label"))
        .next(format!("its values are {}", known.join(", ")))
}

impl Engine {
    /// CREATE TYPE .. AS ENUM.
    #[boxed]
    pub(super) async fn create_enum(
        &self,
        reference: &TableReference,
        labels: &[String],
    ) -> Result<Outcome, Error> {
        self.check_own(reference)?;
        let (key, catalog) = (bare(reference)?, self.catalog()?);
        if crate::names::has_controls(name::parts(&key).1) {
            let text = "the name of a type has no control characters";
            return Err(Error::new(911, "42602", text).next("choose another name"));
        }
        self.check_type_name(&catalog, &key)?;
        let mut seen = BTreeSet::new();
        for label in labels {
            check_label(label)?;
            if !seen.insert(label) {
                let text = format!("enum label \"{label}\" is duplicated");
                return Err(Error::new(957, "23505", text).next("leave it out once"));
            }
        }
        let scope = self.definer()?;
        let mut open = scope.open().await?;
        scope.definitions.create_enum(&mut open, key.clone(), EnumType::new(labels)).await?;
        Ok(done(format!("Type {key} created.")))
    }

    fn check_type_name(&self, catalog: &Catalog, key: &str) -> Result<(), Error> {
        match self.kind_of(catalog, key) {
            None => Ok(()),
            Some("type") => Err(Error::new(955, "42710", format!("type \"{key}\" already exists"))
                .next("choose another name")),
            Some(kind) => {
                let text = format!("there is already a {kind} \"{key}\"");
                Err(Error::new(955, "42710", text).next("choose another name"))
            }
        }
    }

    /// ALTER TYPE.
    #[boxed]
    pub(super) async fn alter_enum(
        &self,
        reference: &TableReference,
        change: &EnumChange,
    ) -> Result<Outcome, Error> {
        let key = bare(reference)?;
        if self.catalog()?.enum_type(&key).is_none() {
            return Err(no_type(reference));
        }
        let scope = self.definer()?;
        let mut open = scope.open().await?;
        let was = scope.definitions.lock_enum(&mut open, &key).await?;
        let catalog = self.catalog()?;
        let Some(labels) = was.labels.clone() else { return Err(no_type(reference)) };
        let mut table = was.clone();
        match change {
            EnumChange::Add { label, if_not_exists, before } => {
                if labels.position(label).is_some() && *if_not_exists {
                    return Ok(Outcome::Done {
                        message: format!("Type {key} is as it was."),
                        notices: vec![format!("enum label \"{label}\" already exists, skipping")],
                    });
                }
                // One that this transaction has made may be used at once: nobody else has rows of it.
                let rows = self.row_tables()?;
                let committed = rows.database().catalog().current();
                let is_known = committed.enum_by_oid(was.oid()).is_some();
                table.labels = Some(with_label(labels, label, before.as_ref(), is_known)?);
            }
            EnumChange::RenameLabel { from, to } => {
                table.labels = Some(with_other_label(labels, from, to)?);
            }
            EnumChange::Rename(to) => table.name = name::beside(&key, to),
            EnumChange::SetSchema(schema) => {
                let schema = self.paths.schema(schema);
                if SYSTEM.contains(&schema) || !catalog.has_schema(schema) {
                    return Err(no_schema(schema));
                }
                table.name = name::key_of(schema, name::parts(&key).1);
                if table.name == key {
                    return Ok(done(format!("{key} is in schema {schema} already.")));
                }
            }
        }
        if table.name != key {
            self.check_type_name(&catalog, &table.name)?;
            self.refuse_named(&catalog, &was)?;
        }
        scope.definitions.alter_enum(&mut open, &was, table).await?;
        Ok(done(format!("Type {key} altered.")))
    }

    /// Refuses to rename a type that stored SQL text mentions: it would no longer resolve.
    fn refuse_named(&self, catalog: &Catalog, of: &Table) -> Result<(), Error> {
        let found = users(catalog, of)?.into_iter().find(|user| user.column.is_none());
        let Some(User { table, word, .. }) = found else { return Ok(()) };
        let text =
            format!("type \"{}\" cannot be renamed: {word} of \"{table}\" names it", of.name);
        Err(Error::new(2449, "2BP01", text).next("drop what says it, and make it again"))
    }

    /// DROP TYPE.
    #[boxed]
    pub(super) async fn drop_types(
        &self,
        references: &[TableReference],
        (if_exists, cascades): (bool, bool),
    ) -> Result<Outcome, Error> {
        let (mut keys, mut notices): (BTreeSet<String>, Vec<String>) = <_>::default();
        for reference in references {
            let key = bare(reference);
            match key {
                Ok(key) if self.catalog()?.enum_type(&key).is_some() => drop(keys.insert(key)),
                _ if if_exists => {
                    notices
                        .push(format!("type \"{}\" does not exist, skipping", reference.table()));
                }
                _ => return Err(no_type(reference)),
            }
        }
        for key in &keys {
            let scope = self.definer()?;
            let was = {
                let mut open = scope.open().await?;
                scope.definitions.lock_enum(&mut open, key).await?
            };
            let users = users(&*self.catalog()?, &was)?;
            if let (Some(User { table, word, .. }), false) = (users.first(), cascades) {
                let text = format!(
                    "cannot drop type {key} because other objects depend on it: {word} of \"{table}\""
                );
                return Err(Error::new(2449, "2BP01", text)
                    .next(format!("drop type {key} cascade drops the columns too")));
            }
            for user in users {
                self.drop_user(&user, &mut notices).await?;
            }
        }
        if keys.is_empty() {
            return Ok(Outcome::Done { message: "There was no such type.".into(), notices });
        }
        let scope = self.definer()?;
        let names: Vec<&str> = keys.iter().map(String::as_str).collect();
        let message = format!("Type {} dropped.", names.join(", "));
        let mut open = scope.open().await?;
        scope.definitions.drop_names(&mut open, keys.clone()).await?;
        Ok(Outcome::Done { message, notices })
    }

    /// Drops a column or view that depends on a type.
    async fn drop_user(&self, user: &User, notices: &mut Vec<String>) -> Result<(), Error> {
        let User { table, column, word, is_view } = user;
        let Some(known) = self.catalog()?.table(table).cloned() else { return Ok(()) };
        let own = quoted(table).to_string();
        if *is_view {
            notices.push(format!("view {table} was dropped with it"));
            return self.drop_views(vec![own], (true, true)).await.map(drop);
        }
        let Some(column) = column else {
            let text = format!("{word} of \"{table}\" names the type");
            return Err(Error::new(2449, "2BP01", text).next("drop that first"));
        };
        notices.push(format!("{word} of table {table} was dropped with it"));
        let is_last = checked_schema(&known.schema)?.fields().len() == 1;
        if is_last {
            return Err(Error::not_yet(format!("a table without columns: \"{table}\""))
                .next("drop the table first"));
        }
        let column = column.replace('"', "\"\"");
        let text = format!("alter table {own} drop column \"{column}\" cascade");
        let Statement::Query(statement) = parse(&text)? else { return Ok(()) };
        let DfStatement::Statement(statement) = *statement else { return Ok(()) };
        match *statement {
            SqlStatement::AlterTable(alter) => self.alter_table(&alter).await.map(drop),
            _ => Ok(()),
        }
    }
}

/// The labels with one added. `before`: next to which one, and whether before it.
fn with_label(
    mut labels: EnumType,
    label: &str,
    before: Option<&(bool, String)>,
    is_new: bool,
) -> Result<EnumType, Error> {
    check_label(label)?;
    if labels.position(label).is_some() {
        return Err(is_there(label));
    }
    let at = match before {
        None => labels.labels.len(),
        Some((is_before, beside)) => {
            let found = labels.position(beside);
            let at = found.ok_or_else(|| is_not_there(beside, &labels))?;
            if *is_before { at } else { at + 1 }
        }
    };
    labels.insert(at, label);
    labels.labels[at].is_new = is_new;
    Ok(labels)
}

/// The labels with one renamed.
fn with_other_label(mut labels: EnumType, from: &str, to: &str) -> Result<EnumType, Error> {
    check_label(to)?;
    let at = labels.position(from).ok_or_else(|| is_not_there(from, &labels))?;
    if labels.position(to).is_some() {
        return Err(is_there(to));
    }
    to.clone_into(&mut labels.labels[at].name);
    Ok(labels)
}
