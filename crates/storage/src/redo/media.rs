//! Placement of redo media: files of disk groups, each confined to one failure group, or files of a
//! directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cellar_diskgroup::FileSpec;
use cellar_diskgroup::state::{FileType, Striping};
use cellar_io::Device;
use cellar_redo::Medium;
use cellar_redo::on_disk::DatabaseId;

use super::RedoManager;
use super::log_file::HeldFile;
use super::new_file::{NewFile, Owner, Take};
use super::open::{decoded, no_log};
use super::place::{CHANGE_PATIENCE, foreign, is_of_another};
use crate::disks::OpenDisk;
use crate::error::{Error, Result};
use crate::files::{Progress, absolute, prewrite_all};

/// The directory of a disk group that has the files of the log.
pub const REDO_DIR: &str = "cellar/redo";

/// A place where redo is written: one medium of the log, which has a file for each log group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// A failure group of a disk group.
    Group {
        /// The disk group, upper-case.
        group: String,
        /// The failure group, upper-case.
        failgroup: String,
    },
    /// A directory of a file system, from the root on.
    Directory(PathBuf),
}

impl std::fmt::Display for Place {
    /// The name of the medium in the control data.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::Group { group, failgroup } => write!(f, "+{group}.{failgroup}"),
            Place::Directory(path) => write!(f, "{}", path.display()),
        }
    }
}

impl Place {
    /// What a name in the control data means.
    pub fn of_name(name: &str) -> Place {
        match name.strip_prefix('+').and_then(|rest| rest.split_once('.')) {
            Some((group, failgroup)) => {
                Place::Group { group: group.to_owned(), failgroup: failgroup.to_owned() }
            }
            None => Place::Directory(PathBuf::from(name)),
        }
    }

    /// Its file for a log group, as people write it.
    pub fn file_name(&self, number: u32) -> String {
        match self {
            Place::Group { group, .. } => format!("+{group}/{}", self.path(number).display()),
            Place::Directory(_) => self.path(number).display().to_string(),
        }
    }

    /// The path of its file for a log group: in the disk group, or from the root on.
    pub(super) fn path(&self, number: u32) -> PathBuf {
        match self {
            Place::Group { failgroup, .. } => {
                Path::new(REDO_DIR).join(format!("group_{number}.{failgroup}"))
            }
            Place::Directory(path) => path.join(format!("group_{number}.redo")),
        }
    }

    fn path_text(&self, number: u32) -> String {
        self.path(number).to_string_lossy().into_owned()
    }
}

/// An open file of the log.
#[derive(Clone)]
pub struct LogFile {
    /// The file.
    pub device: Arc<dyn Device>,
    /// The handle by which the file is let go of.
    pub own: Arc<HeldFile>,
}

impl LogFile {
    pub(super) fn new(file: Arc<dyn Device>) -> LogFile {
        let file = HeldFile::new(file);
        LogFile { device: Arc::clone(&file) as Arc<dyn Device>, own: file }
    }
}

impl RedoManager {
    /// The places that the words of a statement mean: `+DATA` as many as the group keeps copies,
    /// each in a failure group of its own; `+DATA.FG` that failure group; else a directory, which
    /// [`check_directories`](RedoManager::check_directories) asks.
    ///
    /// # Errors
    /// No such disk group or failure group; two media in one place.
    pub(crate) fn redo_places(&self, words: &[String]) -> Result<Vec<Place>> {
        self.places_beside(Vec::new(), words, None)
    }

    /// As [`redo_places`](RedoManager::redo_places), beside others that are taken; `each`: how many a disk
    /// group means, if not as many as it keeps copies.
    pub(super) fn places_beside(
        &self,
        taken: Vec<Place>,
        words: &[String],
        each: Option<usize>,
    ) -> Result<Vec<Place>> {
        let mut places = taken;
        for word in words {
            let more = match word.strip_prefix('+') {
                Some(rest) => self.places_in_group(rest, &places, each)?,
                None => vec![Place::Directory(absolute(Path::new(word)))],
            };
            for place in more {
                if places.contains(&place) {
                    let text = format!("redo would be kept twice in {place}");
                    return Err(Error::new(1577, text).hint("name each place once"));
                }
                places.push(place);
            }
        }
        Ok(places)
    }

