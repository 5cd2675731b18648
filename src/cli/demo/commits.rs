//! Commits by SQL: their number, latency and its parts; and a check that none is lost when a disk dies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use cellar_instance::views;
use cellar_io::{EnvExt, Handle, Instant};
use cellar_sql::{Engine, Parameter};
use cellar_wait::WaitClass;

use super::report::Report;
use super::{Args, ask, ask_done, step};
use crate::cli::database::{Database, Place};
use crate::cli::fault::Fault;
use crate::cli::output;

/// Updated rows, of about 1 KB each.
const ROWS: u64 = 2000;
/// The time for each number of clients.
const TIME: Duration = Duration::from_secs(2);
const CLIENTS: [usize; 2] = [1, 10];
/// The interval of a client's commits while a disk dies.
const EVERY: Duration = Duration::from_millis(5);
/// The number of the client that inserts rows while a disk dies; others count from 1.
const WHILE_A_DISK_DIED: i64 = 0;

const UPDATE: &str = "update account set balance = balance + 1 where id = $1";

/// The results of commits that the demo keeps.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct Commits {
    /// The log's block size in bytes, and the reason.
    block_size: u32,
    block_size_reason: String,
    /// For each number of clients.
    runs: Vec<Run>,
    /// Commits while the disk died, and the slowest of them in milliseconds.
    pub while_a_disk_died: u64,
    pub slowest_ms: f64,
    /// Of these, missing afterwards.
    pub lost: u64,
    #[serde(skip)]
    acknowledged: Vec<i64>,
}

/// The commits of this many clients.
#[derive(Clone, Debug, serde::Serialize)]
struct Run {
    clients: usize,
    commits: u64,
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// What the clients waited for, in percent of their time; the rest is CPU.
    waits: Vec<Waited>,
}

#[derive(Clone, Debug, serde::Serialize)]
struct Waited {
    event: &'static str,
    percent: f64,
}

/// Creates the log and tables, and commits to them.
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
    make_tables(engine).await?;
    output::text("      > update account set balance = balance + 1 where id = $1\n")?;
    let mut commits = Commits::default();
    for clients in CLIENTS {
        let run = measured(database, clients, place).await?;
        output::text(&format!(
            "      {clients:>2} client{} {:>7.0} /s    p50 {:.2} ms    p99 {:.2} ms\n{}",
            if clients == 1 { " " } else { "s" },
            run.per_second,
            run.p50_ms,
            run.p99_ms,
            waited(&run.waits),
        ))?;
        commits.runs.push(run);
    }
    check_balance(engine, &commits).await?;
    let redo = database.inner.instance().redo();
    if let Some(group) = views::log(redo).first() {
        (commits.block_size, commits.block_size_reason) =
            (group.block_size, group.block_size_reason.clone());
        output::text(&format!(
            "      Redo block {}: {}\n",
            commits.block_size, commits.block_size_reason
        ))?;
    }
    output::text("\n")?;
    report.done();
    Ok(commits)
}

async fn make_tables(engine: &Engine) -> Result<(), Fault> {
    let rows = format!(
        "insert into account select i, 0, repeat('x', 1000) from generate_series(1, {ROWS}) as s(i)"
    );
    for statement in [
        "create table account (id bigint primary key, balance bigint not null, note text)",
        &rows,
        "create table ledger (client bigint, number bigint, primary key (client, number))",
    ] {
        ask_done(engine, statement).await?;
    }
    Ok(())
}

/// The waits as parts of the total commit time, in a line that adds up to 100 %.
fn waited(waits: &[Waited]) -> String {
    let shown = waits.iter().filter(|waited| waited.percent >= 0.5).take(3);
    let (names, percents): (Vec<&str>, Vec<f64>) =
        shown.map(|waited| (waited.event, waited.percent)).unzip();
    let (whole, rest) = whole_percents(&percents);
    let mut text = String::from("         one commit:");
    for (name, percent) in names.iter().zip(whole) {
        text.push_str(&format!(" {name} {percent},"));
    }
    format!("{text} CPU and others {rest} = 100 %\n")
}

