//! SQL's LIKE: `%` stands for any characters or none, `_` for one character of UTF-8, all else for
//! itself. What follows the escape character stands for itself as well; one that nothing follows
//! stands for itself. (So it is in arrow-rs, and thus in DataFusion.)
//!
//! Strings that are not UTF-8 may be matched too: a byte that cannot begin a character belongs to
//! the one before it.

use memchr::memmem::Finder;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Like {
    strategy: Strategy,
    beginning: Vec<u8>,
}

/// How a pattern is matched.
#[derive(Clone, Debug)]
enum Strategy {
    Exact,
    Begins,
    Ends(Vec<u8>),
    Contains(Box<Finder<'static>>),
    /// Without `%`.
    One(Run),
    /// The parts between `%`: a run at the beginning, some in between, one at the end.
    Runs(Run, Vec<Between>, Run),
}

/// Texts, and numbers of single characters, one behind the other.
#[derive(Clone, Debug, Default)]
struct Run(Vec<Piece>);

/// A run between two `%`.
#[derive(Clone, Debug)]
struct Between {
    /// Single characters that it begins with.
    any: usize,
    /// What finds the text behind them, if there is one, and what follows that.
    rest: Option<(Box<Finder<'static>>, Run)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Any(usize),
}

impl Like {
    /// Compiles a pattern whose escape character is a backslash.
    pub fn new(pattern: &str) -> Like {
        Like::with_escape(pattern, Some('\\'))
    }

    /// Compiles a pattern that has another escape character, or none.
    pub fn with_escape(pattern: &str, escape: Option<char>) -> Like {
        let mut runs = vec![Run::default()];
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            let last = runs.last_mut().expect("there is one from the start");
            match character {
                own if Some(own) == escape => last.text(characters.next().unwrap_or(own)),
                '%' => runs.push(Run::default()),
                '_' => last.any(),
                own => last.text(own),
            }
        }
        let beginning = match runs[0].0.first() {
            Some(Piece::Text(text)) => text.clone(),
            _ => Vec::new(),
        };
        Like { strategy: Strategy::of(runs), beginning }
    }

    /// Whether a string matches.
    pub fn matches(&self, string: &[u8]) -> bool {
        match &self.strategy {
            Strategy::Exact => string == self.beginning,
            Strategy::Begins => string.starts_with(&self.beginning),
            Strategy::Ends(end) => string.ends_with(end),
            Strategy::Contains(finder) => finder.find(string).is_some(),
            Strategy::One(run) => run.after(string) == Some(string.len()),
            Strategy::Runs(first, between, last) => {
                let Some(mut at) = first.after(string) else { return false };
                for run in between {
                    match run.find(&string[at..]) {
                        Some(end) => at += end,
                        None => return false,
                    }
                }
                last.ends(&string[at..])
            }
        }
    }

    /// The prefix of every string that matches.
    pub fn beginning(&self) -> &[u8] {
        &self.beginning
    }

    /// Whether every string with that prefix matches: the pattern is a text and `%`.
    pub fn is_beginning(&self) -> bool {
        matches!(self.strategy, Strategy::Begins)
    }

    /// Whether only the prefix itself matches: the pattern is a text alone.
    pub fn is_exact(&self) -> bool {
        matches!(self.strategy, Strategy::Exact)
    }
}

impl Strategy {
    /// The way for the runs of a pattern.
    fn of(mut runs: Vec<Run>) -> Strategy {
        let last = runs.pop().expect("there is one from the start");
        if runs.is_empty() {
            return if let [] | [Piece::Text(_)] = last.0[..] {
                Strategy::Exact
            } else {
                Strategy::One(last)
            };
        }
        let first = runs.remove(0);
        // `%%` is no more than `%`.
        runs.retain(|run| !run.0.is_empty());
        match (&first.0[..], &runs[..], &last.0[..]) {
            ([] | [Piece::Text(_)], [], []) => Strategy::Begins,
            ([], [], [Piece::Text(end)]) => Strategy::Ends(end.clone()),
            ([], [Run(run)], []) if let [Piece::Text(text)] = &run[..] => {
                Strategy::Contains(finder(text))
            }
            _ => Strategy::Runs(first, runs.into_iter().map(Between::of).collect(), last),
        }
    }
}

fn finder(text: &[u8]) -> Box<Finder<'static>> {
    Box::new(Finder::new(text).into_owned())
}

