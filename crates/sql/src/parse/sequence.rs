//! CREATE SEQUENCE and ALTER SEQUENCE, with their options in any order; and those of identity columns, put into
//! the order in which DataFusion's parser takes them.

use cellar_instance::catalog::SequenceType;
use datafusion::common::TableReference;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, Word};

use super::Cursor;
use crate::error::Error;
use crate::grammar::CellarDialect;
use crate::names::path::TEMPORARY;
use crate::rows::SequenceOptions;
use crate::statement::{Define, OwnedBy, Statement};

const OPTIONS: &str = "AS, INCREMENT, MINVALUE, MAXVALUE, START, RESTART, CACHE, CYCLE, OWNED BY or \
                       the end of the statement";

/// The type that a word stands for.
pub(super) fn type_of(word: &str) -> Option<SequenceType> {
    match word.to_ascii_lowercase().as_str() {
        "smallint" | "int2" => Some(SequenceType::Smallint),
        "integer" | "int" | "int4" => Some(SequenceType::Integer),
        "bigint" | "int8" => Some(SequenceType::Bigint),
        _ => None,
    }
}

impl Cursor<'_> {
    /// A name, folded unless quoted.
    pub(super) fn folded_name(&mut self, what: &str) -> Result<String, Error> {
        match self.tokens.get(self.at).map(|t| &t.token) {
            Some(Token::Word(Word { value, quote_style, .. })) if !value.is_empty() => {
                self.at += 1;
                Ok(match quote_style {
                    Some(_) => value.clone(),
                    None => value.to_ascii_lowercase(),
                })
            }
            _ => Err(self.expected(what)),
        }
    }

    /// The names of `a.b.c`.
    pub(super) fn names(&mut self, what: &str) -> Result<Vec<String>, Error> {
        let mut names = vec![self.folded_name(what)?];
        while self.accept(&Token::Period) {
            names.push(self.folded_name("a name")?);
        }
        Ok(names)
    }

    /// The name of an object, with or without its schema.
    pub(super) fn object(&mut self, what: &str) -> Result<TableReference, Error> {
        let names = self.names(what)?;
        reference(&names).ok_or_else(|| Error::syntax(format!("{}: one schema", names.join("."))))
    }

    /// `IF NOT EXISTS`, `IF EXISTS`.
    pub(super) fn accept_words(&mut self, words: &[&str]) -> bool {
        let is = words.iter().enumerate().all(|(at, word)| self.is_word_at(self.at + at, word));
        self.at += if is { words.len() } else { 0 };
        is
    }

    fn number(&mut self, what: &str) -> Result<i64, Error> {
        let error = self.expected(&format!("a whole number behind {what}"));
        let sign = if self.accept(&Token::Minus) { "-" } else { "" };
        self.accept(&Token::Plus);
        let Some(Token::Number(digits, _)) = self.tokens.get(self.at).map(|t| &t.token) else {
            return Err(error);
        };
        let number = format!("{sign}{digits}").parse();
        self.at += 1;
        number.map_err(|_| error)
    }

    pub(super) fn create_temporary_sequence(&mut self) -> Result<Statement, Error> {
        let mut statement = self.create_sequence()?;
        if let Statement::Define(Define::CreateSequence { name, .. }) = &mut statement {
            if name.schema().is_some_and(|schema| schema != TEMPORARY) {
                let text = "a temporary sequence is in the schema of its session";
                return Err(Error::new(1435, "42P16", text).next("leave the schema out"));
            }
            *name = TableReference::partial(TEMPORARY, name.table());
        }
        Ok(statement)
    }

    pub(super) fn create_sequence(&mut self) -> Result<Statement, Error> {
        let if_not_exists = self.accept_words(&["IF", "NOT", "EXISTS"]);
        let name = self.object("the name of a sequence")?;
        let (options, owned_by) = self.sequence_options(OPTIONS)?;
        if options.restart.is_some() {
            return Err(Error::syntax("RESTART is of ALTER SEQUENCE").next("start with .."));
        }
        Ok(Statement::Define(Define::CreateSequence { name, if_not_exists, options, owned_by }))
    }

    pub(super) fn alter_sequence(&mut self) -> Result<Statement, Error> {
        let if_exists = self.accept_words(&["IF", "EXISTS"]);
        let name = self.object("the name of a sequence")?;
        if self.is_word_at(self.at, "RENAME|SET") {
            let word = self.name("an option")?.to_uppercase();
            return Err(Error::not_yet(format!("ALTER SEQUENCE .. {word}"))
                .next("create another sequence, and set its value with setval"));
        }
        let start = self.at;
        let (options, owned_by) = self.sequence_options(OPTIONS)?;
        if self.at == start {
            return Err(self.expected(OPTIONS));
        }
        Ok(Statement::Define(Define::AlterSequence { name, if_exists, options, owned_by }))
    }

    pub(super) fn sequence_options(
        &mut self,
        expected: &str,
    ) -> Result<(SequenceOptions, Option<OwnedBy>), Error> {
        let (mut options, mut owned_by) = (SequenceOptions::default(), None);
        fn set<T>(slot: &mut Option<T>, value: T) -> Result<(), Error> {
            match slot.replace(value) {
                None => Ok(()),
                Some(_) => Err(Error::syntax("conflicting or redundant options")),
            }
        }
        while self.at < self.tokens.len()
            && !self.is_at(&Token::SemiColon)
            && !self.is_at(&Token::RParen)
        {
            if self.accept_word("AS") {
                let wrong = self.expected("smallint, integer or bigint");
                let word = self.folded_name("a type")?;
                set(&mut options.of, type_of(&word).ok_or(wrong)?)?;
            } else if self.accept_word("INCREMENT") {
                self.accept_word("BY");
                set(&mut options.increment, self.number("INCREMENT")?)?;
            } else if self.accept_word("MINVALUE") {
                set(&mut options.least, Some(self.number("MINVALUE")?))?;
            } else if self.accept_word("MAXVALUE") {
                set(&mut options.most, Some(self.number("MAXVALUE")?))?;
            } else if self.accept_words(&["NO", "MINVALUE"]) || self.accept_word("NOMINVALUE") {
                set(&mut options.least, None)?;
            } else if self.accept_words(&["NO", "MAXVALUE"]) || self.accept_word("NOMAXVALUE") {
                set(&mut options.most, None)?;
            } else if self.accept_word("START") {
                self.accept_word("WITH");
                set(&mut options.start, self.number("START")?)?;
            } else if self.accept_word("RESTART") {
                let is_said = self.accept_word("WITH")
                    || matches!(
                        self.tokens.get(self.at).map(|t| &t.token),
                        Some(Token::Number(..) | Token::Minus)
                    );
                let value = if is_said { Some(self.number("RESTART")?) } else { None };
                set(&mut options.restart, value)?;
            } else if self.accept_word("CACHE") {
                set(&mut options.cache, self.number("CACHE")?)?;
            } else if self.accept_word("NOCACHE") {
                set(&mut options.cache, 1)?;
            } else if self.accept_words(&["NO", "CYCLE"]) || self.accept_word("NOCYCLE") {
                set(&mut options.cycles, false)?;
            } else if self.accept_word("CYCLE") {
                set(&mut options.cycles, true)?;
            } else if self.accept_words(&["OWNED", "BY"]) {
                set(&mut owned_by, self.owner()?)?;
            } else {
                return Err(self.expected(expected));
            }
        }
        Ok((options, owned_by))
    }

    fn is_at(&self, token: &Token) -> bool {
        self.tokens.get(self.at).is_some_and(|own| own.token == *token)
    }

    fn owner(&mut self) -> Result<OwnedBy, Error> {
        if self.accept_word("NONE") {
            return Ok(OwnedBy::Nobody);
        }
        let mut names = self.names("a column, or NONE")?;
        let column = names.pop().unwrap_or_default();
        match reference(&names) {
            Some(table) => Ok(OwnedBy::Column(table, column)),
            None => {
                Err(Error::syntax("OWNED BY takes the column of a table")
                    .next("owned by table.column"))
            }
        }
    }
}

