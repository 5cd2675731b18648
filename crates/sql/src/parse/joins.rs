//! Nested joins without parentheses: `a JOIN b JOIN c ON .. ON ..`. The parser accepts them only with
//! parentheses, so these are inserted.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// A join whose condition has not come yet.
struct Open {
    /// The position after its JOIN.
    begin: usize,
    /// Another join, on its right side, has come meanwhile.
    has_inner: bool,
}

fn word(token: &TokenWithSpan) -> Option<String> {
    match &token.token {
        Token::Word(Word { value, quote_style: None, .. }) => Some(value.to_ascii_uppercase()),
        _ => None,
    }
}

/// Words after which no join condition can follow.
const ENDS: [&str; 14] = [
    "WHERE",
    "GROUP",
    "HAVING",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "FETCH",
    "WINDOW",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "RETURNING",
    "SELECT",
    "SET",
];

/// Puts parentheses around joins that are the right side of another.
pub(super) fn close(tokens: &mut Vec<TokenWithSpan>) {
    let mut levels: Vec<Vec<Open>> = vec![Vec::new()];
    let mut before: Vec<String> = Vec::new();
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::LParen => levels.push(Vec::new()),
            Token::RParen if levels.len() > 1 => drop(levels.pop()),
            Token::Comma | Token::SemiColon => levels.last_mut().into_iter().for_each(Vec::clear),
            _ => {}
        }
        let own = word(token).unwrap_or_default();
        let Some(level) = levels.last_mut() else { return };
        match own.as_str() {
            "JOIN" => {
                let mut kind = before.iter().rev();
                let kind = kind.find(|own| {
                    !matches!(own.as_str(), "INNER" | "OUTER" | "LEFT" | "RIGHT" | "FULL")
                });
                if let Some(outer) = level.last_mut() {
                    outer.has_inner = true;
                }
                if !kind.is_some_and(|own| own == "CROSS" || own == "NATURAL") {
                    level.push(Open { begin: at + 1, has_inner: false });
                }
            }
            "ON" | "USING" => {
                if let Some(open) = level.pop().filter(|open| open.has_inner) {
                    found.push((open.begin, Token::LParen));
                    found.push((at, Token::RParen));
                }
            }
            own if ENDS.contains(&own) => level.clear(),
            _ => {}
        }
        before.push(own);
        if before.len() > 4 {
            before.remove(0);
        }
    }
    found.sort_by_key(|(at, _)| *at);
    for (at, token) in found.into_iter().rev() {
        let span = tokens[at.min(tokens.len() - 1)].span;
        tokens.insert(at, TokenWithSpan { token, span });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn closed(sql: &str) -> String {
        let tokens = Tokenizer::new(&crate::grammar::CellarDialect, sql).tokenize_with_location();
        let mut tokens = tokens.unwrap();
        close(&mut tokens);
        tokens.iter().map(|own| own.token.to_string()).collect()
    }

    #[test]
    fn a_join_on_the_right_side_of_another_is_closed() {
        for (sql, wanted) in [
            ("from a join b join c on x on y", "from a join( b join c on x )on y"),
            (
                "from a left join b left join c on x left join d on y on z",
                "from a left join( b left join c on x left join d on y )on z",
            ),
            (
                "from a join b join c join d using (x) on y on z",
                "from a join( b join( c join d using (x) )on y )on z",
            ),
            ("from a join b cross join c on x", "from a join( b cross join c )on x"),
            ("from a join b on x join c on y", "from a join b on x join c on y"),
            ("from a cross join b join c on x", "from a cross join b join c on x"),
            ("from a natural left join b join c on x", "from a natural left join b join c on x"),
            (
                "from a join (select 1 from d join e on x) b on y",
                "from a join (select 1 from d join e on x) b on y",
            ),
            (
                "insert into t select 1 on conflict do nothing",
                "insert into t select 1 on conflict do nothing",
            ),
        ] {
            assert_eq!(closed(sql), wanted);
        }
    }
}
