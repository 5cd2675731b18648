//! SELECT .. FOR UPDATE and FOR SHARE: the rows of the tables in FROM are locked until the transaction ends.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{Schema, SchemaRef, UInt64Type};
use cellar_instance::catalog::Rights;
use cellar_instance::heap::RowLock;
use datafusion::common::TableReference;
use datafusion::logical_expr::{FetchType, LogicalPlan, SkipType};
use datafusion::sql::sqlparser::ast::{
    GroupByExpr, Ident, LockClause, LockType, NonBlock, Query, Select, SelectItem, SetExpr,
    Statement as SqlStatement, TableFactor,
};
use futures_util::TryStreamExt;

use super::Effect;
use super::target::{number, number_of};
use crate::engine::Engine;
use crate::engine::origins::Origins;
use crate::error::Error;
use crate::failure::from_arrow;
use crate::names;
use crate::rows::in_table;
use crate::rows::{ROW_ID, RowColumns, Scope};

/// Prefix of the columns with the numbers of rows to lock.
const LOCK: &str = "\u{1}lock";

/// A table whose rows are locked.
struct Locked {
    columns: Arc<RowColumns>,
    how: RowLock,
    /// SKIP LOCKED.
    skips: bool,
}

/// What became of a row.
enum Fate {
    Kept,
    Skipped,
    /// Others have changed it meanwhile.
    Changed,
}

fn not_with(clause: &LockClause, what: &str) -> Error {
    let text = format!("FOR {} is not allowed with {what}", clause.lock_type);
    Error::new(2014, "0A000", text).next("lock the rows first, then select from what is locked")
}

impl Engine {
    /// Runs a query, and locks the rows of its tables.
    pub(super) async fn lock_rows(&self, scope: &Scope, mut query: Query) -> Result<Effect, Error> {
        scope.check_writable()?;
        let clauses = std::mem::take(&mut query.locks);
        let with: Vec<String> = query
            .with
            .iter()
            .flat_map(|with| &with.cte_tables)
            .map(|cte| names::folded(&cte.alias.name))
            .collect();
        let plain = self.plan_of(SqlStatement::Query(Box::new(query.clone()))).await?;
        let SetExpr::Select(select) = &mut *query.body else {
            return Err(not_with(&clauses[0], "UNION, INTERSECT, EXCEPT and VALUES"));
        };
        refuse_groups(&clauses[0], select)?;
        // Row numbers among aggregates would cause a misleading error.
        if groups(&plain) {
            return Err(not_with(&clauses[0], "aggregate and window functions"));
        }
        let origins = self.origins(&plain);
        let mut tables = Vec::new();
        for clause in &clauses {
            self.lock_tables(clause, select, &with, &mut tables)?;
        }
        let mut locked = Vec::new();
        for (columns, how, skips) in tables {
            self.check_columns(&columns.name, Rights::UPDATE, [])?;
            self.check_columns(&columns.name, Rights::SELECT, [])?;
            let columns = scope.current(&Arc::new(columns)).await?;
            locked.push(Locked { columns, how, skips });
        }
        let plan = self.plan_of(SqlStatement::Query(Box::new(query))).await?;
        let (plan, limits) = unlimited(plan)?;
        let schema: SchemaRef = Arc::clone(plan.schema().inner());
        let mut stream = self.stream(plan).await.map_err(|e| self.failure(&e))?;
        let mut batches = Vec::new();
        let is_whole = limits.is_none() && locked.iter().all(|table| !table.skips);
        let (mut skip, mut fetch) = limits.unwrap_or((0, usize::MAX));
        while fetch > 0
            && let Some(batch) = stream.try_next().await.map_err(|e| self.failure(&e))?
        {
            match is_whole {
                true => batches.push(batch),
                false => match lock_some(scope, &locked, &batch, (&mut skip, &mut fetch)).await? {
                    Some(batch) => batches.push(batch),
                    None => return Ok(Effect::Again),
                },
            }
        }
        if is_whole && !lock_all(scope, &locked, &batches).await? {
            return Ok(Effect::Again);
        }
        locked.iter().try_for_each(|table| scope.check_place(&table.columns))?;
        shown(&schema, batches, &origins)
    }

