//! Results of the last `validate`, kept in DIR/validate.json: damage stays known, to every process, until
//! everything has been read again and found well.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cellar_diskgroup::Findings;
use cellar_storage::replace::replace_file;
use cellar_storage::size::{show_bytes, show_count};
use serde::{Deserialize, Serialize};

use super::LastScrub;

const FILE_NAME: &str = "validate.json";
/// Where a file goes that cannot be understood.
const BAD_NAME: &str = "validate.json.bad";

/// Held while the file is changed: two commands of this process may end at the same time, and each
/// writes what both know. It is short, and nobody else waits for it.
static CHANGING: Mutex<()> = Mutex::new(());

/// Everything that is kept.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    groups: Vec<Checked>,
}

/// What is known of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// The group.
    pub group: String,
    /// When every copy was read last, seconds since 1970.
    pub all_read_at: Option<u64>,
    /// When everything present was read since then, while copies were missing; likewise.
    #[serde(default)]
    pub rest_read_at: Option<u64>,
    /// What was bad and has not been found good since.
    pub bad: Option<Bad>,
}

/// How much a run read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// One file, or one copy of each.
    Part,
    /// Every copy that is there; others are missing.
    Rest,
    /// Every copy of everything.
    All,
}

impl Extent {
    /// What a run over every copy of everything could read.
    pub fn of(findings: &Findings, any_absent: bool) -> Extent {
        if any_absent || findings.absent_bytes > 0 { Extent::Rest } else { Extent::All }
    }
}

/// Damage that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bad {
    /// When, seconds since 1970.
    pub found_at: u64,
    /// Blocks of 4 KB with a wrong checksum.
    pub checksums_wrong: u64,
    /// Bytes that a disk could not read.
    pub unreadable_bytes: u64,
    /// Pieces of 64 KB of which two copies differ.
    pub pieces_differing: u64,
    /// Whether the metadata is wrong.
    pub metadata: bool,
    /// On which disks.
    pub disks: Vec<String>,
    /// Whether a scrub may mend all of it.
    #[serde(default)]
    pub mendable: bool,
    /// Tables whose files have the right checksums but do not hold what the table holds.
    #[serde(default)]
    pub tables: Vec<String>,
}

impl Bad {
    /// What findings say, and the tables that cannot be read; `None` if nothing is bad.
    pub fn of(findings: &Findings, metadata: bool, tables: Vec<String>, now: u64) -> Option<Bad> {
        if !findings.is_bad() && !metadata && tables.is_empty() {
            return None;
        }
        let disks = findings.bad_disks.keys().cloned().collect();
        let verdicts = findings.verdicts.values();
        let mendable =
            !metadata && tables.is_empty() && verdicts.clone().all(|v| v.offline + v.lost == 0);
        Some(Bad {
            found_at: now,
            checksums_wrong: findings.checksums_wrong,
            unreadable_bytes: findings.unreadable_bytes,
            pieces_differing: findings.pieces_differing,
            metadata,
            disks,
            mendable,
            tables,
        })
    }

    /// In words: 2 wrong checksums on DATA_0001.
    pub fn words(&self) -> String {
        let mut parts = Vec::new();
        if self.checksums_wrong > 0 {
            parts.push(format!("{} wrong checksums", show_count(self.checksums_wrong)));
        }
        if self.unreadable_bytes > 0 {
            parts.push(format!("{} unreadable", show_bytes(self.unreadable_bytes)));
        }
        // A block with a wrong checksum differs too: that is one finding.
        if self.pieces_differing > 0 && parts.is_empty() {
            parts.push(format!("{} copies that differ", show_count(self.pieces_differing)));
        }
        let metadata = self.metadata.then(|| "wrong metadata".to_owned());
        parts.extend(metadata);
        if !self.disks.is_empty() {
            parts = vec![format!("{} on {}", parts.join(", "), self.disks.join(", "))];
        }
        if !self.tables.is_empty() {
            parts.push(format!("tables that cannot be read: {}", self.tables.join(", ")));
        }
        parts.join("; ")
    }
}

