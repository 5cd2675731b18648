//! The header of a record in the stream of records.

use super::{Damage, Fields, put};

/// Bytes of the header.
pub const RECORD_HEADER: usize = 8;
/// The longest body of a record, in bytes.
pub const RECORD_BYTES_MAX: usize = 1 << 30;

/// What stands before the body of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Bytes of the body.
    pub length: u32,
    /// What the body is; the log does not look at it.
    pub kind: u8,
    /// More of that.
    pub flags: u8,
}

impl RecordHeader {
    /// Its bytes.
    pub fn encode(&self) -> [u8; RECORD_HEADER] {
        let mut bytes = [0; RECORD_HEADER];
        put(&mut bytes, 0, self.length.to_le_bytes());
        bytes[4] = self.kind;
        bytes[5] = self.flags;
        bytes
    }

    /// Reads it.
    ///
    /// # Errors
    /// A length that cannot be, or reserved bytes that are not zero.
    pub fn decode(bytes: [u8; RECORD_HEADER]) -> Result<RecordHeader, Damage> {
        let length = bytes.u32_at(0);
        if length as usize > RECORD_BYTES_MAX {
            return Err(Damage::Field { field: "record length", value: length.into() });
        }
        let reserved = bytes.u16_at(6);
        if reserved != 0 {
            return Err(Damage::Field { field: "record reserved", value: reserved.into() });
        }
        Ok(RecordHeader { length, kind: bytes[4], flags: bytes[5] })
    }
}
