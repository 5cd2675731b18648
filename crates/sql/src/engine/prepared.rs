//! Prepared statements: their parameters and result columns are known before execution, and they can be
//! executed any number of times with different values.

mod bind;
mod infer;
mod words;

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use async_recursion::async_recursion as boxed;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;

pub use self::bind::Parameter;
use crate::blocks;
use crate::engine::fast::{FastOutcome, values_of};
use crate::engine::settings::columns_of;
use crate::engine::{Engine, Outcome};
use crate::error::Error;
use crate::fast::{NamedStatement, Prepared, lex};
use crate::instants::zoned::{KEPT, in_zone};
use crate::name_position::located;
use crate::names;
use crate::parse::parse;
use crate::statement::Statement;
use crate::unwind::{caught, caught_stream};

/// The result of an execution.
#[derive(Debug)]
pub enum Answer {
    /// All its rows.
    Rows(RecordBatch),
    /// How many rows were changed, and how: `inserted`, `updated`, `deleted`.
    Changed(u64, &'static str),
    /// The outcome of [`Engine::execute`].
    Other(Outcome),
}

impl Answer {
    /// The same, as an outcome of [`Engine::execute`].
    pub fn outcome(self) -> Outcome {
        match self {
            Answer::Rows(rows) => FastOutcome::Rows(rows).outcome(),
            Answer::Changed(count, verb) => FastOutcome::Count(count, verb).outcome(),
            Answer::Other(outcome) => outcome,
        }
    }
}

impl Engine {
    pub(super) fn named(&self) -> MutexGuard<'_, BTreeMap<String, NamedStatement>> {
        self.prepared.all()
    }

    /// The statement that was prepared by this name, in SQL or by a message.
    pub fn statement_named(&self, name: &str) -> Option<Arc<Prepared>> {
        self.named().get(name).map(|own| Arc::clone(&own.prepared))
    }

    /// Gives a statement an unused name. `text`: as it was sent, in SQL or in a message.
    ///
    /// # Errors
    /// 42P05.
    pub fn name_statement(
        &self,
        name: &str,
        prepared: Arc<Prepared>,
        text: &str,
        from_sql: bool,
    ) -> Result<(), Error> {
        let mut named = self.named();
        if named.contains_key(name) {
            let text = format!("prepared statement \"{name}\" already exists");
            return Err(Error::new(955, "42P05", text).next(format!("deallocate {name}")));
        }
        let since = self.host.rows().map(|rows| rows.database().env().wall().unix_nanos);
        let since = since.and_then(|nanos| i64::try_from(nanos / 1000).ok());
        let text = text.to_owned();
        named.insert(name.to_owned(), NamedStatement { prepared, text, since, from_sql });
        Ok(())
    }

    /// Whether a statement has this name.
    pub fn has_statement(&self, name: &str) -> bool {
        self.named().contains_key(name)
    }

    /// Forgets a statement; whether there was one of that name.
    pub fn forget_statement(&self, name: &str) -> bool {
        self.named().remove(name).is_some()
    }

    /// Prepares a statement. `types`: of its first parameters, where known; the others are inferred as in
    /// PostgreSQL, from what they are compared with or stored in.
    ///
    /// # Errors
    /// As of [`Engine::execute`], as far as they can be known before.
    #[boxed]
    pub async fn prepare_statement(
        &self,
        sql: &str,
        types: &[Option<DataType>],
    ) -> Result<Prepared, Error> {
        let began = self.began();
        let prepared = Box::pin(began.ends(caught(self.prepared_of(sql, types)))).await;
        let prepared = prepared.and_then(|prepared| prepared);
        self.concluded(prepared.map_err(|error| located(error, sql))).await
    }

    pub(super) async fn prepared_of(
        &self,
        sql: &str,
        types: &[Option<DataType>],
    ) -> Result<Prepared, Error> {
        let plain = |columns| Prepared {
            sql: sql.to_owned(),
            lexed: None,
            statement: None,
            parameters: Vec::new(),
            oids: Vec::new(),
            columns,
        };
        self.check_role()?;
        if blocks::is_block(sql) {
            return Ok(plain(None));
        }
        let statement = parse(sql)?;
        self.refuse_behind_failure(&statement).await?;
        let statement = match statement {
            Statement::Query(statement) => *statement,
            Statement::Explain(..) => return Ok(plain(Some(words::explained()))),
            Statement::Setting(setting) => return Ok(plain(columns_of(&setting))),
            _ => return Ok(plain(None)),
        };
        let resolved = self.resolved(statement.clone())?;
        let DfStatement::Statement(inner) = &resolved else { return Ok(plain(None)) };
        if !words::is_planned(inner) {
            return Ok(plain(None));
        }
        if matches!(inner.as_ref(), SqlStatement::Insert(insert) if !self.is_of_rows(insert)) {
            self.prepare(&mut resolved.clone()).await?;
        }
        let (parameters, columns) = self.described(inner, types).await?;
        let lexed = lex(sql).map(|lexed| {
            let key = format!("{}\u{0}{:?}", lexed.text, parameters.types);
            (lexed, key)
        });
        let (oids, parameters) = (parameters.oids, parameters.types);
        let mut prepared = Prepared { parameters, oids, lexed, ..plain(columns) };
        if !prepared.parameters.is_empty() {
            prepared.statement = Some(statement);
        }
        Ok(prepared)
    }

