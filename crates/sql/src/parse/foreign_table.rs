//! CREATE FOREIGN TABLE .. SERVER files, as pg_dump writes external tables: it becomes CREATE EXTERNAL TABLE, which
//! DataFusion's parser knows; and DROP FOREIGN TABLE.

use cellar_instance::catalog::Table;
use datafusion::sql::parser::{CreateExternalTable, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::Value;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::table_kind::{next, word, words_at};
use super::{Cursor, parse};
use crate::error::Error;
use crate::statement::{Define, Statement};

/// The server of all external tables.
const SERVER: &str = "files";

/// Options that are clauses of CREATE EXTERNAL TABLE.
const LOCATION: &str = "location";
const FORMAT: &str = "format";
const PARTITIONED: &str = "partitioned_by";

/// The options of the foreign table that is equivalent to an external one at these locations.
fn options_of(table: &CreateExternalTable, locations: &[String]) -> Vec<(String, String)> {
    let of = |name: &str, value: String| (name.to_owned(), value);
    let mut options = vec![of(FORMAT, table.file_type.to_lowercase())];
    options.extend(locations.iter().map(|location| of(LOCATION, location.clone())));
    if !table.table_partition_cols.is_empty() {
        options.push(of(PARTITIONED, table.table_partition_cols.join(",")));
    }
    options.extend(table.options.iter().map(|(name, value)| {
        let text = match value {
            Value::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        };
        (name.clone(), text)
    }));
    options
}

/// The options of an external table of the catalog, `name=value`.
pub(crate) fn foreign_options(table: &Table) -> Vec<String> {
    let locations = table.locations();
    let made = parse(&table.schema).ok().and_then(|statement| match statement {
        Statement::Query(query) => match *query {
            DfStatement::CreateExternalTable(made) => Some(options_of(&made, &locations)),
            _ => None,
        },
        _ => None,
    });
    let options = made.unwrap_or_default().into_iter();
    options.map(|(name, value)| format!("{name}={value}")).collect()
}

/// Turns a statement about a foreign table into one about an external table; others stay as they are.
///
/// # Errors
/// 42704 for another server; 42601 for options that are not names with values.
pub(super) fn take_out(tokens: &mut Vec<TokenWithSpan>) -> Result<(), Error> {
    let head = words_at(tokens, 0, 3);
    let [(_, Some(create)), (foreign, Some(word)), (_, Some(table))] = &head[..] else {
        return Ok(());
    };
    if [create, word, table] != ["CREATE", "FOREIGN", "TABLE"] {
        return Ok(());
    }
    let foreign = *foreign;
    let places: Vec<usize> = next(tokens, 0).collect();
    let Some(at) = server_at(tokens, &places) else {
        return Err(Error::syntax("CREATE FOREIGN TABLE names a server").next(format!(
            "create foreign table t (..) server {SERVER} options (location '..', format 'csv')"
        )));
    };
    let rest: Vec<&Token> = places[at..].iter().map(|own| &tokens[*own].token).collect();
    match rest.get(1) {
        Some(Token::Word(name)) if name.value == SERVER => {}
        other => {
            let name = other.map(ToString::to_string).unwrap_or_default();
            let text = format!("server \"{name}\" does not exist");
            return Err(Error::new(70010, "42704", text).next(format!(
                "server {SERVER}: tables of files; other servers are not in this version of Cellar"
            )));
        }
    }
    let clause = clause_of(options_in(&rest[2..])?)?;
    let (begin, span) = (places[at], tokens[places[at]].span);
    tokens.truncate(begin);
    tokens.extend(clause.into_iter().map(|token| TokenWithSpan { token, span }));
    tokens[foreign].token = Token::make_keyword("EXTERNAL");
    Ok(())
}

/// Where the clause SERVER begins, among these positions: outside parentheses.
fn server_at(tokens: &[TokenWithSpan], places: &[usize]) -> Option<usize> {
    let mut depth = 0;
    places.iter().position(|at| {
        match &tokens[*at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0 && word(&tokens[*at]).as_deref() == Some("SERVER")
    })
}

impl Cursor<'_> {
    /// `DROP FOREIGN TABLE [IF EXISTS] name, ... [CASCADE]`.
    pub(super) fn drop_foreign(&mut self) -> Result<Statement, Error> {
        let if_exists = self.accept_words(&["IF", "EXISTS"]);
        let mut names = vec![self.object("the name of a table")?];
        while self.accept(&Token::Comma) {
            names.push(self.object("the name of a table")?);
        }
        let cascades = self.cascades();
        Ok(Statement::Define(Define::DropForeign { names, if_exists, cascades }))
    }
}

/// `OPTIONS (name 'value', ...)`.
fn options_in(rest: &[&Token]) -> Result<Vec<(String, String)>, Error> {
    let wrong = || {
        Error::syntax(
            "the options of a foreign table are names with values: options (location '..')",
        )
    };
    let rest: Vec<&Token> =
        rest.iter().filter(|token| ***token != Token::SemiColon).copied().collect();
    match rest.split_first() {
        None => Ok(Vec::new()),
        Some((Token::Word(first), [Token::LParen, inside @ .., Token::RParen]))
            if first.keyword == Keyword::OPTIONS =>
        {
            let pairs = inside.split(|token| **token == Token::Comma);
            let read = |pair: &[&Token]| match pair {
                [
                    Token::Word(name),
                    Token::SingleQuotedString(value) | Token::EscapedStringLiteral(value),
                ] => Ok((name.value.clone(), value.clone())),
                _ => Err(wrong()),
            };
            pairs.map(read).collect()
        }
        Some(_) => Err(wrong()),
    }
}

/// The clauses of CREATE EXTERNAL TABLE for these options.
fn clause_of(options: Vec<(String, String)>) -> Result<Vec<Token>, Error> {
    let text = |value: &str| Token::SingleQuotedString(value.to_owned());
    let (mut locations, mut format, mut parts, mut others) =
        (Vec::new(), None, Vec::new(), Vec::new());
    for (name, value) in &options {
        match name.to_lowercase().as_str() {
            LOCATION => locations.extend([Token::Comma, text(value)]),
            FORMAT => format = Some(value.clone()),
            PARTITIONED => {
                let columns =
                    value.split(',').map(|column| Token::make_word(column.trim(), Some('"')));
                parts = columns.flat_map(|column| [Token::Comma, column]).skip(1).collect();
            }
            _ => others.extend([Token::Comma, text(name), text(value)]),
        }
    }
    let Some(format) = format.filter(|_| !locations.is_empty()) else {
        return Err(Error::syntax("a foreign table has the options location and format")
            .next("options (location '/path/file.csv', format 'csv')"));
    };
    let words =
        |words: &[&str]| words.iter().map(|word| Token::make_keyword(word)).collect::<Vec<_>>();
    let within = |inside: Vec<Token>| [vec![Token::LParen], inside, vec![Token::RParen]].concat();
    let mut clause = words(&["STORED", "AS"]);
    clause.push(Token::make_word(&format, None));
    if !parts.is_empty() {
        clause.extend(words(&["PARTITIONED", "BY"]).into_iter().chain(within(parts)));
    }
    clause.extend(words(&["LOCATION"]).into_iter().chain(within(locations.split_off(1))));
    if !others.is_empty() {
        clause.extend(words(&["OPTIONS"]).into_iter().chain(within(others.split_off(1))));
    }
    Ok(clause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn external(sql: &str) -> CreateExternalTable {
        let Statement::Query(statement) = parse(sql).unwrap() else { panic!("{sql}") };
        let DfStatement::CreateExternalTable(table) = *statement else { panic!("{sql}") };
        table
    }

    #[test]
    fn a_foreign_table_is_the_external_table_that_it_was_dumped_from() {
        let created = external(
            "create external table t (a int, b text) stored as csv location ('/a/x.csv', '/b/') \
             options ('format.has_header' 'true', 'format.delimiter' ';')",
        );
        let locations = ["/a/x.csv".to_owned(), "/b/".to_owned()];
        let quoted = |(name, value): (String, String)| format!("\"{name}\" '{value}'");
        let options: Vec<String> =
            options_of(&created, &locations).into_iter().map(quoted).collect();
        let options = options.join(", ");
        let again = external(&format!(
            "CREATE FOREIGN TABLE t (a integer, b text)\nSERVER files\nOPTIONS (\n{options}\n);"
        ));
        assert_eq!(again.locations, created.locations);
        assert_eq!((again.file_type, again.options), (created.file_type, created.options));
        assert_eq!(again.columns.len(), 2);
    }

    #[test]
    fn what_a_foreign_table_lacks_is_told() {
        for (sql, words) in [
            ("create foreign table t (a int) server pg options (x 'y')", "server \"pg\""),
            ("create foreign table t (a int) server files options (format 'csv')", "location"),
            ("create foreign table t (a int) server files options (a b)", "names with values"),
            ("create foreign table t (a int)", "names a server"),
        ] {
            let error = parse(sql).unwrap_err();
            assert!(error.message.contains(words), "{sql}: {error}");
        }
        let dropped = parse("drop foreign table if exists t, s.u cascade").unwrap();
        let Statement::Define(Define::DropForeign { names, if_exists: true, cascades: true }) =
            dropped
        else {
            panic!("{dropped:?}");
        };
        assert_eq!(names.len(), 2);
        // Columns and options of that name do not begin the clause.
        external(
            "create foreign table t (server int) server files options (location 'a', format 'csv', server 'x')",
        );
    }
}
