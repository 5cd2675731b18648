//! The devices of this machine: files and loop devices.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use bytes::Bytes;
use cellar_io::real::{Access, OpenOptions, RealEnv, open_disk};
use cellar_io::{Buffer, Device, Discard, Durability, Geometry, Io, IoFuture};

use super::load::{GROUP_BYTES, GROUPS};

/// Size of a device: the files of a log.
pub const BYTES: u64 = GROUP_BYTES * GROUPS as u64;

/// A stretch of a device.
struct Part {
    inner: Arc<dyn Device>,
    start: u64,
}

/// The files of a log, one after the other.
pub fn files(device: &Arc<dyn Device>) -> Vec<Arc<dyn Device>> {
    let part = |group| {
        let (inner, start) = (Arc::clone(device), u64::from(group) * GROUP_BYTES);
        Arc::new(Part { inner, start }) as Arc<dyn Device>
    };
    (0..GROUPS).map(part).collect()
}

impl Device for Part {
    fn geometry(&self) -> Geometry {
        Geometry { size: GROUP_BYTES, ..self.inner.geometry() }
    }
    fn read(&self, io: Io, at: u64, buffers: Vec<Buffer>) -> IoFuture<'_, Vec<Buffer>> {
        self.inner.read(io, self.start + at, buffers)
    }
    fn write(&self, io: Io, at: u64, data: Vec<Bytes>, how: Durability) -> IoFuture<'_, ()> {
        self.inner.write(io, self.start + at, data, how)
    }
    fn write_alone(&self, io: Io, at: u64, data: Vec<Bytes>) -> IoFuture<'_, ()> {
        self.inner.write_alone(io, self.start + at, data)
    }
    fn flush(&self, io: Io) -> IoFuture<'_, ()> {
        self.inner.flush(io)
    }
    fn discard(&self, io: Io, at: u64, length: u64, how: Discard) -> IoFuture<'_, ()> {
        self.inner.discard(io, self.start + at, length, how)
    }
}

/// Writes the file once: a write into a hole measures the file system.
fn prepare(file: &Path) {
    if file.metadata().is_ok_and(|m| m.len() == BYTES) {
        return;
    }
    let mut out = std::fs::File::create(file).unwrap();
    for _ in 0..BYTES >> 20 {
        std::io::Write::write_all(&mut out, &vec![0u8; 1 << 20]).unwrap();
    }
    out.sync_all().unwrap();
}

/// A file of the file system under `dir`.
pub fn file(env: &Arc<RealEnv>, dir: &Path, access: Access) -> (String, Arc<dyn Device>) {
    let name = if access == Access::Direct { "file, direct" } else { "file, buffered" };
    let path = dir.join("file");
    prepare(&path);
    let disk = open_disk(env, &path, &OpenOptions { access, ..OpenOptions::default() }).unwrap();
    (format!("{name} ({})", disk.effective()), disk)
}

/// A loop device; detached when dropped.
pub struct Loop {
    path: PathBuf,
}

impl Loop {
    /// Over a separate file under `dir`. Returns the reason if that is not possible here.
    pub fn new(dir: &Path, sector: u32, direct: bool) -> Result<Loop, String> {
        let under =
            dir.join(format!("loop-{sector}-{}", if direct { "direct" } else { "buffered" }));
        prepare(&under);
        let mut losetup = Command::new("losetup");
        losetup.args(["-f", "--show", &format!("--sector-size={sector}")]);
        losetup.arg(format!("--direct-io={}", if direct { "on" } else { "off" }));
        let out = losetup.arg(&under).output().map_err(|e| e.to_string())?;
        match out.status.success() {
            true => {
                let path = PathBuf::from(String::from_utf8_lossy(&out.stdout).trim());
                Ok(Loop { path })
            }
            false => Err(String::from_utf8_lossy(&out.stderr).trim().to_owned()),
        }
    }

    /// The kernel may have silently refused direct I/O on the underlying file.
    pub fn is_direct(&self) -> bool {
        let name = self.path.file_name().unwrap().to_string_lossy().into_owned();
        let dio = std::fs::read_to_string(format!("/sys/block/{name}/loop/dio"));
        dio.is_ok_and(|dio| dio.trim() == "1")
    }

    /// The disk.
    pub fn open(&self, env: &Arc<RealEnv>) -> Arc<dyn Device> {
        open_disk(env, &self.path, &OpenOptions::default()).unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // If it cannot be detached now, it is when its last user closes it.
        let _ = Command::new("losetup").arg("-d").arg(&self.path).status();
    }
}
