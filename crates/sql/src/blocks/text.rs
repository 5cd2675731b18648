//! SQL text within a block: a statement or an expression, in which names may be those of variables.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::{RANGE, folded, word_of};
use crate::error::Position;

/// What stands before the query of PERFORM.
pub(super) const PERFORM: &str = "select ";

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    /// A name, or names with points between them.
    Name {
        /// In lower case, where they are without quotes.
        words: Vec<String>,
        /// As written.
        text: String,
        /// Whether it is where only a column may be: in the list of an INSERT, before `=` in SET.
        is_column: bool,
    },
}

/// A text and where it begins.
#[derive(Clone, Debug)]
pub(crate) struct Code {
    pub at: Position,
    pub parts: Vec<Part>,
}

impl Code {
    /// Of tokens, with blanks among them.
    pub fn of(tokens: &[TokenWithSpan], at: Position) -> Code {
        let all: Vec<&Token> = tokens.iter().map(|own| &own.token).collect();
        let mut columns = ColumnPlaces::default();
        let (mut parts, mut next, mut before) = (Vec::new(), 0, None::<&Token>);
        while let Some(token) = all.get(next) {
            let length = match token {
                Token::Word(_) if may_be_name(before) => names_length(&all[next..]),
                _ => 0,
            };
            let is_called = all[next + length.max(1)..]
                .iter()
                .find(|token| !matches!(token, Token::Whitespace(_)))
                .is_some_and(|token| **token == Token::LParen);
            let is_column = columns.see(token, all.get(next + 1..).unwrap_or_default());
            if length > 0 && !is_called {
                let own = &all[next..next + length];
                let text = own.iter().map(ToString::to_string).collect();
                parts.push(Part::Name { words: words_of(own), text, is_column });
                before = own.last().copied();
                next += length;
                continue;
            }
            let text = text_of(token);
            match parts.last_mut() {
                Some(Part::Text(last)) => last.push_str(&text),
                _ => parts.push(Part::Text(text)),
            }
            if !matches!(token, Token::Whitespace(_)) {
                before = Some(token);
            }
            next += 1;
        }
        Code { at, parts }
    }

    /// `(operand) in (this)`, of CASE with an operand: WHEN may list several values.
    pub(super) fn compared_with(self, operand: &Code) -> Code {
        let text = |text: &str| Part::Text(text.to_owned());
        let mut parts = vec![text("(")];
        parts.extend(operand.parts.iter().cloned());
        parts.push(text(") in ("));
        parts.extend(self.parts);
        parts.push(text(")"));
        Code { at: self.at, parts }
    }

    /// With words before it.
    pub fn behind(mut self, words: &str, at: Position) -> Code {
        self.parts.insert(0, Part::Text(words.to_owned()));
        Code { at, parts: self.parts }
    }

    /// Whether it is a query of PERFORM, whose rows nobody wants.
    pub fn is_perform(&self) -> bool {
        self.parts.first() == Some(&Part::Text(PERFORM.to_owned()))
    }

    /// The text as written.
    pub fn text(&self) -> String {
        let text = |part: &Part| match part {
            Part::Text(text) | Part::Name { text, .. } => text.clone(),
        };
        self.parts.iter().map(text).collect()
    }
}

/// A token as text.
fn text_of(token: &Token) -> String {
    match token {
        Token::Char(RANGE) => "..".to_owned(),
        // The tokenizer has taken their backslashes out.
        Token::EscapedStringLiteral(own) | Token::UnicodeStringLiteral(own) => {
            format!("'{}'", own.replace('\'', "''"))
        }
        token => token.to_string(),
    }
}

/// Whether a word behind this token may name a variable: not behind a point, in a type, or as an alias.
fn may_be_name(before: Option<&Token>) -> bool {
    let is_as = before.and_then(word_of).is_some_and(|word| word == "as");
    !is_as && !matches!(before, Some(Token::Period | Token::Colon | Token::DoubleColon))
}

/// How many tokens are names with points, or `sql%rowcount`.
fn names_length(tokens: &[&Token]) -> usize {
    if let [first, Token::Mod, second, ..] = tokens
        && word_of(first).is_some_and(|word| word == "sql")
        && word_of(second).is_some()
    {
        return 3;
    }
    let mut length = 1;
    while let [Token::Period, Token::Word(_), ..] = &tokens[length..] {
        length += 2;
    }
    length
}

fn words_of(tokens: &[&Token]) -> Vec<String> {
    if let [_, Token::Mod, what] = tokens {
        return vec![format!("sql%{}", word_of(what).unwrap_or_default())];
    }
    let word = |token: &&Token| match token {
        Token::Word(word) => Some(folded(word)),
        _ => None,
    };
    tokens.iter().filter_map(word).collect()
}

/// Follows a statement to see where only columns may stand.
#[derive(Default)]
struct ColumnPlaces {
    last: String,
    depth: usize,
    /// Behind INSERT INTO at this depth: the next parentheses list columns.
    awaits_list: Option<usize>,
    /// The depth of the parentheses that list columns.
    list: Option<usize>,
    in_set: bool,
    /// Directly behind SET, or a comma of it.
    begins_set: bool,
}

impl ColumnPlaces {
    /// Sees a token; whether it may only be a column. `behind`: what follows it.
    fn see(&mut self, token: &Token, behind: &[&Token]) -> bool {
        if matches!(token, Token::Whitespace(_)) {
            return false;
        }
        let begins_set = std::mem::take(&mut self.begins_set);
        match token {
            Token::LParen => {
                if self.awaits_list == Some(self.depth) || begins_set || self.last == "conflict" {
                    self.list = Some(self.depth + 1);
                    self.awaits_list = None;
                }
                self.depth += 1;
                false
            }
            Token::RParen => {
                if self.list == Some(self.depth) {
                    self.list = None;
                }
                self.depth = self.depth.saturating_sub(1);
                false
            }
            Token::Comma => {
                self.begins_set = self.in_set && self.depth == 0;
                false
            }
            Token::Word(word) => self.see_word(folded(word), begins_set, behind),
            _ => false,
        }
    }

    fn see_word(&mut self, own: String, begins_set: bool, behind: &[&Token]) -> bool {
        match own.as_str() {
            "into" if self.last == "insert" => self.awaits_list = Some(self.depth),
            "values" | "select" | "with" | "default" => self.awaits_list = None,
            "set" if self.depth == 0 => {
                self.in_set = true;
                self.begins_set = true;
            }
            "where" | "from" | "returning" if self.depth == 0 => self.in_set = false,
            _ => {}
        }
        let mut behind = behind.iter().filter(|token| !matches!(token, Token::Whitespace(_)));
        let is_set = begins_set && matches!(behind.next(), Some(Token::Eq));
        self.last = own;
        self.list.is_some() && self.list == Some(self.depth) || is_set
    }
}
