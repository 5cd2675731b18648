//! Words that change nothing here: DROP INDEX CONCURRENTLY, and [NOT] DEFERRABLE of a transaction, which is about
//! SERIALIZABLE alone.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::only::is_word;

/// Removes the words.
pub(super) fn take_out(tokens: &mut Vec<TokenWithSpan>) {
    let is_blank = |at: &usize| matches!(tokens[*at].token, Token::Whitespace(_));
    let places: Vec<usize> = (0..tokens.len()).filter(|at| !is_blank(at)).collect();
    let is = |place: usize, words: &[&str]| {
        places.get(place).is_some_and(|at| is_word(&tokens[*at].token, words))
    };
    let mut gone: Vec<usize> = Vec::new();
    if is(0, &["DROP"]) && is(1, &["INDEX"]) && is(2, &["CONCURRENTLY"]) && places.len() > 3 {
        gone.push(places[2]);
    }
    if is(0, &["BEGIN", "START"])
        && let Some(own) = (1..places.len()).find(|place| is(*place, &["DEFERRABLE"]))
    {
        let first = if is(own - 1, &["NOT"]) { own - 1 } else { own };
        gone.extend(&places[first..=own]);
        let is_comma = |place: &usize| matches!(tokens[places[*place]].token, Token::Comma);
        let comma = Some(first - 1).filter(is_comma);
        let comma = comma.or(Some(own + 1).filter(|place| *place < places.len()).filter(is_comma));
        gone.extend(comma.map(|place| places[place]));
    }
    gone.sort_unstable();
    gone.into_iter().rev().for_each(|at| drop(tokens.remove(at)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    #[test]
    fn words_go_where_they_say_nothing() {
        for (sql, wanted) in [
            ("drop index concurrently i", "drop index  i"),
            ("drop index concurrently", "drop index concurrently"),
            ("drop index if exists i", "drop index if exists i"),
            ("start transaction not deferrable", "start transaction  "),
            (
                "begin isolation level repeatable read, deferrable",
                "begin isolation level repeatable read ",
            ),
            ("start transaction deferrable, read only", "start transaction  read only"),
            ("start transaction read only not deferrable;", "start transaction read only  ;"),
            ("create table t (deferrable int)", "create table t (deferrable int)"),
        ] {
            let tokens =
                Tokenizer::new(&crate::grammar::CellarDialect, sql).tokenize_with_location();
            let mut tokens = tokens.unwrap();
            take_out(&mut tokens);
            let left: String = tokens.iter().map(|own| own.token.to_string()).collect();
            assert_eq!(left, wanted, "{sql}");
        }
    }
}
