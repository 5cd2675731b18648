//! COPY as in PostgreSQL: from and to files and streams. COPY .. TO a file without an option of
//! PostgreSQL's is DataFusion's, which writes Parquet, CSV and JSON.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{Cursor, one_of, position};
use crate::copy::form::{Columns, Form, Header};
use crate::copy::{Copy, Place, What};
use crate::csv::form::encoding_of;
use crate::error::{Error, NextStep, Position};
use crate::names::folded_token;

/// Options in the order in which they were written: the name, the value, and the position.
type Options = Vec<(String, Value, Position)>;

/// The value of an option.
enum Value {
    None,
    Text(String),
    Names(Vec<String>),
    All,
}

/// Parses a COPY; `None`: it is another statement, or DataFusion's.
///
/// # Errors
/// 00900 with the position; 42601, 22023 and 0A000 for options that contradict each other.
pub(super) fn read(tokens: &[TokenWithSpan]) -> Result<Option<Copy>, Error> {
    let mut cursor = Cursor::new(tokens);
    if !cursor.accept_word("COPY") {
        return Ok(None);
    }
    let what = match cursor.accept(&Token::LParen) {
        true => What::Query(cursor.query()?),
        false => {
            let Some(table) = cursor.table()? else { return Ok(None) };
            let columns = match cursor.accept(&Token::LParen) {
                true => cursor.names_to_end()?,
                false => Vec::new(),
            };
            What::Table { table, columns }
        }
    };
    let is_from = cursor.accept_word("FROM");
    if !is_from && !cursor.accept_word("TO") {
        return Err(cursor.expected("FROM or TO"));
    }
    if is_from && matches!(what, What::Query(_)) {
        return Err(Error::syntax("COPY (query) FROM").next("name a table: COPY t FROM 'file'"));
    }
    let place = cursor.copy_place(is_from)?;
    let is_plain = match cursor.tokens.get(cursor.at).map(|token| &token.token) {
        None | Some(Token::SemiColon) => true,
        Some(_) => cursor.is_word_at(cursor.at, "STORED|OPTIONS|PARTITIONED"),
    };
    if is_plain && !is_from && matches!(place, Place::File(_)) {
        return Ok(None);
    }
    let options = cursor.copy_options()?;
    if cursor.is_word_at(cursor.at, "WHERE") {
        return Err(Error::not_yet("COPY .. WHERE")
            .next("copy all rows into a table of their own, then insert into .. select .. where"));
    }
    while cursor.accept(&Token::SemiColon) {}
    if cursor.at < cursor.tokens.len() {
        return Err(cursor.expected("the end of the statement"));
    }
    let form = form_of(&options, is_from)?;
    Ok(Some(Copy { what, is_from, place, form }))
}

