//! The fast path: statements that touch rows of one table by a key, or by a short range of keys. A plan
//! is made once for the statement without its constants, and from then on reads and changes rows without
//! DataFusion's planner.
//!
//! A statement that it cannot run, or one with an error in a value, is declined before anything is
//! changed: it then takes the common path, which runs it or reports the error. Values are computed by the
//! same expressions, and rows changed by the same code, on both paths.

mod access_path;
mod aggregate;
mod cache;
mod calls;
mod casts;
mod class;
mod compile;
mod lex;
mod names;
mod plan;
mod prepared;
mod run;
mod shape;
mod uuids;

pub(crate) use cache::{Found, Plans};
pub(crate) use lex::{Constant, Lexed, Place, lex};
pub(crate) use names::Slots;
pub(crate) use plan::{Parts, Plan};
pub use prepared::Prepared;
pub(crate) use prepared::{NamedStatement, NamedStatements};
pub(crate) use run::RunOutcome;
pub(crate) use shape::{Shape, ShapeOf, literals_for};
