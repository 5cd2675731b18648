//! Why a command ends without success, and with which exit code.

use std::fmt;
use std::io;
#[cfg(feature = "sql")]
use std::path::Path;
use std::process::ExitCode;

use cellar_io::OPEN_FILES;

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

    /// The first line of what it tells.
    #[cfg(feature = "sql")]
    pub fn first_line(&self) -> String {
        match self {
            Fault::Usage(text) | Fault::Failed(text) => {
                text.lines().next().unwrap_or_default().to_owned()
            }
            Fault::NotWell | Fault::Closed => String::new(),
        }
    }

    /// The same, with the directory in the commands that it offers.
    #[cfg(feature = "sql")]
    #[must_use]
    pub fn in_directory(self, dir: &Path) -> Fault {
        match self {
            Fault::Usage(message) => Fault::Usage(with_directory(&message, dir)),
            Fault::Failed(message) => Fault::Failed(with_directory(&message, dir)),
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
            Fault::NotWell => 1,
            Fault::Closed => 0,
        }
    }
}

/// Commands that are told a directory first.
#[cfg(feature = "sql")]
const IN_DIRECTORY: [&str; 5] = ["load", "sql", "status", "validate", "asm"];

/// Puts the directory into the commands of the next step, where whoever wrote it did not know it.
#[cfg(feature = "sql")]
fn with_directory(message: &str, dir: &Path) -> String {
    let Some(at) = message.find("Next: ") else { return message.to_owned() };
    let (head, next) = message.split_at(at);
    let shown = dir.display().to_string();
    let dir = if shown.contains(' ') { format!("'{shown}'") } else { shown };
    let words: Vec<&str> = next.split(' ').collect();
    let mut out: Vec<String> = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let core = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        if core == "DIR" || word.starts_with("DIR/") {
            out.push(word.replacen("DIR", &dir, 1));
            continue;
        }
        out.push((*word).to_owned());
        let command = at > 0 && words[at - 1] == "cellar" && IN_DIRECTORY.contains(&core);
        let told = words.get(at + 1).is_some_and(|next| {
            let next = next.trim_end_matches([',', ';', '.', ':']);
            next == "DIR" || next == dir || dir.starts_with(next) && dir.contains(' ')
        });
        if command && !told {
            let end = word.split_once(core).map_or("", |(_, end)| end);
            out.pop();
            out.push(core.to_owned());
            out.push(format!("{dir}{end}"));
        }
    }
    format!("{head}{}", out.join(" "))
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

#[cfg(all(test, feature = "sql"))]
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
        ] {
            assert_eq!(told(text), expected);
            assert_eq!(told(&told(text)), expected, "twice");
        }
        let blank = with_directory("x\nNext: cellar status", Path::new("my db"));
        assert_eq!(blank, "x\nNext: cellar status 'my db'");
        assert_eq!(with_directory(&blank, Path::new("my db")), blank);
    }
}
