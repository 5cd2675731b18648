//! Conditions of a scan of the heap: those tested on rows as they are stored, and those that become known
//! while the scan runs.

use std::sync::Arc;

use cellar_format::rows::RowFilter;
use cellar_format::{Predicate, Test};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::snapshot_generation;

use super::table::{RowColumns, row_error};
use crate::columnar::dynamic_filter::understood;
use crate::columnar::keys::{JoinKeys, columns_of};
use crate::columnar::translate::{Reason, predicate};
use crate::error::Error;

/// The predicate on stored rows for an expression over the table's columns.
///
/// # Errors
/// Why DataFusion has to test it instead, in words.
pub(super) fn known(
    columns: &RowColumns,
    expr: &Arc<dyn PhysicalExpr>,
) -> Result<Predicate, Reason> {
    let known = predicate(expr, false, &columns.query_schema(true))?;
    match RowFilter::knows(columns.layout(), &known) {
        true => Ok(known),
        false => Err("it is computed of decoded rows".to_owned()),
    }
}

/// A condition that becomes known while the scan runs.
#[derive(Clone, Debug)]
pub(super) struct DynamicFilter {
    expr: Arc<dyn PhysicalExpr>,
    /// If it is the filter of a join: the keys.
    keys: Option<JoinKeys>,
}

impl DynamicFilter {
    pub fn new(expr: Arc<dyn PhysicalExpr>, keys: Option<JoinKeys>) -> DynamicFilter {
        DynamicFilter { expr, keys }
    }

    /// The key columns of a join, each with its keys, where these are known and few.
    pub fn listed(&self) -> impl Iterator<Item = (usize, Arc<[i64]>)> {
        let known = columns_of(&self.expr, self.keys.as_ref()).into_iter();
        known.filter_map(|(column, keys)| Some((column, keys.list()?)))
    }

    fn add(&self, columns: &RowColumns, out: &mut Vec<Predicate>) {
        let mut rest = Vec::new();
        let know = |expr: &Arc<dyn PhysicalExpr>| known(columns, expr);
        understood(&self.expr, &know, out, &mut rest);
        if !rest.is_empty() {
            out.extend(self.members(columns));
        }
    }

    /// Membership in the keys of a join, for its integer columns.
    fn members(&self, columns: &RowColumns) -> impl Iterator<Item = Predicate> {
        let known = columns_of(&self.expr, self.keys.as_ref()).into_iter();
        known.filter_map(|(column, keys)| {
            let field = columns.schema.fields().get(column)?;
            let members = keys.all().filter(|_| field.data_type().is_integer())?;
            Some(Predicate::Test { column, test: Test::Member(members) })
        })
    }
}

/// The conditions that rows must satisfy now, and their generation.
#[derive(Debug)]
pub(super) struct ScanFilters {
    fixed: Vec<Predicate>,
    dynamic: Vec<DynamicFilter>,
    generation: u64,
    filter: Option<RowFilter>,
}

impl ScanFilters {
    /// Conditions that do not change, and those that do.
    pub fn new(
        columns: &RowColumns,
        fixed: Vec<Predicate>,
        dynamic: Vec<DynamicFilter>,
    ) -> Result<ScanFilters, Error> {
        let mut filters = ScanFilters { fixed, dynamic, generation: 0, filter: None };
        filters.renew(columns)?;
        Ok(filters)
    }

    fn newest(&self) -> u64 {
        let of = |dynamic: &DynamicFilter| snapshot_generation(&dynamic.expr);
        self.dynamic.iter().map(of).fold(0, u64::wrapping_add)
    }

    fn renew(&mut self, columns: &RowColumns) -> Result<(), Error> {
        // Taken before the conditions are read: one that changes meanwhile is read again.
        self.generation = self.newest();
        let mut all = self.fixed.clone();
        self.dynamic.iter().for_each(|dynamic| dynamic.add(columns, &mut all));
        let filter = RowFilter::new(columns.layout(), &all);
        let filter = filter.map_err(|error| row_error(&columns.name, &error))?;
        self.filter = Some(filter).filter(|filter| !filter.is_all());
        Ok(())
    }

    /// The filter as of now; `None`: all rows pass.
    pub fn filter(&mut self, columns: &RowColumns) -> Result<Option<&RowFilter>, Error> {
        if !self.dynamic.is_empty() && self.newest() != self.generation {
            self.renew(columns)?;
        }
        Ok(self.filter.as_ref())
    }
}
