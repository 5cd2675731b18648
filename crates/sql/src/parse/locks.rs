//! `FOR NO KEY UPDATE` and `FOR KEY SHARE`, which the parser does not know: here a row is locked as a
//! whole, so they are FOR UPDATE and FOR SHARE.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

fn is_word(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(Word { value, quote_style: None, .. })
        if value.eq_ignore_ascii_case(word))
}

/// Removes the words that restrict the lock to a part of a row.
pub(super) fn take_out(tokens: &mut Vec<TokenWithSpan>) {
    let is_blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let mut at = 0;
    while at < tokens.len() {
        let next: Vec<usize> =
            (at..tokens.len()).filter(|place| !is_blank(&tokens[*place])).take(4).collect();
        let is = |places: &[usize], words: &[&str]| {
            places.len() >= words.len()
                && places.iter().zip(words).all(|(place, word)| is_word(&tokens[*place], word))
        };
        if is(&next, &["FOR", "NO", "KEY", "UPDATE"]) {
            tokens.drain(next[1]..next[3]);
        } else if is(&next, &["FOR", "KEY", "SHARE"]) {
            tokens.drain(next[1]..next[2]);
        }
        // What begins at a blank begins after it.
        at = next.first().map_or(tokens.len(), |first| first + 1);
    }
}
