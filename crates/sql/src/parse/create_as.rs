//! Forms of queries that fill tables, unknown to DataFusion's parser: `CREATE TABLE t (a, b) AS ..`, `WITH NO DATA`,
//! UNLOGGED, and `TABLE t` as a query.

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use datafusion::sql::sqlparser::ast::{
    CreateTableOptions, Expr, Ident, SetExpr, SqlOption, Statement as SqlStatement, Value,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use crate::names::folded_token;

/// The option with the names of the columns, and the separator between them.
pub(crate) const NAMES: &str = "names_of_columns";
pub(crate) const BETWEEN: char = '\u{1}';

/// The option for a table that is to have no rows.
pub(crate) const NO_DATA: &str = "no_data";

/// Clauses that were removed from a statement.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CreateAs {
    names: Vec<String>,
    no_data: bool,
}

fn is_word(token: &TokenWithSpan, words: &[&str]) -> bool {
    matches!(&token.token, Token::Word(Word { value, quote_style: None, .. })
        if words.iter().any(|word| value.eq_ignore_ascii_case(word)))
}

/// The positions of tokens that are not blank.
fn places(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let is_blank = |at: &usize| matches!(tokens[*at].token, Token::Whitespace(_));
    (0..tokens.len()).filter(|at| !is_blank(at)).collect()
}

/// Removes them from a CREATE TABLE; `TABLE t` becomes `SELECT * FROM t`.
pub(super) fn take_out(tokens: &mut Vec<TokenWithSpan>) -> Option<CreateAs> {
    tables_as_queries(tokens);
    without_unlogged(tokens);
    plain_lists(tokens);
    let (list, body) = parts_of(tokens)?;
    let mut made = CreateAs::default();
    let all = places(tokens);
    let ends = all.iter().rev().skip_while(|at| tokens[**at].token == Token::SemiColon);
    let last: Vec<usize> = ends.take(3).copied().collect();
    let is = |at: usize, word: &str| {
        last.get(at).is_some_and(|place| *place > body && is_word(&tokens[*place], &[word]))
    };
    let first = match is(0, "DATA") {
        true if is(1, "NO") && is(2, "WITH") => {
            made.no_data = true;
            last.get(2)
        }
        true if is(1, "WITH") => last.get(1),
        _ => None,
    };
    if let (Some(first), Some(end)) = (first, last.first()) {
        tokens.drain(*first..=*end);
    }
    if let Some((begin, end)) = list {
        made.names = tokens[begin..=end].iter().filter_map(name_of).collect();
        tokens.drain(begin..=end);
    }
    Some(made)
}

fn name_of(token: &TokenWithSpan) -> Option<String> {
    match &token.token {
        Token::Word(word) => Some(folded_token(word)),
        _ => None,
    }
}

/// The list of names of a CREATE TABLE AS, and the position of its AS; `None`: it is another statement.
fn parts_of(tokens: &[TokenWithSpan]) -> Option<(Option<(usize, usize)>, usize)> {
    let all = places(tokens);
    let mut rest = all.iter().copied().peekable();
    rest.next().filter(|at| is_word(&tokens[*at], &["CREATE"]))?;
    while rest
        .next_if(|at| is_word(&tokens[*at], &["LOCAL", "GLOBAL", "TEMP", "TEMPORARY"]))
        .is_some()
    {}
    rest.next().filter(|at| is_word(&tokens[*at], &["TABLE"]))?;
    let (mut depth, mut begin, mut list, mut is_plain) = (0, None, None, true);
    for at in rest {
        match &tokens[at].token {
            Token::LParen => {
                // With anything else it is a list of definitions.
                is_plain &= depth == 0;
                begin = begin.or(Some(at));
                depth += 1;
            }
            Token::RParen => {
                depth -= 1;
                list = list.or(Some((begin?, at)));
            }
            Token::Comma if depth == 1 => {}
            Token::Word(_) if depth == 1 => {
                let before = tokens[..at].iter().rev();
                let before = before.map(|own| &own.token);
                let before = before.clone().find(|own| !matches!(own, Token::Whitespace(_)));
                is_plain &= list.is_some() || matches!(before, Some(Token::LParen | Token::Comma));
            }
            _ if depth > 0 && list.is_none() => is_plain = false,
            _ if depth == 0 && is_word(&tokens[at], &["AS"]) => {
                // `WITH (..)` is not a list of names.
                let of_table = list.filter(|(begin, _)| {
                    let before = tokens[..*begin].iter().rev();
                    let mut before =
                        before.filter(|own| !matches!(own.token, Token::Whitespace(_)));
                    is_plain && before.next().is_some_and(|own| !is_word(own, &["WITH"]))
                });
                return Some((of_table, at));
            }
            _ => {}
        }
    }
    None
}

/// Removes UNLOGGED: every table is logged, which is more than requested.
fn without_unlogged(tokens: &mut Vec<TokenWithSpan>) {
    if let [first, second, third, ..] = places(tokens)[..]
        && is_word(&tokens[first], &["CREATE"])
        && is_word(&tokens[second], &["UNLOGGED"])
        && is_word(&tokens[third], &["TABLE"])
    {
        tokens.remove(second);
    }
}

