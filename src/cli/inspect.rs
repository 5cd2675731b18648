//! `cellar inspect`: the contents of a disk, structure by structure.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cellar_diskgroup::{Inspection, Label, inspect};
use cellar_io::real::{OpenOptions, open_disk};
use cellar_io::{Device, DeviceExt, Io};
use cellar_storage::size::show_bytes;
use serde_json::{Value, json};

use super::database::Place;
use super::fault::Fault;
use super::output::{self, Format};
use super::path::look;

/// Bytes of a label.
const LABEL: usize = 4096;
/// The magic numbers of redo log files.
const REDO_MAGICS: [&str; 4] = ["CLRH", "CLRC", "CLRA", "CLRREDOC"];
/// Larger files do not fit into memory.
const REDO_MAX: u64 = 4 << 30;
/// The magic number of each copy of the header of a row store.
const STORE_MAGIC: &[u8; 4] = b"CLHS";
/// Bytes of its pages; the first two are copies of the header.
const STORE_PAGE: u64 = 8192;
/// Structures of a disk that are named if damaged.
const DAMAGED_SHOWN: usize = 4;

/// Arguments of `inspect`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cellar inspect cellar-demo/disks/disk1
  cellar inspect /dev/disk/by-id/ata-X --json | jq .
  cellar inspect /mnt/flash/group_1.redo    a file of the redo log
  cellar inspect rows.store                 a store of rows: header, ring, tables
  cellar inspect rows.store --page 33       one page of it: its rows, its keys
It is only read, and may be in use meanwhile. Exit code 1: it is no disk of a
disk group, or something on it is damaged.")]
pub struct Args {
    /// A disk; a log file, an archive or the control file of the redo log; or
    /// a store of rows.
    pub path: PathBuf,
    /// One page of a store of rows, by its number from 0.
    #[arg(long, value_name = "N")]
    pub page: Option<u32>,
    /// For people or for a program.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// The same as --format json.
    #[arg(long)]
    pub json: bool,
}

/// The conclusion from the findings.
struct Finding {
    well: bool,
    words: String,
    next: Option<String>,
}

/// Runs `inspect`.
///
/// # Errors
/// The disk cannot be opened. Damage on it is shown first, and then [`Fault::NotWell`].
pub async fn run(args: Args, place: &Place) -> Result<(), Fault> {
    let path = output::path(&args.path);
    look(&path, false)?;
    let is_json = args.json || args.format == Format::Json;
    let is_store = is_store(&path);
    if args.page.is_some() && !is_store {
        let path = path.display();
        return Err(Fault::usage(format!(
            "--page shows a page of a store of rows: {path} is none"
        )));
    }
    if !is_store && let Some(found) = of_redo(&path)? {
        return show_file(&found, "of the redo log", is_json);
    }
    let options = OpenOptions { read_only: true, ..OpenOptions::default() };
    let opened = open_disk(&place.real, &path, &options);
    let device: Arc<dyn Device> = opened.map_err(cellar_instance::Error::from)?;
    if is_store {
        return show_store(&*device, args.page, is_json).await;
    }
    let found = inspect(&device).await;
    let finding = finding(&found, first_label(&device).await.as_ref(), &device, &path);
    match is_json {
        true => {
            let mut json = as_json(&found);
            json["well"] = finding.well.into();
            json["finding"] = finding.words.as_str().into();
            output::json(&json)?;
        }
        false => {
            let mut text = String::new();
            print(&mut text, &found, 0);
            text.push_str(&output::labelled("Finding", &finding.words));
            text.extend(finding.next.as_deref().map(|next| output::labelled("Next", next)));
            output::text(&text)?;
        }
    }
    if finding.well { Ok(()) } else { Err(Fault::NotWell) }
}