/// Checks that each update added one.
async fn check_balance(engine: &Engine, commits: &Commits) -> Result<(), Fault> {
    let sum = "select cast(sum(balance) as bigint) as n from account";
    let found = numbers(engine, sum).await?.pop();
    let made: u64 = commits.runs.iter().map(|run| run.commits).sum();
    match found.is_some_and(|found| u64::try_from(found) == Ok(made)) {
        true => Ok(()),
        false => Err(Fault::failed(format!(
            "CELLAR-00600: {made} updates of one each were acknowledged, and the sum is {found:?}"
        ))),
    }
}

/// The integers in a query's first column.
async fn numbers(engine: &Engine, query: &str) -> Result<Vec<i64>, Fault> {
    let mut all = Vec::new();
    for batch in ask(engine, query).await? {
        if let Some(column) =
            batch.columns().first().and_then(|c| c.as_primitive_opt::<Int64Type>())
        {
            all.extend(column.iter().flatten());
        }
    }
    Ok(all)
}

/// Integers for these shares, and for the remainder, that add up to 100: each is rounded
/// down, and the missing units go to those that lost most by rounding.
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

/// A new session, and its number.
async fn session(database: &Database) -> Result<(Engine, u32), Fault> {
    let session = database.inner.instance().sessions().user("demo commits", "demo");
    let sid = session.sid();
    let own = Database { inner: Arc::clone(&database.inner), session };
    Ok((own.engine().await?, sid))
}

