//! `OPERATOR(pg_catalog.=)` before ANY, ALL and SOME, as pg_dump writes it: there the parser knows only
//! the plain sign.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Replaces qualified operators of PostgreSQL's catalog before ANY, ALL or SOME by the plain sign.
pub(super) fn make_plain(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = 0;
    while at < tokens.len() {
        if let Some((sign, end)) = named(&tokens[at..]) {
            let sign = TokenWithSpan { token: sign, span: tokens[at].span };
            tokens.splice(at..at + end, [sign]);
        }
        at += 1;
    }
}

/// The sign of the operator at the beginning, and the number of tokens that name it.
fn named(tokens: &[TokenWithSpan]) -> Option<(Token, usize)> {
    let Token::Word(word) = &tokens.first()?.token else { return None };
    if word.keyword != Keyword::OPERATOR {
        return None;
    }
    let said = |own: &&TokenWithSpan| !matches!(own.token, Token::Whitespace(_));
    let close = tokens.iter().position(|own| own.token == Token::RParen)?;
    let within: Vec<&Token> = tokens[1..close].iter().filter(said).map(|own| &own.token).collect();
    let sign = match &within[..] {
        [Token::LParen, sign] => (*sign).clone(),
        [Token::LParen, Token::Word(schema), Token::Period, sign]
            if schema.value.eq_ignore_ascii_case("pg_catalog") =>
        {
            (*sign).clone()
        }
        _ => return None,
    };
    let behind = tokens[close + 1..].iter().find(said)?;
    let Token::Word(word) = &behind.token else { return None };
    matches!(word.keyword, Keyword::ANY | Keyword::ALL | Keyword::SOME).then_some((sign, close + 1))
}
