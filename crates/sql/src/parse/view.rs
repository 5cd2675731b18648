//! The query of a CREATE VIEW, as it was written.

use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer, Word};

use crate::error::Error;
use crate::grammar::CellarDialect;

/// The text after the first `AS` outside parentheses.
///
/// # Errors
/// There is none.
pub(crate) fn query_of_view(sql: &str) -> Result<&str, Error> {
    let failed = || Error::syntax("expected AS and a query").next("create view name as select ..");
    let tokens = Tokenizer::new(&CellarDialect, sql).tokenize_with_location();
    let (mut depth, mut end) = (0_i32, None);
    for token in tokens.map_err(|error| Error::syntax(error.message))? {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Word(Word { value, quote_style: None, .. })
                if depth == 0 && value.eq_ignore_ascii_case("as") =>
            {
                end = Some(token.span.end);
                break;
            }
            _ => {}
        }
    }
    let end = end.and_then(|end| offset(sql, end)).ok_or_else(failed)?;
    let query = sql[end..].trim().trim_end_matches(';').trim_end();
    if query.is_empty() { Err(failed()) } else { Ok(query) }
}

/// The byte offset of a position in a text.
fn offset(sql: &str, place: Location) -> Option<usize> {
    let (mut line, mut column) = (1, 1);
    for (at, c) in sql.char_indices() {
        if (line, column) == (place.line, place.column) {
            return Some(at);
        }
        match c {
            '\n' => (line, column) = (line + 1, 1),
            _ => column += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_is_what_comes_behind_as() {
        let query = |sql| query_of_view(sql).ok();
        assert_eq!(query("create view v as select 1 as a;"), Some("select 1 as a"));
        let text = "create or replace view \"as\" (a, \"as\")\n -- ä as\n AS\n \
                    with x as (select 1) select 'ö;' from x ; ";
        assert_eq!(query(text), Some("with x as (select 1) select 'ö;' from x"));
        assert_eq!(query("create view v"), None);
        assert_eq!(query("create view v as ;"), None);
    }
}
