//! Ends of sessions from outside: because the server stops, or by an order to one of them alone.

use std::sync::Arc;

use tokio::sync::watch;

/// The phases of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    /// Nobody is let in; a session in a transaction may end it.
    Draining,
    /// Everybody goes at once.
    Stopping,
}

/// The phase of the server, and that of one session, whichever is further.
pub(crate) struct Stop {
    server: watch::Receiver<Phase>,
    own: watch::Receiver<Phase>,
    /// Kept: a channel without a sender would count as an order to stop.
    sender: Arc<watch::Sender<Phase>>,
}

impl Stop {
    pub fn new(server: watch::Receiver<Phase>) -> Stop {
        let (sender, own) = watch::channel(Phase::Running);
        Stop { server, own, sender: Arc::new(sender) }
    }

    /// What ends the session.
    pub fn sender(&self) -> Arc<watch::Sender<Phase>> {
        Arc::clone(&self.sender)
    }

    /// Returns when either is at least in this phase.
    pub async fn at_least(&mut self, phase: Phase) {
        tokio::select! {
            _ = self.server.wait_for(|now| *now >= phase) => {}
            _ = self.own.wait_for(|now| *now >= phase) => {}
        }
    }
}
