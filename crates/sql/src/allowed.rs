//! The list of statements whose effect lasts here. DataFusion accepts more, executes them in memory, and
//! reports success; those are refused.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{ObjectType, Query, Statement as SqlStatement, Visitor};

use crate::error::{Error, NextStep};
use crate::walk;

const IN_PLACE: &str = "external tables are files read in place";

/// Refuses statements whose effect would not last.
///
/// # Errors
/// 03001 with what to do instead.
pub(crate) fn check(statement: &DfStatement) -> Result<(), Error> {
    match statement {
        DfStatement::Statement(inner) => check_sql(inner),
        DfStatement::Explain(explain) => check(&explain.statement),
        DfStatement::CreateExternalTable(_) | DfStatement::CopyTo(_) | DfStatement::Reset(_) => {
            Ok(())
        }
    }
}

fn check_sql(statement: &SqlStatement) -> Result<(), Error> {
    use SqlStatement as S;
    match statement {
        S::Query(query) if locks_rows(query) => Err(Error::not_yet(words_of_locks(query))
            .next("leave it out: only rows of tables USING heap are locked")),
        S::Query(_)
        | S::Explain { .. }
        | S::ExplainTable { .. }
        | S::Set(_)
        | S::ShowTables { .. }
        | S::ShowColumns { .. }
        | S::ShowFunctions { .. }
        | S::ShowVariable { .. }
        | S::ShowCreate { .. }
        | S::Execute { .. }
        | S::Deallocate { .. }
        | S::Insert(_)
        | S::Update(_)
        | S::Delete(_)
        | S::CreateView { .. }
        | S::CreateTable(_)
        | S::Truncate(_)
        | S::CreateIndex(_)
        | S::AlterTable(_)
        | S::AlterIndex { .. }
        | S::Drop {
            object_type:
                ObjectType::Table | ObjectType::View | ObjectType::Index | ObjectType::Sequence,
            ..
        } => Ok(()),
        S::Prepare { statement, .. } => match statement.as_ref() {
            S::Query(_) => Ok(()),
            other => Err(Error::not_yet(format!("PREPARE of {}", words(other)))
                .next("prepare a query, or run the statement as it is")),
        },
        other => Err(refused(other)),
    }
}

/// Whether a query, or a query within it, locks rows.
pub(crate) fn locks_rows(query: &Query) -> bool {
    struct Locks;
    impl Visitor for Locks {
        type Break = ();
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            match query.locks.is_empty() {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        }
    }
    walk::look(query, &mut Locks).is_break()
}

fn words_of_locks(query: &Query) -> String {
    match query.locks.first() {
        Some(lock) => format!("SELECT ... {lock}"),
        None => "SELECT ... FOR UPDATE within a query".to_owned(),
    }
}

/// The error of a statement whose effect would not last.
pub(crate) fn refused(statement: &SqlStatement) -> Error {
    use SqlStatement as S;
    let error = Error::not_yet(words(statement));
    match statement {
        S::CreateDatabase { .. } => {
            error.next("a database is a directory of its own: cellar init DIR")
        }
        S::CreateSchema { .. } => error.next("create it by itself: CREATE SCHEMA name"),
        S::Merge { .. } => error.next("INSERT what is new, and UPDATE what is there"),
        S::Update(_) | S::Delete(_) => {
            let mut error = error;
            error.message = format!("{}: {IN_PLACE}", error.message);
            error.next(
                "write the rows that are wanted with COPY (query) TO '+DATA/new.parquet', then \
                 CREATE OR REPLACE EXTERNAL TABLE over that file",
            )
        }
        S::StartTransaction { .. } | S::Commit { .. } | S::Rollback { .. } => {
            error.next("leave it out: without a redo log each statement is durable when it is done")
        }
        S::Drop { .. } => error.next(
            "DROP takes TABLE, VIEW, INDEX, SEQUENCE, SCHEMA, TYPE, ROLE, EXTERNAL TABLE and DISKGROUP",
        ),
        S::CreateTrigger { .. } => {
            error.next("do it in the statement that changes the rows; a foreign key or a CHECK guards them")
        }
        S::CreateFunction { .. } | S::CreateProcedure { .. } => {
            error.next("a view keeps a query; what has steps is for the application")
        }
        S::CreateExtension { .. } => error.next("leave it out: what is here needs no extension"),
        _ => error.next(
            "there are SELECT, INSERT, UPDATE, DELETE, TRUNCATE, COPY, BEGIN, COMMIT, ROLLBACK, SAVEPOINT, EXPLAIN, \
             PREPARE, SHOW, SET, GRANT, and CREATE, ALTER and DROP of TABLE, EXTERNAL TABLE, VIEW, INDEX, SEQUENCE, \
             TYPE, SCHEMA, ROLE and DISKGROUP",
        ),
    }
}

/// The first words of a statement, in capitals, up to the name of its object.
fn words(statement: &SqlStatement) -> String {
    let text = statement.to_string();
    let letters = |w: &&str| w.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let mut words: Vec<&str> = text.split_whitespace().take_while(letters).collect();
    words.retain(|w| !matches!(*w, "IF" | "NOT" | "EXISTS"));
    words.truncate(3);
    match words.is_empty() {
        true => text.split_whitespace().next().unwrap_or_default().to_uppercase(),
        false => words.join(" "),
    }
}

/// The error for an INSERT into a table that is one file.
pub(crate) fn insert(table: &str, other: &str) -> Error {
    Error::new(
        3001,
        "0A000",
        format!("INSERT INTO \"{table}\" is not in this version of Cellar: {IN_PLACE}"),
    )
    .next(
        NextStep::from(format!("copy (query) to '{other}' stored as parquet, or: "))
            .cellar("load", "FILE")
            .then("; only a table over a directory (location '+DATA/dir/') takes rows"),
    )
}
