//! Results of statements, in files (`tests/slt`): here, with the fast path and without, and in PostgreSQL 15 where it
//! is installed.
//!
//! `SLT=name` asks one file alone.

mod records;

use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;

use crate::database::{Session, TestDatabase};
use crate::postgres::{Postgres, Psql, Seen};
use crate::seen::seen;
use records::{Record, Wanted, records};

/// The files, in order.
fn files() -> Vec<(String, Vec<Record>)> {
    let asked = std::env::var("SLT").ok();
    let all = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/slt")).unwrap();
    let mut paths: Vec<PathBuf> = all.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let name = |path: &PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    let files = paths.iter().filter(|path| asked.as_ref().is_none_or(|own| *own == name(path)));
    let read = |path: &PathBuf| (name(path), records(&std::fs::read_to_string(path).unwrap()));
    files.map(read).collect()
}

/// Lines as the files have them.
fn lines(rows: &[Vec<String>], sorts: bool) -> Vec<String> {
    let cell = |text: &String| match text.is_empty() {
        true => "(empty)".to_owned(),
        false => text.clone(),
    };
    let mut lines: Vec<String> =
        rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join(" ")).collect();
    if sorts {
        lines.sort();
    }
    lines
}

/// What is wrong with an answer.
fn difference(record: &Record, seen: &Seen) -> Option<String> {
    let is_right = match (&record.wanted, seen) {
        (Wanted::Done, Seen::Count(_) | Seen::Rows(_)) => true,
        (Wanted::Count(count), Seen::Count(own)) => count == own,
        (Wanted::Error(state), Seen::Failed(own)) => state == own,
        (Wanted::Rows(wanted, sorts), Seen::Rows(rows)) => {
            let mut wanted = wanted.clone();
            if *sorts {
                wanted.sort();
            }
            wanted == lines(rows, *sorts)
        }
        // A COPY of nothing has no line.
        (Wanted::Rows(wanted, _), Seen::Count(_)) => wanted.is_empty(),
        _ => false,
    };
    let told = match seen {
        Seen::Rows(rows) => lines(rows, false).join("\n      "),
        other => format!("{other:?}"),
    };
    (!is_right).then(|| format!("{}\n  is {told}\n  wanted {:?}", record.sql, record.wanted))
}

/// Runs a file; what is wrong.
fn run(
    (name, records): &(String, Vec<Record>),
    engine: &str,
    mut answer: impl FnMut(&str, &str) -> (Seen, String),
) -> String {
    let mut wrong = String::new();
    for record in records.iter().filter(|record| record.is_for(engine)) {
        let (seen, message) = answer(&record.connection, &record.sql);
        if let Some(difference) = difference(record, &seen) {
            writeln!(wrong, "{name}.slt:{}: {difference}\n  {message}", record.line).unwrap();
        }
    }
    wrong
}

fn here(first: &str) {
    let mut wrong = String::new();
    for file in files() {
        let database = TestDatabase::new();
        let mut sessions: HashMap<String, Session<'_>> = HashMap::new();
        wrong += &run(&file, "cellar", |connection, sql| {
            let session = sessions.entry(connection.to_owned()).or_insert_with(|| {
                let session = database.session();
                session.run(first);
                session
            });
            seen(session.tried(sql))
        });
    }
    assert!(wrong.is_empty(), "{} differ\n{wrong}", wrong.matches("\n  wanted ").count());
}

#[test]
fn statements_give_what_the_files_say() {
    here("set cellar.fast_path = on");
}

#[test]
fn statements_give_the_same_without_the_fast_path() {
    here("set cellar.fast_path = off");
}

#[test]
fn postgresql_gives_the_same() {
    let Some(postgres) = Postgres::start() else { return };
    let mut wrong = String::new();
    for file in files() {
        postgres.database(&format!("slt_{}", file.0));
        let mut sessions: HashMap<String, Psql> = HashMap::new();
        wrong += &run(&file, "postgresql", |connection, sql| {
            let session = sessions.entry(connection.to_owned());
            (
                session.or_insert_with(|| postgres.session(&format!("slt_{}", file.0))).run(sql),
                String::new(),
            )
        });
    }
    assert!(wrong.is_empty(), "{wrong}");
}
