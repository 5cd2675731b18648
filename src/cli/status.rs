//! `cellar status`: how the groups are, what to do, and what may fail next.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cellar_diskgroup::{DiskInfo, Group, OfflineDisk, ScrubResult};
use cellar_instance::Mounted;
use cellar_instance::database::NoDisk;
use cellar_instance::error::{Entry, Error};
use cellar_instance::scrub::wrong_words;
use cellar_io::shell;
use cellar_storage::redo::Redo;
use serde::Serialize;

use super::checked::{self, Checked};
use super::database::{Database, Place};
use super::fault::{Fault, told_where};
use super::missing::{self, Seen};
use super::outlook;
use super::output::{self, Format};
use super::redo;
use super::size::{show_bytes, show_count, show_room};
use super::spares::{self, UnfitSpare};

/// Names that are told one by one.
const NAMES_SHOWN: usize = 4;

/// Arguments of `status`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  cellar status cellar-demo
  cellar status cellar-demo --format json && echo well
  cellar status cellar-demo --alert ./tell-me.sh
With --alert it stays, and runs the command whenever something has changed,
also while it did not run: with CELLAR_GROUP, CELLAR_STATE, CELLAR_WAS,
CELLAR_WORDS, CELLAR_ACTION, CELLAR_SAFE and CELLAR_DIR set, and all of it as
JSON on standard input. With --once, as from cron, it looks once.
Exit code 0: every group is whole and can be written. 1: something needs a
look, and \"action\" says what to do.")]
pub struct Args {
    /// The database; $CELLAR_DIR if it is left out.
    pub dir: Option<PathBuf>,
    /// For people or for a program.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The same as --format json.
    #[arg(long)]
    pub json: bool,
    /// Stay, and run this command at every change of state.
    #[arg(long, value_name = "CMD")]
    pub alert: Option<String>,
    /// How often --alert looks.
    #[arg(long, value_name = "TIME", default_value = "10s", requires = "alert",
        value_parser = super::alert::every)]
    pub every: Duration,
    /// With --alert: look once, and end as status does.
    #[arg(long, requires = "alert")]
    pub once: bool,
}

impl Args {
    fn is_json(&self) -> bool {
        self.json || self.format == Format::Json
    }
}

/// How one group is.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GroupStatus {
    /// Its name, if it is known.
    pub group: Option<String>,
    /// WHOLE, or the worst of NOT MOUNTED, STOPPED, DAMAGED, DEGRADED, SLOW, RESYNC, FULL.
    pub state: &'static str,
    /// All of these that hold, the worst first; none where nothing needs a look.
    pub states: Vec<&'static str>,
    /// In words.
    pub words: String,
    /// What to do; `None` when nothing.
    pub action: Option<String>,
    /// Why it cannot be mounted, the whole stack.
    pub error: Option<String>,
    /// Work under way.
    pub work: Option<String>,
    /// What another failure would cost.
    pub safe: String,
    /// Disks that are not in sync.
    pub disks_missing: Vec<String>,
    /// Disks that are so much slower than the others that reads avoid them.
    pub disks_slow: Vec<String>,
    /// Failure groups whose loss now, whether or not anybody has the group mounted, loses nothing.
    pub may_be_lost: Vec<String>,
    /// Failure groups whose loss would lose data now.
    pub critical: Vec<String>,
    /// Files with extents of which only some copies are there.
    pub files_lowered: usize,
    /// Files with extents without any copy.
    pub files_lost: Vec<String>,
    /// Files that FORCE took from older images of disks.
    pub files_older: Vec<String>,
    /// Wrong checksums read since the group was mounted.
    pub checksum_errors: u64,
    /// Reads and writes that a disk refused since the group was mounted.
    pub io_errors: u64,
    /// Bytes of files that can be written now.
    pub writable_bytes: u64,
    /// What `validate` found last; `None` where the group is not there.
    pub checked: Option<Checked>,
    /// The last scrub of the whole group, if there was one.
    pub last_scrub: Option<LastScrub>,
    /// When the next one begins by itself, seconds since 1970; `None`: never.
    pub next_scrub: Option<u64>,
    /// The redo log of the database, in words, where its control file is in this group.
    pub redo: Option<String>,
    /// Disks that wait to take the place of one that fails, and could.
    pub hot_spares: Vec<String>,
    /// Those that are named for it and will not do for every disk, with the reason.
    pub unfit_spares: Vec<UnfitSpare>,
    /// The numbers of that stack.
    #[serde(skip)]
    pub numbers: Vec<String>,
    /// When all was read last, in words.
    #[serde(skip)]
    pub checked_words: String,
}

