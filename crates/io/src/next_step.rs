//! Next steps that errors suggest: words and commands. Whoever knows the database directory fills
//! it in.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::shell;

/// The placeholder for a directory that is not known.
const DIRECTORY: &str = "DIR";

/// What to do next.
///
/// ```
/// use std::path::Path;
/// use cellar_io::NextStep;
///
/// let next = NextStep::from("see which there are: ").cellar("asm", "lsdsk -k").then("; or wait");
/// assert_eq!(next.to_string(), "see which there are: cellar asm DIR lsdsk -k; or wait");
/// let told = next.in_directory(Path::new("my db")).to_string();
/// assert_eq!(told, "see which there are: cellar asm 'my db' lsdsk -k; or wait");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NextStep(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Words(String),
    Directory,
    /// A command of ours: its name, the directory where it is known, what follows.
    Cellar(String, Option<PathBuf>, String),
}

impl NextStep {
    /// Appends words.
    #[must_use]
    pub fn then(self, words: impl Into<String>) -> NextStep {
        self.with(Part::Words(words.into()))
    }

    /// Appends the directory of the database.
    #[must_use]
    pub fn directory(self) -> NextStep {
        self.with(Part::Directory)
    }

    /// Appends one of our commands: `cellar NAME DIR REST`.
    #[must_use]
    pub fn cellar(self, name: &str, rest: &str) -> NextStep {
        self.with(Part::Cellar(name.to_owned(), None, rest.to_owned()))
    }

    /// Appends another step.
    #[must_use]
    pub fn and(mut self, other: NextStep) -> NextStep {
        self.0.extend(other.0);
        self
    }

    fn with(mut self, part: Part) -> NextStep {
        self.0.push(part);
        self
    }

    /// The same step for the database at `dir`.
    #[must_use]
    pub fn in_directory(self, dir: &Path) -> NextStep {
        let fill = |part| match part {
            Part::Directory => Part::Words(shell::path(dir)),
            Part::Cellar(name, None, rest) => Part::Cellar(name, Some(dir.to_owned()), rest),
            known @ (Part::Words(_) | Part::Cellar(..)) => known,
        };
        NextStep(self.0.into_iter().map(fill).collect())
    }

    /// The same step with its words changed.
    #[must_use]
    pub fn with_words(self, change: impl Fn(String) -> String) -> NextStep {
        let changed = |part| match part {
            Part::Words(words) => Part::Words(change(words)),
            Part::Cellar(name, dir, rest) => Part::Cellar(name, dir, change(rest)),
            Part::Directory => Part::Directory,
        };
        NextStep(self.0.into_iter().map(changed).collect())
    }

    /// The same step with a remark after each of these commands.
    #[must_use]
    pub fn with_remark(self, commands: &[&str], remark: &str) -> NextStep {
        let is_one = |part: &Part| matches!(part, Part::Cellar(name, ..) if commands.contains(&name.as_str()));
        let told = |part| match part {
            command @ Part::Cellar(..) if is_one(&command) => {
                [Some(command), Some(Part::Words(remark.to_owned()))]
            }
            other => [Some(other), None],
        };
        NextStep(self.0.into_iter().flat_map(told).flatten().collect())
    }
}

impl From<String> for NextStep {
    fn from(words: String) -> NextStep {
        NextStep::default().then(words)
    }
}

impl From<&str> for NextStep {
    fn from(words: &str) -> NextStep {
        NextStep::default().then(words)
    }
}

impl fmt::Display for NextStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            Part::Words(words) => f.write_str(words),
            Part::Directory => f.write_str(DIRECTORY),
            Part::Cellar(name, dir, rest) => {
                let dir = dir.as_deref().map_or(DIRECTORY.to_owned(), shell::path);
                let blank = if rest.is_empty() { "" } else { " " };
                write!(f, "cellar {name} {dir}{blank}{rest}")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_name_the_directory_once() {
        let next = NextStep::from("not in ").directory().then("/disks: ").cellar("status", "");
        assert_eq!(next.to_string(), "not in DIR/disks: cellar status DIR");
        for (dir, quoted) in [("my db", "'my db'"), ("it's", "'it'\\''s'"), ("DIR", "DIR")] {
            let told = next.clone().in_directory(Path::new(dir));
            assert_eq!(told.to_string(), format!("not in {quoted}/disks: cellar status {quoted}"));
            assert_eq!(told.clone().in_directory(Path::new("other")), told, "twice");
        }
        let words = NextStep::from("DROP TABLE \"DIR\", as cellar status says")
            .in_directory(Path::new("d"));
        assert_eq!(words.to_string(), "DROP TABLE \"DIR\", as cellar status says");
        let remark = next.cellar("sql", "-c x").with_remark(&["sql"], " (elsewhere)").to_string();
        assert!(remark.ends_with(": cellar status DIRcellar sql DIR -c x (elsewhere)"), "{remark}");
    }
}
