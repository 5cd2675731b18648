//! Statements, parsed and sorted by the component that runs them.

pub mod rights;

use cellar_instance::administration::Command;
use cellar_instance::heap::TableLock;
use cellar_storage::request::WorkRequest;

use datafusion::common::TableReference;

use crate::explain::options::ExplainOptions;
use crate::rows::SequenceOptions;
use crate::statement::rights::RightsStatement;

/// A statement.
#[derive(Clone, Debug)]
pub enum Statement {
    /// For the instance: disk groups, parameters, the redo log.
    Command(Command),
    /// `SHOW PARAMETER [pattern]`.
    ShowParameter(Option<String>),
    /// `EXPLAIN WORK FOR ALTER DISKGROUP ...`: reports what would be done, and does nothing.
    ExplainWork(WorkRequest),
    /// `EXPLAIN` of a statement for DataFusion.
    Explain(ExplainOptions, Box<datafusion::sql::parser::Statement>),
    /// For the engine: definitions that DataFusion's parser does not know.
    Define(Define),
    /// COPY as in PostgreSQL.
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
    /// SHOW of one setting.
    Show(String),
    /// SHOW ALL.
    ShowAll,
    /// SET ROLE, SET SESSION AUTHORIZATION, or RESET of them.
    Assume {
        /// Which of them.
        what: Assume,
        /// LOCAL: until the transaction ends.
        is_local: bool,
    },
}

/// The role that a session is to act as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assume {
    /// Act as this one; `None`: as the role of the session.
    Role(Option<String>),
    /// Change the role of the session to this one; `None`: to the one that connected.
    Session(Option<String>),
}

/// A password, which is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub String);

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(..)")
    }
}

/// A role as a statement names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleName {
    /// By its name.
    Named(String),
    /// CURRENT_USER, CURRENT_ROLE.
    Current,
    /// SESSION_USER.
    Session,
    /// PUBLIC: everybody.
    Public,
}

/// The options of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleOptions {
    /// SUPERUSER.
    pub is_superuser: Option<bool>,
    /// LOGIN.
    pub can_login: Option<bool>,
    /// CREATEROLE.
    pub creates_roles: Option<bool>,
    /// INHERIT.
    pub inherits: Option<bool>,
    /// CONNECTION LIMIT.
    pub connections: Option<i32>,
    /// PASSWORD; `Some(None)`: NULL.
    pub password: Option<Option<Password>>,
    /// VALID UNTIL.
    pub valid_until: Option<String>,
    /// IN ROLE.
    pub in_roles: Vec<RoleName>,
    /// ROLE: the roles that become its members.
    pub members: Vec<RoleName>,
    /// ADMIN: the roles that become members with the admin option.
    pub admins: Vec<RoleName>,
}

/// A statement about roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleStatement {
    /// CREATE ROLE.
    Create {
        /// Its name.
        name: String,
        /// Its options.
        options: RoleOptions,
    },
    /// ALTER ROLE.
    Alter {
        /// Its name.
        name: RoleName,
        /// Its options.
        options: RoleOptions,
    },
    /// ALTER ROLE .. RENAME TO.
    Rename {
        /// Its name.
        name: RoleName,
        /// The new name.
        to: String,
    },
    /// DROP ROLE.
    Drop {
        /// Their names.
        names: Vec<RoleName>,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// GRANT of roles.
    Grant {
        /// The roles.
        roles: Vec<RoleName>,
        /// The roles that become members of each.
        to: Vec<RoleName>,
        /// WITH ADMIN OPTION.
        is_admin: bool,
    },
    /// REVOKE of roles.
    Revoke {
        /// The roles.
        roles: Vec<RoleName>,
        /// The roles that cease to be members.
        from: Vec<RoleName>,
        /// ADMIN OPTION FOR.
        only_admin: bool,
    },
}

/// The column that owns a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedBy {
    /// None.
    Nobody,
    /// This one, of this table.
    Column(TableReference, String),
}

/// The kind of object that a statement names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A table.
    Table,
    /// A view.
    View,
    /// A sequence.
    Sequence,
}

/// The object of a comment.
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
    /// An enum type.
    Type(TableReference),
    /// An index.
    Index(TableReference),
    /// A column of a table or view.
    Column(TableReference, String),
    /// A constraint of a table.
    Constraint(TableReference, String),
}

impl Define {
    /// Whether it is about an object that a catalog in a file does not have.
    pub(crate) fn needs_heap(&self) -> bool {
        matches!(
            self,
            Define::CreateSchema { .. }
                | Define::DropSchema { .. }
                | Define::RenameSchema { .. }
                | Define::SetSchema { .. }
                | Define::Comment { .. }
                | Define::Role(_)
                | Define::Rights(_)
                | Define::CreateEnum { .. }
                | Define::AlterEnum { .. }
                | Define::DropTypes { .. }
                | Define::SetOwner { .. }
        )
    }
}

