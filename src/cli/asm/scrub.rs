//! scrub: reads and compares everything and, if wanted, repairs it.

use cellar_diskgroup::{ScrubPower, ScrubResult, ScrubScope, ScrubSpec};
use cellar_instance::Error;
use cellar_instance::scrub::{disk_number, scrub_words};
use cellar_io::shell;
use cellar_storage::Mounted;
use cellar_storage::size::show_bytes;

use super::super::database::{Database, Place};
use super::super::fault::Fault;
use super::super::output::{self, Format};
use super::super::progress::Progress;
use super::table::Table;
use super::{Show, chosen, spot};

/// Arguments of `scrub`.
#[derive(Debug, clap::Args)]
pub struct Scrub {
    /// A group's name, or a pattern; all groups if it is left out.
    group: Option<String>,
    /// Only the extents with a copy on this disk, and what else is there.
    #[arg(short = 'D', long, value_name = "DISK", conflicts_with = "file")]
    disk: Option<String>,
    /// Only this file: +DATA/dir/file.
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "group")]
    file: Option<String>,
    /// Mend what is wrong and has a right copy.
    #[arg(short = 'r', long)]
    repair: bool,
    /// auto (makes way for who reads and writes), low, high or max.
    #[arg(long, default_value = "auto")]
    power: String,
    /// Even during a rebalance, or while disks return.
    #[arg(long)]
    force: bool,
    /// Stop the one that is under way.
    #[arg(long, conflicts_with_all = ["repair", "wait", "force", "disk", "file"])]
    stop: bool,
    /// Wait until it is done; exit 1 if damage remains.
    #[arg(short = 'w', long)]
    wait: bool,
}

/// Scrubs groups, or stops scrubs.
pub async fn scrub(
    args: &Scrub,
    database: &Database,
    place: &Place,
    show: Show,
) -> Result<(), Fault> {
    let power = ScrubPower::named(&args.power).ok_or_else(|| {
        Fault::usage(format!("'{}' is no power: auto, low, high or max", args.power))
    })?;
    let (groups, scope) = target(args, database)?;
    let spec = ScrubSpec { scope, repair: args.repair, power, force: args.force };
    let mut table = Table::new(&[
        "Group_Name",
        "State",
        "Read_MB",
        "Checksum",
        "Unreadable",
        "Differs",
        "Metadata",
        "Repaired",
        "Left",
    ]);
    let (mut words, mut well) = (String::new(), true);
    for mounted in &groups {
        let group = &mounted.group;
        let mut told = |state: &str, result: Option<&ScrubResult>, line: String| {
            words.push_str(&output::labelled(group.name(), &line));
            let found = result.map(|result| result.found.clone()).unwrap_or_default();
            let wrong = found.wrong();
            let mut row = vec![group.name().into(), state.into()];
            let counts = [
                found.bytes_read >> 20,
                wrong.checksum,
                wrong.unreadable,
                wrong.differs,
                wrong.own,
                found.repaired,
                found.left,
            ];
            row.extend(counts.into_iter().map(|n| result.map(|_| n).into()));
            table.push(row);
        };
        if args.stop {
            match group.stop_scrub().await? {
                true => told("STOPPED", None, "scrub stopped".to_owned()),
                false => told("NONE", None, "no scrub was under way".to_owned()),
            }
            continue;
        }
        group.scrub(spec).await?;
        if !args.wait {
            let total = group.scrubbing().map_or(0, |now| now.bytes_total);
            let line = format!(
                "scrub of {} begun; it continues whenever the database is open: cellar asm {} lsop",
                show_bytes(total),
                shell::path(database.inner.directory().path())
            );
            told("RUN", None, line);
            continue;
        }
        if let Some(result) = wait(mounted, place, show).await? {
            well &= result.found.left == 0;
            let state = if result.stopped { "STOPPED" } else { "DONE" };
            told(state, Some(&result), scrub_words(group, &result));
        }
    }
    table.tell(show.format, show.header, &words)?;
    if well { Ok(()) } else { Err(Fault::NotWell) }
}

/// The groups to scrub, and the part of them.
fn target(args: &Scrub, database: &Database) -> Result<(Vec<Mounted>, ScrubScope), Fault> {
    if let Some(file) = &args.file {
        let spot = spot(database, file)?;
        let number = spot.mounted.group.open(&spot.path)?.number();
        return Ok((vec![spot.mounted], ScrubScope::File(number)));
    }
    let groups = chosen(database, args.group.as_deref())?;
    let Some(disk) = &args.disk else { return Ok((groups, ScrubScope::Group)) };
    let mut failure = Error::new(15054, format!("no disk of a mounted group is \"{disk}\""));
    for mounted in groups {
        match disk_number(&mounted.group, disk) {
            Ok(number) => return Ok((vec![mounted], ScrubScope::Disk(number))),
            Err(error) => failure = error,
        }
    }
    Err(failure.into())
}

async fn wait(mounted: &Mounted, place: &Place, show: Show) -> Result<Option<ScrubResult>, Fault> {
    let group = &mounted.group;
    let total = group.scrubbing().map_or(0, |now| now.bytes_total);
    let progress = Progress::new("scrubbed", total.max(1), show.format == Format::Json);
    let done = || group.scrubbing().map_or(total, |now| now.bytes_done);
    Ok(progress.during(&place.env, done, group.wait_scrubbed()).await?)
}
