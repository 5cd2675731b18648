//! The options at the beginning of an EXPLAIN. The statement after them is parsed as any other.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::error::Error;
use crate::explain::options::ExplainOptions;
use crate::parse::{Cursor, position};

/// Words that a query begins with: a parenthesis in front of one does not open a list of options.
const QUERIES: &str = "SELECT|WITH|VALUES|TABLE|FROM";

/// Removes the beginning of an EXPLAIN; `None`: it is another statement.
///
/// # Errors
/// 00900 for unknown options, 03001 for those that there is no information for.
pub(super) fn take_out(tokens: &mut Vec<TokenWithSpan>) -> Result<Option<ExplainOptions>, Error> {
    let mut cursor = Cursor::new(tokens);
    if !cursor.accept_word("EXPLAIN") {
        return Ok(None);
    }
    let mut options = ExplainOptions::default();
    let opens = matches!(cursor.tokens.get(cursor.at).map(|t| &t.token), Some(Token::LParen));
    let is_query = cursor.is_word_at(cursor.at + 1, QUERIES)
        || matches!(cursor.tokens.get(cursor.at + 1).map(|t| &t.token), Some(Token::LParen));
    if opens && !is_query {
        cursor.at += 1;
        listed(&mut cursor, &mut options)?;
    } else if cursor.is_word_at(cursor.at, "PLAN") && cursor.is_word_at(cursor.at + 1, "FOR") {
        // Oracle's syntax.
        cursor.at += 2;
    } else {
        plain(&mut cursor, &mut options)?;
    }
    let Some(first) = cursor.tokens.get(cursor.at).map(|token| token.span) else {
        return Err(cursor.expected("a statement to explain"));
    };
    if cursor.is_word_at(cursor.at, "EXPLAIN") {
        return Err(cursor.expected("a statement to explain"));
    }
    let is_head = |token: &TokenWithSpan| token.span.start < first.start;
    let head = tokens.iter().take_while(|token| is_head(token)).count();
    tokens.drain(..head);
    Ok(Some(options))
}

fn plain(cursor: &mut Cursor<'_>, options: &mut ExplainOptions) -> Result<(), Error> {
    loop {
        if cursor.accept_word("ANALYZE") || cursor.accept_word("ANALYSE") {
            options.analyze = true;
        } else if cursor.accept_word("VERBOSE") {
            options.verbose = true;
        } else if cursor.accept_word("FORMAT") {
            let value = value(cursor);
            options.take("FORMAT", value.as_deref())?;
        } else {
            return Ok(());
        }
    }
}

/// The list of options, after its opening parenthesis.
fn listed(cursor: &mut Cursor<'_>, options: &mut ExplainOptions) -> Result<(), Error> {
    loop {
        let start = cursor.tokens.get(cursor.at).map(|token| position(token.span.start));
        let name = cursor.name("an option of EXPLAIN")?;
        let ends = cursor.tokens.get(cursor.at + 1).map(|token| &token.token);
        // Unless a comma or parenthesis follows, it is not a value, but the statement after an unclosed
        // list.
        let value = match ends {
            Some(Token::Comma | Token::RParen) => value(cursor),
            _ => None,
        };
        let taken = options.take(&name, value.as_deref());
        taken.map_err(|error| match start {
            Some(start) => error.at(start),
            None => error,
        })?;
        if cursor.accept(&Token::Comma) {
            continue;
        }
        return match cursor.accept(&Token::RParen) {
            true => Ok(()),
            false => Err(cursor.expected("a comma or a closing parenthesis")),
        };
    }
}

/// The value of an option, if it has one.
fn value(cursor: &mut Cursor<'_>) -> Option<String> {
    let value = match &cursor.tokens.get(cursor.at)?.token {
        Token::Word(Word { value, .. }) => value.clone(),
        Token::SingleQuotedString(value) | Token::Number(value, _) => value.clone(),
        _ => return None,
    };
    cursor.at += 1;
    Some(value)
}
