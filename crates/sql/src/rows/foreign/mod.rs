//! Foreign keys: a statement's changes to keys are recorded, and settled when the statement ends. A row
//! that refers to a key locks it, so that nobody removes the key before the transaction ends; a transaction
//! that removes a key holds its lock, looks up which rows refer to it now, and applies the foreign key's
//! action to them.

mod check;
mod find;
mod note;
mod postponed;
mod statement_end;
mod values;

pub(crate) use statement_end::References;
