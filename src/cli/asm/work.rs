//! lsop, rebal, lsdsk --wait: work in progress in groups, and waiting for it.

use std::path::Path;
use std::time::Duration;

use cellar_diskgroup::{DiskStatus, Operation};
use cellar_instance::{Error, NextStep};
use cellar_io::{EnvExt, shell};
use cellar_storage::Mounted;
use cellar_storage::request::{ChangeRequest, Rebalance};
use cellar_storage::size::{show_bytes, show_count};
use cellar_storage::words::{first_pass, pass_state, rebalance_state};

use super::super::database::{Database, Place};
use super::super::fault::Fault;
use super::super::output::{self, Format};
use super::super::progress::{LOOK, Progress};
use super::groups::Lsdsk;
use super::table::{Cell, Table};
use super::{Show, chosen};

/// Arguments of `lsop`.
#[derive(Debug, clap::Args)]
pub struct Lsop {}

/// Arguments of `rebal`.
#[derive(Debug, clap::Args)]
pub struct Rebal {
    /// A group's name, or a pattern; all groups if it is left out.
    group: Option<String>,
    /// 0 (stop) to 1024; the parameter asm_power_limit if it is left out.
    #[arg(long)]
    power: Option<u32>,
    /// Wait until it is done.
    #[arg(short = 'w', long)]
    wait: bool,
}

/// The time over which the rate of work in progress is measured.
const MEASURE: Duration = Duration::from_millis(500);
/// The time limit for the label of a departed disk to say so.
const LABEL: Duration = Duration::from_secs(10);

/// Long work: resync after a crash, rebalance.
pub async fn lsop(database: &Database, place: &Place, show: Show) -> Result<(), Fault> {
    let mut table = Table::new(&[
        "Group_Name",
        "Pass",
        "State",
        "Power",
        "SOFAR",
        "EST_WORK",
        "EST_RATE",
        "EST_TIME",
    ]);
    let groups = database.inner.groups();
    let before: Vec<(u64, Option<Operation>)> = groups.iter().map(look).collect();
    let returning = groups.iter().any(|mounted| !mounted.group.returns().is_empty());
    let scrubbing = groups.iter().any(|mounted| mounted.group.scrubbing().is_some());
    let other = |(bytes, operation): &(u64, Option<Operation>)| *bytes > 0 || operation.is_some();
    if returning || scrubbing || before.iter().any(other) {
        place.env.sleep(MEASURE).await;
    }
    let mut errors = Vec::new();
    for (mounted, (bytes, operation)) in groups.iter().zip(before) {
        let (left, now) = look(mounted);
        let name = mounted.group.name();
        if left > 0 {
            let au = mounted.group.info().au_size;
            let found = mounted.group.resync().bytes_found.max(left);
            let rate = rate((bytes.saturating_sub(left)) as f64 / au as f64);
            let (sofar, work) = ((found - left) / au, found.div_ceil(au));
            table.push(row(name, "RESYNC", "RUN", None, (sofar, work), rate));
        }
        for back in mounted.group.returns() {
            let au = mounted.group.info().au_size;
            let aus = (back.bytes_done / au, back.bytes_total.div_ceil(au));
            let rate = back.rate().map(|rate| rate * 60.0 / au as f64);
            table.push(row(name, "RESYNC", back.state(), Some(back.power), aus, rate));
            let what = format!("{name}: {} does not get what it missed", back.name);
            errors.extend(back.error.map(|error| format!("{what}: {error}")));
        }
        if let Some(scrub) = mounted.group.scrubbing() {
            let au = mounted.group.info().au_size;
            let state = if scrub.waits.is_some() { "WAIT" } else { "RUN" };
            let aus = (scrub.bytes_done / au, scrub.bytes_total.div_ceil(au));
            let rate = scrub.rate.map(|rate| rate * 60.0 / au as f64);
            table.push(row(name, "SCRUB", state, None, aus, rate));
        }
        if let Some(now) = now {
            // Its own measurement is better than half a second of ours.
            let since = operation.map_or(0, |before| now.done.saturating_sub(before.done));
            let rate = if now.rate > 0 { Some(now.rate as f64) } else { rate(since as f64) };
            if now.passes.is_empty() {
                let (pass, state) = (first_pass(&mounted.group), rebalance_state(&now));
                table.push(row(name, pass, state, Some(now.power), (0, 0), rate));
            }
            for pass in &now.passes {
                let state = pass_state(&now, Some(pass));
                let rate = rate.filter(|_| state != "DONE");
                let aus = (pass.done, pass.total);
                table.push(row(name, pass.pass.name(), state, Some(now.power), aus, rate));
            }
            errors.extend(now.error.map(|error| format!("{name}: it does not go on: {error}")));
        }
    }
    table.print(show.format, show.header)?;
    errors.iter().for_each(|error| output::notice(&format!("Notice: {error}")));
    Ok(())
}

