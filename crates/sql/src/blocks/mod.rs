//! Procedural blocks: Oracle's anonymous block and PostgreSQL's DO, read into steps that the engine carries out.

mod declare;
mod read;
mod steps;
mod text;
mod tokens;
mod tree;

pub(crate) use read::{begins_with_end, is_block, is_do, is_open, read};
pub(crate) use text::{Code, Part};
pub(crate) use tree::{
    Block, Declared, Dialect, Handler, Into, Raise, RaiseLevel, Step, StepKind, Variable,
};
