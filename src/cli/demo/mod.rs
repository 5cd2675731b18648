//! `cellar demo`: the main job on a fresh machine. Every figure is measured while it runs; a part
//! that is not built yet is left out.

mod added;
mod commits;
mod healed;
mod killed;
mod load_run;
mod report;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cellar_diskgroup::{Copies, Redundancy};
use cellar_instance::health::checked::{self, Bad, Extent};
use cellar_io::{EnvExt, shell};
use cellar_sql::reference::{self, Answer, Answers};
use cellar_sql::tpch::TpchTable;
use cellar_sql::{Engine, Outcome};
use cellar_storage::size::{show_bytes, show_count, show_room};
use futures_util::TryStreamExt;
use report::Report;

use super::database::{Database, Held, Place, cores};
use super::fault::Fault;
use super::init;
use super::load::{self, Source};
use super::output;
use super::signals::End;
use super::status;

/// Arguments of `demo`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  cellar demo                       about a minute, 5 GB in ./cellar-demo
  cellar demo --dir /mnt/x --scale 0.1
Undo it with: rm -r cellar-demo")]
pub struct Args {
    /// The directory to make.
    #[arg(long, default_value = "cellar-demo")]
    pub dir: PathBuf,
    /// TPC-H's scale: 1 is 8.7 million rows.
    #[arg(long, default_value_t = 1.0, value_name = "SF")]
    pub scale: f64,
}

const STEPS: usize = 8;
/// How long queries run around the death of the disk.
const LOAD_FOR: Duration = Duration::from_secs(8);
/// How long after the start of the load the disk dies.
const DEATH_AT: Duration = Duration::from_secs(2);
/// The time allowed for the database to close after the user stopped the demo.
const CLOSE_FOR: Duration = Duration::from_secs(5);
/// The disk that dies.
const VICTIM: &str = "disk3";

/// Runs `demo`.
///
/// # Errors
/// Too little space, before anything is created; a step that fails or finds something wrong.
pub async fn run(args: Args, place: &Place) -> Result<(), Fault> {
    if !(args.scale > 0.0 && args.scale <= 100.0) {
        let text = format!("--scale {}: allowed is more than 0, up to 100", args.scale);
        return Err(Fault::usage(text));
    }
    let disk_size = disk_size(args.scale);
    let init = init::Args {
        dir: args.dir.clone(),
        disks: "4".into(),
        failgroup: vec![],
        erase: vec![],
        name: "DATA".into(),
        disk_size,
        redundancy: Redundancy::Normal,
        au_size: 4 << 20,
        sector_size: None,
        // It is created on chosen media, in a separate step.
        redo_size: init::RedoSize::None,
        import: vec![],
        force: None,
        format: output::Format::Table,
    };
    let mut report = Report::new(&args, place);
    heading(&args, disk_size)?;
    let mut held = Some(make_group(&mut report, &init, place).await?);
    let mut end = End::heard();
    let result = tokio::select! {
        result = on_group(&args, &mut report, &mut held, place) => result,
        () = end.next() => Err(stopped(&args.dir)),
    };
    let close = async {
        match held {
            Some(held) => held.close().await,
            // It was stopped while another process had the database open.
            None => Ok(()),
        }
    };
    let closed = tokio::select! {
        closed = close => closed,
        // Remaining work does not keep the user waiting: the next opening does crash recovery.
        () = closing_ends(result.is_err(), &mut end, place) => Err(stopped(&args.dir)),
    };
    let (found, ()) = (result?, closed?);
    report.end(found)?;
    farewell(&args)
}

/// The user stopped it.
fn stopped(dir: &Path) -> Fault {
    Fault::failed(format!(
        "CELLAR-01013: stopped by the user; what was made is in {}\nNext: remove it: rm -r {}",
        dir.display(),
        shell::path(dir)
    ))
}

