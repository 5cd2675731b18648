//! Opening of the target of `disktest`: a directory, a file or a block device.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cellar_io::real::{OpenOptions, RealEnv, in_memory, open_disk, probe};
use cellar_io::{Device, DeviceExt, Durability, Io, SharedEnv};
use cellar_storage::size::show_bytes;

use super::show::{How, Used};
use super::{Args, FILE_SIZE, run as measure_and_print};
use crate::cli::fault::Fault;
use crate::cli::path;
use crate::cli::signals::End;

/// Size of each write while the file is filled.
const FILL: usize = 1 << 20;
/// Space left free: a file system reserves a little, and others write there too.
const RESERVE: u64 = 64 << 20;

/// Runs `disktest`.
///
/// # Errors
/// Wrong use of `--erase`, a path that cannot be opened, the first request that fails.
pub async fn run(args: &Args, real: &Arc<RealEnv>, env: &SharedEnv) -> Result<(), Fault> {
    let options = OpenOptions { lock: true, ..OpenOptions::default() };
    if args.path.is_dir() {
        if args.erase.is_some() {
            return Err(Fault::usage("--erase is for a file or a disk, not for a directory"));
        }
        check_room(&args.path)?;
        let mut end = End::heard();
        let scratch = Scratch::make(&args.path)?;
        let device: Arc<dyn Device> = open_disk(real, &scratch.0, &options)?;
        let used = Used { how: How::OwnFile(FILE_SIZE), in_memory: in_memory(&args.path) };
        let work = async {
            fill(&device).await?;
            measure_and_print(&device, env, &used, args.format).await
        };
        // The file is removed whatever happens.
        return tokio::select! {
            done = work => done,
            () = end.next() => Err(Fault::failed("CELLAR-01013: stopped by the user")),
        };
    }
    let in_memory = in_memory(&args.path);
    path::look(&args.path, args.erase.is_some())?;
    let Some(serial) = &args.erase else {
        let options = OpenOptions { read_only: true, ..OpenOptions::default() };
        let device: Arc<dyn Device> = open_disk(real, &args.path, &options)?;
        let used = Used { how: How::OnlyRead, in_memory };
        return measure_and_print(&device, env, &used, args.format).await;
    };
    check_serial(&args.path, serial)?;
    let device: Arc<dyn Device> = open_disk(real, &args.path, &options)?;
    let used = Used { how: How::Erased, in_memory };
    measure_and_print(&device, env, &used, args.format).await
}

/// Checks for enough space before any of it is used.
fn check_room(dir: &Path) -> Result<(), Fault> {
    let needed = FILE_SIZE + RESERVE;
    match path::free_bytes(dir) {
        Some(free) if free < needed => Err(Fault::failed(format!(
            "CELLAR-70111: the test writes a file of {} in {}, and leaves {} free; the file system \
             there has {} free\nNext: name a directory on a file system with more room, or make \
             some there",
            show_bytes(FILE_SIZE),
            dir.display(),
            show_bytes(RESERVE),
            show_bytes(free)
        ))),
        _ => Ok(()),
    }
}

fn check_serial(path: &Path, serial: &str) -> Result<(), Fault> {
    let facts = probe(path, &[])?;
    let shown = path.display();
    let refuse = |why: String| Err(Fault::failed(format!("CELLAR-15031: {why}")));
    match facts.serial.as_deref() {
        _ if !facts.mounts.is_empty() || facts.swap || !facts.holders.is_empty() => {
            refuse(format!("{shown} is in use; nothing was written"))
        }
        Some(own) if own == serial => Ok(()),
        Some(own) => refuse(format!(
            "{shown} has the serial number \"{own}\", not \"{serial}\"; nothing was written"
        )),
        None => refuse(format!(
            "{shown} has no serial number to check against; give a directory on it instead"
        )),
    }
}

/// A file that is removed when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn make(dir: &Path) -> Result<Scratch, Fault> {
        let path = dir.join(format!(".cellar-disktest-{}", std::process::id()));
        let file =
            std::fs::OpenOptions::new().write(true).create_new(true).open(&path).map_err(|e| {
                let text = format!("CELLAR-27040: cannot make a file in {}: {e}", dir.display());
                Fault::failed(format!("{text}\nNext: name a directory you may write"))
            })?;
        let scratch = Scratch(path);
        file.set_len(FILE_SIZE)?;
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(e) = std::fs::remove_file(&self.0) {
            eprintln!("Notice: {} could not be removed: {e}", self.0.display());
        }
    }
}

/// Writes every byte once, so that no measured write has to allocate space in the file system.
async fn fill(device: &Arc<dyn Device>) -> Result<(), Fault> {
    let mut offset = 0;
    while offset < FILE_SIZE {
        let data = cellar_io::Buffer::zeroed(FILL).freeze();
        device.write_at(Io::BACKGROUND, offset, data, Durability::Cached).await?;
        offset += FILL as u64;
    }
    device.flush(Io::BACKGROUND).await?;
    Ok(())
}
