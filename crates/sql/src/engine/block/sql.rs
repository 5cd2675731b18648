//! Statements of SQL in a block: prepared once, with the variables that they name as parameters.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::TableReference;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Query, SelectItem, SetExpr, Statement as SqlStatement, TableFactor, TableObject, Visitor,
    visit_relations,
};

use super::computed;
use super::evaluate::{Expression, Ref};
use super::names::Named;
use super::values::no_variable;
use super::{Run, place_of};
use crate::blocks::{self, Code, Dialect, Into};
use crate::engine::Outcome;
use crate::engine::prepared::{Answer, Parameter};
use crate::error::Error;
use crate::fast::Prepared;
use crate::names::folded;
use crate::parse::parse;
use crate::statement::Statement;
use crate::walk;

/// Statements in which names may be those of variables.
const WITH_VARIABLES: [&str; 7] =
    ["select", "insert", "update", "delete", "with", "values", "table"];

/// Statements that would end or divide the transaction that a block is in.
const OF_TRANSACTIONS: [&str; 10] = [
    "begin",
    "start",
    "commit",
    "end",
    "rollback",
    "abort",
    "savepoint",
    "release",
    "prepare",
    "do",
];

/// Refuses statements that a block has other words for.
fn refuse_transactions(text: &str) -> Result<(), Error> {
    let word = first_word(text);
    match OF_TRANSACTIONS.contains(&word.as_str()) || blocks::is_block(text) {
        true => Err(Error::not_yet(format!("{} as a statement of a block", word.to_uppercase()))
            .next("COMMIT and ROLLBACK are steps of their own; EXCEPTION undoes the changes of a block")),
        false => Ok(()),
    }
}

/// The number of an error that a statement prepared before its table changed has.
const CHANGED: u32 = 4068;

/// A statement that is ready.
#[derive(Debug)]
pub(super) struct CompiledSql {
    prepared: Prepared,
    refs: Vec<Ref>,
    types: Vec<DataType>,
    /// Values that variables decide, as parameters behind those of the variables.
    computed: Vec<Expression>,
}

/// Names that hide variables.
#[derive(Default)]
struct Hidden {
    columns: BTreeSet<String>,
    tables: BTreeSet<String>,
    depth: usize,
}

impl Visitor for Hidden {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.depth += 1;
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        for cte in ctes {
            self.tables.insert(folded(&cte.alias.name));
            self.columns.extend(cte.alias.columns.iter().map(|own| folded(&own.name)));
        }
        let SetExpr::Select(select) = query.body.as_ref() else { return ControlFlow::Continue(()) };
        let is_sorted = query.order_by.is_some() || self.depth > 1;
        for item in select.projection.iter().filter(|_| is_sorted) {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                self.columns.insert(folded(alias));
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. } = factor
        {
            self.tables.insert(folded(&alias.name));
            self.columns.extend(alias.columns.iter().map(|own| folded(&own.name)));
        }
        ControlFlow::Continue(())
    }
}

fn first_word(text: &str) -> String {
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
    let word: String = text.chars().take_while(|c| c.is_alphanumeric()).collect();
    word.to_ascii_lowercase()
}

