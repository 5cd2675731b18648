//! Execution of a query by a cell with offload or without, and its result.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cellar_cell::{Cache, Scan, ScanStats, Segment, Totals};
use cellar_io::{EnvExt, SharedEnv};
use cellar_wait::{Event, Kind, Waits};

use super::consume::{Answer, Consumer};
use super::question::{Question, Scanned};
use crate::control::go_on;
use crate::error::LabError;

/// The cell that runs it.
#[derive(Clone)]
pub(crate) struct Cell {
    pub(crate) env: SharedEnv,
    pub(crate) segment: Arc<Segment>,
    pub(crate) cache: Cache,
    /// Reads in flight, at most.
    pub(crate) depth: usize,
    /// Tasks that take results concurrently.
    pub(crate) workers: usize,
    pub(crate) stop: Arc<AtomicBool>,
}

/// The result.
pub(crate) struct QueryRun {
    /// From the query to the whole answer.
    pub(crate) nanos: u64,
    pub(crate) totals: Totals,
    /// The number of waits of workers for reads, and their total time.
    pub(crate) waits: u64,
    pub(crate) wait_nanos: u64,
    pub(crate) answer: Answer,
}

impl Cell {
    /// With offload, the cell filters and sums. Without, it returns all rows of the columns that the
    /// query names, and the consumer filters and sums.
    pub(crate) async fn ask(
        &self,
        question: &Arc<Question>,
        offload: bool,
    ) -> Result<QueryRun, LabError> {
        let waits = Waits::new();
        let session = waits.session("lab", Kind::User);
        let scanned = Scanned { segment: &self.segment, depth: self.depth, session };
        let (best, stats) = (question.best(), Arc::<ScanStats>::default());
        let start = self.env.now();
        let request = match offload {
            true => question.offloaded(&scanned, &best),
            false => question.plain(&scanned),
        };
        let (cache, env) = (self.cache.clone(), Arc::clone(&self.env));
        let scan = Scan::new(request, cache, env, Arc::clone(&stats));
        // In tasks, so that on a real machine all processors work on it.
        let tasks: Vec<_> = (0..self.workers)
            .map(|_| {
                let (mut worker, stop) = (scan.worker(), Arc::clone(&self.stop));
                let mut consumer = Consumer::new(Arc::clone(question), Arc::clone(&best), offload);
                self.env.run("lab scan", async move {
                    while let Some(item) = worker.next().await {
                        go_on(&stop)?;
                        consumer.take(item?)?;
                    }
                    Ok::<_, LabError>(consumer)
                })
            })
            .collect();
        let mut consumers = Vec::new();
        for task in tasks {
            consumers.push(task.await.ok_or(LabError::Stopped)??);
        }
        let answer = Consumer::finish(consumers);
        let nanos = self.env.now().since(start).as_nanos() as u64;
        let seen = waits.totals();
        let seen = seen.iter().find(|total| total.event == Event::CELL_SMART_TABLE_SCAN);
        let (waits, wait_nanos) = seen.map_or((0, 0), |total| (total.count, total.nanos));
        Ok(QueryRun { nanos, totals: stats.totals(), waits, wait_nanos, answer })
    }
}
