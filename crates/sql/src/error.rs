//! Numbered errors with an SQLSTATE, a stack and a next step, as users see them.

use std::borrow::Cow;
use std::fmt;

pub use cellar_instance::NextStep;
use cellar_instance::catalog::name;

/// One entry of an error stack, with the entries below it.
///
/// Displayed as one line for each entry, from the statement down to the cause, then the next step:
///
/// ```text
/// CELLAR-15032: not all alterations performed
/// CELLAR-15012: there is no file "+DATA/f"
/// Next: cellar asm DIR ls +DATA
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Oracle's number where the meaning is the same; our own start at 70001.
    pub number: u32,
    /// Five characters, as in PostgreSQL.
    pub sqlstate: &'static str,
    /// One sentence that names the value and what is allowed.
    pub message: String,
    /// What to do now.
    pub next_step: Option<NextStep>,
    /// Where in the statement, counted in characters from 1.
    pub position: Option<Position>,
    /// The entry below this one.
    pub cause: Option<Box<Error>>,
    /// The catalog objects it is about, for programs that do not read the message.
    pub about: Option<Box<About>>,
    /// The name in the statement that it is about, until its position is known.
    pub(crate) name: Option<Box<Name>>,
}

/// A name in a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub parts: Vec<String>,
    /// It is a function's.
    pub is_called: bool,
}

/// Names of the objects that an error is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The schema of the table.
    pub schema: String,
    /// The table.
    pub table: String,
    /// The column.
    pub column: Option<String>,
    /// The constraint.
    pub constraint: Option<String>,
}

/// A position in a statement, as people count: line and column from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line, from 1.
    pub line: u64,
    /// The column in characters, from 1.
    pub column: u64,
}

impl About {
    fn table(key: &str) -> About {
        let (schema, table) = name::parts(key);
        let schema = if name::is_temporary(schema) { "pg_temp" } else { schema };
        About { schema: schema.to_owned(), table: table.to_owned(), ..About::default() }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

impl Error {
    /// An entry without position, cause or next step.
    pub fn new(number: u32, sqlstate: &'static str, message: impl Into<String>) -> Error {
        assert_eq!(sqlstate.len(), 5, "an SQLSTATE has five characters");
        Error {
            number,
            sqlstate,
            message: shown(message.into()),
            next_step: None,
            position: None,
            cause: None,
            about: None,
            name: None,
        }
    }

    /// Adds the constraint of a table that it is about, named as in the catalog.
    #[must_use]
    pub fn of_constraint(self, table: &str, constraint: &str) -> Error {
        let constraint = Some(constraint.to_owned());
        Error { about: Some(Box::new(About { constraint, ..About::table(table) })), ..self }
    }

    /// Adds the table that it is about, named as in the catalog.
    #[must_use]
    pub fn of_table(self, table: &str) -> Error {
        Error { about: Some(Box::new(About::table(table))), ..self }
    }

    /// Adds the column of a table that it is about, named as in the catalog.
    #[must_use]
    pub fn of_column(self, table: &str, column: &str) -> Error {
        let column = Some(column.to_owned());
        Error { about: Some(Box::new(About { column, ..About::table(table) })), ..self }
    }

    /// Adds what to do now.
    #[must_use]
    pub fn next(mut self, step: impl Into<NextStep>) -> Error {
        self.next_step = Some(step.into().with_words(shown));
        self
    }

    /// Adds the name in the statement that it is about, which tells its position.
    #[must_use]
    pub(crate) fn of_name<'a>(mut self, parts: impl IntoIterator<Item = &'a str>) -> Error {
        let parts = parts.into_iter().map(str::to_owned).collect();
        self.name = Some(Box::new(Name { parts, is_called: false }));
        self
    }

    /// As [`Error::of_name`], of a function.
    #[must_use]
    pub(crate) fn of_function(mut self, name: &str) -> Error {
        self.name = Some(Box::new(Name { parts: vec![name.to_owned()], is_called: true }));
        self
    }

    /// Adds the position in the statement.
    #[must_use]
    pub fn at(mut self, position: Position) -> Error {
        self.position = Some(position);
        self
    }

    /// Puts `cause` under this entry.
    #[must_use]
    pub fn caused_by(mut self, cause: Error) -> Error {
        self.cause = Some(Box::new(cause));
        self
    }

    /// The error for a statement that cannot be parsed: 00900, 42601. The position at the end of the
    /// parser's message becomes the error's.
    pub fn syntax(message: impl Into<String>) -> Error {
        let message = message.into();
        let told = message.rsplit_once(" at Line: ").and_then(|(words, place)| {
            let (line, column) = place.trim_end_matches(['"', ')']).split_once(", Column: ")?;
            let place = Position { line: line.parse().ok()?, column: column.parse().ok()? };
            Some((words, place)).filter(|(_, place)| place.line > 0)
        });
        match told {
            Some((words, place)) => Error::new(900, "42601", words).at(place),
            None => Error::new(900, "42601", message),
        }
    }

    /// The error for something that this version does not support: 03001, 0A000.
    pub fn not_yet(what: impl fmt::Display) -> Error {
        Error::new(3001, "0A000", format!("{what} is not in this version of Cellar"))
    }

    /// This entry and all below it, outermost first.
    pub fn stack(&self) -> impl Iterator<Item = &Error> {
        std::iter::successors(Some(self), |e| e.cause.as_deref())
    }

    /// The stack without the next step, as it is displayed.
    pub fn lines(&self) -> Lines<'_> {
        Lines(self)
    }

    /// The next step of the deepest entry that has one, as the most specific.
    pub fn what_helps(&self) -> Option<&NextStep> {
        self.stack().filter_map(|entry| entry.next_step.as_ref()).last()
    }
}

/// A text with names as users write them.
pub(crate) fn shown(text: String) -> String {
    match name::shown(&text) {
        Cow::Owned(made) => made,
        Cow::Borrowed(_) => text,
    }
}

/// The error for a load that nobody waits for any more.
pub(crate) fn stopped() -> Error {
    Error::new(1013, "57014", "the load was stopped")
}

/// The stack without the next step, a line for each entry.
#[derive(Debug)]
pub struct Lines<'a>(&'a Error);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, entry) in self.0.stack().enumerate() {
            if depth > 0 {
                writeln!(f)?;
            }
            write!(f, "CELLAR-{:05}: {}", entry.number, entry.message)?;
            if let Some(position) = entry.position {
                write!(f, " ({position})")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.lines())?;
        if let Some(step) = self.what_helps() {
            write!(f, "\nNext: {step}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_prints_outermost_first_and_the_deepest_next_step() {
        let cause = Error::new(15012, "42704", "there is no file \"+DATA/f\"").next("look");
        let error = Error::new(15032, "XX000", "not all alterations performed").caused_by(cause);
        assert_eq!(
            error.to_string(),
            "CELLAR-15032: not all alterations performed\n\
             CELLAR-15012: there is no file \"+DATA/f\"\nNext: look"
        );
        assert_eq!(Error::not_yet("X").sqlstate, "0A000");
        let error = Error::syntax("Expected: FROM, found: frm at Line: 2, Column: 15");
        assert_eq!(error.position, Some(Position { line: 2, column: 15 }));
        assert_eq!(
            error.to_string(),
            "CELLAR-00900: Expected: FROM, found: frm (line 2, column 15)"
        );
        assert_eq!(Error::syntax("nothing at Line: 0, Column: 0").position, None);
    }
}
