//! SQL over an instance: DataFusion with our own statements, views, external tables and output.
//!
//! [`Engine`] runs statements; [`Host`] is what it needs from the instance. Only this crate knows
//! DataFusion.

#![cfg(feature = "engine")]

pub mod binary;
pub mod columnar;
pub mod copy;
pub mod csv;
pub mod engine;
pub mod error;
pub mod explain;
pub mod failure;
pub mod host;
pub mod load;
pub mod output;
pub mod parse;
pub mod path;
pub mod reference;
pub mod rows;
pub mod source_format;
pub mod split;
pub mod statement;
mod statistics;
pub mod tag;
pub mod tpch;
pub mod view;

mod allowed;
mod ambiguous_names;
mod apply;
mod arrays;
mod blocks;
mod bytes;
mod call;
mod catalog;
mod common_aggregates;
mod correlated;
mod dialect;
mod distinct_on;
mod enums;
mod fast;
mod files;
mod grammar;
mod grouped_probe_side;
mod guarded;
mod in_subquery;
mod instants;
mod json;
mod lateral;
mod lateral_unnest;
mod lazy_build_side;
mod mark_joins;
mod memory;
mod name_position;
mod names;
mod nested;
mod numbers;
mod offset;
mod one_row;
mod ordered;
mod partial_aggregates;
mod pgcatalog;
mod portions;
mod quotes;
mod recorded_errors;
mod remaining_files;
mod rules;
mod set_comparison;
mod set_operation;
mod settings;
mod spill;
mod subquery_values;
mod suggestions;
mod texts;
mod tied;
mod unwind;
mod walk;
mod words;

pub use copy::{CopyInput, CopyOutput};
pub use engine::cancel::Canceller;
pub use engine::prepared::{Answer, Parameter};
pub use engine::{Common, Engine, EngineOptions, Outcome};
pub use error::{About, Error, Position};
pub use explain::Explained;
pub use fast::Prepared;
pub use host::{Host, Rows, TableDefinition};
pub use parse::parse;
pub use path::GroupPath;
pub use rows::Standing;
pub use split::{Open, Piece, Split, first, split};
pub use texts::Texts;
