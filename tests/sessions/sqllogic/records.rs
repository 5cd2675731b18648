//! Files of statements and what they give, in the form of sqllogictest: the parts of it that ours use.

/// What a statement is to give.
#[derive(Debug, PartialEq)]
pub enum Wanted {
    /// It is done.
    Done,
    /// It changes so many rows.
    Count(u64),
    /// This SQLSTATE.
    Error(String),
    /// Lines of rows; whether in any order.
    Rows(Vec<String>, bool),
}

/// A statement.
#[derive(Debug)]
pub struct Record {
    pub line: usize,
    pub connection: String,
    /// Who runs it: whether only this one, or all but this one.
    pub only: Option<(bool, String)>,
    pub sql: String,
    pub wanted: Wanted,
}

impl Record {
    pub fn is_for(&self, engine: &str) -> bool {
        self.only.as_ref().is_none_or(|(only, name)| *only == (name == engine))
    }
}

/// The records of a file.
pub fn records(text: &str) -> Vec<Record> {
    let mut found = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    let (mut at, mut connection, mut only) = (0, String::new(), None);
    while at < lines.len() {
        let (line, words) = (at + 1, lines[at].split_whitespace().collect::<Vec<_>>());
        at += 1;
        match words[..] {
            [] => {}
            [first, ..] if first.starts_with('#') => {}
            ["connection", name] => connection = name.to_owned(),
            ["onlyif", name] => only = Some((true, name.to_owned())),
            ["skipif", name] => only = Some((false, name.to_owned())),
            ["statement" | "query", ..] => {
                let until = |stops: &dyn Fn(&str) -> bool, at: &mut usize| {
                    let begin = *at;
                    while *at < lines.len() && !stops(lines[*at]) {
                        *at += 1;
                    }
                    lines[begin..*at].iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()
                };
                let sql = until(&|line| line.is_empty() || line == "----", &mut at).join("\n");
                let wanted = match words[..] {
                    ["statement", "ok"] => Wanted::Done,
                    ["statement", "count", count] => Wanted::Count(count.parse().unwrap()),
                    [_, "error", state] => Wanted::Error(state.trim_matches(['(', ')']).to_owned()),
                    ["query", _, ref order @ ..] => {
                        assert_eq!(lines.get(at), Some(&"----"), "line {line}");
                        at += 1;
                        Wanted::Rows(until(&str::is_empty, &mut at), order == ["rowsort"])
                    }
                    _ => panic!("line {line}: {words:?}"),
                };
                let (connection, only) = (std::mem::take(&mut connection), only.take());
                found.push(Record { line, connection, only, sql, wanted });
            }
            _ => panic!("line {line}: {words:?}"),
        }
    }
    found
}
