//! `OVERRIDING SYSTEM VALUE` and `OVERRIDING USER VALUE` of an INSERT, unknown to the parser: passed on
//! as a setting of the statement.

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Insert, SetExpr, Setting, Statement as SqlStatement,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::error::Error;

/// The name of the setting.
const OVERRIDING: &str = "overriding";

/// The values that an INSERT uses for identity columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overriding {
    /// OVERRIDING SYSTEM VALUE: its own.
    System,
    /// OVERRIDING USER VALUE: those of the sequences.
    User,
}

/// Removes the words from an INSERT.
pub(super) fn take_out(tokens: &mut Vec<TokenWithSpan>) -> Option<Overriding> {
    let is_word = |at: &usize, word: &str| {
        matches!(&tokens[*at].token, Token::Word(Word { value, quote_style: None, .. })
            if value.eq_ignore_ascii_case(word))
    };
    let is_blank = |at: &usize| matches!(tokens[*at].token, Token::Whitespace(_));
    let places: Vec<usize> = (0..tokens.len()).filter(|at| !is_blank(at)).collect();
    let found = places.windows(3).find_map(|three| match three {
        [first, second, third] if is_word(first, "OVERRIDING") && is_word(third, "VALUE") => {
            let whose = match second {
                second if is_word(second, "SYSTEM") => Overriding::System,
                second if is_word(second, "USER") => Overriding::User,
                _ => return None,
            };
            Some((*first, *third, whose))
        }
        _ => None,
    });
    let (first, last, whose) = found?;
    tokens.drain(first..=last);
    Some(whose)
}

/// Adds to the INSERT what was removed.
///
/// # Errors
/// The words were in another statement.
pub(super) fn put(statement: &mut Statement, whose: Overriding) -> Result<(), Error> {
    let Some(insert) = insert_of(statement) else {
        return Err(Error::not_yet("OVERRIDING .. VALUE in a part of a statement")
            .next("make the INSERT a statement of its own"));
    };
    let value = match whose {
        Overriding::System => "system",
        Overriding::User => "user",
    };
    let (key, value) = (Ident::new(OVERRIDING), Expr::Identifier(Ident::new(value)));
    insert.settings = Some(vec![Setting { key, value }]);
    Ok(())
}

fn insert_of(statement: &mut Statement) -> Option<&mut Insert> {
    let Statement::Statement(inner) = statement else { return None };
    match inner.as_mut() {
        SqlStatement::Insert(insert) => Some(insert),
        SqlStatement::Query(query) => match query.body.as_mut() {
            SetExpr::Insert(SqlStatement::Insert(insert)) => Some(insert),
            _ => None,
        },
        _ => None,
    }
}

/// Removes what [`put`] has added.
pub(crate) fn take(insert: &mut Insert) -> Option<Overriding> {
    let settings = insert.settings.as_mut()?;
    let at = settings.iter().position(|setting| setting.key.value == OVERRIDING)?;
    let setting = settings.remove(at);
    if settings.is_empty() {
        insert.settings = None;
    }
    match setting.value {
        Expr::Identifier(whose) if whose.value == "system" => Some(Overriding::System),
        _ => Some(Overriding::User),
    }
}
