//! Expressions of a block: compiled once over the variables that they name.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions,
    StringArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion::common::DFSchema;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{Expr, SelectItem, SetExpr, Statement as SqlStatement};

use super::names::Named;
use super::values::no_field;
use super::{Run, place_of};
use crate::blocks::{Code, Part};
use crate::engine::Outcome;
use crate::engine::prepared::{Answer, Parameter};
use crate::error::Error;
use crate::failure::{from_arrow, from_datafusion};
use crate::parse::parse;
use crate::rows::parsed_as;
use crate::statement::Statement;

/// A value that a text names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ref {
    Slot(usize),
    Field(usize, String),
    Found(bool),
    RowCount,
    ErrorText,
    ErrorNumber,
    ErrorState,
}

/// An expression over variables.
#[derive(Debug)]
pub(super) struct Expression {
    refs: Vec<Ref>,
    types: Vec<DataType>,
    schema: SchemaRef,
    made: Arc<dyn PhysicalExpr>,
}

impl Expression {
    /// The type of its value.
    pub fn data_type(&self) -> Result<DataType, Error> {
        self.made.data_type(&self.schema).map_err(|error| from_datafusion(&error))
    }

    /// Its value over these; `None`: they have other types by now.
    pub fn evaluate(&self, values: Vec<ArrayRef>) -> Result<Option<ArrayRef>, Error> {
        let mut pairs = values.iter().zip(&self.types);
        if !pairs.all(|(own, data_type)| own.data_type() == data_type) {
            return Ok(None);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(Arc::clone(&self.schema), values, &options);
        let row = row.map_err(|error| from_arrow(&error))?;
        let value = self.made.evaluate(&row).and_then(|value| value.into_array(1));
        value.map(Some).map_err(|error| from_datafusion(&error))
    }
}

/// An expression that is ready.
#[derive(Debug)]
pub(super) enum Compiled {
    Expression(Expression),
    /// It asks tables, or draws from a sequence: a query of its own.
    Query(Code),
}

/// What only a query can compute.
const OF_QUERIES: [&str; 5] = ["select", "exists", "nextval", "currval", "lastval"];

fn is_query(code: &Code) -> bool {
    let has = |text: &str| {
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.into_iter().any(|word| OF_QUERIES.contains(&word.to_ascii_lowercase().as_str()))
    };
    code.parts.iter().any(|part| match part {
        Part::Text(text) | Part::Name { text, .. } => has(text),
    })
}

/// The expression that a text is, as a statement would read it.
fn expression_of(text: &str) -> Result<Expr, Error> {
    let none = || Error::syntax(format!("\"{text}\" is no expression"));
    let Statement::Query(statement) = parse(&format!("select {text}"))? else { return Err(none()) };
    let DfStatement::Statement(statement) = *statement else { return Err(none()) };
    let SqlStatement::Query(query) = *statement else { return Err(none()) };
    let SetExpr::Select(select) = *query.body else { return Err(none()) };
    if !select.from.is_empty() || select.selection.is_some() {
        return Err(none());
    }
    match <[SelectItem; 1]>::try_from(select.projection) {
        Ok([SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }]) => Ok(expr),
        _ => Err(none()),
    }
}

