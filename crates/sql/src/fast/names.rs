//! The names that a plan's expressions can use: the needed columns of the table, and the values that come with
//! each execution.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use datafusion::common::{DFSchema, TableReference};
use datafusion::execution::context::SessionState;
use datafusion::sql::sqlparser::ast::{Expr, Ident};

use super::lex::Place;
use super::shape::placeholder;
use crate::names::folded;
use crate::rows::RowColumns;

/// The name of the statement's time.
pub(super) const NOW: &str = "$now";

/// The type of now().
pub(crate) fn now_type(zone: &Arc<str>) -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some(Arc::clone(zone)))
}

/// The values that come with each execution: parameters, then constants that were lifted, then the time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    /// The types of the parameters.
    pub parameters: Vec<DataType>,
    /// The lifted constants, by their placeholders.
    pub constants: Vec<(String, DataType)>,
    /// Whether the time is needed.
    pub has_now: bool,
    /// The time zone of the session.
    pub zone: Arc<str>,
}

impl Slots {
    /// Which of them a placeholder stands for.
    pub fn position(&self, name: &str) -> Option<usize> {
        match Place::of(name)? {
            Place::Parameter(at) => (at < self.parameters.len()).then_some(at),
            Place::Integer(at) | Place::Long(at) | Place::Decimal(at, _, _) | Place::Text(at) => {
                (at < self.constants.len()).then_some(self.parameters.len() + at)
            }
        }
    }

    /// The type of one.
    pub fn data_type(&self, at: usize) -> DataType {
        match at.checked_sub(self.parameters.len()) {
            None => self.parameters[at].clone(),
            Some(at) => {
                self.constants.get(at).map_or_else(|| now_type(&self.zone), |(_, own)| own.clone())
            }
        }
    }

    /// Whether it is a constant of the statement's text.
    pub fn is_constant(&self, at: usize) -> bool {
        at >= self.parameters.len()
    }

    fn fields(&self) -> Vec<Field> {
        let parameters = self.parameters.iter().enumerate();
        let parameters = parameters.map(|(at, own)| (format!("${}", at + 1), own.clone()));
        let constants = self.constants.iter().cloned();
        let now = self.has_now.then(|| (NOW.to_owned(), now_type(&self.zone)));
        let all = parameters.chain(constants).chain(now);
        all.map(|(name, data_type)| Field::new(name, data_type, true)).collect()
    }
}

/// The names that expressions can use.
pub(super) struct Names<'a> {
    pub state: &'a SessionState,
    pub columns: &'a RowColumns,
    /// The name of the table in the statement.
    pub alias: String,
    /// The columns that expressions may name, ascending.
    pub needed: Vec<usize>,
    pub slots: &'a Slots,
    pub schema: DFSchema,
    /// The same for Arrow, with unique names.
    pub plain: SchemaRef,
    /// Whether the row to insert can be named too, as EXCLUDED.
    has_excluded: bool,
    /// Whether values may be taken from sequences: once for each inserted row.
    pub may_draw: bool,
}

/// The name of the row to insert.
pub(super) const EXCLUDED: &str = "excluded";

impl<'a> Names<'a> {
    pub fn new(
        state: &'a SessionState,
        (columns, slots): (&'a RowColumns, &'a Slots),
        alias: &Ident,
        needed: Vec<usize>,
    ) -> Option<Names<'a>> {
        let alias = folded(alias);
        let own = columns.query_schema(false);
        let reference = TableReference::bare(alias.as_str());
        let mut fields: Vec<(Option<TableReference>, Arc<Field>)> = needed
            .iter()
            .map(|at| (Some(reference.clone()), Arc::clone(&own.fields()[*at])))
            .collect();
        fields.extend(slots.fields().into_iter().map(|field| (None, Arc::new(field))));
        let plain: Fields = fields.iter().map(|(_, field)| Arc::clone(field)).collect();
        let plain = Arc::new(Schema::new(plain));
        let schema = DFSchema::new_with_metadata(fields, [].into()).ok()?;
        let (has_excluded, may_draw) = (false, false);
        Some(Names { state, columns, alias, needed, slots, schema, plain, has_excluded, may_draw })
    }

    /// Those of ON CONFLICT DO UPDATE: all columns of the table, those of the row to insert, and the values.
    pub fn of_conflict(
        state: &'a SessionState,
        (columns, slots): (&'a RowColumns, &'a Slots),
        alias: &Ident,
    ) -> Option<Names<'a>> {
        let alias = folded(alias);
        if alias == EXCLUDED {
            return None;
        }
        let own = columns.query_schema(false);
        let of = |name: &str| {
            let reference = TableReference::bare(name);
            let field = move |field: &Arc<Field>| (Some(reference.clone()), Arc::clone(field));
            own.fields().iter().map(field).collect::<Vec<_>>()
        };
        let mut fields = of(&alias);
        fields.extend(of(EXCLUDED));
        fields.extend(slots.fields().into_iter().map(|field| (None, Arc::new(field))));
        let renamed = fields.iter().enumerate();
        let renamed = renamed
            .map(|(at, (_, field))| Field::new(at.to_string(), field.data_type().clone(), true));
        let plain = Arc::new(Schema::new(renamed.collect::<Vec<_>>()));
        let schema = DFSchema::new_with_metadata(fields, [].into()).ok()?;
        let needed = (0..own.fields().len()).collect();
        let (has_excluded, may_draw) = (true, false);
        Some(Names { state, columns, alias, needed, slots, schema, plain, has_excluded, may_draw })
    }

    /// The column of the table that an expression is.
    pub fn column(&self, expr: &Expr) -> Option<usize> {
        let own = column(self.columns, &self.alias, expr);
        own.or_else(|| column(self.columns, EXCLUDED, expr).filter(|_| self.has_excluded))
    }

    /// The value that an expression is.
    pub fn slot(&self, expr: &Expr) -> Option<usize> {
        self.slots.position(placeholder(expr)?)
    }
}

/// The column of the table that an expression is.
pub(super) fn column(columns: &RowColumns, alias: &str, expr: &Expr) -> Option<usize> {
    let name = match expr {
        Expr::Identifier(name) => name,
        Expr::CompoundIdentifier(parts) => match &parts[..] {
            [table, name] if folded(table) == alias => name,
            _ => return None,
        },
        _ => return None,
    };
    let name = folded(name);
    columns.schema.fields().iter().position(|field| *field.name() == name)
}
