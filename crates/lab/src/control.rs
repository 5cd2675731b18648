//! Progress and cancellation of an experiment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::LabError;

/// Receives the current work, units done and total units.
pub type OnProgress<'a> = dyn Fn(&str, u64, u64) + Sync + 'a;

/// Receives the progress of an experiment, and may stop it. After a stop everything created is
/// removed first.
pub struct Control<'a> {
    tell: &'a OnProgress<'a>,
    stop: Arc<AtomicBool>,
}

impl<'a> Control<'a> {
    /// Reports to `tell`; ends the work soon after `stop` is set.
    pub fn new(tell: &'a OnProgress<'a>, stop: Arc<AtomicBool>) -> Control<'a> {
        Control { tell, stop }
    }

    /// Reports to nobody, and runs to the end.
    pub fn quiet() -> Control<'static> {
        Control { tell: &|_, _, _| {}, stop: Arc::default() }
    }

    /// `done` of `total` units of `what` are done.
    pub fn tell(&self, what: &str, done: u64, total: u64) {
        (self.tell)(what, done, total);
    }

    /// Checks whether to continue.
    ///
    /// # Errors
    /// [`LabError::Stopped`].
    pub fn check(&self) -> Result<(), LabError> {
        go_on(&self.stop)
    }

    /// The flag that asks the experiment to stop, for tasks that watch it.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }
}

/// Whether to continue.
pub(crate) fn go_on(stop: &AtomicBool) -> Result<(), LabError> {
    if stop.load(Ordering::Relaxed) { Err(LabError::Stopped) } else { Ok(()) }
}