pub(super) fn reference(names: &[String]) -> Option<TableReference> {
    match names {
        [name] => Some(TableReference::bare(name.clone())),
        [schema, name] => Some(TableReference::partial(schema.clone(), name.clone())),
        [catalog, schema, name] => {
            Some(TableReference::full(catalog.clone(), schema.clone(), name.clone()))
        }
        _ => None,
    }
}

/// Puts the options of identity columns into the order in which the parser takes them.
///
/// # Errors
/// There is no such option.
pub(super) fn order_identities(tokens: &mut Vec<TokenWithSpan>) -> Result<(), Error> {
    let is_word = |token: &TokenWithSpan, word: &str| {
        matches!(&token.token, Token::Word(Word { value, quote_style: None, .. })
            if value.eq_ignore_ascii_case(word))
    };
    let blank = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let (mut at, mut is_behind_as) = (0, false);
    while at < tokens.len() {
        let is_here = is_behind_as && is_word(&tokens[at], "IDENTITY");
        if !blank(&tokens[at]) {
            is_behind_as = is_word(&tokens[at], "AS");
        }
        at += 1;
        if !is_here {
            continue;
        }
        let Some(open) = (at..tokens.len()).find(|place| !blank(&tokens[*place])) else { break };
        if tokens[open].token != Token::LParen {
            continue;
        }
        let close = (open..tokens.len()).find(|place| tokens[*place].token == Token::RParen);
        let Some(close) = close else { break };
        let span = tokens[open].span;
        let mut cursor = Cursor::new(&tokens[open + 1..close]);
        let (options, owned_by) = cursor.sequence_options("INCREMENT, MINVALUE, START, .. or )")?;
        if owned_by.is_some() || options.of.is_some() || options.restart.is_some() {
            return Err(Error::syntax("AS, RESTART and OWNED BY are no options of a column"));
        }
        let text = text_of(&options);
        let made = Tokenizer::new(&CellarDialect, &text).tokenize();
        let made = made.map_err(|error| Error::syntax(error.message))?;
        let made = made.into_iter().map(|token| TokenWithSpan { token, span });
        tokens.splice(open + 1..close, made);
    }
    Ok(())
}

/// The options in the order in which the parser takes them.
fn text_of(options: &SequenceOptions) -> String {
    let mut text = String::new();
    let mut add = |more: String| text.push_str(&more);
    if let Some(increment) = options.increment {
        add(format!(" INCREMENT BY {increment}"));
    }
    for (word, bound) in [("MINVALUE", options.least), ("MAXVALUE", options.most)] {
        match bound {
            Some(Some(value)) => add(format!(" {word} {value}")),
            Some(None) => add(format!(" NO {word}")),
            None => {}
        }
    }
    if let Some(start) = options.start {
        add(format!(" START WITH {start}"));
    }
    if let Some(cache) = options.cache {
        add(format!(" CACHE {cache}"));
    }
    match options.cycles {
        Some(true) => add(" CYCLE".to_owned()),
        Some(false) => add(" NO CYCLE".to_owned()),
        None => {}
    }
    text
}
