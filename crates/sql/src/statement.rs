//! Statements, read and sorted by who carries them out.

use cellar_instance::administration::Command;
use cellar_instance::heap::TableLock;
use cellar_storage::request::WorkRequest;

use datafusion::common::TableReference;

use crate::explain::options::ExplainOptions;
use crate::rows::SequenceOptions;

/// A statement.
#[derive(Clone, Debug)]
pub enum Statement {
    /// For the instance: disk groups, parameters, the redo log.
    Command(Command),
    /// `SHOW PARAMETER [pattern]`.
    ShowParameter(Option<String>),
    /// `EXPLAIN WORK FOR ALTER DISKGROUP ...`: tells what would be done, and does nothing.
    ExplainWork(WorkRequest),
    /// `EXPLAIN` of a statement for DataFusion.
    Explain(ExplainOptions, Box<datafusion::sql::parser::Statement>),
    /// For the engine: what DataFusion's parser does not know of what defines something.
    Define(Define),
    /// COPY as PostgreSQL has it.
    Copy(Box<crate::copy::Copy>),
    /// SET, RESET or SHOW of a setting of the session.
    Setting(Setting),
    /// For DataFusion.
    Query(Box<datafusion::sql::parser::Statement>),
}

/// A statement about settings of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// SET, or RESET.
    Set {
        /// Names and values; `None`: the default.
        values: Vec<(String, Option<String>)>,
        /// LOCAL: until the transaction ends.
        is_local: bool,
    },
    /// RESET ALL.
    ResetAll,
    /// SHOW of one.
    Show(String),
    /// SHOW ALL.
    ShowAll,
}

/// The column that a sequence goes with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedBy {
    /// None.
    Nobody,
    /// This one, of this table.
    Column(TableReference, String),
}

/// What kind of object a statement says that one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A table.
    Table,
    /// A view.
    View,
    /// A sequence.
    Sequence,
}

/// What a comment is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// A schema.
    Schema(String),
    /// A table.
    Table(TableReference),
    /// A view.
    View(TableReference),
    /// A sequence.
    Sequence(TableReference),
    /// An index.
    Index(TableReference),
    /// A column of a table or view.
    Column(TableReference, String),
    /// A constraint of a table.
    Constraint(TableReference, String),
}

impl Define {
    /// Whether it is about what a catalog in a file has not.
    pub(crate) fn needs_heap(&self) -> bool {
        matches!(
            self,
            Define::CreateSchema { .. }
                | Define::DropSchema { .. }
                | Define::RenameSchema { .. }
                | Define::SetSchema { .. }
                | Define::Comment { .. }
        )
    }
}

/// A statement that defines something.
#[derive(Clone, Debug)]
pub enum Define {
    /// CREATE SCHEMA.
    CreateSchema {
        /// Its name.
        name: String,
        /// IF NOT EXISTS.
        if_not_exists: bool,
    },
    /// DROP SCHEMA.
    DropSchema {
        /// Their names.
        names: Vec<String>,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE: with what is in it.
        cascades: bool,
    },
    /// ALTER SCHEMA .. RENAME TO.
    RenameSchema {
        /// Its name.
        name: String,
        /// What it is to be called.
        to: String,
    },
    /// COMMENT ON.
    Comment {
        /// What it is about.
        about: About,
        /// What it says; `None`: there is to be none.
        text: Option<String>,
    },
    /// ALTER .. SET SCHEMA.
    SetSchema {
        /// What it is.
        kind: Kind,
        /// Its name.
        name: TableReference,
        /// IF EXISTS.
        if_exists: bool,
        /// Where it is to be.
        schema: String,
    },
    /// CREATE SEQUENCE.
    CreateSequence {
        /// Its name.
        name: TableReference,
        /// IF NOT EXISTS.
        if_not_exists: bool,
        /// What is said of it.
        options: SequenceOptions,
        /// OWNED BY.
        owned_by: Option<OwnedBy>,
    },
    /// VACUUM, or ANALYZE.
    Maintain {
        /// Which of them.
        verb: &'static str,
        /// The tables that are named.
        tables: Vec<TableReference>,
    },
    /// LOCK TABLE.
    Lock {
        /// The tables.
        tables: Vec<TableReference>,
        /// How.
        lock: TableLock,
        /// NOWAIT.
        is_nowait: bool,
    },
    /// ALTER SEQUENCE.
    AlterSequence {
        /// Its name.
        name: TableReference,
        /// IF EXISTS.
        if_exists: bool,
        /// What is said of it.
        options: SequenceOptions,
        /// OWNED BY.
        owned_by: Option<OwnedBy>,
    },
}