impl Between {
    fn of(run: Run) -> Between {
        let mut pieces = run.0.into_iter().peekable();
        let any = match pieces.peek() {
            Some(Piece::Any(count)) => *count,
            _ => 0,
        };
        // Two pieces of a kind are never side by side.
        let text = pieces.find_map(|piece| match piece {
            Piece::Text(text) => Some(finder(&text)),
            Piece::Any(_) => None,
        });
        Between { any, rest: text.map(|finder| (finder, Run(pieces.collect()))) }
    }

    /// The rest of a string after the first occurrence of this.
    fn find(&self, string: &[u8]) -> Option<usize> {
        let mut at = skip(string, self.any)?;
        let Some((finder, run)) = &self.rest else { return Some(at) };
        loop {
            let found = at + finder.find(&string[at..])?;
            let behind = found + finder.needle().len();
            if let Some(end) = run.after(&string[behind..]) {
                return Some(behind + end);
            }
            at = found + 1;
        }
    }
}

impl Run {
    /// Adds a character that stands for itself.
    fn text(&mut self, character: char) {
        let mut bytes = [0; 4];
        let bytes = character.encode_utf8(&mut bytes).as_bytes();
        match self.0.last_mut() {
            Some(Piece::Text(text)) => text.extend_from_slice(bytes),
            _ => self.0.push(Piece::Text(bytes.to_vec())),
        }
    }

    /// Adds a character that stands for any.
    fn any(&mut self) {
        match self.0.last_mut() {
            Some(Piece::Any(count)) => *count += 1,
            _ => self.0.push(Piece::Any(1)),
        }
    }

    /// The rest of a string after this prefix.
    fn after(&self, string: &[u8]) -> Option<usize> {
        let mut at = 0;
        for piece in &self.0 {
            match piece {
                Piece::Text(text) if string[at..].starts_with(text) => at += text.len(),
                Piece::Text(_) => return None,
                Piece::Any(count) => at += skip(&string[at..], *count)?,
            }
        }
        Some(at)
    }

    /// Whether a string ends with this.
    fn ends(&self, string: &[u8]) -> bool {
        let mut left = string;
        for piece in self.0.iter().rev() {
            match piece {
                Piece::Text(text) => match left.strip_suffix(&text[..]) {
                    Some(rest) => left = rest,
                    None => return false,
                },
                Piece::Any(count) => {
                    for _ in 0..*count {
                        let Some(start) = last_character(left) else { return false };
                        left = &left[..start];
                    }
                }
            }
        }
        true
    }
}

