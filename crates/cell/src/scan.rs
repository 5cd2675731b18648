//! The scan interface: the request that a scan is given, and the items of its answer.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use async_recursion::async_recursion;
use cellar_format::aggregate::columns::Columns;
use cellar_format::aggregate::{Aggregate, Groups};
use cellar_format::predicate::Predicate;
use cellar_io::SharedEnv;
use cellar_wait::{Event, Session};

use crate::cache::Cache;
use crate::error::Error;
use crate::queue::Queue;
use crate::segment::Segment;
use crate::stats::ScanStats;
use crate::work::Worker;

/// A filter that is evaluated elsewhere, on decoded columns.
pub trait Residual: Send + Sync + 'static {
    /// The columns of the table that it needs, and the types that they are to have.
    fn columns(&self) -> &[(usize, DataType)];

    /// Which of `rows` rows pass: true, not false and not null.
    ///
    /// # Errors
    /// What cannot be computed: whoever asked gets it back.
    fn keep(
        &self,
        columns: Vec<ArrayRef>,
        rows: usize,
    ) -> Result<BooleanArray, Box<dyn std::error::Error + Send + Sync>>;
}

/// A filter that becomes narrower while the scan runs: the keys of a join, the threshold of a top-k.
pub trait Live: Send + Sync + 'static {
    /// Counts its changes.
    fn generation(&self) -> u64;

    /// What it asks now.
    fn predicates(&self) -> Vec<Predicate>;

    /// The columns that it may ask.
    fn columns(&self) -> Vec<usize>;
}

/// What is to be returned.
#[derive(Clone, Debug)]
pub enum Output {
    /// Rows: these columns of the table, as the fields of the schema.
    Rows {
        /// Which columns.
        columns: Vec<usize>,
        /// Their names and types.
        schema: SchemaRef,
    },
    /// Groups of rows; the schema has all columns of the table.
    Groups(Aggregate, SchemaRef),
}

/// A scan.
#[derive(Clone)]
pub struct Request {
    /// The segments of the table.
    pub segments: Vec<Arc<Segment>>,
    /// What rows must pass, all of it.
    pub conjuncts: Vec<Predicate>,
    /// What they must pass besides.
    pub residual: Option<Arc<dyn Residual>>,
    /// What they must pass as far as is known by then.
    pub live: Vec<Arc<dyn Live>>,
    /// What is returned of them.
    pub output: Output,
    /// Rows that will do, whichever they are.
    pub limit: Option<u64>,
    /// Row groups with the greatest (true) or least values of this column come first.
    pub first: Option<(usize, bool)>,
    /// They are given out in that order, not as they are read: for one worker. Where
    /// [`order_of`](crate::order_of) knows one, all rows come in it.
    pub ordered: bool,
    /// Reads in flight, at most.
    pub depth: usize,
    /// Whose time it is that workers wait for reads, and under which name.
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

/// A scan that runs. It reads ahead only while somebody asks it for results.
pub struct Scan {
    queue: Arc<Queue>,
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Scan({:?})", self.queue.stats.totals())
    }
}

impl Scan {
    /// Begins a scan; nothing is read before a worker asks.
    pub fn new(request: Request, cache: Cache, env: SharedEnv, stats: Arc<ScanStats>) -> Scan {
        Scan { queue: Arc::new(Queue::new(request, cache, env, stats)) }
    }

    /// Somebody who works on it: any number may, beside each other.
    pub fn worker(&self) -> Worker {
        Worker::new(Arc::clone(&self.queue))
    }

    /// What it did so far.
    pub fn stats(&self) -> &Arc<ScanStats> {
        &self.queue.stats
    }
}

impl Worker {
    /// The next part of the answer; `None`: there is no more for this worker.
    ///
    /// # Errors
    /// The scan cannot go on; its other workers end too.
    #[async_recursion]
    pub async fn next(&mut self) -> Option<Result<Item, Error>> {
        self.next_item().await
    }
}
