//! CREATE, ALTER and DROP SEQUENCE, sequences of columns, and the durability of their values.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use async_recursion::async_recursion as boxed;
use cellar_instance::catalog::{Catalog, Identity, Owned, Sequence, SequenceType, Table};
use datafusion::common::TableReference;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Value,
};
use datafusion::sql::sqlparser::parser::Parser;
use futures_util::TryStreamExt;

use crate::columnar::table::{
    checked_schema, default_of, schema_text, with_default, without_default,
};
use crate::engine::{Engine, Outcome, done, is_public};
use crate::error::Error;
use crate::grammar::CellarDialect;
use crate::names::resolve::no_schema;
use crate::rows::{
    NewSequence, RowTables, SequenceOptions, default_of_sequence, free_name, no_sequence,
};
use crate::statement::{Define, OwnedBy};
use crate::walk;

/// A sequence created with a table: its name and definition.
pub(super) type NamedSequence = (String, Sequence);

/// The name of an object in the schema public.
pub(super) fn bare(reference: &TableReference) -> Result<String, Error> {
    match is_public(reference) {
        true => Ok(reference.table().to_owned()),
        false => Err(no_schema(reference.schema().unwrap_or_default())),
    }
}

/// Whether an expression takes values from a sequence.
fn uses(expression: &str, sequence: &str) -> bool {
    let parsed = Parser::new(&CellarDialect).try_with_sql(expression);
    let Ok(parsed) = parsed.and_then(|mut parser| parser.parse_expr()) else { return false };
    walk::any_expr(&parsed, |expr| {
        let SqlExpr::Function(function) = expr else { return false };
        let FunctionArguments::List(list) = &function.args else { return false };
        let names = list.args.iter().filter_map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(SqlExpr::Value(value))) => {
                match &value.value {
                    Value::SingleQuotedString(text) => Some(TableReference::parse_str(text)),
                    _ => None,
                }
            }
            _ => None,
        });
        function.name.to_string().eq_ignore_ascii_case("nextval")
            && names.into_iter().any(|name| is_public(&name) && name.table() == sequence)
    })
}

/// The columns whose DEFAULT takes values from a sequence.
fn dependents<'a>(catalog: &'a Catalog, sequence: &str) -> Vec<(&'a Table, usize)> {
    let mut found = Vec::new();
    for table in catalog.tables.iter().filter(|table| table.rows.is_some()) {
        let Ok(schema) = checked_schema(&table.schema) else { continue };
        for (at, field) in schema.fields().iter().enumerate() {
            if default_of(field).is_some_and(|text| uses(text, sequence)) {
                found.push((table, at));
            }
        }
    }
    found
}

/// The type of a sequence for a column.
fn type_of_column(field: &Field) -> Option<SequenceType> {
    match field.data_type() {
        DataType::Int16 => Some(SequenceType::Smallint),
        DataType::Int32 => Some(SequenceType::Integer),
        DataType::Int64 => Some(SequenceType::Bigint),
        _ => None,
    }
}

impl Engine {
    /// Runs a statement that DataFusion's parser does not know.
    #[boxed]
    pub(super) async fn define(&self, mut define: Define) -> Result<Outcome, Error> {
        self.resolve_define(&mut define)?;
        self.check_define(&define)?;
        match define {
            Define::CreateSchema { name, if_not_exists, owner } => {
                self.create_schema(&name, if_not_exists, owner.as_ref()).await
            }
            Define::DropSchema { names, if_exists, cascades } => {
                self.drop_schemas(&names, (if_exists, cascades)).await
            }
            Define::RenameSchema { name, to } => self.rename_schema(&name, &to).await,
            Define::Comment { about, text } => self.comment(&about, text).await,
            Define::Role(statement) => self.about_roles(*statement).await,
            Define::Rights(statement) => self.about_rights(*statement).await,
            Define::SetSchema { kind, name, if_exists, schema } => {
                self.set_schema_of((kind, &name), if_exists, &schema).await
            }
            Define::CreateLike { name, if_not_exists, source, options } => {
                self.create_like((&name, if_not_exists), &source, options).await
            }
            Define::CreateEnum { name, labels } => self.create_enum(&name, &labels).await,
            Define::AlterEnum { name, change } => self.alter_enum(&name, &change).await,
            Define::DropTypes { names, if_exists, cascades } => {
                self.drop_types(&names, (if_exists, cascades)).await
            }
            Define::DropForeign { names, if_exists, cascades } => {
                self.drop_external(&names, (if_exists, cascades)).await
            }
            Define::CreateSequence { name, if_not_exists, options, owned_by } => {
                self.create_sequence(&name, if_not_exists, (&options, owned_by)).await
            }
            Define::SetOwner { of, if_exists, role } => self.set_owner(&of, if_exists, &role).await,
            Define::AddIdentity { table, column, is_always, sequence, options } => {
                let kind = if is_always { Identity::Always } else { Identity::Default };
                let sequence = bare(&sequence)?;
                self.add_named_identity((&table, &column), kind, (sequence, options)).await
            }
            Define::Maintain { verb, tables } => self.maintain(verb, &tables).await,
            Define::Reindex { of, is_concurrent } => self.reindex(&of, is_concurrent).await,
            Define::SetConstraints { names, is_deferred } => {
                self.set_constraints(&names, is_deferred).await
            }
            Define::Lock { tables, lock, is_nowait } => {
                self.lock_whole_tables(&tables, (lock, is_nowait)).await
            }
            Define::AlterSequence { name, if_exists, options, owned_by } => {
                self.alter_sequence(&name, if_exists, (&options, owned_by)).await
            }
        }
    }

