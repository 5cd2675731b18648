//! Requests of the kernel, as `fuser` delivers them.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};

use crate::content::Durability;
use crate::fault::Op;
use crate::later::{Job, Later};
use crate::state::{Pause, State};

/// The kernel asks each time: a cached name or length would hide a fault.
const REMEMBERED: Duration = Duration::ZERO;
/// The longest write; a longer one becomes several requests, as on a disk.
const WRITE_MAX: u32 = 1 << 20;

/// The files and the waiting requests, shared by the serving threads and the controlling handle.
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) later: Later,
    /// Notified when the power goes.
    pub(crate) was_cut: std::sync::Condvar,
}

impl Shared {
    pub(crate) fn new(state: State) -> io::Result<Shared> {
        let was_cut = std::sync::Condvar::new();
        Ok(Shared { state: Mutex::new(state), later: Later::new()?, was_cut })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The file system that the kernel talks to.
pub(crate) struct Server(pub(crate) Arc<Shared>);

fn errno(error: io::Error) -> Errno {
    Errno::from_i32(error.raw_os_error().unwrap_or(libc::EIO))
}

fn is_root(parent: INodeNo) -> io::Result<()> {
    // There is only one directory.
    if parent == INodeNo::ROOT { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ENOTDIR)) }
}

impl Server {
    /// Runs `job` when the faults of the file let it begin.
    fn defer(&self, file: u64, pause: Pause, job: Job) {
        match pause {
            Pause::None => job(),
            Pause::For(delay) => self.0.later.after(delay, job),
            Pause::UntilReleased => self.0.later.hold(file, job),
        }
    }
}

fn attributes(state: &mut State, file: u64) -> io::Result<FileAttr> {
    let (metadata, size, kind) = if file == INodeNo::ROOT.0 {
        let metadata = std::fs::metadata(state.dir())?;
        let size = metadata.len();
        (metadata, size, FileType::Directory)
    } else {
        let content = &state.node(file)?.content;
        (content.backing().metadata()?, content.size(), FileType::RegularFile)
    };
    let time = |time: io::Result<SystemTime>| time.unwrap_or(SystemTime::UNIX_EPOCH);
    Ok(FileAttr {
        ino: INodeNo(file),
        size,
        blocks: metadata.blocks(),
        atime: time(metadata.accessed()),
        mtime: time(metadata.modified()),
        ctime: time(metadata.modified()),
        crtime: time(metadata.created()),
        kind,
        perm: (metadata.permissions().mode() & 0o7777) as u16,
        nlink: 1,
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    })
}

/// A directory entry, counted as known to the kernel.
fn entry(state: &mut State, file: u64) -> io::Result<FileAttr> {
    let found = attributes(state, file)?;
    state.node(file)?.lookups += 1;
    Ok(found)
}

/// Bypasses the page cache, which would keep data through a cut and answer reads by itself; and allows
/// concurrent writes, as a disk does.
fn direct() -> FopenFlags {
    FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
}

