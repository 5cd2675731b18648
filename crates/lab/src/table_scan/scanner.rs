//! A table in a group of another experiment, and scans of it by a cell.

use std::sync::Arc;

use cellar_cell::{Cache, Totals};
use cellar_diskgroup::Group;
use cellar_io::SharedEnv;

use super::ask::Cell;
use super::question::{self, Question};
use super::table;
use super::table::Spec;
use crate::column::Column;
use crate::control::Control;
use crate::error::LabError;

/// Tasks that take results of a scan concurrently.
pub(crate) fn workers(place: Column) -> usize {
    match place {
        // A model has no processors.
        Column::Model => 1,
        Column::Here => std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// A cell with a table and without memory, so that each scan is cold.
pub(crate) struct Scanner {
    cell: Cell,
    question: Arc<Question>,
}

impl Scanner {
    /// Creates a table in `group`, to be scanned with this many reads in flight by this many workers.
    pub(crate) async fn new(
        env: &SharedEnv,
        group: &Group,
        spec: &Spec,
        (depth, workers): (usize, usize),
        control: &Control<'_>,
    ) -> Result<Scanner, LabError> {
        let table = table::make(env, group, spec, "row groups of the table", control).await?;
        let (env, cache, stop) = (Arc::clone(env), Cache::new(0), control.flag());
        let cell = Cell { env, segment: table.segment, cache, depth, workers, stop };
        Ok(Scanner { cell, question: Arc::new(question::everything()) })
    }

    /// Sums up all rows; returns the cell's counters.
    pub(crate) async fn scan(&self) -> Result<Totals, LabError> {
        Ok(self.cell.ask(&self.question, true).await?.totals)
    }
}
