//! ON CONFLICT: what an INSERT does with rows whose key exists already.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{Field, Schema, SchemaRef};
use cellar_instance::heap::{ChangeError, LockedRow, RowLock};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{DFSchema, TableReference};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, cast};
use datafusion::physical_expr::PhysicalExpr;

use super::change::{Change, Changed, Written};
use super::refusals::in_table;
use super::table::RowColumns;
use crate::columnar::write::column_of;
use crate::error::Error;
use crate::failure::{from_arrow, from_datafusion};

/// What to do with a row whose key exists already.
pub(crate) struct Conflict {
    /// The index whose key it is; `None`: any of them.
    pub arbiter: Option<usize>,
    /// DO UPDATE; `None`: DO NOTHING.
    pub update: Option<Arc<OnUpdate>>,
    /// Further values that its expressions may use, after the columns.
    pub values: Vec<ArrayRef>,
}

/// DO UPDATE: what the existing row becomes.
#[derive(Debug)]
pub(crate) struct OnUpdate {
    /// The columns of the table, then those of the row to insert.
    schema: SchemaRef,
    assigned: Vec<usize>,
    values: Vec<Arc<dyn PhysicalExpr>>,
    condition: Option<Arc<dyn PhysicalExpr>>,
}

impl OnUpdate {
    /// The columns that DO UPDATE expressions can name: those of the table, under its name in the statement,
    /// and those of the row to insert.
    ///
    /// # Errors
    /// DataFusion refuses them.
    pub fn names(columns: &RowColumns, alias: &str) -> Result<DFSchema, Error> {
        let own = columns.query_schema(false);
        let qualified = |name: &str| {
            let schema = DFSchema::try_from_qualified_schema(TableReference::bare(name), &own);
            schema.map_err(|error| from_datafusion(&error))
        };
        let both = qualified(alias)?.join(&qualified("excluded")?);
        both.map_err(|error| from_datafusion(&error))
    }

    /// The update of these columns to these values, where the condition holds.
    ///
    /// # Errors
    /// An expression has no meaning, or is of a type that the column does not take.
    pub fn new(
        state: &SessionState,
        columns: &RowColumns,
        names: &DFSchema,
        values: Vec<(usize, Expr)>,
        condition: Option<Expr>,
    ) -> Result<OnUpdate, Error> {
        let physical = |expr: Expr| {
            let made = state.create_physical_expr(expr, names);
            made.map_err(|error| from_datafusion(&error))
        };
        let mut update = OnUpdate {
            schema: plain(names),
            assigned: Vec::new(),
            values: Vec::new(),
            condition: condition.map(physical).transpose()?,
        };
        for (column, value) in values {
            update.assigned.push(column);
            let data_type = columns.schema.field(column).data_type().clone();
            update.values.push(physical(cast(value, data_type))?);
        }
        Ok(update)
    }

    /// The same from physical expressions: over the columns, those of the row to insert, and further values, all
    /// under unique names.
    pub fn made(
        schema: SchemaRef,
        values: Vec<(usize, Arc<dyn PhysicalExpr>)>,
        condition: Option<Arc<dyn PhysicalExpr>>,
    ) -> OnUpdate {
        let (assigned, values) = values.into_iter().unzip();
        OnUpdate { schema, assigned, values, condition }
    }

    /// Whether the condition is true for a row.
    fn holds(&self, both: &RecordBatch) -> Result<bool, Error> {
        let Some(condition) = &self.condition else { return Ok(true) };
        let held = condition
            .evaluate(both)
            .and_then(|held| held.into_array(1))
            .and_then(|held| as_boolean_array(&held).cloned())
            .map_err(|error| from_datafusion(&error))?;
        Ok(held.is_valid(0) && held.value(0))
    }
}

/// The columns under unique names: expressions know them by position.
fn plain(names: &DFSchema) -> SchemaRef {
    let fields = names.fields().iter().enumerate();
    let renamed = fields.map(|(at, field)| Field::clone(field).with_name(at.to_string()));
    Arc::new(Schema::new(renamed.collect::<Vec<_>>()))
}

/// What became of a row to insert.
enum ConflictOutcome {
    /// It was inserted, or the conflicting row updated.
    Row(Vec<ArrayRef>),
    Nothing,
    /// Others have changed the conflicting row meanwhile.
    Again,
}

