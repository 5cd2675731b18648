//! Foreign keys: what the changes of a statement have done to keys is noted and settled when the statement ends. A row
//! that refers to a key locks it, so that nobody takes it away before the transaction ends; who takes a key away has it
//! locked, looks who refers to it now, and does with these rows what the foreign key says.

mod check;
mod find;
mod note;
mod put_off;
mod settle;
mod values;

pub(crate) use settle::References;
