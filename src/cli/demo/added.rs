//! The step that adds a disk: the planned and actual moves, and their effect on the queries.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cellar_io::{EnvExt, Instant};
use cellar_sql::Engine;
use cellar_sql::reference::Answers;
use cellar_storage::Mounted;
use cellar_storage::request::{ChangeRequest, DiskRequest, Rebalance};
use cellar_storage::size::show_bytes;

use super::load_run::{Queries, Query, Tally};
use super::report::Report;
use super::{Args, disk_size, step};
use crate::cli::database::{Database, Place};
use crate::cli::fault::Fault;
use crate::cli::output;
use crate::cli::progress::Progress;
use crate::cli::status;

/// The power of the rebalance: it yields to the queries.
const POWER: u32 = 4;
/// How long queries run alone first, for comparison.
const ALONE: Duration = Duration::from_secs(3);
/// Longer than any rebalance of a demo.
const LIMIT: Duration = Duration::from_secs(600);

/// The results that the demo keeps.
#[derive(serde::Serialize)]
pub struct Moved {
    /// AUs that the plan moves.
    plan_au: u64,
    /// The fewest that any plan must move.
    least_au: u64,
    /// The time from the statement to the end.
    seconds: f64,
    /// Median time of Q6, alone and during the rebalance, in milliseconds.
    q6_alone_ms: f64,
    q6_meanwhile_ms: f64,
}

/// Adds a disk, while queries run.
pub async fn run(
    args: &Args,
    report: &mut Report,
    database: &Database,
    engine: &Arc<Engine>,
    answers: &Answers,
    place: &Place,
) -> Result<(Tally, Moved), Fault> {
    let mounted = database.inner.group("DATA")?;
    let path = args.dir.join("disks/disk5");
    step(7, "A disk is added", "alter diskgroup data add disk ...")?;
    report.begin("disk added");
    let request = request(path, disk_size(args.scale));
    let work = database.inner.storage().groups().explain_work("DATA", &request)?.work;
    let (plan_au, least_au) = (work.plan.moves.len() as u64, work.plan.minimum);
    let queries = Queries::start(engine, answers, place);
    place.env.sleep(ALONE).await;
    let began = place.env.now();
    database.inner.storage().groups().alter_disks("DATA", &request, &|_, _| {}).await?;
    output::text(&format!(
        "      plan    {plan_au} AU ({}){}, at power {POWER}\n",
        show_bytes(plan_au * work.au_size),
        if plan_au == least_au { ", the least possible" } else { "" },
    ))?;
    let ended = wait(&mounted, plan_au, place).await?;
    let tally = queries.stop().await?;
    let seconds = ended.since(began).as_secs_f64();
    report.done();
    let (alone, meanwhile) = felt(&tally.queries, began, ended);
    output::text(&format!(
        "      moved   {plan_au} AU in {seconds:.1} s\n      \
         queries {} alone, {} meanwhile (Q6, median); {} failed, {} wrong\n",
        shown(alone),
        shown(meanwhile),
        tally.failed,
        tally.wrong,
    ))?;
    output::text(&status::lines(&database.inner.health_of(&mounted)))?;
    output::text("\n")?;
    let ms = |took: Option<Duration>| took.map_or(f64::NAN, |t| t.as_secs_f64() * 1e3);
    let (q6_alone_ms, q6_meanwhile_ms) = (ms(alone), ms(meanwhile));
    Ok((tally, Moved { plan_au, least_au, seconds, q6_alone_ms, q6_meanwhile_ms }))
}

fn request(path: PathBuf, size: u64) -> ChangeRequest {
    let disk = DiskRequest {
        path: path.to_string_lossy().into_owned(),
        name: None,
        failgroup: None,
        size: Some(size),
        force: false,
        erase: None,
    };
    ChangeRequest { add: vec![disk], rebalance: Rebalance::at(Some(POWER)), ..Default::default() }
}

/// Waits until nothing is left to move; returns that time.
async fn wait(mounted: &Mounted, plan: u64, place: &Place) -> Result<Instant, Fault> {
    let bar = Progress::new("moved", plan, false);
    let deadline = place.env.now().plus(LIMIT);
    loop {
        let now = place.env.now();
        match mounted.group.operation() {
            None => {
                bar.finish();
                return Ok(now);
            }
            Some(operation) => match operation.error {
                Some(error) => return Err(Fault::failed(format!("CELLAR-00600: {error}"))),
                None => bar.set(operation.done),
            },
        }
        if now > deadline {
            return Err(Fault::failed("CELLAR-00600: the rebalance does not come to its end"));
        }
        place.env.sleep(Duration::from_millis(20)).await;
    }
}

/// Median times of Q6 before `began`, and between `began` and `ended`.
fn felt(queries: &[Query], began: Instant, ended: Instant) -> (Option<Duration>, Option<Duration>) {
    let q6 = || queries.iter().filter(|query| query.is_q6);
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times.get(times.len() / 2).copied()
    };
    let alone = q6().filter(|query| query.start.plus(query.took) <= began);
    let beside = q6().filter(|query| query.start >= began && query.start < ended);
    (median(alone.map(|q| q.took).collect()), median(beside.map(|q| q.took).collect()))
}

fn shown(took: Option<Duration>) -> String {
    took.map_or("none ran".to_owned(), |took| format!("{} ms", took.as_millis()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_told_apart_by_when_they_ran() {
        let query = |start, took, is_q6| {
            let ms = |n: u64| n * 1_000_000;
            Query { start: Instant(ms(start)), took: Duration::from_millis(took), is_q6 }
        };
        let all =
            [query(0, 10, true), query(10, 90, false), query(95, 10, true), query(105, 30, true)];
        let (alone, meanwhile) = felt(&all, Instant(100_000_000), Instant(200_000_000));
        assert_eq!(alone, Some(Duration::from_millis(10)));
        assert_eq!(meanwhile, Some(Duration::from_millis(30)));
        assert_eq!(felt(&all[..1], Instant(1), Instant(2)), (None, None));
        assert_eq!((shown(alone).as_str(), shown(None).as_str()), ("10 ms", "none ran"));
    }
}
