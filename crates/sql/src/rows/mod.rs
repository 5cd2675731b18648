//! Tables whose rows change, as queries and changes see them.

mod access;
mod change;
mod checks;
mod define;
mod exec;
mod provider;
mod session;
mod table;

pub(crate) use change::{Change, Changed};
pub(crate) use checks::Checks;
pub(crate) use define::{Definition, defined};
pub(crate) use exec::HeapScanExec;
pub(crate) use provider::{HeapTable, default_value, defaults};
pub(crate) use session::Scope;
pub use session::{Block, RowTables};
pub(crate) use table::{ROW_ID, RowColumns, row_error, with_row_ids, without_row_ids};
