//! GROUP BY state of a scan's workers, and how they hand it on.
//!
//! A few groups are accumulated as they come. If there are many, and their keys are integers close to
//! each other, all row groups share one array of slots (`format::aggregate::dense`), and the workers
//! merge their arrays at the end. Otherwise many groups are handed on as columns, one row group at a
//! time.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cellar_format::aggregate::columns::Columns;
use cellar_format::aggregate::dense::{Dense, Plan};
use cellar_format::{Aggregate, Damage, Groups, Header, Prepared};

use arrow_schema::Schema;

/// Groups that one worker accumulates; beyond this it hands on what it has.
const GROUPS_MAX: usize = 1 << 16;
/// Above this number, the groups of a row group are handed on as columns.
const COLUMNS_MIN: usize = 256;
/// The most groups in one part of the answer, where the answer comes in parts.
const PART: usize = 1 << 13;
/// Interval, in row groups, at which to check again whether keys still differ from row to row.
const SEEN_AGAIN: u32 = 16;

/// What the workers of a scan share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    plan: OnceLock<Option<Arc<Plan>>>,
    /// Workers that sum by slot, and the sums that finished workers left for the others.
    left: Mutex<(usize, Option<Dense>)>,
}

/// What one worker knows.
#[derive(Debug, Default)]
pub(crate) struct Known {
    groups: Groups,
    dense: Option<Dense>,
    draining: Option<Dense>,
    /// Row groups until the next check whether keys differ; 0: check now.
    differ: u32,
}

/// What a worker hands on.
#[derive(Debug)]
pub(crate) enum Part {
    Groups(Groups),
    Columns(Columns),
}

impl Shared {
    /// How the groups of these row groups are summed at places; `None`: they are not.
    pub fn plan<'h>(
        &self,
        aggregate: &Aggregate,
        headers: impl Iterator<Item = &'h Header>,
    ) -> Option<Arc<Plan>> {
        let plan = self.plan.get_or_init(|| {
            let headers: Vec<&Header> = headers.collect();
            Plan::new(aggregate, &headers).filter(Plan::is_worth_it).map(Arc::new)
        });
        plan.clone()
    }

    fn left(&self) -> std::sync::MutexGuard<'_, (usize, Option<Dense>)> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// What is summed at places.
    pub fn dense(&mut self, plan: Arc<Plan>, shared: &Shared) -> &mut Dense {
        self.dense.get_or_insert_with(|| {
            shared.left().0 += 1;
            Dense::new(plan)
        })
    }

    /// Whether keys have recently differed so much that each row is handed on as a group of its own.
    pub fn rows_differ(&mut self) -> bool {
        self.differ = self.differ.saturating_sub(1);
        self.differ > 0
    }

    /// Takes what a row group knows of its groups, of which `rows` rows passed; what is to be handed on.
    pub fn take(
        &mut self,
        ready: Prepared<'_, '_>,
        aggregate: &Aggregate,
        schema: &Schema,
        rows: usize,
    ) -> Result<Option<Part>, Damage> {
        let groups = ready.groups();
        if groups > COLUMNS_MIN {
            self.differ = if groups * 2 > rows { SEEN_AGAIN } else { 0 };
            return Ok(Some(Part::Columns(ready.finish_columns(aggregate, schema)?)));
        }
        ready.finish(aggregate, &mut self.groups);
        let is_full = self.groups.len() >= GROUPS_MAX;
        Ok(is_full.then(|| Part::Groups(std::mem::take(&mut self.groups))))
    }

    /// What is left to hand on after the last row group; call until nothing is left.
    pub fn rest(&mut self, shared: &Shared, schema: &Schema) -> Result<Option<Part>, Damage> {
        if !self.groups.is_empty() {
            return Ok(Some(Part::Groups(std::mem::take(&mut self.groups))));
        }
        if let Some(dense) = self.dense.take() {
            self.draining = put_together(dense, shared);
        }
        let Some(dense) = &mut self.draining else { return Ok(None) };
        let part = dense.next_part(schema, PART)?;
        if part.is_none() {
            self.draining = None;
        }
        Ok(part.map(Part::Columns))
    }

    /// Called for a worker that ends early: its state goes with it, and the others do not wait for it.
    pub fn give_up(&mut self, shared: &Shared) {
        self.groups.clear();
        self.draining = None;
        if self.dense.take().is_some() {
            shared.left().0 -= 1;
        }
    }
}

/// The last worker gets everybody's sums; the others leave theirs.
fn put_together(mut dense: Dense, shared: &Shared) -> Option<Dense> {
    loop {
        let other = {
            let mut left = shared.left();
            match left.1.take() {
                Some(other) => other,
                None => {
                    left.0 -= 1;
                    if left.0 == 0 {
                        return Some(dense);
                    }
                    left.1 = Some(dense);
                    return None;
                }
            }
        };
        // Merged while other workers run, which may leave theirs meanwhile.
        dense.join(other);
    }
}
