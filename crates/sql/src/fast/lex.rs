//! The text of a statement with its constants taken out: the key of the plan cache.
//!
//! A constant that the SQL parser might read differently is not lifted, or the statement does not take the
//! fast path.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Int32Array, Int64Array, StringArray};
use arrow::datatypes::DataType;

/// The most constants of a statement.
const CONSTANTS_MAX: usize = 1000;

/// The low digits of a constant's placeholder number hold its index: this many values.
const INDEX: usize = 10_000;

/// A constant of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Constant {
    Integer(i64),
    /// The digits without the point, how many there are, and how many come after the point.
    Decimal(i128, u8, i8),
    Text(String),
}

impl Constant {
    /// The placeholder for the constant of this number.
    pub fn placeholder(&self, index: usize) -> String {
        let kind = match self {
            Constant::Integer(number) if i32::try_from(*number).is_ok() => 1,
            Constant::Integer(_) => 4,
            Constant::Decimal(_, digits, scale) => {
                20_000 + usize::from(*digits) * 100 + usize::from(scale.unsigned_abs())
            }
            Constant::Text(_) => 3,
        };
        format!("${}", kind * INDEX + index)
    }

    /// The type of its value.
    pub fn data_type(&self) -> DataType {
        match self {
            Constant::Integer(number) if i32::try_from(*number).is_ok() => DataType::Int32,
            Constant::Integer(_) => DataType::Int64,
            Constant::Decimal(_, digits, scale) => DataType::Decimal128((*digits).max(1), *scale),
            Constant::Text(_) => DataType::Utf8,
        }
    }

    /// Its value; `None`: it is out of range for its type.
    pub fn value(&self) -> Option<ArrayRef> {
        Some(match self {
            // As PostgreSQL reads it: integer where it fits.
            Constant::Integer(number) => match i32::try_from(*number) {
                Ok(number) => Arc::new(Int32Array::from(vec![number])),
                Err(_) => Arc::new(Int64Array::from(vec![*number])),
            },
            Constant::Decimal(number, digits, scale) => {
                let array = Decimal128Array::from(vec![*number]);
                Arc::new(array.with_precision_and_scale((*digits).max(1), *scale).ok()?)
            }
            Constant::Text(text) => Arc::new(StringArray::from(vec![text.as_str()])),
        })
    }
}

impl fmt::Display for Constant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Constant::Integer(number) => write!(f, "{number}"),
            Constant::Decimal(number, _, scale) => {
                let scale = usize::from(scale.unsigned_abs());
                let digits = format!("{number:0>width$}", width = scale + 1);
                let (whole, rest) = digits.split_at(digits.len() - scale);
                write!(f, "{whole}.{rest}")
            }
            Constant::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
        }
    }
}

/// What stands for a parameter, or a constant that was lifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// `$1`, from 0.
    Parameter(usize),
    Integer(usize),
    /// An integer that does not fit 32 bits.
    Long(usize),
    Decimal(usize, u8, i8),
    Text(usize),
}

impl Place {
    /// What a placeholder stands for: `$1`, and what [`lex`] makes.
    pub fn of(name: &str) -> Option<Place> {
        let number: usize = name.strip_prefix('$')?.parse().ok()?;
        let (kind, index) = (number / INDEX, number % INDEX);
        Some(match kind {
            0 => Place::Parameter(index.checked_sub(1)?),
            1 => Place::Integer(index),
            3 => Place::Text(index),
            4 => Place::Long(index),
            // 2, digits, digits after the point.
            20_000..30_000 => {
                let digits = kind - 20_000;
                Place::Decimal(index, u8::try_from(digits / 100).ok()?, (digits % 100) as i8)
            }
            _ => return None,
        })
    }
}

/// A statement without its constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lexed {
    /// The statement, with placeholders.
    pub text: String,
    pub constants: Vec<Constant>,
}

/// What came before a token.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Start,
    /// A word after which a value may stand.
    Opens,
    Word,
    Value,
    Sign,
}

struct Lexer<'a> {
    sql: &'a str,
    at: usize,
    out: Lexed,
    /// Constants are being lifted.
    lifts: bool,
    /// No more are lifted: what follows is part of the plan.
    is_over: bool,
    before: Before,
    is_insert: bool,
}

