//! A table in a disk group, and questions about it that a cell answers.

pub(crate) mod ask;
pub(crate) mod consume;
pub(crate) mod question;
pub(crate) mod scanner;
pub(crate) mod table;
