//! `cellar validate`: reads every copy of everything, compares, checks tables and their indexes, writes nothing.

mod rows;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cellar_diskgroup::{Copies, FileVerdict, Findings};
use cellar_instance::health::checked::{self, Bad, Extent};
use cellar_instance::heap::RowsChecked;
use cellar_storage::Mounted;
use cellar_storage::size::{show_bytes, show_count, show_duration};
use cellar_storage::split_group_path;
use cellar_storage::words::some;
use serde_json::{Value, json};

use super::database::{Database, Place};
use super::fault::Fault;
use super::output::{self, Format};
use super::progress::Progress;

/// The number of bad places that are named.
const PLACES_SHOWN: usize = 20;

/// Arguments of `validate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cellar validate cellar-demo                every copy of every file
  cellar validate cellar-demo --primary      one copy of each, as a scan reads
  cellar validate cellar-demo --file +DATA/lineitem.parquet
Exit 1 if any copy is bad. Nothing is written to the disks; DIR/validate.json
keeps what was found for status.")]
pub struct Args {
    /// The database; $CELLAR_DIR if it is left out.
    pub dir: Option<PathBuf>,
    /// Only this file: +DATA/dir/file.
    #[arg(long, value_name = "NAME")]
    pub file: Option<String>,
    /// Only the first copy of each extent, as a scan would.
    #[arg(long)]
    pub primary: bool,
    /// For people or for a program.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// The part of a group to read.
struct Part {
    mounted: Mounted,
    /// Files and their names.
    names: BTreeMap<u32, String>,
    numbers: Vec<u32>,
}

/// The findings in a group.
struct Report {
    group: String,
    names: BTreeMap<u32, String>,
    findings: Findings,
    /// Violated invariants of the metadata.
    metadata: Option<String>,
    /// Disks that are missing or not in sync.
    absent: Vec<String>,
    took: Duration,
    /// Files with parts that have no copy on any disk in use: their paths.
    lost: Vec<String>,
    /// Tables that cannot be read although the checksums of their files are right, and why.
    tables: Vec<(String, String)>,
    /// Tables whose rows change, if they are in this group.
    rows: Option<RowsChecked>,
}

impl Report {
    fn is_bad(&self) -> bool {
        let files = self.findings.is_bad() || !self.lost.is_empty();
        let rows = self.rows.as_ref().is_some_and(|rows| !rows.wrong.is_empty());
        files || rows || self.metadata.is_some() || !self.tables.is_empty()
    }

    /// The tables that cannot be read, or are damaged.
    fn bad_tables(&self) -> Vec<String> {
        let wrong = self.rows.iter().flat_map(|rows| &rows.wrong).map(|wrong| &wrong.table);
        let named = wrong.filter(|table| !table.is_empty());
        self.tables.iter().map(|(table, _)| table).chain(named).cloned().collect()
    }