impl Run<'_> {
    /// What hides variables in a statement: columns of its tables, of queries within it, and names of tables.
    async fn hidden_in(&self, text: &str) -> Hidden {
        let mut hidden = Hidden::default();
        let Ok(Statement::Query(statement)) = parse(text) else { return hidden };
        let DfStatement::Statement(statement) = *statement else { return hidden };
        let mut tables: Vec<String> = Vec::new();
        let _: ControlFlow<()> = visit_relations(statement.as_ref(), |name| {
            tables.push(name.to_string());
            ControlFlow::Continue(())
        });
        let _: ControlFlow<()> = walk::look(statement.as_ref(), &mut hidden);
        if let SqlStatement::Insert(insert) = statement.as_ref()
            && let TableObject::TableName(name) = &insert.table
            && insert.on.is_none()
            && insert.returning.is_none()
            && let Some(at) = tables.iter().position(|own| *own == name.to_string())
        {
            // Its columns are no names in what is inserted.
            tables.remove(at);
        }
        for table in tables {
            let reference = TableReference::parse_str(&table);
            hidden.tables.insert(reference.table().to_owned());
            if let Ok(found) = self.engine.context().table_provider(reference).await {
                let schema = found.schema();
                hidden.columns.extend(schema.fields().iter().map(|field| field.name().clone()));
            }
        }
        hidden
    }

    async fn compile_sql(&self, code: &Code, takes_out: bool) -> Result<CompiledSql, Error> {
        let text = code.text();
        refuse_transactions(&text)?;
        let may_name = WITH_VARIABLES.contains(&first_word(&text).as_str());
        let (text, refs) = match may_name {
            false => (text, Vec::new()),
            true => {
                let hidden = self.hidden_in(&text).await;
                self.replaced(
                    code,
                    |at| format!("${}", at + 1),
                    |words, is_column| match words {
                        [table, _] if hidden.tables.contains(table) => Ok(true),
                        [name] if is_column || hidden.columns.contains(name) => {
                            if self.dialect == Dialect::Postgres && !is_column {
                                let text = format!("column reference \"{name}\" is ambiguous");
                                return Err(Error::new(918, "42702", text).next(
                                    "it is a variable and a column: name one of them otherwise",
                                ));
                            }
                            Ok(true)
                        }
                        _ => Ok(false),
                    },
                )?
            }
        };
        let types: Vec<DataType> =
            self.all_referred(&refs)?.iter().map(|own| own.data_type().clone()).collect();
        let mut given: Vec<Option<DataType>> = types.iter().cloned().map(Some).collect();
        let taken = computed::take_out(&text, refs.len()).filter(|_| takes_out && !refs.is_empty());
        let (mut text, mut parts) = (text, Vec::new());
        if let Some(taken) = taken {
            for part in taken.parts {
                let part = self.over(&part, refs.clone(), None)?;
                given.push(Some(part.data_type()?));
                parts.push(part);
            }
            text = taken.text;
        }
        let prepared = self.engine.prepared_of(&text, &given).await?;
        Ok(CompiledSql { prepared, refs, types, computed: parts })
    }

    /// Runs a statement.
    pub(super) async fn answer_of(&mut self, code: &Code) -> Result<Answer, Error> {
        let place = place_of(code);
        let (mut was_changed, mut takes_out) = (false, true);
        loop {
            let compiled = match self.statements.get(&place) {
                Some(compiled) => Arc::clone(compiled),
                None => {
                    let compiled = Arc::new(self.compile_sql(code, takes_out).await?);
                    self.statements.insert(place, Arc::clone(&compiled));
                    compiled
                }
            };
            let values = self.all_referred(&compiled.refs)?;
            let mut pairs = values.iter().zip(&compiled.types);
            if !pairs.all(|(own, data_type)| own.data_type() == data_type) {
                self.statements.remove(&place);
                continue;
            }
            let mut values = values;
            let parts = compiled.computed.iter();
            let own =
                parts.map(|part| part.evaluate(values.clone())).collect::<Result<Vec<_>, Error>>();
            match own {
                Ok(own) => values.extend(own.into_iter().flatten()),
                // The statement may never come to that part.
                Err(_) => {
                    takes_out = false;
                    self.statements.remove(&place);
                    continue;
                }
            }
            let parameters = values.into_iter().zip(&compiled.prepared.parameters);
            let parameters =
                parameters.map(|(value, data_type)| match value.data_type() == data_type {
                    true => Ok(value),
                    false => Parameter::Value(value).array(data_type),
                });
            let parameters = parameters.collect::<Result<Vec<ArrayRef>, Error>>()?;
            match Box::pin(self.engine.execute_with(&compiled.prepared, parameters)).await {
                // Its table was changed since it was prepared.
                Err(error) if error.number == CHANGED && !was_changed => {
                    was_changed = true;
                    self.statements.remove(&place);
                }
                answer => return answer,
            }
        }
    }

    /// A statement of the block, whose rows go into variables.
    pub(super) async fn run_sql(&mut self, code: &Code, into: Option<&Into>) -> Result<(), Error> {
        let answer = self.answer_of(code).await?;
        let returns = matches!(answer, Answer::Rows(_) | Answer::Other(Outcome::Rows(_)));
        let discards = first_word(&code.text()) != "select" || code.is_perform();
        if returns && into.is_none() && !discards {
            return Err(Error::new(428, "42601", "a query has no place for its rows")
                .next("SELECT .. INTO variables, or PERFORM .. in DO"));
        }
        self.take(answer, into).await
    }

    /// EXECUTE IMMEDIATE.
    pub(super) async fn run_dynamic(
        &mut self,
        text: &Code,
        into: Option<&Into>,
        using: &[Code],
    ) -> Result<(), Error> {
        let Some(text) = self.text_of(text).await? else {
            return Err(Error::new(6535, "22004", "the statement of EXECUTE is NULL"));
        };
        let mut values = Vec::with_capacity(using.len());
        for code in using {
            values.push(self.value(code, None).await?);
        }
        refuse_transactions(&text)?;
        let text = numbered(&text, values.len());
        let types: Vec<Option<DataType>> =
            values.iter().map(|own| Some(own.data_type().clone())).collect();
        let prepared = self.engine.prepared_of(&text, &types).await?;
        if prepared.parameters.len() != values.len() {
            let text = format!(
                "the statement of EXECUTE has {} parameters, and USING gives {}",
                prepared.parameters.len(),
                values.len()
            );
            return Err(Error::new(1008, "08P01", text));
        }
        let values = values.into_iter().zip(&prepared.parameters);
        let values = values.map(|(value, data_type)| Parameter::Value(value).array(data_type));
        let values = values.collect::<Result<Vec<ArrayRef>, Error>>()?;
        let answer = Box::pin(self.engine.execute_with(&prepared, values)).await?;
        self.take(answer, into).await
    }

    /// Takes what a statement gave.
    async fn take(&mut self, answer: Answer, into: Option<&Into>) -> Result<(), Error> {
        let count = match answer {
            Answer::Changed(count, _) | Answer::Other(Outcome::Changed(count, _)) => count,
            Answer::Other(Outcome::Filled { rows, .. }) => rows.unwrap_or_default(),
            Answer::Other(Outcome::Done { notices, .. }) => {
                self.notices.extend(notices);
                0
            }
            Answer::Other(Outcome::Refused(_, error)) => return Err(error),
            answer => {
                let (schema, batches) = self.rows_of(answer).await?;
                let count = batches.iter().map(|batch| batch.num_rows() as u64).sum();
                if let Some(into) = into {
                    self.take_row(&schema, &batches, into)?;
                }
                self.note_rows(count);
                return Ok(());
            }
        };
        self.note_rows(count);
        match into {
            Some(_) => Err(Error::syntax("INTO of a statement that gives no rows")),
            None => Ok(()),
        }
    }

    fn note_rows(&mut self, count: u64) {
        self.slots.row_count = i64::try_from(count).unwrap_or(i64::MAX);
        self.slots.found = count > 0;
    }

    /// Puts the only row, or the first one, into variables.
    fn take_row(
        &mut self,
        schema: &SchemaRef,
        batches: &[RecordBatch],
        into: &Into,
    ) -> Result<(), Error> {
        if let Some(target) = into.targets.iter().find(|own| self.scopes.find(own).is_none()) {
            return Err(no_variable(target));
        }
        let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
        self.slots.found = count > 0;
        if into.is_strict && count == 0 {
            return Err(Error::new(1403, "P0002", "no data found")
                .next("handle it: EXCEPTION WHEN no_data_found THEN .."));
        }
        if into.is_strict && count > 1 {
            return Err(Error::new(
                1422,
                "P0003",
                "a query into variables returns more than one row",
            )
            .next("select one row, or loop over them: FOR r IN (query) LOOP"));
        }
        let first = batches.iter().find(|batch| batch.num_rows() > 0);
        let value = |at: usize| match first {
            Some(batch) => batch.column(at).slice(0, 1),
            None => new_null_array(schema.field(at).data_type(), 1),
        };
        let columns = schema.fields().len();
        if let [target] = &into.targets[..]
            && let Some(Named::Record(record)) = self.scopes.find(target)
        {
            let values = (0..columns).map(value).collect();
            self.slots.records[record].row = Some((Arc::clone(schema), values));
            return Ok(());
        }
        if columns != into.targets.len() {
            let text = format!("a row of {columns} values into {} variables", into.targets.len());
            return Err(Error::new(947, "42601", text).next("name one variable for each column"));
        }
        for (at, target) in into.targets.iter().enumerate() {
            self.put_into(target, &value(at))?;
        }
        Ok(())
    }
}

