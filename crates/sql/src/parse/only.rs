//! `FROM ONLY t`: tables have no children here, so ONLY changes nothing.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// The words before ONLY where it is a keyword.
const BEFORE: [&str; 5] = ["FROM", "JOIN", "UPDATE", "USING", "TRUNCATE"];

/// Whether a token is one of these words, without quotes.
pub(super) fn is_word(token: &Token, words: &[&str]) -> bool {
    matches!(token, Token::Word(Word { value, quote_style: None, .. })
        if words.iter().any(|word| value.eq_ignore_ascii_case(word)))
}

/// Removes the words.
pub(super) fn take_out(tokens: &mut Vec<TokenWithSpan>) {
    let is_blank = |at: &usize| matches!(tokens[*at].token, Token::Whitespace(_));
    let places: Vec<usize> = (0..tokens.len()).filter(|at| !is_blank(at)).collect();
    let found = places.windows(3).filter_map(|three| {
        let [before, own, behind] = three else { return None };
        // After TABLE, if that follows TRUNCATE; ONLY may also be the name of a table.
        let is_behind = is_word(&tokens[*before].token, &BEFORE)
            || is_word(&tokens[*before].token, &["TABLE"])
                && places.first().is_some_and(|at| is_word(&tokens[*at].token, &["TRUNCATE"]));
        let is_name = matches!(&tokens[*behind].token, Token::Word(word)
            if word.quote_style.is_some() || !is_word(&tokens[*behind].token, &NO_NAMES));
        let is_own = is_word(&tokens[*own].token, &["ONLY"]) && is_behind && is_name;
        is_own.then_some(*own)
    });
    let found: Vec<usize> = found.collect();
    for at in found.into_iter().rev() {
        tokens.remove(at);
    }
}

/// The words that may follow a table with that name.
const NO_NAMES: [&str; 19] = [
    "AS", "WHERE", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "ON", "USING",
    "GROUP", "ORDER", "HAVING", "LIMIT", "OFFSET", "SET", "UNION", "FOR",
];

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn without(sql: &str) -> String {
        let tokens = Tokenizer::new(&crate::grammar::CellarDialect, sql).tokenize_with_location();
        let mut tokens = tokens.unwrap();
        take_out(&mut tokens);
        tokens.iter().map(|own| own.token.to_string()).collect()
    }

    #[test]
    fn the_word_goes_where_it_says_that_a_table_is_alone() {
        for (sql, wanted) in [
            ("select * from only public.t", "select * from  public.t"),
            ("update only t set a = 1", "update  t set a = 1"),
            ("truncate table only t", "truncate table  t"),
            ("select * from only where a = 1", "select * from only where a = 1"),
            ("select * from t fetch first 1 rows only", "select * from t fetch first 1 rows only"),
            ("alter table only t add a int", "alter table only t add a int"),
        ] {
            assert_eq!(without(sql), wanted);
        }
    }
}
