//! Reading a block: its text becomes steps.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::text::Code;
use super::tokens::{RANGE, Tokens, word_of};
use super::tree::{Block, Dialect, Handler, Step, StepKind};
use crate::error::{Error, Position};
use crate::grammar::CellarDialect;

/// How deep blocks, loops and conditions may lie in each other.
const DEPTH_MAX: usize = 100;

/// Words behind BEGIN that make it the begin of a transaction.
const OF_TRANSACTIONS: [&str; 6] =
    ["transaction", "work", "isolation", "read", "not", "deferrable"];

/// Words behind `DECLARE name` that make it a cursor of the session; FOR where CURSOR was forgotten.
const OF_CURSORS: [&str; 7] =
    ["cursor", "binary", "insensitive", "asensitive", "scroll", "no", "for"];

/// The text without blanks and comments before it.
fn bare(mut sql: &str) -> &str {
    loop {
        sql = sql.trim_start();
        sql = match (sql.strip_prefix("--"), sql.strip_prefix("/*")) {
            (Some(rest), _) => rest.split_once('\n').map_or("", |(_, rest)| rest),
            (_, Some(rest)) => rest.split_once("*/").map_or("", |(_, rest)| rest),
            _ => return sql,
        };
    }
}

/// The first word in lower case, and what follows it.
fn first_word(sql: &str) -> (String, &str) {
    let sql = bare(sql);
    if let Some(quoted) = sql.strip_prefix('"') {
        let (name, rest) = quoted.split_once('"').unwrap_or((quoted, ""));
        return (format!("\"{name}\""), rest);
    }
    let end = sql.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').unwrap_or(sql.len());
    (sql[..end].to_ascii_lowercase(), &sql[end..])
}

/// Whether a text begins a block: an anonymous one, or DO.
pub(crate) fn is_block(sql: &str) -> bool {
    let (word, rest) = first_word(sql);
    match word.as_str() {
        "do" => {
            let rest = bare(rest);
            rest.starts_with(['$', '\'']) || first_word(rest).0 == "language"
        }
        "declare" => {
            let (_, behind) = first_word(rest);
            !OF_CURSORS.contains(&first_word(behind).0.as_str())
        }
        "begin" => {
            let rest = bare(rest);
            let word = first_word(rest).0;
            !rest.is_empty() && !rest.starts_with(';') && !OF_TRANSACTIONS.contains(&word.as_str())
        }
        "" => bare(sql).starts_with("<<"),
        _ => false,
    }
}

/// Whether a text begins with DO.
pub(crate) fn is_do(sql: &str) -> bool {
    first_word(sql).0 == "do"
}

/// Whether a part of a block begins with END.
pub(crate) fn begins_with_end(sql: &str) -> bool {
    first_word(sql).0 == "end"
}

/// Whether a text, which ends with a semicolon, begins an anonymous block and has not reached its end.
pub(crate) fn is_open(sql: &str) -> bool {
    let (word, _) = first_word(sql);
    if word == "do" || !is_block(sql) {
        return false;
    }
    let Ok(mut tokens) = Tokens::of(sql, 0) else { return true };
    let (mut open, mut has_begun, mut is_first) = (Vec::new(), false, true);
    while let Some(TokenWithSpan { token, .. }) = tokens.next() {
        let word = word_of(&token);
        match word.as_deref() {
            // Elsewhere it is a name.
            Some("begin") if is_first || !has_begun => {
                has_begun = true;
                open.push("begin");
            }
            Some("loop") => open.push("loop"),
            Some("case") => open.push(if is_first { "case" } else { "expression" }),
            // Elsewhere it is that of IF EXISTS.
            Some("if") if is_first => open.push("if"),
            Some("end") => {
                if let Some(own @ ("if" | "loop" | "case")) = open.pop() {
                    tokens.takes(&[own]);
                }
            }
            _ => {}
        }
        is_first = match word.as_deref() {
            Some("begin" | "then" | "else" | "loop" | "exception") => true,
            Some(_) => false,
            None => matches!(token, Token::SemiColon | Token::ShiftRight),
        };
    }
    !has_begun || !open.is_empty()
}

/// Reads a block.
///
/// # Errors
/// 42601 with line and column where it is none; 03001 for what is not spoken here.
pub(crate) fn read(sql: &str) -> Result<(Block, Dialect), Error> {
    let (text, first_line, dialect) = match first_word(sql).0.as_str() {
        "do" => {
            let (text, line) = body_of_do(sql)?;
            (text, line, Dialect::Postgres)
        }
        _ => (sql.to_owned(), 0, Dialect::Oracle),
    };
    let tokens = Tokens::of(&text, first_line)?;
    let mut reader = Reader { tokens, dialect, depth: 0 };
    let label = reader.label()?;
    let block = reader.block(label)?;
    // `/` on a line of its own ends a block in SQL*Plus.
    while reader.tokens.takes_token(&Token::SemiColon) || reader.tokens.takes_token(&Token::Div) {}
    match reader.tokens.peek() {
        None => Ok((block, dialect)),
        Some(_) => Err(reader.tokens.wrong("the end of the block")),
    }
}