impl GroupStatus {
    /// Whether nothing needs a look.
    pub fn is_well(&self) -> bool {
        self.state == "WHOLE"
    }
}

/// A scrub that came to its end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LastScrub {
    /// When, seconds since 1970.
    pub ended: u64,
    /// How long it worked, in seconds.
    pub took: f64,
    /// Bytes of copies that were read.
    pub bytes_read: u64,
    /// Bytes of copies that were not there to be read.
    pub bytes_absent: u64,
    /// Faults that were found.
    pub wrong: u64,
    /// Faults that were repaired.
    pub repaired: u64,
    /// Faults that could not be repaired.
    pub left: u64,
}

impl LastScrub {
    fn of(result: &ScrubResult) -> LastScrub {
        let found = &result.found;
        LastScrub {
            ended: result.ended,
            took: result.took.as_secs_f64(),
            bytes_read: found.bytes_read,
            bytes_absent: found.absent_bytes,
            wrong: found.wrong().sum(),
            repaired: found.repaired,
            left: found.left,
        }
    }
}

/// Something that needs a look.
pub(super) struct Finding {
    pub(super) state: &'static str,
    pub(super) words: String,
    pub(super) action: String,
}

/// How a group is now. `no_disks`: where one that it misses may be; `dir` is for the commands it
/// names.
pub fn of(mounted: &Mounted, redo: &Redo, no_disks: &[NoDisk], dir: &Path) -> GroupStatus {
    let group = &mounted.group;
    let info = group.info();
    let disks = group.disks();
    let gone: Vec<&DiskInfo> = disks.iter().filter(|d| !d.in_sync).collect();
    let resync = group.resync();
    let losses = outlook::losses(mounted, redo);
    let harmless = losses.iter().filter(|l| l.is_harmless() && info.redundancy.copies() > 1);
    let copied = group.copied();
    // What a disk did that has left is told by its leaving.
    let counted =
        |name: &str| -> u64 { disks.iter().filter(|d| d.in_sync).map(|d| count(d, name)).sum() };
    let mut status = GroupStatus {
        group: Some(info.name.clone()),
        state: "WHOLE",
        safe: outlook::safe(mounted, redo),
        disks_missing: gone.iter().map(|d| d.name.clone()).collect(),
        disks_slow: disks.iter().filter(|d| d.slow).map(|d| d.name.clone()).collect(),
        may_be_lost: harmless.map(|l| l.failgroup.clone()).collect(),
        critical: losses.iter().filter(|l| l.data).map(|l| l.failgroup.clone()).collect(),
        files_lowered: copied.lowered,
        files_lost: copied.lost.iter().map(|path| format!("+{}/{path}", info.name)).collect(),
        checksum_errors: counted("checksum_errs"),
        io_errors: counted("read_errs") + counted("write_errs"),
        writable_bytes: info.writable_mb << 20,
        ..GroupStatus::default()
    };
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(info.stopped.as_ref().map(|why| Finding {
        state: "STOPPED",
        words: why.clone(),
        action: "bring the disks back, then run any command: it mounts again".into(),
    }));
    findings.extend(lost(&status));
    let now = group.env().wall().unix_nanos / 1_000_000_000;
    findings.extend(taken_older(&mut status, group, now, dir));
    let operation = group.operation();
    let away = group.away_disks();
    (status.work, status.redo) = (work(mounted, &away), redo::words(mounted, redo));
    let seen = Seen { group, offline: &away, gone: &gone, no_disks, dir };
    findings.extend(missing::finding(&status, &seen));
    findings.extend(errors(&status, group, &disks, dir));
    let known = checked::of(dir, &info.name);
    let scrub = group.last_scrub();
    (status.last_scrub, status.next_scrub) =
        (scrub.as_ref().map(LastScrub::of), group.next_scrub());
    findings.extend(found_bad(&known, status.last_scrub.as_ref(), now, dir));
    findings.extend(scrub.and_then(|scrub| left_bad(group, &known, &scrub, now, dir)));
    let last = status.last_scrub.as_ref();
    status.checked_words = checked_words(&known, last, status.next_scrub, now);
    status.checked = Some(known);
    findings.extend(slow(&disks, dir));
    findings.extend((resync.bytes_left > 0).then(|| resyncs(resync.bytes_left)));
    if info.writable_mb == 0 && info.stopped.is_none() {
        findings.push(full(mounted, dir));
    }
    findings.extend(redo::finding(mounted, redo));
    status.words = format!("{} disks, all in sync", disks.len());
    if operation.is_some_and(|now| now.power == 0) {
        status.action = Some(format!(
            "go on with the rebalance, which was stopped: cellar asm {} rebal --power 1",
            shell::path(dir)
        ));
    }
    if let [worst, ..] = &findings[..] {
        status.state = worst.state;
        status.states = findings.iter().map(|f| f.state).collect();
        status.words = joined(findings.iter().map(|f| f.words.as_str()));
        let action = joined(findings.iter().map(|f| f.action.as_str()));
        status.action = Some(told_where(&action, dir));
    }
    status
}

