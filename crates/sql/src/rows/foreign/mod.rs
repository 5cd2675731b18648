//! Foreign keys: what the changes of a statement did to keys is recorded, and settled when the statement
//! ends. A row that refers to a key locks it, so that nobody removes the key before the transaction ends;
//! a transaction that removes a key has it locked, looks up which rows refer to it now, and does with
//! these what the foreign key says.

mod check;
mod find;
mod note;
mod put_off;
mod settle;
mod values;

pub(crate) use settle::References;
