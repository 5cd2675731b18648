//! Tables whose rows change, as queries and changes see them.

mod access;
mod asked;
mod build;
mod change;
mod checks;
mod conflict;
mod define;
mod exec;
mod naming;
mod ordered;
mod probes;
mod provider;
mod read;
mod rewrite;
mod sequence;
mod session;
mod sink;
mod size;
mod table;

pub(crate) use access::value_of;
pub(crate) use build::built;
pub(crate) use change::{Change, Changed, Written};
pub(crate) use checks::{Checks, expression, parsed, parsed_as};
pub(crate) use conflict::{Conflict, OnUpdate};
pub(crate) use define::{Definition, NewSequence, added, defined, identity, name_of};
pub(crate) use exec::HeapScanExec;
pub(crate) use naming::free_name;
pub(crate) use ordered::InOrderOfIndex;
pub(crate) use provider::{HeapTable, default_expr, default_value, defaults};
pub(crate) use rewrite::{Filling, OldRows};
pub use sequence::SequenceOptions;
pub(crate) use sequence::{default_of_sequence, no_sequence};
pub use session::{Block, RowTables};
pub(crate) use session::{Modes, PLANNED_BEFORE, Scope};
pub(crate) use sink::Sink;
pub(crate) use table::{ROW_ID, RowColumns, missing, row_error, with_row_ids, without_row_ids};
