//! Properties of a CREATE TABLE that DataFusion has no place for: the disk group, the lengths of columns.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, col};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CreateTable, CreateTableOptions, DataType, Expr, OnCommit, SqlOption,
    Statement as SqlStatement, Value,
};

use crate::columnar::table::{with_form, with_length};
use crate::dialect::{form_of, length_of};
use crate::engine::temporary;
use crate::error::Error;
use crate::failure::from_datafusion;
use crate::json::form::Form;
use crate::parse::create_as::{BETWEEN, NAMES, NO_DATA};
use crate::parse::table_kind::{ACCESS_METHOD, COLUMNAR, HEAP, TABLESPACE};
use crate::settings::Now;

/// The group of a table, and the lengths of its columns.
#[derive(Debug, Default)]
pub(super) struct TableOptions {
    /// The disk group that is named.
    pub group: Option<String>,
    /// `USING heap`, or `USING columnar`.
    access: Option<String>,
    /// ON COMMIT, where it does something.
    on_commit: Option<OnCommit>,
    /// CREATE TABLE AS: it is filled by a query.
    is_filled: bool,
    /// WITH NO DATA.
    pub no_data: bool,
    /// Names of its first columns, replacing those of the query.
    names: Vec<String>,
    /// For each column that the statement names, the most characters of a value, if given.
    lengths: Vec<Option<usize>>,
    /// For each, the type whose values its texts are, if another.
    forms: Vec<Option<Form>>,
}

impl TableOptions {
    /// What a statement says; the name of the group is taken out of it.
    pub fn of(statement: &mut DfStatement) -> TableOptions {
        let DfStatement::Statement(inner) = statement else { return TableOptions::default() };
        let SqlStatement::CreateTable(create) = inner.as_mut() else {
            return TableOptions::default();
        };
        let lengths = create.columns.iter().map(|column| length_of(&column.data_type)).collect();
        let forms = create.columns.iter_mut().map(|column| take_form(&mut column.data_type));
        let forms = forms.collect();
        let access = take_option(create, ACCESS_METHOD);
        let group = take_option(create, TABLESPACE).map(|group| group.to_uppercase());
        let no_data = take_option(create, NO_DATA).is_some();
        let names = take_option(create, NAMES);
        let names = names.iter().flat_map(|own| own.split(BETWEEN)).map(str::to_owned).collect();
        // PostgreSQL's page fill and vacuum options: here pages are filled, and there is no vacuum.
        for option in ["fillfactor", "autovacuum_enabled", "parallel_workers"] {
            drop_option(create, option);
        }
        let is_filled = create.query.is_some();
        let on_commit = create.on_commit.take();
        TableOptions { group, access, on_commit, is_filled, no_data, names, lengths, forms }
    }

    /// The query of the table, with the names of its columns, and without rows where it is to have none.
    ///
    /// # Errors
    /// 01730 there are more names than columns.
    pub fn shaped(&self, query: Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>, Error> {
        let failed = |error| from_datafusion(&error);
        let mut plan = query;
        if !self.names.is_empty() {
            let columns = plan.schema().columns();
            if self.names.len() > columns.len() {
                let text = "CREATE TABLE AS has more names than its query has columns";
                let error = Error::new(1730, "42601", text);
                return Err(error.next(format!("it has {}", columns.len())));
            }
            let named = columns.into_iter().enumerate().map(|(at, column)| {
                let name = self.names.get(at).cloned();
                let name = name.unwrap_or_else(|| column.name.clone());
                col(column).alias(name)
            });
            let named = named.collect::<Vec<_>>();
            let shaped = LogicalPlanBuilder::from(plan).project(named).map_err(failed)?;
            plan = Arc::new(shaped.build().map_err(failed)?);
        }
        if self.no_data {
            let shaped = LogicalPlanBuilder::from(plan).limit(0, Some(0)).map_err(failed)?;
            plan = Arc::new(shaped.build().map_err(failed)?);
        }
        Ok(plan)
    }

    /// Its ON COMMIT action, as the catalog stores it.
    pub fn on_commit(&self) -> Option<&'static str> {
        self.on_commit.as_ref().map(|said| match said {
            OnCommit::DeleteRows => temporary::DELETE,
            OnCommit::PreserveRows => "preserve rows",
            OnCommit::Drop => temporary::DROP,
        })
    }

    /// The same, with the settings' defaults for what the statement does not say. The heap is in one disk
    /// group: a table that names its group is columnar, unless it has keys.
    pub fn or_as(mut self, settings: &Now) -> TableOptions {
        let in_heap = match self.is_filled {
            true => settings.fills_heap,
            false => settings.makes_heap && self.group.is_none(),
        };
        if self.access.is_none() && in_heap {
            self.access = Some(HEAP.to_owned());
        } else if self.access.is_none() && !self.is_filled && !settings.makes_heap {
            self.access = Some(COLUMNAR.to_owned());
        }
        self
    }

    /// Whether it says that the table is in the heap.
    pub fn is_heap(&self) -> bool {
        self.access.as_deref() == Some(HEAP)
    }

    /// Whether it is such a table, filled by a query.
    pub fn is_filled_heap(&self) -> bool {
        self.is_filled && self.is_heap()
    }

    /// Whether it says that the table is a columnar one.
    pub fn is_columnar(&self) -> bool {
        self.access.as_deref() == Some(COLUMNAR)
    }

    /// The columns with their lengths.
    pub fn with_lengths(&self, schema: &SchemaRef) -> SchemaRef {
        let fields = schema.fields().iter().enumerate().map(|(at, field)| {
            let field = match self.forms.get(at).copied().flatten() {
                Some(form) => with_form(field.as_ref().clone(), form),
                None => field.as_ref().clone(),
            };
            match self.lengths.get(at).copied().flatten() {
                Some(length) => with_length(field, length),
                None => field,
            }
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

/// Turns a type whose values are stored as text into text; returns what the texts are.
fn take_form(data_type: &mut DataType) -> Option<Form> {
    if let DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) = data_type {
        return take_form(item);
    }
    let form = form_of(data_type)?;
    *data_type = DataType::Text;
    Some(form)
}

/// Takes an option out of a statement, whatever it says.
fn drop_option(create: &mut CreateTable, wanted: &str) {
    let CreateTableOptions::With(options) = &mut create.table_options else { return };
    options.retain(|option| {
        !matches!(option, SqlOption::KeyValue { key, .. } if key.value.eq_ignore_ascii_case(wanted))
    });
    if options.is_empty() {
        create.table_options = CreateTableOptions::None;
    }
}

/// Takes an option out of a statement that has no other.
fn take_option(create: &mut CreateTable, wanted: &str) -> Option<String> {
    let CreateTableOptions::With(options) = &mut create.table_options else { return None };
    let at = options.iter().position(|option| {
        matches!(option, SqlOption::KeyValue { key, .. } if key.value.eq_ignore_ascii_case(wanted))
    })?;
    let SqlOption::KeyValue { value: Expr::Value(value), .. } = &options[at] else { return None };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    let text = text.clone();
    options.remove(at);
    if options.is_empty() {
        create.table_options = CreateTableOptions::None;
    }
    Some(text)
}
