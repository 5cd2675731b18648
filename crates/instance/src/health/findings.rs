//! Findings: what needs attention in a group, and what to do about it.

use cellar_diskgroup::{DiskInfo, Group, ScrubResult};
use cellar_storage::Mounted;
use cellar_storage::size::{show_bytes, show_count};
use cellar_storage::words::some;

use super::checked::{self, Checked};
use super::{Finding, GroupHealth, LastScrub};
use crate::error::NextStep;
use crate::heap::Heap;
use crate::scrub::wrong_words;

/// The `asm` command that repairs what another copy still has.
const MEND: &str = "scrub --repair --wait";

pub(super) fn lost(status: &GroupHealth) -> Option<Finding> {
    let files = &status.files_lost;
    (!files.is_empty()).then(|| Finding {
        state: "DAMAGED",
        words: format!("no copy is left of parts of {}", some(files)),
        action: "bring the missing disks back, or delete these files and load them again".into(),
    })
}

/// FORCE had only older images of parts of some files.
pub(super) fn taken_older(status: &mut GroupHealth, group: &Group, now: u64) -> Option<Finding> {
    let older = group.taken_older();
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
        action: NextStep::from("see which tables can be read: ").cellar("validate", "").then(
            "; compare them with what you know; a table made anew (CREATE TABLE .. AS, DROP) is out \
             of this list",
        ),
    })
}

/// Since RECOVER FORCE, tables can only be read.
pub(super) fn ahead(mounted: &Mounted, heap: &Heap) -> Option<Finding> {
    (mounted.number == 1 && heap.is_ahead()).then(|| Finding {
        state: "DAMAGED",
        words: "tables can only be read: the redo log was opened by force, and pages have changes that it has lost"
            .into(),
        action: NextStep::from("copy the tables out (").cellar("start", "").then(
            ", then pg_dump; or COPY .. TO), look them over, and load them into a new database",
        ),
    })
}

/// What a crash left is being made equal.
pub(super) fn resyncs(left: u64) -> Finding {
    Finding {
        state: "RESYNC",
        words: format!("copies of {} are being compared", show_bytes(left)),
        action: "wait until it is done".into(),
    }
}

/// Disks that are much slower than the others.
pub(super) fn slow(disks: &[DiskInfo]) -> Option<Finding> {
    let (slow, others): (Vec<&DiskInfo>, Vec<&DiskInfo>) =
        disks.iter().filter(|d| d.in_sync).partition(|d| d.slow);
    let first = slow.first()?;
    let ms = |d: &DiskInfo| d.mean_us as f64 / 1000.0;
    let usual = others.iter().map(|d| ms(d)).fold(0.0, f64::max);
    let named: Vec<String> =
        slow.iter().map(|d| format!("{} ({:.1} ms a read)", d.name, ms(d))).collect();
    let is = if slow.len() == 1 { "is" } else { "are" };
    let name = &first.name;
    Some(Finding {
        state: "SLOW",
        words: format!(
            "{} {is} slow, others take at most {usual:.1} ms; reads avoid it where they can",
            some(&named)
        ),
        action: NextStep::from("see what it does: ")
            .cellar("asm", "iostat")
            .then("; to do without it for a while: ")
            .cellar("asm", &format!("offline -D {name}")),
    })
}

/// What disks did wrong since the mount, also where another copy helped.
pub(super) fn errors(status: &GroupHealth, group: &Group, disks: &[DiskInfo]) -> Option<Finding> {
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
    let action = NextStep::from("find and mend what else is bad: ")
        .cellar("asm", MEND)
        .then("; dmesg tells of the device");
    Some(Finding { state: "DAMAGED", words, action })
}

/// What a scrub could not repair, until another one or `validate` finds everything well.
pub(super) fn left_bad(
    group: &Group,
    known: &Checked,
    scrub: &ScrubResult,
    now: u64,
) -> Option<Finding> {
    let well_since = known.bad.is_none() && known.all_read_at.is_some_and(|at| at > scrub.ended);
    if scrub.found.left == 0 || well_since {
        return None;
    }
    let ago = checked::ago(now, scrub.ended);
    let action = match scrub.spec.repair {
        true => NextStep::from("write these parts again; which files they are in: ")
            .cellar("validate", ""),
        false => NextStep::from("mend it: ").cellar("asm", MEND),
    };
    let words = format!("scrub found {ago}: {}", wrong_words(group, scrub));
    Some(Finding { state: "DAMAGED", words, action })
}

/// What `validate` found, until it or a scrub finds everything well.
pub(super) fn found_bad(known: &Checked, scrub: Option<&LastScrub>, now: u64) -> Option<Finding> {
    let bad = known.bad.as_ref()?;
    if !bad.metadata && scrub.is_some_and(|s| s.ended >= bad.found_at && s.left == 0) {
        return None;
    }
    let ago = checked::ago(now, bad.found_at);
    let action = match bad.mendable {
        true => NextStep::from("mend it: ")
            .cellar("asm", MEND)
            .then("; see the files: ")
            .cellar("validate", ""),
        false => NextStep::from("see what to do, and when it is well: ").cellar("validate", ""),
    };
    let words = format!("validate found {ago}: {}", bad.words());
    Some(Finding { state: "DAMAGED", words, action })
}

/// Nothing can be written: because all is taken, or because too few failure groups are left.
pub(super) fn full(mounted: &Mounted) -> Finding {
    let group = &mounted.group;
    let info = group.info();
    let copies = usize::from(info.redundancy.copies());
    let left = group.losses().len();
    let (words, action) = if left < copies {
        (
            format!("no room: {copies} copies need {copies} failure groups, here: {left}"),
            "nothing can be written until the missing disks are back".into(),
        )
    } else {
        (
            "no room: nothing can be written".to_owned(),
            NextStep::from("see what takes the room: ")
                .cellar("asm", "du")
                .then("; ")
                .cellar("asm", &format!("rm +{}/FILE", info.name)),
        )
    };
    Finding { state: "FULL", words, action }
}

pub(super) fn count(disk: &DiskInfo, name: &str) -> u64 {
    disk.counters.get(name).copied().unwrap_or(0)
}
