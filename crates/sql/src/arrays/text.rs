//! The text of an array: `{1,NULL,"a b"}`.

use crate::error::Error;

/// The most characters of a text that an error shows.
const SHOWN: usize = 60;

/// A blank, as PostgreSQL defines it in such a text.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

fn malformed(text: &str) -> Error {
    let shown: String = text.chars().take(SHOWN).collect();
    Error::new(1722, "22P02", format!("malformed array literal: \"{shown}\""))
        .next("items with commas between them in braces: '{1,2,NULL}'")
}

/// An item being read.
#[derive(Default)]
struct Item {
    text: String,
    /// What follows the last letter that is not an unquoted blank is cut off.
    end: usize,
    is_quoted: bool,
    has_escape: bool,
}

impl Item {
    fn push(&mut self, c: char, is_certain: bool) {
        self.text.push(c);
        if is_certain || !is_blank(c) {
            self.end = self.text.len();
        }
    }

    fn finish(mut self) -> Option<Option<String>> {
        self.text.truncate(self.end);
        let is_bare = !self.is_quoted && !self.has_escape;
        match is_bare {
            true if self.text.is_empty() => None,
            true if self.text.eq_ignore_ascii_case("null") => Some(None),
            _ => Some(Some(self.text)),
        }
    }
}

/// The items of an array from its text; `None`: NULL.
///
/// # Errors
/// 22P02 it is not an array; 0A000 it is an array of arrays.
pub(crate) fn items_of(text: &str) -> Result<Vec<Option<String>>, Error> {
    let wrong = || malformed(text);
    let inner = text.trim_matches(is_blank).strip_prefix('{').ok_or_else(wrong)?;
    let inner = inner.strip_suffix('}').ok_or_else(wrong)?;
    let mut items = Vec::new();
    if inner.trim_matches(is_blank).is_empty() {
        return Ok(items);
    }
    let mut rest = inner.chars();
    loop {
        let (item, is_last) = item(&mut rest, text)?;
        items.push(item.finish().ok_or_else(wrong)?);
        if is_last {
            return Ok(items);
        }
    }
}

/// The next item, and whether it is the last.
fn item(rest: &mut std::str::Chars<'_>, whole: &str) -> Result<(Item, bool), Error> {
    let (mut item, mut is_open) = (Item::default(), false);
    loop {
        match rest.next() {
            None if is_open => return Err(malformed(whole)),
            None => return Ok((item, true)),
            Some('\\') => {
                let c = rest.next().ok_or_else(|| malformed(whole))?;
                if item.is_quoted && !is_open {
                    return Err(malformed(whole));
                }
                item.has_escape = true;
                item.push(c, true);
            }
            Some('"') if is_open => is_open = false,
            // Quotes must enclose the whole of an item.
            Some('"') if item.end > 0 || item.is_quoted => return Err(malformed(whole)),
            Some('"') => {
                (is_open, item.is_quoted) = (true, true);
                item.text.clear();
            }
            Some(c) if is_open => item.push(c, true),
            Some(',') => return Ok((item, false)),
            Some('{') if item.end == 0 && !item.is_quoted => {
                return Err(Error::not_yet("an array of arrays as a text")
                    .next("write ARRAY[ARRAY[1,2],ARRAY[3,4]]"));
            }
            Some('{' | '}') => return Err(malformed(whole)),
            Some(c) if is_blank(c) && item.end == 0 => {}
            Some(c) if item.is_quoted && !is_blank(c) => return Err(malformed(whole)),
            Some(c) => item.push(c, false),
        }
    }
}

/// Adds an item to the text of an array: in quotes if it would otherwise be read differently.
pub(super) fn quote(item: &[u8], out: &mut Vec<u8>) {
    let is_special =
        |byte: &u8| matches!(byte, b'{' | b'}' | b',' | b'"' | b'\\' | b' ' | b'\t'..=b'\r');
    let is_bare =
        !item.is_empty() && !item.iter().any(is_special) && !item.eq_ignore_ascii_case(b"null");
    if is_bare {
        out.extend_from_slice(item);
        return;
    }
    out.push(b'"');
    for byte in item {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_arrays_are_read_as_postgresql_reads_them() {
        let read = |text: &str| {
            let items = items_of(text).ok()?;
            Some(
                items.iter().map(|own| own.as_deref().unwrap_or("~")).collect::<Vec<_>>().join("|"),
            )
        };
        for (text, wanted) in [
            ("{}", Some("")),
            (" { } ", Some("")),
            ("{1,2}", Some("1|2")),
            ("{ 1 , NULL,null }", Some("1|~|~")),
            ("{\"NULL\",\"a b\", a b }", Some("NULL|a b|a b")),
            (r#"{"a\"b","\\",\n,"",\ }"#, Some("a\"b|\\|n|| ")),
            ("{1,,2}", None),
            ("{1,}", None),
            ("{\"a}", None),
            ("{\"a\"b}", None),
            ("{a\"b\"}", None),
            ("{a}b}", None),
            ("1,2", None),
            ("{{1},{2}}", None),
            ("{", None),
            ("}", None),
            ("{\\", None),
            ("{\\}", None),
        ] {
            assert_eq!(read(text).as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn items_are_quoted_where_they_must_be() {
        for (item, wanted) in [
            ("a", "a"),
            ("", "\"\""),
            ("Null", "\"Null\""),
            ("a b", "\"a b\""),
            ("a\"\\", r#""a\"\\""#),
        ] {
            let mut out = Vec::new();
            quote(item.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), wanted);
        }
    }
}