/// Rewrites `int ARRAY` of a column as `int[]`.
fn plain_lists(tokens: &mut Vec<TokenWithSpan>) {
    let all = places(tokens);
    let starts =
        |at: usize, words: &[&str]| all.get(at).is_some_and(|at| is_word(&tokens[*at], words));
    if !starts(0, &["CREATE", "ALTER"]) {
        return;
    }
    let found = all.windows(3).filter_map(|three| {
        let [before, own, behind] = three else { return None };
        let is_type = matches!(&tokens[*before].token, Token::Word(_) | Token::RParen)
            && !is_word(&tokens[*before], &["AS", "SELECT", "DEFAULT", "IN", "ANY", "ALL"]);
        let is_end = matches!(tokens[*behind].token, Token::Comma | Token::RParen)
            || is_word(&tokens[*behind], &["NOT", "NULL", "DEFAULT", "CHECK", "UNIQUE"]);
        (is_type && is_end && is_word(&tokens[*own], &["ARRAY"])).then_some(*own)
    });
    let found: Vec<usize> = found.collect();
    for at in found.into_iter().rev() {
        let span = tokens[at].span;
        let signs = [Token::LBracket, Token::RBracket];
        tokens.splice(at..=at, signs.map(|token| TokenWithSpan { token, span }));
    }
}

/// Rewrites `TABLE t` where a query may stand.
fn tables_as_queries(tokens: &mut Vec<TokenWithSpan>) {
    let all = places(tokens);
    let before = ["AS", "UNION", "ALL", "DISTINCT", "EXCEPT", "INTERSECT"];
    let found = all.iter().enumerate().filter(|(at, place)| {
        let is_begin = at.checked_sub(1).is_none_or(|at| {
            let own = &tokens[all[at]];
            own.token == Token::LParen || is_word(own, &before)
        });
        let is_name =
            all.get(at + 1).is_some_and(|next| matches!(tokens[*next].token, Token::Word(_)));
        is_begin && is_name && is_word(&tokens[**place], &["TABLE"])
    });
    let found: Vec<usize> = found.map(|(_, place)| *place).collect();
    for place in found.into_iter().rev() {
        let span = tokens[place].span;
        let words = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
        tokens.splice(place..=place, words.map(|token| TokenWithSpan { token, span }));
    }
}

/// Adds to a CREATE TABLE the clauses that were removed.
pub(super) fn put(statement: &mut Statement, own: CreateAs) {
    let Statement::Statement(inner) = statement else { return };
    let SqlStatement::CreateTable(create) = inner.as_mut() else { return };
    let mut options = match std::mem::replace(&mut create.table_options, CreateTableOptions::None) {
        CreateTableOptions::With(options) => options,
        _ => Vec::new(),
    };
    let mut add = |key: &str, value: String| {
        let value = Expr::Value(Value::SingleQuotedString(value).into());
        options.push(SqlOption::KeyValue { key: Ident::new(key), value });
    };
    if !own.names.is_empty() {
        add(NAMES, own.names.join(&BETWEEN.to_string()));
    }
    if own.no_data {
        add(NO_DATA, String::new());
    }
    if !options.is_empty() {
        create.table_options = CreateTableOptions::With(options);
    }
}

/// `SELECT .. INTO t` as `CREATE TABLE t AS SELECT ..`.
pub(super) fn into_is_create(statement: &mut Statement) {
    let Statement::Statement(inner) = statement else { return };
    let SqlStatement::Query(query) = inner.as_mut() else { return };
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(into) = select.into.take() else { return };
    let create = CreateTableBuilder::new(into.name).temporary(into.temporary);
    let create = create.query(Some(query.clone())).build();
    **inner = SqlStatement::CreateTable(create);
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn without(sql: &str) -> (String, Option<CreateAs>) {
        let tokens = Tokenizer::new(&crate::grammar::CellarDialect, sql).tokenize_with_location();
        let mut tokens = tokens.unwrap();
        let own = take_out(&mut tokens);
        let text: String = tokens.iter().map(|own| own.token.to_string()).collect();
        (text.split_whitespace().collect::<Vec<_>>().join(" "), own)
    }

    #[test]
    fn names_and_words_about_rows_go_from_the_statement() {
        let own = |names: &[&str], no_data| {
            let names = names.iter().map(|own| (*own).to_owned()).collect();
            Some(CreateAs { names, no_data })
        };
        for (sql, wanted, taken) in [
            (
                "create table t (A, \"B\") as select 1, 2",
                "create table t as select 1, 2",
                own(&["a", "B"], false),
            ),
            (
                "create temp table t as select 1 with no data;",
                "create temp table t as select 1 ;",
                own(&[], true),
            ),
            ("create table t as select 1 with data", "create table t as select 1", own(&[], false)),
            ("create table t as select 1 data", "create table t as select 1 data", own(&[], false)),
            ("create table t (a int)", "create table t (a int)", None),
            ("create table t (a int, b text)", "create table t (a int, b text)", None),
            (
                "create table t with (fillfactor=7) as select 1",
                "create table t with (fillfactor=7) as select 1",
                own(&[], false),
            ),
            ("create unlogged table t (a int)", "create table t (a int)", None),
            ("create table t (a int array, b int)", "create table t (a int [], b int)", None),
            ("select 1 as table_x", "select 1 as table_x", None),
            ("lock table t", "lock table t", None),
        ] {
            assert_eq!(without(sql), (wanted.to_owned(), taken), "{sql}");
        }
        assert_eq!(without("table t").0, "SELECT*FROM t");
        assert_eq!(
            without("(table t) union all table u").0,
            "(SELECT*FROM t) union all SELECT*FROM u"
        );
    }
}