    fn places_in_group(
        &self,
        rest: &str,
        taken: &[Place],
        each: Option<usize>,
    ) -> Result<Vec<Place>> {
        let rest = rest.trim_end_matches('/').to_uppercase();
        let (name, failgroup) = match rest.split_once('.') {
            Some((name, failgroup)) => (name, Some(failgroup)),
            None => (&*rest, None),
        };
        let group = self.group(name)?.group;
        let mut free: BTreeMap<String, u64> = BTreeMap::new();
        for disk in group.disks().into_iter().filter(|d| d.in_sync && !d.status.is_leaving()) {
            *free.entry(disk.failgroup).or_default() += disk.free_mb;
        }
        let place = |failgroup: &str| Place::Group {
            group: name.to_owned(),
            failgroup: failgroup.to_owned(),
        };
        if let Some(failgroup) = failgroup {
            if !free.contains_key(failgroup) {
                let known: Vec<&str> = free.keys().map(String::as_str).collect();
                let text = format!("disk group \"{name}\" has no failure group \"{failgroup}\"");
                return Err(Error::new(15031, text).hint(format!("it has {}", known.join(", "))));
            }
            return Ok(vec![place(failgroup)]);
        }
        let copies = each.unwrap_or_else(|| usize::from(group.info().redundancy.copies()));
        free.retain(|failgroup, _| !taken.contains(&place(failgroup)));
        let mut by_room: Vec<(String, u64)> = free.into_iter().collect();
        by_room.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        if by_room.len() < copies {
            let (here, text) = (by_room.len(), format!("redo in \"+{name}\" needs {copies}"));
            let text = format!("{text} failure groups with disks in use, there are {here}");
            let next = format!("bring its disks back, or name one: '+{name}.FAILGROUP'");
            return Err(Error::new(15072, text).hint(next));
        }
        by_room.truncate(copies);
        let mut chosen: Vec<Place> = by_room.iter().map(|(name, _)| place(name)).collect();
        chosen.sort();
        Ok(chosen)
    }

    /// Makes the file of a place for a log group, written with zeros.
    ///
    /// # Errors
    /// No room; a file of a directory that is there already and may not be taken; one that does not
    /// answer.
    pub(super) async fn make_redo_file(
        &self,
        place: &Place,
        number: u32,
        size: u64,
        take: &Take,
        progress: &Progress<'_>,
    ) -> Result<NewFile> {
        let new = match place {
            Place::Group { group, failgroup } => {
                let group = self.group(group)?.group;
                let spec = FileSpec {
                    copies: Some(1),
                    striping: Some(Striping::Coarse),
                    unit: Some(4096),
                    // Blocks of the log carry their own.
                    checksums: Some(false),
                    placement: Some(failgroup.clone()),
                    template: Some(String::new()),
                    ..FileSpec::new(FileType::Onlinelog)
                };
                let file = group.create_file(&spec).await?;
                file.allocate(size).await?;
                file.set_size(size).await?;
                NewFile::in_group(group, file, &place.path(number))
            }
            Place::Directory(path) => self.make_in_directory(path, number, size, take).await?,
        };
        prewrite_all(&[(Arc::clone(&new.file.device), 0..size)], size, progress).await?;
        Ok(new)
    }

