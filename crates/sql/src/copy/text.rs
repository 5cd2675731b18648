//! Escapes of PostgreSQL's text format: the characters after a backslash.

/// Adds a field, unescaped.
pub(super) fn unescaped(raw: &[u8], out: &mut Vec<u8>) {
    let mut at = 0;
    while at < raw.len() {
        let length = raw[at..].iter().position(|byte| *byte == b'\\').unwrap_or(raw.len() - at);
        out.extend_from_slice(&raw[at..at + length]);
        at += length + 1;
        let Some(&letter) = raw.get(at) else {
            // A backslash at the very end stands for itself.
            if at == raw.len() {
                out.push(b'\\');
            }
            return;
        };
        at += 1;
        match letter {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'0'..=b'7' => {
                let digits = digits(&raw[at - 1..], 3, 8);
                at += digits.1 - 1;
                // As in PostgreSQL, the last byte of a larger number.
                out.push((digits.0 & 0xFF) as u8);
            }
            b'x' => match digits(&raw[at..], 2, 16) {
                (_, 0) => out.push(b'x'),
                (value, length) => {
                    at += length;
                    out.push((value & 0xFF) as u8);
                }
            },
            other => out.push(other),
        }
    }
}

/// The number at the start of a text, of at most so many digits, and how many there are.
fn digits(text: &[u8], most: usize, base: u32) -> (u32, usize) {
    let found = text.iter().take(most).map_while(|byte| char::from(*byte).to_digit(base));
    found.fold((0, 0), |(value, length), digit| (value * base + digit, length + 1))
}

/// Adds a value, escaped for the text format.
pub(super) fn escape(value: &[u8], delimiter: u8, out: &mut Vec<u8>) {
    let is_plain = |byte: u8| !matches!(byte, 8..=13 | b'\\') && byte != delimiter;
    let mut at = 0;
    while at < value.len() {
        let rest = &value[at..];
        let length = rest.iter().position(|byte| !is_plain(*byte)).unwrap_or(rest.len());
        out.extend_from_slice(&rest[..length]);
        at += length;
        let Some(&byte) = value.get(at) else { return };
        out.push(b'\\');
        out.push(match byte {
            8 => b'b',
            9 => b't',
            10 => b'n',
            11 => b'v',
            12 => b'f',
            13 => b'r',
            other => other,
        });
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_behind_backslashes_are_postgresqls() {
        let read = |raw: &[u8]| {
            let mut out = Vec::new();
            unescaped(raw, &mut out);
            out
        };
        assert_eq!(read(b"a\\tb\\\\c\\nd"), b"a\tb\\c\nd");
        assert_eq!(read(b"\\101\\x42\\x\\q\\7z"), b"ABxq\x07z");
        assert_eq!(read(b"end\\"), b"end\\");
        let mut out = Vec::new();
        escape(b"a\tb\\c\nd|e", b'|', &mut out);
        assert_eq!(out, b"a\\tb\\\\c\\nd\\|e");
        assert_eq!(read(&out), b"a\tb\\c\nd|e");
    }
}