/// Work under way, in words.
fn work(mounted: &Mounted, away: &[OfflineDisk]) -> Option<String> {
    let left = mounted.group.resync().bytes_left;
    let resync = (left > 0).then(|| format!("resync after a crash, {} left", show_bytes(left)));
    let rebalance = mounted.group.operation().map(|operation| {
        let percent = (operation.done * 100).checked_div(operation.total);
        let percent = percent.map_or(String::new(), |percent| format!(", {percent} %"));
        match (&operation.error, operation.power) {
            (Some(error), _) => format!("rebalance does not go on: {error}"),
            (None, 0) => "rebalance, stopped by power 0".to_owned(),
            (None, power) => format!("rebalance at power {power}{percent}"),
        }
    });
    let returns = mounted.group.returns();
    // Nothing goes on where nobody writes.
    let waits = mounted.group.is_read_only();
    let back = returns.iter().map(|r| {
        let percent = (r.bytes_done * 100).checked_div(r.bytes_total).unwrap_or(0);
        let total = show_bytes(r.bytes_total);
        match &r.error {
            Some(error) => format!("{} does not get what it missed: {error}", r.name),
            None if waits => {
                format!(
                    "{} lacks {} that it missed",
                    r.name,
                    show_bytes(r.bytes_total - r.bytes_done)
                )
            }
            None => format!("{} gets the {total} that it missed, {percent} %", r.name),
        }
    });
    let scrub = mounted.group.scrubbing().map(|scrub| {
        let percent = (scrub.bytes_done * 100).checked_div(scrub.bytes_total).unwrap_or(0);
        match scrub.waits {
            Some(what) => format!("scrub, {percent} %, waits for {what}"),
            None => format!("scrub, {percent} %"),
        }
    });
    let all = resync.into_iter().chain(back).chain(rebalance).chain(scrub);
    let all = all.chain(missing::repair_words(away));
    let all: Vec<String> = all.collect();
    (!all.is_empty()).then(|| all.join("; "))
}

