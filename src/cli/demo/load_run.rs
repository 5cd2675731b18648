//! Queries run in sequence while a disk dies, each answer compared.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use cellar_io::{EnvExt, Handle, Instant};
use cellar_sql::Engine;
use cellar_sql::reference::{self, Answers};
use cellar_storage::Mounted;

use super::ask;
use crate::cli::database::Place;
use crate::cli::fault::Fault;

/// The outcome of the queries.
#[derive(Debug, Default)]
pub struct Tally {
    /// Queries that ended.
    pub run: u64,
    /// Of these, failed.
    pub failed: u64,
    /// Of these, answered wrong.
    pub wrong: u64,
    /// The longest time.
    pub slowest: Duration,
    /// Each of them.
    pub queries: Vec<Query>,
    /// The message of the first failure.
    pub first_error: Option<String>,
}

/// One query.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// The time of its start.
    pub start: Instant,
    /// The time until its answer.
    pub took: Duration,
    /// Q6; else Q1.
    pub is_q6: bool,
}

/// The pause after a failed query.
const PAUSE: Duration = Duration::from_millis(50);

/// Running queries.
pub struct Queries {
    /// When they began.
    pub began: Instant,
    stop: Arc<AtomicBool>,
    task: Option<Handle<Tally>>,
}

impl Drop for Queries {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

impl Queries {
    /// Starts running Q6 and Q1 in turn.
    pub fn start(engine: &Arc<Engine>, answers: &Answers, place: &Place) -> Queries {
        let stop = Arc::new(AtomicBool::new(false));
        let (engine, answers, env) = (Arc::clone(engine), answers.clone(), Arc::clone(&place.env));
        let stopped = Arc::clone(&stop);
        let task = async move {
            let mut tally = Tally::default();
            while !stopped.load(Ordering::Acquire) {
                let is_q6 = tally.run % 2 == 0;
                let (sql, answer) =
                    if is_q6 { (reference::Q6, &answers.q6) } else { (reference::Q1, &answers.q1) };
                let start = env.now();
                let result = ask(&engine, sql).await;
                let took = env.now().since(start);
                tally.slowest = tally.slowest.max(took);
                tally.queries.push(Query { start, took, is_q6 });
                tally.run += 1;
                let error = match result {
                    Err(fault) => {
                        tally.failed += 1;
                        Some(fault.to_string())
                    }
                    Ok(batches) => reference::compare(&batches, answer).err().map(|difference| {
                        tally.wrong += 1;
                        difference.to_string()
                    }),
                };
                if error.is_some() {
                    // A query that fails at once must not starve others.
                    env.sleep(PAUSE).await;
                }
                tally.first_error = tally.first_error.take().or(error);
            }
            tally
        };
        let began = place.env.now();
        Queries { began, stop, task: Some(place.env.run("demo queries", task)) }
    }

    /// Lets the running query end, and returns the counts.
    ///
    /// # Errors
    /// The task is gone.
    pub async fn stop(mut self) -> Result<Tally, Fault> {
        self.stop.store(true, Ordering::Release);
        let tally = match self.task.take() {
            Some(task) => task.await,
            None => None,
        };
        tally.ok_or_else(|| Fault::failed("CELLAR-00600: the queries stopped by themselves"))
    }
}

/// Waits until a disk has left in a committed epoch; returns its name and the time.
///
/// # Errors
/// None left within 30 s.
pub async fn wait_offline(mounted: &Mounted, place: &Place) -> Result<(String, Instant), Fault> {
    let deadline = place.env.now().plus(Duration::from_secs(30));
    loop {
        let now = place.env.now();
        if mounted.group.info().offline_disks > 0 {
            let gone = mounted.group.disks().into_iter().find(|d| !d.in_sync);
            return Ok((gone.map_or("a disk".to_owned(), |d| d.name), now));
        }
        if now > deadline {
            return Err(Fault::failed("CELLAR-00600: the missing disk was not noticed in 30 s"));
        }
        place.env.sleep(Duration::from_millis(10)).await;
    }
}

/// The first three columns of a result's rows, for people; at most four rows.
pub fn first_columns(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default();
    let mut lines = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayFormatter<'_>> = batch
            .columns()
            .iter()
            .take(3)
            .filter_map(|c| ArrayFormatter::try_new(c, &options).ok())
            .collect();
        for row in 0..batch.num_rows().min(4 - lines.len().min(4)) {
            let cells: Vec<String> = columns.iter().map(|c| c.value(row).to_string()).collect();
            lines.push(cells.join(" "));
        }
    }
    lines
}
