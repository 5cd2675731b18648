//! The splitter of a text of many statements at its semicolons, for a shell or `-f FILE`.

use crate::blocks::{begins_with_end, is_block, is_do, is_open};
pub use crate::quotes::Open;
use crate::quotes::{Kind, token_length};

/// One statement of a text, without its semicolon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The statement, trimmed; never empty and never only comments.
    pub sql: &'a str,
    /// Where it starts in the text, in bytes.
    pub offset: usize,
    /// The line on which it starts, from 1.
    pub line: u64,
}

/// The statements that end with a semicolon, and what follows the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split<'a> {
    /// Statements that end with a semicolon.
    pub complete: Vec<Piece<'a>>,
    /// What follows, if it is more than blanks and comments: a statement without its semicolon, or
    /// one whose quote or comment is still open.
    pub rest: Option<Piece<'a>>,
    /// The construct that is unclosed at the end of the text.
    pub open: Option<Open>,
}

/// Splits `text` at the semicolons outside quotes and comments. Accepts any text.
pub fn split(text: &str) -> Split<'_> {
    let mut complete = Vec::new();
    let (rest, open) = cut(text, |piece, _| {
        complete.push(piece);
        true
    });
    Split { complete, rest, open }
}

/// Gives each statement that ends with a semicolon, and where that is, as long as `takes` wants more; returns what
/// follows the last one.
fn cut<'a>(
    text: &'a str,
    mut takes: impl FnMut(Piece<'a>, usize) -> bool,
) -> (Option<Piece<'a>>, Option<Open>) {
    let (mut start, mut at, mut code, mut last) = (0, 0, false, 0);
    let mut open = None;
    while let Some(c) = text[at..].chars().next() {
        let mut token = token_length(&text[at..], &text[..at]);
        open = token.open;
        let is_end = code && matches!(token.kind, Kind::Semicolon);
        if is_end && is_within(&text[start..=at], &mut last) {
            token.kind = Kind::Code;
        }
        if !code {
            last = 0;
            if c == '/' && is_alone(text, at) {
                token.kind = Kind::Comment;
                start = at + 1;
            }
        }
        match token.kind {
            Kind::Semicolon => {
                if code && !takes(piece(text, start, at), at) {
                    return (None, None);
                }
                start = at + 1;
                code = false;
            }
            Kind::Code => code |= !c.is_whitespace(),
            Kind::Comment => {}
        }
        at += token.length;
    }
    (code.then(|| piece(text, start, text.len())), open)
}

/// Whether a text, which ends with a semicolon, is within a block. `last`: what follows the semicolon before it.
fn is_within(text: &str, last: &mut usize) -> bool {
    let since = text.get(*last..).unwrap_or_default();
    *last = text.len();
    // Only behind END it may be over: not all of it is looked at again at each semicolon.
    is_block(text) && !is_do(text) && (!begins_with_end(since) || is_open(text))
}

/// Whether the character there stands alone on its line, as the `/` that ends a block in SQL*Plus.
fn is_alone(text: &str, at: usize) -> bool {
    let before = text[..at].rsplit('\n').next().unwrap_or_default();
    let behind = text[at + 1..].split('\n').next().unwrap_or_default();
    before.trim().is_empty() && behind.trim().is_empty()
}

/// The first statement of `text` that ends with a semicolon, and the semicolon's position; the rest is
/// not examined.
pub fn first(text: &str) -> Option<(Piece<'_>, usize)> {
    let mut found = None;
    cut(text, |piece, at| {
        found = Some((piece, at));
        false
    });
    found
}

/// The rows that follow a COPY FROM STDIN in a text, from its next line to before the line `\.`; and the
/// position after that line.
pub fn rows(text: &str) -> (std::ops::Range<usize>, usize) {
    let begin = text.find('\n').map_or(text.len(), |at| at + 1);
    let mut at = begin;
    for line in text[begin..].split_inclusive('\n') {
        if line.trim_end_matches(['\n', '\r']) == "\\." {
            return (begin..at, at + line.len());
        }
        at += line.len();
    }
    (begin..text.len(), text.len())
}