/// Whether a byte is not the first of a character.
fn goes_on(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

/// Where a string goes on behind so many characters; `None`: it has fewer.
fn skip(string: &[u8], count: usize) -> Option<usize> {
    let mut at = 0;
    for _ in 0..count {
        let (_, rest) = string[at..].split_first()?;
        at += 1 + rest.iter().take_while(|byte| goes_on(**byte)).count();
    }
    Some(at)
}

/// Where the last character of a string begins; `None`: it has none.
fn last_character(string: &[u8]) -> Option<usize> {
    let (_, rest) = string.split_last()?;
    let more = string.iter().rev().take_while(|byte| goes_on(**byte)).count();
    Some(rest.len().saturating_sub(more))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One character of a pattern.
    #[derive(Clone, Copy)]
    enum Token {
        Many,
        Any,
        Own(char),
    }

    fn tokens(pattern: &str, escape: Option<char>) -> Vec<Token> {
        let mut tokens = Vec::new();
        let mut characters = pattern.chars().peekable();
        while let Some(character) = characters.next() {
            tokens.push(match character {
                own if Some(own) == escape => Token::Own(characters.next().unwrap_or(own)),
                '%' => Token::Many,
                '_' => Token::Any,
                own => Token::Own(own),
            });
        }
        tokens
    }

    fn naive(tokens: &[Token], string: &[char]) -> bool {
        match (tokens, string) {
            ([], _) => string.is_empty(),
            ([Token::Many, rest @ ..], _) => {
                (0..=string.len()).any(|from| naive(rest, &string[from..]))
            }
            ([Token::Any, tokens @ ..], [_, string @ ..]) => naive(tokens, string),
            ([Token::Own(own), tokens @ ..], [first, string @ ..]) => {
                own == first && naive(tokens, string)
            }
            _ => false,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        #[test]
        fn it_matches_what_a_naive_one_does(
            pattern in r"[ab\u{e4}\u{20ac}%%__\\+]{0,7}",
            strings in prop::collection::vec("[ab\u{e4}\u{20ac}\n\\\\%]{0,9}", 1..20),
            escape in prop::sample::select(vec![Some('\\'), Some('+'), Some('\u{e4}'), None]),
        ) {
            let like = Like::with_escape(&pattern, escape);
            let tokens = tokens(&pattern, escape);
            for string in strings {
                let matches = naive(&tokens, &string.chars().collect::<Vec<_>>());
                prop_assert_eq!(like.matches(string.as_bytes()), matches, "{}", string);
                let begins = string.as_bytes().starts_with(like.beginning());
                prop_assert!(begins || !matches, "{} is pruned by its beginning", string);
                prop_assert!(!like.is_beginning() || matches == begins);
                let is_it = string.as_bytes() == like.beginning();
                prop_assert!(!like.is_exact() || matches == is_it);
            }
        }

        #[test]
        fn no_bytes_make_it_panic(
            pattern in "[a\u{e4}%_]{0,6}",
            string in prop::collection::vec(
                prop_oneof![Just(b'a'), Just(0xc3), Just(0xa4), any::<u8>()], 0..12
            ),
        ) {
            let like = Like::new(&pattern);
            prop_assert!(!like.matches(&string) || string.starts_with(like.beginning()));
        }
    }

    #[test]
    fn patterns_match_as_they_do_in_arrow() {
        let cases = [
            (r"\%", "%", true),
            (r"\%", r"\%", false),
            (r"\_a", "_a", true),
            (r"\a", "a", true),
            (r"\\", r"\", true),
            (r"a\", r"a\", true),
            (r"\", r"\", true),
            (r"%\", r"xy\", true),
            (r"%\", "xy", false),
            (r"\\%", r"\x", true),
            (r"a\%", "a%", true),
            (r"a\%", "ab", false),
            ("", "", true),
            ("", "a", false),
            ("%", "", true),
            ("%%", "", true),
            ("_", "\u{20ac}", true),
            ("_", "\n", true),
            ("__", "\u{20ac}", false),
            ("a%", "A", false),
            ("%a%b%", "xxaxbx", true),
            ("%a%b%", "xxbxa", false),
            ("a%a", "a", false),
            ("%_a_%", "\u{e4}a\u{e4}", true),
        ];
        for (pattern, string, matches) in cases {
            let found = Like::new(pattern).matches(string.as_bytes());
            assert_eq!(found, matches, "{string} like {pattern}");
        }
    }

    #[test]
    fn a_beginning_is_what_is_before_the_first_wildcard() {
        let about = |pattern: &str| {
            let like = Like::new(pattern);
            let beginning = String::from_utf8_lossy(like.beginning()).into_owned();
            (beginning, like.is_beginning(), like.is_exact())
        };
        assert_eq!(about("pro%"), ("pro".into(), true, false));
        assert_eq!(about(r"a\_b%%"), ("a_b".into(), true, false));
        assert_eq!(about("pro_%"), ("pro".into(), false, false));
        assert_eq!(about("pro%x"), ("pro".into(), false, false));
        assert_eq!(about("%pro"), (String::new(), false, false));
        assert_eq!(about("%"), (String::new(), true, false));
        assert_eq!(about("pro"), ("pro".into(), false, true));
    }
}
