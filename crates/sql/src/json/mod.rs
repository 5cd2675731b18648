//! JSON and uuid: values that are kept as texts, and what is asked of them.

pub(crate) mod call;
pub(crate) mod form;
pub(crate) mod known;
pub(crate) mod make;
mod order;
mod value;