    /// Removes the file of a place for a log group; `own`: only if it belongs to this database.
    pub(super) async fn remove_redo_file(
        &self,
        place: &Place,
        number: u32,
        own: Option<DatabaseId>,
    ) -> Result<()> {
        match place {
            Place::Group { group, .. } => {
                let group = self.group(group)?.group;
                match group.remove(&place.path_text(number)).await {
                    Ok(()) | Err(cellar_diskgroup::Error::NoSuchFile { .. }) => Ok(()),
                    Err(error) => Err(error.into()),
                }
            }
            Place::Directory(directory) => {
                let path = place.path(number);
                let remove = move || {
                    if own.is_some_and(|own| is_of_another(&path, Some(own))) {
                        return Err(foreign(&path));
                    }
                    match std::fs::remove_file(&path) {
                        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                            Err(Error::system("remove", &path, &error))
                        }
                        _ => Ok(()),
                    }
                };
                self.in_directory(directory, CHANGE_PATIENCE, remove).await
            }
        }
    }

    /// Removes a file that the log no longer knows; returns what to report if it stays.
    pub(super) async fn removed_or_left(
        &self,
        place: &Place,
        number: u32,
        own: DatabaseId,
    ) -> Option<String> {
        let error = self.remove_redo_file(place, number, Some(own)).await.err()?;
        let file = place.file_name(number);
        Some(format!("{file} is not needed any more and could not be removed: {error}"))
    }

    /// A medium with its files for these log groups, as far as they can be opened.
    pub(super) async fn open_medium(&self, place: &Place, groups: &[u32]) -> OpenMedium {
        let files = match place {
            Place::Group { .. } => {
                let open = |number: &u32| (*number, self.open_in_group(place, *number));
                Ok(groups.iter().map(open).collect())
            }
            Place::Directory(directory) => {
                let disks = Arc::clone(self.disks());
                let paths: Vec<(u32, PathBuf)> =
                    groups.iter().map(|number| (*number, place.path(*number))).collect();
                let open = move || {
                    let open = |(number, path): (u32, PathBuf)| {
                        let opened = disks.open(&path, true);
                        let file = |disk: OpenDisk| LogFile::new(disk.device());
                        (number, opened.map(file))
                    };
                    Ok(paths.into_iter().map(open).collect::<Vec<_>>())
                };
                self.in_directory(directory, CHANGE_PATIENCE, open).await
            }
        };
        let mut opened = OpenMedium::none(place);
        match files {
            Ok(files) => files.into_iter().for_each(|(number, file)| match file {
                Ok(file) => opened.add(place, number, &file),
                Err(error) => opened.problems.push(error),
            }),
            Err(error) => opened.problems.push(error),
        }
        opened
    }

    /// Makes anew the files that a failed medium has lost, if its place is well again: the medium gets
    /// what it lacks when the log is opened.
    pub(crate) async fn remake_medium(
        &self,
        place: &Place,
        groups: &[(u32, u64)],
        opened: &mut OpenMedium,
        reuse: bool,
        progress: &Progress<'_>,
    ) {
        let made = self.complete_medium(place, groups, opened, reuse, progress).await;
        made.into_iter().for_each(NewFile::keep);
    }

    /// Makes the files that a medium lacks, if its place is well: those that were made, with their names.
    pub(super) async fn complete_medium(
        &self,
        place: &Place,
        groups: &[(u32, u64)],
        opened: &mut OpenMedium,
        reuse: bool,
        progress: &Progress<'_>,
    ) -> Vec<NewFile> {
        let mut all = Vec::new();
        let take = match self.redo_owner() {
            Ok(owner) => Take { owner, reuse },
            Err(error) => {
                opened.problems.push(error);
                return all;
            }
        };
        for (number, size) in groups {
            if opened.medium.files.contains_key(number) || !self.is_well(place) {
                continue;
            }
            let made = async {
                let mut new = self.make_redo_file(place, *number, *size, &take, progress).await?;
                self.name_redo_file(&mut new).await?;
                Ok::<_, Error>(new)
            };
            match made.await {
                Ok(new) => {
                    opened.add(place, *number, &new.file);
                    all.push(new);
                }
                // It stays failed, and is tried again at the next opening.
                Err(error) => opened.problems.push(error),
            }
        }
        all
    }

    /// What the log has, open or about to be.
    fn redo_owner(&self) -> Result<Owner> {
        let redo = self.shared();
        match (redo.seen(), redo.log()) {
            (Some((data, _)), _) => Ok(Owner::of(&data)),
            (None, Some(log)) => Ok(Owner::of(&decoded(log.control())?)),
            (None, None) => Err(no_log()),
        }
    }

    /// Whether nothing is known to be wrong with a place. Directories are checked by the code that makes
    /// or opens files there: a file system may hang.
    pub(crate) fn is_well(&self, place: &Place) -> bool {
        match place {
            Place::Group { group, failgroup } => self.group(group).is_ok_and(|mounted| {
                let disks = mounted.group.disks();
                let mut own = disks.iter().filter(|disk| disk.failgroup == *failgroup).peekable();
                own.peek().is_some() && own.all(|disk| disk.in_sync && !disk.status.is_leaving())
            }),
            Place::Directory(_) => true,
        }
    }

    /// Media of the log in these failure groups of a disk group, by name.
    pub(crate) fn media_in(&self, group: &str, failgroups: &BTreeSet<&str>) -> Vec<String> {
        let Some(log) = self.shared().log() else { return Vec::new() };
        let names = log.log().media().into_iter().map(|medium| medium.name);
        let is_there = |name: &String| match Place::of_name(name) {
            Place::Group { group: own, failgroup } => {
                own == group && failgroups.contains(failgroup.as_str())
            }
            Place::Directory(_) => false,
        };
        names.filter(is_there).collect()
    }

    /// Whether losing these failure groups of a disk group, on top of those already absent, may lose
    /// acknowledged commits: a log that is not being written does not notice that.
    pub(crate) fn redo_is_lost_without(&self, group: &str, failgroups: &BTreeSet<String>) -> bool {
        let Some((quorum, active)) = self.shared().counting() else { return false };
        let places: Vec<Place> = active.iter().map(|name| Place::of_name(name)).collect();
        let goes = |place: &Place| {
            matches!(place, Place::Group { group: own, failgroup }
                if own == group && failgroups.contains(failgroup))
        };
        let gone = places.iter().filter(|place| goes(place) || !self.is_well(place));
        places.iter().any(goes) && gone.count() >= quorum
    }

    /// Whether a disk group has a file of the log, as far as is known without reading it.
    pub(super) fn has_redo_file(&self, place: &Place, number: u32) -> bool {
        self.open_in_group(place, number).is_ok() && self.is_well(place)
    }

    fn open_in_group(&self, place: &Place, number: u32) -> Result<LogFile> {
        let name = match place {
            Place::Group { group, .. } => group.clone(),
            Place::Directory(path) => path.display().to_string(),
        };
        let file = self.group(&name)?.group.open(&place.path_text(number))?;
        Ok(LogFile::new(Arc::new(file)))
    }
}

