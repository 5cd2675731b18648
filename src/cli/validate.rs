//! `cellar validate`: reads every copy of everything, compares, writes nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cellar_instance::database::{Mounted, split_group_path};
use cellar_instance::diskgroup::{Copies, Findings};
use serde_json::{Value, json};

use super::database::{Database, Place};
use super::fault::Fault;
use super::output::{self, Format};
use super::progress::Progress;
use super::size::{show_bytes, show_count, show_duration};

/// Bad places that are named.
const PLACES_SHOWN: usize = 20;

/// Arguments of `validate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cellar validate cellar-demo                every copy of every file
  cellar validate cellar-demo --primary      one copy of each, as a scan reads
  cellar validate cellar-demo --file +DATA/lineitem.parquet
Exit 1 if any copy is bad. Nothing is written.")]
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

/// What is read of a group.
struct Part {
    mounted: Mounted,
    /// Files and what they are called.
    names: BTreeMap<u32, String>,
    numbers: Vec<u32>,
}

/// What was found in a group.
struct Report {
    group: String,
    names: BTreeMap<u32, String>,
    findings: Findings,
    /// What does not hold of the metadata.
    metadata: Option<String>,
    /// Disks that are not there or not in sync.
    absent: Vec<String>,
    took: Duration,
}

impl Report {
    fn is_bad(&self) -> bool {
        self.findings.is_bad() || self.metadata.is_some()
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
        let disks = group.disks().into_iter();
        reports.push(Report {
            group: group.name().to_owned(),
            findings: findings?,
            metadata: group.check().err(),
            absent: disks.filter(|d| !d.in_sync).map(|d| d.name).collect(),
            took: place.env.now().since(start),
            names: part.names,
        });
    }
    bar.finish();
    match args.format {
        Format::Json => output::json(&reports.iter().map(as_json).collect::<Vec<_>>())?,
        Format::Table => {
            for report in &reports {
                output::text(&as_text(report, args.primary))?;
            }
        }
    }
    match reports.iter().any(Report::is_bad) {
        true => Err(Fault::NotWell),
        false => Ok(()),
    }
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
    let copies = if primary { "one copy" } else { "every copy" };
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
    if !report.absent.is_empty() {
        lines.push(format!("not in use: {}", report.absent.join(", ")));
    }
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
    if places.len() > PLACES_SHOWN {
        out.push_str(&format!("  and more: {PLACES_SHOWN} places are shown\n"));
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
        "places": places,
    })
}

#[cfg(test)]
mod tests {
    use cellar_instance::diskgroup::BadPlace;

    use super::*;

    fn report(findings: Findings) -> Report {
        Report {
            group: "DATA".into(),
            names: BTreeMap::from([(257, "+DATA/a".to_owned())]),
            findings,
            metadata: None,
            absent: vec![],
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
            ..Findings::default()
        });
        let text = as_text(&bad, true);
        assert!(bad.is_bad());
        assert!(text.contains("BAD    +DATA/a at 0: checksum is wrong (DATA_0001)\n"), "{text}");
        assert_eq!(text.matches("BAD").count(), 20);
        assert!(text.contains("not compared"));
        assert_eq!(as_json(&bad)["places"].as_array().map(Vec::len), Some(20));
    }
}
