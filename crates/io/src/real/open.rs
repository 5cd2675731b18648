//! Opening a disk: which engine and access are in force, and why.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use event_listener::Event;
use rustix::fs::FlockOperation;

use crate::buffer::{ALIGNMENT, Buffer};
use crate::device::Geometry;
use crate::env::{Env, EnvExt};
use crate::error::{IoError, IoErrorKind, Op};

use super::alone::Alone;
use super::disk::RealDisk;
use super::effective::{EffectiveAccess, EngineChoice};
use super::engine::Engine;
use super::errno::kind_of;
use super::probe::block_of;
use super::raw;
use super::runtime::RealEnv;
use super::sysfs::Block;
use super::watch::{Identity, Watch};

/// How often a disk is compared with its path.
const WATCH_INTERVAL: Duration = Duration::from_millis(250);
const TMPFS_MAGIC: u64 = 0x0102_1994;
/// File systems that zero a range without writing it: ext4, xfs, btrfs, tmpfs.
const FAST_ZERO_MAGICS: [u64; 4] = [0xEF53, 0x5846_5342, 0x9123_683E, TMPFS_MAGIC];

/// Whether the page cache of the system is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Access {
    /// `O_DIRECT`: past the page cache.
    #[default]
    Direct,
    /// Through the page cache. Block devices are always direct.
    Buffered,
}

/// Oracle's parameter `filesystemio_options`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FilesystemIo {
    /// Synchronous, buffered.
    None,
    /// Asynchronous, buffered.
    Asynch,
    /// Synchronous, direct.
    DirectIo,
    /// Asynchronous, direct.
    #[default]
    SetAll,
}

/// Engine and access that follow from `filesystemio_options` and `disk_asynch_io`. Block devices
/// are always direct and obey `disk_asynch_io` alone.
pub fn io_mode(
    filesystemio_options: FilesystemIo,
    disk_asynch_io: bool,
    is_block: bool,
) -> (EngineChoice, Access) {
    let asynchronous = disk_asynch_io
        && (is_block
            || matches!(filesystemio_options, FilesystemIo::Asynch | FilesystemIo::SetAll));
    let direct =
        is_block || matches!(filesystemio_options, FilesystemIo::DirectIo | FilesystemIo::SetAll);
    (
        if asynchronous { EngineChoice::Auto } else { EngineChoice::Sync },
        if direct { Access::Direct } else { Access::Buffered },
    )
}

/// How a disk is opened.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// The engine asked for; the next best one is used where that is refused.
    pub engine: EngineChoice,
    /// The access asked for; files are buffered where their file system refuses direct access.
    pub access: Access,
    /// Writes are refused.
    pub read_only: bool,
    /// Locks the disk against everybody else who asks for the lock.
    pub lock: bool,
    /// Use this logical sector size (512 or 4096) instead of the disk's own.
    pub sector: Option<u32>,
}

/// Opens a regular file or block device.
///
/// # Errors
/// [`IoErrorKind::NotFound`], [`IoErrorKind::Permission`], [`IoErrorKind::Busy`] when it is
/// locked, mounted or part of something else, [`IoErrorKind::Unsupported`] when it is neither
/// file nor block device or cannot work in the sector size asked for.
pub fn open_disk(
    env: &Arc<RealEnv>,
    path: &Path,
    options: &OpenOptions,
) -> Result<Arc<RealDisk>, IoError> {
    let name: Arc<str> = path.to_string_lossy().into();
    open(env, path, &name, options).map_err(|kind| IoError::new(kind, &name, Op::Open, 0, 0))
}

fn open(
    env: &Arc<RealEnv>,
    path: &Path,
    name: &Arc<str>,
    options: &OpenOptions,
) -> Result<Arc<RealDisk>, IoErrorKind> {
    let path = std::path::absolute(path).map_err(|e| kind(&e))?;
    let mut remarks = Vec::new();
    let (file, direct) = open_file(&path, options, &mut remarks)?;
    let metadata = file.metadata().map_err(|e| kind(&e))?;
    let identity = Identity::of(&metadata);
    let shape = Shape::of(&file, &metadata, direct, options.sector)?;
    let file = Arc::new(OwnedFd::from(file));
    let size = if identity.is_block {
        rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).map_err(|e| kind(&e.into()))?
    } else {
        metadata.len()
    };
    let (engine, chosen) = choose(env, options.engine, &mut remarks);
    let pool = env.pool();
    let sector = u64::from(shape.logical);
    let watch = Arc::new(Watch {
        path,
        file: Arc::clone(&file),
        identity,
        size: AtomicU64::new(size - size % sector),
        sector,
        engines: [Arc::clone(&engine), Arc::clone(&pool)],
        reason: OnceLock::new(),
        event: Event::new(),
    });
    watch_it(env, &watch);
    Ok(Arc::new(RealDisk {
        geometry: shape.geometry(name, &file, identity.is_block, direct),
        file,
        engine,
        pool,
        memory_alignment: shape.memory_alignment,
        alone: Alone::new(env.clock_source()),
        watch,
        effective: EffectiveAccess { engine: chosen, direct, remarks },
    }))
}

fn kind(error: &std::io::Error) -> IoErrorKind {
    error.raw_os_error().map_or(IoErrorKind::Os(0), kind_of)
}

