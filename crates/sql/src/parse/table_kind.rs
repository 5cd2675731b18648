//! Clauses of a CREATE TABLE that DataFusion's parser does not know there. `COMPRESS FOR QUERY` holds
//! for every columnar table, so it is checked and removed. `IN '+GROUP'`, `TABLESPACE group` and
//! `USING heap` become options that the parser knows: `WITH (tablespace = 'GROUP', access_method = 'heap')`.

use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Word};

use crate::error::Error;

pub(super) fn word(token: &TokenWithSpan) -> Option<String> {
    match &token.token {
        Token::Word(Word { value, quote_style: None, .. }) => Some(value.to_ascii_uppercase()),
        _ => None,
    }
}

/// The positions of the next tokens that are not blank, starting at `from`.
pub(super) fn next(tokens: &[TokenWithSpan], from: usize) -> impl Iterator<Item = usize> {
    let is_blank = |at: &usize| matches!(tokens[*at].token, Token::Whitespace(_));
    (from..tokens.len()).filter(move |at| !is_blank(at))
}

pub(super) fn words_at(
    tokens: &[TokenWithSpan],
    from: usize,
    count: usize,
) -> Vec<(usize, Option<String>)> {
    next(tokens, from).take(count).map(|at| (at, word(&tokens[at]))).collect()
}

/// Removes the clauses from a CREATE TABLE; other statements stay as they are.
///
/// # Errors
/// 03001 for an unknown kind of table, or an unknown compression.
pub(super) fn take_out(tokens: &mut Vec<TokenWithSpan>) -> Result<(), Error> {
    let start: Vec<String> =
        words_at(tokens, 0, 3).into_iter().filter_map(|(_, word)| word).collect();
    let start: Vec<&str> = start.iter().map(String::as_str).collect();
    if !matches!(start[..], ["CREATE", "TABLE", ..]) {
        return Ok(());
    }
    let (mut at, mut depth) = (0, 0);
    let (mut options, mut place) = (Vec::new(), None);
    while at < tokens.len() {
        match &tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        let own = word(&tokens[at]);
        match own.as_deref() {
            Some("AS" | "SELECT") if depth == 0 => break,
            Some("USING") if depth == 0 => {
                let found = words_at(tokens, at + 1, 1);
                let Some((end, kind)) = found.into_iter().next() else { break };
                let method = match kind.as_deref() {
                    Some("COLUMNAR") => COLUMNAR,
                    Some("HEAP") => HEAP,
                    _ => break,
                };
                options.push((ACCESS_METHOD, method.to_owned()));
                place.get_or_insert((at, tokens[at].span));
                tokens.drain(at..=end);
                continue;
            }
            Some("IN" | "TABLESPACE") if depth == 0 => {
                if let Some((end, group)) = group_at(tokens, at) {
                    options.push((TABLESPACE, group));
                    place.get_or_insert((at, tokens[at].span));
                    tokens.drain(at..=end);
                    continue;
                }
            }
            Some("COMPRESS" | "NOCOMPRESS" | "COLUMN") if depth == 0 => {
                let end = compression(tokens, at)?;
                if let Some(end) = end {
                    tokens.drain(at..=end);
                    continue;
                }
            }
            _ => {}
        }
        at += 1;
    }
    if let Some((at, span)) = place {
        tokens.splice(at..at, clause_of(&options, span));
    }
    Ok(())
}

/// The option that names the group of a table.
pub(crate) const TABLESPACE: &str = "tablespace";

/// The option for the access method of a table, and its value.
pub(crate) const ACCESS_METHOD: &str = "access_method";
pub(crate) const COLUMNAR: &str = "columnar";
pub(crate) const HEAP: &str = "heap";

/// The group that is named after the word at `at`, and the position of its name; `None`: there is none.
fn group_at(tokens: &[TokenWithSpan], at: usize) -> Option<(usize, String)> {
    let end = next(tokens, at + 1).next()?;
    let name = match (&tokens[end].token, word(&tokens[at]).as_deref()) {
        (Token::SingleQuotedString(text), _) => text.clone(),
        (Token::Word(name), Some("TABLESPACE")) => name.value.clone(),
        _ => return None,
    };
    Some((end, name.strip_prefix('+').unwrap_or(&name).to_uppercase()))
}

/// `WITH (name = 'value', ...)`.
fn clause_of(options: &[(&str, String)], span: Span) -> Vec<TokenWithSpan> {
    let mut clause = vec![Token::make_keyword("WITH"), Token::LParen];
    for (at, (name, value)) in options.iter().enumerate() {
        clause.extend((at > 0).then_some(Token::Comma));
        let value = Token::SingleQuotedString(value.clone());
        clause.extend([Token::make_word(name, None), Token::Eq, value]);
    }
    clause.push(Token::RParen);
    clause.into_iter().map(|token| TokenWithSpan { token, span }).collect()
}

/// Where a compression clause that begins at `at` ends; `None`: it is not one.
fn compression(tokens: &[TokenWithSpan], at: usize) -> Result<Option<usize>, Error> {
    let words = words_at(tokens, at, 7);
    let names: Vec<&str> = words.iter().map(|(_, word)| word.as_deref().unwrap_or("")).collect();
    // Oracle writes COLUMN STORE in front, or nothing.
    let skip = if names.starts_with(&["COLUMN", "STORE"]) { 2 } else { 0 };
    let more = |names: &[&str]| match names.first() {
        Some(&("LOW" | "HIGH")) => 1,
        _ => 0,
    };
    match &names[skip..] {
        ["COMPRESS", "FOR", "QUERY", rest @ ..] => Ok(Some(words[skip + 2 + more(rest)].0)),
        ["COMPRESS", "FOR", what, ..] => {
            Err(Error::not_yet(format!("COMPRESS FOR {what}")).next("compress for query"))
        }
        ["COMPRESS" | "NOCOMPRESS", ..] => {
            Err(Error::not_yet(format!("{} of a table", names[skip]))
                .next("compress for query, or leave it out: columnar tables are compressed"))
        }
        _ => Ok(None),
    }
}