/// Waits until the time for closing the database is over, or the user stops it again.
async fn closing_ends(hurry: bool, end: &mut End, place: &Place) {
    let limit = if hurry { CLOSE_FOR } else { Duration::MAX };
    tokio::select! {
        () = place.env.sleep(limit) => {}
        () = end.next() => {}
    }
}

/// 1 GB a disk at scale 1: data on two disks, and space to mirror lost data again.
fn disk_size(scale: f64) -> u64 {
    let wanted = (scale * f64::from(1 << 30)) as u64;
    wanted.clamp(256 << 20, 1 << 40).next_multiple_of(64 << 20)
}

fn heading(args: &Args, disk_size: u64) -> Result<(), Fault> {
    output::text(&format!(
        "{}\n{}\
         Note     The 4 disks are files on one device. Losing one is real; being\n         \
         faster than one is not.\n\n",
        output::fold(&format!(
            "Cellar {} demo: about 1 minute, {} in {} (rm -r undoes it)",
            env!("CARGO_PKG_VERSION"),
            show_bytes(5 * disk_size),
            args.dir.display()
        )),
        report::machine(&args.dir),
    ))
}

fn step(number: usize, what: &str, command: &str) -> Result<(), Fault> {
    let line = format!("[{number}/{STEPS}] {what:<32}{command}");
    match line.chars().count() > 80 {
        true => output::text(&format!("[{number}/{STEPS}] {what}\n      {command}\n")),
        false => output::text(&format!("{line}\n")),
    }
}

async fn make_group(report: &mut Report, init: &init::Args, place: &Place) -> Result<Held, Fault> {
    let dir = shell::path(&init.dir);
    step(
        1,
        "A mirrored disk group",
        &format!("cellar init {dir} --disk-size {}", cellar_storage::size::exact(init.disk_size)),
    )?;
    report.begin("init");
    let held = init::make(init, place).await?;
    let seconds = report.done();
    let mounted = held.database.inner.group("DATA")?;
    let info = mounted.group.info();
    let engine = mounted.disks.all().first().map(|d| d.in_force.clone());
    let engine = engine.map_or(String::new(), |f| {
        format!("{}, {}", f.engine, if f.direct { "O_DIRECT" } else { "buffered" })
    });
    output::text(&format!(
        "      {} pre-written in {seconds:.1} s ({engine})\n      \
         DATA: normal, 4 disks, AU 4 MB. Room for {}; any one disk may die\n\n",
        show_bytes(4 * init.disk_size),
        show_room(info.writable_mb),
    ))?;
    Ok(held)
}

/// The results of the steps after the first.
pub struct Found {
    /// Queries that failed, over the whole demo.
    pub queries_failed: u64,
    /// Queries whose answer was wrong.
    pub queries_wrong: u64,
    /// Commits.
    pub commits: commits::Commits,
    /// The group's reaction to the loss.
    pub healed: healed::Healed,
    /// The outcome for rows when a process was killed.
    pub killed: killed::Killed,
    /// The effect of adding a disk.
    pub moved: added::Moved,
    /// The findings of validate.
    pub findings: cellar_diskgroup::Findings,
    /// Waits, by event.
    pub waits: Vec<cellar_wait::EventTotals>,
}

