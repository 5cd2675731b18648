//! The tokens of a block, and a position among them.

use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, Word};

use crate::error::{Error, Position};
use crate::grammar::CellarDialect;
use crate::quotes::token_length;

/// `..` of a range, which the tokenizer would take for the points of two numbers.
pub(super) const RANGE: char = '\u{2}';

/// Tokens, with blanks among them.
pub(super) struct Tokens {
    all: Vec<TokenWithSpan>,
    at: usize,
    /// Lines before the text.
    first_line: u64,
}

/// The text with `..` outside quotes and comments as one character and a blank.
fn with_ranges(text: &str) -> String {
    let (mut made, mut at) = (String::with_capacity(text.len()), 0);
    while at < text.len() {
        let rest = &text[at..];
        let length = match rest.starts_with("..") {
            true => {
                made.push(RANGE);
                made.push(' ');
                2
            }
            false => {
                let length = token_length(rest, &text[..at]).length;
                made.push_str(&rest[..length]);
                length
            }
        };
        at += length;
    }
    made
}

impl Tokens {
    /// Of a text that begins on this line of the statement, from 0.
    pub fn of(text: &str, first_line: u64) -> Result<Tokens, Error> {
        let text = with_ranges(text);
        let all = Tokenizer::new(&CellarDialect, &text)
            // Quotes stay as they are written: the tokens become text again.
            .with_unescape(false)
            .tokenize_with_location();
        let all = all.map_err(|error| {
            Error::syntax(error.message.clone()).at(place(error.location, first_line))
        })?;
        Ok(Tokens { all, at: 0, first_line })
    }

    /// What comes next, without blanks.
    fn behind(&self) -> impl Iterator<Item = &TokenWithSpan> {
        let behind = self.all[self.at..].iter();
        behind.filter(|own| !matches!(own.token, Token::Whitespace(_)))
    }

    /// The token that is `ahead` of the next one, without blanks.
    pub fn ahead(&self, ahead: usize) -> Option<&Token> {
        self.behind().nth(ahead).map(|own| &own.token)
    }

    /// The next token.
    pub fn peek(&self) -> Option<&Token> {
        self.ahead(0)
    }

    /// Takes the next token.
    pub fn next(&mut self) -> Option<TokenWithSpan> {
        while matches!(
            self.all.get(self.at),
            Some(TokenWithSpan { token: Token::Whitespace(_), .. })
        ) {
            self.at += 1;
        }
        let token = self.all.get(self.at).cloned();
        self.at += usize::from(token.is_some());
        token
    }

    /// Takes the next token even if it is a blank.
    pub fn next_raw(&mut self) -> Option<TokenWithSpan> {
        let token = self.all.get(self.at).cloned();
        self.at += usize::from(token.is_some());
        token
    }

    /// Where the next token is.
    pub fn position(&self) -> Position {
        let at = self.behind().next().or(self.all.last());
        place(at.map_or(Location { line: 1, column: 1 }, |own| own.span.start), self.first_line)
    }

    /// The word that is `ahead` of the next token, in lower case, if it is one without quotes.
    pub fn word_ahead(&self, ahead: usize) -> Option<String> {
        self.ahead(ahead).and_then(word_of)
    }

    /// Whether these words come next.
    pub fn is(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(at, word)| self.word_ahead(at).as_deref() == Some(*word))
    }

    /// Takes these words, if they come next.
    pub fn takes(&mut self, words: &[&str]) -> bool {
        let is = self.is(words);
        if is {
            words.iter().for_each(|_| drop(self.next()));
        }
        is
    }

    /// Takes these words.
    ///
    /// # Errors
    /// 42601 something else comes next.
    pub fn expect(&mut self, words: &[&str]) -> Result<(), Error> {
        match self.takes(words) {
            true => Ok(()),
            false => Err(self.wrong(&words.join(" ").to_uppercase())),
        }
    }

    /// Takes this token, if it comes next.
    pub fn takes_token(&mut self, token: &Token) -> bool {
        let is = self.peek() == Some(token);
        if is {
            self.next();
        }
        is
    }

    /// Takes this token.
    ///
    /// # Errors
    /// 42601 something else comes next.
    pub fn expect_token(&mut self, token: &Token) -> Result<(), Error> {
        match self.takes_token(token) {
            true => Ok(()),
            false => Err(self.wrong(&token.to_string())),
        }
    }

    /// Takes a name.
    ///
    /// # Errors
    /// 42601 something else comes next.
    pub fn name(&mut self) -> Result<String, Error> {
        if let Some(Token::Word(word)) = self.peek() {
            let name = folded(word);
            self.next();
            return Ok(name);
        }
        Err(self.wrong("a name"))
    }

    /// Takes names with points between them.
    ///
    /// # Errors
    /// 42601 something else comes next.
    pub fn names(&mut self) -> Result<Vec<String>, Error> {
        let mut names = vec![self.name()?];
        while self.takes_token(&Token::Period) {
            names.push(self.name()?);
        }
        Ok(names)
    }

    /// The error for a token that is not what must be there.
    pub fn wrong(&self, wanted: &str) -> Error {
        let at = self.position();
        let found = self.peek().map_or("the end of the block".to_owned(), |token| match token {
            Token::Char(RANGE) => "..".to_owned(),
            token => token.to_string(),
        });
        Error::syntax(format!("expected {wanted}, found {found}")).at(at)
    }
}

/// A name: in lower case, where it is without quotes.
pub(super) fn folded(word: &Word) -> String {
    match word.quote_style {
        Some(_) => word.value.clone(),
        None => word.value.to_lowercase(),
    }
}

/// A word without quotes, in lower case.
pub(super) fn word_of(token: &Token) -> Option<String> {
    match token {
        Token::Word(Word { value, quote_style: None, .. }) => Some(value.to_ascii_lowercase()),
        _ => None,
    }
}

fn place(at: Location, first_line: u64) -> Position {
    Position { line: at.line.max(1) + first_line, column: at.column.max(1) }
}
