//! Names in a group: of disks, failure groups, directories, files and their aliases.
//!
//! Names of groups, disks and failure groups are stored upper-case; file paths keep their case and
//! are compared by it. The directory tree changes only by [`NameOp`]s, which the metadata log
//! records, so that replaying the log gives the same tree.

mod ident;
mod op;
mod path;
mod pattern;
mod tree;
mod tree_code;
#[cfg(test)]
mod tree_tests;

pub use ident::{DiskName, FailGroupName, GroupName, IDENT_MAX};
pub use op::{Applied, NameDecodeError, NameOp};
pub use path::{FilePath, PART_MAX, PathPart, SystemName};
pub use pattern::matches;
pub use tree::{Alias, DirNo, Entry, FileNo, Found, Tree, TreeError, Walk};

/// A name that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// User: not a name of a group, disk or failure group (ORA-15121).
    #[error(
        "\"{value}\" is no {kind} name: {reason}; a name starts with a letter and has up to \
         {IDENT_MAX} letters, digits, _, $ and #"
    )]
    Ident {
        /// What it should name: disk group, disk, failure group.
        kind: &'static str,
        /// What was given.
        value: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// User: not a name of a file or directory (ORA-15124).
    #[error(
        "\"{value}\" is no file name: {reason}; a name has up to {PART_MAX} bytes, without \
         /, * and control characters"
    )]
    Part {
        /// What was given.
        value: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// User: not a path of a group.
    #[error("\"{value}\" is no path of a disk group: {reason}; paths look like +DATA/dir/file")]
    Path {
        /// What was given.
        value: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}
