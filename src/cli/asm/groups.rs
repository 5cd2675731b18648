//! lsdg, lsdsk, lsattr: properties of groups and disks.

use cellar_diskgroup::{DiskInfo, GroupInfo};
use cellar_instance::health::{outlook, reasons};
use cellar_instance::{Error, NextStep};
use cellar_storage::Mounted;
use cellar_storage::size::show_room;
use cellar_storage::words::{disk_state, mode_status};

use super::super::clock;
use super::super::database::Database;
use super::super::fault::Fault;
use super::super::output::{self, Format};
use super::table::{Cell, Table};
use super::{Show, chosen, is_pattern, matches};

/// Arguments of `lsdg`.
#[derive(Debug, clap::Args)]
pub struct Lsdg {
    /// A group's name, or a pattern.
    pattern: Option<String>,
}

/// Arguments of `lsdsk`.
#[derive(Debug, clap::Args)]
pub struct Lsdsk {
    /// Sizes, names, failure groups.
    #[arg(short = 'k')]
    sizes: bool,
    /// Numbers and states.
    #[arg(short = 'p')]
    states: bool,
    /// When they joined, and how long one that left may stay away.
    #[arg(short = 't')]
    times: bool,
    /// Requests, errors, seconds and bytes since the mount.
    #[arg(long)]
    statistics: bool,
    /// Only of this group.
    #[arg(short = 'G', value_name = "GROUP")]
    group: Option<String>,
    /// Wait until this disk, which is being dropped, is FORMER: it may be unplugged then.
    #[arg(long, value_name = "DISK", conflicts_with_all = ["sizes", "states", "times", "statistics"])]
    pub wait: Option<String>,
    /// A path or a disk's name, or a pattern of one.
    #[arg(conflicts_with = "wait")]
    pattern: Option<String>,
}

impl Lsdsk {
    /// The requested group, if any.
    pub fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }
}

/// Arguments of `lsattr`.
#[derive(Debug, clap::Args)]
pub struct Lsattr {
    /// Only of this group.
    #[arg(short = 'G', value_name = "GROUP")]
    group: Option<String>,
    /// With values.
    #[arg(short = 'l')]
    long: bool,
    /// With values, group, and whether they can be changed.
    #[arg(short = 'm')]
    more: bool,
    /// An attribute, or a pattern.
    pattern: Option<String>,
}

/// Groups.
pub fn lsdg(args: &Lsdg, database: &Database, show: Show) -> Result<(), Fault> {
    let mut table = Table::new(&[
        "State",
        "Type",
        "Rebal",
        "Sector",
        "Block",
        "AU",
        "Total_MB",
        "Free_MB",
        "Req_mir_free_MB",
        "Usable_file_MB",
        "Offline_disks",
        "Name",
    ]);
    let chosen = chosen(database, args.pattern.as_deref())?;
    let mut remarks = String::new();
    let mut json = Vec::new();
    let redo = database.inner.instance().redo();
    for mounted in &chosen {
        let info = mounted.group.info();
        let busy = mounted.group.resync().bytes_left > 0 || mounted.group.operation().is_some();
        table.push(vec![
            if info.stopped.is_some() { "STOPPED" } else { "MOUNTED" }.into(),
            info.redundancy.short().into(),
            if busy { "Y" } else { "N" }.into(),
            info.sector_size.into(),
            4096u32.into(),
            info.au_size.into(),
            info.total_mb.into(),
            info.free_mb.into(),
            info.required_mirror_free_mb.into(),
            info.usable_file_mb.into(),
            (info.offline_disks as u64).into(),
            info.name.as_str().into(),
        ]);
        let survives = outlook::survives(mounted, redo);
        remarks.push_str(&honest(&info, survives, &outlook::safe(mounted, redo)));
        json.push((info, survives));
    }
    if show.format == Format::Table {
        output::text(&table.text(show.header))?;
        // Without a header only rows are wanted.
        return if show.header { output::text(&remarks) } else { Ok(()) };
    }
    let mut rows = table.json();
    for (row, (info, survives)) in rows.iter_mut().zip(json) {
        row["writable_mb"] = info.writable_mb.into();
        row["writable_and_survive_mb"] = info.writable_and_survive_mb.into();
        row["can_restore"] = info.can_restore.into();
        row["survives"] = survives.into();
        row["stopped"] = info.stopped.into();
    }
    output::json(&rows)
}

/// The space that can really be written, and what remains after the loss of a failure group.
fn honest(info: &GroupInfo, survives: &str, safe: &str) -> String {
    let now = show_room(info.writable_mb);
    let mut out = format!("{}: {now} can be written now", info.name);
    if info.redundancy.copies() < 2 {
        out.push_str(", in one copy.");
    } else if !info.can_restore {
        out.push_str(
            ".\n  After the loss of a failure group too few would be left to mirror again.",
        );
    } else if info.writable_and_survive_mb >= 0 {
        let safe = show_room(info.writable_and_survive_mb.unsigned_abs());
        out.push_str(&format!(
            ",\n  {safe} so that all can be mirrored again after any failure group is lost."
        ));
    } else {
        let over = show_room(info.writable_and_survive_mb.unsigned_abs());
        out.push_str(&format!(
            ",\n  but {over} too much is there to mirror all again after a failure group is lost."
        ));
    }
    out.push('\n');
    let survives = format!("Survives = {survives} ({safe})");
    out.push_str(&output::broken("  ", "  ", &survives));
    out.push('\n');
    if let Some(why) = &info.stopped {
        out.push_str(&output::broken("  ", "  ", &format!("It has stopped: {why}")));
        out.push('\n');
    }
    out
}

