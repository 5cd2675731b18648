//! Errors of statements in the form in which clients get them.

use cellar_instance::catalog::name;
use cellar_sql::{About, Error};

use crate::wire::backend::Said;

/// The fields of an error. `sql`: the statement, for the position in it.
pub(super) fn said_of(error: &Error, sql: &str) -> Said {
    let below: Vec<String> = error
        .stack()
        .skip(1)
        .map(|entry| format!("CELLAR-{:05}: {}", entry.number, entry.message))
        .collect();
    let hint = error.what_helps().map(ToString::to_string);
    let position = error.stack().find_map(|entry| entry.position);
    Said {
        severity: "ERROR",
        sqlstate: error.sqlstate,
        message: format!("CELLAR-{:05}: {}", error.number, error.message),
        detail: (!below.is_empty()).then(|| below.join("\n")),
        hint,
        position: position.and_then(|at| place(sql, at.line, at.column)),
        about: error.stack().find_map(|entry| entry.about.clone()).map(with_plain_name),
    }
}

/// A constraint has a key that includes its schema; clients are told its name.
fn with_plain_name(mut about: Box<About>) -> Box<About> {
    about.constraint = about.constraint.map(|key| name::parts(&key).1.to_owned());
    about
}

/// The character of a text at a line and a column, all from 1.
fn place(sql: &str, line: u64, column: u64) -> Option<usize> {
    let lines = usize::try_from(line).ok()?.checked_sub(1)?;
    let before: usize = sql.split_inclusive('\n').take(lines).map(|own| own.chars().count()).sum();
    let place = before + usize::try_from(column).ok()?;
    (place <= sql.chars().count() + 1).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_characters() {
        assert_eq!(place("select 1", 1, 8), Some(8));
        assert_eq!(place("sélect\n frm", 2, 2), Some(9));
        assert_eq!(place("", 3, 9), None);
    }
}
