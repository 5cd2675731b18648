//! The scan interface: the request that a scan is given, and the items of its answer.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use async_recursion::async_recursion as boxed;
use cellar_format::aggregate::columns::Columns;
use cellar_format::{Aggregate, Groups, Predicate};
use cellar_io::SharedEnv;
use cellar_wait::{Event, Session};

use crate::cache::Cache;
use crate::error::Error;
use crate::queue::Queue;
use crate::segment::Segment;
use crate::stats::ScanStats;
use crate::work::Worker;

/// A filter that the cell cannot evaluate on encoded data: the caller evaluates it on decoded columns.
pub trait Residual: Send + Sync + 'static {
    /// The columns of the table that it needs, and the types in which it needs them.
    fn columns(&self) -> &[(usize, DataType)];

    /// Which of `rows` rows pass: true, not false and not null.
    ///
    /// # Errors
    /// The filter cannot be computed; the scan ends with this error.
    fn keep(
        &self,
        columns: Vec<ArrayRef>,
        rows: usize,
    ) -> Result<BooleanArray, Box<dyn std::error::Error + Send + Sync>>;
}

/// A filter that becomes narrower while the scan runs: the keys of a join, the threshold of a top-k.
pub trait DynamicFilter: Send + Sync + 'static {
    /// A counter that grows with each change of the filter.
    fn generation(&self) -> u64;

    /// The predicates as they are now.
    fn predicates(&self) -> Vec<Predicate>;

    /// The columns that its predicates may refer to.
    fn columns(&self) -> Vec<usize>;
}

/// The kind of result that a scan returns.
#[derive(Clone, Debug)]
pub enum Output {
    /// Rows: these columns of the table, as the fields of the schema.
    Rows {
        /// The columns, by number in the table.
        columns: Vec<usize>,
        /// Their names and types.
        schema: SchemaRef,
    },
    /// Groups of rows; the schema has all columns of the table.
    Groups(Aggregate, SchemaRef),
}

/// The parameters of a scan.
#[derive(Clone)]
pub struct Request {
    /// The segments of the table.
    pub segments: Vec<Arc<Segment>>,
    /// Predicates that a row must pass, all of them.
    pub conjuncts: Vec<Predicate>,
    /// A further filter, for what `conjuncts` cannot express.
    pub residual: Option<Arc<dyn Residual>>,
    /// Filters that become narrower while the scan runs; a row is tested against the filter as it stands
    /// then.
    pub live: Vec<Arc<dyn DynamicFilter>>,
    /// The result: rows or groups.
    pub output: Output,
    /// The number of rows that is enough, whichever rows they are.
    pub limit: Option<u64>,
    /// Row groups with the greatest (true) or least values of this column come first.
    pub first: Option<(usize, bool)>,
    /// Whether row groups are returned in that order rather than as their reads complete; for one worker
    /// only. Where [`order_of`](crate::order_of) knows an order, all rows come sorted.
    pub ordered: bool,
    /// Reads in flight, at most.
    pub depth: usize,
    /// The session on which waits for reads are counted, and the event that names them.
    pub waits: Option<(Session, Event)>,
}

/// A part of the answer.
#[derive(Debug)]
pub enum Item {
    /// Rows.
    Rows(RecordBatch),
    /// Groups: what is known of one may come in several parts.
    Groups(Groups),
    /// Groups as columns, where there are many.
    Columns(Columns),
}

/// A running scan. It reads ahead only while a worker asks for results.
pub struct Scan {
    queue: Arc<Queue>,
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scan({:?})", self.queue.stats.totals())
    }
}

impl Scan {
    /// Begins a scan; nothing is read until a worker asks for a result.
    pub fn new(request: Request, cache: Cache, env: SharedEnv, stats: Arc<ScanStats>) -> Scan {
        Scan { queue: Arc::new(Queue::new(request, cache, env, stats)) }
    }

    /// A worker for this scan; any number of them may run in parallel.
    pub fn worker(&self) -> Worker {
        Worker::new(Arc::clone(&self.queue))
    }

    /// Its statistics so far.
    pub fn stats(&self) -> &Arc<ScanStats> {
        &self.queue.stats
    }
}

impl Worker {
    /// The next part of the answer; `None`: there is no more for this worker.
    ///
    /// # Errors
    /// The scan cannot go on; its other workers end too.
    #[boxed]
    pub async fn next(&mut self) -> Option<Result<Item, Error>> {
        self.next_item().await
    }
}
