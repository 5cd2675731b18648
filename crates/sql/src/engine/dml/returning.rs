//! RETURNING: a query over the rows that were changed, with those of other tables that chose them.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array};
use arrow::compute::{concat, concat_batches, take};
use arrow::datatypes::{DataType, Field, Schema};
use cellar_instance::catalog::Rights;
use datafusion::common::tree_node::TreeNode;
use datafusion::datasource::MemTable;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr as SqlExpr, Ident, Join, JoinConstraint, JoinOperator, Query, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement as SqlStatement, TableWithJoins,
    WildcardAdditionalOptions,
};

use super::Effect;
use super::target::{ResultTable, query_of, table_named};
use crate::engine::Engine;
use crate::error::Error;
use crate::failure::{from_arrow, from_datafusion};
use crate::names;
use crate::rows::{ROW_ID, RowColumns, Written};
use crate::walk;

/// The column that matches rows of the table with the rows that chose them.
const PLACE: &str = "\u{1}place";

/// What a RETURNING clause asks for.
pub(super) struct Returning {
    items: Vec<SelectItem>,
    /// The name of the table in the statement.
    alias: Ident,
    /// Whether there are other tables in FROM or USING.
    has_more: bool,
    others: Vec<Other>,
}

/// Another table of the statement.
struct Other {
    name: String,
    fields: Vec<Field>,
}

impl Returning {
    /// A RETURNING clause for a table with this name in its statement.
    pub fn new(items: Vec<SelectItem>, alias: Ident, has_more: bool) -> Returning {
        Returning { items, alias, has_more, others: Vec::new() }
    }

    /// The items, with each * expanded to its columns.
    fn expanded(&self, columns: &RowColumns) -> Vec<SelectItem> {
        let alias = names::folded(&self.alias);
        let own = columns.schema.fields().iter().map(|field| field.name().clone());
        let mut tables: Vec<(String, Vec<String>)> = vec![(alias, own.collect())];
        for other in &self.others {
            let fields = other.fields.iter().map(|field| field.name().clone()).collect();
            tables.push((other.name.clone(), fields));
        }
        let all = |wanted: Option<&str>| {
            let of = tables.iter().filter(|(name, _)| wanted.is_none_or(|wanted| wanted == name));
            let each = of.flat_map(|(table, fields)| {
                fields.iter().map(|field| SelectItem::UnnamedExpr(column_of(table, field)))
            });
            each.collect::<Vec<_>>()
        };
        let mut items = Vec::new();
        for item in &self.items {
            match item {
                SelectItem::Wildcard(options)
                    if *options == WildcardAdditionalOptions::default() =>
                {
                    items.extend(all(None));
                }
                SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    options,
                ) if *options == WildcardAdditionalOptions::default() => {
                    let last = name.0.last().and_then(|part| part.as_ident()).map(names::folded);
                    let found = last.map(|name| all(Some(&name))).unwrap_or_default();
                    match found.is_empty() {
                        true => items.push(item.clone()),
                        false => items.extend(found),
                    }
                }
                other => items.push(other.clone()),
            }
        }
        items
    }
}

/// The columns of a table that an expression may read, by name; as in PostgreSQL this includes those of EXCLUDED.
pub(super) fn named_in(expr: &SqlExpr, schema: &Schema) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut add = |own: &Ident| {
        let own = names::folded(own);
        if schema.index_of(&own).is_ok() {
            found.insert(own);
        }
    };
    walk::each_expr(expr, |expr| match expr {
        SqlExpr::Identifier(own) => add(own),
        SqlExpr::CompoundIdentifier(parts) => {
            if let Some(own) = parts.last() {
                add(own);
            }
        }
        _ => {}
    });
    found
}

fn column_of(table: &str, column: &str) -> SqlExpr {
    SqlExpr::CompoundIdentifier(vec![Ident::with_quote('"', table), Ident::with_quote('"', column)])
}

