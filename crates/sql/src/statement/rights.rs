//! Statements about rights: GRANT and REVOKE on objects, REASSIGN OWNED, DROP OWNED.

use cellar_instance::catalog::Rights;
use datafusion::common::TableReference;

use crate::statement::RoleName;

/// Rights that a statement names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Which; `None`: ALL.
    pub rights: Option<Rights>,
    /// Of these columns alone, where it names any.
    pub columns: Vec<String>,
}

/// What rights are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    /// Tables and views; sequences too, as in PostgreSQL.
    Tables(Vec<TableReference>),
    /// Sequences.
    Sequences(Vec<TableReference>),
    /// Types.
    Types(Vec<TableReference>),
    /// Schemas.
    Schemas(Vec<String>),
    /// The database.
    Database(Vec<String>),
    /// All tables and views in schemas.
    AllTables(Vec<String>),
    /// All sequences in schemas.
    AllSequences(Vec<String>),
}

/// A statement about rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RightsStatement {
    /// GRANT, or REVOKE.
    Change {
        /// GRANT, not REVOKE.
        grants: bool,
        /// What.
        said: Vec<Said>,
        /// On what.
        on: On,
        /// To or from whom.
        to: Vec<RoleName>,
        /// WITH GRANT OPTION, or GRANT OPTION FOR.
        options: bool,
        /// CASCADE.
        cascades: bool,
    },
    /// REASSIGN OWNED.
    Reassign {
        /// Whose objects.
        of: Vec<RoleName>,
        /// Who is to own them.
        to: RoleName,
    },
    /// DROP OWNED.
    DropOwned {
        /// Whose objects and rights.
        of: Vec<RoleName>,
        /// CASCADE.
        cascades: bool,
    },
}