/// How long ago, for people: 3 min ago, 2 h ago, 9 days ago.
pub fn ago(now: u64, then: u64) -> String {
    format!("{} ago", from_now(then, now))
}

/// How long it is until then, for people: 3 min, 2 h, 9 days.
pub fn from_now(now: u64, then: u64) -> String {
    match Duration::from_secs(then.saturating_sub(now)).as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86400),
    }
}

/// What is known of a group; nothing if the file cannot be read.
pub fn of(dir: &Path, group: &str) -> Checked {
    in_kept(&read(dir), group)
}

fn in_kept(kept: &Kept, group: &str) -> Checked {
    let found = kept.groups.iter().find(|c| c.group == group).cloned();
    found.unwrap_or_else(|| Checked { group: group.to_owned(), ..Checked::default() })
}

fn read(dir: &Path) -> Kept {
    let bytes = std::fs::read(dir.join(FILE_NAME)).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// Reads the file to change it. One that cannot be understood is moved aside and reported, so that
/// what it knew is not lost in silence.
fn read_to_change(dir: &Path) -> std::io::Result<(Kept, Option<String>)> {
    let path = dir.join(FILE_NAME);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((Kept::default(), None)),
        Err(error) => return Err(error),
    };
    match serde_json::from_slice(&bytes) {
        Ok(kept) => Ok((kept, None)),
        Err(error) => {
            let aside = dir.join(BAD_NAME);
            std::fs::rename(&path, &aside)?;
            let notice = format!(
                "{} cannot be understood ({error}): it is now {}, and status no longer knows what it \
                 said; find it again: cellar validate {}",
                path.display(),
                aside.display(),
                cellar_io::shell::path(dir)
            );
            Ok((Kept::default(), Some(notice)))
        }
    }
}

/// Stores what a run found in a group. A run that did not read every copy of everything clears nothing
/// that an earlier one found. Returns what else the user should know.
///
/// # Errors
/// The file cannot be read or written.
pub fn keep(
    dir: &Path,
    group: &str,
    bad: Option<Bad>,
    extent: Extent,
    now: u64,
) -> std::io::Result<Option<String>> {
    let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut kept, notice) = read_to_change(dir)?;
    let before = in_kept(&kept, group);
    let known = before.bad.clone().or_else(|| bad.clone());
    let after = match extent {
        Extent::All => {
            Checked { all_read_at: Some(now), rest_read_at: None, bad, ..before.clone() }
        }
        Extent::Rest => Checked { rest_read_at: Some(now), bad: known, ..before.clone() },
        Extent::Part => Checked { bad: known, ..before.clone() },
    };
    if after == before {
        return Ok(notice);
    }
    kept.groups.retain(|c| c.group != group);
    kept.groups.push(after);
    let content = serde_json::to_vec_pretty(&kept)?;
    replace_file(dir, FILE_NAME, &content).map_err(std::io::Error::other)?;
    Ok(notice)
}

