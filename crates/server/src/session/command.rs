//! Statements that the session itself carries out: cursors and prepared statements.

use cellar_sql::Error;

/// Such a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Declare(Declare),
    Fetch {
        cursor: String,
        /// The most rows; `None`: all.
        most: Option<usize>,
        /// MOVE: they are only skipped.
        only_moves: bool,
    },
    /// `None`: all.
    CloseCursor(Option<String>),
    /// `None`: all.
    Deallocate(Option<String>),
    DiscardAll,
}

/// DECLARE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Declare {
    pub cursor: String,
    pub query: String,
    pub is_binary: bool,
    pub is_held: bool,
}

/// A word of a statement: its meaning, and whether it was written as a quoted name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    text: String,
    is_quoted: bool,
    /// Where what follows begins.
    end: usize,
}

impl Word {
    fn is(&self, word: &str) -> bool {
        !self.is_quoted && self.text == word
    }
}

struct Words<'a> {
    sql: &'a str,
    at: usize,
}

impl Words<'_> {
    fn peek(&self) -> Option<Word> {
        let rest = &self.sql[self.at..];
        let begin = self.at + (rest.len() - rest.trim_start().len());
        let rest = &self.sql[begin..];
        let first = rest.chars().next()?;
        if first == '"' {
            let mut text = String::new();
            let mut chars = rest.char_indices().skip(1).peekable();
            while let Some((at, c)) = chars.next() {
                if c != '"' {
                    text.push(c);
                } else if chars.next_if(|(_, next)| *next == '"').is_some() {
                    text.push('"');
                } else {
                    return Some(Word { text, is_quoted: true, end: begin + at + 1 });
                }
            }
            return None;
        }
        let is_part = |c: char| c == '_' || c == '$' || c.is_alphanumeric();
        let length = match is_part(first) {
            true => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let text = rest[..length].to_lowercase();
        Some(Word { text, is_quoted: false, end: begin + length })
    }

    fn next(&mut self) -> Option<Word> {
        let word = self.peek()?;
        self.at = word.end;
        Some(word)
    }

    /// Takes the next word if it is this one.
    fn take(&mut self, word: &str) -> bool {
        match self.peek() {
            Some(next) if next.is(word) => {
                self.at = next.end;
                true
            }
            _ => false,
        }
    }

    fn name(&mut self, what: &str) -> Result<String, Error> {
        match self.next() {
            Some(word)
                if word.is_quoted
                    || word.text.starts_with(|c: char| c.is_alphabetic() || c == '_') =>
            {
                Ok(word.text)
            }
            _ => Err(Error::syntax(format!("expected the name of {what}"))),
        }
    }

    fn end(&mut self) -> Result<(), Error> {
        match self.peek() {
            None => Ok(()),
            Some(word) => Err(Error::syntax(format!("expected the end, found: {}", word.text))),
        }
    }
}

/// The error for a cursor that is asked to go back.
fn only_forward() -> Error {
    Error::new(70303, "55000", "cursor can only scan forward")
        .next("declare it anew to begin again")
}

impl Command {
    /// The command in a statement with this tag; `None`: the engine runs it.
    ///
    /// # Errors
    /// 42601 it cannot be read; 0A000 it is none that there is.
    pub fn of(sql: &str, tag: &str) -> Result<Option<Command>, Error> {
        let mut words = Words { sql, at: 0 };
        words.next();
        let command = match tag {
            "DECLARE CURSOR" => Command::Declare(declare(&mut words)?),
            "FETCH" | "MOVE" => fetch(&mut words, tag == "MOVE")?,
            "CLOSE CURSOR" => {
                let cursor = if words.take("all") { None } else { Some(words.name("a cursor")?) };
                words.end()?;
                Command::CloseCursor(cursor)
            }
            "DEALLOCATE" => {
                words.take("prepare");
                let statement =
                    if words.take("all") { None } else { Some(words.name("a statement")?) };
                words.end()?;
                Command::Deallocate(statement)
            }
            "DISCARD ALL" => Command::DiscardAll,
            "LISTEN" | "NOTIFY" | "UNLISTEN" => {
                return Err(
                    Error::not_yet(tag).next("ask for what has changed: select .. where ..")
                );
            }
            _ => return Ok(None),
        };
        Ok(Some(command))
    }
}