    /// VACUUM and ANALYZE: no-ops, as their work is done continuously.
    async fn maintain(&self, verb: &str, tables: &[TableReference]) -> Result<Outcome, Error> {
        let in_block = match self.host.rows() {
            Some(rows) => rows.is_in_block().await,
            None => false,
        };
        if verb == "VACUUM" && in_block {
            let text = "VACUUM cannot run inside a transaction block";
            return Err(Error::new(70173, "25001", text).next("COMMIT first"));
        }
        for table in tables {
            self.check_own(table)?;
            let name = bare(table)?;
            let known = self.has_table(&name);
            if !known && self.is_view(table).await {
                return Err(Error::new(942, "42809", format!("\"{name}\" is a view, no table")));
            }
            if !known {
                return Err(Error::new(942, "42P01", format!("table \"{name}\" does not exist")));
            }
        }
        let notice = match verb {
            "VACUUM" => {
                "there is nothing to do: room of rows that are gone is used again by itself"
            }
            _ => "there is nothing to do: what plans need to know is counted as rows change",
        };
        Ok(Outcome::Done { message: format!("{verb} done."), notices: vec![notice.to_owned()] })
    }

    async fn create_sequence(
        &self,
        reference: &TableReference,
        if_not_exists: bool,
        (options, owned_by): (&SequenceOptions, Option<OwnedBy>),
    ) -> Result<Outcome, Error> {
        self.check_own(reference)?;
        let (name, catalog) = (bare(reference)?, self.catalog()?);
        if crate::names::has_controls(&name) {
            let text = "the name of a sequence has no control characters";
            return Err(Error::new(911, "42602", text).next("choose another name"));
        }
        if if_not_exists && self.kind_of(&catalog, &name).is_some() {
            return Ok(done(format!("\"{name}\" already exists.")));
        }
        self.check_free(&catalog, &name)?;
        let sequence = options.made()?;
        self.add_sequences(vec![(name.clone(), sequence)], None).await?;
        if let Some(owned_by) = owned_by {
            self.own_sequence(&name, owned_by).await?;
        }
        Ok(done(format!("Sequence {name} created.")))
    }

    /// Adds sequences and the table they are for: the first in the heap in a transaction of its own, which creates
    /// the heap too.
    pub(super) async fn add_sequences(
        &self,
        sequences: Vec<NamedSequence>,
        table: Option<Table>,
    ) -> Result<(), Error> {
        let rows = self.row_tables()?;
        let (database, session) = (rows.database(), rows.session().waits());
        if !rows.are_open() {
            return Ok(database.add_with_sequences(session, sequences, table, &|_, _| ()).await?);
        }
        let scope = self.definer()?;
        let mut open = scope.open().await?;
        for (name, sequence) in sequences {
            scope.definitions.create_sequence(&mut open, session, name, sequence).await?;
        }
        match table {
            Some(table) => Ok(scope.definitions.create_table(&mut open, session, table).await?),
            None => Ok(()),
        }
    }