async fn on_group(
    args: &Args,
    report: &mut Report,
    held: &mut Option<Held>,
    place: &Place,
) -> Result<Found, Fault> {
    let database = here(held)?;
    load_data(args, report, &database).await?;
    let engine = Arc::new(database.engine().await?);
    let scale = args.scale;
    // Concurrent with this task, which listens for signals.
    let answers = tokio::task::spawn_blocking(move || reference::answers(scale, cores())).await;
    let answers = answers.map_err(|e| Fault::failed(format!("CELLAR-00600: {e}")))?;
    questions(args, report, &database, &engine, &answers).await?;
    let mut commits = commits::run(args, report, &database, &engine, place).await?;
    let work = (&engine, &answers, &mut commits);
    let (tally, healed) = death(args, report, &database, work, place).await?;
    let mut waits = database.inner.waits().totals();
    drop((engine, database));
    if let Some(before) = held.take() {
        before.close().await?;
    }
    let (again, killed) = killed::run(&args.dir, report, place).await?;
    *held = Some(again);
    let database = here(held)?;
    let engine = Arc::new(database.engine().await?);
    // Recovered by redo, or written by an earlier clean close.
    commits::look_again(&engine, &mut commits).await?;
    let (more, moved) = added::run(args, report, &database, &engine, &answers, place).await?;
    commits::another_medium(&engine).await?;
    no_bad(&more)?;
    let findings = read_back(args, report, &database).await?;
    report::add(&mut waits, database.inner.waits().totals());
    let queries_failed = tally.failed + more.failed;
    let queries_wrong = tally.wrong + more.wrong;
    Ok(Found { queries_failed, queries_wrong, commits, healed, killed, moved, findings, waits })
}

/// The database, while this process has it open.
fn here(held: &Option<Held>) -> Result<Database, Fault> {
    let held =
        held.as_ref().ok_or_else(|| Fault::failed("CELLAR-00600: the database is closed"))?;
    Ok(held.database.clone())
}

async fn load_data(args: &Args, report: &mut Report, database: &Database) -> Result<(), Fault> {
    let dir = shell::path(&args.dir);
    step(2, "Data", &format!("cellar load {dir} --tpch {}", args.scale))?;
    report.begin("load");
    let loaded = load::load(database, &Source::Tpch(args.scale), false).await?;
    let seconds = report.done();
    let rows: u64 = loaded.iter().map(|l| l.rows).sum();
    let bytes: u64 = loaded.iter().map(|l| l.bytes).sum();
    let expected: u64 = TpchTable::ALL.iter().map(|t| t.rows(args.scale)).sum();
    let mounted = database.inner.group("DATA")?;
    let used: Vec<u64> =
        mounted.group.disks().iter().map(|d| d.total_mb.saturating_sub(d.free_mb)).collect();
    let spread = used.iter().max().unwrap_or(&0) - used.iter().min().unwrap_or(&0);
    output::text(&format!(
        "      {} rows, {} tables                       {seconds:.1} s\n      \
         {}, every byte on two disks; the fullest disk is {} AU ahead\n\n",
        show_count(rows),
        loaded.len(),
        show_bytes(bytes),
        spread / 4,
    ))?;
    // Lineitem's row count depends on a random number of lines per order; the others are exact.
    if rows == 0 || expected == 0 {
        return Err(Fault::failed("CELLAR-00600: nothing was loaded"));
    }
    Ok(())
}

/// Runs a query and returns its batches.
pub(crate) async fn ask(
    engine: &Engine,
    sql: &str,
) -> Result<Vec<arrow::record_batch::RecordBatch>, Fault> {
    match engine.execute(sql).await? {
        Outcome::Rows(stream) => {
            let batches: Result<Vec<_>, _> = stream.try_collect().await;
            Ok(batches.map_err(|e| cellar_sql::failure::from_datafusion(&e))?)
        }
        Outcome::Refused(_, error) => Err(error.into()),
        Outcome::Plan(_) | Outcome::Copied(_) => {
            Err(Fault::failed("CELLAR-00600: a plan is no answer"))
        }
        done @ (Outcome::Done { .. } | Outcome::Filled { .. } | Outcome::Changed(..)) => {
            Err(Fault::failed(done.message().unwrap_or_default()))
        }
    }
}

/// How much the cell read for the last scan of a table, and how much it returned.
fn not_read(database: &Database, table: &str) -> Option<String> {
    let instance = database.inner.instance();
    let scan = instance.scans().recent().0.pop().filter(|scan| scan.table == table)?;
    let catalog = database.inner.catalog().current();
    let whole: u64 = catalog.table(table)?.segments.iter().map(|segment| segment.bytes).sum();
    let done = scan.stats.totals();
    Some(format!(
        "of {} of {table} the cell read {}, and returned {}",
        show_bytes(whole),
        show_bytes(done.disk_bytes + done.cache_bytes),
        show_bytes(done.returned_bytes),
    ))
}

