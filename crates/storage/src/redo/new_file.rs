//! Files of the log that a statement makes: each is removed again unless it is kept, and only a file that
//! nobody needs is replaced by one.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};

use async_recursion::async_recursion as boxed;
use cellar_diskgroup::{File, Group};
use cellar_redo::on_disk::DatabaseId;
use cellar_redo::on_disk::control::ControlData;

use super::RedoManager;
use super::media::{LogFile, Place, REDO_DIR};
use super::place::{CHANGE_PATIENCE, Content, TIMEOUT, check_foreign, content_of, foreign};
use crate::disks::Disks;
use crate::error::{Error, Result};
use crate::files::make_file;

/// The log for which files are made, and what it has.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    /// The database.
    pub database: DatabaseId,
    /// Numbers of its groups.
    pub groups: Vec<u32>,
    /// Names of its media, by number; empty: one that was dropped.
    pub media: Vec<String>,
}

impl Owner {
    /// A log that does not have anything yet.
    pub fn new(database: DatabaseId) -> Owner {
        Owner { database, groups: Vec::new(), media: Vec::new() }
    }

    /// The log of this control data.
    pub fn of(data: &ControlData) -> Owner {
        let groups = data.groups.iter().map(|group| group.number).collect();
        let media = data.media.iter().map(|medium| medium.name.clone()).collect();
        Owner { database: data.database, groups, media }
    }
}

/// Which files that are there already make way for new ones.
#[derive(Clone, Debug)]
pub(super) struct Take {
    /// For which log.
    pub owner: Owner,
    /// Also those with something in them that is not redo.
    pub reuse: bool,
}

/// A file of the log that was just made; it is taken away unless [kept](NewFile::keep).
pub struct NewFile {
    /// The file.
    pub file: LogFile,
    at: MadeAt,
}

enum MadeAt {
    Directory(PathBuf, MadeFile),
    Group(Box<MadeInGroup>),
}

/// One in a disk group: without a name it goes by itself.
struct MadeInGroup {
    group: Group,
    file: File,
    path: String,
    is_named: bool,
}

/// One in a directory.
#[derive(Debug)]
struct MadeFile {
    path: PathBuf,
    /// Device and inode number: another file may have its name by now.
    id: (u64, u64),
    is_kept: bool,
}

impl MadeFile {
    fn make(path: &Path, size: u64) -> Result<MadeFile> {
        let file = make_file(path, size)?;
        let metadata = file.metadata().map_err(|error| {
            // What is left of it is of no use to anybody.
            let _ = std::fs::remove_file(path);
            Error::system("read", path, &error)
        })?;
        let id = (metadata.dev(), metadata.ino());
        Ok(MadeFile { path: path.to_owned(), id, is_kept: false })
    }

    fn remove(path: &Path, id: (u64, u64)) -> Result<()> {
        let removed = match std::fs::symlink_metadata(path) {
            Ok(metadata) if (metadata.dev(), metadata.ino()) == id => std::fs::remove_file(path),
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::system("remove", path, &error))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for MadeFile {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        // It holds only zeros and the headers of a log that never came to be. The file system may hang: a
        // file that stays is taken by the next statement that wants its name.
        let (path, id) = (std::mem::take(&mut self.path), self.id);
        let (send, receive) = mpsc::channel();
        let remove = move || {
            let _ = MadeFile::remove(&path, id);
            let _ = send.send(());
        };
        if std::thread::Builder::new().name("redo file".to_owned()).spawn(remove).is_ok() {
            let _ = receive.recv_timeout(TIMEOUT);
        }
    }
}

impl NewFile {
    /// One in a disk group, which has no name yet.
    pub(super) fn in_group(group: Group, file: File, path: &Path) -> NewFile {
        let own = LogFile::new(Arc::new(file.clone()));
        let path = path.to_string_lossy().into_owned();
        let at = MadeAt::Group(Box::new(MadeInGroup { group, file, path, is_named: false }));
        NewFile { file: own, at }
    }