    async fn alter_sequence(
        &self,
        reference: &TableReference,
        if_exists: bool,
        (options, owned_by): (&SequenceOptions, Option<OwnedBy>),
    ) -> Result<Outcome, Error> {
        let (name, catalog) = (bare(reference)?, self.catalog()?);
        let Some(was) = catalog.sequence(&name).cloned() else {
            return match if_exists {
                true => Ok(done("There was no such sequence.")),
                false => Err(no_sequence(&name)),
            };
        };
        let altered = options.altered(&was)?;
        let next = options.restart.map(|value| value.unwrap_or(altered.start));
        let heap = self.row_tables()?.database().heap();
        let session = self.row_tables()?.session().waits();
        {
            let scope = self.definer()?;
            let mut open = scope.open().await?;
            let change = (altered.clone(), next);
            scope.definitions.alter_sequence(&mut open, session, &name, change).await?;
        }
        if next.is_none() && altered.increment != was.increment {
            // The next value was computed with the old increment.
            let peek = heap.peek_value(&was)?;
            let fitting = peek.checked_sub(was.increment);
            let fitting = fitting.and_then(|last| last.checked_add(altered.increment));
            if let Some(fitting) = fitting.filter(|_| RowTables::is_called(&was, peek)) {
                heap.set_value(&altered, fitting)?;
                heap.keep_values(session, &altered).await?;
            }
        }
        if let Some(owned_by) = owned_by {
            self.own_sequence(&name, owned_by).await?;
        }
        Ok(done(format!("Sequence {name} altered.")))
    }

    /// Makes a column own a sequence, or no column.
    async fn own_sequence(&self, name: &str, owned_by: OwnedBy) -> Result<(), Error> {
        let catalog = self.catalog()?;
        if let Some((table, owned)) = catalog.owner_of(name) {
            if owned.identity.is_some() {
                let text = format!("sequence \"{name}\" is of an identity column");
                return Err(Error::new(4007, "0A000", text)
                    .next(format!("alter the column of \"{}\"", table.name)));
            }
            let table = quoted(&table.name);
            let alteration = self.alteration(&table).await?;
            let (mut table, mut rows) = (alteration.table().clone(), alteration.rows().clone());
            rows.owned.retain(|owned| owned.sequence != name);
            table.rows = Some(rows);
            self.finish(alteration, table).await?;
        }
        let OwnedBy::Column(table, column) = owned_by else { return Ok(()) };
        let alteration = self.alteration(&quoted(&bare(&table)?)).await?;
        let (mut table, mut rows) = (alteration.table().clone(), alteration.rows().clone());
        let schema = checked_schema(&table.schema)?;
        let at = schema.fields().iter().position(|field| *field.name() == column);
        let at = at.ok_or_else(|| {
            let text = format!("table \"{}\" has no column \"{column}\"", table.name);
            Error::new(904, "42703", text)
        })?;
        rows.owned.push(Owned { column: at, sequence: name.to_owned(), identity: None });
        table.rows = Some(rows);
        self.finish(alteration, table).await
    }

    /// DROP SEQUENCE.
    #[boxed]
    pub(super) async fn drop_sequences(
        &self,
        names: &[ObjectName],
        (if_exists, cascades): (bool, bool),
    ) -> Result<Outcome, Error> {
        let mut dropped = BTreeSet::new();
        for name in names {
            let name = match bare(&TableReference::parse_str(&name.to_string())) {
                Err(_) if if_exists => continue,
                name => name?,
            };
            let catalog = self.catalog()?;
            match catalog.table(&name) {
                Some(table) if table.sequence.is_some() => {}
                Some(table) => {
                    let text = format!("\"{name}\" is a {}, no sequence", table.word());
                    return Err(Error::new(2289, "42809", text)
                        .next(format!("drop {} {name}", table.word())));
                }
                None if if_exists => continue,
                None => return Err(no_sequence(&name)),
            }
            dropped.insert(name);
        }
        for name in &dropped {
            self.release_sequence(name, cascades).await?;
        }
        if dropped.is_empty() {
            return Ok(done("There was no such sequence."));
        }
        let scope = self.definer()?;
        scope.definitions.drop_names(&mut *scope.open().await?, dropped.clone()).await?;
        let names: Vec<String> = dropped.into_iter().collect();
        Ok(done(format!("Sequence {} dropped.", names.join(", "))))
    }

