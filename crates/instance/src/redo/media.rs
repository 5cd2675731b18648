//! Where redo is kept: files of disk groups, each confined to one failure group, or files of a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_recursion::async_recursion;
use cellar_diskgroup::state::{FileType, Striping};
use cellar_diskgroup::{FileSpec, Group};
use cellar_io::Device;
use cellar_redo::Medium;
use cellar_redo::on_disk::DatabaseId;

use super::group_file::GroupFile;
use crate::database::init::{Progress, make_file, prewrite_all};
use crate::database::{Database, absolute};
use crate::error::{Error, Result};

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
    /// The same, to be let go of.
    pub in_group: Option<Arc<GroupFile>>,
}

impl LogFile {
    fn new(file: Arc<dyn Device>) -> LogFile {
        let file = GroupFile::new(file);
        LogFile { device: Arc::clone(&file) as Arc<dyn Device>, in_group: Some(file) }
    }
}

/// A file of the log that was just made; it is taken away unless [kept](NewFile::keep).
pub struct NewFile {
    /// The file.
    pub file: LogFile,
    made: Option<PathBuf>,
    unnamed: Option<(Group, cellar_diskgroup::File, String)>,
}

impl NewFile {
    /// Gives it its name, if it has none; from now on it stays.
    ///
    /// # Errors
    /// The group has stopped.
    #[async_recursion]
    pub async fn keep(mut self) -> Result<()> {
        if let Some((group, file, path)) = self.unnamed.take() {
            match group.mkdir(REDO_DIR, true).await {
                Ok(()) | Err(cellar_diskgroup::Error::Exists { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            group.publish(&file, &path, true).await?;
        }
        if let Some(path) = self.made.take() {
            // The name must outlive a power cut as well as the file does.
            let parent = path.parent().unwrap_or(Path::new("/"));
            let synced = std::fs::File::open(parent).and_then(|directory| directory.sync_all());
            synced.map_err(|error| Error::system("sync", parent, &error))?;
        }
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(path) = &self.made {
            // It has no content but zeros and headers of a log that did not come to be.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Database {
    /// The places that the words of a statement mean: `+DATA` as many as the group keeps copies,
    /// each in a failure group of its own; `+DATA.FG` that failure group; else a directory.
    ///
    /// # Errors
    /// No such disk group, failure group or directory; two media in one place.
    pub(crate) fn redo_places(&self, words: &[String]) -> Result<Vec<Place>> {
        self.places_beside(Vec::new(), words, None)
    }

    /// As [`redo_places`](Database::redo_places), beside others that are taken; `each`: how many a disk
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
                None => vec![directory(word)?],
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
    /// No room; a file of a directory that is there already, unless it is to be used again.
    pub(crate) async fn make_redo_file(
        &self,
        place: &Place,
        number: u32,
        size: u64,
        reuse: bool,
        progress: &Progress<'_>,
    ) -> Result<NewFile> {
        let path = place.path(number);
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
                let path = path.to_string_lossy().into_owned();
                let own = LogFile::new(Arc::new(file.clone()));
                NewFile { file: own, made: None, unnamed: Some((group, file, path)) }
            }
            Place::Directory(_) => {
                if path.exists() && reuse {
                    // One that somebody has open, as another database its log, is refused here.
                    drop(self.disks().open(&path, true)?);
                    std::fs::remove_file(&path).map_err(|e| Error::system("remove", &path, &e))?;
                }
                if path.exists() {
                    let text = format!("file \"{}\" is there already", path.display());
                    return Err(Error::new(27038, text).hint(
                        "REUSE takes it, and what is in it is lost; or choose another place",
                    ));
                }
                drop(make_file(&path, size)?);
                let made = Some(path.clone());
                let device = self.disks().open(&path, true)?.device();
                NewFile { file: LogFile::new(device), made, unnamed: None }
            }
        };
        prewrite_all(&[(Arc::clone(&new.file.device), 0..size)], size, progress).await?;
        Ok(new)
    }

    /// Takes away the file of a place for a log group; `own`: only one that is of this database.
    pub(super) async fn remove_redo_file(
        &self,
        place: &Place,
        number: u32,
        own: Option<DatabaseId>,
    ) -> Result<()> {
        if let Some(own) = own {
            self.check_place(place, &[number], own).await?;
        }
        match place {
            Place::Group { group, .. } => {
                let group = self.group(group)?.group;
                match group.remove(&place.path_text(number)).await {
                    Ok(()) | Err(cellar_diskgroup::Error::NoSuchFile { .. }) => Ok(()),
                    Err(error) => Err(error.into()),
                }
            }
            Place::Directory(_) => {
                let path = place.path(number);
                match std::fs::remove_file(&path) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        Err(Error::system("remove", &path, &error))
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    /// Takes a file away that the log does not know any more; what is to be told where it stays.
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
    pub(crate) fn open_medium(&self, place: &Place, groups: &[u32]) -> OpenMedium {
        let mut opened = OpenMedium::none(place);
        for number in groups {
            match self.open_redo_file(place, *number) {
                Ok(file) => opened.add(place, *number, &file),
                Err(error) => opened.problems.push(error),
            }
        }
        opened
    }

    /// Makes the files anew that a failed medium has lost, if its place is well again: it gets what it
    /// lacks when the log is opened.
    pub(crate) async fn remake_medium(
        &self,
        place: &Place,
        groups: &[(u32, u64)],
        opened: &mut OpenMedium,
        reuse: bool,
        progress: &Progress<'_>,
    ) {
        if !self.is_well(place) {
            return;
        }
        for (number, size) in groups {
            if opened.medium.files.contains_key(number) {
                continue;
            }
            let made = async {
                let new = self.make_redo_file(place, *number, *size, reuse, progress).await?;
                let file = new.file.clone();
                new.keep().await?;
                Ok::<_, Error>(file)
            };
            match made.await {
                Ok(file) => opened.add(place, *number, &file),
                // It stays failed, and is tried again at the next opening.
                Err(error) => opened.problems.push(error),
            }
        }
    }

    /// Whether nothing is known to be wrong with a place.
    pub(crate) fn is_well(&self, place: &Place) -> bool {
        match place {
            Place::Group { group, failgroup } => self.group(group).is_ok_and(|mounted| {
                let disks = mounted.group.disks();
                let mut own = disks.iter().filter(|disk| disk.failgroup == *failgroup).peekable();
                own.peek().is_some() && own.all(|disk| disk.in_sync && !disk.status.is_leaving())
            }),
            Place::Directory(path) => path.is_dir(),
        }
    }

    /// Whether a file of the log is there, as far as is known without reading it.
    pub(crate) fn has_redo_file(&self, place: &Place, number: u32) -> bool {
        match place {
            Place::Group { group, .. } => {
                let is_named = self
                    .group(group)
                    .is_ok_and(|mounted| mounted.group.open(&place.path_text(number)).is_ok());
                is_named && self.is_well(place)
            }
            Place::Directory(_) => place.path(number).is_file(),
        }
    }

    fn open_redo_file(&self, place: &Place, number: u32) -> Result<LogFile> {
        match place {
            Place::Group { group, .. } => {
                let file = self.group(group)?.group.open(&place.path_text(number))?;
                Ok(LogFile::new(Arc::new(file)))
            }
            Place::Directory(_) => {
                let device = self.disks().open(&place.path(number), true)?.device();
                Ok(LogFile::new(device))
            }
        }
    }
}

/// A medium as far as it could be opened.
pub struct OpenMedium {
    /// Its files.
    pub medium: Medium,
    /// The same, to be let go of.
    pub in_group: Vec<FileInGroup>,
    /// Why others could not be opened.
    pub problems: Vec<Error>,
}

/// A file of the log that can be let go of: its medium, its log group.
pub type FileInGroup = (Place, u32, Arc<GroupFile>);

impl OpenMedium {
    /// One without files.
    pub(super) fn none(place: &Place) -> OpenMedium {
        let medium = Medium { name: place.to_string(), files: BTreeMap::new() };
        OpenMedium { medium, in_group: Vec::new(), problems: Vec::new() }
    }

    fn add(&mut self, place: &Place, number: u32, file: &LogFile) {
        self.medium.files.insert(number, Arc::clone(&file.device));
        let in_group = file.in_group.clone();
        self.in_group.extend(in_group.map(|file| (place.clone(), number, file)));
    }
}

/// A directory where redo is to be kept.
fn directory(word: &str) -> Result<Place> {
    let path = absolute(Path::new(word));
    let metadata = std::fs::metadata(&path);
    if metadata.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
        return Ok(Place::Directory(path));
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
