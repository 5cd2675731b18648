//! The position of a name in a statement, for an error about that name.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::error::{Error, Name, Position};
use crate::grammar::CellarDialect;

/// The error with the position of the name that it is about: where the statement has it first, but not as the new
/// name of something.
pub(crate) fn located(error: Error, sql: &str) -> Error {
    let Some(Name(name)) = error.name.as_deref().filter(|_| error.position.is_none()) else {
        return error;
    };
    // A table may stand for a column's that was found by the planner.
    let last = &name[name.len().saturating_sub(1)..];
    match position(name, sql).or_else(|| position(last, sql)) {
        Some(position) => error.at(position),
        None => error,
    }
}

fn position(name: &[String], sql: &str) -> Option<Position> {
    if name.is_empty() {
        return None;
    }
    let tokens = Tokenizer::new(&CellarDialect, sql).tokenize_with_location().ok()?;
    let tokens: Vec<TokenWithSpan> =
        tokens.into_iter().filter(|own| !matches!(own.token, Token::Whitespace(_))).collect();
    let found = (0..tokens.len()).find(|at| {
        let before = at.checked_sub(1).map(|before| &tokens[before].token);
        let is_new_name = matches!(before, Some(Token::Word(word)) if word.quote_style.is_none()
            && word.value.eq_ignore_ascii_case("as"));
        !is_new_name && begins_with(&tokens[*at..], name)
    })?;
    let start = tokens[found].span.start;
    (start.line > 0).then_some(Position { line: start.line, column: start.column })
}

/// Whether tokens begin with the parts of a name, and periods between them.
fn begins_with(tokens: &[TokenWithSpan], name: &[String]) -> bool {
    let (parts, periods) = (tokens.iter().step_by(2), tokens.iter().skip(1).step_by(2));
    let same = |(token, part): (&TokenWithSpan, &String)| match &token.token {
        Token::Word(word) if word.quote_style.is_some() => word.value == *part,
        Token::Word(word) => word.value.to_lowercase() == *part,
        _ => false,
    };
    tokens.len() >= 2 * name.len() - 1
        && parts.zip(name).all(same)
        && periods.take(name.len() - 1).all(|own| own.token == Token::Period)
}

#[cfg(test)]
mod tests {
    use super::position;

    #[test]
    fn a_name_is_found_where_it_is_used() {
        let at = |name: &[&str], sql: &str| {
            let name: Vec<String> = name.iter().map(|part| (*part).to_owned()).collect();
            position(&name, sql).map(|place| (place.line, place.column))
        };
        assert_eq!(at(&["x"], "select 'x', /* x */ \"X\",\n  é, x from t"), Some((2, 6)));
        assert_eq!(at(&["x"], "select a as x from t where X = 1"), Some((1, 28)));
        assert_eq!(at(&["t", "x"], "select x, t . x from t"), Some((1, 11)));
        assert_eq!(at(&["X"], "select x, \"X\""), Some((1, 11)));
        assert_eq!(at(&["y"], "select x"), None);
        assert_eq!(at(&["y"], "select 'x"), None);
    }
}
