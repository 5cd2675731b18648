//! JSON and uuid: values stored as texts, and the functions on them.

pub(crate) mod call;
pub(crate) mod form;
pub(crate) mod known;
pub(crate) mod make;
mod order;
pub(crate) mod uuids;
mod value;
