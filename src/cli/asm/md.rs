//! md_backup, md_restore: the definitions of groups, without the contents of their files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cellar_diskgroup::state::Striping;
use cellar_diskgroup::{Group, Protection, Redundancy, Template, TemplateChange, TemplateWords};
use cellar_instance::{Error, NextStep};
use cellar_storage::Mounted;
use cellar_storage::request::{DiskRequest, GroupRequest};
use serde::{Deserialize, Serialize};

use super::{Show, chosen};
use crate::cli::database::Database;
use crate::cli::fault::Fault;
use crate::cli::output::{self, Format};

/// The version of the file format.
const VERSION: u32 = 1;

/// Arguments of `md_backup`.
#[derive(Debug, clap::Args)]
pub struct MdBackup {
    /// The file to write; it must not exist.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only of this group, or of those that match.
    #[arg(short = 'G', value_name = "GROUP")]
    group: Option<String>,
}

/// Arguments of `md_restore`.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("how").required(true).args(["full", "nodg", "newdg"])))]
pub struct MdRestore {
    /// A file of md_backup.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Make the groups on the disks that they had, then what is in them.
    #[arg(long)]
    full: bool,
    /// Attributes, templates and directories only; the groups exist.
    #[arg(long)]
    nodg: bool,
    /// As --full, under other names: OLD:NEW,..
    #[arg(long, value_name = "OLD:NEW,..", value_delimiter = ',')]
    newdg: Vec<String>,
    /// Only this group.
    #[arg(short = 'G', value_name = "GROUP")]
    group: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Backup {
    cellar_md_backup: u32,
    groups: Vec<BackedUp>,
}

#[derive(Debug, Serialize, Deserialize)]
struct BackedUp {
    name: String,
    redundancy: String,
    attributes: BTreeMap<String, String>,
    templates: Vec<BackedTemplate>,
    directories: Vec<String>,
    disks: Vec<BackedDisk>,
}

#[derive(Debug, Serialize, Deserialize)]
struct BackedTemplate {
    name: String,
    system: bool,
    redundancy: String,
    fine: bool,
    unit: u32,
    checksums: bool,
    failgroup: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct BackedDisk {
    name: String,
    failgroup: String,
    path: Option<String>,
    bytes: u64,
}

const REDUNDANCIES: [Redundancy; 3] = [Redundancy::External, Redundancy::Normal, Redundancy::High];
const PROTECTIONS: [Protection; 3] =
    [Protection::Unprotected, Protection::Mirror, Protection::High];

fn backed_up(mounted: &Mounted) -> BackedUp {
    let group = &mounted.group;
    let attributes = group.attributes().into_iter().map(|(name, (value, _))| (name, value));
    let template = |t: Template| BackedTemplate {
        name: t.name,
        system: t.system,
        redundancy: t.protection.name().to_owned(),
        fine: t.striping == Striping::Fine,
        unit: t.unit,
        checksums: t.checksums,
        failgroup: t.failgroup,
    };
    let disks = group.disks().into_iter().map(|d| BackedDisk {
        name: d.name,
        failgroup: d.failgroup,
        path: d.path.map(|p| absolute(Path::new(&p))),
        bytes: d.bytes,
    });
    let directories = group.list("*", true).into_iter().filter(|l| l.file.is_none());
    BackedUp {
        name: group.name().to_owned(),
        redundancy: group.info().redundancy.name().to_owned(),
        attributes: attributes.collect(),
        templates: group.templates().into_iter().map(template).collect(),
        directories: directories.map(|l| l.path).collect(),
        disks: disks.collect(),
    }
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}

/// Writes the definitions of the groups to a file.
pub fn backup(args: &MdBackup, database: &Database, show: Show) -> Result<(), Fault> {
    if args.group.is_none()
        && let Some(error) = database.inner.storage().groups().not_mounted().into_iter().next()
    {
        return Err(error.under(15001, "a disk group would be missing in the backup").into());
    }
    let groups: Vec<BackedUp> =
        chosen(database, args.group.as_deref())?.iter().map(backed_up).collect();
    let path = output::path(&args.file);
    if path.symlink_metadata().is_ok() {
        return Err(Error::new(70102, format!("{} exists already", path.display()))
            .hint("name another file")
            .into());
    }
    let all = Backup { cellar_md_backup: VERSION, groups };
    let text = serde_json::to_string_pretty(&all)
        .map_err(|e| Fault::failed(format!("CELLAR-00600: a backup as JSON: {e}")))?;
    // Written atomically.
    let new = PathBuf::from(format!("{}.{}.new", path.display(), std::process::id()));
    let written = std::fs::File::create_new(&new).and_then(|mut file| {
        std::io::Write::write_all(&mut file, text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, &path)
    });
    written.map_err(|e| Error::system("write", &path, &e))?;
    let names: Vec<&str> = all.groups.iter().map(|g| g.name.as_str()).collect();
    match show.format {
        Format::Json => output::json(&serde_json::json!({ "file": path, "groups": names })),
        Format::Table => output::text(&format!(
            "{} -> {}\n{}",
            names.join(", "),
            path.display(),
            output::labelled(
                "Note:",
                "it has names, attributes, templates, directories and disks, and nothing of files"
            ),
        )),
    }
}

fn read(path: &Path) -> Result<Backup, Fault> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::system("read", path, &e))?;
    let bad = |why: String| {
        let text = format!("{} is no file of md_backup: {why}", path.display());
        let hint = NextStep::from("make one: ").cellar("asm", "md_backup FILE");
        Fault::from(Error::new(70117, text).hint(hint))
    };
    let backup: Backup = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
    match backup.cellar_md_backup {
        VERSION => Ok(backup),
        other => Err(bad(format!("it is of version {other}, this program reads {VERSION}"))),
    }
}

