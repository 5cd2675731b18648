//! EXCEPTION: which errors a block handles, and what becomes of its changes.

use super::{Flow, Run};
use crate::blocks::{Block, Handler};
use crate::error::Error;

/// The names of conditions, PostgreSQL's and Oracle's, with their SQLSTATEs.
const CONDITIONS: &[(&str, &[&str])] = &[
    ("no_data_found", &["P0002"]),
    ("too_many_rows", &["P0003"]),
    ("dup_val_on_index", &["23505"]),
    ("unique_violation", &["23505"]),
    ("foreign_key_violation", &["23503"]),
    ("not_null_violation", &["23502"]),
    ("check_violation", &["23514"]),
    ("integrity_constraint_violation", &["23505", "23503", "23502", "23514", "23000"]),
    ("zero_divide", &["22012"]),
    ("division_by_zero", &["22012"]),
    ("value_error", &["22003", "22P02", "22001", "22004", "22005", "22007", "22008", "42804"]),
    ("invalid_number", &["22P02", "22003"]),
    ("invalid_text_representation", &["22P02"]),
    ("numeric_value_out_of_range", &["22003"]),
    ("string_data_right_truncation", &["22001"]),
    ("null_value_not_allowed", &["22004"]),
    ("case_not_found", &["20000"]),
    ("undefined_table", &["42P01"]),
    ("undefined_column", &["42703"]),
    ("duplicate_table", &["42P07"]),
    ("serialization_failure", &["40001"]),
    ("deadlock_detected", &["40P01"]),
    ("lock_not_available", &["55P03"]),
    ("timeout_on_resource", &["55P03"]),
    ("insufficient_privilege", &["42501"]),
    ("raise_exception", &["P0001"]),
    ("feature_not_supported", &["0A000"]),
    ("disk_full", &["53100"]),
    ("program_error", &["XX000"]),
];

/// What nobody handles: the statement is to stop.
const STOPPED: &str = "57014";

/// The SQLSTATEs of a condition; none: it is no known one.
pub(super) fn states_of(name: &str) -> &'static [&'static str] {
    let found = CONDITIONS.iter().find(|(own, _)| *own == name);
    found.map_or(&[], |(_, states)| states)
}

/// Whether a handler is for an error.
fn handles(handler: &Handler, error: &Error) -> bool {
    handler.conditions.iter().any(|condition| match condition.strip_prefix("sqlstate ") {
        Some(state) => state == error.sqlstate,
        None if condition == "others" => true,
        // An exception of the block's own is told by its name.
        None if error.number == 6510 && error.message == *condition => true,
        None => states_of(condition).contains(&error.sqlstate),
    })
}

impl Run<'_> {
    /// A block with EXCEPTION: its changes are undone where one is handled.
    pub(super) async fn handled_body(&mut self, block: &Block) -> Result<Flow, Error> {
        self.check_conditions(block)?;
        let in_transaction = self.engine.host.rows().is_some_and(|rows| rows.are_open());
        let savepoint = format!("\"block {} of cellar\"", self.savepoints);
        if in_transaction {
            Box::pin(self.engine.run_common(&format!("savepoint {savepoint}"))).await?;
        }
        let (depth, savepoints) = (self.scopes.depth(), self.savepoints);
        self.savepoints += 1;
        let outcome = self.steps(&block.steps).await;
        self.savepoints = savepoints;
        let error = match outcome {
            Ok(flow) => {
                if in_transaction {
                    let release = format!("release savepoint {savepoint}");
                    Box::pin(self.engine.run_common(&release)).await?;
                }
                return Ok(flow);
            }
            Err(error) => error,
        };
        let found = block.handlers.iter().find(|handler| handles(handler, &error));
        let Some(handler) = found.filter(|_| error.sqlstate != STOPPED) else { return Err(error) };
        self.scopes.close(depth);
        if in_transaction {
            let back = format!("rollback to savepoint {savepoint}");
            Box::pin(self.engine.run_common(&back)).await?;
            let release = format!("release savepoint {savepoint}");
            Box::pin(self.engine.run_common(&release)).await?;
        }
        self.handled.push(error);
        // Its own expressions name the error: they are compiled while it is handled.
        let flow = self.steps(&handler.steps).await;
        self.handled.pop();
        flow
    }

    /// Refuses conditions that do not exist.
    fn check_conditions(&self, block: &Block) -> Result<(), Error> {
        use crate::blocks::Declared;
        let is_own = |name: &String| {
            block
                .variables
                .iter()
                .any(|own| own.name == *name && matches!(own.declared, Declared::Exception))
                || self.scopes.find(std::slice::from_ref(name))
                    == Some(super::names::Named::Exception)
        };
        let all = block.handlers.iter().flat_map(|handler| &handler.conditions);
        for condition in all {
            let is_known = condition == "others"
                || condition.starts_with("sqlstate ")
                || !states_of(condition).is_empty()
                || is_own(condition);
            if !is_known {
                let text = format!("exception condition \"{condition}\" does not exist");
                return Err(Error::new(6550, "42704", text)
                    .next("WHEN OTHERS handles all; WHEN SQLSTATE '22012' one"));
            }
        }
        Ok(())
    }
}
