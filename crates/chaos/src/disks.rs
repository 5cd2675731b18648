//! Handle of a mounted chaos disk: mounting, faults, power.

#![expect(clippy::disallowed_methods, reason = "a disk outside the program has the real clock")]

use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use fuser::{BackgroundSession, Config, MountOption};
use nix::mount::{MntFlags, umount2};

use crate::counters::Counters;
use crate::cut::{Cut, Lost, When};
use crate::error::ChaosError;
use crate::fault::{Faults, Op};
use crate::serve::{Server, Shared};
use crate::state::{Node, State};

/// Serving threads. More than one: a write must not wait while another is copied.
const THREADS: usize = 2;

/// A mounted chaos disk: one file system, each file of which serves as a disk.
/// It is unmounted cleanly when this is dropped: hanging requests are answered, and the cache
/// is made durable.
pub struct ChaosDisks {
    shared: Arc<Shared>,
    backing: PathBuf,
    at: PathBuf,
    session: Option<BackgroundSession>,
}

impl std::fmt::Debug for ChaosDisks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChaosDisks({} at {})", self.backing.display(), self.at.display())
    }
}

impl ChaosDisks {
    /// Serves the regular files of `backing` at the directory `at`.
    ///
    /// # Errors
    /// A file of `backing` cannot be opened; there is no FUSE here, or no permission to mount.
    pub fn mount(backing: &Path, at: &Path) -> Result<ChaosDisks, ChaosError> {
        let unusable = |source| ChaosError::Backing { path: backing.to_owned(), source };
        let state = State::open(backing).map_err(unusable)?;
        let shared = Arc::new(Shared::new(state).map_err(unusable)?);
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("chaos".to_owned()),
            MountOption::Subtype("chaos".to_owned()),
            MountOption::DefaultPermissions,
        ];
        config.n_threads = Some(THREADS);
        let session = fuser::spawn_mount(Server(Arc::clone(&shared)), at, &config)
            .map_err(|source| ChaosError::Mount { path: at.to_owned(), source })?;
        let (backing, at) = (backing.to_owned(), at.to_owned());
        Ok(ChaosDisks { shared, backing, at, session: Some(session) })
    }

    /// The path of a file at the mount point.
    pub fn path(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }

    /// The path of its durable state.
    pub fn backing_path(&self, name: &str) -> PathBuf {
        self.backing.join(name)
    }

    fn with<T>(&self, name: &str, act: impl FnOnce(&mut Node) -> T) -> Result<T, ChaosError> {
        let none = || ChaosError::NoSuchFile { name: name.to_owned() };
        let mut state = self.shared.lock();
        let number = state.find(OsStr::new(name)).map_err(|_| none())?;
        state.node(number).map(act).map_err(|_| none())
    }

    fn number(&self, name: &str) -> Result<u64, ChaosError> {
        let none = |_| ChaosError::NoSuchFile { name: name.to_owned() };
        self.shared.lock().find(OsStr::new(name)).map_err(none)
    }

    fn backing_error(&self, source: std::io::Error) -> ChaosError {
        ChaosError::Backing { path: self.backing.clone(), source }
    }

    /// Cuts the power of all files now.
    ///
    /// # Errors
    /// A backing file cannot be written.
    pub fn cut(&self, cut: &Cut) -> Result<Lost, ChaosError> {
        let lost = self.shared.lock().cut(cut).map_err(|error| self.backing_error(error));
        // Hanging requests fail now: a dead disk answers nobody, but its users must be able to exit.
        self.shared.later.release(None);
        self.shared.was_cut.notify_all();
        lost
    }

    /// Cuts the power of all files at that moment. Only one such cut can be armed.
    pub fn cut_when(&self, when: When, cut: Cut) {
        self.shared.lock().arm(None, when, cut);
    }

    /// Cuts the power of one file at that moment, counted by its own requests. Only one such
    /// cut can be armed.
    ///
    /// # Errors
    /// There is no such file.
    pub fn cut_file_when(&self, name: &str, when: When, cut: Cut) -> Result<(), ChaosError> {
        let number = self.number(name)?;
        self.shared.lock().arm(Some(number), when, cut);
        Ok(())
    }

    /// Whether the power is on. A file that lost only its own power is ignored here.
    pub fn is_on(&self) -> bool {
        self.shared.lock().is_on()
    }

    /// Waits until the power is off; returns the result of the cut, or `None` if it is still on after `patience`.
    pub fn wait_for_cut(&self, patience: Duration) -> Option<Lost> {
        let end = Instant::now() + patience;
        let mut state = self.shared.lock();
        while state.is_on() {
            let left = end.checked_duration_since(Instant::now())?;
            state = self
                .shared
                .was_cut
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let lost = state.last_cut;
        drop(state);
        self.shared.later.release(None);
        lost
    }

    /// Cuts the power of one file now.
    ///
    /// # Errors
    /// There is no such file, or its backing file cannot be written.
    pub fn cut_file(&self, name: &str, cut: &Cut) -> Result<Lost, ChaosError> {
        let number = self.number(name)?;
        let lost = self.shared.lock().cut_file(number, cut);
        self.shared.later.release(Some(number));
        lost.map_err(|error| self.backing_error(error))
    }

    /// Turns the power of one file on again; the surviving data is served.
    ///
    /// # Errors
    /// There is no such file.
    pub fn power_on_file(&self, name: &str) -> Result<(), ChaosError> {
        self.with(name, Node::power_on)
    }

    /// Turns all power on again; the surviving data is served. Faults stay in force.
    pub fn power_on(&self) {
        self.shared.lock().power_on();
    }

    /// Delays requests of this kind by this time; zero ends it.
    ///
    /// # Errors
    /// There is no such file.
    pub fn delay(&self, name: &str, op: Op, delay: Duration) -> Result<(), ChaosError> {
        self.with(name, |node| node.faults.delays[op as usize] = delay)
    }

    /// Requests of this kind are not answered until [`release`](Self::release), a cut or the end.
    ///
    /// # Errors
    /// There is no such file.
    pub fn hang(&self, name: &str, op: Op) -> Result<(), ChaosError> {
        self.with(name, |node| node.faults.hanging.insert(op)).map(drop)
    }

    /// The file answers again, including the requests that hung.
    ///
    /// # Errors
    /// There is no such file.
    pub fn release(&self, name: &str) -> Result<(), ChaosError> {
        self.with(name, |node| node.faults.hanging.clear())?;
        self.shared.later.release(Some(self.number(name)?));
        Ok(())
    }

    /// Requests of this kind that touch `range` (bytes) fail with EIO; a failed write has stored
    /// a random subset of its sectors.
    ///
    /// # Errors
    /// There is no such file.
    pub fn fail(&self, name: &str, op: Op, range: Range<u64>) -> Result<(), ChaosError> {
        self.with(name, |node| node.faults.failing.push((op, range)))
    }

    /// Sets whether flushes and durable writes are acknowledged but not done. The cache still answers
    /// reads, and a later honest flush makes everything durable.
    ///
    /// # Errors
    /// There is no such file.
    pub fn lie(&self, name: &str, lying: bool) -> Result<(), ChaosError> {
        self.with(name, |node| node.faults.lying = lying)
    }

    /// The next write is acknowledged, but only a random subset of its sectors is stored.
    ///
    /// # Errors
    /// There is no such file.
    pub fn tear_next_write(&self, name: &str) -> Result<(), ChaosError> {
        self.with(name, |node| node.faults.tear_next = true)
    }

    /// Ends the faults of a file, including a hang, but not a cut.
    ///
    /// # Errors
    /// There is no such file.
    pub fn heal(&self, name: &str) -> Result<(), ChaosError> {
        self.with(name, |node| node.faults = Faults::default())?;
        self.release(name)
    }

    /// Sectors of a file that a cut could lose now.
    ///
    /// # Errors
    /// There is no such file.
    pub fn unflushed(&self, name: &str) -> Result<u64, ChaosError> {
        self.with(name, |node| node.content.unflushed())
    }

    /// Requests on a file that hang now.
    ///
    /// # Errors
    /// There is no such file.
    pub fn hanging(&self, name: &str) -> Result<usize, ChaosError> {
        Ok(self.shared.later.held(self.number(name)?))
    }

    /// The work done so far.
    pub fn counters(&self) -> Counters {
        self.shared.lock().counters
    }
}

impl Drop for ChaosDisks {
    fn drop(&mut self) {
        {
            let mut state = self.shared.lock();
            for node in state.nodes.values_mut() {
                node.faults = Faults::default();
                // Nobody is left to report it to.
                let _ = node.content.flush();
            }
        }
        self.shared.later.release(None);
        // Detached: a process with an open file, or with its working directory here, does not prevent it.
        let detached = umount2(&self.at, MntFlags::MNT_DETACH);
        // Its threads end when the last file is closed; this does not wait for that.
        match self.session.take() {
            Some(session) if detached.is_ok() => drop(session.guard),
            session => drop(session),
        }
    }
}