/// Opens and locks; the flag says whether `O_DIRECT` is in force.
fn open_file(
    path: &Path,
    options: &OpenOptions,
    remarks: &mut Vec<String>,
) -> Result<(File, bool), IoErrorKind> {
    let metadata = std::fs::metadata(path).map_err(|e| kind(&e))?;
    let is_block = metadata.file_type().is_block_device();
    if !is_block && !metadata.is_file() {
        return Err(IoErrorKind::Unsupported {
            what: "a disk is a regular file or a block device",
        });
    }
    let wants_direct = is_block || options.access == Access::Direct;
    // For a block device O_EXCL means: not mounted, and in no volume or array.
    let exclusive = is_block && options.lock && !options.read_only;
    let flags = |direct: bool| {
        let exclusive = if exclusive { libc::O_EXCL } else { 0 };
        exclusive | if direct { libc::O_DIRECT } else { 0 }
    };
    let attempt = |direct: bool| {
        std::fs::OpenOptions::new()
            .read(true)
            .write(!options.read_only)
            .custom_flags(flags(direct))
            .open(path)
    };
    let mut direct = wants_direct;
    let file = match attempt(wants_direct) {
        Err(e) if wants_direct && !is_block && e.raw_os_error() == Some(libc::EINVAL) => {
            remarks.push("buffered: the file system refuses O_DIRECT".to_owned());
            direct = false;
            attempt(false)
        }
        outcome => outcome,
    };
    let file = file.map_err(|e| kind(&e))?;
    if direct && !is_block && magic(&file) == TMPFS_MAGIC {
        // It takes the flag and ignores it.
        remarks.push("buffered: tmpfs keeps its files in memory".to_owned());
        direct = false;
    }
    if options.lock {
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|e| kind(&e.into()))?;
    }
    Ok((file, direct))
}

fn magic(file: &impl std::os::fd::AsFd) -> u64 {
    rustix::fs::fstatfs(file).map_or(0, |s| s.f_type as u64)
}

/// The sizes that requests must respect.
struct Shape {
    logical: u32,
    physical: u32,
    memory_alignment: usize,
    block: Option<Block>,
}

impl Shape {
    fn of(
        file: &File,
        metadata: &std::fs::Metadata,
        direct: bool,
        asked: Option<u32>,
    ) -> Result<Shape, IoErrorKind> {
        let is_block = metadata.file_type().is_block_device();
        let block = block_of(metadata);
        let (legal, physical, memory) = if is_block {
            let (logical, physical) = raw::sectors(file).map_err(|e| kind(&e))?;
            (logical, physical, logical)
        } else {
            let physical = block.as_ref().and_then(|b| b.number("queue/physical_block_size"));
            let physical = physical.and_then(|p| u32::try_from(p).ok()).unwrap_or(4096);
            let (memory, offset) = raw::direct_alignment(file).unwrap_or_else(|| tried(file));
            (if direct { offset } else { 512 }, physical, memory)
        };
        let legal = legal.max(512);
        let logical = match asked {
            None => legal,
            Some(asked) if asked >= legal && matches!(asked, 512 | 4096) => asked,
            Some(_) => {
                return Err(IoErrorKind::Unsupported {
                    what: "the disk cannot work in this sector size (512 or 4096, not below its own)",
                });
            }
        };
        let memory_alignment = if direct { (memory as usize).clamp(1, ALIGNMENT) } else { 1 };
        Ok(Shape { logical, physical: physical.max(logical), memory_alignment, block })
    }

    fn geometry(&self, name: &Arc<str>, file: &OwnedFd, is_block: bool, direct: bool) -> Geometry {
        let queue = |what: &str| self.block.as_ref().and_then(|b| b.number(what)).unwrap_or(0);
        let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let write_cache = self.block.as_ref().and_then(|b| b.word("queue/write_cache"));
        Geometry {
            name: Arc::clone(name),
            size: 0,
            logical_sector: self.logical,
            physical_sector: self.physical,
            transfer_max: narrow(queue("queue/max_sectors_kb").saturating_mul(1024)),
            queue_depth: narrow(queue("queue/nr_requests")),
            volatile_cache: !direct || write_cache.is_none_or(|word| word == "write back"),
            fast_zero: if is_block {
                queue("queue/write_zeroes_max_bytes") > 0
            } else {
                FAST_ZERO_MAGICS.contains(&magic(file))
            },
        }
    }
}

/// Finds out by trial reads what statx does not report.
fn tried(file: &File) -> (u32, u32) {
    let mut buffer = Buffer::new(512);
    if raw::can_read(file, 512, &mut buffer) { (512, 512) } else { (4096, 4096) }
}

/// The first engine from `wanted` on that works here.
fn choose(
    env: &RealEnv,
    wanted: EngineChoice,
    remarks: &mut Vec<String>,
) -> (Arc<dyn Engine>, EngineChoice) {
    if matches!(wanted, EngineChoice::Auto | EngineChoice::IoUring) {
        match env.uring() {
            Ok(engine) => return (engine, EngineChoice::IoUring),
            Err(e) => remarks.push(format!("io_uring is refused here: {e}")),
        }
    }
    if wanted != EngineChoice::Sync {
        match env.libaio() {
            Ok(engine) => return (engine, EngineChoice::LibAio),
            Err(e) => remarks.push(format!("libaio is refused here: {e}")),
        }
    }
    (env.pool(), EngineChoice::Sync)
}

/// Compares the disk with its path until it is closed.
fn watch_it(env: &Arc<RealEnv>, watch: &Arc<Watch>) {
    let watch = Arc::downgrade(watch);
    let weak = Arc::downgrade(env);
    env.spawn(
        "watch disk",
        Box::pin(async move {
            loop {
                let Some(env) = weak.upgrade() else { return };
                let pause = env.sleep(WATCH_INTERVAL);
                drop(env);
                pause.await;
                let Some(watch) = watch.upgrade() else { return };
                watch.tick();
            }
        }),
    );
}
