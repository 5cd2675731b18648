//! offline, online, replace: disks that leave temporarily, and return or are replaced.

use cellar_diskgroup::{OfflineDisk, parse_repair_time};
use cellar_instance::{Error, NextStep};
use cellar_storage::Mounted;
use cellar_storage::request::{DiskRequest, DiskTarget, OfflineRequest, OnlineRequest, Rebalance};
use cellar_storage::size::{show_bytes, show_time};

use super::super::database::{Database, Place};
use super::super::fault::Fault;
use super::super::output::{self, Format};
use super::super::progress::Progress;
use super::table::Table;
use super::{Show, chosen};

/// Which disks.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// The disk group; needed where there are several.
    #[arg(short = 'G', long = "diskgroup", value_name = "GROUP")]
    group: Option<String>,
    /// A disk, by name.
    #[arg(short = 'D', long = "disk", value_name = "DISK")]
    disk: Vec<String>,
    /// The disks of a failure group.
    #[arg(short = 'F', long = "failgroup", value_name = "FAILGROUP")]
    failgroup: Vec<String>,
}

/// Arguments of `offline`.
#[derive(Debug, clap::Args)]
pub struct Offline {
    #[command(flatten)]
    which: Which,
    /// Drop them after this time, such as 30m or 3.6h, unless they are back.
    #[arg(short = 't', long = "drop-after", value_name = "TIME")]
    drop_after: Option<String>,
}

/// Arguments of `online`.
#[derive(Debug, clap::Args)]
pub struct Online {
    #[command(flatten)]
    which: Which,
    /// All that are offline.
    #[arg(short = 'a', long)]
    all: bool,
    /// Copy all of it anew, whatever the disk holds.
    #[arg(long)]
    force: bool,
    /// 1 (makes way for all others) to 1024.
    #[arg(long)]
    power: Option<u32>,
    /// Wait until it has all missed writes.
    #[arg(short = 'w', long)]
    wait: bool,
}

/// Arguments of `replace`.
#[derive(Debug, clap::Args)]
pub struct Replace {
    /// The disk that is gone, by name.
    disk: String,
    /// The path of the new one; a missing file is created.
    with: String,
    /// The disk group; needed where there are several.
    #[arg(short = 'G', long = "diskgroup", value_name = "GROUP")]
    group: Option<String>,
    /// Take a disk that has the label of another group.
    #[arg(long)]
    force: bool,
    /// Give up what is on the disk with this serial number.
    #[arg(long, value_name = "SERIAL")]
    erase: Option<String>,
    /// 1 (makes way for all others) to 1024.
    #[arg(long)]
    power: Option<u32>,
    /// Wait until all is copied.
    #[arg(short = 'w', long)]
    wait: bool,
}

impl Which {
    fn targets(&self) -> Vec<DiskTarget> {
        let disks = self.disk.iter().map(|name| DiskTarget::Disk(name.clone()));
        let groups = self.failgroup.iter().map(|name| DiskTarget::FailGroup(name.clone()));
        disks.chain(groups).collect()
    }
}

/// The one group in question.
fn one(database: &Database, group: Option<&str>) -> Result<Mounted, Fault> {
    let mut groups = chosen(database, group)?;
    match (groups.len(), groups.pop()) {
        (1, Some(mounted)) => Ok(mounted),
        _ => Err(Fault::usage("several disk groups are mounted: name one with -G")),
    }
}

/// A duration such as 30m or 3.6h, in seconds.
fn time(text: &str) -> Result<u32, Fault> {
    let time = parse_repair_time(text).map(|time| time.as_secs()).filter(|s| *s >= 60);
    time.and_then(|seconds| u32::try_from(seconds).ok()).ok_or_else(|| {
        Fault::usage(format!("'{text}' is no time such as 30m or 3.6h, at least a minute"))
    })
}

/// Takes disks offline.
pub async fn offline(args: &Offline, database: &Database, show: Show) -> Result<(), Fault> {
    let targets = args.which.targets();
    if targets.is_empty() {
        return Err(Fault::usage("name the disks: -D DISK or -F FAILGROUP"));
    }
    let drop_after = args.drop_after.as_deref().map(time).transpose()?;
    let request = OfflineRequest { disks: targets, drop_after };
    let mounted = one(database, args.which.group.as_deref())?;
    let group = &mounted.group;
    let names = database.inner.storage().groups().offline_disks(group.name(), &request).await?;
    let away = group.away_disks();
    let mut table = Table::new(&["Name", "Mode_Stat", "Repair_Timer"]);
    let mut words = String::new();
    for disk in away.iter().filter(|d| names.contains(&d.name)) {
        table.push(vec![
            disk.name.as_str().into(),
            "OFFLINE".into(),
            disk.drop_in.as_secs().into(),
        ]);
        words.push_str(&output::labelled(&disk.name, &away_words(disk)));
    }
    tell(show, &table, &words)
}

