//! The steps of a block.

use super::text::Code;
use crate::error::Position;

/// Whose meaning a block has where the two differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// An anonymous block: SELECT INTO without a row is NO_DATA_FOUND, a column hides a variable of its name.
    Oracle,
    /// DO: SELECT INTO without a row gives NULL, a name of both is ambiguous.
    Postgres,
}

/// DECLARE .. BEGIN .. EXCEPTION .. END.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub label: Option<String>,
    pub variables: Vec<Variable>,
    pub steps: Vec<Step>,
    pub handlers: Vec<Handler>,
}

/// A variable that is declared.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub at: Position,
    pub name: String,
    pub declared: Declared,
    pub default: Option<Code>,
    pub is_constant: bool,
    pub not_null: bool,
}

/// What a variable is declared to be.
#[derive(Clone, Debug)]
pub(crate) enum Declared {
    /// A type, as text.
    Type(String),
    /// `table.column%TYPE`, or `variable%TYPE`.
    LikeColumn(Vec<String>),
    /// `table%ROWTYPE`.
    LikeRow(Vec<String>),
    /// RECORD: what is assigned to it.
    Record,
    /// An exception of its own.
    Exception,
}

/// One statement of a block, and where it begins.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub at: Position,
    pub kind: StepKind,
}

/// A condition and what is done then.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub condition: Code,
    pub steps: Vec<Step>,
}

/// Where the values of a row go.
#[derive(Clone, Debug)]
pub(crate) struct Into {
    pub targets: Vec<Vec<String>>,
    /// STRICT: exactly one row.
    pub is_strict: bool,
}

/// How loud RAISE is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RaiseLevel {
    /// NOTICE, WARNING, INFO: the user is told.
    Notice,
    /// DEBUG, LOG: nobody is.
    Silent,
    /// EXCEPTION.
    Exception,
}

/// RAISE.
#[derive(Clone, Debug)]
pub(crate) enum Raise {
    /// The error that is being handled.
    Again,
    /// A condition by its name, or an exception that is declared.
    Named(String),
    /// A text in which each `%` is the next value.
    Text { level: RaiseLevel, format: String, values: Vec<Code>, code: Option<Code> },
    /// RAISE_APPLICATION_ERROR(number, text).
    Application { number: Code, text: Code },
}

/// What is done.
#[derive(Clone, Debug)]
pub(crate) enum StepKind {
    Assign {
        target: Vec<String>,
        value: Code,
    },
    If {
        branches: Vec<Branch>,
        otherwise: Vec<Step>,
    },
    /// CASE with or without an operand; `None`: there is no ELSE.
    Case {
        branches: Vec<Branch>,
        otherwise: Option<Vec<Step>>,
    },
    Loop {
        label: Option<String>,
        steps: Vec<Step>,
    },
    While {
        label: Option<String>,
        condition: Code,
        steps: Vec<Step>,
    },
    ForRange {
        label: Option<String>,
        variable: String,
        is_reverse: bool,
        from: Code,
        to: Code,
        by: Option<Code>,
        steps: Vec<Step>,
    },
    ForRows {
        label: Option<String>,
        variable: String,
        query: Code,
        steps: Vec<Step>,
    },
    Exit {
        label: Option<String>,
        when: Option<Code>,
    },
    Continue {
        label: Option<String>,
        when: Option<Code>,
    },
    Return,
    Nothing,
    Sql {
        code: Code,
        into: Option<Into>,
    },
    /// PERFORM: a query whose rows nobody wants.
    Perform(Code),
    /// EXECUTE IMMEDIATE.
    Dynamic {
        text: Code,
        into: Option<Into>,
        using: Vec<Code>,
    },
    Raise(Raise),
    Print(Code),
    Sleep(Code),
    Commit,
    Rollback,
    Block(Block),
}

/// WHEN .. THEN, behind EXCEPTION.
#[derive(Clone, Debug)]
pub(crate) struct Handler {
    /// Names of conditions, or `sqlstate xxxxx`; `others` for all.
    pub conditions: Vec<String>,
    pub steps: Vec<Step>,
}
