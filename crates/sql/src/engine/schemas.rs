//! CREATE, ALTER and DROP SCHEMA, SET SCHEMA, and the search path of the session.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use async_recursion::async_recursion as boxed;
use cellar_instance::catalog::{Table, TableKind, name};
use datafusion::common::TableReference;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::parser::{ResetStatement, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{
    ContextModifier, Expr, Set, Statement as SqlStatement, Value,
};

use crate::columnar::table::{checked_schema, default_of, schema_text, with_default};
use crate::engine::sequences::{bare, quoted};
use crate::engine::{Engine, Outcome, done};
use crate::error::Error;
use crate::names::folded;
use crate::names::path::{SYSTEM, SearchPath, TEMPORARY};
use crate::names::resolve::no_schema;
use crate::rows::default_of_sequence;
use crate::statement::{About, Kind, RoleName};

const SEARCH_PATH: &str = "search_path";

/// Statements about schemas in the catalog.
impl Engine {
    /// CREATE SCHEMA.
    #[boxed]
    pub(super) async fn create_schema(
        &self,
        schema: &str,
        if_not_exists: bool,
        owner: Option<&RoleName>,
    ) -> Result<Outcome, Error> {
        if schema.starts_with("pg_") {
            return Err(Error::new(
                2421,
                "42939",
                format!("unacceptable schema name \"{schema}\""),
            )
            .next("names that begin with pg_ are the system's: choose another one"));
        }
        let catalog = self.catalog()?;
        if SYSTEM.contains(&schema) || catalog.has_schema(schema) {
            return match if_not_exists {
                true => Ok(done(format!("Schema {schema} already exists."))),
                false => {
                    Err(Error::new(1920, "42P06", format!("schema \"{schema}\" already exists"))
                        .next("choose another name"))
                }
            };
        }
        if schema.is_empty() || schema.chars().any(char::is_control) {
            let text = "the name of a schema has characters, and no control characters";
            return Err(Error::new(911, "42602", text).next("choose another name"));
        }
        let scope = self.definer()?;
        scope.definitions.create_schema(&mut *scope.open().await?, schema).await?;
        if let Some(owner) = owner {
            self.set_owner(&About::Schema(schema.to_owned()), false, owner).await?;
        }
        Ok(done(format!("Schema {schema} created.")))
    }

    /// DROP SCHEMA.
    #[boxed]
    pub(super) async fn drop_schemas(
        &self,
        schemas: &[String],
        (if_exists, cascades): (bool, bool),
    ) -> Result<Outcome, Error> {
        let (mut dropped, mut notices): (Vec<&String>, Vec<String>) = (Vec::new(), Vec::new());
        for schema in schemas {
            if *schema == name::PUBLIC || SYSTEM.contains(&schema.as_str()) {
                let text = format!("schema \"{schema}\" cannot be dropped: the system needs it");
                return Err(Error::new(1922, "2BP01", text).next("drop what is in it"));
            }
            match self.catalog()?.has_schema(schema) {
                true if dropped.contains(&schema) => {}
                true => dropped.push(schema),
                false if if_exists => notices.push(format!("there is no schema {schema}")),
                false => return Err(no_schema(schema)),
            }
        }
        let scope = self.definer()?;
        for schema in &dropped {
            let within = {
                let mut open = scope.open().await?;
                scope.definitions.lock_schema(&mut open, schema).await?
            };
            if let (Some(first), false) = (within.first(), cascades) {
                let own = name::parts(&first.name).1;
                let text = format!(
                    "schema \"{schema}\" cannot be dropped: {} \"{own}\" is in it",
                    first.word()
                );
                return Err(Error::new(1922, "2BP01", text)
                    .next(format!("drop schema {schema} cascade drops all in it")));
            }
            let objects = within.iter().filter(|table| {
                let catalog = self.catalog();
                !catalog.is_ok_and(|catalog| catalog.owner_of(&table.name).is_some())
            });
            for table in objects {
                notices.push(format!("{} {} was dropped with it", table.word(), table.name));
            }
            self.drop_within(schema).await?;
        }
        for schema in &dropped {
            scope.definitions.drop_schema(schema)?;
        }
        if dropped.is_empty() {
            return Ok(Outcome::Done { message: "There was no such schema.".into(), notices });
        }
        let names: Vec<&str> = dropped.iter().map(|schema| schema.as_str()).collect();
        Ok(Outcome::Done { message: format!("Schema {} dropped.", names.join(", ")), notices })
    }

    /// Drops everything in a schema, and views elsewhere that read it.
    async fn drop_within(&self, schema: &str) -> Result<(), Error> {
        let names = |kinds: &[TableKind]| -> Result<Vec<String>, Error> {
            let catalog = self.catalog()?;
            let found = catalog.in_schema(schema).filter(|table| kinds.contains(&table.kind));
            Ok(found.map(|table| quoted(&table.name).to_string()).collect())
        };
        for view in names(&[TableKind::View])? {
            // It may have been dropped with another one.
            self.drop_views(vec![view], (true, true)).await?;
        }
        let tables = names(&[TableKind::Heap, TableKind::Columnar, TableKind::External])?;
        if !tables.is_empty() {
            self.drop_tables(tables, (true, true)).await?;
        }
        let catalog = self.catalog()?;
        let sequences = catalog.in_schema(schema).filter(|t| t.kind == TableKind::Sequence);
        let sequences: Vec<_> = sequences.map(|table| quoted(&table.name)).collect();
        if !sequences.is_empty() {
            self.drop_sequences(&sequences, (true, true)).await?;
        }
        let types = names(&[TableKind::Enum])?;
        let types: Vec<_> = types.iter().map(|own| TableReference::parse_str(own)).collect();
        if !types.is_empty() {
            self.drop_types(&types, (true, true)).await?;
        }
        Ok(())
    }

    /// ALTER SCHEMA .. RENAME TO.
    #[boxed]
    pub(super) async fn rename_schema(&self, old: &str, new: &str) -> Result<Outcome, Error> {
        if old == name::PUBLIC || SYSTEM.contains(&old) {
            return Err(Error::not_yet(format!("another name for the schema {old}"))
                .next("make another schema: create schema .."));
        }
        if new.starts_with("pg_") {
            return Err(Error::new(2421, "42939", format!("unacceptable schema name \"{new}\"")));
        }
        if !self.catalog()?.has_schema(old) {
            return Err(no_schema(old));
        }
        if SYSTEM.contains(&new) {
            let text = format!("schema \"{new}\" already exists");
            return Err(Error::new(1920, "42P06", text).next("choose another name"));
        }
        if new.is_empty() || new.chars().any(char::is_control) {
            let text = "the name of a schema has characters, and no control characters";
            return Err(Error::new(911, "42602", text).next("choose another name"));
        }
        let scope = self.definer()?;
        let mut open = scope.open().await?;
        let of = |table: &Table| renamed(table, old, new);
        scope.definitions.rename_schema(&mut open, (old, new), &of).await?;
        Ok(done(format!("Schema {old} is {new} now.")))
    }

    /// ALTER .. SET SCHEMA.
    #[boxed]
    pub(super) async fn set_schema_of(
        &self,
        (kind, reference): (Kind, &TableReference),
        if_exists: bool,
        schema: &str,
    ) -> Result<Outcome, Error> {
        self.check_own(reference)?;
        let key = match bare(reference) {
            Err(_) if if_exists => return Ok(done("There was nothing of that name.")),
            key => key?,
        };
        let catalog = self.catalog()?;
        let word = match kind {
            Kind::Table => "table",
            Kind::View => "view",
            Kind::Sequence => "sequence",
        };
        let Some(found) = catalog.table(&key) else {
            return match if_exists {
                true => Ok(done(format!("There was no such {word}."))),
                false => {
                    let text = format!("{word} \"{key}\" does not exist");
                    Err(Error::new(942, "42P01", text))
                }
            };
        };
        if kind != Kind::Table && found.word() != word {
            let text = format!("\"{key}\" is a {}, no {word}", found.word());
            return Err(Error::new(942, "42809", text));
        }
        if SYSTEM.contains(&schema) || !self.catalog()?.has_schema(self.paths.schema(schema)) {
            return Err(no_schema(schema));
        }
        if name::is_temporary(name::parts(&key).0) {
            return Err(Error::not_yet("a move into or out of a temporary schema"));
        }
        if let Some((table, _)) = catalog.owner_of(&key) {
            let text = format!("sequence \"{key}\" goes with a column of table \"{}\"", table.name);
            return Err(Error::new(4007, "0A000", text).next("move the table: it goes with it"));
        }
        if name::parts(&key).0 == schema {
            return Ok(done(format!("{key} is in schema {schema} already.")));
        }
        let what = format!("{word} \"{key}\" cannot be moved to another schema");
        self.refuse_under_views(&key, None, &what)?;
        self.move_to(found, schema).await?;
        Ok(done(format!("{key} is in schema {schema} now.")))
    }

    async fn move_to(&self, found: &Table, schema: &str) -> Result<(), Error> {
        let scope = self.definer()?;
        let mut open = scope.open().await?;
        if found.rows.is_some() {
            scope.definitions.lock_table(&mut open, &found.name).await?;
        }
        let owned = found.rows.iter().flat_map(|rows| &rows.owned);
        let going = owned.map(|owned| owned.sequence.clone()).chain([found.name.clone()]);
        scope.definitions.lock_names(&mut open, going.collect()).await?;
        let catalog = self.catalog()?;
        // Read again once locked: others may have changed its rights.
        let was = catalog.table(&found.name).cloned().ok_or_else(|| {
            Error::new(942, "42P01", format!("\"{}\" was dropped meanwhile", found.name))
        })?;
        let to = |key: &str| name::key_of(schema, name::parts(key).1);
        let mut names = BTreeSet::from([to(&was.name)]);
        let mut moved = vec![(was.name.clone(), moved_table(&was, &to)?)];
        for index in was.rows.iter().flat_map(|rows| &rows.indexes) {
            names.insert(to(&index.name));
        }
        for owned in was.rows.iter().flat_map(|rows| &rows.owned) {
            if let Some(sequence) = catalog.table(&owned.sequence) {
                names.insert(to(&owned.sequence));
                let of = Table { name: to(&owned.sequence), ..sequence.clone() };
                moved.push((owned.sequence.clone(), of));
            }
        }
        Ok(scope.definitions.move_table(&mut open, &was, names, moved).await?)
    }
}

/// The search path of the session.
impl Engine {
    pub(super) async fn is_in_block(&self) -> bool {
        match self.host.rows() {
            Some(rows) => rows.is_in_block().await,
            None => false,
        }
    }

    /// SET, SHOW and RESET search_path; `None`: it is another statement.
    pub(super) async fn about_search_path(
        &self,
        statement: &DfStatement,
    ) -> Result<Option<Outcome>, Error> {
        let is_path = |text: &str| text.eq_ignore_ascii_case(SEARCH_PATH);
        match statement {
            DfStatement::Reset(ResetStatement::Variable(variable))
                if is_path(&variable.to_string()) =>
            {
                self.paths.set(None, false);
                Ok(Some(done(format!("{SEARCH_PATH} is {}.", self.paths.current()))))
            }
            DfStatement::Statement(inner) => match inner.as_ref() {
                SqlStatement::Set(Set::SingleAssignment { scope, variable, values, .. })
                    if is_path(&variable.to_string()) =>
                {
                    let is_local = matches!(scope, Some(ContextModifier::Local));
                    let path = path_of(values)?;
                    if is_local && !self.is_in_block().await {
                        return Ok(Some(Outcome::Done {
                            message: format!("{SEARCH_PATH} is {}.", self.paths.current()),
                            notices: vec!["SET LOCAL does nothing outside a transaction".into()],
                        }));
                    }
                    self.paths.set(path, is_local);
                    Ok(Some(done(format!("{SEARCH_PATH} is {}.", self.paths.current()))))
                }
                SqlStatement::ShowVariable { variable } if matches!(&variable[..], [word] if is_path(&word.value)) => {
                    Ok(Some(one_text(SEARCH_PATH, self.paths.current().to_string())?))
                }
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }
}

/// One row of one text.
fn one_text(column: &str, text: String) -> Result<Outcome, Error> {
    let schema = Arc::new(Schema::new(vec![Field::new(column, DataType::Utf8, false)]));
    let row =
        RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(StringArray::from(vec![text]))]);
    let row = row.map_err(|error| crate::failure::from_arrow(&error))?;
    let rows = futures_util::stream::once(std::future::ready(Ok(row)));
    Ok(Outcome::Rows(Box::pin(RecordBatchStreamAdapter::new(schema, rows))))
}

/// The path that SET says; `None`: DEFAULT.
fn path_of(values: &[Expr]) -> Result<Option<SearchPath>, Error> {
    let mut schemas = Vec::new();
    for value in values {
        match value {
            Expr::Identifier(word)
                if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default") =>
            {
                return Ok(None);
            }
            Expr::Identifier(word) => schemas.push(folded(word)),
            Expr::Value(value) => match &value.value {
                Value::SingleQuotedString(text) | Value::Number(text, _) => {
                    schemas.push(text.clone());
                }
                other => return Err(no_path(&other.to_string())),
            },
            other => return Err(no_path(&other.to_string())),
        }
    }
    Ok(Some(SearchPath(schemas)))
}

fn no_path(said: &str) -> Error {
    Error::new(68, "22023", format!("{SEARCH_PATH} is a list of schemas, not {said}"))
        .next(format!("set {SEARCH_PATH} to a, public; {TEMPORARY} is the session's own schema"))
}

/// The start of a quoted key in this schema, as in stored queries and defaults.
fn opening(schema: &str) -> String {
    format!("\"{}{}", schema.replace('"', "\"\""), name::SEPARATOR)
}

/// SQL text with a schema renamed.
fn with_other_schema(text: &str, old: &str, new: &str) -> String {
    text.replace(&opening(old), &opening(new))
}

/// An object with a schema renamed.
fn renamed(table: &Table, old: &str, new: &str) -> Table {
    let to = |key: &str| match name::parts(key) {
        (schema, own) if schema == old => name::key_of(new, own),
        _ => key.to_owned(),
    };
    let mut made = moved_table(table, &to).unwrap_or_else(|_| table.clone());
    if let Some(view) = &mut made.view {
        view.query = with_other_schema(&view.query, old, new);
        let uses = std::mem::take(&mut view.uses);
        view.uses = uses.into_iter().map(|(key, columns)| (to(&key), columns)).collect();
    }
    if table.rows.is_some()
        && let Ok(schema) = checked_schema(&table.schema)
    {
        let fields = schema.fields().iter().map(|field| match default_of(field) {
            Some(text) => {
                let text = with_other_schema(text, old, new);
                with_default(field.as_ref().clone(), &text)
            }
            None => field.as_ref().clone(),
        });
        let fields: Vec<Field> = fields.collect();
        made.schema = schema_text(&Schema::new(fields));
    }
    made
}

/// A table with new keys, for itself and for what belongs to it.
fn moved_table(table: &Table, to: &dyn Fn(&str) -> String) -> Result<Table, Error> {
    let mut made = Table { name: to(&table.name), ..table.clone() };
    let Some(rows) = &mut made.rows else { return Ok(made) };
    for index in &mut rows.indexes {
        index.name = to(&index.name);
    }
    let schema = checked_schema(&table.schema)?;
    let mut fields: Vec<Field> = schema.fields().iter().map(|f| f.as_ref().clone()).collect();
    for owned in &mut rows.owned {
        let (was, now) = (owned.sequence.clone(), to(&owned.sequence));
        if let Some(field) = fields.get_mut(owned.column)
            && default_of(field) == Some(&default_of_sequence(&was))
        {
            *field = with_default(field.clone(), &default_of_sequence(&now));
        }
        owned.sequence = now;
    }
    if !rows.owned.is_empty() {
        made.schema = schema_text(&Schema::new(fields));
    }
    Ok(made)
}