fn count(disk: &DiskInfo, name: &str) -> u64 {
    disk.counters.get(name).copied().unwrap_or(0)
}

fn joined<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    parts.collect::<Vec<_>>().join("; ")
}

/// The first names of many.
pub(super) fn some(names: &[String]) -> String {
    match names.len() > NAMES_SHOWN {
        true => {
            format!("{} and {} more", names[..NAMES_SHOWN].join(", "), names.len() - NAMES_SHOWN)
        }
        false => names.join(", "),
    }
}

fn lost(status: &GroupStatus) -> Option<Finding> {
    let files = &status.files_lost;
    (!files.is_empty()).then(|| Finding {
        state: "DAMAGED",
        words: format!("no copy is left of parts of {}", some(files)),
        action: "bring the missing disks back, or delete these files and load them again".into(),
    })
}

/// FORCE had but older images of parts of some files.
fn taken_older(status: &mut GroupStatus, group: &Group, now: u64, dir: &Path) -> Option<Finding> {
    let (older, dir) = (group.taken_older(), shell::path(dir));
    let paths = older.files.iter().map(|path| format!("+{}/{path}", group.name()));
    let paths: Vec<String> = paths.collect();
    status.files_older.clone_from(&paths);
    let files = &paths;
    if files.is_empty() {
        return None;
    }
    let more = if older.more > 0 { " at least" } else { "" };
    let count = show_count(files.len() as u64);
    let were = if files.len() == 1 { "file was" } else { "files were" };
    Some(Finding {
        state: "DAMAGED",
        words: format!(
            "FORCE went on with older images of disks {}:{more} {count} {were} only there, and \
             what was written to them later may be lost: {}",
            checked::ago(now, older.at),
            some(&paths)
        ),
        action: format!(
            "see which tables can be read: cellar validate {dir}; compare them with what you \
             know; a table made anew (CREATE TABLE .. AS, DROP) is out of this list"
        ),
    })
}

/// What a crash left is being made equal.
fn resyncs(left: u64) -> Finding {
    Finding {
        state: "RESYNC",
        words: format!("copies of {} are being compared", show_bytes(left)),
        action: "wait until it is done".into(),
    }
}

/// Disks that are much slower than the others.
fn slow(disks: &[DiskInfo], dir: &Path) -> Option<Finding> {
    let (slow, others): (Vec<&DiskInfo>, Vec<&DiskInfo>) =
        disks.iter().filter(|d| d.in_sync).partition(|d| d.slow);
    let first = slow.first()?;
    let ms = |d: &DiskInfo| d.mean_us as f64 / 1000.0;
    let usual = others.iter().map(|d| ms(d)).fold(0.0, f64::max);
    let named: Vec<String> =
        slow.iter().map(|d| format!("{} ({:.1} ms a read)", d.name, ms(d))).collect();
    let is = if slow.len() == 1 { "is" } else { "are" };
    let (dir, name) = (shell::path(dir), &first.name);
    Some(Finding {
        state: "SLOW",
        words: format!(
            "{} {is} slow, others take at most {usual:.1} ms; reads avoid it where they can",
            some(&named)
        ),
        action: format!(
            "see what it does: cellar asm {dir} iostat; to do without it for a while: cellar asm \
             {dir} offline -D {name}"
        ),
    })
}

