//! Progress and cancellation of an experiment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::LabError;

/// Takes what is being done, units done and units in all.
pub type Tell<'a> = dyn Fn(&str, u64, u64) + Sync + 'a;

/// Who is told how far an experiment is, and may stop it. Whoever stops it gets what was made
/// removed first.
pub struct Control<'a> {
    tell: &'a Tell<'a>,
    stop: Arc<AtomicBool>,
}

impl<'a> Control<'a> {
    /// Tells `tell`; ends the work soon after `stop` is set.
    pub fn new(tell: &'a Tell<'a>, stop: Arc<AtomicBool>) -> Control<'a> {
        Control { tell, stop }
    }

    /// Tells nobody, and goes on to the end.
    pub fn quiet() -> Control<'static> {
        Control { tell: &|_, _, _| {}, stop: Arc::default() }
    }

    /// `done` of `total` units of `what` are done.
    pub fn tell(&self, what: &str, done: u64, total: u64) {
        (self.tell)(what, done, total);
    }

    /// Whether to go on.
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

/// Whether to go on.
pub(crate) fn go_on(stop: &AtomicBool) -> Result<(), LabError> {
    if stop.load(Ordering::Relaxed) { Err(LabError::Stopped) } else { Ok(()) }
}