    /// From now on it stays.
    pub(super) fn keep(mut self) {
        if let MadeAt::Directory(_, made) = &mut self.at {
            made.is_kept = true;
        }
    }
}

impl RedoManager {
    /// Gives a new file its name, if it has none, so that it outlives a power cut.
    ///
    /// # Errors
    /// The group has stopped; the directory does not answer.
    #[boxed]
    pub(super) async fn name_redo_file(&self, new: &mut NewFile) -> Result<()> {
        match &mut new.at {
            MadeAt::Group(made) => {
                match made.group.mkdir(REDO_DIR, true).await {
                    Ok(()) | Err(cellar_diskgroup::Error::Exists { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
                made.group.publish(&made.file, &made.path, true).await?;
                made.is_named = true;
                Ok(())
            }
            MadeAt::Directory(directory, _) => {
                let parent = directory.clone();
                let sync = move || {
                    let synced = std::fs::File::open(&parent).and_then(|opened| opened.sync_all());
                    synced.map_err(|error| Error::system("sync", &parent, &error))
                };
                self.in_directory(directory, CHANGE_PATIENCE, sync).await
            }
        }
    }

    /// Removes files that were made and that no log knows.
    ///
    /// # Errors
    /// One that stays, and why.
    pub(super) async fn take_away(&self, files: Vec<NewFile>) -> Result<()> {
        let mut all = Ok(());
        for NewFile { file, at } in files {
            drop(file);
            let removed = match at {
                MadeAt::Group(made) => {
                    let MadeInGroup { group, file, path, is_named } = *made;
                    drop(file);
                    match is_named {
                        true => group.remove(&path).await.map_err(Error::from),
                        false => Ok(()),
                    }
                }
                MadeAt::Directory(directory, mut made) => {
                    // Tried once: what stays is taken by the next statement that wants its name.
                    made.is_kept = true;
                    let remove = move || MadeFile::remove(&made.path, made.id);
                    self.in_directory(&directory, CHANGE_PATIENCE, remove).await
                }
            };
            all = match (all, removed) {
                (Err(error), Err(more)) => Err(Error::over(error, more)),
                (all, removed) => all.and(removed),
            };
        }
        all
    }

    /// Makes the file of a directory for a log group. In a thread: a file system may hang.
    pub(super) async fn make_in_directory(
        &self,
        directory: &Path,
        number: u32,
        size: u64,
        take: &Take,
    ) -> Result<NewFile> {
        let (disks, take) = (Arc::clone(self.disks()), take.clone());
        let place = Place::Directory(directory.to_owned());
        let at = directory.to_owned();
        // What comes late is dropped there, and goes.
        let make = move || {
            let path = place.path(number);
            check_foreign(&at, Some(take.owner.database))?;
            make_way(&*disks, &place, &path, &take)?;
            let made = MadeFile::make(&path, size)?;
            let device = disks.open(&path, true)?.device();
            let file = LogFile::new(device);
            Ok(NewFile { file, at: MadeAt::Directory(at, made) })
        };
        self.in_directory(directory, CHANGE_PATIENCE, make).await
    }
}

/// Removes a file in the way of a new one, if it may be taken.
fn make_way(disks: &dyn Disks, place: &Place, path: &Path, take: &Take) -> Result<()> {
    let Some(content) = content_of(path, &take.owner) else { return Ok(()) };
    let is_free = match content {
        // What a statement that was cut off leaves.
        Content::Nothing | Content::Left => true,
        Content::Live(medium) if *medium != place.to_string() => {
            let text = format!("{} is of the redo medium {medium}", path.display());
            return Err(Error::new(1577, text).hint("name each place once"));
        }
        Content::Live(_) | Content::Other => take.reuse,
        Content::Foreign => return Err(foreign(path)),
    };
    if !is_free {
        let text = format!("file \"{}\" already exists", path.display());
        return Err(Error::new(27038, text)
            .hint("REUSE takes it, and what is in it is lost; or choose another place"));
    }
    // One that somebody has open, as another database its log, is refused here.
    drop(disks.open(path, true)?);
    std::fs::remove_file(path).map_err(|error| Error::system("remove", path, &error))
}