    /// Adds the row numbers of the tables that a clause names.
    fn lock_tables(
        &self,
        clause: &LockClause,
        select: &mut Select,
        with: &[String],
        tables: &mut Vec<(RowColumns, RowLock, bool)>,
    ) -> Result<(), Error> {
        let of = clause.of.as_ref().and_then(|of| of.0.last()).and_then(|part| part.as_ident());
        let of = of.map(names::folded);
        let how = RowLock {
            is_shared: clause.lock_type == LockType::Share,
            is_nowait: clause.nonblock == Some(NonBlock::Nowait),
        };
        let mut found = false;
        let mut items = Vec::new();
        let relations = select.from.iter_mut().flat_map(|from| {
            std::iter::once(&mut from.relation)
                .chain(from.joins.iter_mut().map(|join| &mut join.relation))
        });
        for relation in relations {
            let Some((name, alias)) = named(relation) else {
                if of.is_none() {
                    return Err(Error::not_yet("the lock of rows of a subquery")
                        .next("name the tables whose rows are to be locked: FOR UPDATE OF t"));
                }
                continue;
            };
            if of.as_ref().is_some_and(|of| *of != names::folded(&alias)) {
                continue;
            }
            found = true;
            let is_with = name.schema().is_none() && with.iter().any(|own| own == name.table());
            let columns = if is_with { None } else { self.row_table(&name)? };
            let Some(columns) = columns else {
                if !is_with && !self.has_table(name.table()) {
                    // A missing table is reported as for any query.
                    continue;
                }
                let text = format!("the lock of rows of \"{}\"", name.table());
                return Err(Error::not_yet(text)
                    .next("only rows of tables made with USING heap, or with a key, are locked"));
            };
            number(relation, alias.clone());
            let name = Ident::with_quote('"', format!("{LOCK}{}", tables.len()));
            items.push(SelectItem::ExprWithAlias { expr: number_of(&alias), alias: name });
            tables.push((columns, how, clause.nonblock == Some(NonBlock::SkipLocked)));
        }
        select.projection.extend(items);
        match (&of, found) {
            (Some(of), false) => {
                let text = format!("table \"{of}\" of FOR {} is not in FROM", clause.lock_type);
                Err(Error::new(942, "42P01", text).next("use its alias, where it has one"))
            }
            _ => Ok(()),
        }
    }
}

/// A table's name, and its name in the query.
fn named(relation: &TableFactor) -> Option<(TableReference, Ident)> {
    let TableFactor::Table { name, alias, args: None, .. } = relation else { return None };
    let last = name.0.last()?.as_ident()?;
    // A table that an earlier clause has numbered has its old name as alias.
    let alias = alias.as_ref().map_or(last, |alias| &alias.name);
    Some((TableReference::parse_str(&name.to_string()), alias.clone()))
}

fn refuse_groups(clause: &LockClause, select: &Select) -> Result<(), Error> {
    let is_grouped = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(by, _) => !by.is_empty(),
    };
    match () {
        () if select.distinct.is_some() => Err(not_with(clause, "DISTINCT")),
        () if is_grouped => Err(not_with(clause, "GROUP BY")),
        () if select.having.is_some() => Err(not_with(clause, "HAVING")),
        () => Ok(()),
    }
}

/// Whether a query has aggregates, window functions or DISTINCT at its top level.
fn groups(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Distinct(_) => true,
        LogicalPlan::Projection(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Filter(_) => plan.inputs().iter().any(|input| groups(input)),
        _ => false,
    }
}

/// A plan without its outermost LIMIT, which is applied as rows are locked; the rows to skip and to return.
fn unlimited(plan: LogicalPlan) -> Result<(LogicalPlan, Option<(usize, usize)>), Error> {
    let LogicalPlan::Limit(limit) = &plan else { return Ok((plan, None)) };
    let types = limit.get_skip_type().and_then(|skip| Ok((skip, limit.get_fetch_type()?)));
    match types.map_err(|error| crate::failure::from_datafusion(&error))? {
        (SkipType::Literal(skip), FetchType::Literal(fetch)) => {
            Ok((limit.input.as_ref().clone(), Some((skip, fetch.unwrap_or(usize::MAX)))))
        }
        _ => Err(Error::not_yet("a LIMIT that is computed, of rows that are locked")),
    }
}