    /// The amount that was read, if it was a full check.
    fn extent(&self) -> Extent {
        Extent::of(&self.findings, !self.absent.is_empty())
    }
}

/// Runs `validate`.
///
/// # Errors
/// [`Fault::NotWell`] if any copy is bad.
pub async fn run(args: Args, database: &Database, place: &Place) -> Result<(), Fault> {
    let _executing = database.session.execute("validate");
    let parts = parts(args.file.as_deref(), database)?;
    let copies = if args.primary { Copies::Primary } else { Copies::All };
    let total = parts.iter().map(|p| p.mounted.group.bytes_of(&p.numbers)).sum();
    let bar = Progress::new("read", total, args.format == Format::Json);
    let done = AtomicU64::new(0);
    let progress = |bytes: u64| bar.set(done.fetch_add(bytes, Ordering::Relaxed) + bytes);
    let mut reports = Vec::new();
    for part in parts {
        let group = &part.mounted.group;
        let start = place.env.now();
        let findings = group.validate(&part.numbers, copies, &progress).await;
        if findings.is_err() {
            bar.finish();
        }
        let took = place.env.now().since(start);
        let tables = match args.file {
            None => tables(database, group).await,
            Some(_) => Vec::new(),
        };
        let has_rows = part.mounted.number == 1 && args.file.is_none();
        let rows = match has_rows {
            true => rows::checked(database, args.format == Format::Json).await,
            false => None,
        };
        let disks = group.disks().into_iter();
        reports.push(Report {
            group: group.name().to_owned(),
            findings: findings?,
            metadata: group.check().err(),
            absent: disks.filter(|d| !d.in_sync).map(|d| d.name).collect(),
            took,
            lost: lost(group, &part.names),
            tables,
            rows,
            names: part.names,
        });
    }
    bar.finish();
    let all = args.file.is_none() && !args.primary;
    let dir = database.inner.directory().path();
    let now = place.env.wall().unix_nanos / 1_000_000_000;
    for report in &reports {
        keep(report, dir, all, now);
    }
    match args.format {
        Format::Json => output::json(&reports.iter().map(as_json).collect::<Vec<_>>())?,
        Format::Table => {
            for report in &reports {
                output::text(&as_text(report, args.primary))?;
                output::text(&next(report, dir))?;
            }
        }
    }
    match reports.iter().any(Report::is_bad) {
        true => Err(Fault::NotWell),
        false => Ok(()),
    }
}

/// Tables whose files have correct checksums but wrong contents.
async fn tables(database: &Database, group: &cellar_diskgroup::Group) -> Vec<(String, String)> {
    let whole = group.taken_older().files;
    let found = database.inner.tables().check_tables(group.name(), &whole).await.into_iter();
    found.map(|(table, error)| (table, first_line(&error))).collect()
}

fn first_line(error: &cellar_instance::Error) -> String {
    error.stack().first().map_or_else(String::new, |entry| entry.message.clone())
}

/// The requested files with lost parts.
fn lost(group: &cellar_diskgroup::Group, asked: &BTreeMap<u32, String>) -> Vec<String> {
    let lost = group.copied().lost.into_iter().map(|path| format!("+{}/{path}", group.name()));
    lost.filter(|path| asked.values().any(|name| name.eq_ignore_ascii_case(path))).collect()
}

/// Keeps the findings for `status`; `all` for a full check.
fn keep(report: &Report, dir: &Path, all: bool, now: u64) {
    let bad = Bad::of(&report.findings, report.metadata.is_some(), report.bad_tables(), now);
    let extent = if all { report.extent() } else { Extent::Part };
    match checked::keep(dir, &report.group, bad, extent, now) {
        Ok(notice) => {
            notice.into_iter().for_each(|notice| output::notice(&format!("Notice: {notice}")));
        }
        Err(error) => output::notice(&format!(
            "Notice: status will not know of this: {}/validate.json: {error}",
            dir.display()
        )),
    }
}

/// What to do about the damage.
fn next(report: &Report, dir: &Path) -> String {
    if !report.is_bad() {
        return String::new();
    }
    let dir = cellar_io::shell::path(dir);
    let f = &report.findings;
    let mut words = Vec::new();
    let of = |wanted: &dyn Fn(&FileVerdict) -> bool| -> Vec<String> {
        let files = f.verdicts.iter().filter(|(_, v)| wanted(v));
        files.map(|(file, _)| name_of(report, *file)).collect()
    };
    let (mendable, undecided) = (of(&|v| v.mendable > 0), of(&|v| v.undecided > 0));
    let (away, lost) = (of(&|v| v.offline > 0), of(&|v| v.lost > 0));
    let scrub = format!("cellar asm {dir} scrub --repair --wait");
    if !mendable.is_empty() {
        let blocks: u64 = f.verdicts.values().map(|v| v.mendable).sum();
        words.push(format!(
            "of {} bad blocks of {} another copy is right: {scrub} writes it over the bad one",
            show_count(blocks),
            some(&mendable)
        ));
    }
    if !undecided.is_empty() {
        words.push(format!(
            "copies of {} differ, and no checksum tells which is right: {scrub} decides where it \
             can, and says where it cannot",
            some(&undecided)
        ));
    }
    if !away.is_empty() {
        words.push(format!(
            "the other copy of parts of {} is on {}: bring that back first",
            some(&away),
            report.absent.join(", ")
        ));
    }
    if !lost.is_empty() {
        words.push(format!(
            "no copy of parts of {} is right: put back what you kept of it, or load it again",
            some(&lost)
        ));
    }
    if !report.lost.is_empty() {
        words.push(format!(
            "bring the disks back, or delete and load again what is lost: {}",
            report.lost.join(", ")
        ));
    }
    if !report.tables.is_empty() {
        let names: Vec<String> = report.tables.iter().map(|(table, _)| table.clone()).collect();
        words.push(format!("DROP TABLE and load again what cannot be read: {}", some(&names)));
    }
    words.extend(report.rows.iter().flat_map(rows::next));
    if report.metadata.is_some() {
        words.push(format!(
            "the metadata is wrong: copy out what matters (cellar asm {dir} cp \
             +{}/FILE PATH) and make the database anew",
            report.group
        ));
    }
    if f.checksums_wrong + f.unreadable_bytes > 0 {
        let disks = f.bad_disks.keys().map(String::as_str).collect::<Vec<_>>().join(" and ");
        words.push(format!("dmesg and smartctl tell of the device below {disks}"));
    }
    words.push(format!("then cellar validate {dir} again: status says DAMAGED until it is well"));
    output::labelled("Next:", &words.join("; "))
}

fn parts(file: Option<&str>, database: &Database) -> Result<Vec<Part>, Fault> {
    let Some(file) = file else {
        let groups = database.inner.groups().into_iter();
        return Ok(groups
            .map(|mounted| {
                let names = names(&mounted);
                let numbers = names.keys().copied().collect();
                Part { mounted, names, numbers }
            })
            .collect());
    };
    let Some((group, path)) = split_group_path(file) else {
        return Err(Fault::usage(format!(
            "--file \"{file}\" is no path in a disk group; write it as +DATA/{file}"
        )));
    };
    let mounted = database.inner.group(&group)?;
    let number = mounted.group.open(&path)?.number();
    let names = BTreeMap::from([(number, file.to_owned())]);
    Ok(vec![Part { mounted, names, numbers: vec![number] }])
}

/// Every file of a group, with one of its names.
fn names(mounted: &Mounted) -> BTreeMap<u32, String> {
    let group = mounted.group.name();
    let files = mounted.group.files().into_iter();
    files
        .map(|f| {
            let path = f.names.into_iter().next();
            let path = path.unwrap_or_else(|| format!("{}.{}", f.number, f.incarnation));
            (f.number, format!("+{group}/{path}"))
        })
        .collect()
}

fn as_text(report: &Report, primary: bool) -> String {
    let f = &report.findings;
    let copies = match (primary, report.extent()) {
        (true, _) => "one copy",
        (false, Extent::All) => "every copy",
        (false, _) => "what is there",
    };
    let files = if f.files == 1 { "file" } else { "files" };
    let gigabytes = f.bytes_read as f64 / 1e9 / report.took.as_secs_f64().max(1e-9);
    let unreadable = match f.unreadable_bytes {
        0 => "0 unreadable".to_owned(),
        bytes => format!("{} unreadable", show_bytes(bytes)),
    };
    let mut lines = vec![
        format!(
            "{}, {copies} of {} {files}, in {} ({gigabytes:.2} GB/s)",
            show_bytes(f.bytes_read),
            show_count(f.files),
            show_duration(report.took)
        ),
        format!(
            "{} checksums: {} wrong, {unreadable}, {} copies that differ",
            show_count(f.checksums_right + f.checksums_wrong),
            show_count(f.checksums_wrong),
            show_count(f.pieces_differing)
        ),
    ];
    if primary {
        lines.push("copies were not compared (--primary)".to_owned());
    }
    if f.checksums_unknown > 0 {
        lines.push(format!(
            "{} blocks of 4 KB have no known checksum",
            show_count(f.checksums_unknown)
        ));
    }
    if f.dirty_pieces > 0 {
        lines.push(format!(
            "{} pieces of 64 KB were being written at a crash, {} of them differ:",
            show_count(f.dirty_pieces),
            show_count(f.dirty_pieces_differing)
        ));
        lines.push("  not counted above; the next mount that writes makes them equal".to_owned());
    }
    if f.absent_bytes > 0 {
        lines.push(format!("{} of copies are not there to read", show_bytes(f.absent_bytes)));
    }
    if !report.lost.is_empty() {
        lines.push(format!("no copy is left of parts of {}", report.lost.join(", ")));
    }
    if !report.absent.is_empty() {
        lines.push(format!("not in use: {}", report.absent.join(", ")));
    }
    lines.extend(report.tables.iter().map(|(_, why)| why.clone()));
    lines.extend(report.rows.iter().flat_map(rows::lines));
    if let Some(what) = &report.metadata {
        lines.push(format!("metadata is WRONG: {what}"));
    }
    let mut out = String::new();
    for (at, line) in lines.iter().enumerate() {
        let head = if at == 0 { report.group.as_str() } else { "" };
        out.push_str(&format!("{head:<8} {line}\n"));
    }
    out.push_str(&bad_places(report));
    out
}

fn bad_places(report: &Report) -> String {
    let places = &report.findings.places;
    let mut out = String::new();
    for place in places.iter().take(PLACES_SHOWN) {
        let name = name_of(report, place.file);
        out.push_str(&format!(
            "  BAD    {name} at {}: {} ({})\n",
            place.offset, place.what, place.disk
        ));
    }
    let shown = places.len().min(PLACES_SHOWN) as u64;
    let more = report.findings.places_found.saturating_sub(shown);
    if more > 0 {
        out.push_str(&format!("  and {} more places\n", show_count(more)));
    }
    out
}

fn name_of(report: &Report, file: u32) -> String {
    let name = report.names.get(&file).cloned();
    name.unwrap_or_else(|| format!("+{}/{file}", report.group))
}

fn as_json(report: &Report) -> Value {
    let f = &report.findings;
    let places = f.places.iter().take(PLACES_SHOWN);
    let places: Vec<Value> = places
        .map(|p| {
            json!({
                "file": name_of(report, p.file),
                "offset": p.offset,
                "disk": p.disk,
                "what": p.what,
            })
        })
        .collect();
    let verdicts = f.verdicts.iter().map(|(file, v)| {
        json!({
            "file": name_of(report, *file),
            "mendable_blocks": v.mendable,
            "undecided_blocks": v.undecided,
            "away_blocks": v.offline,
            "lost_blocks": v.lost,
        })
    });
    let verdicts: Vec<Value> = verdicts.collect();
    json!({
        "group": report.group,
        "bad": report.is_bad(),
        "files": f.files,
        "bytes_read": f.bytes_read,
        "seconds": report.took.as_secs_f64(),
        "checksums_right": f.checksums_right,
        "checksums_wrong": f.checksums_wrong,
        "checksums_unknown": f.checksums_unknown,
        "unreadable_bytes": f.unreadable_bytes,
        "pieces_differing": f.pieces_differing,
        "absent_bytes": f.absent_bytes,
        "absent_disks": report.absent,
        "dirty_pieces": f.dirty_pieces,
        "dirty_pieces_differing": f.dirty_pieces_differing,
        "metadata": report.metadata,
        "lost": report.lost,
        "tables": report.tables.iter().map(|(table, why)| json!({"table": table, "why": why}))
            .collect::<Vec<_>>(),
        "rows": report.rows.as_ref().map(rows::as_json),
        "places": places,
        "places_found": f.places_found,
        "verdicts": verdicts,
    })
}

#[cfg(test)]
mod tests {
    use cellar_diskgroup::BadPlace;