/// The statement that an EXECUTE names.
pub(super) fn executed(sql: &str) -> Option<String> {
    let mut words = Words { sql, at: 0 };
    words.next();
    words.name("a statement").ok()
}

fn declare(words: &mut Words<'_>) -> Result<Declare, Error> {
    let cursor = words.name("a cursor")?;
    let mut is_binary = false;
    while !words.take("cursor") {
        match words.next() {
            Some(word) if word.is("binary") => is_binary = true,
            Some(word) if word.is("insensitive") || word.is("asensitive") => {}
            Some(word) if word.is("no") && words.take("scroll") => {}
            Some(word) if word.is("scroll") => {
                return Err(Error::not_yet("a cursor that goes back")
                    .next("declare .. no scroll cursor for select .."));
            }
            _ => return Err(Error::syntax("expected: CURSOR")),
        }
    }
    let is_held = words.take("with");
    if (is_held || words.take("without")) && !words.take("hold") {
        return Err(Error::syntax("expected: HOLD"));
    }
    if !words.take("for") {
        return Err(Error::syntax("expected: FOR and a query"));
    }
    let query = words.sql[words.at..].trim().to_owned();
    Ok(Declare { cursor, query, is_binary, is_held })
}

fn fetch(words: &mut Words<'_>, only_moves: bool) -> Result<Command, Error> {
    let most = count(words)?;
    if !words.take("from") {
        words.take("in");
    }
    let cursor = words.name("a cursor")?;
    words.end()?;
    Ok(Command::Fetch { cursor, most, only_moves })
}

/// How many rows; `None`: all.
fn count(words: &mut Words<'_>) -> Result<Option<usize>, Error> {
    let number = |words: &mut Words<'_>| -> Result<Option<usize>, Error> {
        let Some(word) = words.peek().filter(|word| !word.is_quoted) else { return Ok(None) };
        if word.is("-") {
            return Err(only_forward());
        }
        let Ok(number) = word.text.parse::<usize>() else { return Ok(None) };
        words.at = word.end;
        Ok(Some(number))
    };
    if words.take("all") {
        return Ok(None);
    }
    if words.take("next") {
        return Ok(Some(1));
    }
    for back in ["prior", "first", "last", "absolute", "backward"] {
        if words.take(back) {
            return Err(only_forward());
        }
    }
    let counts = words.take("forward") || words.take("relative");
    if counts && words.take("all") {
        return Ok(None);
    }
    match number(words)? {
        Some(0) => Err(Error::not_yet("FETCH 0").next("fetch next from ..")),
        Some(count) => Ok(Some(count)),
        None => Ok(Some(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sql: &str) -> Result<Option<Command>, &'static str> {
        Command::of(sql, &cellar_sql::tag::tag(sql)).map_err(|error| error.sqlstate)
    }

    fn fetch(cursor: &str, most: Option<usize>) -> Result<Option<Command>, &'static str> {
        Ok(Some(Command::Fetch { cursor: cursor.to_owned(), most, only_moves: false }))
    }

    #[test]
    fn cursors_are_read_as_postgresql_reads_them() {
        let declared = of("declare \"My C\" no scroll cursor with hold for select 1");
        let declare = Declare {
            cursor: "My C".to_owned(),
            query: "select 1".to_owned(),
            is_binary: false,
            is_held: true,
        };
        assert_eq!(declared, Ok(Some(Command::Declare(declare))));
        assert_eq!(of("fetch c"), fetch("c", Some(1)));
        assert_eq!(of("FETCH FORWARD 10 FROM C"), fetch("c", Some(10)));
        assert_eq!(of("fetch all in c"), fetch("c", None));
        assert_eq!(of("fetch 5 c"), fetch("c", Some(5)));
        assert_eq!(of("fetch backward 5 from c"), Err("55000"));
        assert_eq!(of("fetch -1 from c"), Err("55000"));
        assert_eq!(of("close all"), Ok(Some(Command::CloseCursor(None))));
        assert_eq!(
            of("deallocate \"_pg3_0\""),
            Ok(Some(Command::Deallocate(Some("_pg3_0".into()))))
        );
        assert_eq!(of("listen x"), Err("0A000"));
        assert_eq!(of("declare c for select 1"), Err("42601"));
        assert_eq!(of("select 1"), Ok(None));
    }
}
