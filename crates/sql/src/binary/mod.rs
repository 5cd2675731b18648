//! Values in PostgreSQL's binary formats, and their types there: on the wire and in COPY.

mod numeric;
mod origin;
pub(crate) mod read;
pub mod types;
mod write;

pub use numeric::read as numeric_text;
pub use origin::origin_of;
pub(crate) use origin::with_origin;
pub use types::PgType;
pub use write::{Binary, EPOCH_DAYS, EPOCH_MICROS};

/// Bytes that are not a value of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// 22P03, 22003, 22021.
    pub sqlstate: &'static str,
    /// What is wrong.
    pub message: &'static str,
}

impl Malformed {
    /// Bytes that are not a valid value.
    pub const INCORRECT: Malformed =
        Malformed { sqlstate: "22P03", message: "incorrect binary data format" };
}