    use super::*;

    fn report(findings: Findings) -> Report {
        Report {
            group: "DATA".into(),
            names: BTreeMap::from([(257, "+DATA/a".to_owned())]),
            findings,
            metadata: None,
            absent: vec![],
            lost: vec![],
            tables: vec![],
            rows: None,
            took: Duration::from_secs(2),
        }
    }

    #[test]
    fn a_good_report_has_two_lines_and_its_speed() {
        let good = report(Findings {
            files: 1,
            bytes_read: 1_200_000_000,
            checksums_right: 316_416,
            ..Findings::default()
        });
        assert!(!good.is_bad());
        assert_eq!(
            as_text(&good, false),
            "DATA     1.2 GB, every copy of 1 file, in 2.0 s (0.60 GB/s)\n         \
             316 416 checksums: 0 wrong, 0 unreadable, 0 copies that differ\n"
        );
    }

    #[test]
    fn every_copy_is_not_said_where_one_is_missing() {
        let mut away = report(Findings { absent_bytes: 1 << 20, ..Findings::default() });
        away.absent = vec!["DATA_0001".into()];
        let text = as_text(&away, false);
        assert!(text.contains("what is there of 0 files") && !text.contains("every"), "{text}");
    }

    #[test]
    fn bad_places_are_named_twenty_at_most() {
        let place = |offset| BadPlace {
            file: 257,
            offset,
            disk: "DATA_0001".into(),
            what: "checksum is wrong",
        };
        let bad = report(Findings {
            checksums_wrong: 25,
            places: (0..25).map(place).collect(),
            places_found: 2_500,
            ..Findings::default()
        });
        let text = as_text(&bad, true);
        assert!(bad.is_bad());
        assert!(text.contains("BAD    +DATA/a at 0: checksum is wrong (DATA_0001)\n"), "{text}");
        assert_eq!(text.matches("BAD").count(), 20);
        assert!(text.contains("and 2 480 more places"), "{text}");
        assert!(text.contains("not compared"));
        assert_eq!(as_json(&bad)["places"].as_array().map(Vec::len), Some(20));
    }

