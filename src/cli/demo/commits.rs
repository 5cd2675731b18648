//! Commits: how many, how long each takes and of what parts; and that none is lost when a disk dies.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use cellar_instance::views;
use cellar_io::{EnvExt, Handle, Instant};
use cellar_sql::Engine;
use cellar_storage::redo::RedoLog;

use super::report::Report;
use super::{Args, ask_done, step};
use crate::cli::database::{Database, Place};
use crate::cli::fault::Fault;
use crate::cli::output;

/// Bytes of a record.
const RECORD: usize = 1024;
/// How long each number of clients commits.
const TIME: Duration = Duration::from_secs(2);
const CLIENTS: [usize; 2] = [1, 10];
/// While a disk dies a client commits this often.
const EVERY: Duration = Duration::from_millis(5);
/// The kind of a record of which the demo knows what is in it.
const KNOWN: u8 = 2;

/// What the demo keeps of commits.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Commits {
    /// Bytes of a block of the log, and why.
    block_size: u32,
    block_size_reason: String,
    /// For each number of clients.
    runs: Vec<Run>,
    /// Commits while the disk died, and the slowest of them in milliseconds.
    pub while_a_disk_died: u64,
    pub slowest_ms: f64,
    /// Of these, not in the log afterwards, or other bytes.
    pub lost: u64,
}

/// Commits of so many clients.
#[derive(Clone, Debug, serde::Serialize)]
struct Run {
    clients: usize,
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
}

/// Makes the log and commits to it.
pub async fn run(
    args: &Args,
    report: &mut Report,
    database: &Database,
    engine: &Engine,
    place: &Place,
) -> Result<Commits, Fault> {
    step(4, "Commits, each durable before it is acknowledged", "")?;
    report.begin("commits");
    // A sixteenth of a disk for each file; the disk that dies later has one of three.
    let size = (super::disk_size(args.scale) / 16).clamp(16 << 20, 256 << 20) >> 20;
    let media = "'+DATA.DATA_0000', '+DATA.DATA_0001', '+DATA.DATA_0002'";
    let statement =
        format!("alter database add logfile ({media}) size {size}M, size {size}M, size {size}M");
    output::text("      > alter database add logfile ('+DATA.DATA_0000', ...) size ...\n")?;
    ask_done(engine, &statement).await?;
    let log = database.inner.storage().redo().log()?;
    let mut commits = Commits::default();
    for clients in CLIENTS {
        let run = measured(&log, database, clients, place).await?;
        output::text(&format!(
            "      {clients:>2} client{} {:>7.0} /s    p50 {:.2} ms    p99 {:.2} ms\n",
            if clients == 1 { " " } else { "s" },
            run.per_second,
            run.p50_ms,
            run.p99_ms
        ))?;
        commits.runs.push(run);
    }
    let redo = database.inner.instance().redo();
    if let Some(group) = views::log(redo).first() {
        (commits.block_size, commits.block_size_reason) =
            (group.block_size, group.block_size_reason.clone());
        output::text(&format!(
            "      Redo block {}: {}\n",
            commits.block_size, commits.block_size_reason
        ))?;
    }
    output::text(&parts(&views::redo_commit(redo)))?;
    report.done();
    Ok(commits)
}

/// The parts of all commits so far, as 100 %.
fn parts(rows: &[views::VRedoCommit]) -> String {
    // What has no share, the last medium, is no part of a commit.
    let share = |row: &views::VRedoCommit| row.percent.map(|percent| (row.part, percent));
    let shown = rows.iter().filter_map(share).filter(|(part, p)| *part != "whole" && *p >= 0.5);
    let (names, percents): (Vec<&str>, Vec<f64>) = shown.unzip();
    let (whole, rest) = whole_percents(&percents);
    let mut text = String::from("      one commit:");
    for (name, percent) in names.iter().zip(whole) {
        text.push_str(&format!(" {name} {percent},"));
    }
    format!("{text} others {rest} = 100 %\n\n")
}

/// Whole numbers for these shares, and for what is left of 100, that are 100 together: each is rounded
/// down, and what is missing goes to those that lost most by it.
fn whole_percents(percents: &[f64]) -> (Vec<u64>, u64) {
    let rest = (100.0 - percents.iter().sum::<f64>()).max(0.0);
    let all: Vec<f64> = percents.iter().copied().chain([rest]).collect();
    let mut whole: Vec<u64> = all.iter().map(|percent| percent.floor() as u64).collect();
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|a, b| all[*b].fract().total_cmp(&all[*a].fract()));
    let missing = 100u64.saturating_sub(whole.iter().sum());
    for place in order.into_iter().cycle().take(usize::try_from(missing).unwrap_or(0)) {
        whole[place] += 1;
    }
    let rest = whole.pop().unwrap_or(0);
    (whole, rest)
}