impl Change<'_> {
    /// Inserts rows; where the key exists already, does what the statement says. `touched`: the rows that the
    /// statement has added or changed so far.
    ///
    /// # Errors
    /// As [`Change::insert`]; 21000 a row would be changed twice.
    pub async fn insert_or(
        &self,
        batch: &RecordBatch,
        conflict: &Conflict,
        touched: &mut HashSet<u64>,
    ) -> Result<Changed, Error> {
        let arrays = self.fitted(batch.columns())?;
        self.checks.check(&arrays)?;
        let mut written = Written::default();
        for row in 0..batch.num_rows() {
            let own: Vec<ArrayRef> = arrays.iter().map(|array| array.slice(row, 1)).collect();
            match self.insert_one(own, conflict, touched).await? {
                ConflictOutcome::Again => return Ok(Changed::Again),
                ConflictOutcome::Nothing => {}
                ConflictOutcome::Row(arrays) => {
                    written.count += 1;
                    written.rows.extend(self.wanted(arrays)?);
                }
            }
        }
        if written.rows.len() > 1 {
            let whole = arrow::compute::concat_batches(&written.rows[0].schema(), &written.rows);
            written.rows = vec![whole.map_err(|error| from_arrow(&error))?];
        }
        Ok(Changed::Rows(written))
    }

    async fn insert_one(
        &self,
        arrays: Vec<ArrayRef>,
        conflict: &Conflict,
        touched: &mut HashSet<u64>,
    ) -> Result<ConflictOutcome, Error> {
        loop {
            let there = {
                let mut transaction = self.scope.open().await?;
                let savepoint = transaction.savepoint();
                let stored = self.stored(&arrays)?;
                let writer = self.writer(&stored)?;
                let new = self.new_row(&mut transaction, &writer, 0, &[]).await?;
                let (table, first) = (&self.columns.rows, conflict.arbiter.unwrap_or(0));
                let inserted =
                    transaction.insert_looking_first(table, new.bytes, &new.keys, first).await;
                match inserted {
                    Ok(row) => {
                        touched.insert(row);
                        self.note_new(&arrays, None)?;
                        self.scope.check_changes(&transaction, self.columns)?;
                        return Ok(ConflictOutcome::Row(arrays));
                    }
                    Err(ChangeError::Duplicate { index, row })
                        if conflict.arbiter.is_none_or(|own| own == index) =>
                    {
                        transaction.back_to(savepoint);
                        row
                    }
                    Err(error) => return Err(self.refused(error, &arrays, 0)),
                }
            };
            self.scope.check_place(self.columns)?;
            let Some(update) = &conflict.update else { return Ok(ConflictOutcome::Nothing) };
            if touched.contains(&there) {
                let text = "ON CONFLICT DO UPDATE cannot change a row a second time";
                return Err(Error::new(30926, "21000", text)
                    .next("let no two of the rows that are inserted have the same key"));
            }
            let known: Vec<ArrayRef> = arrays.iter().chain(&conflict.values).cloned().collect();
            if let Some(became) = self.update_one(there, &known, update).await? {
                if matches!(became, ConflictOutcome::Row(_)) {
                    touched.insert(there);
                }
                return Ok(became);
            }
        }
    }

    /// Updates the conflicting row; `None`: it is gone by now. `excluded`: the columns of the row to insert, and the
    /// further values.
    async fn update_one(
        &self,
        there: u64,
        excluded: &[ArrayRef],
        update: &OnUpdate,
    ) -> Result<Option<ConflictOutcome>, Error> {
        let table = &self.columns.rows;
        let locked = self.scope.open().await?.lock_row(table, there, RowLock::default()).await;
        let LockedRow { bytes, is_changed } = locked.map_err(in_table(&self.columns.name))?;
        if is_changed {
            return Ok(Some(ConflictOutcome::Again));
        }
        let Some(old) = bytes else { return Ok(None) };
        let old = [old];
        let before = self.columns.batch(&self.scope.statement, &old).await?;
        let mut arrays = before.columns().to_vec();
        let both = arrays.iter().chain(excluded).cloned().collect();
        let both = RecordBatch::try_new(Arc::clone(&update.schema), both);
        let both = both.map_err(|error| from_arrow(&error))?;
        if !update.holds(&both)? {
            return Ok(Some(ConflictOutcome::Nothing));
        }
        for (column, value) in update.assigned.iter().zip(&update.values) {
            let value = value.evaluate(&both).and_then(|value| value.into_array(1));
            let value = value.map_err(|error| from_datafusion(&error))?;
            arrays[*column] = column_of(value, self.columns.schema.field(*column))?;
        }
        self.checks.check(&arrays)?;
        let waiting = self.write(&[there], &old, &arrays, &update.assigned).await?;
        self.write_waiting(waiting).await?;
        Ok(Some(ConflictOutcome::Row(arrays)))
    }
}