/// What disks did wrong since the mount, also where another copy helped.
fn errors(status: &GroupStatus, group: &Group, disks: &[DiskInfo], dir: &Path) -> Option<Finding> {
    // What a scrub has mended, or found to be mended, needs no look any more.
    let since = |d: &&DiskInfo| d.in_sync && group.errors_since_scrub(d.number) > 0;
    if status.checksum_errors + status.io_errors == 0 || !disks.iter().any(|d| since(&d)) {
        return None;
    }
    let bad = |d: &&DiskInfo| {
        let names = ["checksum_errs", "read_errs", "write_errs"];
        d.in_sync && names.iter().any(|name| count(d, name) > 0)
    };
    let names: Vec<String> = disks.iter().filter(bad).map(|d| d.name.clone()).collect();
    let repaired: u64 = disks.iter().map(|d| count(d, "repaired")).sum();
    let counted =
        [(status.checksum_errors, "wrong checksums"), (status.io_errors, "failed reads or writes")];
    let counted = counted.into_iter().filter(|(count, _)| *count > 0);
    let counted: Vec<String> =
        counted.map(|(count, what)| format!("{} {what}", show_count(count))).collect();
    let mut words = format!("{} since the mount, on {}", counted.join(", "), some(&names));
    if repaired > 0 {
        words.push_str(&format!(", {} repaired from another copy", show_count(repaired)));
    }
    let dir = shell::path(dir);
    let action = format!(
        "find and mend what else is bad: cellar asm {dir} scrub --repair --wait; dmesg tells of \
         the device"
    );
    Some(Finding { state: "DAMAGED", words, action })
}

/// What a scrub could not repair, until another one or `validate` finds everything well.
fn left_bad(
    group: &Group,
    known: &Checked,
    scrub: &ScrubResult,
    now: u64,
    dir: &Path,
) -> Option<Finding> {
    let well_since = known.bad.is_none() && known.all_read_at.is_some_and(|at| at > scrub.ended);
    if scrub.found.left == 0 || well_since {
        return None;
    }
    let (ago, dir) = (checked::ago(now, scrub.ended), shell::path(dir));
    let action = match scrub.spec.repair {
        true => format!("write these parts again; which files they are in: cellar validate {dir}"),
        false => format!("mend it: cellar asm {dir} scrub --repair --wait"),
    };
    let words = format!("scrub found {ago}: {}", wrong_words(group, scrub));
    Some(Finding { state: "DAMAGED", words, action })
}

/// What `validate` found, until it or a scrub finds everything well.
fn found_bad(known: &Checked, scrub: Option<&LastScrub>, now: u64, dir: &Path) -> Option<Finding> {
    let bad = known.bad.as_ref()?;
    if !bad.metadata && scrub.is_some_and(|s| s.ended >= bad.found_at && s.left == 0) {
        return None;
    }
    let (ago, dir) = (checked::ago(now, bad.found_at), shell::path(dir));
    let action = match bad.mendable {
        true => format!(
            "mend it: cellar asm {dir} scrub --repair --wait; see the files: cellar validate {dir}"
        ),
        false => format!("see what to do, and when it is well: cellar validate {dir}"),
    };
    let words = format!("validate found {ago}: {}", bad.words());
    Some(Finding { state: "DAMAGED", words, action })
}

/// When all was read last, by a scrub or by `validate`, and when it will be.
fn checked_words(
    known: &Checked,
    scrub: Option<&LastScrub>,
    next: Option<u64>,
    now: u64,
) -> String {
    let validated = known.rest_read_at.max(known.all_read_at).unwrap_or(0);
    let last = match scrub.filter(|scrub| scrub.ended >= validated) {
        None => validated_words(known, now),
        Some(scrub) => {
            let (ago, bytes) = (checked::ago(now, scrub.ended), show_bytes(scrub.bytes_read));
            let repaired = match (scrub.repaired, scrub.left) {
                (0, 0) => String::new(),
                (repaired, 0) => format!(", {} repaired", show_count(repaired)),
                (repaired, left) => {
                    format!(", {} repaired, {} left", show_count(repaired), show_count(left))
                }
            };
            let absent = match scrub.bytes_absent {
                0 => String::new(),
                bytes => format!(", and {} not there", show_bytes(bytes)),
            };
            let wrong = show_count(scrub.wrong);
            format!("last scrub {ago}, {wrong} wrong of {bytes}{absent}{repaired}")
        }
    };
    match next {
        None => format!("{last}; no scrub by itself: scrub_interval is 0"),
        Some(next) if next <= now => format!("{last}; a scrub is due"),
        Some(next) => format!("{last}; next scrub in {}", checked::from_now(now, next)),
    }
}

