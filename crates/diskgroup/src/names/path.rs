//! Paths: `+DATA`, `+DATA.FG`, `+DATA/dir/file`, and the names the system gives.

use super::{FailGroupName, FileNo, GroupName, NameError};

/// Longest name of a file or directory, in bytes.
pub const PART_MAX: usize = 255;

/// The name of a file or directory within its directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathPart(String);

impl PathPart {
    /// Checks the name. `%` is allowed, though in a pattern it matches anything.
    pub fn new(value: &str) -> Result<PathPart, NameError> {
        let reason = if value.is_empty() {
            "it is empty"
        } else if value.len() > PART_MAX {
            "it is too long"
        } else if matches!(value, "." | "..") {
            "it means another directory"
        } else if value.chars().any(|c| matches!(c, '/' | '*') || c.is_control()) {
            "it has a character that is not allowed"
        } else {
            return Ok(PathPart(value.to_owned()));
        };
        Err(NameError::Part { value: value.to_owned(), reason })
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for PathPart {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for PathPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A place in a disk group: the group, a failure group of it, or a directory or file in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FilePath {
    /// The disk group.
    pub group: GroupName,
    /// The failure group that is to hold it, as in `+DATA.FG`.
    pub failgroup: Option<FailGroupName>,
    /// Directories from the root, the file last. Empty: the group itself.
    pub parts: Vec<PathPart>,
}

impl FilePath {
    /// Reads `+DATA`, `+DATA.FG`, `+DATA/dir/file`. One slash at the end is allowed.
    pub fn parse(value: &str) -> Result<FilePath, NameError> {
        let bad = |reason| NameError::Path { value: value.to_owned(), reason };
        let rest = value.strip_prefix('+').ok_or_else(|| bad("it does not start with +"))?;
        let (head, tail) = rest.split_once('/').unwrap_or((rest, ""));
        let (group, failgroup) = match head.split_once('.') {
            Some((group, failgroup)) => (group, Some(FailGroupName::new(failgroup)?)),
            None => (head, None),
        };
        let group = GroupName::new(group)?;
        let tail = tail.strip_suffix('/').unwrap_or(tail);
        let parts = if tail.is_empty() {
            Vec::new()
        } else {
            tail.split('/').map(PathPart::new).collect::<Result<_, _>>()?
        };
        Ok(FilePath { group, failgroup, parts })
    }

    /// The last name and the directories before it; none for the group itself.
    #[must_use]
    pub fn split_last(&self) -> Option<(&PathPart, &[PathPart])> {
        self.parts.split_last()
    }
}

impl std::fmt::Display for FilePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "+{}", self.group)?;
        if let Some(failgroup) = &self.failgroup {
            write!(f, ".{failgroup}")?;
        }
        self.parts.iter().try_for_each(|part| write!(f, "/{part}"))
    }
}

impl std::str::FromStr for FilePath {
    type Err = NameError;

    fn from_str(value: &str) -> Result<FilePath, NameError> {
        FilePath::parse(value)
    }
}

/// The name the system gives a file: `DB/TYPE/tag.file.incarnation` under the group's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemName {
    /// The database, as in `ORCL`; a directory.
    pub database: PathPart,
    /// The file type, as in `DATAFILE`; a directory.
    pub file_type: PathPart,
    /// The file's own name.
    pub name: PathPart,
}

impl SystemName {
    /// Makes the name; database and type are upper-case, the tag keeps its case.
    pub fn new(
        database: &str,
        file_type: &str,
        tag: &str,
        file: FileNo,
        incarnation: u32,
    ) -> Result<SystemName, NameError> {
        // Checked on its own, so that the message shows what was given.
        PathPart::new(tag)?;
        Ok(SystemName {
            database: PathPart::new(&database.to_uppercase())?,
            file_type: PathPart::new(&file_type.to_uppercase())?,
            name: PathPart::new(&format!("{tag}.{}.{incarnation}", file.0))?,
        })
    }

    /// Splits `tag.file.incarnation`; none where a name is not of that form.
    #[must_use]
    pub fn split(name: &str) -> Option<(&str, FileNo, u32)> {
        let (rest, incarnation) = name.rsplit_once('.')?;
        let (tag, file) = rest.rsplit_once('.')?;
        let number = |digits: &str| {
            digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<u32>().ok())?
        };
        Some((tag, FileNo(number(file)?), number(incarnation)?)).filter(|_| !tag.is_empty())
    }

    /// The whole path under the group's root.
    #[must_use]
    pub fn parts(&self) -> Vec<PathPart> {
        vec![self.database.clone(), self.file_type.clone(), self.name.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_keep_case_and_groups_do_not() {
        for (given, shown) in [
            ("+data", "+DATA"),
            ("+data/", "+DATA"),
            ("+data.fg1", "+DATA.FG1"),
            ("+data/Dir/t x.parquet/", "+DATA/Dir/t x.parquet"),
            ("+DATA/a%2Fb", "+DATA/a%2Fb"),
        ] {
            assert_eq!(FilePath::parse(given).unwrap().to_string(), shown);
        }
        for bad in ["", "data", "+", "+/a", "+data//a", "+data/../x", "+d/a*", "+d.9/a", "+d/a\n"] {
            assert!(FilePath::parse(bad).is_err(), "{bad}");
        }
        let long = format!("+d/{}", "x".repeat(255));
        assert!(FilePath::parse(&long).is_ok());
        assert!(FilePath::parse(&format!("{long}x")).is_err());
    }

    #[test]
    fn system_names_can_be_taken_apart() {
        let name = SystemName::new("orcl", "datafile", "Users", FileNo(256), 77).unwrap();
        let path: Vec<String> = name.parts().iter().map(ToString::to_string).collect();
        assert_eq!(path.join("/"), "ORCL/DATAFILE/Users.256.77");
        assert_eq!(SystemName::split(name.name.as_str()), Some(("Users", FileNo(256), 77)));
        for other in ["users", "users.256", ".256.1", "a.+1.2", "a.1.", "a.1.99999999999"] {
            assert_eq!(SystemName::split(other), None, "{other}");
        }
        assert!(SystemName::new("o", "d", "a/b", FileNo(1), 1).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_a_path_or_an_error(text in ".{0,40}", tail in "\\+[a-z.]{1,5}/[^\0]{0,20}") {
            for text in [text, tail] {
                if let Ok(path) = FilePath::parse(&text) {
                    prop_assert_eq!(FilePath::parse(&path.to_string()), Ok(path));
                }
                let _ = SystemName::split(&text);
            }
        }
    }
}
