//! The byte cursor: little-endian numbers and counted strings, written to and read from bytes.
//!
//! Every structure of a disk group on disk is coded with these two types. The reader never
//! panics: bytes come from disks, and disks hold anything.

/// The bytes ended before the value did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{needed} bytes needed at offset {at}, {left} left")]
pub struct Truncated {
    /// Bytes the value needs.
    pub needed: usize,
    /// Bytes that are left.
    pub left: usize,
    /// Offset in the bytes given to the reader.
    pub at: usize,
}

/// Collects bytes.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty writer.
    #[must_use]
    pub fn new() -> Writer {
        Writer::default()
    }

    /// Bytes written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing was written yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What was written so far.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// What was written.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// One byte.
    pub fn put_u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// A flag as one byte, 0 or 1.
    pub fn put_bool(&mut self, value: bool) {
        self.bytes.push(u8::from(value));
    }

    /// Two bytes, little-endian.
    pub fn put_u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Four bytes, little-endian.
    pub fn put_u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Eight bytes, little-endian.
    pub fn put_u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Bytes as they are, without a length.
    pub fn put_raw(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
    }

    /// Bytes behind a two-byte length.
    pub fn put_bytes16(&mut self, value: &[u8]) {
        let len = u16::try_from(value.len());
        assert!(len.is_ok(), "a field with a two-byte length holds at most 65,535 bytes");
        self.put_u16(len.unwrap_or(u16::MAX));
        self.put_raw(value);
    }

    /// Bytes behind a four-byte length.
    pub fn put_bytes32(&mut self, value: &[u8]) {
        let len = u32::try_from(value.len());
        assert!(len.is_ok(), "a field with a four-byte length holds less than 4 GiB");
        self.put_u32(len.unwrap_or(u32::MAX));
        self.put_raw(value);
    }

    /// Text as UTF-8 behind a two-byte length.
    pub fn put_str(&mut self, value: &str) {
        self.put_bytes16(value.as_bytes());
    }
}

/// Reads what a [`Writer`] wrote, checking every length.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads from the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// Offset of the next byte.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Bytes not read yet.
    #[must_use]
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `needed` bytes.
    pub fn raw(&mut self, needed: usize) -> Result<&'a [u8], Truncated> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(value) = rest.get(..needed) else {
            return Err(Truncated { needed, left: rest.len(), at: self.at });
        };
        self.at += needed;
        Ok(value)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let mut value = [0; N];
        value.copy_from_slice(self.raw(N)?);
        Ok(value)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Truncated> {
        Ok(self.array::<1>()?[0])
    }

    /// One byte as a flag; everything but 0 is true.
    pub fn bool(&mut self) -> Result<bool, Truncated> {
        Ok(self.u8()? != 0)
    }

    /// Two bytes, little-endian.
    pub fn u16(&mut self) -> Result<u16, Truncated> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Four bytes, little-endian.
    pub fn u32(&mut self) -> Result<u32, Truncated> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes, little-endian.
    pub fn u64(&mut self) -> Result<u64, Truncated> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Bytes behind a two-byte length.
    pub fn bytes16(&mut self) -> Result<&'a [u8], Truncated> {
        let len = self.u16()?;
        self.raw(usize::from(len))
    }

    /// Bytes behind a four-byte length.
    pub fn bytes32(&mut self) -> Result<&'a [u8], Truncated> {
        let len = self.u32()?;
        self.raw(usize::try_from(len).unwrap_or(usize::MAX))
    }

    /// Text behind a two-byte length. Bytes that are not UTF-8 come back as the inner error.
    pub fn str(&mut self) -> Result<Result<&'a str, std::str::Utf8Error>, Truncated> {
        Ok(std::str::from_utf8(self.bytes16()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_are_little_endian_and_counted() {
        let mut w = Writer::new();
        w.put_u8(1);
        w.put_u16(0x0203);
        w.put_u32(0x0405_0607);
        w.put_u64(8);
        w.put_str("ab");
        w.put_bytes32(b"c");
        w.put_bool(true);
        assert_eq!(
            w.as_slice(),
            [1, 3, 2, 7, 6, 5, 4, 8, 0, 0, 0, 0, 0, 0, 0, 2, 0, b'a', b'b', 1, 0, 0, 0, b'c', 1]
        );
        let mut r = Reader::new(w.as_slice());
        assert_eq!(r.u8(), Ok(1));
        assert_eq!(r.u16(), Ok(0x0203));
        assert_eq!(r.u32(), Ok(0x0405_0607));
        assert_eq!(r.u64(), Ok(8));
        assert_eq!(r.str(), Ok(Ok("ab")));
        assert_eq!(r.bytes32(), Ok(&b"c"[..]));
        assert_eq!(r.bool(), Ok(true));
        assert_eq!(r.u8(), Err(Truncated { needed: 1, left: 0, at: 25 }));
    }

    #[test]
    fn a_failed_read_says_where_and_moves_nothing_more() {
        let mut r = Reader::new(&[9, 0, 1, 2]);
        assert_eq!(r.bytes16(), Err(Truncated { needed: 9, left: 2, at: 2 }));
        assert_eq!(r.left(), 2);
        let mut r = Reader::new(&[255; 6]);
        assert!(r.bytes32().is_err());
    }

    proptest! {
        #[test]
        fn reading_anything_ends_in_a_value_or_an_error(
            bytes in proptest::collection::vec(any::<u8>(), 0..64),
            calls in proptest::collection::vec(0_u8..7, 0..20),
        ) {
            let mut r = Reader::new(&bytes);
            for call in calls {
                let before = r.left();
                match call {
                    0 => drop(r.u8()),
                    1 => drop(r.u16()),
                    2 => drop(r.u32()),
                    3 => drop(r.u64()),
                    4 => drop(r.bytes16()),
                    5 => drop(r.bytes32()),
                    _ => drop(r.str()),
                }
                prop_assert!(r.left() <= before);
            }
        }
    }
}
