//! Archives of the redo log as files of a disk group.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use cellar_diskgroup::state::FileType;
use cellar_diskgroup::{File, FileSpec, Group};
use cellar_io::{Device, DeviceExt, Durability, Io, IoError, IoErrorKind, IoFuture, Op};
use cellar_redo::{ArchiveFile, ArchiveStore};

use crate::error::{Error, Result};
use crate::mounted::{MountedGroups, split_group_path};

/// A file is read and written in these.
const SECTOR: usize = 4096;
/// Bytes are gathered until there are so many.
const STEP: usize = 1 << 20;

/// A directory of a disk group.
#[derive(Clone)]
pub struct GroupArchives {
    group: Group,
    directory: String,
}

impl GroupArchives {
    /// Archives in `directory` of `group`.
    pub fn new(group: Group, directory: &str) -> GroupArchives {
        GroupArchives { group, directory: directory.trim_matches('/').to_owned() }
    }

    /// Archives in a place as the notes of the log name it; `None`: it names none.
    ///
    /// # Errors
    /// 00096 for what is no disk group, 15001 for one that is not mounted.
    pub fn in_place(groups: &MountedGroups, place: &str) -> Result<Option<GroupArchives>> {
        if place.is_empty() {
            return Ok(None);
        }
        let (group, directory) = split_group_path(place).ok_or_else(|| {
            Error::new(96, format!("redo cannot be archived to \"{place}\""))
                .hint("name a disk group: log_archive_dest = '+DATA'")
        })?;
        Ok(Some(GroupArchives::new(groups.get(&group)?.group, &directory)))
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.directory)
    }

    /// Its name as a path: `+DATA/archivelog/redo-1.arc`.
    pub fn full_name(&self, name: &str) -> String {
        format!("+{}/{}", self.group.name(), self.path(name))
    }

    fn failed(&self, name: &str, op: Op, error: cellar_diskgroup::Error) -> IoError {
        failed(&self.full_name(name), op, error)
    }
}

/// A group's error as a device's error: its text goes into the name.
fn failed(name: &str, op: Op, error: cellar_diskgroup::Error) -> IoError {
    if let cellar_diskgroup::Error::Io(error) = error {
        return error;
    }
    let kind = match error.number() {
        15041 => IoErrorKind::NoSpace,
        15012 => IoErrorKind::NotFound,
        _ => IoErrorKind::Gone { reason: "its disk group cannot be used" },
    };
    let device: Arc<str> = format!("{name} ({error})").into();
    IoError::new(kind, &device, op, 0, 0)
}

impl ArchiveStore for GroupArchives {
    fn create<'a>(&'a self, name: &'a str) -> IoFuture<'a, Box<dyn ArchiveFile>> {
        Box::pin(async move {
            let spec = FileSpec::new(FileType::Archivelog);
            let file = self.group.create_file(&spec).await;
            let file = file.map_err(|error| self.failed(name, Op::Open, error))?;
            Ok(Box::new(NewArchive {
                file,
                store: self.clone(),
                name: name.to_owned(),
                written: 0,
                rest: BytesMut::new(),
            }) as Box<dyn ArchiveFile>)
        })
    }

    fn read<'a>(&'a self, name: &'a str, offset: u64, length: usize) -> IoFuture<'a, Bytes> {
        Box::pin(async move {
            let file = self.group.open(&self.path(name));
            let file = file.map_err(|error| self.failed(name, Op::Open, error))?;
            let end = file.size().min(offset.saturating_add(length as u64));
            if offset >= end {
                return Ok(Bytes::new());
            }
            let from = offset - offset % SECTOR as u64;
            let whole = (end - from).next_multiple_of(SECTOR as u64);
            let whole = usize::try_from(whole).unwrap_or(usize::MAX);
            let bytes = file.read_at(Io::BACKGROUND, from, whole).await?.freeze();
            Ok(bytes.slice((offset - from) as usize..(end - from) as usize))
        })
    }
}

/// An archive that has no name yet: a crash leaves nothing of it behind.
struct NewArchive {
    file: File,
    store: GroupArchives,
    name: String,
    /// Bytes before `rest`, a whole number of sectors.
    written: u64,
    rest: BytesMut,
}

impl NewArchive {
    /// Writes what was gathered, in whole sectors; the end filled up with zeros.
    async fn write_out(&mut self, to_the_end: bool) -> std::result::Result<(), IoError> {
        let whole = self.rest.len() / SECTOR * SECTOR;
        let length = if to_the_end { self.rest.len() } else { whole };
        if length == 0 {
            return Ok(());
        }
        let mut bytes = self.rest.split_to(length);
        bytes.resize(length.next_multiple_of(SECTOR), 0);
        let at = self.written;
        let room = self.file.allocate(at + bytes.len() as u64).await;
        room.map_err(|error| self.store.failed(&self.name, Op::Write, error))?;
        self.file.write_at(Io::BACKGROUND, at, bytes.freeze(), Durability::Cached).await?;
        self.written += length as u64;
        Ok(())
    }
}

impl ArchiveFile for NewArchive {
    fn append(&mut self, bytes: Bytes) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.rest.extend_from_slice(&bytes);
            match self.rest.len() >= STEP {
                true => self.write_out(false).await,
                false => Ok(()),
            }
        })
    }

    fn sync(&mut self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.write_out(true).await?;
            let sized = self.file.set_size(self.written).await;
            sized.map_err(|error| self.store.failed(&self.name, Op::Write, error))?;
            self.file.flush(Io::BACKGROUND).await
        })
    }

    fn publish(self: Box<Self>) -> IoFuture<'static, ()> {
        Box::pin(async move {
            let store = &self.store;
            let failed = |error| store.failed(&self.name, Op::Flush, error);
            match store.group.mkdir(&store.directory, true).await {
                Ok(()) | Err(cellar_diskgroup::Error::Exists { .. }) => {}
                Err(error) => return Err(failed(error)),
            }
            let path = store.path(&self.name);
            store.group.publish(&self.file, &path, true).await.map_err(failed)
        })
    }
}