    /// Removes a sequence from the defaults that depend on it, if that is allowed.
    async fn release_sequence(&self, name: &str, cascades: bool) -> Result<(), Error> {
        let catalog = self.catalog()?;
        if let Some((table, owned)) = catalog.owner_of(name).filter(|(_, o)| o.identity.is_some()) {
            let schema = checked_schema(&table.schema)?;
            let column = schema.field(owned.column).name();
            let text = format!(
                "sequence \"{name}\" cannot be dropped: identity column \"{column}\" of table \"{}\" needs it",
                table.name
            );
            return Err(Error::new(2429, "2BP01", text).next("drop the column"));
        }
        let tables: BTreeSet<String> =
            dependents(&catalog, name).iter().map(|(table, _)| table.name.clone()).collect();
        if let (Some(table), false) = (tables.first(), cascades) {
            let text = format!(
                "sequence \"{name}\" cannot be dropped: a DEFAULT of table \"{table}\" needs it"
            );
            return Err(
                Error::new(2429, "2BP01", text).next(format!("drop sequence {name} cascade"))
            );
        }
        let owner = catalog.owner_of(name).map(|(table, _)| table.name.clone());
        for table in tables.into_iter().chain(owner).collect::<BTreeSet<_>>() {
            let alteration = self.alteration(&quoted(&table)).await?;
            let (mut table, mut rows) = (alteration.table().clone(), alteration.rows().clone());
            let schema = checked_schema(&table.schema)?;
            let field = |field: &Arc<Field>| match default_of(field) {
                Some(text) if uses(text, name) => without_default(field.as_ref().clone()),
                _ => field.as_ref().clone(),
            };
            let fields: Vec<Field> = schema.fields().iter().map(field).collect();
            table.schema = schema_text(&Schema::new(fields));
            rows.owned.retain(|owned| owned.sequence != name);
            table.rows = Some(rows);
            self.finish(alteration, table).await?;
        }
        Ok(())
    }

    /// Names the sequences of a table's new columns, and makes them the columns' defaults.
    pub(super) fn sequences_of(
        &self,
        table: &str,
        sequences: &[NewSequence],
        fields: &mut [Field],
    ) -> Result<(Vec<NamedSequence>, Vec<Owned>), Error> {
        let (mut made, mut owned): (Vec<NamedSequence>, Vec<Owned>) = (Vec::new(), Vec::new());
        let catalog = self.catalog()?;
        for NewSequence { column, identity, options, name: said } in sequences {
            let field = fields[*column].clone();
            let name = field.name().clone();
            let Some(of) = type_of_column(&field) else {
                let text =
                    format!("identity column \"{name}\" must be smallint, integer or bigint");
                return Err(Error::new(30675, "22023", text));
            };
            let options = SequenceOptions { of: options.of.or(Some(of)), ..options.clone() };
            let is_free = |name: &str| {
                self.kind_of(&catalog, name).is_none()
                    && name != table
                    && !made.iter().any(|(own, _)| own == name)
            };
            let sequence = match said {
                Some(said) => {
                    self.check_free(&catalog, said)?;
                    said.clone()
                }
                None => free_name((table, &name, "seq"), is_free),
            };
            fields[*column] = with_default(field, &default_of_sequence(&sequence));
            made.push((sequence.clone(), options.made()?));
            owned.push(Owned { column: *column, sequence, identity: *identity });
        }
        Ok((made, owned))
    }

    /// Restarts the sequences of a table: TRUNCATE .. RESTART IDENTITY.
    pub(super) async fn restart_sequences(&self, table: &str) -> Result<(), Error> {
        let (catalog, session) = (self.catalog()?, self.row_tables()?.session().waits());
        let owned = catalog.row_table(table).map(|(_, rows)| rows.owned.clone());
        let scope = self.definer()?;
        let mut open = scope.open().await?;
        for Owned { sequence: name, .. } in owned.unwrap_or_default() {
            let Some(sequence) = catalog.sequence(&name).cloned() else { continue };
            let start = sequence.start;
            let change = (sequence, Some(start));
            scope.definitions.alter_sequence(&mut open, session, &name, change).await?;
        }
        Ok(())
    }

    /// Rows, each batch held back until the sequence values in it are durable.
    pub(super) fn kept(&self, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let (host, schema) = (Arc::clone(&self.host), rows.schema());
        let kept = rows.and_then(move |batch| {
            let host = Arc::clone(&host);
            async move {
                if let Some(rows) = host.rows() {
                    let kept = rows.keep_values().await;
                    kept.map_err(|error| DataFusionError::External(Box::new(error)))?;
                }
                Ok(batch)
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, kept))
    }
}

/// A name as it is.
pub(super) fn quoted(name: &str) -> ObjectName {
    ObjectName::from(vec![Ident::with_quote('"', name)])
}