impl Cursor<'_> {
    /// The query after an open parenthesis, up to the closing one.
    fn query(&mut self) -> Result<Box<datafusion::sql::parser::Statement>, Error> {
        let (from, mut depth) = (self.at, 1);
        while depth > 0 {
            match self.tokens.get(self.at).map(|token| &token.token) {
                Some(Token::LParen) => depth += 1,
                Some(Token::RParen) => depth -= 1,
                Some(_) => {}
                None => return Err(self.expected(")")),
            }
            self.at += 1;
        }
        let own = self.tokens[from..self.at - 1].iter().map(|token| (*token).clone());
        one_of(own.collect()).map(Box::new)
    }

    /// The name of a table, as written; `None`: there is none here.
    fn table(&mut self) -> Result<Option<String>, Error> {
        let mut name = String::new();
        loop {
            let Some(Token::Word(word)) = self.tokens.get(self.at).map(|token| &token.token) else {
                return if name.is_empty() { Ok(None) } else { Err(self.expected("a name")) };
            };
            name.push_str(&word.to_string());
            self.at += 1;
            if !self.accept(&Token::Period) {
                return Ok(Some(name));
            }
            name.push('.');
        }
    }

    /// Names with commas between them, up to the closing parenthesis.
    fn names_to_end(&mut self) -> Result<Vec<String>, Error> {
        let names = self.plain_names()?;
        match self.accept(&Token::RParen) {
            true => Ok(names),
            false => Err(self.expected(", or )")),
        }
    }

    fn plain_names(&mut self) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        loop {
            let Some(Token::Word(word)) = self.tokens.get(self.at).map(|token| &token.token) else {
                return Err(self.expected("the name of a column"));
            };
            names.push(folded_token(word));
            self.at += 1;
            if !self.accept(&Token::Comma) {
                return Ok(names);
            }
        }
    }

    fn copy_place(&mut self, is_from: bool) -> Result<Place, Error> {
        if self.accept_word("PROGRAM") {
            return Err(Error::not_yet("COPY with PROGRAM").next(
                NextStep::from("use a pipe: program | ").cellar("sql", "-c 'copy t from stdin'"),
            ));
        }
        if self.accept_word(if is_from { "STDIN" } else { "STDOUT" }) {
            return Ok(Place::Stream);
        }
        let what = if is_from { "a file, or STDIN" } else { "a file, or STDOUT" };
        self.copy_text(what).map(Place::File)
    }

    /// A quoted text, possibly with escapes.
    fn copy_text(&mut self, what: &str) -> Result<String, Error> {
        if let Some(Token::EscapedStringLiteral(text)) =
            self.tokens.get(self.at).map(|token| &token.token)
        {
            self.at += 1;
            return Ok(text.clone());
        }
        self.text(what)
    }

    fn copy_options(&mut self) -> Result<Options, Error> {
        self.accept_word("WITH");
        match self.accept(&Token::LParen) {
            true => self.new_options(),
            false => self.old_options(),
        }
    }

    /// `(FORMAT csv, HEADER, ..)`.
    fn new_options(&mut self) -> Result<Options, Error> {
        let mut options = Vec::new();
        loop {
            let place = self.at;
            let name = self.name("an option")?.to_ascii_uppercase();
            let value = match self.tokens.get(self.at).map(|token| token.token.clone()) {
                Some(Token::Comma | Token::RParen) => Value::None,
                Some(Token::LParen) => {
                    self.at += 1;
                    Value::Names(self.names_to_end()?)
                }
                Some(Token::Mul) => {
                    self.at += 1;
                    Value::All
                }
                Some(Token::Word(word)) => {
                    self.at += 1;
                    Value::Text(word.value)
                }
                Some(Token::Number(digits, _)) => {
                    self.at += 1;
                    Value::Text(digits)
                }
                _ => Value::Text(self.copy_text("a value")?),
            };
            options.push((name, value, place));
            if self.accept(&Token::RParen) {
                return Ok(self.placed(options));
            }
            if !self.accept(&Token::Comma) {
                return Err(self.expected(", or )"));
            }
        }
    }

    /// `CSV HEADER DELIMITER AS ';' ..`, as before PostgreSQL 9.
    fn old_options(&mut self) -> Result<Options, Error> {
        let mut options = Vec::new();
        loop {
            let place = self.at;
            let is = |cursor: &mut Self, word: &str| cursor.accept_word(word);
            if is(self, "CSV") {
                options.push(("FORMAT".into(), Value::Text("csv".into()), place));
            } else if is(self, "BINARY") {
                options.push(("FORMAT".into(), Value::Text("binary".into()), place));
            } else if is(self, "HEADER") {
                options.push(("HEADER".into(), Value::None, place));
            } else if is(self, "FREEZE") {
                options.push(("FREEZE".into(), Value::None, place));
            } else if is(self, "FORCE") {
                options.push(self.forced(place)?);
            } else if self.is_word_at(self.at, "DELIMITER|DELIMITERS|NULL|QUOTE|ESCAPE|ENCODING") {
                let name = self.name("an option")?.to_ascii_uppercase();
                self.accept_word("AS");
                let value = Value::Text(self.copy_text("a value")?);
                let name = if name == "DELIMITERS" { "DELIMITER".into() } else { name };
                options.push((name, value, place));
            } else {
                return Ok(self.placed(options));
            }
        }
    }

    /// `QUOTE *`, `NOT NULL a, b`, `NULL a` after FORCE.
    fn forced(&mut self, place: usize) -> Result<(String, Value, usize), Error> {
        let name = if self.accept_word("QUOTE") {
            "FORCE_QUOTE"
        } else if self.accept_word("NOT") {
            self.word("NULL")?;
            "FORCE_NOT_NULL"
        } else if self.accept_word("NULL") {
            "FORCE_NULL"
        } else {
            return Err(self.expected("QUOTE, NOT NULL or NULL"));
        };
        let value = match self.accept(&Token::Mul) {
            true => Value::All,
            false => Value::Names(self.plain_names()?),
        };
        Ok((name.into(), value, place))
    }

    fn placed(&self, options: Vec<(String, Value, usize)>) -> Options {
        let tokens = &self.tokens;
        let placed = |(name, value, at): (String, Value, usize)| {
            (name, value, position(tokens[at].span.start))
        };
        options.into_iter().map(placed).collect()
    }
}

fn wrong(what: impl Into<String>) -> Error {
    Error::new(70012, "22023", what)
}

/// A single byte.
fn byte_of(name: &str, text: &str) -> Result<u8, Error> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err(Error::not_yet(format!("COPY {} of more than one byte", name.to_lowercase()))
            .next("give a single character of ASCII; a tab is E'\\t'")),
    }
}

