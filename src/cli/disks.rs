//! `cellar disks`: every disk here, and whether it can be used.

use std::fmt::Write;

use cellar_io::real::{DiskFacts, list_disks};
use serde::Serialize;

use super::fault::Fault;
use super::output::{self, Format};
use super::size::show_bytes;

/// Arguments of `disks`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cellar disks                     what is here and what can be used
  cellar disks --tree              partitions and users below each disk
  cellar disks --format json | jq '.[] | select(.usable)'")]
pub struct Args {
    /// Show who uses each disk below it.
    #[arg(long)]
    pub tree: bool,
    /// For people or for a program.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// A disk as it is shown.
#[derive(Debug, Serialize)]
struct Shown {
    path: String,
    size: u64,
    logical_sector: Option<u32>,
    physical_sector: Option<u32>,
    queue_depth: Option<u32>,
    model: Option<String>,
    serial: Option<String>,
    /// Whether a partition starts on a multiple of 4096 bytes; none for a whole disk.
    aligned: Option<bool>,
    /// Who uses it: mounts, volumes, swap.
    users: Vec<String>,
    /// What is on it, as far as marks tell.
    content: Vec<String>,
    usable: bool,
    /// Why not, or what to write to use it.
    reason: String,
}

/// Runs `disks`.
///
/// # Errors
/// Only those of the output.
pub fn run(args: &Args) -> Result<(), Fault> {
    let disks: Vec<Shown> = list_disks(&[]).iter().map(shown).collect();
    match args.format {
        Format::Json => output::json(&disks),
        Format::Table => output::text(&table(&disks, args.tree)),
    }
}

fn shown(facts: &DiskFacts) -> Shown {
    let content = facts.content();
    let users = facts.users();
    let path = facts.by_id.first().unwrap_or(&facts.path).display().to_string();
    let (usable, reason) = if let Some(user) = users.first() {
        (false, format!("in use: {user}"))
    } else if !facts.readable || !facts.writable {
        let mode = facts.mode & 0o777;
        let owner = format!("owner {}:{}, mode {mode:o}", facts.uid, facts.gid);
        (false, format!("no permission ({owner}): a udev rule can give it"))
    } else if let Some(held) = content.first() {
        (false, format!("not empty: {held}"))
    } else {
        (true, format!("cellar disktest {path}"))
    };
    Shown {
        path,
        size: facts.size,
        logical_sector: facts.logical_sector,
        physical_sector: facts.physical_sector,
        queue_depth: facts.queue_depth,
        model: facts.model.clone(),
        serial: facts.serial.clone(),
        aligned: facts.partition_start.map(|start| start.is_multiple_of(4096)),
        users,
        content,
        usable,
        reason,
    }
}

fn table(disks: &[Shown], tree: bool) -> String {
    let mut out = String::new();
    if disks.is_empty() {
        return "No block devices can be seen here. Files work too: cellar init DIR\n".into();
    }
    let number = |n: Option<u32>| n.map_or("?".to_string(), |n| n.to_string());
    let _ = writeln!(out, "{:<28} {:>7}  {:<9} {:>5}  Usable", "Path", "Size", "Sectors", "Queue");
    for disk in disks {
        let sectors = format!("{}/{}", number(disk.logical_sector), number(disk.physical_sector));
        let usable = if disk.usable { "yes" } else { "no" };
        if disk.path.chars().count() > 28 {
            let _ = write!(out, "{}\n{:<28}", disk.path, "");
        } else {
            let _ = write!(out, "{:<28}", disk.path);
        }
        let _ = writeln!(
            out,
            " {:>7}  {sectors:<9} {:>5}  {usable}",
            show_bytes(disk.size),
            number(disk.queue_depth)
        );
        if !disk.usable {
            let _ = writeln!(out, "    {}", disk.reason);
        }
        if disk.aligned == Some(false) {
            let _ = writeln!(out, "    does not start on a multiple of 4096 bytes: slow writes");
        }
        if tree {
            let told = |line: &&String| !disk.reason.ends_with(line.as_str());
            for line in disk.users.iter().chain(&disk.content).filter(told) {
                let _ = writeln!(out, "    {line}");
            }
        }
    }
    out.push_str("Sectors as reported; cellar disktest PATH measures what a disk works in.\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_in_use_says_by_whom_and_lines_fit() {
        let disk = |path: &str, usable: bool| Shown {
            path: path.into(),
            size: 270_000_000_000,
            logical_sector: Some(512),
            physical_sector: None,
            queue_depth: Some(256),
            model: None,
            serial: None,
            aligned: Some(usable),
            users: vec!["mounted on /".into()],
            content: vec!["it bears the mark of: ext4".into()],
            usable,
            reason: "in use: mounted on /".into(),
        };
        let long = "/dev/disk/by-id/nvme-Samsung_SSD_990_PRO_2TB_S7KHNJ0WB12345";
        let text = table(&[disk("/dev/vda", false), disk(long, true)], true);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        assert!(text.contains("270 GB  512/?       256  no\n    in use: mounted on /\n"), "{text}");
        assert!(text.contains("    it bears the mark of: ext4\n"));
        assert!(text.contains("multiple of 4096"));
    }
}