/// Recreates groups, or their attributes, templates and directories.
pub async fn restore(args: &MdRestore, database: &Database) -> Result<(), Fault> {
    let backup = read(&output::path(&args.file))?;
    let renamed = renamed(&args.newdg)?;
    let wanted = |g: &&BackedUp| {
        let named = args.group.as_ref().is_none_or(|name| g.name.eq_ignore_ascii_case(name));
        named && (args.newdg.is_empty() || renamed.contains_key(&g.name))
    };
    let groups: Vec<&BackedUp> = backup.groups.iter().filter(wanted).collect();
    let known = || backup.groups.iter().map(|g| g.name.as_str()).collect::<Vec<_>>().join(", ");
    let unknown = renamed.keys().find(|old| backup.groups.iter().all(|g| g.name != **old));
    if groups.is_empty() || unknown.is_some() {
        return Err(Fault::usage(format!("the backup has no such group; it has {}", known())));
    }
    for old in groups {
        let name = renamed.get(&old.name).unwrap_or(&old.name);
        let mounted = match args.nodg {
            true => database.inner.group(name)?,
            false => database.inner.storage().groups().create(&request(old, name)?).await?,
        };
        fill(&mounted.group, old).await?;
        let made = if args.nodg { "restored what belongs to" } else { "made" };
        output::text(&format!("{made} {name}\n"))?;
    }
    Ok(())
}

fn renamed(words: &[String]) -> Result<BTreeMap<String, String>, Fault> {
    let pair = |word: &String| match word.split_once(':') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() => {
            Ok((old.to_uppercase(), new.to_uppercase()))
        }
        _ => Err(Fault::usage(format!("--newdg {word}: write it as OLD:NEW"))),
    };
    words.iter().map(pair).collect()
}

fn request(old: &BackedUp, name: &str) -> Result<GroupRequest, Fault> {
    let redundancy = REDUNDANCIES.into_iter().find(|r| r.name() == old.redundancy);
    let redundancy = redundancy.ok_or_else(|| {
        Fault::failed(format!("CELLAR-70117: redundancy \"{}\" is not known", old.redundancy))
    })?;
    let mut disks = Vec::new();
    for disk in &old.disks {
        let path = disk.path.clone().ok_or_else(|| {
            let text = format!("disk {} had no path when the backup was made", disk.name);
            Fault::from(Error::new(15031, text).hint("write its path into the backup"))
        })?;
        disks.push(DiskRequest {
            path,
            name: Some(disk.name.clone()),
            failgroup: Some(disk.failgroup.clone()),
            size: Some(disk.bytes),
            force: false,
            erase: None,
        });
    }
    let of_group =
        |(name, _): &(&String, &String)| ["au_size", "sector_size"].contains(&name.as_str());
    let attributes = old.attributes.iter().filter(of_group);
    let attributes = attributes.map(|(name, value)| (name.clone(), value.clone())).collect();
    Ok(GroupRequest { name: name.to_owned(), redundancy, attributes, disks })
}

/// Restores attributes, templates and directories that differ.
async fn fill(group: &Group, old: &BackedUp) -> Result<(), Fault> {
    let now = group.attributes();
    for (name, value) in &old.attributes {
        let is = now.get(name);
        let fixed = is.is_some_and(|(_, fixed)| *fixed);
        if !fixed && is.is_none_or(|(is, _)| is != value) {
            group.set_attribute(name, value).await?;
        }
    }
    let now = group.templates();
    for template in &old.templates {
        let is = now.iter().find(|t| t.name == template.name);
        // A template without its own setting follows the group's defaults.
        let same = |t: &Template| {
            t.protection.name() == template.redundancy
                && (t.striping == Striping::Fine) == template.fine
                && (t.unit, t.checksums) == (template.unit, template.checksums)
                && t.failgroup == template.failgroup
        };
        if is.is_some_and(same) {
            continue;
        }
        let protection = PROTECTIONS.into_iter().find(|p| p.name() == template.redundancy);
        let words = TemplateWords {
            protection,
            striping: Some(if template.fine { Striping::Fine } else { Striping::Coarse }),
            unit: Some(template.unit),
            checksums: Some(template.checksums),
            failgroup: Some(template.failgroup.clone().unwrap_or_default()),
        };
        let change = match is {
            Some(_) => TemplateChange::Modify,
            None => TemplateChange::Add,
        };
        group.set_templates(change, &[(template.name.clone(), words)]).await?;
    }
    for path in &old.directories {
        if group.list_dir(path).is_err() {
            group.mkdir(path, true).await?;
        }
    }
    Ok(())
}