async fn questions(
    args: &Args,
    report: &mut Report,
    database: &Database,
    engine: &Engine,
    answers: &Answers,
) -> Result<(), Fault> {
    step(3, "Questions", &format!("cellar sql {}", shell::path(&args.dir)))?;
    let asked: [(&str, &str, &str, &Answer); 2] = [
        ("Q6", "select sum(l_extendedprice * l_discount) ...", reference::Q6, &answers.q6),
        ("Q1", "select l_returnflag, sum(l_quantity) ...", reference::Q1, &answers.q1),
    ];
    for (name, shown, sql, answer) in asked {
        report.begin(name);
        let batches = ask(engine, sql).await?;
        let seconds = report.done();
        let verdict = match reference::compare(&batches, answer) {
            Ok(()) => match answer.origin {
                reference::Origin::Published => "equals the published answer",
                reference::Origin::Computed => "equals plain loops over the rows",
            },
            Err(difference) => {
                let text = format!("CELLAR-00600: {name} is wrong: {difference}");
                return Err(Fault::failed(text));
            }
        };
        output::text(&format!("      > {shown:<48} -- {name}\n"))?;
        for line in load_run::first_columns(&batches) {
            output::text(&format!("        {line}\n"))?;
        }
        output::text(&format!("        {seconds:.2} s  {verdict}\n"))?;
        if let Some(told) = not_read(database, "lineitem") {
            output::text(&format!("        {told}\n"))?;
        }
    }
    output::text("\n")
}

async fn death(
    args: &Args,
    report: &mut Report,
    database: &Database,
    (engine, answers, commits): (&Arc<Engine>, &Answers, &mut commits::Commits),
    place: &Place,
) -> Result<(load_run::Tally, healed::Healed), Fault> {
    let victim = args.dir.join("disks").join(VICTIM);
    step(5, "A disk dies under load", &format!("rm {}", shell::path(&victim)))?;
    report.begin("disk dies");
    let mounted = database.inner.group("DATA")?;
    let attribute = "disk_repair_time";
    mounted.group.set_attribute(attribute, healed::REPAIR_TIME).await?;
    let queries = load_run::Queries::start(engine, answers, place);
    let client = commits::Client::start(database, place).await?;
    place.env.sleep(DEATH_AT).await;
    // Externally: another process unlinks the file, as a person would.
    let removed = std::process::Command::new("rm").arg(&victim).status()?;
    if !removed.success() {
        return Err(Fault::failed(format!("CELLAR-27061: rm {} failed", victim.display())));
    }
    let died = place.env.now();
    let at = report.elapsed();
    let (name, noticed) = load_run::wait_offline(&mounted, place).await?;
    output::text(&format!(
        "      {at}  {name} gone; offline after {:.1} s; DATA degraded, serving\n",
        noticed.since(died).as_secs_f64()
    ))?;
    // A write after the death: it is durable on the remaining copies before it is acknowledged.
    ask_done(engine, "copy (select * from nation) to '+DATA/after.parquet' stored as parquet")
        .await?;
    // Formatted as in status: with an indent it would be too wide.
    output::text(&status::lines(&database.inner.health_of(&mounted)))?;
    let healed = healed::run(report, &mounted, &name, place).await?;
    let rest = LOAD_FOR.saturating_sub(place.env.now().since(queries.began));
    place.env.sleep(rest).await;
    let tally = queries.stop().await?;
    client.stop(engine, commits).await?;
    report.done();
    mounted.group.set_attribute(attribute, "3.6h").await?;
    output::text(&format!(
        "      {}  queries: {} run, {} failed, {} wrong; slowest {} ms\n      \
         commits: {} acknowledged, {} lost; slowest {:.0} ms\n      \
         a file written after the death is on two of the disks left\n",
        report.elapsed(),
        tally.run,
        tally.failed,
        tally.wrong,
        tally.slowest.as_millis(),
        commits.while_a_disk_died,
        commits.lost,
        commits.slowest_ms,
    ))?;
    no_bad(&tally)?;
    commits::without_medium(engine).await?;
    Ok((tally, healed))
}

