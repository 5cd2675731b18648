//! The table columns from which result columns come, as clients are told: drivers use them to query the
//! catalogs for the properties of a column, and to show how long its texts are.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use cellar_instance::catalog::Catalog;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, TableScan};

use super::permitted::{key_of, view_of};
use super::{VIEWS, is_public};
use crate::binary::with_origin;
use crate::columnar::table::{checked_schema, length_of, with_length};
use crate::pgcatalog::{INFORMATION, PG_CATALOG};
use crate::rows::HeapTable;

/// The table column that a result column comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Origin {
    /// The number of the table, or of the view.
    oid: u32,
    /// The number of the column, from 1.
    number: i16,
    /// The declared maximum length of its texts, in characters.
    length: Option<usize>,
}

/// The origin of each column of a query.
#[derive(Debug, Default)]
pub(super) struct Origins(Vec<Option<Origin>>);

impl Origins {
    /// The origins of a plan's columns, before any optimization.
    pub fn of(plan: &LogicalPlan, catalog: &Catalog) -> Origins {
        let mut seek = Seek { catalog, schemas: BTreeMap::new() };
        let columns = 0..plan.schema().fields().len();
        Origins(columns.map(|at| seek.origin(plan, at)).collect())
    }

    /// A schema annotated with these origins.
    pub fn tell(&self, schema: SchemaRef) -> SchemaRef {
        if self.0.iter().all(Option::is_none) || self.0.len() != schema.fields().len() {
            return schema;
        }
        let fields = schema.fields().iter().zip(&self.0).map(|(field, origin)| {
            let field = Field::clone(field);
            let Some(Origin { oid, number, length }) = *origin else { return field };
            let field = with_origin(field, (oid, number));
            match length {
                Some(length) => with_length(field, length),
                None => field,
            }
        });
        let fields: Vec<Field> = fields.collect();
        Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
    }
}

/// A column by its place, from 0.
fn origin(oid: u32, at: usize, length: Option<usize>) -> Option<Origin> {
    Some(Origin { oid, number: i16::try_from(at + 1).ok()?, length })
}

/// The search for origins.
struct Seek<'a> {
    catalog: &'a Catalog,
    /// The columns of tables already looked up in the catalog.
    schemas: BTreeMap<String, Option<SchemaRef>>,
}

/// The column that an expression refers to, through aliases.
fn column_of(expr: &Expr, input: &LogicalPlan) -> Option<usize> {
    match expr {
        Expr::Alias(alias) => column_of(&alias.expr, input),
        Expr::Column(column) => input.schema().maybe_index_of_column(column),
        _ => None,
    }
}

/// Where the values of a column of a plan come from: the plan below, and which of its columns; `None`: they are made
/// here.
fn below(plan: &LogicalPlan, at: usize) -> Option<(&LogicalPlan, usize)> {
    let through = |expr: &Expr, input| Some((input, column_of(expr, input)?));
    match plan {
        LogicalPlan::Projection(own) => through(own.expr.get(at)?, &own.input),
        LogicalPlan::Aggregate(own) => through(own.group_expr.get(at)?, &own.input),
        LogicalPlan::Distinct(Distinct::On(own)) => through(own.select_expr.get(at)?, &own.input),
        LogicalPlan::Window(own) => {
            (at < own.input.schema().fields().len()).then_some((&*own.input, at))
        }
        LogicalPlan::Join(own) => {
            let left = own.left.schema().fields().len();
            let has_both = own.schema.fields().len() > left;
            match (at < left, has_both) {
                (true, _) => Some((&own.left, at)),
                (false, true) => Some((&own.right, at - left)),
                (false, false) => None,
            }
        }
        LogicalPlan::Distinct(Distinct::All(input)) => Some((input, at)),
        LogicalPlan::Filter(own) => Some((&own.input, at)),
        LogicalPlan::Sort(own) => Some((&own.input, at)),
        LogicalPlan::Limit(own) => Some((&own.input, at)),
        LogicalPlan::Repartition(own) => Some((&own.input, at)),
        LogicalPlan::SubqueryAlias(own) => Some((&own.input, at)),
        LogicalPlan::Subquery(own) => Some((&own.subquery, at)),
        _ => None,
    }
}

impl Seek<'_> {
    fn origin(&mut self, mut plan: &LogicalPlan, mut at: usize) -> Option<Origin> {
        // The outermost view counts as the origin, not what it reads.
        let mut view = None;
        loop {
            if let (None, Some(key)) = (view, view_of(plan)) {
                view = self.catalog.table(key).and_then(|table| origin(table.oid(), at, None));
            }
            match below(plan, at) {
                Some(next) => (plan, at) = next,
                None => break,
            }
        }
        let table = match plan {
            LogicalPlan::TableScan(scan) => self.of_scan(scan, at),
            _ => None,
        };
        match view {
            None => table,
            Some(view) => Some(Origin { length: table.and_then(|table| table.length), ..view }),
        }
    }

    fn of_scan(&mut self, scan: &TableScan, at: usize) -> Option<Origin> {
        let at = match &scan.projection {
            Some(columns) => *columns.get(at)?,
            None => at,
        };
        let provider = source_as_provider(&scan.source).ok()?;
        let heap = provider.downcast_ref::<HeapTable>();
        let key = match heap {
            // Whatever name it has in the plan.
            Some(heap) => Cow::Borrowed(heap.key()),
            None => match scan.table_name.schema() {
                Some(PG_CATALOG | INFORMATION | VIEWS) => return None,
                _ if is_public(&scan.table_name) => Cow::Borrowed(scan.table_name.table()),
                _ => Cow::Owned(key_of(&scan.table_name)),
            },
        };
        let table = self.catalog.table(&key)?;
        let length = match heap {
            Some(heap) => length_of(heap.columns().schema.fields().get(at)?),
            None => {
                let known = self.schemas.entry(table.name.clone());
                let schema = known.or_insert_with(|| checked_schema(&table.schema).ok());
                length_of(schema.as_ref()?.fields().get(at)?)
            }
        };
        origin(table.oid(), at, length)
    }
}
