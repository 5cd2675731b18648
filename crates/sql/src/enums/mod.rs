//! Enum types in plans: their values are texts whose fields name their type and its labels. Operations
//! that depend on the order of labels use codes instead.

mod call;
mod extreme;
mod known;
mod rule;

pub(crate) use call::EnumCall;
pub(crate) use known::{
    EnumInfo, field_with_labels, layout_of, no_label, query_metadata, type_word_of,
};
pub(crate) use rule::EnumRule;
