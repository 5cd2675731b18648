//! Why a command ends without success, and with which exit code.

use std::fmt;
use std::io;
use std::process::ExitCode;

use super::output;

/// A command that does not end well.
#[derive(Debug)]
pub enum Fault {
    /// Wrong usage: exit 2. Found before anything is touched.
    Usage(String),
    /// It failed: exit 1.
    Failed(String),
    /// It worked, and what it found is not well: exit 1 without another word.
    #[cfg_attr(not(feature = "sql"), expect(dead_code, reason = "only status and validate"))]
    NotWell,
    /// The reader of our output went away: that is its right, exit 0.
    Closed,
}

impl Fault {
    /// Wrong usage, with what would be right.
    pub fn usage(message: impl Into<String>) -> Fault {
        Fault::Usage(message.into())
    }

    /// Failed.
    pub fn failed(message: impl Into<String>) -> Fault {
        Fault::Failed(message.into())
    }

    /// Tells it on stderr; the exit code.
    pub fn report(&self) -> ExitCode {
        ExitCode::from(self.tell())
    }

    /// Tells it on stderr, of whoever asked; the exit code as a number.
    pub fn tell(&self) -> u8 {
        match self {
            Fault::Usage(message) => {
                output::notice(message);
                2
            }
            Fault::Failed(message) => {
                output::notice(message);
                1
            }
            Fault::NotWell => 1,
            Fault::Closed => 0,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Usage(m) | Fault::Failed(m) => f.write_str(m),
            Fault::NotWell => f.write_str("not well"),
            Fault::Closed => f.write_str("output closed"),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Fault::Closed,
            _ => Fault::Failed(format!("CELLAR-27072: {error}")),
        }
    }
}

impl From<cellar_io::IoError> for Fault {
    fn from(error: cellar_io::IoError) -> Fault {
        Fault::Failed(format!("CELLAR-15080: {error}"))
    }
}

#[cfg(feature = "sql")]
impl From<cellar_sql::Error> for Fault {
    fn from(error: cellar_sql::Error) -> Fault {
        Fault::Failed(error.to_string())
    }
}