/// The contents of a redo log file: a log file, an archive, a control file; none for other files.
fn of_redo(path: &Path) -> Result<Option<Inspection>, Fault> {
    use std::io::{Read, Seek, SeekFrom};
    let Ok(mut file) = std::fs::File::open(path) else { return Ok(None) };
    let about = file.metadata()?;
    let mut head = [0; 8];
    if !about.is_file() || about.len() > REDO_MAX || file.read_exact(&mut head).is_err() {
        return Ok(None);
    }
    let is_ours = |head: [u8; 8]| REDO_MAGICS.iter().any(|m| head.starts_with(m.as_bytes()));
    // A log file with a rotten first header has another one at its end.
    let mut last = [0; 8];
    let end = SeekFrom::End(-(cellar_redo::on_disk::HEADER_BYTES as i64));
    let has_last = file.seek(end).is_ok() && file.read_exact(&mut last).is_ok();
    if !(is_ours(head) || has_last && is_ours(last)) {
        return Ok(None);
    }
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(cellar_storage::redo::inspect(&bytes).map(like_ours))
}

/// The same tree in the types of disk groups.
fn like_ours(part: cellar_redo::inspect::Inspection) -> Inspection {
    let parts = part.parts.into_iter().map(like_ours).collect();
    Inspection { name: part.name, value: part.value, damaged: part.damaged, parts }
}

/// Whether it is a row store: one of the copies of its header may be damaged.
fn is_store(path: &Path) -> bool {
    let Ok(file) = std::fs::File::open(path) else { return false };
    [0, STORE_PAGE].into_iter().any(|offset| {
        let mut magic = [0; 4];
        file.read_exact_at(&mut magic, offset).is_ok() && magic == *STORE_MAGIC
    })
}

/// Shows a store, or one page of it.
async fn show_store(device: &dyn Device, page: Option<u32>, is_json: bool) -> Result<(), Fault> {
    let pages = device.geometry().size / STORE_PAGE;
    let (found, what) = match page {
        None => (cellar_heap::inspect(device).await, "store of rows".to_owned()),
        Some(page) if u64::from(page) >= pages => {
            let text = format!("there is no page {page}: the store has {pages} pages, from 0 on");
            return Err(Fault::usage(text));
        }
        Some(page) => (cellar_heap::inspect_page(device, page).await, format!("page {page}")),
    };
    show_file(&store_like_ours(found), &what, is_json)
}

/// The tree of a store in the types of disk groups.
fn store_like_ours(part: cellar_heap::Inspection) -> Inspection {
    let parts = part.parts.into_iter().map(store_like_ours).collect();
    Inspection { name: part.name, value: part.value, damaged: part.damaged, parts }
}

/// Shows a file that is not a disk.
fn show_file(found: &Inspection, what: &str, is_json: bool) -> Result<(), Fault> {
    let mut damaged = Vec::new();
    damaged_parts(found, &mut damaged);
    let more = damaged.len().saturating_sub(DAMAGED_SHOWN);
    damaged.truncate(DAMAGED_SHOWN);
    let words = match (damaged.is_empty(), more) {
        (true, _) => format!("{what}: nothing that was read is damaged"),
        (false, 0) => format!("damaged: {}", damaged.join(", ")),
        (false, more) => format!("damaged: {} and {more} more", damaged.join(", ")),
    };
    match is_json {
        true => {
            let mut json = as_json(found);
            json["well"] = damaged.is_empty().into();
            json["finding"] = words.as_str().into();
            output::json(&json)?;
        }
        false => {
            let mut text = String::new();
            print(&mut text, found, 0);
            text.push_str(&output::labelled("Finding", &words));
            output::text(&text)?;
        }
    }
    if damaged.is_empty() { Ok(()) } else { Err(Fault::NotWell) }
}

/// The label at the start, even of a file that is too short for a disk.
async fn first_label(device: &Arc<dyn Device>) -> Option<Label> {
    if device.geometry().size < LABEL as u64 {
        return None;
    }
    let block = device.read_at(Io::FOREGROUND, 0, LABEL).await.ok()?;
    Label::decode(&block).ok()
}

