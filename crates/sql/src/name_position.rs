//! The position of a name in a statement, for an error about that name.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::error::{Error, Name, Position};
use crate::grammar::CellarDialect;

/// Longer statements are written by programs: reading one again may take more memory than there is.
const BYTES_MAX: usize = 1 << 20;

/// The error with the position of the name that it is about: where the statement first uses it, not where something
/// gets it as a new name.
pub(crate) fn located(error: Error, sql: &str) -> Error {
    let Some(name) = error.name.as_deref().filter(|_| error.position.is_none()) else {
        return error;
    };
    match position(name, sql) {
        Some(position) => error.at(position),
        None => error,
    }
}

fn position(name: &Name, sql: &str) -> Option<Position> {
    if name.parts.is_empty() || sql.len() > BYTES_MAX {
        return None;
    }
    let tokens = Tokenizer::new(&CellarDialect, sql).tokenize_with_location().ok()?;
    let tokens: Vec<TokenWithSpan> =
        tokens.into_iter().filter(|own| !matches!(own.token, Token::Whitespace(_))).collect();
    let found = (0..tokens.len()).find(|at| is_used(&tokens, *at, name));
    // The table of a column may be one that the planner has found.
    let last = name.parts.last()?;
    let found = found.or_else(|| {
        (0..tokens.len()).find(|at| name.parts.len() > 1 && is_part(&tokens[*at], last))
    });
    let start = tokens[found?].span.start;
    (start.line > 0).then_some(Position { line: start.line, column: start.column })
}

/// Whether the name is used there: all of it, and nothing more.
fn is_used(tokens: &[TokenWithSpan], at: usize, name: &Name) -> bool {
    let before = at.checked_sub(1).map(|before| &tokens[before].token);
    let is_new_name = matches!(before, Some(Token::Word(word))
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("as"));
    let parts = &name.parts;
    let behind = tokens.get(at + 2 * parts.len() - 1).map(|own| &own.token);
    let is_whole = before != Some(&Token::Period)
        && behind != Some(&Token::Period)
        && name.is_called == (behind == Some(&Token::LParen));
    // The columns of an INSERT or COPY, and those of a definition, follow a table in parentheses.
    let is_whole = is_whole || behind == Some(&Token::LParen) && is_table(before);
    !is_new_name && is_whole && begins_with(&tokens[at..], parts)
}

/// Whether a table is named behind this word.
fn is_table(before: Option<&Token>) -> bool {
    let words = ["into", "copy", "on", "table"];
    matches!(before, Some(Token::Word(word))
        if words.iter().any(|own| word.value.eq_ignore_ascii_case(own)))
}

/// Whether tokens begin with the parts of a name, and periods between them.
fn begins_with(tokens: &[TokenWithSpan], name: &[String]) -> bool {
    let (parts, periods) = (tokens.iter().step_by(2), tokens.iter().skip(1).step_by(2));
    tokens.len() >= 2 * name.len() - 1
        && parts.zip(name).all(|(token, part)| is_part(token, part))
        && periods.take(name.len() - 1).all(|own| own.token == Token::Period)
}

fn is_part(token: &TokenWithSpan, part: &str) -> bool {
    match &token.token {
        Token::Word(word) if word.quote_style.is_some() => word.value == part,
        Token::Word(word) => word.value.to_lowercase() == part,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::position;
    use crate::error::Name;

    #[test]
    fn a_name_is_found_where_it_is_used() {
        let at = |name: &[&str], sql: &str| {
            let parts = name.iter().map(|part| (*part).to_owned()).collect();
            let place = position(&Name { parts, is_called: false }, sql);
            place.map(|place| (place.line, place.column))
        };
        assert_eq!(at(&["x"], "select 'x', /* x */ \"X\",\n  é, x from t"), Some((2, 6)));
        assert_eq!(at(&["x"], "select a as x from t where X = 1"), Some((1, 28)));
        assert_eq!(at(&["t", "x"], "select x, t . x from t"), Some((1, 11)));
        assert_eq!(at(&["X"], "select x, \"X\""), Some((1, 11)));
        assert_eq!(at(&["x"], "select t.x, x(1) from t, u where x = 1"), Some((1, 34)));
        assert_eq!(at(&["t"], "select t.x from t"), Some((1, 17)));
        assert_eq!(at(&["t"], "insert into t(a) values (1)"), Some((1, 13)));
        assert_eq!(at(&["y"], "select x"), None);
        assert_eq!(at(&["y"], "select 'x"), None);
    }

    #[test]
    fn a_function_is_found_where_it_is_called() {
        let name = Name { parts: vec!["f".to_owned()], is_called: true };
        let found = position(&name, "select f, f (1) from t").unwrap();
        assert_eq!((found.line, found.column), (1, 11));
    }
}