fn look(mounted: &Mounted) -> (u64, Option<Operation>) {
    (mounted.group.resync().bytes_left, mounted.group.operation())
}

/// AUs a minute, from those done between our samples; nothing if there were none.
fn rate(aus: f64) -> Option<f64> {
    (aus > 0.0).then(|| aus / MEASURE.as_secs_f64() * 60.0)
}

fn row(
    group: &str,
    pass: &str,
    state: &str,
    power: Option<u32>,
    (sofar, work): (u64, u64),
    rate: Option<f64>,
) -> Vec<Cell> {
    let minutes = rate.map(|rate| (work.saturating_sub(sofar) as f64 / rate).ceil() as u64);
    // Until it is planned, the amount is unknown.
    let planned = work > 0;
    vec![
        group.into(),
        pass.into(),
        state.into(),
        power.into(),
        planned.then_some(sofar).into(),
        planned.then_some(work).into(),
        rate.map(|rate| rate.round() as u64).into(),
        minutes.filter(|_| planned).into(),
    ]
}

/// Starts, stops or changes the rebalance of groups.
pub async fn rebal(
    args: &Rebal,
    database: &Database,
    place: &Place,
    show: Show,
) -> Result<(), Fault> {
    let power = database.inner.storage().groups().power(args.power)?;
    let mut table = Table::new(&["Group_Name", "State", "Power", "AU", "MB", "Seconds"]);
    let mut words = String::new();
    let dir = shell::path(database.inner.directory().path());
    for mounted in chosen(database, args.group.as_deref())? {
        let (group, name) = (&mounted.group, mounted.group.name().to_owned());
        let change =
            ChangeRequest { rebalance: Rebalance::at(Some(power)), ..ChangeRequest::default() };
        let plan = database.inner.storage().groups().explain_work(&name, &change)?.work.plan;
        let (aus, bytes) = (plan.moves.len() as u64, plan.bytes(group.info().au_size));
        let start = place.env.now();
        group.rebalance(power).await?;
        if args.wait && power > 0 {
            wait_rebalanced(&mounted, place, show, aus).await?;
        }
        let seconds = place.env.now().since(start).as_secs_f64();
        let state = group.operation().map_or("DONE", |operation| rebalance_state(&operation));
        let told = format!("{} AU ({})", show_count(aus), show_bytes(bytes));
        let line = match (aus, power, args.wait) {
            (0, 1.., _) => "balanced, there was nothing to move".to_owned(),
            (_, 0, _) => format!("stopped, {told} to be moved; go on: cellar asm {dir} rebal"),
            (_, _, true) => format!("{told} moved in {seconds:.1} s"),
            (_, power, false) => format!(
                "{told} to be moved at power {power}, whenever the database is open; stay until it \
                 is done: cellar asm {dir} rebal --wait"
            ),
        };
        words.push_str(&output::labelled(&name, &line));
        let seconds = args.wait.then_some(seconds);
        table.push(vec![
            name.into(),
            state.into(),
            power.into(),
            aus.into(),
            (bytes >> 20).into(),
            seconds.into(),
        ]);
    }
    table.tell(show.format, show.header, &words)
}

/// Waits until a group is rebalanced, or the reason why it does not continue is known.
pub async fn wait_rebalanced(
    mounted: &Mounted,
    place: &Place,
    show: Show,
    aus: u64,
) -> Result<(), Fault> {
    let group = &mounted.group;
    let progress = Progress::new("rebalanced", aus, show.format == Format::Json);
    let done = || group.operation().map_or(aus, |operation| operation.done);
    Ok(progress.during(&place.env, done, group.wait_rebalanced()).await?)
}