/// The statement without its constants; `None`: it is not one for the fast path.
pub(crate) fn lex(sql: &str) -> Option<Lexed> {
    let head = sql.trim_start();
    let first = head.as_bytes().first()?.to_ascii_lowercase();
    if !matches!(first, b's' | b'i' | b'u' | b'd') {
        return None;
    }
    let text = String::with_capacity(head.len() + 16);
    let out = Lexed { text, constants: Vec::new() };
    let (at, lifts, is_over) = (0, false, false);
    let mut lexer =
        Lexer { sql: head, at, out, lifts, is_over, before: Before::Start, is_insert: false };
    while lexer.at < head.len() {
        lexer.token()?;
    }
    let length = lexer.out.text.trim_end().len();
    lexer.out.text.truncate(length);
    Some(lexer.out)
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.sql.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    /// How many bytes from here on satisfy `is`.
    fn run(&self, is: impl Fn(u8) -> bool) -> usize {
        self.sql.as_bytes()[self.at..].iter().take_while(|byte| is(**byte)).count()
    }

    /// Copies this many bytes to the result unchanged.
    fn copy(&mut self, bytes: usize) {
        self.out.text.push_str(&self.sql[self.at..self.at + bytes]);
        self.at += bytes;
    }

    fn token(&mut self) -> Option<()> {
        match self.peek(0) {
            b' ' | b'\t' | b'\n' | b'\r' => {
                self.at += self.run(|byte| byte.is_ascii_whitespace());
                if self.before != Before::Start {
                    self.out.text.push(' ');
                }
                Some(())
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word(),
            b'0'..=b'9' => self.number(),
            b'\'' => self.string(),
            b'"' => self.quoted(),
            b'$' => {
                let digits = self.sql.as_bytes()[self.at + 1..]
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit())
                    .count();
                // Other dollars start quotes; numbers of five digits are our placeholders.
                if digits == 0 || digits > 4 || self.before == Before::Value {
                    return None;
                }
                self.copy(1 + digits);
                self.before = Before::Value;
                (!is_word(self.peek(0)) && self.peek(0) != b'$').then_some(())
            }
            b'-' if self.peek(1) == b'-' => None,
            b'/' if self.peek(1) == b'*' => None,
            b';' => {
                let rest =
                    self.sql[self.at..].trim_matches(|c: char| c == ';' || c.is_whitespace());
                self.at = self.sql.len();
                rest.is_empty().then_some(())
            }
            b')' => {
                self.copy(1);
                self.before = Before::Value;
                Some(())
            }
            b'(' | b',' | b'=' | b'<' | b'>' | b'+' | b'-' | b'*' | b'/' | b'%' | b'|' | b'!' => {
                self.copy(1);
                self.before = Before::Sign;
                Some(())
            }
            b'.' => {
                self.copy(1);
                self.before = Before::Word;
                Some(())
            }
            b':' if self.peek(1) == b':' => self.cast(),
            _ => None,
        }
    }

    /// `::` and a type, whose digits are not constants.
    fn cast(&mut self) -> Option<()> {
        self.copy(2);
        let name = self.run(is_word);
        (name > 0).then_some(())?;
        self.copy(name);
        if self.peek(0) == b'(' {
            let digits = self.run(|byte| b"(, ".contains(&byte) || byte.is_ascii_digit());
            self.copy(digits);
            (self.peek(0) == b')').then(|| self.copy(1))?;
        }
        while self.peek(0) == b'[' && self.peek(1) == b']' {
            self.copy(2);
        }
        self.before = Before::Value;
        Some(())
    }

    fn word(&mut self) -> Option<()> {
        let length = self.run(is_word);
        let word = &self.sql[self.at..self.at + length];
        let is = |words: &[&str]| words.iter().any(|own| word.eq_ignore_ascii_case(own));
        let is_first = self.before == Before::Start;
        if is_first && !is(&["SELECT", "INSERT", "UPDATE", "DELETE"]) {
            return None;
        }
        if !is_first && is(&["SELECT", "UNION", "JOIN", "WITH", "OVER", "OVERRIDING"]) {
            return None;
        }
        if is_first {
            self.is_insert = is(&["INSERT"]);
        }
        if is(&["WHERE", "VALUES"]) || (!self.is_insert && is(&["SET"])) {
            self.lifts = !self.is_over;
        }
        if is(&["RETURNING", "ORDER", "GROUP", "HAVING", "LIMIT", "OFFSET", "FETCH", "FOR"]) {
            (self.lifts, self.is_over) = (false, true);
        }
        let opens = is(&["SELECT", "DISTINCT", "WHERE", "AND", "OR", "NOT", "BETWEEN", "IN"])
            || is(&["BY", "LIMIT", "OFFSET", "VALUES", "SET", "RETURNING"]);
        self.before = if opens { Before::Opens } else { Before::Word };
        self.copy(length);
        Some(())
    }

    /// Whether a value may stand here.
    fn may_be_value(&self) -> bool {
        matches!(self.before, Before::Opens | Before::Sign)
    }

    fn lift(&mut self, constant: Constant) -> Option<()> {
        let index = self.out.constants.len();
        if index >= CONSTANTS_MAX {
            return None;
        }
        self.out.text.push_str(&constant.placeholder(index));
        self.out.constants.push(constant);
        Some(())
    }

    fn number(&mut self) -> Option<()> {
        if !self.may_be_value() {
            return None;
        }
        self.before = Before::Value;
        let whole = self.run(|byte| byte.is_ascii_digit());
        let mut length = whole;
        if self.peek(whole) == b'.' {
            let rest = &self.sql.as_bytes()[self.at + whole + 1..];
            length += 1 + rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        }
        let next = self.peek(length);
        if is_word(next) || next == b'.' || length == whole + 1 {
            return None;
        }
        if !self.lifts {
            self.copy(length);
            return Some(());
        }
        let text = &self.sql[self.at..self.at + length];
        let constant = match length == whole {
            true => Constant::Integer(text.parse().ok()?),
            false => {
                let digits = text.replace('.', "");
                let digits = digits.trim_start_matches('0');
                let scale = length - whole - 1;
                let precision = digits.len().max(scale);
                if precision > 38 {
                    return None;
                }
                let number = if digits.is_empty() { 0 } else { digits.parse().ok()? };
                Constant::Decimal(number, precision as u8, scale as i8)
            }
        };
        self.at += length;
        self.lift(constant)
    }

    fn string(&mut self) -> Option<()> {
        if !self.may_be_value() {
            return None;
        }
        self.before = Before::Value;
        let mut end = self.at + 1;
        let bytes = self.sql.as_bytes();
        loop {
            match (bytes.get(end)?, bytes.get(end + 1)) {
                (b'\'', Some(b'\'')) => end += 2,
                (b'\'', _) => break,
                _ => end += 1,
            }
        }
        let length = end + 1 - self.at;
        if !self.lifts {
            self.copy(length);
            return Some(());
        }
        let text = self.sql[self.at + 1..end].replace("''", "'");
        self.at += length;
        self.lift(Constant::Text(text))
    }

    fn quoted(&mut self) -> Option<()> {
        let end = self.sql[self.at + 1..].find('"')? + 2;
        self.copy(end);
        self.before = Before::Word;
        // A doubled quote in a name is too rare to handle.
        (self.peek(0) != b'"').then_some(())
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(sql: &str) -> Option<String> {
        lex(sql).map(|lexed| lexed.text)
    }

    #[test]
    fn constants_are_lifted_where_they_are_not_part_of_the_plan() {
        let lexed = lex("select  a, 5 from t where id = 7 and b = 'it''s' limit 3;").unwrap();
        assert_eq!(lexed.text, "select a, 5 from t where id = $10000 and b = $30001 limit 3");
        assert_eq!(lexed.constants, [Constant::Integer(7), Constant::Text("it's".into())]);
        let lexed = lex("insert into t values (1, 2.50), (-3, $1)").unwrap();
        assert_eq!(lexed.text, "insert into t values ($10000, $203020001), (-$10002, $1)");
        assert_eq!(lexed.constants[1], Constant::Decimal(250, 3, 2));
        assert_eq!(Place::of("$203020001"), Some(Place::Decimal(1, 3, 2)));
        assert_eq!(Place::of("$10002"), Some(Place::Integer(2)));
        assert_eq!(Place::of("$30001"), Some(Place::Text(1)));
        let lexed = lex("select 1 from t where id = 2147483648").unwrap();
        assert_eq!(lexed.text, "select 1 from t where id = $40000");
        assert_eq!(Place::of("$40000"), Some(Place::Long(0)));
        assert_eq!(Place::of("$2"), Some(Place::Parameter(1)));
        assert_eq!(Place::of("$0"), None);
    }

    #[test]
    fn types_of_casts_have_no_constants() {
        let sql = "update t set n = 5::numeric(12, 2) where id = any($1::int[]) and k = $2::INTEGER and c = 1";
        let lexed = lex(sql).unwrap();
        assert_eq!(
            lexed.text,
            "update t set n = $10000::numeric(12, 2) where id = any($1::int[]) and k = $2::INTEGER and c = $10001"
        );
        assert_eq!(lexed.constants, [Constant::Integer(5), Constant::Integer(1)]);
    }

    #[test]
    fn what_is_not_certain_is_left_to_the_parser() {
        for sql in [
            "select 1 from t where a = e'x'",
            "select 1 from t where a = date '2020-01-01'",
            "select 1 from t where a = $$x$$",
            "select 1 from t where a = 1e5",
            "select 1 from t where a = 1 -- b",
            "select 1 from t where a = 'x' 'y'",
            "select 1 from t where a = (select 1)",
            "select a::\"T\" from t where a = 1",
            "select a::numeric(x) from t where a = 1",
            "select a : int from t where a = 1",
            "select 1 from t where a = 99999999999999999999",
            "delete from t where a = 1; delete from t",
            "select 'x",
            "with a as (select 1) select 1",
            "create table t (a int)",
            "select 1 from t where ä = 1",
        ] {
            assert_eq!(text(sql), None, "{sql}");
        }
    }
}