/// The indexes that REINDEX rebuilds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reindexed {
    /// One.
    Index(TableReference),
    /// All of a table.
    Table(TableReference),
    /// All of a schema.
    Schema(String),
    /// All of the database, with its name if given.
    Database(Option<String>),
}

/// What LIKE copies from a table besides its columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word of the statement")]
pub struct LikeOptions {
    /// DEFAULTS.
    pub defaults: bool,
    /// CONSTRAINTS: its checks.
    pub constraints: bool,
    /// INDEXES, with its keys.
    pub indexes: bool,
    /// IDENTITY.
    pub identity: bool,
    /// COMMENTS.
    pub comments: bool,
}

/// The actions of ALTER TYPE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnumChange {
    /// ADD VALUE.
    Add {
        /// The value.
        label: String,
        /// IF NOT EXISTS.
        if_not_exists: bool,
        /// Its neighbour, and whether it comes before it or after it.
        before: Option<(bool, String)>,
    },
    /// RENAME VALUE.
    RenameLabel {
        /// The present value.
        from: String,
        /// The new value.
        to: String,
    },
    /// RENAME TO.
    Rename(String),
    /// SET SCHEMA.
    SetSchema(String),
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
        /// AUTHORIZATION: the owner.
        owner: Option<RoleName>,
    },
    /// DROP SCHEMA.
    DropSchema {
        /// Their names.
        names: Vec<String>,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE: with all that it contains.
        cascades: bool,
    },
    /// ALTER SCHEMA .. RENAME TO.
    RenameSchema {
        /// Its name.
        name: String,
        /// The new name.
        to: String,
    },
    /// About roles.
    Role(Box<RoleStatement>),
    /// About the rights of roles, and about ownership.
    Rights(Box<RightsStatement>),
    /// COMMENT ON.
    Comment {
        /// The object.
        about: About,
        /// The text; `None`: the comment is removed.
        text: Option<String>,
    },
    /// ALTER .. SET SCHEMA.
    SetSchema {
        /// The kind of object.
        kind: Kind,
        /// Its name.
        name: TableReference,
        /// IF EXISTS.
        if_exists: bool,
        /// The new schema.
        schema: String,
    },
    /// CREATE TABLE (LIKE ..).
    CreateLike {
        /// Its name.
        name: TableReference,
        /// IF NOT EXISTS.
        if_not_exists: bool,
        /// The table whose columns are copied.
        source: TableReference,
        /// INCLUDING and EXCLUDING.
        options: LikeOptions,
    },
    /// CREATE TYPE .. AS ENUM.
    CreateEnum {
        /// Its name.
        name: TableReference,
        /// Its values.
        labels: Vec<String>,
    },
    /// ALTER TYPE.
    AlterEnum {
        /// Its name.
        name: TableReference,
        /// The action.
        change: EnumChange,
    },
    /// DROP TYPE.
    DropTypes {
        /// Their names.
        names: Vec<TableReference>,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE: with the columns of this type.
        cascades: bool,
    },
    /// DROP FOREIGN TABLE: of external tables.
    DropForeign {
        /// Their names.
        names: Vec<TableReference>,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE: with the views over them.
        cascades: bool,
    },
    /// CREATE SEQUENCE.
    CreateSequence {
        /// Its name.
        name: TableReference,
        /// IF NOT EXISTS.
        if_not_exists: bool,
        /// Its options.
        options: SequenceOptions,
        /// OWNED BY.
        owned_by: Option<OwnedBy>,
    },
    /// ALTER .. OWNER TO.
    SetOwner {
        /// The object.
        of: About,
        /// IF EXISTS.
        if_exists: bool,
        /// The new owner.
        role: RoleName,
    },
    /// ALTER TABLE .. ADD GENERATED, with the name of the sequence.
    AddIdentity {
        /// The table.
        table: TableReference,
        /// The column.
        column: String,
        /// ALWAYS, not BY DEFAULT.
        is_always: bool,
        /// The name of the sequence.
        sequence: TableReference,
        /// Its options.
        options: SequenceOptions,
    },
    /// VACUUM, or ANALYZE.
    Maintain {
        /// Which of them.
        verb: &'static str,
        /// The tables that are named.
        tables: Vec<TableReference>,
    },
    /// REINDEX.
    Reindex {
        /// Which indexes.
        of: Reindexed,
        /// CONCURRENTLY.
        is_concurrent: bool,
    },
    /// SET CONSTRAINTS.
    SetConstraints {
        /// Their names; none: ALL.
        names: Vec<TableReference>,
        /// DEFERRED, not IMMEDIATE.
        is_deferred: bool,
    },
    /// LOCK TABLE.
    Lock {
        /// The tables.
        tables: Vec<TableReference>,
        /// The lock mode.
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
        /// Its options.
        options: SequenceOptions,
        /// OWNED BY.
        owned_by: Option<OwnedBy>,
    },
}
