//! JSON values: parsed with the position of errors, written as PostgreSQL shows jsonb, and searched.

use std::fmt::Write;

/// The deepest nesting: more would threaten the stack.
const DEPTH_MAX: usize = 512;

/// The most digits of a number whose exponent is expanded.
const DIGITS_MAX: i64 = 131_072;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// Its digits, without an exponent.
    Number(String),
    Text(String),
    Array(Vec<Json>),
    /// Shorter names first, each once.
    Object(Vec<(String, Json)>),
}

/// The error in a text, and its byte position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub at: usize,
    pub what: &'static str,
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

/// Parses a text.
///
/// # Errors
/// It is not JSON.
pub(crate) fn read(text: &str) -> Result<Json, Wrong> {
    let mut reader = Reader { text: text.as_bytes(), at: 0 };
    let value = reader.value(0)?;
    reader.blanks();
    match reader.at < reader.text.len() {
        true => Err(reader.wrong("the end of the text is expected")),
        false => Ok(value),
    }
}

impl Reader<'_> {
    fn wrong(&self, what: &'static str) -> Wrong {
        Wrong { at: self.at, what }
    }

    fn next(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.next(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn accept(&mut self, byte: u8) -> bool {
        self.blanks();
        let is = self.next() == Some(byte);
        self.at += usize::from(is);
        is
    }

    fn word(&mut self, word: &str, value: Json) -> Result<Json, Wrong> {
        match self.text[self.at..].starts_with(word.as_bytes()) {
            true => {
                self.at += word.len();
                Ok(value)
            }
            false => Err(self.wrong("no value begins so")),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json, Wrong> {
        if depth > DEPTH_MAX {
            return Err(self.wrong("it nests too deep"));
        }
        self.blanks();
        match self.next() {
            None => Err(self.wrong("a value is expected")),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Json::Text(self.string()?)),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => Err(self.wrong("no value begins so")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, Wrong> {
        self.at += 1;
        let mut members = Vec::new();
        if self.accept(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.blanks();
            if self.next() != Some(b'"') {
                return Err(self.wrong("a name in quotes is expected"));
            }
            let name = self.string()?;
            if !self.accept(b':') {
                return Err(self.wrong("a colon is expected"));
            }
            members.push((name, self.value(depth + 1)?));
            if self.accept(b'}') {
                return Ok(object(members));
            }
            if !self.accept(b',') {
                return Err(self.wrong("a comma or } is expected"));
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json, Wrong> {
        self.at += 1;
        let mut items = Vec::new();
        if self.accept(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.accept(b']') {
                return Ok(Json::Array(items));
            }
            if !self.accept(b',') {
                return Err(self.wrong("a comma or ] is expected"));
            }
        }
    }

    fn string(&mut self) -> Result<String, Wrong> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            match self.next() {
                None => return Err(self.wrong("the text ends inside of quotes")),
                Some(b'"') => break,
                Some(b'\\') => {
                    self.at += 1;
                    let mut buffer = [0; 4];
                    out.extend_from_slice(self.escaped()?.encode_utf8(&mut buffer).as_bytes());
                }
                Some(byte) if byte < b' ' => {
                    return Err(self.wrong("a control character must be escaped"));
                }
                Some(byte) => {
                    out.push(byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        // These bytes in a quoted text are never part of a multibyte character.
        String::from_utf8(out).map_err(|_| self.wrong("its letters are not UTF-8"))
    }

    fn escaped(&mut self) -> Result<char, Wrong> {
        let escape = self.next().ok_or_else(|| self.wrong("the text ends inside of quotes"))?;
        let plain = match escape {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return Err(self.wrong("there is no such escape")),
        };
        self.at += 1;
        Ok(plain)
    }

    fn unicode(&mut self) -> Result<char, Wrong> {
        let first = self.hex()?;
        if first == 0 {
            return Err(self.wrong("\\u0000 cannot be converted to text"));
        }
        if let Some(char) = char::from_u32(first) {
            return Ok(char);
        }
        let is_high = (0xD800..0xDC00).contains(&first);
        if !is_high || !self.text[self.at..].starts_with(b"\\u") {
            return Err(self.wrong("half of a surrogate pair"));
        }
        self.at += 1;
        let second = self.hex()?;
        let low = second.checked_sub(0xDC00).filter(|low| *low < 0x400);
        let char = low.and_then(|low| char::from_u32(0x10000 + ((first - 0xD800) << 10) + low));
        char.ok_or_else(|| self.wrong("half of a surrogate pair"))
    }

    /// Four digits after the `u` at the current position.
    fn hex(&mut self) -> Result<u32, Wrong> {
        let digits = self.text.get(self.at + 1..self.at + 5);
        let digits = digits.filter(|own| own.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|own| std::str::from_utf8(own).ok());
        let value = digits.and_then(|own| u32::from_str_radix(own, 16).ok());
        let value = value.ok_or_else(|| self.wrong("four hexadecimal digits are expected"))?;
        self.at += 5;
        Ok(value)
    }

    fn digits(&mut self) -> Result<&str, Wrong> {
        let from = self.at;
        while matches!(self.next(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        match self.at == from {
            true => Err(self.wrong("a digit is expected")),
            false => Ok(std::str::from_utf8(&self.text[from..self.at]).unwrap_or_default()),
        }
    }

    fn number(&mut self) -> Result<Json, Wrong> {
        let begin = self.at;
        let is_negative = self.next() == Some(b'-');
        self.at += usize::from(is_negative);
        let whole = self.digits()?.to_owned();
        if whole.len() > 1 && whole.starts_with('0') {
            return Err(Wrong { at: begin, what: "a number does not begin with 0" });
        }
        let mut part = String::new();
        if self.next() == Some(b'.') {
            self.at += 1;
            self.digits()?.clone_into(&mut part);
        }
        let mut exponent = 0;
        if matches!(self.next(), Some(b'e' | b'E')) {
            self.at += 1;
            let is_down = self.next() == Some(b'-');
            self.at += usize::from(matches!(self.next(), Some(b'-' | b'+')));
            let digits = self.digits()?.parse::<i64>().unwrap_or(i64::MAX);
            if digits > DIGITS_MAX {
                return Err(Wrong { at: begin, what: "the number is too large" });
            }
            exponent = if is_down { -digits } else { digits };
        }
        if matches!(self.next(), Some(byte) if byte.is_ascii_alphanumeric() || byte == b'.') {
            return Err(self.wrong("a number ends otherwise"));
        }
        Ok(Json::Number(written_out(is_negative, &whole, &part, exponent)))
    }
}

/// A number without an exponent.
fn written_out(is_negative: bool, whole: &str, part: &str, exponent: i64) -> String {
    let mut digits = format!("{whole}{part}");
    let mut point = whole.len() as i64 + exponent;
    if point <= 0 {
        digits = format!("{}{digits}", "0".repeat((1 - point) as usize));
        point = 1;
    }
    let point = point as usize;
    if digits.len() < point {
        digits.push_str(&"0".repeat(point - digits.len()));
    }
    let (whole, part) = digits.split_at(point);
    let whole = whole.trim_start_matches('0');
    let is_zero = whole.is_empty() && part.bytes().all(|digit| digit == b'0');
    let sign = if is_negative && !is_zero { "-" } else { "" };
    let whole = if whole.is_empty() { "0" } else { whole };
    match part.is_empty() {
        true => format!("{sign}{whole}"),
        false => format!("{sign}{whole}.{part}"),
    }
}

/// An object: if a name occurs twice, the last value counts.
pub(crate) fn object(members: Vec<(String, Json)>) -> Json {
    let mut kept: Vec<(String, Json)> = members;
    // The sort keeps the order of members with the same name.
    kept.sort_by(|(one, _), (other, _)| (one.len(), one).cmp(&(other.len(), other)));
    let mut made: Vec<(String, Json)> = Vec::with_capacity(kept.len());
    for (name, value) in kept {
        match made.last_mut() {
            Some(last) if last.0 == name => last.1 = value,
            _ => made.push((name, value)),
        }
    }
    Json::Object(made)
}

/// Adds a text in quotes.
pub(super) fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// An index from 0, or from the end if negative; `None`: it is out of range.
fn place(at: i64, count: usize) -> Option<usize> {
    let at = match at < 0 {
        true => count.checked_sub(usize::try_from(at.unsigned_abs()).ok()?)?,
        false => usize::try_from(at).ok()?,
    };
    (at < count).then_some(at)
}

impl Json {
    fn write(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Number(digits) => out.push_str(digits),
            Json::Text(text) => quoted(text, out),
            Json::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { ", " });
                    item.write(out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (at, (name, value)) in members.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { ", " });
                    quoted(name, out);
                    out.push_str(": ");
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// As PostgreSQL shows it.
    pub fn shown(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    /// As `->>` returns it: a text without its quotes, NULL for null.
    pub fn text(&self) -> Option<String> {
        match self {
            Json::Null => None,
            Json::Text(text) => Some(text.clone()),
            other => Some(other.shown()),
        }
    }

    /// The type of the value.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Number(_) => "number",
            Json::Text(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        }
    }

    /// The value of a member.
    pub fn member(&self, name: &str) -> Option<&Json> {
        let Json::Object(members) = self else { return None };
        members.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// The item at an index: from 0, or from the end if negative.
    pub fn item(&self, at: i64) -> Option<&Json> {
        let Json::Array(items) = self else { return None };
        items.get(place(at, items.len())?)
    }

    /// The value at a path of names and indexes.
    pub fn at_path<'a>(&'a self, path: &[String]) -> Option<&'a Json> {
        path.iter().try_fold(self, |value, step| match value {
            Json::Object(_) => value.member(step),
            Json::Array(_) => value.item(step.trim().parse().ok()?),
            _ => None,
        })
    }

    /// Whether there is a member of that name, or an item that is that text.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Json::Object(_) => self.member(name).is_some(),
            Json::Array(items) => items.iter().any(|own| matches!(own, Json::Text(t) if t == name)),
            Json::Text(text) => text == name,
            _ => false,
        }
    }

    /// Whether this value contains another one.
    pub fn contains(&self, other: &Json) -> bool {
        match (self, other) {
            (Json::Object(_), Json::Object(wanted)) => wanted
                .iter()
                .all(|(name, value)| self.member(name).is_some_and(|own| own.contains(value))),
            (Json::Array(own), Json::Array(wanted)) => {
                wanted.iter().all(|item| own.iter().any(|own| own.contains(item)))
            }
            (Json::Array(own), item) if !matches!(item, Json::Object(_)) => {
                own.iter().any(|own| own.is_same(item))
            }
            (own, other) => own.is_same(other),
        }
    }

    /// Whether it is equal by value: trailing zeros of numbers do not count.
    pub fn is_same(&self, other: &Json) -> bool {
        fn plain(digits: &str) -> &str {
            match digits.contains('.') {
                true => digits.trim_end_matches('0').trim_end_matches('.'),
                false => digits,
            }
        }
        match (self, other) {
            (Json::Number(one), Json::Number(other)) => plain(one) == plain(other),
            (one, other) => one == other,
        }
    }

    /// Sets the value at a path; `creates`: even if there is none yet.
    pub fn set(&mut self, path: &[String], with: Json, creates: bool) {
        let Some((step, rest)) = path.split_first() else { return };
        match self {
            Json::Object(members) => match members.iter_mut().find(|(name, _)| name == step) {
                Some((_, value)) if rest.is_empty() => *value = with,
                Some((_, value)) => value.set(rest, with, creates),
                None if rest.is_empty() && creates => {
                    members.push((step.clone(), with));
                    *self = object(std::mem::take(members));
                }
                None => {}
            },
            Json::Array(items) => {
                let Ok(at) = step.trim().parse::<i64>() else { return };
                match place(at, items.len()) {
                    Some(at) if rest.is_empty() => items[at] = with,
                    Some(at) => items[at].set(rest, with, creates),
                    None if rest.is_empty() && creates && at < 0 => items.insert(0, with),
                    None if rest.is_empty() && creates => items.push(with),
                    None => {}
                }
            }
            _ => {}
        }
    }

    /// Removes the member of a name, or the items that are that text.
    pub fn remove_name(&mut self, name: &str) {
        match self {
            Json::Object(members) => members.retain(|(own, _)| own != name),
            Json::Array(items) => items.retain(|own| !matches!(own, Json::Text(t) if t == name)),
            _ => {}
        }
    }

    /// Removes the item at an index.
    pub fn remove_at(&mut self, at: i64) {
        if let Json::Array(items) = self
            && let Some(at) = place(at, items.len())
        {
            items.remove(at);
        }
    }

    /// Removes the value at a path.
    pub fn remove_path(&mut self, path: &[String]) {
        let Some((step, rest)) = path.split_first() else { return };
        match self {
            Json::Object(_) if rest.is_empty() => self.remove_name(step),
            Json::Object(members) => {
                if let Some((_, value)) = members.iter_mut().find(|(name, _)| name == step) {
                    value.remove_path(rest);
                }
            }
            Json::Array(items) => {
                let Ok(at) = step.trim().parse::<i64>() else { return };
                match place(at, items.len()) {
                    Some(at) if rest.is_empty() => {
                        items.remove(at);
                    }
                    Some(at) => items[at].remove_path(rest),
                    None => {}
                }
            }
            _ => {}
        }
    }

    /// Removes members that are null.
    pub fn strip(&mut self) {
        match self {
            Json::Object(members) => {
                members.retain(|(_, value)| *value != Json::Null);
                members.iter_mut().for_each(|(_, value)| value.strip());
            }
            Json::Array(items) => items.iter_mut().for_each(Json::strip),
            _ => {}
        }
    }

    /// Both, concatenated as by `||`.
    pub fn with(self, other: Json) -> Json {
        match (self, other) {
            (Json::Object(mut own), Json::Object(more)) => {
                own.extend(more);
                object(own)
            }
            (own, other) => {
                let items = |value| match value {
                    Json::Array(items) => items,
                    other => vec![other],
                };
                let mut all = items(own);
                all.extend(items(other));
                Json::Array(all)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_postgresql_shows_them() {
        for (text, wanted) in [
            (r#"{"bb":1,"a":2,"bb":3}"#, r#"{"a": 2, "bb": 3}"#),
            (r#" [1, 2.50 ,-0, 1e3,1.5e-3, 12.50e1] "#, "[1, 2.50, 0, 1000, 0.0015, 125.0]"),
            (r#""aA\n\/\ud83d\ude00""#, "\"aA\\n/😀\""),
            ("{}", "{}"),
            ("[]", "[]"),
            ("[null,true,false]", "[null, true, false]"),
        ] {
            assert_eq!(read(text).unwrap().shown(), wanted, "{text}");
        }
        for (text, at) in [
            ("", 0),
            ("{\"a\":}", 5),
            ("[1,]", 3),
            ("{a:1}", 1),
            ("01", 0),
            ("1x", 1),
            ("\"a", 2),
            ("nul", 0),
            ("[1] 2", 4),
            ("\"\\ud800\"", 7),
        ] {
            assert_eq!(read(text).unwrap_err().at, at, "{text}");
        }
        assert!(read(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn values_contain_each_other_as_in_postgresql() {
        for (own, other, wanted) in [
            (r#"{"a":1,"b":2}"#, r#"{"b":2}"#, true),
            (r#"{"a":{"b":[1,2,3]}}"#, r#"{"a":{"b":[3,1]}}"#, true),
            ("[1,2]", "1", true),
            ("[1,2]", "[1.0]", true),
            ("1", "[1]", false),
            (r#"{"a":1}"#, r#"{"a":2}"#, false),
        ] {
            let (own, other) = (read(own).unwrap(), read(other).unwrap());
            assert_eq!(own.contains(&other), wanted, "{own:?} {other:?}");
        }
    }
}