fn piece(text: &str, start: usize, end: usize) -> Piece<'_> {
    let raw = &text[start..end];
    let offset = start + (raw.len() - raw.trim_start().len());
    let lines_before = text[..offset].bytes().filter(|b| *b == b'\n').count();
    Piece { sql: raw.trim(), offset, line: lines_before as u64 + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_a_statement_to_their_end() {
        let text = "-- it's\n ; copy t from stdin;\n1;'\n\\.\nselect 1;";
        let (piece, end) = first(text).unwrap();
        assert_eq!(
            (piece.sql, piece.line),
            ("-- it's\n ; copy t from stdin".trim_start_matches("-- it's\n ; "), 2)
        );
        let (own, next) = rows(&text[end + 1..]);
        let rest = &text[end + 1..];
        assert_eq!((&rest[own], &rest[next..]), ("1;'\n", "select 1;"));
        assert_eq!(first("select 1"), None);
        assert_eq!(rows("").0, 0..0);
    }

    fn pieces(text: &str) -> (Vec<&str>, Option<&str>, Option<Open>) {
        let split = split(text);
        (split.complete.iter().map(|p| p.sql).collect(), split.rest.map(|p| p.sql), split.open)
    }

    #[test]
    fn a_block_is_one_statement_up_to_its_end() {
        let block = "begin\nfor i in 1 .. 3 loop\nif i > 1 then null; end if;\nend loop;\nend";
        let text = format!("select 1;\n{block};\n/\nselect 2; begin; select 3; commit;");
        let wanted = ["select 1", block, "select 2", "begin", "select 3", "commit"];
        assert_eq!(pieces(&text), (wanted.to_vec(), None, None));
        let declared =
            "declare x int; begin x := case when true then 1 end; drop table if exists t; end";
        assert_eq!(
            pieces(&format!("{declared}; select 4")),
            (vec![declared], Some("select 4"), None)
        );
        let text = format!("{block}; select 1;");
        let (piece, _) = first(&text).unwrap();
        assert_eq!(piece.sql, block);
        for block in [
            "begin while case when true then false else true end loop null; end loop; end",
            "begin insert into ev (begin, fin) values (1, 2); end",
            "declare \"my v\" int; begin null; /* ; */ -- end;\n end",
            "begin begin null; end; begin null; exception when others then null; end; end",
        ] {
            assert_eq!(pieces(&format!("{block}; select 5;")).0, [block, "select 5"]);
        }
        assert_eq!(pieces("declare \"my c\" cursor for select 1; fetch c;").0.len(), 2);
        // Without its end it goes on, as a quote does.
        assert_eq!(pieces("begin null; select 1;").0, Vec::<&str>::new());
        assert_eq!(pieces("declare c cursor for select 1; fetch c;").0.len(), 2);
        assert_eq!(pieces("select 6\n/ 2;").0, ["select 6\n/ 2"]);
    }

    #[test]
    fn semicolons_in_quotes_and_comments_do_not_cut() {
        let text = "select ';', \"a;b\" -- ; no\n; select /* ; /* ; */ ; */ 2;; -- end";
        let (complete, rest, open) = pieces(text);
        assert_eq!(complete.len(), 2);
        assert!(complete[0].starts_with("select ';'"));
        assert_eq!((rest, open), (None, None));
        assert_eq!(pieces("select $a$ ; $a$; x").0, ["select $a$ ; $a$"]);
        assert_eq!(pieces("select * from v$log where a$=';'").1.map(str::len), Some(32));
        assert_eq!(pieces(r"select E'\';'; y").0, [r"select E'\';'"]);
        assert_eq!(pieces(r"select date'\'; y").0, [r"select date'\'"]);
        assert_eq!(pieces(r"select '\'; y").0, [r"select '\'"]);
    }

    #[test]
    fn what_is_open_is_told() {
        assert_eq!(pieces("select 'a;").2, Some(Open::Quote));
        assert_eq!(pieces("/* a").2, Some(Open::Comment));
        assert_eq!(pieces("/* a").1, None);
        assert_eq!(pieces("select $x$ ;").2, Some(Open::Dollar));
        assert_eq!(pieces("select \"").2, Some(Open::Name));
    }

    #[test]
    fn lines_are_counted() {
        let split = split("select 1;\n\n  select 2;");
        assert_eq!(split.complete[1].line, 3);
        assert_eq!(split.complete[1].offset, 13);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_cut_into_pieces_of_itself(text in "[ a;'\"$*/\\-\nEé]{0,40}") {
            let split = split(&text);
            for piece in split.complete.iter().chain(&split.rest) {
                assert!(text[piece.offset..].starts_with(piece.sql));
                assert!(!piece.sql.is_empty());
            }
        }
    }
}
