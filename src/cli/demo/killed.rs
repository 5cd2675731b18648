//! The kill step: several `cellar sql` commit rows through one process, which is killed with SIGKILL;
//! then every acknowledged row is looked for.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cellar_io::{EnvExt, shell};

use super::report::Report;
use super::{commits, step};
use crate::cli::database::{self, Held, Opening, Place, Reached};
use crate::cli::fault::Fault;
use crate::cli::output;

/// Concurrent committing commands; the first has the database open, the others work through it.
const CLIENTS: i64 = 4;
/// How long they commit.
const TIME: Duration = Duration::from_millis(1500);

/// The results that the demo keeps.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Killed {
    clients: i64,
    /// Rows that were acknowledged before the kill.
    acknowledged: u64,
    /// Of these, missing afterwards.
    pub lost: u64,
    /// The time until the database was open again, including recovery.
    reopened_seconds: f64,
}

/// A worker process. It is killed when its handle is dropped.
struct Worker {
    child: Arc<Mutex<Child>>,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Kills these when dropped.
#[derive(Default)]
struct Killer(Vec<Arc<Mutex<Child>>>);

impl Killer {
    fn kill(&mut self) {
        for child in self.0.drain(..) {
            let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Killer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Acknowledged rows of one client.
type Rows = Vec<i64>;

/// Commits in other processes, kills the one that has the database open, opens it again.
pub async fn run(dir: &Path, report: &mut Report, place: &Place) -> Result<(Held, Killed), Fault> {
    step(6, "The working process is killed", "kill -9")?;
    report.begin("killed");
    output::text(&format!(
        "      > insert into ledger values ...    -- {CLIENTS} times cellar sql {}\n",
        shell::path(dir)
    ))?;
    let rows = work(dir, place).await?;
    let acknowledged: usize = rows.iter().map(Vec::len).sum();
    output::text(&format!(
        "      {}  {acknowledged} rows acknowledged; the process that has the database is gone\n",
        report.elapsed()
    ))?;
    let began = place.env.now();
    let held = match database::reach(dir, place, Opening::default()).await? {
        Reached::Here(held) => held,
        Reached::There(_) => {
            return Err(Fault::failed("CELLAR-00600: somebody else has the database of the demo"));
        }
    };
    let reopened_seconds = place.env.now().since(began).as_secs_f64();
    let engine = held.database.engine().await?;
    let mut lost = 0;
    for (client, rows) in (1..).zip(&rows) {
        lost += commits::missing(&engine, client, rows).await?;
    }
    report.done();
    output::text(&format!(
        "      {}  open again after {reopened_seconds:.1} s; of {acknowledged} rows {} are there, {lost} \
         lost\n\n",
        report.elapsed(),
        acknowledged as u64 - lost,
    ))?;
    if lost > 0 || acknowledged == 0 {
        let text = format!("CELLAR-00600: of {acknowledged} acknowledged rows {lost} are lost");
        return Err(Fault::failed(text));
    }
    let acknowledged = acknowledged as u64;
    Ok((held, Killed { clients: CLIENTS, acknowledged, lost, reopened_seconds }))
}

/// Lets them commit for a while and kills the one that has the database open; returns the rows of each.
async fn work(dir: &Path, place: &Place) -> Result<Vec<Rows>, Fault> {
    let mut killer = Killer::default();
    let enough = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for client in 1..=CLIENTS {
        let mut worker = worker(dir)?;
        killer.0.push(Arc::clone(&worker.child));
        // The first has the database open once it has answered.
        let first = tokio::task::spawn_blocking(move || {
            let is_there = worker.insert(client, 0);
            (worker, is_there)
        });
        let (mut worker, is_there) = first.await.map_err(gone)?;
        if !is_there {
            return Err(Fault::failed("CELLAR-00600: cellar sql gave no answer in the demo"));
        }
        let enough = Arc::clone(&enough);
        tasks.push(tokio::task::spawn_blocking(move || {
            let mut rows = vec![0];
            while !enough.load(Ordering::Acquire) {
                let next = rows.len() as i64;
                if !worker.insert(client, next) {
                    break;
                }
                rows.push(next);
            }
            rows
        }));
    }
    place.env.sleep(TIME).await;
    // While all of them work: acknowledgements until then count.
    killer.kill();
    enough.store(true, Ordering::Release);
    let mut all = Vec::new();
    for task in tasks {
        all.push(task.await.map_err(gone)?);
    }
    Ok(all)
}

fn gone(error: tokio::task::JoinError) -> Fault {
    Fault::failed(format!("CELLAR-00600: {error}"))
}

fn worker(dir: &Path) -> Result<Worker, Fault> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("sql").arg(dir).args(["--format", "csv"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Fault::failed("CELLAR-00600: a process without its pipes"));
    };
    let child = Arc::new(Mutex::new(child));
    Ok(Worker { child, input, output: BufReader::new(output) })
}

impl Worker {
    /// Inserts a row; whether it was acknowledged.
    fn insert(&mut self, client: i64, number: i64) -> bool {
        let row = format!("insert into ledger values ({client}, {number}) returning number;\n");
        if self.input.write_all(row.as_bytes()).and_then(|()| self.input.flush()).is_err() {
            return false;
        }
        let mut line = String::new();
        loop {
            line.clear();
            // The column header comes before its value.
            match self.output.read_line(&mut line) {
                Ok(0) | Err(_) => return false,
                Ok(_) if line.trim().parse() == Ok(number) && line.ends_with('\n') => return true,
                Ok(_) => {}
            }
        }
    }
}
