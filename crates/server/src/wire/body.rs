//! The body of a message, read from its front; nothing in it is trusted before it is checked.

use bytes::{Buf, Bytes};

use crate::error::Refusal;

/// What is left of a message.
#[derive(Clone, Debug)]
pub(crate) struct Body(Bytes);

fn short() -> Refusal {
    Refusal::protocol("insufficient data left in message")
}

/// Bytes as a text.
///
/// # Errors
/// 22021 they are no UTF-8, or have a NUL in them.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, Refusal> {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.contains('\0') => {
            Err(Refusal::new("22021", "invalid byte sequence for encoding \"UTF8\": 0x00"))
        }
        Ok(text) => Ok(text),
        Err(error) => {
            let at = error.valid_up_to();
            let end = bytes.len().min(at + error.error_len().unwrap_or(1).max(1));
            let wrong: Vec<String> = bytes[at..end].iter().map(|b| format!("0x{b:02x}")).collect();
            let message =
                format!("invalid byte sequence for encoding \"UTF8\": {}", wrong.join(" "));
            Err(Refusal::new("22021", message))
        }
    }
}

impl Body {
    pub fn new(bytes: Bytes) -> Body {
        Body(bytes)
    }

    fn need(&self, bytes: usize) -> Result<(), Refusal> {
        if self.0.len() < bytes { Err(short()) } else { Ok(()) }
    }

    pub fn u8(&mut self) -> Result<u8, Refusal> {
        self.need(1)?;
        Ok(self.0.get_u8())
    }

    pub fn i16(&mut self) -> Result<i16, Refusal> {
        self.need(2)?;
        Ok(self.0.get_i16())
    }

    pub fn u16(&mut self) -> Result<u16, Refusal> {
        self.need(2)?;
        Ok(self.0.get_u16())
    }

    pub fn i32(&mut self) -> Result<i32, Refusal> {
        self.need(4)?;
        Ok(self.0.get_i32())
    }

    pub fn u32(&mut self) -> Result<u32, Refusal> {
        self.need(4)?;
        Ok(self.0.get_u32())
    }

    pub fn bytes(&mut self, length: usize) -> Result<Bytes, Refusal> {
        self.need(length)?;
        Ok(self.0.split_to(length))
    }

    /// A text up to its NUL.
    pub fn text(&mut self) -> Result<String, Refusal> {
        let Some(length) = memchr(&self.0) else {
            return Err(Refusal::protocol("invalid string in message"));
        };
        let bytes = self.0.split_to(length);
        self.0.advance(1);
        text(&bytes).map(str::to_owned)
    }

    /// A list: how many there are, and each.
    pub fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Body) -> Result<T, Refusal>,
    ) -> Result<Vec<T>, Refusal> {
        let count = self.u16()?;
        // A claimed count is not reserved in memory before the items are there: no item has less than two
        // bytes.
        let mut items = Vec::with_capacity(usize::from(count).min(self.0.len() / 2));
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// A value: its length and bytes, or NULL.
    pub fn value(&mut self) -> Result<Option<Bytes>, Refusal> {
        match self.i32()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| short())?;
                self.bytes(length).map(Some)
            }
        }
    }

    /// All that is left.
    pub fn rest(self) -> Bytes {
        self.0
    }

    /// Refuses trailing bytes.
    pub fn finish(&self) -> Result<(), Refusal> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(Refusal::protocol("invalid message format")),
        }
    }
}

fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_claimed_and_not_there_is_refused() {
        let body = |bytes: &'static [u8]| Body::new(Bytes::from_static(bytes));
        assert_eq!(body(b"a\0b").text(), Ok("a".to_owned()));
        assert!(body(b"ab").text().is_err());
        assert!(body(b"\xff\xff").list(Body::value).is_err());
        assert!(body(b"\x00\x01\xff\xff\xff\xfe").list(Body::value).is_err());
        assert!(body(b"\x00\x01\x7f\xff\xff\xff").list(Body::value).is_err());
        let values = body(b"\x00\x02\xff\xff\xff\xff\x00\x00\x00\x01x").list(Body::value);
        assert_eq!(values, Ok(vec![None, Some(Bytes::from_static(b"x"))]));
        assert_eq!(text(b"\xc3(").unwrap_err().sqlstate, "22021");
        assert_eq!(text(b"a\0").unwrap_err().sqlstate, "22021");
        assert!(body(b"x").finish().is_err());
    }
}
