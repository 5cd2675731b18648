//! `cellar status`: how the groups are, what to do, and what may fail next.

use std::path::PathBuf;

use cellar_instance::Mounted;
use serde::Serialize;

use super::database::{Database, Place};
use super::fault::Fault;
use super::output::{self, Format};
use super::size::show_bytes;

/// Arguments of `status`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  cellar status cellar-demo
  cellar status cellar-demo --format json && echo well
Exit code 0: every group is whole. 1: something needs a look.")]
pub struct Args {
    /// The database; $CELLAR_DIR if it is left out.
    pub dir: Option<PathBuf>,
    /// For people or for a program.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// How one group is.
#[derive(Clone, Debug, Serialize)]
pub struct GroupStatus {
    /// Its name.
    pub group: String,
    /// WHOLE, DEGRADED, RESYNC or STOPPED.
    pub state: &'static str,
    /// In words.
    pub words: String,
    /// What to do; `None` when nothing.
    pub action: Option<String>,
    /// Work under way.
    pub work: Option<String>,
    /// What another failure would cost.
    pub safe: String,
    /// Disks that are not in sync.
    pub disks_missing: Vec<String>,
    /// Failure groups whose loss would lose data now.
    pub critical: Vec<String>,
    /// Bytes of files that can be written now.
    pub writable_bytes: u64,
}

impl GroupStatus {
    /// Whether nothing needs a look.
    pub fn is_well(&self) -> bool {
        self.state == "WHOLE"
    }
}

/// How a group is now.
pub fn of(mounted: &Mounted) -> GroupStatus {
    let group = &mounted.group;
    let info = group.info();
    let disks = group.disks();
    let gone: Vec<&cellar_instance::diskgroup::DiskInfo> =
        disks.iter().filter(|d| !d.in_sync).collect();
    let resync = group.resync();
    let critical = group.critical_failgroups();
    let (state, words) = if let Some(why) = &info.stopped {
        ("STOPPED", why.clone())
    } else if !gone.is_empty() {
        let words =
            format!("{} of {} disks missing; every byte still has a copy", gone.len(), disks.len());
        ("DEGRADED", words)
    } else if resync.bytes_left > 0 {
        ("RESYNC", format!("copies of {} are being compared", show_bytes(resync.bytes_left)))
    } else {
        ("WHOLE", format!("{} disks, all in sync", disks.len()))
    };
    GroupStatus {
        group: info.name.clone(),
        state,
        words,
        action: action(state, &gone),
        work: (resync.bytes_left > 0)
            .then(|| format!("resync after a crash, {} left", show_bytes(resync.bytes_left))),
        safe: safe(mounted, &critical),
        disks_missing: gone.iter().map(|d| d.name.clone()).collect(),
        critical,
        writable_bytes: info.writable_mb << 20,
    }
}

fn action(state: &str, gone: &[&cellar_instance::diskgroup::DiskInfo]) -> Option<String> {
    match state {
        "STOPPED" => Some("bring the disks back, then run any command: it mounts again".into()),
        "DEGRADED" => {
            let names: Vec<String> = gone
                .iter()
                .map(|d| match &d.path {
                    Some(path) => format!("{} ({path})", d.name),
                    None => d.name.clone(),
                })
                .collect();
            Some(format!(
                "{} left and stays out; this version cannot mirror again: copy what matters \
                 to another group (cellar asm DIR cp)",
                names.join(", ")
            ))
        }
        _ => None,
    }
}

fn safe(mounted: &Mounted, critical: &[String]) -> String {
    let survives = mounted.survives();
    if survives == "nothing" {
        return "one copy of everything: a disk that fails loses data".to_owned();
    }
    if critical.is_empty() {
        return match survives {
            "device" => "any one failure group may fail now".to_owned(),
            _ => "any one disk file may be lost now; they lie on one device".to_owned(),
        };
    }
    format!("a failure of {} now loses data", critical.join(" or "))
}

/// Runs `status`.
///
/// # Errors
/// [`Fault::NotWell`] when a group needs a look.
pub async fn run(args: &Args, database: &Database, _place: &Place) -> Result<(), Fault> {
    let mut groups = database.inner.groups();
    groups.sort_by_key(|m| m.number);
    let all: Vec<GroupStatus> = groups.iter().map(of).collect();
    if args.format == Format::Json {
        output::json(&all)?;
    } else {
        for status in &all {
            output::text(&lines(status))?;
        }
    }
    if all.iter().all(GroupStatus::is_well) { Ok(()) } else { Err(Fault::NotWell) }
}

/// A status for people, 80 columns.
pub fn lines(status: &GroupStatus) -> String {
    let mut text = String::new();
    let head = format!("{}  {}", status.state, status.words);
    put(&mut text, &status.group, &head);
    put(&mut text, "action", status.action.as_deref().unwrap_or("none"));
    put(&mut text, "work", status.work.as_deref().unwrap_or("none"));
    put(&mut text, "safe", &status.safe);
    put(&mut text, "room", &format!("{} can be written now", show_bytes(status.writable_bytes)));
    text
}

/// A label, then words broken at 80 columns.
fn put(text: &mut String, label: &str, words: &str) {
    let mut line = format!("{label:<8} ");
    let mut fresh = true;
    for word in words.split(' ') {
        if !fresh && line.len() + 1 + word.len() > 80 {
            text.push_str(line.trim_end());
            text.push('\n');
            line = " ".repeat(9);
            fresh = true;
        }
        if !fresh {
            line.push(' ');
        }
        line.push_str(word);
        fresh = false;
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_break_at_80_columns() {
        let status = GroupStatus {
            group: "DATA".into(),
            state: "DEGRADED",
            words: "1 of 4 disks missing; every byte still has a copy".into(),
            action: Some("word ".repeat(40)),
            work: None,
            safe: "x".into(),
            disks_missing: vec![],
            critical: vec![],
            writable_bytes: 1 << 30,
        };
        let text = lines(&status);
        assert!(text.lines().all(|l| l.len() <= 80), "{text}");
        assert!(text.starts_with("DATA     DEGRADED  1 of 4"), "{text}");
    }
}