impl Filesystem for Server {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Kernels without one of them work well enough.
        for flag in [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_PARALLEL_DIROPS] {
            let _ = config.add_capabilities(flag);
        }
        let _ = config.set_max_write(WRITE_MAX);
        let _ = config.set_max_background(1024);
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut state = self.0.lock();
        let found = is_root(parent)
            .and_then(|()| state.powered())
            .and_then(|()| state.find(name))
            .and_then(|file| entry(&mut state, file));
        drop(state);
        match found {
            Ok(found) => reply.entry(&REMEMBERED, &found, Generation(0)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn forget(&self, _req: &Request, ino: INodeNo, nlookup: u64) {
        self.0.lock().forget(ino.0, nlookup);
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let mut state = self.0.lock();
        let found = state.powered().and_then(|()| attributes(&mut state, ino.0));
        drop(state);
        match found {
            Ok(found) => reply.attr(&REMEMBERED, &found),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut state = self.0.lock();
        let mut set = || {
            state.powered()?;
            let content = &mut state.node(ino.0)?.content;
            if let Some(mode) = mode {
                let permissions = std::fs::Permissions::from_mode(mode & 0o7777);
                content.backing().set_permissions(permissions)?;
            }
            if uid.is_some() || gid.is_some() {
                std::os::unix::fs::fchown(content.backing(), uid, gid)?;
            }
            if let Some(size) = size {
                content.set_size(size)?;
            }
            attributes(&mut state, ino.0)
        };
        let found = set();
        drop(state);
        match found {
            Ok(found) => reply.attr(&REMEMBERED, &found),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut state = self.0.lock();
        let done = is_root(parent).and_then(|()| state.powered()).and_then(|()| state.unlink(name));
        drop(state);
        answer(reply, done);
    }

    fn rename(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if flags.contains(RenameFlags::RENAME_EXCHANGE) {
            return reply.error(Errno::EINVAL);
        }
        let replace = !flags.contains(RenameFlags::RENAME_NOREPLACE);
        let mut state = self.0.lock();
        let done = is_root(parent)
            .and_then(|()| is_root(newparent))
            .and_then(|()| state.powered())
            .and_then(|()| state.rename(name, newname, replace));
        drop(state);
        answer(reply, done);
    }

    fn open(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let mut state = self.0.lock();
        let handle = state.powered().and_then(|()| state.handle(ino.0));
        drop(state);
        match handle {
            Ok(handle) => reply.opened(FileHandle(handle), direct()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn create(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let mut state = self.0.lock();
        let made = is_root(parent)
            .and_then(|()| state.powered())
            .and_then(|()| state.create(name, mode & !umask & 0o7777))
            .and_then(|file| Ok((entry(&mut state, file)?, state.handle(file)?)));
        drop(state);
        match made {
            Ok((found, handle)) => {
                let handle = FileHandle(handle);
                reply.created(&REMEMBERED, &found, Generation(0), handle, direct());
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let pause = self.0.lock().pause(ino.0, Op::Read);
        let shared = Arc::clone(&self.0);
        let job = Box::new(move || {
            let read = shared.lock().read(ino.0, fh.0, offset, u64::from(size));
            match read {
                Ok(bytes) => reply.data(&bytes),
                Err(error) => reply.error(errno(error)),
            }
        });
        self.defer(ino.0, pause, job);
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // The kernel puts RWF_DSYNC of one write into the flags of the file; no flush follows.
        let durable = flags.0 & (libc::O_DSYNC | libc::O_SYNC) != 0;
        let durability = if durable { Durability::Durable } else { Durability::Cached };
        let pause = self.0.lock().pause(ino.0, Op::Write);
        if pause == Pause::None {
            return written(&self.0, (ino.0, fh.0), offset, data, durability, reply);
        }
        let (shared, data) = (Arc::clone(&self.0), data.to_vec());
        let job =
            Box::new(move || written(&shared, (ino.0, fh.0), offset, &data, durability, reply));
        self.defer(ino.0, pause, job);
    }

    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // A close makes nothing durable.
        reply.ok();
    }

    fn fsync(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let pause = self.0.lock().pause(ino.0, Op::Flush);
        let shared = Arc::clone(&self.0);
        let job = Box::new(move || {
            let done = shared.lock().flush(ino.0, fh.0);
            shared.was_cut.notify_all();
            answer(reply, done);
        });
        self.defer(ino.0, pause, job);
    }

    fn fsyncdir(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        // Names are durable at once.
        let done = self.0.lock().powered();
        answer(reply, done);
    }

    fn fallocate(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let pause = self.0.lock().pause(ino.0, Op::Write);
        let shared = Arc::clone(&self.0);
        let job = Box::new(move || {
            let done = shared.lock().allocate((ino.0, fh.0), offset, length, mode);
            shared.was_cut.notify_all();
            answer(reply, done);
        });
        self.defer(ino.0, pause, job);
    }

    fn readdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let state = self.0.lock();
        if let Err(error) = is_root(ino).and_then(|()| state.powered()) {
            return reply.error(errno(error));
        }
        let dots = [".", ".."].map(|name| (INodeNo::ROOT, FileType::Directory, name.into()));
        let files =
            state.names().map(|(name, file)| (INodeNo(file), FileType::RegularFile, name.clone()));
        let skip = usize::try_from(offset).unwrap_or(usize::MAX);
        for (index, (file, kind, name)) in dots.into_iter().chain(files).enumerate().skip(skip) {
            if reply.add(file, index as u64 + 1, kind, name) {
                break;
            }
        }
        drop(state);
        reply.ok();
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let state = self.0.lock();
        let found =
            state.powered().and_then(|()| rustix::fs::statvfs(state.dir()).map_err(Into::into));
        drop(state);
        let narrow = |n: u64| u32::try_from(n).unwrap_or(4096);
        match found {
            Ok(of) => reply.statfs(
                of.f_blocks,
                of.f_bfree,
                of.f_bavail,
                of.f_files,
                of.f_ffree,
                narrow(of.f_bsize),
                255,
                narrow(of.f_frsize),
            ),
            Err(error) => reply.error(errno(error)),
        }
    }
}

fn answer(reply: ReplyEmpty, done: io::Result<()>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(error)),
    }
}

fn written(
    shared: &Shared,
    (file, handle): (u64, u64),
    offset: u64,
    data: &[u8],
    durability: Durability,
    reply: ReplyWrite,
) {
    let done = shared.lock().write(file, handle, offset, data, durability);
    shared.was_cut.notify_all();
    match done {
        Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
        Err(error) => reply.error(errno(error)),
    }
}