/// A medium as far as it could be opened.
pub struct OpenMedium {
    /// Its files.
    pub medium: Medium,
    /// The handles by which the files are let go of.
    pub files: Vec<OwnFile>,
    /// Why others could not be opened.
    pub problems: Vec<Error>,
}

/// A file of the log that can be let go of: its medium, its log group.
pub type OwnFile = (Place, u32, Arc<HeldFile>);

impl OpenMedium {
    /// One without files.
    pub(super) fn none(place: &Place) -> OpenMedium {
        let medium = Medium { name: place.to_string(), files: BTreeMap::new() };
        OpenMedium { medium, files: Vec::new(), problems: Vec::new() }
    }

    fn add(&mut self, place: &Place, number: u32, file: &LogFile) {
        self.medium.files.insert(number, Arc::clone(&file.device));
        self.files.push((place.clone(), number, Arc::clone(&file.own)));
    }
}

/// Refuses what is no directory where redo could be kept.
pub(super) fn check_directory(path: &Path) -> Result<()> {
    let metadata = std::fs::metadata(path);
    if metadata.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
        return Ok(());
    }
    let next = "name a directory of a file system, or a disk group as '+NAME'; a disk alone is made \
                one with CREATE DISKGROUP NAME EXTERNAL REDUNDANCY DISK 'path'";
    let why = match metadata {
        Ok(_) => "it is no directory".to_owned(),
        Err(error) => error.to_string(),
    };
    let text = format!("redo cannot be kept in \"{}\": {why}", path.display());
    Err(Error::new(301, text).hint(next))
}

/// The disk groups in which media are.
pub fn groups_of(places: &[Place]) -> BTreeSet<&str> {
    let mut groups = BTreeSet::new();
    for place in places {
        if let Place::Group { group, .. } = place {
            groups.insert(group.as_str());
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_medium_says_where_it_is() {
        let group = Place::Group { group: "DATA".into(), failgroup: "FG1".into() };
        assert_eq!(group.to_string(), "+DATA.FG1");
        assert_eq!(group.file_name(3), "+DATA/cellar/redo/group_3.FG1");
        let directory = Place::Directory("/mnt/flash.d".into());
        assert_eq!(directory.file_name(3), "/mnt/flash.d/group_3.redo");
        for place in [group, directory] {
            assert_eq!(Place::of_name(&place.to_string()), place);
        }
    }
}
