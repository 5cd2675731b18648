//! Quoting for a POSIX shell: every command offered to people can be pasted, whatever blanks and quotes
//! its paths have.

use std::path::Path;

/// Characters besides letters and digits that mean nothing special to any shell.
const PLAIN: &str = "_-./:+,@%=";

/// `word` as a shell reads it back: as it is where that is safe, else in single quotes.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || PLAIN.contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// `path` as a shell reads it back. One that begins with `-` would be taken for an option.
pub fn path(path: &Path) -> String {
    let text = path.to_string_lossy();
    match text.starts_with('-') {
        true => quoted(&format!("./{text}")),
        false => quoted(&text),
    }
}

/// The end of the command that `text` begins with: the end of `text`, or the first `;`, `,` or `)` that
/// stands outside quotes and ends a word.
pub fn end_of_command(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (None, '\\') => drop(chars.next()),
            (None, '\'' | '"') => quote = Some(c),
            (Some('"'), '\\') => drop(chars.next()),
            (Some(open), _) if open == c => quote = None,
            (None, ';' | ',' | ')') if chars.peek().is_none_or(|(_, next)| *next == ' ') => {
                return Some(at);
            }
            (None, '\n') => return Some(at),
            _ => {}
        }
    }
    quote.is_none().then_some(text.len())
}

/// The words of a line as a shell cuts it: at blanks outside quotes. Nothing is expanded. `None`: a quote
/// is not closed, or a backslash ends the line.
pub fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut chars = line.chars();
    let mut quote = None;
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (Some(open), _) if open == c => quote = None,
            (None, '\\') => word.get_or_insert_default().push(chars.next()?),
            (Some('"'), '\\') => {
                let next = chars.next()?;
                let word = word.get_or_insert_default();
                // A backslash before any other character stands for itself.
                word.extend((!matches!(next, '"' | '\\' | '$' | '`')).then_some('\\'));
                word.push(next);
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_into_the_words_that_a_shell_makes_of_it() {
        for line in [
            "ls -l +DATA/a",
            "  cp 'my file'  +D/x ",
            r#"a "b \"c\" \d" e"#,
            r"a\ b '' c",
            "'it'\\''s'",
        ] {
            let command = format!("for w in {line}; do printf '%s\\n' \"$w\"; done");
            let read = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
            let read = String::from_utf8(read.stdout).unwrap();
            assert_eq!(words(line).unwrap(), read.lines().collect::<Vec<_>>(), "{line}");
        }
        assert_eq!((words("a 'b"), words("a \\"), words(" ")), (None, None, Some(vec![])));
    }

    #[test]
    fn what_is_quoted_is_read_back_by_a_shell() {
        for word in ["a", "", "my db", "it's", "a;b", "$HOME", "`x`", "~", "a\nb", "*", "\\", "é"]
        {
            let command = format!("printf %s {}", quoted(word));
            let read = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
            assert_eq!(String::from_utf8(read.stdout).unwrap(), word, "{command}");
        }
        assert_eq!(quoted("/dev/disk/by-id/x:1"), "/dev/disk/by-id/x:1");
        assert_eq!(path(Path::new("-d")), "./-d");
    }

    #[test]
    fn a_command_ends_at_punctuation_outside_quotes() {
        let end = |text: &str| end_of_command(text).map(|at| text[..at].to_owned());
        for (text, command) in [
            ("cellar status d", Some("cellar status d")),
            ("cellar status d; dmesg", Some("cellar status d")),
            ("cellar sql 'a; b' -c 'x, y', then", Some("cellar sql 'a; b' -c 'x, y'")),
            ("cellar sql 'it'\\''s' -c x) y", Some("cellar sql 'it'\\''s' -c x")),
            ("cellar disks --disks a,b; x", Some("cellar disks --disks a,b")),
            ("cellar status says what's wrong", None),
        ] {
            assert_eq!(end(text).as_deref(), command, "{text}");
        }
    }
}