async fn measured(
    log: &Arc<RedoLog>,
    database: &Database,
    clients: usize,
    place: &Place,
) -> Result<Run, Fault> {
    let began = place.env.now();
    let until = began.plus(TIME);
    let client = |_| {
        let (log, env) = (Arc::clone(log), Arc::clone(&place.env));
        let session = database.inner.instance().sessions().user("demo commits", "demo");
        let record = Bytes::from(vec![7; RECORD]);
        place.env.run("demo commits", async move {
            let mut times = Vec::new();
            while env.now() < until {
                let asked = env.now();
                log.commit(session.waits(), 1, record.clone()).await?;
                times.push(env.now().since(asked));
            }
            Ok::<_, cellar_instance::Error>(times)
        })
    };
    let tasks: Vec<Handle<_>> = (0..clients).map(client).collect();
    let mut times = Vec::new();
    for task in tasks {
        let ended = task.await.ok_or_else(stopped)?;
        times.extend(ended?);
    }
    let seconds = place.env.now().since(began).as_secs_f64();
    times.sort_unstable();
    let ms = |part: f64| {
        let rank = (times.len() as f64 * part).ceil() as usize;
        times.get(rank.saturating_sub(1)).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    Ok(Run { clients, per_second: times.len() as f64 / seconds, p50_ms: ms(0.5), p99_ms: ms(0.99) })
}

fn stopped() -> Fault {
    Fault::failed("CELLAR-00600: the commits stopped by themselves")
}

/// A record that can be told from every other.
fn known(number: u64) -> Bytes {
    let mut record = vec![0; RECORD];
    for (at, word) in record.chunks_exact_mut(8).enumerate() {
        let value = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(at as u32 % 64);
        word.copy_from_slice(&value.to_le_bytes());
    }
    record[..8].copy_from_slice(&number.to_le_bytes());
    Bytes::from(record)
}

/// What was acknowledged, and how long each took.
#[derive(Default)]
struct Acknowledged {
    records: Vec<u64>,
    slowest: Duration,
    error: Option<String>,
}

/// A client that commits while a disk dies.
pub struct Client {
    stop: Arc<AtomicBool>,
    task: Option<Handle<Acknowledged>>,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

impl Client {
    /// Begins to commit, each 5 ms.
    pub fn start(database: &Database, place: &Place) -> Result<Client, Fault> {
        let log = database.inner.storage().redo().log()?;
        // What it commits is to be found in the log afterwards.
        log.keep_records(true);
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, env) = (Arc::clone(&stop), Arc::clone(&place.env));
        let session = database.inner.instance().sessions().user("demo commits", "demo");
        let task = async move {
            let mut known_to_be = Acknowledged::default();
            let mut number = 0;
            while !stopped.load(Ordering::Acquire) {
                let asked: Instant = env.now();
                match log.commit(session.waits(), KNOWN, known(number)).await {
                    Ok(_) => known_to_be.records.push(number),
                    Err(error) => {
                        known_to_be.error = Some(error.to_string());
                        break;
                    }
                }
                known_to_be.slowest = known_to_be.slowest.max(env.now().since(asked));
                number += 1;
                env.sleep(EVERY).await;
            }
            known_to_be
        };
        Ok(Client { stop, task: Some(place.env.run("demo commits", task)) })
    }

    /// Ends the commits, opens the log anew and looks for each that was acknowledged.
    pub async fn stop(mut self, database: &Database, commits: &mut Commits) -> Result<(), Fault> {
        self.stop.store(true, Ordering::Release);
        let ended = match self.task.take() {
            Some(task) => task.await,
            None => None,
        };
        let acknowledged = ended.ok_or_else(stopped)?;
        if let Some(error) = acknowledged.error {
            return Err(Fault::failed(format!("CELLAR-00600: a commit failed: {error}")));
        }
        let found: Arc<Mutex<BTreeMap<u64, Bytes>>> = Arc::default();
        let gathered = Arc::clone(&found);
        let gather = move |kind: u8, record: &Bytes| {
            let number = record.get(..8).and_then(|bytes| bytes.try_into().ok());
            if let Some(number) = number.filter(|_| kind == KNOWN) {
                let mut all = gathered.lock().unwrap_or_else(PoisonError::into_inner);
                all.insert(u64::from_le_bytes(number), record.clone());
            }
        };
        database.inner.storage().redo().reread(&gather).await?;
        let found = found.lock().unwrap_or_else(PoisonError::into_inner);
        let is_lost = |number: &&u64| found.get(number) != Some(&known(**number));
        commits.while_a_disk_died = acknowledged.records.len() as u64;
        commits.slowest_ms = acknowledged.slowest.as_secs_f64() * 1e3;
        commits.lost = acknowledged.records.iter().filter(is_lost).count() as u64;
        Ok(())
    }
}

/// The medium on the dead disk is given up.
pub async fn without_medium(engine: &Engine) -> Result<(), Fault> {
    let statement = "alter database drop logfile member '+DATA.DATA_0002'";
    ask_done(engine, statement).await?;
    output::text(&format!("      > {statement}\n\n"))
}

/// Another one takes its place, on the disk that was added.
pub async fn another_medium(engine: &Engine) -> Result<(), Fault> {
    let statement = "alter database add logfile member '+DATA'";
    ask_done(engine, statement).await?;
    output::text(&format!("      > {statement}\n      the redo log is on three media again\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_rounded_are_a_hundred_together() {
        let sum = |(whole, rest): (Vec<u64>, u64)| whole.iter().sum::<u64>() + rest;
        for percents in [&[33.6, 33.6, 32.8][..], &[99.6], &[50.5, 49.5], &[20.4; 4], &[]] {
            assert_eq!(sum(whole_percents(percents)), 100, "{percents:?}");
        }
        assert_eq!(whole_percents(&[33.6, 33.6, 32.8]), (vec![34, 33, 33], 0));
        assert_eq!(whole_percents(&[97.2, 2.1]), (vec![97, 2], 1));
    }
}