fn no_bad(tally: &load_run::Tally) -> Result<(), Fault> {
    if tally.failed + tally.wrong == 0 {
        return Ok(());
    }
    Err(Fault::failed(format!(
        "CELLAR-00600: {} queries failed, {} were wrong{}",
        tally.failed,
        tally.wrong,
        tally.first_error.as_ref().map(|e| format!("; the first: {e}")).unwrap_or_default()
    )))
}

async fn ask_done(engine: &Engine, sql: &str) -> Result<(), Fault> {
    match engine.execute(sql).await? {
        Outcome::Rows(stream) => {
            let rows: Result<Vec<_>, _> = stream.try_collect().await;
            rows.map_err(|e| cellar_sql::failure::from_datafusion(&e))?;
            Ok(())
        }
        Outcome::Refused(_, error) => Err(error.into()),
        Outcome::Plan(_)
        | Outcome::Copied(_)
        | Outcome::Changed(..)
        | Outcome::Filled { .. }
        | Outcome::Done { .. } => Ok(()),
    }
}

async fn read_back(
    args: &Args,
    report: &mut Report,
    database: &Database,
) -> Result<cellar_diskgroup::Findings, Fault> {
    let dir = shell::path(&args.dir);
    step(8, "Everything is read back", &format!("cellar validate {dir}"))?;
    report.begin("validate");
    let mounted = database.inner.group("DATA")?;
    let numbers: Vec<u32> = mounted.group.files().iter().map(|f| f.number).collect();
    let found = mounted.group.validate(&numbers, Copies::All, &|_| {}).await?;
    let seconds = report.done();
    // Kept for status, as validate does; on failure status knows less, and the demo continues.
    let now = database.inner.env().wall().unix_nanos / 1_000_000_000;
    let any_absent = mounted.group.disks().iter().any(|disk| !disk.in_sync);
    let (bad, extent) = (Bad::of(&found, false, Vec::new(), now), Extent::of(&found, any_absent));
    let _ = checked::keep(&args.dir, "DATA", bad, extent, now);
    let checked = found.checksums_right + found.checksums_wrong;
    output::text(&format!(
        "      {}, every copy that is there                      {seconds:.1} s\n      \
         {} checksums: {} wrong, {} unreadable, {} copies that differ\n\n",
        show_bytes(found.bytes_read),
        show_count(checked),
        found.checksums_wrong,
        show_bytes(found.unreadable_bytes),
        found.pieces_differing,
    ))?;
    if found.is_bad() {
        return Err(Fault::failed("CELLAR-70040: validate found bad copies"));
    }
    Ok(found)
}

fn farewell(args: &Args) -> Result<(), Fault> {
    let dir = shell::path(&args.dir);
    // The descriptions are aligned in one column after the longest command.
    let wide = format!("cellar status {dir}").chars().count().min(40);
    let next = [
        (format!("cellar sql {dir}"), "a prompt on this data"),
        (format!("cellar status {dir}"), "what may fail next"),
        ("cellar disks".to_owned(), "which of your own disks can be used"),
    ];
    let next: String = next
        .map(|(command, what)| output::fold_help(&format!("  {command:<wide$}    {what}")))
        .concat();
    output::text(&format!(
        "{}\n{next}TPC-H derived; not comparable to published TPC-H results.\n",
        output::fold(&format!(
            "Done. Nothing is left running. Every figure: {dir}/demo.json. Next:"
        )),
    ))
}