fn is_on(name: &str, value: &Value) -> Result<bool, Error> {
    match value {
        Value::None => Ok(true),
        Value::Text(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "on" | "1" => Ok(true),
            "false" | "off" | "0" => Ok(false),
            _ => Err(wrong(format!("{name} is {text:?}")).next("true or false")),
        },
        _ => Err(wrong(format!("{name} is a list")).next("true or false")),
    }
}

fn columns_of(value: &Value) -> Result<Columns, Error> {
    match value {
        Value::All => Ok(Columns::All),
        Value::Names(names) => Ok(Columns::Named(names.clone())),
        _ => Err(wrong("columns are to be named").next("(a, b), or *")),
    }
}

fn text_of(name: &str, value: &Value) -> Result<String, Error> {
    match value {
        Value::Text(text) => Ok(text.clone()),
        _ => Err(wrong(format!("{name} says nothing")).next(format!("{name} 'text'"))),
    }
}

/// The binary form, which has no options.
fn binary_form(options: &Options) -> Result<Form, Error> {
    let mut others = options.iter().filter(|(name, ..)| name != "FORMAT" && name != "FREEZE");
    match others.next() {
        Some((name, ..)) => {
            let text = format!("cannot specify {name} in BINARY mode");
            Err(Error::new(70012, "42601", text).next("leave it out, or take FORMAT csv"))
        }
        None => Ok(Form { is_binary: true, ..Form::text() }),
    }
}

/// The form that options describe.
fn form_of(options: &Options, is_from: bool) -> Result<Form, Error> {
    let mut seen: Vec<&str> = Vec::new();
    let format = options.iter().find(|(name, ..)| name == "FORMAT");
    let format = format.map(|(name, value, _)| text_of(name, value)).transpose()?;
    let is_csv = match format.as_deref().map(str::to_ascii_lowercase).as_deref() {
        None | Some("text") => false,
        Some("csv") => true,
        Some("binary") => return binary_form(options),
        Some(other) => {
            let next = "text, csv, or binary";
            return Err(wrong(format!("there is no COPY format {other:?}")).next(next));
        }
    };
    let mut form = if is_csv { Form::csv() } else { Form::text() };
    let mut escape = None;
    for (name, value, at) in options {
        let at = *at;
        if seen.contains(&name.as_str()) {
            return Err(Error::syntax(format!("{name} is said twice")).at(at));
        }
        seen.push(name);
        let for_csv = ["QUOTE", "ESCAPE", "FORCE_QUOTE", "FORCE_NOT_NULL", "FORCE_NULL"];
        if !is_csv && for_csv.contains(&name.as_str()) {
            return Err(
                Error::new(3001, "0A000", format!("COPY {name} is of CSV")).next("FORMAT csv")
            );
        }
        match name.as_str() {
            "FORMAT" => {}
            "FREEZE" => drop(is_on(name, value)?),
            "DELIMITER" => form.delimiter = byte_of(name, &text_of(name, value)?)?,
            "NULL" => form.null = text_of(name, value)?.into_bytes(),
            "HEADER" => {
                let is_match =
                    matches!(value, Value::Text(text) if text.eq_ignore_ascii_case("match"));
                form.header = match (is_match, is_from) {
                    (true, true) => Header::Match,
                    (true, false) => return Err(wrong("HEADER MATCH of COPY TO").next("HEADER")),
                    (false, _) if is_on(name, value)? => Header::Yes,
                    (false, _) => Header::No,
                };
            }
            "QUOTE" => form.quote = byte_of(name, &text_of(name, value)?)?,
            "ESCAPE" => escape = Some(byte_of(name, &text_of(name, value)?)?),
            "FORCE_QUOTE" if !is_from => form.force_quote = columns_of(value)?,
            "FORCE_NOT_NULL" if is_from => form.force_not_null = columns_of(value)?,
            "FORCE_NULL" if is_from => form.force_null = columns_of(value)?,
            "FORCE_QUOTE" | "FORCE_NOT_NULL" | "FORCE_NULL" => {
                let way = if is_from { "TO" } else { "FROM" };
                return Err(Error::new(3001, "0A000", format!("{name} is of COPY {way}")));
            }
            "ENCODING" => form.encoding = Some(encoding_of(&text_of(name, value)?)?),
            _ => {
                return Err(Error::syntax(format!("COPY has no option {name}")).at(at).next(
                    "FORMAT, DELIMITER, NULL, HEADER, QUOTE, ESCAPE, FORCE_QUOTE, \
                     FORCE_NOT_NULL, FORCE_NULL, ENCODING, FREEZE",
                ));
            }
        }
    }
    form.escape = escape.unwrap_or(form.quote);
    form.check()?;
    Ok(form)
}
