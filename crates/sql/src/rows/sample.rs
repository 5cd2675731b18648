//! A sample of the rows of a table, to estimate how many of all rows satisfy conditions.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use cellar_format::rows::RowFilter;
use datafusion::physical_expr::PhysicalExpr;

use super::scan_filters::known;
use super::table::RowColumns;

/// Fewer rows are no basis for an estimate.
const FEW: usize = 64;

/// Rows from all over a table, and the selectivity of conditions measured on them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    rows: Arc<[Bytes]>,
    /// The share of rows that pass, computed on first use.
    share: OnceLock<Option<f64>>,
}

impl Sample {
    /// Of these rows, as they are stored.
    pub fn new(rows: Vec<Bytes>) -> Sample {
        Sample { rows: rows.into(), share: OnceLock::new() }
    }

    /// The same rows, for other conditions.
    pub fn anew(&self) -> Sample {
        Sample { rows: Arc::clone(&self.rows), share: OnceLock::new() }
    }

    /// The share of a table's rows that pass all of these conditions, from 0 to 1: never quite 0, as rows outside the
    /// sample may pass. `None`: the sample gives no estimate.
    pub fn share(&self, columns: &RowColumns, conditions: &[Arc<dyn PhysicalExpr>]) -> Option<f64> {
        *self.share.get_or_init(|| self.measure(columns, conditions))
    }

    fn measure(&self, columns: &RowColumns, conditions: &[Arc<dyn PhysicalExpr>]) -> Option<f64> {
        if self.rows.len() < FEW {
            return None;
        }
        let conditions = conditions.iter().map(|condition| known(columns, condition));
        let conditions = conditions.collect::<Result<Vec<_>, _>>().ok()?;
        let filter = RowFilter::new(columns.layout(), &conditions).ok()?;
        let mut filter_run = filter.ask();
        // Rows whose result depends on a long value are left out.
        let answers: Vec<bool> =
            self.rows.iter().filter_map(|row| filter_run.passes(row, &[]).ok()).collect();
        let passed = answers.iter().filter(|passes| **passes).count();
        let share = (passed as f64 + 0.5) / (answers.len() as f64 + 1.0);
        (answers.len() >= FEW).then_some(share)
    }
}