/// Waits until a disk that is being dropped may be unplugged: until its label says FORMER.
pub async fn wait_former(
    args: &Lsdsk,
    wanted: &str,
    database: &Database,
    place: &Place,
    show: Show,
) -> Result<(), Fault> {
    let mut found = None;
    for mounted in chosen(database, args.group())? {
        let mut disks = mounted.group.disks().into_iter();
        found = found.or(disks.find(|d| super::groups::is_named(wanted, d)).map(|d| (mounted, d)));
    }
    let Some((mounted, disk)) = found else {
        return match database.inner.storage().groups().former(wanted).await {
            Some((name, path)) => {
                // Names are reused: this disk is a present one, not a lost one.
                if name.eq_ignore_ascii_case(wanted) {
                    output::notice(&format!(
                        "Notice: no member is called {name}; a disk that was, and left, is at {}",
                        path.display()
                    ));
                }
                tell(&name, "FORMER", &path.to_string_lossy(), show)
            }
            None => {
                let text =
                    format!("no disk of a mounted group, and none that left, is \"{wanted}\"");
                let hint = NextStep::from("see which there are: ").cellar("asm", "lsdsk -k");
                Err(Error::new(15054, text).hint(hint).into())
            }
        };
    };
    let (group, name) = (&mounted.group, disk.name.clone());
    let total = group.operation().map_or(0, |operation| operation.total);
    let progress = Progress::new("rebalanced", total.max(1), show.format == Format::Json);
    let still = || group.disks().into_iter().find(|d| d.number == disk.number);
    while let Some(now) = still() {
        let leaving = check_leaving(&mounted, &name, now.status).await;
        if leaving.is_err() {
            progress.finish();
        }
        leaving?;
        progress.set(group.operation().map_or(0, |operation| operation.done));
        place.env.sleep(LOOK).await;
    }
    progress.finish();
    let Some(path) = disk.path else {
        output::notice(&format!(
            "Notice: {name} left the group. It is not here, so its label still says that it is a \
             member; no group will take it for one."
        ));
        return tell(&name, "MISSING", "-", show);
    };
    wait_label(database, place, &name, &path).await?;
    tell(&name, "FORMER", &path, show)
}

/// Waits until the label of a disk that has left says FORMER.
pub async fn wait_label(
    database: &Database,
    place: &Place,
    name: &str,
    path: &str,
) -> Result<(), Fault> {
    let asked = place.env.now();
    while database.inner.storage().groups().former(path).await.is_none() {
        if place.env.now().since(asked) > LABEL {
            let text = format!("{name} left the group, but its label at {path} does not say so");
            return Err(Error::new(15080, text)
                .hint("it may be unplugged; the next mount of the group labels it if it is here")
                .into());
        }
        place.env.sleep(LOOK).await;
    }
    Ok(())
}

/// Refuses to wait if the disk will not leave.
pub async fn check_leaving(mounted: &Mounted, name: &str, status: DiskStatus) -> Result<(), Fault> {
    // A group that stopped or was dismounted moves nothing.
    mounted.group.check_running()?;
    let group = mounted.group.name();
    if !status.is_leaving() {
        let text = format!("disk {name} is a member of {group} and is not being dropped");
        return Err(Error::new(70114, text)
            .hint(
                NextStep::from("drop it: ")
                    .cellar("sql", &format!("-c 'alter diskgroup {group} drop disk {name}'")),
            )
            .into());
    }
    match mounted.group.operation() {
        Some(operation) if operation.power == 0 => {
            let text = format!("the rebalance of {group} is stopped by power 0, and {name} stays");
            let again = format!("rebal {group} --power 1");
            Err(Error::new(70115, text).hint(NextStep::default().cellar("asm", &again)).into())
        }
        // The error itself has its number and the remedy.
        Some(operation) if operation.error.is_some() => Ok(mounted.group.wait_rebalanced().await?),
        _ => Ok(()),
    }
}

fn tell(name: &str, status: &str, path: &str, show: Show) -> Result<(), Fault> {
    let mut table = Table::new(&["Name", "Header_Stat", "Path"]);
    table.push(vec![name.into(), status.into(), path.into()]);
    table.print(show.format, show.header)
}

/// Work that remains when the database is closed, a line for each group.
pub fn left_running(groups: &[Mounted], dir: &Path) -> Vec<String> {
    let line = |mounted: &Mounted| {
        let operation = mounted.group.operation()?;
        let goes_on = operation.power > 0 && operation.error.is_none();
        let percent = (operation.done * 100).checked_div(operation.total);
        // Each opening plans anew: earlier moves are not counted.
        let percent = percent.map_or(String::new(), |done| format!(" {done} % of what was left"));
        goes_on.then(|| {
            format!(
                "rebalance of {}{percent}, continues at next open; this stays until it is done: \
                 cellar asm {} rebal --wait",
                mounted.group.name(),
                shell::path(dir)
            )
        })
    };
    groups.iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_follows_from_what_was_measured() {
        // 10 AUs in half a second are 1200 a minute.
        assert_eq!(rate(10.0), Some(1200.0));
        assert_eq!(rate(0.0), None);
        let cells =
            |done, total, rate| row("G", "P", "S", Some(4), (done, total), rate)[4..].to_vec();
        let number = |n: u64| Cell::from(n);
        let expected = [number(10), number(2410), number(1200), number(2)];
        assert_eq!(cells(10, 2410, Some(1200.0)), expected);
        let unplanned = [Cell::Unknown, Cell::Unknown, Cell::Unknown, Cell::Unknown];
        assert_eq!(cells(0, 0, None), unplanned);
    }
}