fn finding(
    found: &Inspection,
    label: Option<&Label>,
    device: &Arc<dyn Device>,
    path: &Path,
) -> Finding {
    let size = device.geometry().size;
    let bad =
        |words: String, next: &str| Finding { well: false, words, next: Some(next.to_owned()) };
    let mut damaged = Vec::new();
    damaged_parts(found, &mut damaged);
    let has_label = label.is_some() || found.find("disk_bytes").is_some();
    if !has_label {
        // A file shorter than a sector is not empty.
        let size = std::fs::metadata(path).map_or(size, |about| about.len().max(size));
        let what = match size {
            0 => "it is empty: this is no disk of a disk group".to_owned(),
            _ => "no label of Cellar can be read: this is no disk of a disk group".to_owned(),
        };
        let next = "name a disk of a database, DIR/disks/disk1, or a device: cellar disks";
        return bad(what, next);
    }
    if let Some(label) = label.filter(|l| l.disk_bytes > size) {
        let words = format!(
            "it is cut off: {} of group {} has {}, here are {}",
            label.disk_name,
            label.group_name,
            show_bytes(label.disk_bytes),
            show_bytes(size)
        );
        return bad(words, "bring the whole disk back, or go on without it: cellar status DIR");
    }
    if !damaged.is_empty() {
        let more = damaged.len().saturating_sub(DAMAGED_SHOWN);
        damaged.truncate(DAMAGED_SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let words = format!("damaged: {}{more}", damaged.join(", "));
        return bad(words, "see whether the group has all of it elsewhere: cellar validate DIR");
    }
    let whose = label.map_or_else(
        || format!("{} is a disk of a group", path.display()),
        |l| format!("{} of group {}", l.disk_name, l.group_name),
    );
    Finding { well: true, words: format!("{whose}: nothing that was read is damaged"), next: None }
}

fn damaged_parts(part: &Inspection, names: &mut Vec<String>) {
    if part.damaged {
        names.push(part.name.clone());
    }
    part.parts.iter().for_each(|p| damaged_parts(p, names));
}

fn print(text: &mut String, part: &Inspection, depth: usize) {
    let indent = " ".repeat(depth * 2);
    match part.value.is_empty() {
        true => text.push_str(&format!("{indent}{}", part.name)),
        false => {
            let head = format!("{indent}{}: ", part.name);
            text.push_str(&output::broken(&head, &format!("{indent}    "), &part.value));
        }
    }
    text.push('\n');
    part.parts.iter().for_each(|p| print(text, p, depth + 1));
}

fn as_json(part: &Inspection) -> Value {
    let parts: Vec<Value> = part.parts.iter().map(as_json).collect();
    json!({ "name": part.name, "value": part.value, "parts": parts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_keeps_its_shape_as_json() {
        let leaf =
            Inspection { name: "au_size".into(), value: "4194304".into(), ..Inspection::default() };
        let root = Inspection { name: "label".into(), parts: vec![leaf], ..Inspection::default() };
        assert_eq!(as_json(&root)["parts"][0]["value"], "4194304");
        let mut text = String::new();
        print(&mut text, &root, 0);
        assert_eq!(text, "label\n  au_size: 4194304\n");
    }

    #[test]
    fn long_values_go_on_below_and_damage_is_found_at_any_depth() {
        let value = format!("DAMAGED: {}", "word ".repeat(40).trim_end());
        let leaf =
            Inspection { name: "block".into(), value, damaged: true, ..Inspection::default() };
        let root = Inspection { name: "log".into(), parts: vec![leaf], ..Inspection::default() };
        let mut text = String::new();
        print(&mut text, &root, 0);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        assert!(text.contains("\n      word"), "{text}");
        let mut names = Vec::new();
        damaged_parts(&root, &mut names);
        assert_eq!(names, ["block"]);
    }
}
