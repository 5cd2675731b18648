//! `cellar disks`: every disk here, and whether it can be used.

mod release;

use std::fmt::Write;
use std::path::PathBuf;

use cellar_io::real::{DiskFacts, list_disks};
use cellar_io::shell;
use cellar_storage::size::show_bytes;
use serde::Serialize;

use super::fault::Fault;
use super::label::{self, Owner};
use super::output::{self, Format};

pub use release::run as release;

/// Arguments of `disks`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cellar disks                     what is here and what can be used
  cellar disks --tree              partitions and users below each disk
  cellar disks --format json | jq '.[] | select(.usable)'
  cellar disks --release /dev/sdx  what of a disk group would be lost with it
  cellar disks --release /dev/sdx --group DATA    it is; the disk can be used")]
pub struct Args {
    /// Show who uses each disk below it.
    #[arg(long)]
    pub tree: bool,
    /// Release disks from a disk group that is no longer needed.
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with = "tree")]
    pub release: Vec<PathBuf>,
    /// With --release: the group that the disks are of; nothing is written without it.
    #[arg(long, value_name = "NAME", requires = "release")]
    pub group: Option<String>,
    /// With --release: whatever group they are of.
    #[arg(long, requires = "release", conflicts_with = "group")]
    pub yes: bool,
    /// For people or for a program.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Whether a disk can be used, or the obstacle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Verdict {
    #[default]
    Usable,
    /// Its first user.
    InUse,
    NotPermitted,
    /// The first of its contents.
    NotEmpty,
}

/// A disk in the output.
#[derive(Debug, Default, Serialize)]
struct Shown {
    path: String,
    size: u64,
    logical_sector: Option<u32>,
    physical_sector: Option<u32>,
    queue_depth: Option<u32>,
    model: Option<String>,
    serial: Option<String>,
    /// Address and driver.
    controller: Option<String>,
    /// The slot of its enclosure, or its address on the bus.
    slot: Option<String>,
    /// The size of an array's structures on one of its disks, and on all of them, in bytes.
    stripe_unit: Option<u64>,
    stripe: Option<u64>,
    /// Whether a partition starts on a multiple of 4096 bytes; none for a whole disk.
    aligned: Option<bool>,
    /// Who uses it: mounts, volumes, swap.
    users: Vec<String>,
    /// Its contents, as far as signatures show them.
    content: Vec<String>,
    usable: bool,
    #[serde(skip)]
    verdict: Verdict,
    /// The reason why not, or what to type to use it.
    reason: String,
    /// The command that makes it usable, if there is one.
    next: Option<String>,
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
    let owner = label::owner(&facts.path, facts.size);
    let of_group = owner.as_ref().and_then(Owner::content);
    let content: Vec<String> = of_group.iter().cloned().chain(facts.content()).collect();
    let users = facts.users();
    let named = facts.by_id.first().unwrap_or(&facts.path);
    let (verdict, reason) = if let Some(user) = users.first() {
        (Verdict::InUse, format!("in use: {user}"))
    } else if !facts.readable || !facts.writable {
        let mode = facts.mode & 0o777;
        let owner = format!("owner {}:{}, mode {mode:o}", facts.uid, facts.gid);
        (Verdict::NotPermitted, format!("no permission ({owner}): a udev rule can give it"))
    } else if let Some(held) = content.first() {
        (Verdict::NotEmpty, format!("not empty: {held}"))
    } else {
        (Verdict::Usable, format!("cellar disktest {}", shell::path(named)))
    };
    let next = (users.is_empty() && facts.writable && of_group.is_some())
        .then(|| format!("cellar disks --release {}", shell::path(named)));
    Shown {
        path: named.display().to_string(),
        size: facts.size,
        logical_sector: facts.logical_sector,
        physical_sector: facts.physical_sector,
        queue_depth: facts.queue_depth,
        model: facts.model.clone(),
        serial: facts.serial.clone(),
        controller: facts.controller.clone(),
        slot: facts.slot.clone(),
        stripe_unit: facts.stripe_unit,
        stripe: facts.stripe,
        aligned: facts.partition_start.map(|start| start.is_multiple_of(4096)),
        users,
        content,
        usable: verdict == Verdict::Usable,
        verdict,
        reason,
        next,
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
        let mut below = |words: &str| {
            let _ = writeln!(out, "{}", output::broken("    ", "    ", words));
        };
        if !disk.usable {
            below(&disk.reason);
        }
        let hardware = hardware(disk);
        if !hardware.is_empty() {
            below(&hardware);
        }
        if disk.aligned == Some(false) {
            below("does not start on a multiple of 4096 bytes: slow writes");
        }
        if tree {
            // What the reason says is not repeated.
            let users = disk.users.iter().skip((disk.verdict == Verdict::InUse).into());
            let content = disk.content.iter().skip((disk.verdict == Verdict::NotEmpty).into());
            users.chain(content).for_each(|line| below(line));
        }
    }
    out.push_str("Sectors as reported; cellar disktest PATH measures what a disk works in.\n");
    if let Some(next) = disks.iter().find_map(|disk| disk.next.as_ref()) {
        let words = format!("If nobody needs such a group, see what would be lost: {next}");
        let _ = writeln!(out, "{}", output::broken("", "  ", &words));
    }
    out
}

/// Its type and connection, as far as the system reports them.
fn hardware(disk: &Shown) -> String {
    let stripe = match (disk.stripe_unit, disk.stripe) {
        (Some(unit), Some(all)) => {
            Some(format!("stripe {} KB on each of {} disks", unit >> 10, all / unit))
        }
        (Some(unit), None) => Some(format!("stripe {} KB", unit >> 10)),
        _ => None,
    };
    let serial = disk.serial.as_ref().map(|serial| format!("serial {serial}"));
    let controller = disk.controller.as_ref().map(|name| format!("controller {name}"));
    let slot = disk.slot.as_ref().map(|slot| match slot.contains(':') {
        true => format!("at {slot}"),
        false => slot.clone(),
    });
    let all = [disk.model.clone(), serial, controller, slot, stripe];
    all.into_iter().flatten().collect::<Vec<_>>().join(", ")
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
            queue_depth: Some(256),
            model: usable.then(|| "MR9361-8i".into()),
            serial: usable.then(|| "00a1b2c3d4e5f6".into()),
            controller: usable.then(|| "0000:03:00.0 (megaraid_sas)".into()),
            slot: usable.then(|| "0:2:1:0".into()),
            stripe_unit: usable.then_some(256 << 10),
            stripe: usable.then_some(1 << 20),
            aligned: Some(usable),
            users: vec!["mounted on /".into()],
            content: vec!["it bears the mark of: ext4".into()],
            usable,
            verdict: if usable { Verdict::Usable } else { Verdict::InUse },
            reason: "in use: mounted on /".into(),
            ..Shown::default()
        };
        let long = "/dev/disk/by-id/nvme-Samsung_SSD_990_PRO_2TB_S7KHNJ0WB12345";
        let text = table(&[disk("/dev/vda", false), disk(long, true)], true);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        assert!(text.contains("270 GB  512/?       256  no\n    in use: mounted on /\n"), "{text}");
        assert!(text.contains("    it bears the mark of: ext4\n"));
        assert!(text.contains("multiple of 4096"));
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let told = "MR9361-8i, serial 00a1b2c3d4e5f6, controller 0000:03:00.0 (megaraid_sas), at \
                    0:2:1:0, stripe 256 KB on each of 4 disks";
        assert!(words.contains(told), "{text}");
    }
}