async fn measured(database: &Database, clients: usize, place: &Place) -> Result<Run, Fault> {
    let mut sessions = Vec::new();
    for _ in 0..clients {
        let (engine, sid) = session(database).await?;
        let update = engine.prepare_statement(UPDATE, &[]).await?;
        sessions.push((Arc::new(engine), update, sid));
    }
    let sids: BTreeSet<u32> = sessions.iter().map(|session| session.2).collect();
    let began = place.env.now();
    let until = began.plus(TIME);
    let client = |(engine, update, seed): (Arc<Engine>, _, u32)| {
        let env = Arc::clone(&place.env);
        place.env.run("demo commits", async move {
            let mut times = Vec::new();
            let mut random = u64::from(seed);
            while env.now() < until {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let id = i64::try_from((random >> 33) % ROWS + 1).unwrap_or(1);
                let asked = env.now();
                engine.execute_prepared(&update, &[Parameter::Integer(id)]).await?;
                times.push(env.now().since(asked));
            }
            // Keeps the session until its waits are read.
            Ok::<_, cellar_sql::Error>((times, engine))
        })
    };
    let tasks: Vec<Handle<_>> = sessions.into_iter().map(client).collect();
    let (mut times, mut engines) = (Vec::new(), Vec::new());
    for task in tasks {
        let (of_one, engine) = task.await.ok_or_else(stopped)??;
        times.extend(of_one);
        engines.push(engine);
    }
    let seconds = place.env.now().since(began).as_secs_f64();
    let waits = waits_of(database, &sids, times.iter().sum());
    drop(engines);
    times.sort_unstable();
    let ms = |part: f64| {
        let rank = (times.len() as f64 * part).ceil() as usize;
        times.get(rank.saturating_sub(1)).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    let per_second = times.len() as f64 / seconds;
    let (p50_ms, p99_ms) = (ms(0.5), ms(0.99));
    Ok(Run { clients, commits: times.len() as u64, per_second, p50_ms, p99_ms, waits })
}

/// The waits of these sessions, the longest first, in percent of `whole`.
fn waits_of(database: &Database, sids: &BTreeSet<u32>, whole: Duration) -> Vec<Waited> {
    let mut nanos: BTreeMap<&'static str, u64> = BTreeMap::new();
    let totals = database.inner.waits().session_totals().into_iter();
    let own = totals.filter(|total| sids.contains(&total.sid));
    for total in own.filter(|total| total.event.class() != WaitClass::Idle) {
        *nanos.entry(total.event.name()).or_default() += total.nanos;
    }
    let percent = |nanos: u64| nanos as f64 / (whole.as_nanos() as f64).max(1.0) * 100.0;
    let waited = |(event, nanos)| Waited { event, percent: percent(nanos) };
    let mut waits: Vec<Waited> = nanos.into_iter().map(waited).collect();
    waits.sort_by(|a, b| b.percent.total_cmp(&a.percent));
    waits
}

fn stopped() -> Fault {
    Fault::failed("CELLAR-00600: the commits stopped by themselves")
}

/// Acknowledged commits, and how long each took.
#[derive(Default)]
struct Acknowledged {
    rows: Vec<i64>,
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
    /// Starts inserting a row and committing it, every 5 ms.
    pub async fn start(database: &Database, place: &Place) -> Result<Client, Fault> {
        let (engine, _) = session(database).await?;
        let insert = "insert into ledger (client, number) values ($1, $2)";
        let insert = engine.prepare_statement(insert, &[]).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, env) = (Arc::clone(&stop), Arc::clone(&place.env));
        let task = async move {
            let mut known_to_be = Acknowledged::default();
            let mut number = 0;
            while !stopped.load(Ordering::Acquire) {
                let asked: Instant = env.now();
                let row = [WHILE_A_DISK_DIED, number].map(Parameter::Integer);
                match engine.execute_prepared(&insert, &row).await {
                    Ok(_) => known_to_be.rows.push(number),
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

    /// Ends the commits and looks for each acknowledged row.
    pub async fn stop(mut self, engine: &Engine, commits: &mut Commits) -> Result<(), Fault> {
        self.stop.store(true, Ordering::Release);
        let ended = match self.task.take() {
            Some(task) => task.await,
            None => None,
        };
        let acknowledged = ended.ok_or_else(stopped)?;
        if let Some(error) = acknowledged.error {
            return Err(Fault::failed(format!("CELLAR-00600: a commit failed: {error}")));
        }
        commits.while_a_disk_died = acknowledged.rows.len() as u64;
        commits.slowest_ms = acknowledged.slowest.as_secs_f64() * 1e3;
        commits.acknowledged = acknowledged.rows;
        look_again(engine, commits).await
    }
}

/// Looks again for each row acknowledged while the disk died.
pub async fn look_again(engine: &Engine, commits: &mut Commits) -> Result<(), Fault> {
    commits.lost = missing(engine, WHILE_A_DISK_DIED, &commits.acknowledged).await?;
    match commits.lost {
        0 => Ok(()),
        lost => Err(Fault::failed(format!("CELLAR-00600: {lost} commits are lost"))),
    }
}

/// The number of these rows of a client that are missing.
pub async fn missing(engine: &Engine, client: i64, rows: &[i64]) -> Result<u64, Fault> {
    let query = format!("select number from ledger where client = {client}");
    let found: BTreeSet<i64> = numbers(engine, &query).await?.into_iter().collect();
    Ok(rows.iter().filter(|number| !found.contains(number)).count() as u64)
}

/// Drops the medium on the dead disk.
pub async fn without_medium(engine: &Engine) -> Result<(), Fault> {
    let statement = "alter database drop logfile member '+DATA.DATA_0002'";
    ask_done(engine, statement).await?;
    output::text(&format!("      > {statement}\n\n"))
}

/// Adds another one, on the added disk.
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

    #[test]
    fn what_was_waited_for_is_a_hundred_percent() {
        let waited_for = |event, percent| Waited { event, percent };
        let waits = [waited_for("log file sync", 90.4), waited_for("buffer busy waits", 0.4)];
        assert!(waited(&waits).ends_with(": log file sync 90, CPU and others 10 = 100 %\n"));
        assert!(waited(&[]).ends_with("CPU and others 100 = 100 %\n"));
    }
}
