//! Release of disks from a disk group that is no longer needed: shows first what would be lost.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cellar_diskgroup::on_disk::layout::{AU_START, TAIL_BYTES};
use cellar_diskgroup::{Label, LabelStatus};
use cellar_io::real::{DiskFacts, OpenOptions, RealEnv, list_disks, open_disk, probe};
use cellar_io::{Buffer, Device, DeviceExt, Durability, Io, shell};
use cellar_storage::size::show_bytes;
use serde::Serialize;

use super::Args;
use crate::cli::fault::Fault;
use crate::cli::label::{Owner, owner};
use crate::cli::output::{self, Format};
use crate::cli::path::look;

/// A disk to be released.
struct Doomed {
    path: PathBuf,
    owner: Owner,
    size: u64,
}

#[derive(Serialize)]
struct Released {
    path: String,
    group: Option<String>,
    disk: Option<String>,
    released: bool,
}

/// Runs `disks --release`.
///
/// # Errors
/// A disk is in use or in no group, the group was not named, or a write fails.
pub async fn run(args: &Args, real: &Arc<RealEnv>) -> Result<(), Fault> {
    let all = args.release.iter().map(|path| doomed(path)).collect::<Result<Vec<_>, Fault>>()?;
    if let Some(named) = &args.group {
        let other = all.iter().find(|d| !is_of(d, named));
        if let Some(other) = other {
            let what = other.owner.content().unwrap_or_else(|| "it has left its group".into());
            return Err(Fault::failed(format!(
                "CELLAR-15033: {} is not of disk group {}: {what}; nothing was written",
                other.path.display(),
                named.to_uppercase()
            )));
        }
    }
    let agreed = args.yes || args.group.is_some();
    if !agreed {
        return Err(not_agreed(&all));
    }
    let options = OpenOptions { lock: true, ..OpenOptions::default() };
    // All are opened before one is written: a disk in use stops the whole command.
    let opened = all.iter().map(|d| {
        open_disk(real, &d.path, &options).map(|disk| disk as Arc<dyn Device>).map_err(|error| {
            Fault::failed(format!(
                "CELLAR-15025: {}: {error}; nothing was written\nNext: end the command that uses \
                 it: fuser -v {}",
                d.path.display(),
                shell::path(&d.path)
            ))
        })
    });
    let opened = opened.collect::<Result<Vec<_>, Fault>>()?;
    for device in &opened {
        erase(device).await?;
    }
    let label = |d: &Doomed| d.owner.label().cloned();
    let told: Vec<Released> = all
        .iter()
        .map(|d| Released {
            path: d.path.display().to_string(),
            group: label(d).map(|l| l.group_name),
            disk: label(d).map(|l| l.disk_name),
            released: true,
        })
        .collect();
    if args.format == Format::Json {
        return output::json(&told);
    }
    let line = |d: &Doomed| match d.owner.label() {
        Some(l) => format!("{} of {} is gone: {}", l.disk_name, l.group_name, d.path.display()),
        None => format!("the label is gone: {}", d.path.display()),
    };
    let paths: Vec<String> = all.iter().map(|d| d.path.to_string_lossy().into_owned()).collect();
    let next = format!("cellar init DIR --disks {}", shell::quoted(&paths.join(",")));
    let lines: Vec<String> = all.iter().map(line).collect();
    output::text(&format!("{}\n{}", lines.join("\n"), output::labelled("Next:", &next)))
}

/// Whether a disk is, or was, in a group of this name.
fn is_of(doomed: &Doomed, group: &str) -> bool {
    doomed.owner.label().is_some_and(|l| l.group_name.eq_ignore_ascii_case(group))
}

/// Examines a disk to be released.
fn doomed(path: &Path) -> Result<Doomed, Fault> {
    look(path, true)?;
    let facts = probe(path, &[])?;
    let shown = path.display();
    if let Some(user) = facts.users().first() {
        return Err(Fault::failed(format!(
            "CELLAR-15025: disk {shown} is in use: {user}\nNext: release it there first, or name \
             another disk"
        )));
    }
    match owner(path, facts.size) {
        Some(owner) => Ok(Doomed { path: path.to_owned(), owner, size: facts.size }),
        None => Err(no_label(path, &facts)),
    }
}