    #[test]
    fn what_to_do_depends_on_whether_a_good_copy_is_left() {
        let with = |verdict: FileVerdict| {
            let bad_disks = BTreeMap::from([("A".to_owned(), 1)]);
            let verdicts = BTreeMap::from([(257, verdict)]);
            let mut report =
                report(Findings { checksums_wrong: 1, bad_disks, verdicts, ..Findings::default() });
            report.absent = vec!["B".to_owned()];
            report
        };
        let words = |report: &Report| next(report, Path::new("db")).replace("\n         ", " ");
        assert_eq!(words(&report(Findings::default())), "");
        let none = FileVerdict::default();
        // However many there are.
        for mendable in [1, 21, 1001, 1_000_000] {
            let told = words(&with(FileVerdict { mendable, ..none }));
            assert!(told.contains("cellar asm db scrub --repair --wait writes it"), "{told}");
            assert!(told.contains("below A") && !told.contains("load it again"), "{told}");
        }
        let told = words(&with(FileVerdict { lost: 1, ..none }));
        assert!(told.contains("load it again") && !told.contains("scrub"), "{told}");
        let told = words(&with(FileVerdict { offline: 1, ..none }));
        assert!(told.contains("is on B: bring that back"), "{told}");
        let told = words(&with(FileVerdict { undecided: 1, ..none }));
        assert!(told.contains("scrub --repair --wait decides"), "{told}");
    }
}
