//! The messages of PostgreSQL's protocol, version 3: those from clients, and those to them.
//!
//! Source: PostgreSQL 15 documentation, chapter 55, "Frontend/Backend Protocol".

pub(crate) mod backend;
pub(crate) mod body;
pub(crate) mod frames;
pub(crate) mod frontend;
pub(crate) mod startup;