/// The numbers of rows of each table, in a batch.
fn numbers<'a>(batch: &'a RecordBatch, tables: &[Locked]) -> Result<Vec<&'a UInt64Array>, Error> {
    let number = |at: usize| {
        let column = batch.column_by_name(&format!("{LOCK}{at}"));
        let numbers = column.and_then(|column| column.as_primitive_opt::<UInt64Type>());
        numbers.ok_or_else(|| Error::new(600, "XX000", "rows to lock have no numbers"))
    };
    (0..tables.len()).map(number).collect()
}

async fn lock_one(scope: &Scope, table: &Locked, row: u64) -> Result<Fate, Error> {
    let mut transaction = scope.open().await?;
    let rows = &table.columns.rows;
    let found = match table.skips {
        true => transaction.lock_free_row(rows, row, table.how).await?,
        false => {
            let locked = transaction.lock_row(rows, row, table.how).await;
            Some(locked.map_err(in_table(&table.columns.name))?)
        }
    };
    Ok(match found {
        None => Fate::Skipped,
        Some(found) if found.is_changed => Fate::Changed,
        Some(_) => Fate::Kept,
    })
}

/// Locks all rows, those of each table in row number order; whether none was changed meanwhile.
async fn lock_all(
    scope: &Scope,
    tables: &[Locked],
    batches: &[RecordBatch],
) -> Result<bool, Error> {
    let mut rows: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); tables.len()];
    for batch in batches {
        for (of, numbers) in rows.iter_mut().zip(numbers(batch, tables)?) {
            of.extend(numbers.iter().flatten());
        }
    }
    for (table, rows) in tables.iter().zip(rows) {
        for row in rows {
            if matches!(lock_one(scope, table, row).await?, Fate::Changed) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Locks the rows of a batch as they come, as many as are wanted, and returns those that are locked.
/// `None`: one was changed meanwhile.
async fn lock_some(
    scope: &Scope,
    tables: &[Locked],
    batch: &RecordBatch,
    (skip, fetch): (&mut usize, &mut usize),
) -> Result<Option<RecordBatch>, Error> {
    let numbers = numbers(batch, tables)?;
    let mut kept = Vec::new();
    'rows: for at in 0..batch.num_rows() {
        if *fetch == 0 {
            break;
        }
        for (table, numbers) in tables.iter().zip(&numbers) {
            // An outer join found no row on this side.
            if numbers.is_null(at) {
                continue;
            }
            match lock_one(scope, table, numbers.value(at)).await? {
                Fate::Kept => {}
                Fate::Skipped => continue 'rows,
                Fate::Changed => return Ok(None),
            }
        }
        if *skip > 0 {
            *skip -= 1;
            continue;
        }
        *fetch -= 1;
        kept.push(at as u64);
    }
    let kept = take_record_batch(batch, &UInt64Array::from(kept));
    kept.map(Some).map_err(|error| from_arrow(&error))
}

/// Rows without the numbers by which they were locked.
fn shown(
    schema: &SchemaRef,
    batches: Vec<RecordBatch>,
    origins: &Origins,
) -> Result<Effect, Error> {
    let fields = schema.fields().iter().enumerate();
    let own = fields.filter(|(_, field)| field.name() != ROW_ID && !field.name().starts_with(LOCK));
    let (places, fields): (Vec<usize>, Vec<_>) =
        own.map(|(at, field)| (at, Arc::clone(field))).unzip();
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let schema = origins.tell(names::shown_schema(&schema).unwrap_or(schema));
    let mut rows = Vec::new();
    for batch in batches {
        let columns = places.iter().map(|at| Arc::clone(batch.column(*at))).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let made = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options);
        rows.push(made.map_err(|error| from_arrow(&error))?);
    }
    Ok(Effect::Rows(schema, rows))
}