/// A text with `:name` of Oracle's dynamic SQL as `$1`, `$2`, in their order; others as they are.
fn numbered(text: &str, count: usize) -> String {
    if count == 0 || text.contains("$1") {
        return text.to_owned();
    }
    let (mut made, mut rest, mut next, mut before) = (String::new(), text, 1, ' ');
    while let Some(c) = rest.chars().next() {
        let behind = &rest[c.len_utf8()..];
        if c == '\'' {
            let end = behind.find('\'').map_or(rest.len(), |at| at + 2);
            made.push_str(&rest[..end]);
            rest = &rest[end..];
            before = '\'';
            continue;
        }
        let name = behind.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(behind.len());
        if c == ':' && before != ':' && name > 0 {
            made.push_str(&format!("${next}"));
            next += 1;
            rest = &behind[name..];
        } else {
            made.push(c);
            rest = behind;
        }
        before = c;
    }
    made
}

#[cfg(test)]
mod tests {
    use super::numbered;

    #[test]
    fn names_of_dynamic_sql_become_numbers() {
        for (text, count, wanted) in [
            ("update t set a = :1 where b = :b", 2, "update t set a = $1 where b = $2"),
            (
                "select ':x', a::int from t where c = :c",
                1,
                "select ':x', a::int from t where c = $1",
            ),
            ("select $1", 1, "select $1"),
            ("select :x", 0, "select :x"),
        ] {
            assert_eq!(numbered(text, count), wanted);
        }
    }
}
