//! Failures of commands, and their exit codes.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use cellar_instance::Error;
use cellar_io::{NextStep, OPEN_FILES};

use super::output;

/// A command failure.
#[derive(Debug)]
pub enum Fault {
    /// Wrong usage: exit 2. Found before anything is touched.
    Usage(Message),
    /// It failed: exit 1.
    Failed(Message),
    /// The database refused it: exit 1.
    Refused(Box<Error>),
    /// It worked, but found a problem: exit 1 without another message.
    NotWell,
    /// The reader of our output went away: that is allowed, exit 0.
    Closed,
}

/// The problem, and the next step.
#[derive(Clone, Debug)]
pub struct Message {
    text: String,
    next: Option<NextStep>,
}

impl Message {
    fn new(text: impl Into<String>) -> Message {
        Message { text: text.into(), next: None }
    }

    /// Its first line.
    pub fn first_line(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }

    fn in_directory(self, dir: &Path) -> Message {
        Message { next: self.next.map(|next| followable(next.in_directory(dir))), ..self }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        self.next.iter().try_for_each(|next| write!(f, "\nNext: {next}"))
    }
}

impl Fault {
    /// Wrong usage, with the correct form.
    pub fn usage(message: impl Into<String>) -> Fault {
        Fault::Usage(Message::new(message))
    }

    /// Failed.
    pub fn failed(message: impl Into<String>) -> Fault {
        Fault::Failed(Message::new(message))
    }

    /// Adds the next step.
    #[must_use]
    pub fn hint(self, next: impl Into<NextStep>) -> Fault {
        let next = Some(next.into());
        match self {
            Fault::Usage(message) => Fault::Usage(Message { next, ..message }),
            Fault::Failed(message) => Fault::Failed(Message { next, ..message }),
            other => other,
        }
    }

    /// Whether it is a refusal with this number.
    pub fn has(&self, number: u32) -> bool {
        matches!(self, Fault::Refused(error) if error.has(number))
    }

    /// The first line of the message.
    pub fn first_line(&self) -> String {
        match self {
            Fault::Usage(message) | Fault::Failed(message) => message.first_line().to_owned(),
            Fault::Refused(error) => {
                error.stack().first().map(ToString::to_string).unwrap_or_default()
            }
            Fault::NotWell | Fault::Closed => String::new(),
        }
    }

    /// This fault, with the directory inserted into the commands that it suggests.
    #[must_use]
    pub fn in_directory(self, dir: &Path) -> Fault {
        match self {
            Fault::Usage(message) => Fault::Usage(message.in_directory(dir)),
            Fault::Failed(message) => Fault::Failed(message.in_directory(dir)),
            Fault::Refused(error) => {
                let change = |next: NextStep| followable(next.in_directory(dir));
                Fault::Refused(Box::new(error.map_next_step(change)))
            }
            other => other,
        }
    }

    /// Reports it on stderr; returns the exit code.
    pub fn report(&self) -> ExitCode {
        ExitCode::from(self.tell())
    }

    /// Prints it on stderr, which may be another process's; returns the exit code as a number.
    pub fn tell(&self) -> u8 {
        if !matches!(self, Fault::NotWell | Fault::Closed) {
            output::notice(&self.to_string());
        }
        match self {
            Fault::Usage(_) => 2,
            Fault::Failed(_) | Fault::Refused(_) | Fault::NotWell => 1,
            Fault::Closed => 0,
        }
    }
}

/// A next step as it can be followed with this program.
pub fn followable(next: NextStep) -> NextStep {
    match cfg!(feature = "sql") {
        true => next,
        false => next.with_remark(&OF_SQL, " (by a program with SQL)"),
    }
}

/// Commands that only a build with SQL has.
const OF_SQL: [&str; 4] = ["demo", "load", "sql", "start"];

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Usage(message) | Fault::Failed(message) => write!(f, "{message}"),
            Fault::Refused(error) => write!(f, "{error}"),
            Fault::NotWell => f.write_str("not well"),
            Fault::Closed => f.write_str("output closed"),
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Fault::Closed,
            _ if error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => {
                Fault::failed(format!("CELLAR-70130: {OPEN_FILES}"))
                    .hint("nothing was changed. Raise the limit and try again: ulimit -n 1024")
            }
            _ => Fault::failed(format!("CELLAR-27072: {error}")),
        }
    }
}

impl From<cellar_io::IoError> for Fault {
    fn from(error: cellar_io::IoError) -> Fault {
        Fault::failed(format!("CELLAR-15080: {error}"))
    }
}

#[cfg(feature = "sql")]
impl From<cellar_sql::Error> for Fault {
    fn from(error: cellar_sql::Error) -> Fault {
        let text = error.lines().to_string();
        Fault::Failed(Message { text, next: error.what_helps().cloned() })
    }
}
