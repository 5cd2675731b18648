//! The fast path: statements that touch rows of one table by a key, or by a short range of keys. A plan is made
//! once of the statement without its constants, and then reads and changes rows without DataFusion's planner.
//!
//! What it cannot do, or what would be an error in a value, it declines before anything is changed: the statement
//! then goes the common way, which does it, or tells the error. Values are computed by the same expressions, and
//! rows are changed by the same code as there.

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
mod way;

pub(crate) use cache::{Found, Plans};
pub(crate) use lex::{Constant, Lexed, Place, lex};
pub(crate) use names::Slots;
pub(crate) use plan::{Parts, Plan};
pub use prepared::Prepared;
pub(crate) use prepared::{NamedStatement, NamedStatements};
pub(crate) use run::Ran;
pub(crate) use shape::{Shape, ShapeOf, literals_for};
