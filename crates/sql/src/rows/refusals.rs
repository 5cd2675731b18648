//! Refusals of a session: statements out of place in their transaction, and statements on tables that
//! have changed.

use crate::error::Error;

/// The error for a savepoint that does not exist; `last`: the latest one that does.
pub(super) fn no_savepoint(name: &str, last: Option<&String>) -> Error {
    let error = Error::new(1086, "3B001", format!("savepoint \"{name}\" does not exist"));
    error.next(match last {
        None => "there is none: ROLLBACK rolls the whole transaction back".to_owned(),
        Some(last) => format!("the last one is \"{last}\""),
    })
}

/// The error for anything that follows a failure in a transaction.
pub(super) fn ended_in_failure() -> Error {
    let text = "the transaction has failed: statements are ignored until it ends";
    Error::new(70170, "25P02", text).next("ROLLBACK ends it, and its changes are gone")
}

/// The error of a statement whose transaction is over.
pub(super) fn is_over() -> Error {
    Error::new(70171, "25000", "the transaction of this statement has ended")
        .next("run the statement again")
}

/// The error for a statement that only makes sense in a transaction.
pub(super) fn no_block(what: &str) -> Error {
    Error::new(70172, "25P01", format!("{what} outside a transaction")).next("begin one: BEGIN")
}

/// The error for a SET TRANSACTION that comes too late.
pub(super) fn too_late(text: &str) -> Error {
    Error::new(1453, "25001", text).next("say it with BEGIN, or right after it")
}

/// The error number for a statement planned with columns that its table no longer has: it is planned again.
pub(crate) const PLANNED_BEFORE: u32 = 70219;

/// The error of such a statement.
pub(super) fn planned_before(table: &str) -> Error {
    let text = format!("table \"{table}\" has other columns than when the statement was planned");
    Error::new(PLANNED_BEFORE, "40001", text).next("run the statement again")
}

/// The error for a statement whose table was rewritten after its snapshot.
pub(super) fn table_was_rewritten(table: &str) -> Error {
    let text = format!("table \"{table}\" was rewritten after the snapshot of the statement");
    Error::new(PLANNED_BEFORE, "40001", text).next("run the transaction again")
}

/// The error for a statement whose table was dropped or replaced meanwhile.
pub(super) fn changed(table: &str) -> Error {
    let text = format!("table \"{table}\" was dropped or changed meanwhile");
    Error::new(942, "42P01", text).next("run the statement again")
}

/// Adds to an error of a lock, or of a row that others have changed, which table it is about.
pub(crate) fn in_table(key: &str) -> impl Fn(cellar_instance::Error) -> Error {
    let key = key.to_owned();
    move |error| {
        let number = error.number();
        let made = Error::from(error);
        match number {
            54 | 60 | 8177 | 30006 => {
                let message = format!("table \"{key}\": {}", made.message);
                Error { message, ..made }.of_table(&key)
            }
            _ => made,
        }
    }
}