/// The future of a disk that is away, in words.
fn away_words(disk: &OfflineDisk) -> String {
    let fate = match &disk.stuck {
        Some(why) => format!("not dropped by itself, as {why}"),
        None => format!("dropped in {} unless it returns", show_time(disk.drop_in)),
    };
    format!("offline; changes are tracked for resync; {fate}")
}

fn tell(show: Show, table: &Table, words: &str) -> Result<(), Fault> {
    table.tell(show.format, show.header, words)
}

/// Brings disks back.
pub async fn online(
    args: &Online,
    database: &Database,
    place: &Place,
    show: Show,
) -> Result<(), Fault> {
    let targets = args.which.targets();
    let disks = match (args.all, targets.is_empty()) {
        (true, true) => None,
        (false, false) => Some(targets),
        _ => return Err(Fault::usage("name the disks: -D DISK, -F FAILGROUP, or -a for all")),
    };
    let mounted = one(database, args.which.group.as_deref())?;
    let rebalance = Rebalance::at(args.power);
    let request = OnlineRequest { disks, force: args.force, rebalance };
    let names =
        database.inner.storage().groups().online_disks(mounted.group.name(), &request).await?;
    returned((database, &mounted), &names, args.wait, place, show).await
}

/// Replaces a disk that is gone with another.
pub async fn replace(
    args: &Replace,
    database: &Database,
    place: &Place,
    show: Show,
) -> Result<(), Fault> {
    let mounted = one(database, args.group.as_deref())?;
    let path = std::path::absolute(&args.with).map_err(|e| {
        Error::new(15031, format!("the path '{}' cannot be made absolute: {e}", args.with))
    })?;
    let with = DiskRequest {
        path: path.to_string_lossy().into_owned(),
        name: None,
        failgroup: None,
        size: None,
        force: args.force,
        erase: args.erase.clone(),
    };
    let name = args.disk.to_uppercase();
    let progress = std::sync::OnceLock::new();
    let wrote = |done, total| {
        let new = || Progress::new("pre-written", total, show.format == Format::Json);
        progress.get_or_init(new).set(done);
    };
    let group = mounted.group.name();
    let replaced = database
        .inner
        .storage()
        .groups()
        .replace_disk(group, &name, &with, args.power, &wrote)
        .await;
    progress.get().into_iter().for_each(Progress::finish);
    replaced?;
    returned((database, &mounted), &[name], args.wait, place, show).await
}

async fn returned(
    (database, mounted): (&Database, &Mounted),
    names: &[String],
    wait: bool,
    place: &Place,
    show: Show,
) -> Result<(), Fault> {
    let group = &mounted.group;
    let totals: Vec<(String, u64)> =
        group.returns().into_iter().map(|r| (r.name, r.bytes_total)).collect();
    let missed = |name: &str| totals.iter().find(|(n, _)| n == name).map_or(0, |(_, b)| *b);
    if wait {
        let total = totals.iter().map(|(_, bytes)| bytes).sum::<u64>();
        let progress = Progress::new("resynced", total.max(1), show.format == Format::Json);
        let done = || group.returns().iter().map(|r| r.bytes_done).sum::<u64>();
        let returned = database.inner.storage().groups().wait_returned(mounted);
        progress.during(&place.env, done, returned).await?;
        let disks = group.disks();
        if let Some(disk) = disks.iter().find(|d| names.contains(&d.name) && !d.in_sync) {
            let text = format!("disk {} left again before it had what it missed", disk.name);
            let hint = NextStep::from("see why: ").cellar("status", "");
            return Err(Error::new(15281, text).hint(hint).into());
        }
    }
    let mut table = Table::new(&["Name", "Mode_Stat", "Missed_MB"]);
    let mut words = String::new();
    for disk in group.disks().iter().filter(|d| names.contains(&d.name)) {
        let mode = cellar_storage::words::mode_status(disk);
        let bytes = missed(&disk.name);
        table.push(vec![disk.name.as_str().into(), mode.into(), bytes.div_ceil(1 << 20).into()]);
        let told = match (mode, bytes) {
            ("ONLINE", 0) => "online; it had missed nothing".to_owned(),
            ("ONLINE", bytes) => {
                format!("online; {} that it missed were copied", show_bytes(bytes))
            }
            (_, bytes) => format!(
                "on its way back; {} that it missed are being copied, whenever the database is \
                 open",
                show_bytes(bytes)
            ),
        };
        words.push_str(&output::labelled(&disk.name, &told));
    }
    if names.is_empty() {
        words.push_str(&output::labelled(group.name(), "no disk of it was offline"));
    }
    tell(show, &table, &words)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_are_minutes_or_hours() {
        assert_eq!(time("30m").ok(), Some(1800));
        assert_eq!(time("3.6h").ok(), Some(12_960));
        for wrong in ["", "m", "0m", "5s", "h3", "1e300h", "\u{e4}"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
        assert_eq!(show_time(Duration::from_secs(59)), "59 s");
    }
}
