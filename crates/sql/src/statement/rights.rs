//! Statements about rights: GRANT and REVOKE on objects, REASSIGN OWNED, DROP OWNED.

use cellar_instance::catalog::Rights;
use datafusion::common::TableReference;

use crate::statement::RoleName;

/// Rights that a statement names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The rights; `None`: ALL.
    pub rights: Option<Rights>,
    /// Only of these columns, if any are named.
    pub columns: Vec<String>,
}

/// The objects of rights.
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
        /// The rights.
        said: Vec<Said>,
        /// The objects.
        on: On,
        /// The grantees.
        to: Vec<RoleName>,
        /// WITH GRANT OPTION, or GRANT OPTION FOR.
        options: bool,
        /// CASCADE.
        cascades: bool,
    },
    /// REASSIGN OWNED.
    Reassign {
        /// The present owners.
        of: Vec<RoleName>,
        /// The new owner.
        to: RoleName,
    },
    /// DROP OWNED.
    DropOwned {
        /// The roles whose objects and rights are dropped.
        of: Vec<RoleName>,
        /// CASCADE.
        cascades: bool,
    },
}
