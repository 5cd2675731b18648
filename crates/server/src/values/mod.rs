//! Values on the wire: which of PostgreSQL's types they have, as texts and in binary, both ways.

pub(crate) mod binary;
pub(crate) mod numeric;
pub(crate) mod parameters;
pub(crate) mod rows;
pub(crate) mod types;