    /// Executes a prepared statement with these values.
    ///
    /// # Errors
    /// As of [`Engine::execute`]; 08P01 more or fewer values than parameters; 22P02, 22003 a value is invalid for its
    /// parameter's type; 0A000 its rows have different columns now.
    #[boxed]
    pub async fn execute_prepared(
        &self,
        prepared: &Prepared,
        parameters: &[Parameter],
    ) -> Result<Answer, Error> {
        let began = self.began();
        let executed = match bind::values(prepared, parameters, &self.settings.now().zone) {
            Ok(values) => {
                let executed = Box::pin(self.execute_with(prepared, values));
                let executed = began.ends(caught(executed)).await;
                executed.and_then(|executed| executed)
            }
            Err(error) => Err(error),
        };
        let outcome = match self.concluded(executed).await? {
            Answer::Other(outcome) => outcome,
            answer => return Ok(answer),
        };
        Ok(Answer::Other(match self.told_in_time(outcome, &began) {
            Outcome::Rows(stream) => Outcome::Rows(caught_stream(stream)),
            outcome => outcome,
        }))
    }

    /// The same with values of the types of its parameters.
    pub(super) async fn execute_with(
        &self,
        prepared: &Prepared,
        values: Vec<ArrayRef>,
    ) -> Result<Answer, Error> {
        self.check_role()?;
        if let Some(told) = self.execute_fast(prepared, &values).await? {
            return Ok(match told {
                FastOutcome::Rows(rows) => Answer::Rows(rows),
                FastOutcome::Count(count, verb) => Answer::Changed(count, verb),
            });
        }
        let outcome = match &prepared.statement {
            None => Box::pin(self.run_common(&prepared.sql)).await?,
            Some(statement) => {
                let statement = bind::bound(statement, &values)?;
                Box::pin(self.in_transaction(&prepared.sql, statement)).await?
            }
        };
        if let (Outcome::Rows(stream), Some(columns)) = (&outcome, &prepared.columns) {
            check_columns(&stream.schema(), columns, prepared.parameters.is_empty())?;
        }
        Ok(Answer::Other(outcome))
    }

    async fn execute_fast(
        &self,
        prepared: &Prepared,
        values: &[ArrayRef],
    ) -> Result<Option<FastOutcome>, Error> {
        let (Some(rows), Some((lexed, key))) = (self.fast_rows(), &prepared.lexed) else {
            return Ok(None);
        };
        // In the current time zone.
        let types: Vec<DataType> = values.iter().map(|value| value.data_type().clone()).collect();
        let Some(plan) = self.fast_plan(rows, lexed, key, &types).await else {
            return Ok(None);
        };
        if let (Some(now), Some(columns)) = (&plan.schema, &prepared.columns) {
            check_columns(now, columns, prepared.parameters.is_empty())?;
        }
        let Some(values) = values_of(&plan.slots, values.to_vec(), &lexed.constants, rows) else {
            return Ok(None);
        };
        self.run_plan(rows, &plan, &values).await
    }

    /// The types of the parameters of a statement, and its columns.
    async fn described(
        &self,
        statement: &SqlStatement,
        types: &[Option<DataType>],
    ) -> Result<(infer::ParameterTypes, Option<SchemaRef>), Error> {
        let mut found = infer::Inferred::new(types);
        infer::by_casts(statement, &mut found);
        self.infer_by_shape(statement, &mut found);
        infer::by_neighbours(statement, &mut found);
        let count = infer::count(statement)?;
        let is_query = matches!(statement, SqlStatement::Query(_));
        if found.lacks(count) {
            self.infer_by_plan(statement, &mut found).await;
            infer::by_any(statement, &mut found);
        }
        let parameters = found.finish(count);
        let nulls: Vec<ArrayRef> =
            parameters.types.iter().map(|own| arrow::array::new_null_array(own, 1)).collect();
        let query = match is_query {
            true => words::only_read(statement),
            false => words::returning(statement),
        };
        let Some(query) = query else { return Ok((parameters, None)) };
        let wrapped = DfStatement::Statement(Box::new(query));
        let mut bound = bind::typed(&wrapped, &parameters.types, &nulls)?;
        self.prepare(&mut bound).await?;
        let plan = self.state().statement_to_plan(bound.clone()).await;
        let plan = plan
            .map_err(|error| self.missing_table(&bound).unwrap_or_else(|| self.failure(&error)))?;
        let schema = Arc::clone(plan.schema().inner());
        let schema = names::shown_schema(&schema).unwrap_or(schema);
        Ok((parameters, Some(self.origins(&plan).tell(schema))))
    }
}

/// A type normalised for comparison: without time zone, all texts alike, list items nullable.
fn kept(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::BinaryView | DataType::LargeBinary => DataType::Binary,
        DataType::List(item) | DataType::LargeList(item) => {
            DataType::new_list(kept(item.data_type()), true)
        }
        other => in_zone(other, &KEPT.into()),
    }
}

/// Refuses rows whose columns differ from those when the statement was prepared. With parameters, column names may
/// contain their values and are not compared.
fn check_columns(now: &SchemaRef, before: &SchemaRef, have_names: bool) -> Result<(), Error> {
    if Arc::ptr_eq(now, before) {
        return Ok(());
    }
    let (now, before) = (now.fields(), before.fields());
    let is_same = now.len() == before.len()
        && now.iter().zip(before).all(|(now, before)| {
            let is_named = !have_names || now.name() == before.name();
            is_named && kept(now.data_type()) == kept(before.data_type())
        });
    match is_same {
        true => Ok(()),
        false => Err(Error::new(4068, "0A000", "cached plan must not change result type")
            .next("prepare the statement again: its table was changed")),
    }
}