fn validated_words(known: &Checked, now: u64) -> String {
    let none_bad = if known.bad.is_none() { ", none bad" } else { "" };
    match (known.rest_read_at, known.all_read_at) {
        (Some(rest), _) => format!(
            "read {}{none_bad}, but not the copies that were missing",
            checked::ago(now, rest)
        ),
        (None, Some(all)) => format!("every copy read {}{none_bad}", checked::ago(now, all)),
        (None, None) => "validate has not read every copy yet".to_owned(),
    }
}

/// Nothing can be written: because all is taken, or because too few failure groups are left.
fn full(mounted: &Mounted, dir: &Path) -> Finding {
    let group = &mounted.group;
    let info = group.info();
    let copies = usize::from(info.redundancy.copies());
    let left = group.losses().len();
    let (words, action) = if left < copies {
        (
            format!("no room: {copies} copies need {copies} failure groups, here: {left}"),
            "nothing can be written until the missing disks are back".to_owned(),
        )
    } else {
        let (dir, name) = (shell::path(dir), &info.name);
        (
            "no room: nothing can be written".to_owned(),
            format!(
                "see what takes the room: cellar asm {dir} du; cellar asm {dir} rm +{name}/FILE"
            ),
        )
    };
    Finding { state: "FULL", words, action }
}

/// Runs `status`.
///
/// # Errors
/// [`Fault::NotWell`] when a group needs a look.
pub async fn run(args: &Args, database: &Database, _place: &Place) -> Result<(), Fault> {
    let mut groups = database.inner.groups();
    groups.sort_by_key(|m| m.number);
    let dir = database.inner.directory().path();
    let no_disks = database.inner.storage().groups().no_disks();
    let redo = database.inner.instance().redo();
    let mut all: Vec<GroupStatus> = groups.iter().map(|m| of(m, redo, no_disks, dir)).collect();
    let delay = database.inner.storage().groups().hot_spare_delay();
    for (status, mounted) in all.iter_mut().zip(&groups) {
        let spares = database.inner.storage().groups().judged_spares(mounted).await;
        spares::note(status, mounted, &spares, delay);
    }
    let others = super::database::not_mounted(&database.inner);
    all.extend(others.iter().map(|error| {
        let mut status = not_mounted(error);
        status.action = status.action.map(|action| told_where(&action, dir));
        status
    }));
    tell(args, &all)?;
    broken_tables(database).await?;
    if all.iter().all(GroupStatus::is_well) { Ok(()) } else { Err(Fault::NotWell) }
}

/// Tells which tables over files in place cannot be used now, and why.
async fn broken_tables(database: &Database) -> Result<(), Fault> {
    if database.host().tables().is_empty() {
        return Ok(());
    }
    for (table, error) in database.engine().await?.check_tables().await {
        let why = error.stack().last().map_or("", |entry| entry.message.as_str());
        output::notice(&format!("Notice: table {table} cannot be used now: {why}"));
    }
    Ok(())
}

fn tell(args: &Args, all: &[GroupStatus]) -> Result<(), Fault> {
    if args.is_json() {
        return output::json(&all);
    }
    all.iter().try_for_each(|status| output::text(&lines(status)))
}

/// Tells that the database cannot be opened; the fault that is left to report.
pub fn not_open(args: &Args, fault: Fault) -> Fault {
    let status = match &fault {
        Fault::Refused(error) => not_mounted(error),
        Fault::Failed(text) => GroupStatus {
            state: "NOT OPEN",
            words: fault.first_line(),
            error: Some(text.clone()),
            ..GroupStatus::default()
        },
        _ => return fault,
    };
    if !args.is_json() && status.group.is_none() {
        return fault;
    }
    match tell(args, &[status]) {
        Ok(()) => Fault::NotWell,
        Err(closed) => closed,
    }
}