impl Run<'_> {
    /// What a name refers to.
    pub(super) fn reference(&self, words: &[String]) -> Option<Ref> {
        match self.scopes.find(words) {
            Some(Named::Slot(slot)) => return Some(Ref::Slot(slot)),
            Some(Named::Field(record, field)) => return Some(Ref::Field(record, field)),
            Some(Named::Record(_) | Named::Exception) | None => {}
        }
        let [name] = words else { return None };
        let is_handling = !self.handled.is_empty();
        Some(match name.as_str() {
            "found" | "sql%found" => Ref::Found(true),
            "sql%notfound" => Ref::Found(false),
            "sql%rowcount" => Ref::RowCount,
            "sqlerrm" if is_handling => Ref::ErrorText,
            "sqlcode" if is_handling => Ref::ErrorNumber,
            "sqlstate" if is_handling => Ref::ErrorState,
            _ => return None,
        })
    }

    /// The value of a reference now.
    pub(super) fn referred(&self, own: &Ref) -> Result<ArrayRef, Error> {
        let error = self.handled.last();
        Ok(match own {
            Ref::Slot(slot) => Arc::clone(&self.slots.all[*slot].value),
            Ref::Field(record, field) => {
                let (schema, values) = self.row_of(*record)?;
                let at = schema.index_of(field).map_err(|_| no_field(field))?;
                Arc::clone(&values[at])
            }
            Ref::Found(wanted) => Arc::new(BooleanArray::from(vec![self.slots.found == *wanted])),
            Ref::RowCount => Arc::new(Int64Array::from(vec![self.slots.row_count])),
            Ref::ErrorText => {
                Arc::new(StringArray::from(vec![error.map(|own| own.message.clone())]))
            }
            Ref::ErrorNumber => {
                Arc::new(Int64Array::from(vec![error.map(|own| -i64::from(own.number))]))
            }
            Ref::ErrorState => Arc::new(StringArray::from(vec![error.map(|own| own.sqlstate)])),
        })
    }

    pub(super) fn all_referred(&self, refs: &[Ref]) -> Result<Vec<ArrayRef>, Error> {
        refs.iter().map(|own| self.referred(own)).collect()
    }

    /// A text in which names of variables are replaced, and what they refer to.
    pub(super) fn replaced(
        &self,
        code: &Code,
        stands_for: impl Fn(usize) -> String,
        is_kept: impl Fn(&[String], bool) -> Result<bool, Error>,
    ) -> Result<(String, Vec<Ref>), Error> {
        let (mut text, mut refs) = (String::new(), Vec::new());
        for part in &code.parts {
            match part {
                Part::Text(own) => text.push_str(own),
                Part::Name { words, text: own, is_column } => match self.reference(words) {
                    Some(found) if !is_kept(words, *is_column)? => {
                        let at = refs.iter().position(|known| *known == found);
                        let at = at.unwrap_or_else(|| {
                            refs.push(found);
                            refs.len() - 1
                        });
                        text.push_str(&stands_for(at));
                    }
                    _ => text.push_str(own),
                },
            }
        }
        Ok((text, refs))
    }

    fn compile(&self, code: &Code, target: Option<&DataType>) -> Result<Compiled, Error> {
        if is_query(code) {
            return Ok(Compiled::Query(code.clone().behind("select ", code.at)));
        }
        let (text, refs) =
            self.replaced(code, |at| format!("\"\u{1}{at}\""), |_, is_column| Ok(is_column))?;
        Ok(Compiled::Expression(self.over(&text, refs, target)?))
    }

    /// An expression over references, which `"\u{1}n"` stand for in its text.
    pub(super) fn over(
        &self,
        text: &str,
        refs: Vec<Ref>,
        target: Option<&DataType>,
    ) -> Result<Expression, Error> {
        let types: Vec<DataType> =
            self.all_referred(&refs)?.iter().map(|own| own.data_type().clone()).collect();
        let field = |(at, data_type): (usize, &DataType)| {
            Field::new(format!("\u{1}{at}"), data_type.clone(), true)
        };
        let fields: Vec<Field> = types.iter().enumerate().map(field).collect();
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let failed = |error| from_datafusion(&error);
        let names = DFSchema::try_from(Arc::clone(&schema)).map_err(failed)?;
        let state = self.engine.state();
        let made = parsed_as(&state, expression_of(text)?, &names, target)?;
        let made = state.create_physical_expr(made, &names).map_err(failed)?;
        Ok(Expression { refs, types, schema, made })
    }

    /// The type that a text names.
    pub(super) fn type_of(&self, said: &str) -> Result<DataType, Error> {
        let names = DFSchema::empty();
        let made = expression_of(&format!("cast(null as {said})"))?;
        let state = self.engine.state();
        let made = parsed_as(&state, made, &names, None)?;
        let made = state.create_physical_expr(made, &names);
        let made = made.and_then(|made| made.data_type(&Schema::empty()));
        made.map_err(|error| from_datafusion(&error))
    }

    /// The value of an expression, as one of a type.
    pub(super) async fn value(
        &mut self,
        code: &Code,
        target: Option<&DataType>,
    ) -> Result<ArrayRef, Error> {
        let place = place_of(code);
        for _ in 0..2 {
            let compiled = match self.expressions.get(&place) {
                Some(compiled) => Arc::clone(compiled),
                None => {
                    let compiled = Arc::new(self.compile(code, target)?);
                    self.expressions.insert(place, Arc::clone(&compiled));
                    compiled
                }
            };
            let expression = match compiled.as_ref() {
                Compiled::Expression(expression) => expression,
                Compiled::Query(query) => return self.asked(query, target).await,
            };
            // A record may have got another row meanwhile, of other types.
            match expression.evaluate(self.all_referred(&expression.refs)?)? {
                Some(value) => return Ok(value),
                None => drop(self.expressions.remove(&place)),
            }
        }
        Err(Error::new(600, "XX000", "a variable changes its type"))
    }

    /// The value that a query gives: NULL without a row.
    async fn asked(&mut self, query: &Code, target: Option<&DataType>) -> Result<ArrayRef, Error> {
        let answer = self.answer_of(query).await?;
        let (schema, batches) = self.rows_of(answer).await?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if schema.fields().len() != 1 || rows > 1 {
            let text = "an expression has one value, and this query gives more";
            return Err(Error::new(1427, "21000", text));
        }
        let first = batches.iter().find(|batch| batch.num_rows() > 0);
        let value = match first {
            Some(batch) => Arc::clone(batch.column(0)),
            None => arrow::array::new_null_array(schema.field(0).data_type(), 1),
        };
        match target {
            Some(target) => Parameter::Value(value).array(target),
            None => Ok(value),
        }
    }

    /// All rows of an answer.
    pub(super) async fn rows_of(
        &mut self,
        answer: Answer,
    ) -> Result<(SchemaRef, Vec<RecordBatch>), Error> {
        use futures_util::TryStreamExt;
        match answer {
            Answer::Rows(batch) => Ok((batch.schema(), vec![batch])),
            Answer::Other(Outcome::Rows(stream)) => {
                let schema = stream.schema();
                let batches = stream.try_collect::<Vec<RecordBatch>>().await;
                let batches = batches.map_err(|error| self.engine.failure(&error))?;
                Ok((schema, batches))
            }
            _ => Ok((Arc::new(Schema::empty()), Vec::new())),
        }
    }

    /// Whether a condition is true.
    pub(super) async fn is_true(&mut self, code: &Code) -> Result<bool, Error> {
        let value = self.value(code, Some(&DataType::Boolean)).await?;
        let value = value.as_boolean_opt().map(|own| own.is_valid(0) && own.value(0));
        Ok(value.unwrap_or(false))
    }

    /// Whether WHEN holds, if there is one.
    pub(super) async fn holds(&mut self, when: Option<&Code>) -> Result<bool, Error> {
        match when {
            Some(when) => self.is_true(when).await,
            None => Ok(true),
        }
    }

    /// A whole number.
    pub(super) async fn number_of(&mut self, code: &Code) -> Result<Option<i64>, Error> {
        let value = self.value(code, Some(&DataType::Int64)).await?;
        Ok(value
            .as_primitive_opt::<Int64Type>()
            .filter(|own| own.is_valid(0))
            .map(|own| own.value(0)))
    }

    /// A value as a text.
    pub(super) async fn text_of(&mut self, code: &Code) -> Result<Option<String>, Error> {
        let value = self.value(code, Some(&DataType::Utf8)).await?;
        let value = cast(&value, &DataType::Utf8).map_err(|error| from_arrow(&error))?;
        let texts = value.as_string::<i32>();
        Ok(texts.is_valid(0).then(|| texts.value(0).to_owned()))
    }
}
