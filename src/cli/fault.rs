//! Failures of a command, and their exit codes.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use cellar_io::OPEN_FILES;
use cellar_io::shell;

use super::output;

/// A command that does not end well.
#[derive(Debug)]
pub enum Fault {
    /// Wrong usage: exit 2. Found before anything is touched.
    Usage(String),
    /// It failed: exit 1.
    Failed(String),
    /// The database refused it: exit 1.
    Refused(Box<cellar_instance::Error>),
    /// It worked, and what it found is not well: exit 1 without another word.
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

    /// The first line of what it tells.
    pub fn first_line(&self) -> String {
        match self {
            Fault::Usage(text) | Fault::Failed(text) => {
                text.lines().next().unwrap_or_default().to_owned()
            }
            Fault::Refused(error) => {
                error.stack().first().map(ToString::to_string).unwrap_or_default()
            }
            Fault::NotWell | Fault::Closed => String::new(),
        }
    }

    /// This fault, with the directory put into the commands that its text offers.
    #[must_use]
    pub fn in_directory(self, dir: &Path) -> Fault {
        match self {
            Fault::Usage(message) => Fault::Usage(with_directory(&message, dir)),
            Fault::Failed(message) => Fault::Failed(with_directory(&message, dir)),
            Fault::Refused(error) => match error.next_step().map(|next| told_where(next, dir)) {
                Some(next) => Fault::Refused(Box::new(error.hint(next))),
                None => Fault::Refused(error),
            },
            other => other,
        }
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
            Fault::Refused(error) => {
                output::notice(&error.to_string());
                1
            }
            Fault::NotWell => 1,
            Fault::Closed => 0,
        }
    }
}

/// Commands that are told a directory first.
const IN_DIRECTORY: [&str; 5] = ["load", "sql", "status", "validate", "asm"];

/// Puts the directory into the commands of the next step, where whoever wrote it did not know it.
fn with_directory(message: &str, dir: &Path) -> String {
    let Some(at) = message.find("Next: ") else { return message.to_owned() };
    let (head, next) = message.split_at(at);
    format!("{head}{}", told_where(next, dir))
}

/// `text` with the directory in its commands: for `DIR`, and where one says none.
pub fn told_where(text: &str, dir: &Path) -> String {
    let dir = shell::path(dir);
    let mut out = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let fresh = !out.ends_with(|c: char| c.is_alphanumeric() || "/-_'".contains(c));
        let taken = match fresh {
            true => command_at(rest, &dir).or_else(|| placeholder_at(rest, &out, &dir)),
            false => None,
        };
        let (told, length) = taken.unwrap_or_else(|| {
            let length = rest.chars().next().map_or(0, char::len_utf8);
            (rest[..length].to_owned(), length)
        });
        out.push_str(&told);
        rest = &rest[length..];
    }
    out
}

/// Whether a word ends where `rest` begins.
fn ends(rest: &str) -> bool {
    !rest.starts_with(|c: char| c.is_alphanumeric() || "-_'".contains(c))
}

/// A command that `text` begins with, up to its directory, and how much of the text that is.
fn command_at(text: &str, dir: &str) -> Option<(String, usize)> {
    let named = |name: &&str| {
        let rest = text.strip_prefix("cellar ")?.strip_prefix(name)?;
        ends(rest).then(|| (format!("cellar {name} {dir}"), rest))
    };
    let (told, rest) = IN_DIRECTORY.iter().find_map(named)?;
    let given = [dir, "DIR"].into_iter().find_map(|word| {
        rest.strip_prefix(' ')?
            .strip_prefix(word)
            .filter(|rest| ends(rest) && !rest.starts_with('/'))
    });
    Some((told, text.len() - given.unwrap_or(rest).len()))
}

/// The placeholder that `text` begins with, where it does not stand for a directory to be made.
fn placeholder_at(text: &str, before: &str, dir: &str) -> Option<(String, usize)> {
    let rest = text.strip_prefix("DIR")?;
    (ends(rest) && !before.ends_with("init ")).then(|| (dir.to_owned(), "DIR".len()))
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Usage(m) | Fault::Failed(m) => f.write_str(m),
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
                Fault::Failed(format!(
                    "CELLAR-70130: {OPEN_FILES}\nNext: nothing was changed. Raise the limit and try \
                     again: ulimit -n 1024"
                ))
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_the_next_step_name_the_directory_once() {
        let told = |text: &str| with_directory(text, Path::new("my/db"));
        for (text, expected) in [
            ("CELLAR-1: DIR x", "CELLAR-1: DIR x"),
            ("x\nNext: cellar asm ls +DATA", "x\nNext: cellar asm my/db ls +DATA"),
            ("x\nNext: see cellar validate", "x\nNext: see cellar validate my/db"),
            ("x\nNext: cellar status; dmesg", "x\nNext: cellar status my/db; dmesg"),
            ("x\nNext: cellar load DIR FILE", "x\nNext: cellar load my/db FILE"),
            ("x\nNext: not in DIR/disks", "x\nNext: not in my/db/disks"),
            ("x\nNext: cellar disks", "x\nNext: cellar disks"),
            ("x\nNext: cellar init DIR; or not", "x\nNext: cellar init DIR; or not"),
            (
                "x\nNext: cellar asm DIR cp x (cellar sql)",
                "x\nNext: cellar asm my/db cp x (cellar sql my/db)",
            ),
        ] {
            assert_eq!(told(text), expected);
            assert_eq!(told(&told(text)), expected, "twice");
        }
        for (dir, quoted) in [("my db", "'my db'"), ("it's", "'it'\\''s'"), ("a", "a")] {
            let told = with_directory("x\nNext: cellar status", Path::new(dir));
            assert_eq!(told, format!("x\nNext: cellar status {quoted}"));
            assert_eq!(with_directory(&told, Path::new(dir)), told);
        }
    }
}