/// Disks.
pub fn lsdsk(args: &Lsdsk, database: &Database, show: Show) -> Result<(), Fault> {
    let groups = chosen(database, args.group.as_deref())?;
    let mut table = Table::new(&columns(args));
    let mut found = false;
    let mut remarks = String::new();
    for mounted in &groups {
        for reason in reasons(&mounted.group, database.inner.storage().groups().no_disks()) {
            remarks.push_str(&output::broken("", "  ", &reason));
            remarks.push('\n');
        }
        let redundancy = mounted.group.info().redundancy.short();
        for disk in mounted.group.disks() {
            if args.pattern.as_deref().is_none_or(|p| is_meant(p, &disk)) {
                found = true;
                table.push(row(args, mounted, redundancy, &disk));
            }
        }
    }
    if let (false, Some(pattern)) = (found, &args.pattern) {
        let text = format!("no disk of a mounted group matches \"{pattern}\"");
        let hint = NextStep::from("see which there are: ").cellar("asm", "lsdsk -k");
        return Err(Error::new(15054, text).hint(hint).into());
    }
    table.print(show.format, show.header)?;
    // Without a header only columns are wanted.
    match show.header && show.format == Format::Table {
        true => output::text(&remarks),
        false => Ok(()),
    }
}

/// Whether a pattern names a disk, or its path.
pub fn is_meant(pattern: &str, disk: &DiskInfo) -> bool {
    matches(&pattern.to_uppercase(), &disk.name)
        || disk.path.as_deref().is_some_and(|path| matches(pattern, path))
}

/// Whether `disk` has that name or path.
pub fn is_named(wanted: &str, disk: &DiskInfo) -> bool {
    disk.name.eq_ignore_ascii_case(wanted) || disk.path.as_deref() == Some(wanted)
}

/// The requested tables, one after another.
fn columns(args: &Lsdsk) -> Vec<&'static str> {
    let mut columns = Vec::new();
    if args.states {
        columns.extend(["Group_Num", "Disk_Num", "Incarn", "Mount_Stat", "Header_Stat"]);
        columns.extend(["Mode_Stat", "State"]);
    }
    if args.sizes {
        columns.extend(["Total_MB", "Free_MB", "OS_MB", "Name", "Failgroup", "Library", "Label"]);
        columns.extend(["UDID", "Product", "Redund"]);
    }
    if args.times {
        columns.extend(["Create_Date", "Mount_Date", "Repair_Timer"]);
    }
    if args.statistics {
        columns.extend(["Reads", "Writes", "Read_Errs", "Write_Errs", "Read_time", "Write_Time"]);
        columns.extend(["Bytes_Read", "Bytes_Written"]);
    }
    columns.push("Path");
    columns
}

fn row(args: &Lsdsk, mounted: &Mounted, redundancy: &str, disk: &DiskInfo) -> Vec<Cell> {
    let count = |name: &str| Cell::from(disk.counters.get(name).copied());
    let seconds = |name: &str| Cell::from(disk.counters.get(name).map(|ns| *ns as f64 / 1e9));
    let here = disk.path.is_some();
    let mut row: Vec<Cell> = Vec::new();
    if args.states {
        row.extend([
            mounted.number.into(),
            u32::from(disk.number).into(),
            Cell::Unknown,
            if here { "CACHED" } else { "MISSING" }.into(),
            if here { "MEMBER" } else { "UNKNOWN" }.into(),
            mode_status(disk).into(),
            disk_state(&mounted.group, disk).into(),
        ]);
    }
    if args.sizes {
        row.extend([disk.total_mb.into(), disk.free_mb.into(), (disk.bytes >> 20).into()]);
        row.extend([disk.name.as_str().into(), disk.failgroup.as_str().into(), "System".into()]);
        row.extend([Cell::Unknown, Cell::Unknown, Cell::Unknown, redundancy.into()]);
    }
    if args.times {
        row.extend([clock::date(disk.created_ns).into(), Cell::Unknown, Cell::Unknown]);
    }
    if args.statistics {
        row.extend(["reads", "writes", "read_errs", "write_errs"].map(count));
        row.extend(["read_ns", "write_ns"].map(seconds));
        row.extend(["bytes_read", "bytes_written"].map(count));
    }
    row.push(disk.path.clone().into());
    row
}

/// Attributes.
pub fn lsattr(args: &Lsattr, database: &Database, show: Show) -> Result<(), Fault> {
    let groups = chosen(database, args.group.as_deref())?;
    let mut table = Table::new(match (args.more, args.long) {
        (true, _) => &["Group_Name", "Name", "Value", "RO", "Sys"],
        (false, true) => &["Name", "Value"],
        (false, false) => &["Name"],
    });
    let pattern = args.pattern.as_deref().map(str::to_lowercase);
    let mut found = false;
    for mounted in &groups {
        for (name, (value, fixed)) in mounted.group.attributes() {
            let meant = pattern.as_deref().is_none_or(|p| match is_pattern(p) {
                true => matches(p, &name),
                false => p == name,
            });
            if !meant {
                continue;
            }
            found = true;
            let fixed = if fixed { "Y" } else { "N" };
            table.push(match (args.more, args.long) {
                (true, _) => vec![
                    mounted.group.name().into(),
                    name.into(),
                    value.into(),
                    fixed.into(),
                    "Y".into(),
                ],
                (false, true) => vec![name.into(), value.into()],
                (false, false) => vec![name.into()],
            });
        }
    }
    if let (false, Some(pattern)) = (found, &args.pattern) {
        let text = format!("no attribute matches \"{pattern}\"");
        let hint = NextStep::from("see all: ").cellar("asm", "lsattr -l");
        return Err(Error::new(15238, text).hint(hint).into());
    }
    table.print(show.format, show.header)
}