impl Engine {
    /// Refuses to return columns that may not be read.
    pub(super) fn check_returning(
        &self,
        columns: &RowColumns,
        returning: Option<&Returning>,
    ) -> Result<(), Error> {
        let (Some(returning), Some(asking)) = (returning, self.asking()?) else { return Ok(()) };
        let mut read = BTreeSet::new();
        for item in returning.expanded(columns) {
            match &item {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                    read.extend(named_in(expr, &columns.schema));
                }
                _ => {
                    let all = columns.schema.fields().iter().map(|field| field.name().clone());
                    read.extend(all);
                }
            }
        }
        match read.is_empty() {
            true => Ok(()),
            false => {
                let read = read.iter().map(String::as_str);
                asking.may_with(&columns.name, Rights::SELECT, read)
            }
        }
    }

    /// Makes the query for rows also return the columns of the other tables.
    pub(super) async fn ask_for_others(
        &self,
        returning: &mut Returning,
        query: &mut Query,
    ) -> Result<(), Error> {
        let SetExpr::Select(select) = &mut *query.body else { return Ok(()) };
        if !returning.has_more {
            return Ok(());
        }
        let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
        let all =
            Query { with: query.with.clone(), ..query_of(vec![all], select.from.clone(), None) };
        let plan = self.plan_of(SqlStatement::Query(Box::new(all))).await?;
        let own = names::folded(&returning.alias);
        for (table, field) in plan.schema().iter() {
            let Some(table) = table.map(|table| table.table().to_owned()) else { continue };
            if table == own || field.name() == ROW_ID {
                continue;
            }
            let field = Field::new(field.name(), field.data_type().clone(), true);
            let at: usize = returning.others.iter().map(|other| other.fields.len()).sum();
            select.projection.push(SelectItem::ExprWithAlias {
                expr: column_of(&table, field.name()),
                alias: Ident::with_quote('"', format!("\u{1}other{at}")),
            });
            match returning.others.last_mut().filter(|other| other.name == table) {
                Some(other) => other.fields.push(field),
                None => returning.others.push(Other { name: table, fields: vec![field] }),
            }
        }
        Ok(())
    }

    /// The rows of RETURNING. `chosen`: the result of the query for rows, and which of its columns is the first
    /// of the other tables.
    pub(super) async fn returned(
        &self,
        columns: &RowColumns,
        returning: Returning,
        written: Written,
        chosen: (&[RecordBatch], usize),
    ) -> Result<Effect, Error> {
        let own = columns.query_schema(false);
        let rows = concat_batches(&own, &written.rows).map_err(|error| from_arrow(&error))?;
        let mut made = Vec::new();
        let place = |arrays: &mut Vec<ArrayRef>, count: usize| {
            arrays.push(Arc::new(UInt64Array::from_iter_values(0..count as u64)));
        };
        let mut arrays = rows.columns().to_vec();
        place(&mut arrays, rows.num_rows());
        let fields = own.fields().iter().map(|field| field.as_ref().clone()).collect();
        let table = self.placed("table", fields, arrays, &mut made)?;
        let relation = table_named(&table, returning.alias.clone());
        let mut joins = Vec::new();
        let places = UInt64Array::from(written.places);
        let mut at = chosen.1;
        for other in &returning.others {
            let mut arrays = Vec::new();
            for field in &other.fields {
                arrays.push(chosen_values(chosen.0, at, field, &places)?);
                at += 1;
            }
            place(&mut arrays, places.len());
            let table = self.placed("other", other.fields.clone(), arrays, &mut made)?;
            joins.push(join(&returning.alias, &table, &other.name));
        }
        // The * of a table must not include the place column.
        let items = returning.expanded(columns);
        let from = vec![TableWithJoins { relation, joins }];
        let mut query = query_of(items, from, None);
        names::settle_query(&mut query);
        self.refuse_aggregates(&query).await?;
        Box::pin(self.rows_of(query)).await
    }

    /// Refuses aggregates: RETURNING returns one row for each changed one.
    async fn refuse_aggregates(&self, query: &Query) -> Result<(), Error> {
        let SetExpr::Select(select) = &*query.body else { return Ok(()) };
        let state = self.state();
        let known = state.aggregate_functions();
        let is_aggregate = |expr: &SqlExpr| match expr {
            SqlExpr::Function(call) => {
                known.contains_key(&call.name.to_string().to_ascii_lowercase())
            }
            _ => false,
        };
        if !walk::any_expr(&select.projection, is_aggregate) {
            return Ok(());
        }
        // It may be one of a subquery.
        let plan = self.plan_of(SqlStatement::Query(Box::new(query.clone()))).await?;
        let is_aggregate = |plan: &LogicalPlan| {
            Ok(matches!(plan, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)))
        };
        match plan.exists(is_aggregate).map_err(|error| from_datafusion(&error))? {
            false => Ok(()),
            true => Err(Error::new(934, "42803", "RETURNING has no aggregate functions")
                .next("aggregate over it: WITH changed AS (.. RETURNING ..) SELECT ..")),
        }
    }

    /// A table of these columns, and places; its name.
    fn placed<'a>(
        &'a self,
        what: &str,
        mut fields: Vec<Field>,
        arrays: Vec<ArrayRef>,
        made: &mut Vec<ResultTable<'a>>,
    ) -> Result<String, Error> {
        fields.push(Field::new(PLACE, DataType::UInt64, false));
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays);
        let batch = batch.map_err(|error| from_arrow(&error))?;
        let table = MemTable::try_new(schema, vec![vec![batch]]);
        let table = Arc::new(table.map_err(|error| from_datafusion(&error))?);
        let name = format!("\u{2}{}{what}", self.next_made());
        made.push(self.make(name.clone(), table)?);
        Ok(name)
    }
}

/// The values of a column of the query, for the rows that were changed.
fn chosen_values(
    batches: &[RecordBatch],
    at: usize,
    field: &Field,
    places: &UInt64Array,
) -> Result<ArrayRef, Error> {
    let parts: Vec<&dyn Array> = batches.iter().map(|batch| batch.column(at).as_ref()).collect();
    if parts.is_empty() {
        return Ok(arrow::array::new_empty_array(field.data_type()));
    }
    let whole = concat(&parts).map_err(|error| from_arrow(&error))?;
    take(&whole, places, None).map_err(|error| from_arrow(&error))
}

fn join(own: &Ident, table: &str, known_as: &str) -> Join {
    let place = Ident::with_quote('"', PLACE);
    let left = SqlExpr::CompoundIdentifier(vec![own.clone(), place]);
    let same = SqlExpr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::Eq,
        right: Box::new(column_of(known_as, PLACE)),
    };
    Join {
        relation: table_named(table, Ident::with_quote('"', known_as)),
        global: false,
        join_operator: JoinOperator::Inner(JoinConstraint::On(same)),
    }
}
