//! Errors of the server itself.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the server cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An address cannot be listened on.
    #[error("CELLAR-12541: cannot listen on {address}: {source}\nNext: {next}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
        /// What to do now.
        next: String,
    },
    /// The socket in the directory cannot be made.
    #[error("CELLAR-12541: cannot listen on {}: {source}\nNext: see that the directory can be written", path.display())]
    Socket {
        /// Where it would be.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The certificate or the key of the server is invalid.
    #[error("CELLAR-28860: {what}\nNext: {next}")]
    Certificate {
        /// What is wrong.
        what: String,
        /// What to do now.
        next: String,
    },
    /// The rules of client authentication are invalid.
    #[error("{0}")]
    Rules(String),
    /// Queries could not run.
    #[error("{0}")]
    Engine(cellar_sql::Error),
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    /// The client has gone, or cannot be reached.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    /// The client has disconnected without a Terminate message.
    #[error("the client went away")]
    Gone,
    /// What it sends violates the protocol.
    #[error("{}", .0.message)]
    Refused(Box<Refusal>),
}

/// What a client is told that is not let in, or not let on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub sqlstate: &'static str,
    pub message: String,
    pub hint: Option<&'static str>,
}

impl Refusal {
    /// Whatever is wrong with a login that was to be proved, it says no more.
    pub fn login(user: &str) -> Refusal {
        let text = format!("password authentication failed for user \"{user}\"");
        Refusal::new("28P01", text)
    }
}

impl Refusal {
    pub fn new(sqlstate: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { sqlstate, message: message.into(), hint: None }
    }

    /// A message that violates the protocol.
    pub fn protocol(message: impl Into<String>) -> Refusal {
        Refusal::new("08P01", message)
    }

    #[must_use]
    pub fn hint(mut self, hint: &'static str) -> Refusal {
        self.hint = Some(hint);
        self
    }
}

impl From<Refusal> for Ended {
    fn from(refusal: Refusal) -> Ended {
        Ended::Refused(Box::new(refusal))
    }
}