/// When everything was last read, by a scrub or by `validate`, and when it will be next.
pub(super) fn words(
    known: &Checked,
    scrub: Option<&LastScrub>,
    next: Option<u64>,
    now: u64,
) -> String {
    let validated = known.rest_read_at.max(known.all_read_at).unwrap_or(0);
    let last = match scrub.filter(|scrub| scrub.ended >= validated) {
        None => validated_words(known, now),
        Some(scrub) => {
            let (ago, bytes) = (ago(now, scrub.ended), show_bytes(scrub.bytes_read));
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
        Some(next) => format!("{last}; next scrub in {}", from_now(now, next)),
    }
}

fn validated_words(known: &Checked, now: u64) -> String {
    let none_bad = if known.bad.is_none() { ", none bad" } else { "" };
    match (known.rest_read_at, known.all_read_at) {
        (Some(rest), _) => {
            format!("read {}{none_bad}, but not the copies that were missing", ago(now, rest))
        }
        (None, Some(all)) => format!("every copy read {}{none_bad}", ago(now, all)),
        (None, None) => "validate has not read every copy yet".to_owned(),
    }
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
    fn damage_is_known_until_everything_was_found_well() {
        let dir = tempfile::tempdir().unwrap();
        let bad = |now| Bad { found_at: now, checksums_wrong: 2, ..Bad::default() };
        assert_eq!(of(dir.path(), "DATA").all_read_at, None);
        keep(dir.path(), "DATA", None, Extent::All, 10).unwrap();
        keep(dir.path(), "OTHER", None, Extent::All, 11).unwrap();
        // Part of it is found bad, then another part well.
        keep(dir.path(), "DATA", Some(bad(20)), Extent::Part, 20).unwrap();
        keep(dir.path(), "DATA", None, Extent::Part, 30).unwrap();
        let known = of(dir.path(), "DATA");
        assert_eq!((known.all_read_at, known.bad), (Some(10), Some(bad(20))));
        // Nor does it count that the rest is well while the damaged disk is away.
        keep(dir.path(), "DATA", None, Extent::Rest, 35).unwrap();
        let known = of(dir.path(), "DATA");
        assert_eq!((known.all_read_at, known.rest_read_at), (Some(10), Some(35)));
        assert_eq!(known.bad, Some(bad(20)));
        keep(dir.path(), "DATA", None, Extent::All, 40).unwrap();
        let known = of(dir.path(), "DATA");
        assert_eq!((known.all_read_at, known.rest_read_at, known.bad), (Some(40), None, None));
        assert_eq!(of(dir.path(), "OTHER").all_read_at, Some(11));
    }

    #[test]
    fn only_a_run_that_misses_no_copy_has_read_all() {
        let whole = Findings::default();
        assert_eq!(Extent::of(&whole, false), Extent::All);
        assert_eq!(Extent::of(&whole, true), Extent::Rest);
        let missing = Findings { absent_bytes: 1, ..Findings::default() };
        assert_eq!(Extent::of(&missing, false), Extent::Rest);
    }

    #[test]
    fn a_file_that_cannot_be_understood_is_put_aside() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE_NAME), "{").unwrap();
        assert_eq!(of(dir.path(), "DATA").all_read_at, None);
        keep(dir.path(), "DATA", None, Extent::All, 10).unwrap();
        assert_eq!(of(dir.path(), "DATA").all_read_at, Some(10));
        assert_eq!(std::fs::read_to_string(dir.path().join(BAD_NAME)).unwrap(), "{");
        // What an earlier version wrote is understood.
        let old = r#"{"groups":[{"group":"DATA","all_read_at":7,"bad":null}]}"#;
        std::fs::write(dir.path().join(FILE_NAME), old).unwrap();
        keep(dir.path(), "DATA", None, Extent::Rest, 20).unwrap();
        let known = of(dir.path(), "DATA");
        assert_eq!((known.all_read_at, known.rest_read_at), (Some(7), Some(20)));
    }

    #[test]
    fn runs_that_end_together_lose_nothing_of_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        let groups: Vec<String> = (0..8).map(|at| format!("G{at}")).collect();
        std::thread::scope(|scope| {
            for group in &groups {
                scope.spawn(move || keep(path, group, None, Extent::All, 10).unwrap());
            }
        });
        for group in &groups {
            assert_eq!(of(path, group).all_read_at, Some(10), "{group}");
        }
    }

    #[test]
    fn damage_in_words_counts_a_block_once() {
        let bad = Bad {
            checksums_wrong: 2,
            pieces_differing: 1,
            disks: vec!["DATA_0001".into()],
            ..Bad::default()
        };
        assert_eq!(bad.words(), "2 wrong checksums on DATA_0001");
        let lost = Bad { tables: vec!["t".into()], ..bad };
        let words = "2 wrong checksums on DATA_0001; tables that cannot be read: t";
        assert_eq!(lost.words(), words);
        assert_eq!(ago(1000, 990), "10 s ago");
        assert_eq!(ago(90_000, 0), "25 h ago");
        assert_eq!(ago(0, 5), "0 s ago");
    }
}
