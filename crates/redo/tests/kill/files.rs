//! Control data, archives and media on real files.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cellar_io::real::{OpenOptions, Runtime, open_disk};
use cellar_io::{Device, EnvExt, IoError, IoErrorKind, IoFuture, Op};
use cellar_redo::on_disk::control::ControlData;
use cellar_redo::{ArchiveFile, ArchiveStore, Control, Medium};

use crate::shape::{Place, Shape};

fn failed(op: Op, path: &Path, error: &std::io::Error) -> IoError {
    let kind = match error.kind() {
        std::io::ErrorKind::NotFound => IoErrorKind::NotFound,
        _ => IoErrorKind::Media,
    };
    IoError::new(kind, &path.to_string_lossy().into(), op, 0, 0)
}

/// Puts bytes under a name, whole or not at all.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let part = path.with_extension("part");
    let mut file = File::create(&part)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    rename(&part, path)
}

fn rename(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::rename(from, to)?;
    File::open(to.parent().unwrap_or(Path::new("/")))?.sync_all()
}

pub struct FileControl(pub PathBuf);

impl FileControl {
    pub fn now(&self) -> ControlData {
        ControlData::decode(&fs::read(&self.0).unwrap()).unwrap()
    }
}

impl Control for FileControl {
    fn load(&self) -> IoFuture<'_, Vec<u8>> {
        Box::pin(async { fs::read(&self.0).map_err(|e| failed(Op::Read, &self.0, &e)) })
    }

    fn store(&self, bytes: Vec<u8>) -> IoFuture<'_, ()> {
        Box::pin(
            async move { replace(&self.0, &bytes).map_err(|e| failed(Op::Write, &self.0, &e)) },
        )
    }
}

pub struct FileArchives(pub PathBuf);

struct FileArchive {
    file: File,
    part: PathBuf,
    path: PathBuf,
}

impl ArchiveStore for FileArchives {
    fn create<'a>(&'a self, name: &'a str) -> IoFuture<'a, Box<dyn ArchiveFile>> {
        Box::pin(async move {
            let path = self.0.join(name);
            let part = path.with_extension("part");
            let file = File::create(&part).map_err(|e| failed(Op::Open, &part, &e))?;
            Ok(Box::new(FileArchive { file, part, path }) as Box<dyn ArchiveFile>)
        })
    }

    fn read<'a>(&'a self, name: &'a str, offset: u64, length: usize) -> IoFuture<'a, Bytes> {
        let path = self.0.join(name);
        let read = move || -> std::io::Result<Bytes> {
            let mut file = File::open(self.0.join(name))?;
            file.seek(SeekFrom::Start(offset))?;
            let mut bytes = Vec::new();
            file.take(length as u64).read_to_end(&mut bytes)?;
            Ok(bytes.into())
        };
        Box::pin(async move { read().map_err(|e| failed(Op::Read, &path, &e)) })
    }
}

impl ArchiveFile for FileArchive {
    fn append(&mut self, bytes: Bytes) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.file.write_all(&bytes).map_err(|e| failed(Op::Write, &self.part, &e))
        })
    }

    fn sync(&mut self) -> IoFuture<'_, ()> {
        Box::pin(async { self.file.sync_all().map_err(|e| failed(Op::Flush, &self.part, &e)) })
    }

    fn publish(self: Box<Self>) -> IoFuture<'static, ()> {
        Box::pin(async move {
            rename(&self.part, &self.path).map_err(|e| failed(Op::Write, &self.path, &e))
        })
    }
}

pub fn medium_name(medium: usize) -> String {
    format!("medium{medium}")
}

/// Opens media, each held against everybody else: what a program that was killed has still on its
/// way holds it too. Gives how often a file was still held.
pub fn open_media(
    runtime: &Runtime,
    place: &Place,
    shape: &Shape,
    media: &[usize],
) -> Result<(Vec<Medium>, u64), String> {
    let options = OpenOptions { lock: true, ..OpenOptions::default() };
    let mut busy = 0;
    let mut all = Vec::new();
    for medium in media {
        let mut files = std::collections::BTreeMap::new();
        for group in 1..=shape.groups {
            let path = place.file(*medium, group);
            let disk = loop {
                match open_disk(runtime.real_env(), &path, &options) {
                    Ok(disk) => break disk,
                    Err(error) if matches!(error.kind, IoErrorKind::Busy) && busy < 5000 => {
                        busy += 1;
                        let env = runtime.env();
                        runtime.block_on(env.sleep(Duration::from_millis(1)));
                    }
                    Err(error) => return Err(format!("{}: {error}", path.display())),
                }
            };
            files.insert(group, disk as Arc<dyn Device>);
        }
        all.push(Medium { name: medium_name(*medium), files });
    }
    Ok((all, busy))
}