/// The text in DO, and the line on which it begins, from 0.
fn body_of_do(sql: &str) -> Result<(String, u64), Error> {
    let tokens = Tokenizer::new(&CellarDialect, sql).tokenize_with_location();
    let tokens = tokens.map_err(|error| Error::syntax(error.message))?;
    let mut body = None;
    let mut words = Vec::new();
    for TokenWithSpan { token, span } in &tokens {
        let line = span.start.line.max(1) - 1;
        match token {
            Token::DollarQuotedString(own) => body = Some((own.value.clone(), line)),
            Token::SingleQuotedString(own)
                if words.last().is_none_or(|word| word != "language") =>
            {
                body = Some((own.clone(), line));
            }
            Token::SingleQuotedString(own) => words.push(own.to_ascii_lowercase()),
            token => words.extend(word_of(token)),
        }
    }
    let language = words.iter().skip_while(|word| *word != "language").nth(1);
    if let Some(other) = language.filter(|language| *language != "plpgsql") {
        let text = format!("language \"{other}\" does not exist");
        return Err(Error::new(902, "42704", text).next("leave it out: blocks are plpgsql"));
    }
    body.ok_or_else(|| Error::syntax("DO needs a block: DO $$ BEGIN .. END $$"))
}

/// Reads the tokens of a block.
pub(super) struct Reader {
    pub tokens: Tokens,
    pub dialect: Dialect,
    pub depth: usize,
}

impl Reader {
    /// `<<label>>`, if it comes next.
    pub(super) fn label(&mut self) -> Result<Option<String>, Error> {
        if !self.tokens.takes_token(&Token::ShiftLeft) {
            return Ok(None);
        }
        let label = self.tokens.name()?;
        self.tokens.expect_token(&Token::ShiftRight)?;
        Ok(Some(label))
    }

    /// A block from DECLARE or BEGIN to END.
    pub(super) fn block(&mut self, label: Option<String>) -> Result<Block, Error> {
        let variables = match self.tokens.takes(&["declare"]) {
            true => self.declarations()?,
            false => Vec::new(),
        };
        self.tokens.expect(&["begin"])?;
        let steps = self.steps(&["end", "exception"])?;
        let mut handlers = Vec::new();
        if self.tokens.takes(&["exception"]) {
            while self.tokens.takes(&["when"]) {
                handlers.push(self.handler()?);
            }
        }
        self.tokens.expect(&["end"])?;
        if matches!(self.tokens.peek(), Some(Token::Word(_))) {
            self.tokens.name()?;
        }
        Ok(Block { label, variables, steps, handlers })
    }

    fn handler(&mut self) -> Result<Handler, Error> {
        let mut conditions = Vec::new();
        loop {
            let mut condition = self.tokens.name()?;
            if condition == "sqlstate" {
                let Some(TokenWithSpan { token: Token::SingleQuotedString(code), .. }) =
                    self.tokens.next()
                else {
                    return Err(self.tokens.wrong("an SQLSTATE in quotes"));
                };
                condition = format!("sqlstate {code}");
            }
            conditions.push(condition);
            if !self.tokens.takes(&["or"]) {
                break;
            }
        }
        self.tokens.expect(&["then"])?;
        Ok(Handler { conditions, steps: self.steps(&["when", "end"])? })
    }