/// A group that is not there, from the error that tells why.
fn not_mounted(error: &Error) -> GroupStatus {
    // The last line is the cause.
    let words = error.stack().last().map(Entry::reason).unwrap_or_default();
    let numbers = error.stack().iter().map(|entry| format!("CELLAR-{:05}", entry.number));
    let stack = error.stack().iter().map(ToString::to_string);
    let group = error.group().map(str::to_owned);
    GroupStatus {
        state: if group.is_some() { "NOT MOUNTED" } else { "NOT OPEN" },
        group,
        words: words.to_owned(),
        action: Some(error.next_step().unwrap_or("bring its disks back").to_owned()),
        error: Some(stack.collect::<Vec<_>>().join("\n")),
        numbers: numbers.collect(),
        safe: "unknown until it is mounted".to_owned(),
        ..GroupStatus::default()
    }
}

/// A status for people, 80 columns.
pub fn lines(status: &GroupStatus) -> String {
    let head = format!("{}  {}", status.state, status.words);
    let name = status.group.as_deref().unwrap_or("-");
    let mut text = output::labelled(name, &head);
    let mut put = |label: &str, words: &str| text.push_str(&output::labelled(label, words));
    put("action", status.action.as_deref().unwrap_or("none"));
    if status.error.is_some() {
        put("error", &status.numbers.join(", "));
        return text;
    }
    put("work", status.work.as_deref().unwrap_or("none"));
    put("safe", &status.safe);
    let room = show_room(status.writable_bytes >> 20);
    put("room", &format!("{room} can be written now"));
    if let Some(redo) = &status.redo {
        put("redo", redo);
    }
    spares::words(status).iter().for_each(|words| put("spares", words));
    if !status.checked_words.is_empty() {
        put("checked", &status.checked_words);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_copy_is_said_only_if_none_was_missing() {
        let words = |rest_read_at, all_read_at| {
            validated_words(&Checked { rest_read_at, all_read_at, ..Checked::default() }, 100)
        };
        assert_eq!(words(None, None), "validate has not read every copy yet");
        assert_eq!(words(None, Some(90)), "every copy read 10 s ago, none bad");
        let rest = "read 5 s ago, none bad, but not the copies that were missing";
        assert_eq!(words(Some(95), Some(90)), rest);
        assert_eq!(words(Some(95), None), rest);
    }

    #[test]
    fn long_words_break_at_80_columns() {
        let status = GroupStatus {
            group: Some("DATA".into()),
            state: "DEGRADED",
            words: "1 of 4 disks missing; every byte still has a copy".into(),
            action: Some("word ".repeat(40)),
            safe: "x".into(),
            writable_bytes: 1 << 30,
            ..GroupStatus::default()
        };
        let text = lines(&status);
        assert!(text.lines().all(|l| l.len() <= 80), "{text}");
        assert!(text.starts_with("DATA     DEGRADED  1 of 4"), "{text}");
        assert!(text.ends_with("room     1 024 MB can be written now\n"), "{text}");
    }

    #[test]
    fn a_group_that_is_not_there_is_told_with_its_cause_and_the_next_step() {
        let why = "without A it is not whole".to_owned();
        let error = cellar_diskgroup::Error::Incomplete { group: "DATA".to_owned(), why };
        let error = Error::from(error)
            .under(15017, "disk group \"DATA\" cannot be mounted")
            .of_group("DATA")
            .hint("bring A back");
        let status = not_mounted(&error);
        assert_eq!((status.group.as_deref(), status.state), (Some("DATA"), "NOT MOUNTED"));
        assert_eq!(status.action.as_deref(), Some("bring A back"));
        let text = lines(&status);
        assert!(text.starts_with("DATA     NOT MOUNTED  without A it is not whole\n"), "{text}");
        assert!(text.ends_with("error    CELLAR-15017, CELLAR-15040\n"), "{text}");
        assert!(!status.is_well());
    }
}
