//! Where quotes and comments of a text end.

/// Constructs that a text may leave unclosed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// A `'` quote.
    Quote,
    /// A `"` name.
    Name,
    /// A `/*` comment.
    Comment,
    /// A `$tag$` quote.
    Dollar,
}

/// What a token is.
pub(crate) enum Kind {
    Code,
    Comment,
    Semicolon,
}

/// A quote or a comment as a whole, or one character.
pub(crate) struct Token {
    pub kind: Kind,
    /// In bytes.
    pub length: usize,
    /// It does not end within the text.
    pub open: Option<Open>,
}

/// The token at the start of `rest`, which `prefix` stands before.
pub(crate) fn token_length(rest: &str, prefix: &str) -> Token {
    let before = prefix.chars().next_back();
    let bytes = rest.as_bytes();
    let quoted = |length: Option<usize>, open: Open| Token {
        kind: Kind::Code,
        length: length.unwrap_or(rest.len()),
        open: length.is_none().then_some(open),
    };
    match bytes[0] {
        b';' => Token { kind: Kind::Semicolon, length: 1, open: None },
        b'\'' => {
            // In E'..' a backslash escapes; in a plain quote it does not.
            let escapes = matches!(before, Some('e' | 'E'))
                && !prefix.chars().rev().nth(1).is_some_and(is_name_part);
            quoted(quote_length(bytes, b'\'', escapes), Open::Quote)
        }
        b'"' => quoted(quote_length(bytes, b'"', false), Open::Name),
        b'-' if bytes.get(1) == Some(&b'-') => {
            let length = rest.find('\n').unwrap_or(rest.len());
            Token { kind: Kind::Comment, length, open: None }
        }
        b'/' if bytes.get(1) == Some(&b'*') => {
            let length = comment_length(bytes);
            let open = length.is_none().then_some(Open::Comment);
            Token { kind: Kind::Comment, length: length.unwrap_or(rest.len()), open }
        }
        b'$' if !before.is_some_and(is_name_part) => match dollar_tag(rest) {
            Some(tag) => {
                let body = &rest[tag.len()..];
                quoted(body.find(tag).map(|at| at + 2 * tag.len()), Open::Dollar)
            }
            None => Token { kind: Kind::Code, length: 1, open: None },
        },
        _ => {
            let length = rest.chars().next().map_or(1, char::len_utf8);
            Token { kind: Kind::Code, length, open: None }
        }
    }
}

fn is_name_part(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '#')
}

fn quote_length(bytes: &[u8], quote: u8, escapes: bool) -> Option<usize> {
    let mut at = 1;
    while at < bytes.len() {
        if escapes && bytes[at] == b'\\' {
            at += 2;
        } else if bytes[at] != quote {
            at += 1;
        } else if bytes.get(at + 1) == Some(&quote) {
            at += 2;
        } else {
            return Some(at + 1);
        }
    }
    None
}

fn comment_length(bytes: &[u8]) -> Option<usize> {
    let mut depth = 0;
    let mut at = 0;
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => {
                depth += 1;
                at += 2;
            }
            b"*/" => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => at += 1,
        }
    }
    None
}

/// `$$` or `$name$` at the start of `rest`.
fn dollar_tag(rest: &str) -> Option<&str> {
    let end = rest[1..].find('$')? + 1;
    let name = &rest[1..end];
    let legal = name.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    legal.then(|| &rest[..=end])
}