    /// Statements up to one of these words.
    pub(super) fn steps(&mut self, ends: &[&str]) -> Result<Vec<Step>, Error> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let text = format!("blocks, loops and conditions lie more than {DEPTH_MAX} deep");
            return Err(Error::new(900, "54001", text).at(self.tokens.position()));
        }
        let mut steps = Vec::new();
        while !ends.iter().any(|end| self.tokens.is(&[end])) {
            if self.tokens.peek().is_none() {
                let ends: Vec<String> = ends.iter().map(|end| end.to_uppercase()).collect();
                return Err(self.tokens.wrong(&ends.join(" or ")));
            }
            steps.push(self.step()?);
        }
        self.depth -= 1;
        if steps.is_empty() && self.dialect == Dialect::Oracle {
            return Err(self.tokens.wrong("a statement"));
        }
        Ok(steps)
    }

    fn step(&mut self) -> Result<Step, Error> {
        let at = self.tokens.position();
        let label = self.label()?;
        let word = self.tokens.word_ahead(0);
        let kind = match (word.as_deref(), &label) {
            (Some("begin" | "declare"), _) => {
                let block = self.block(label)?;
                self.end_of_statement()?;
                StepKind::Block(block)
            }
            (Some("loop" | "while" | "for"), _) => self.looped(label)?,
            (_, Some(label)) => {
                let text = format!("label \"{label}\" is before no block and no loop");
                return Err(Error::not_yet(text).at(at));
            }
            (word, None) => self.statement(word.unwrap_or_default(), at)?,
        };
        Ok(Step { at, kind })
    }

    /// The semicolon behind a statement.
    pub(super) fn end_of_statement(&mut self) -> Result<(), Error> {
        self.tokens.expect_token(&Token::SemiColon)
    }

    /// A text up to a semicolon, `..`, or one of these words outside parentheses and CASE; or a comma, if `,` is among
    /// them.
    pub(super) fn code_until(&mut self, ends: &[&str]) -> Result<Code, Error> {
        let at = self.tokens.position();
        let tokens = self.tokens_until(ends);
        if tokens.is_empty() {
            return Err(self.tokens.wrong("an expression"));
        }
        Ok(Code::of(&tokens, at))
    }

    /// The tokens of such a text, without blanks around it.
    pub(super) fn tokens_until(&mut self, ends: &[&str]) -> Vec<TokenWithSpan> {
        let (mut taken, mut depth, mut cases) = (Vec::new(), 0usize, 0usize);
        while let Some(token) = self.tokens.peek() {
            let word = word_of(token);
            let is_end = depth == 0
                && cases == 0
                && match token {
                    Token::SemiColon | Token::Char(RANGE) => true,
                    Token::Comma => ends.contains(&","),
                    Token::RParen => true,
                    _ => word.as_deref().is_some_and(|word| ends.contains(&word)),
                };
            if is_end || matches!(token, Token::SemiColon) {
                break;
            }
            match token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
                _ => {}
            }
            match word.as_deref() {
                Some("case") => cases += 1,
                Some("end") => cases = cases.saturating_sub(1),
                _ => {}
            }
            // With the blanks before it, but not those before the first.
            while let Some(own) = self.tokens.next_raw() {
                let is_blank = matches!(own.token, Token::Whitespace(_));
                if !(is_blank && taken.is_empty()) {
                    taken.push(own);
                }
                if !is_blank {
                    break;
                }
            }
        }
        taken
    }

    /// The error for a statement that is not spoken here.
    pub(super) fn refused(&self, what: &str, at: Position) -> Error {
        Error::not_yet(format!("{what} in a block")).at(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_told_from_a_transaction_and_a_cursor() {
        for sql in [
            "begin null; end;",
            "BEGIN\n for i in 1 .. 3 loop null; end loop; end;",
            "declare x int; begin null; end",
            "do $$ begin null; end $$",
            "do language plpgsql 'begin null; end'",
            "-- a comment\n/* another */ begin insert into t values (1); end;",
            "<<main>> begin null; end;",
        ] {
            assert!(is_block(sql), "{sql}");
        }
        for sql in [
            "begin",
            "begin;",
            "begin -- now\n",
            "begin transaction",
            "begin isolation level repeatable read",
            "begin read only",
            "declare c cursor for select 1",
            "declare c for select 1",
            "declare c no scroll cursor with hold for select 1",
            "declare \"my c\" cursor for select 1",
            "do nothing",
            "select 1",
            "",
        ] {
            assert!(!is_block(sql), "{sql}");
        }
    }

    #[test]
    fn what_is_no_block_is_refused_where_it_is_not() {
        for (sql, line, column) in [
            ("begin\n  if x then\n    null;\n", 3, 10),
            ("begin\n  x := ;\nend;", 2, 8),
            ("begin\n  for i in 1 .. loop null; end loop;\nend;", 2, 17),
            ("declare\n  x constant int;\nbegin null; end;", 2, 3),
            ("do $$\nbegin\n  exit when;\nend $$", 3, 12),
        ] {
            let error = read(sql).unwrap_err();
            let at = error.position.unwrap();
            assert_eq!((at.line, at.column), (line, column), "{sql}: {error}");
        }
        let deep = format!("{} null; {}", "begin ".repeat(101), "end; ".repeat(101));
        assert_eq!(read(&deep).unwrap_err().sqlstate, "54001");
        let fine = format!("{} null; {}", "begin ".repeat(99), "end; ".repeat(99));
        assert!(read(&fine).is_ok());
    }
}
