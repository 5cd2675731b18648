//! Values on the wire, as texts and in binary, both ways.

pub(crate) mod parameters;
pub(crate) mod rows;
