//! Arrays as PostgreSQL has them: their texts, functions and operators.

mod call;
pub(crate) mod of_text;
pub(crate) mod operators;
pub(crate) mod shown;
mod text;

pub(crate) use call::ArrayCall;
pub(crate) use text::items_of;