/// A disk that is in no group: its contents are not ours to judge.
fn no_label(path: &Path, facts: &DiskFacts) -> Fault {
    let shown = path.display();
    let words = match facts.content().first() {
        None => format!(
            "CELLAR-15033: disk {shown} bears no label of a disk group, and no mark of another \
             owner\nNext: use it as it is: cellar init DIR --disks PATH"
        ),
        Some(what) => format!(
            "CELLAR-15033: disk {shown} bears no label of a disk group: {what}\nNext: if nobody \
             needs that: wipefs -a {}",
            shell::path(path)
        ),
    };
    Fault::failed(words)
}

/// Shows what would be lost, and the command that does it.
fn not_agreed(all: &[Doomed]) -> Fault {
    let mut lines = Vec::new();
    for d in all {
        lines.push(format!("{}, {}: {}", d.path.display(), show_bytes(d.size), lost(d)));
    }
    let uuids: Vec<_> = all.iter().filter_map(|d| d.owner.label()).map(|l| l.group).collect();
    let named: Vec<PathBuf> =
        all.iter().filter_map(|d| std::fs::canonicalize(&d.path).ok()).collect();
    let others: Vec<String> = list_disks(&[])
        .iter()
        .filter(|facts| !named.contains(&facts.path))
        .filter_map(|facts| Some((facts, owner(&facts.path, facts.size)?)))
        .filter(|(_, owner)| matches!(owner, Owner::Group(l) if uuids.contains(&l.group)))
        .map(|(facts, _)| facts.path.display().to_string())
        .collect();
    if !others.is_empty() {
        lines.push(format!("Other disks of it are here: {}", others.join(", ")));
    }
    let paths: Vec<String> = all.iter().map(|d| shell::path(&d.path)).collect();
    let mut groups: Vec<&str> =
        all.iter().filter_map(|d| Some(d.owner.label()?.group_name.as_str())).collect();
    groups.sort_unstable();
    groups.dedup();
    let agree = match groups[..] {
        [group] if all.iter().all(|d| is_of(d, group)) => {
            format!("--group {}", shell::quoted(group))
        }
        _ => "--yes".to_owned(),
    };
    Fault::failed(format!(
        "CELLAR-15033: nothing was written; this would be lost:\n{}\nNext: if nobody needs it: \
         cellar disks --release {} {agree}",
        lines.join("\n"),
        paths.join(" ")
    ))
}

fn lost(doomed: &Doomed) -> String {
    let Some(label) = doomed.owner.label() else {
        return doomed.owner.content().unwrap_or_default();
    };
    let of = format!("{} of disk group {}", label.disk_name, label.group_name);
    let what = match label.status {
        LabelStatus::Former => return format!("{of}, which it has left: nothing of it"),
        LabelStatus::Creating => return format!("{of}, whose creation was cut off"),
        LabelStatus::Member => kept(label),
    };
    format!("{of}, {what}")
}

/// What a member may hold.
fn kept(label: &Label) -> String {
    let copies = label.redundancy.name();
    let catalog = match label.holds_catalog {
        true => ", in which a database keeps its catalog",
        false => "",
    };
    format!("{copies} redundancy{catalog}: its copies of all files there")
}

/// Overwrites with zeros all structures of a group: labels, superblocks and log at the start,
/// labels at the end.
async fn erase(device: &Arc<dyn Device>) -> Result<(), Fault> {
    let size = device.geometry().size / 4096 * 4096;
    let head = AU_START.min(size);
    let tail = size.saturating_sub(TAIL_BYTES).max(head);
    let chunk = 1 << 20;
    // The end first: after an interruption the label is still found at the start, and the run is
    // repeated.
    for range in [tail..size, 0..head] {
        let mut at = range.start;
        while at < range.end {
            let length = (range.end - at).min(chunk);
            let zeros = Buffer::zeroed(usize::try_from(length).unwrap_or(0)).freeze();
            device.write_at(Io::FOREGROUND, at, zeros, Durability::Cached).await?;
            at += length;
        }
        device.flush(Io::FOREGROUND).await?;
    }
    Ok(())
}
