//! The messages that a client sends once it is let in.

use bytes::Bytes;

use super::body::Body;
use crate::error::Refusal;

/// What Describe and Close are about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Statement(String),
    Portal(String),
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Statements, to be run at once.
    Query(String),
    Parse {
        name: String,
        sql: String,
        /// Oids of the first parameters' types; 0: to be inferred.
        types: Vec<u32>,
    },
    Bind(Bind),
    Describe(Target),
    Execute {
        portal: String,
        /// The most rows; 0: all.
        most: u32,
    },
    Close(Target),
    Flush,
    Sync,
    Terminate,
    /// A part of an answer to what the client was asked when it connected.
    Password(Bytes),
    CopyData(Bytes),
    CopyDone,
    CopyFail(String),
    /// A function call by number, which nobody has used for twenty years.
    FunctionCall,
    /// A text in it is invalid: the client is told, and may go on.
    Unreadable {
        is_query: bool,
        refusal: Refusal,
    },
}

/// Values for a statement's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bind {
    pub portal: String,
    pub statement: String,
    /// 0 text, 1 binary: none, one for all, or one each.
    pub formats: Vec<i16>,
    pub values: Vec<Option<Bytes>>,
    /// The same of the columns of the rows.
    pub results: Vec<i16>,
}

/// The type of a message that may be as long as a statement or a value.
pub(crate) fn may_be_long(kind: u8) -> bool {
    matches!(kind, b'Q' | b'P' | b'B' | b'd' | b'F')
}

/// Reads a message of a kind.
///
/// # Errors
/// 08P01 it is none.
pub(crate) fn read(kind: u8, bytes: Bytes) -> Result<Message, Refusal> {
    match body_of(kind, bytes) {
        Err(refusal) if refusal.sqlstate == "22021" => {
            Ok(Message::Unreadable { is_query: kind == b'Q', refusal })
        }
        read => read,
    }
}

fn body_of(kind: u8, bytes: Bytes) -> Result<Message, Refusal> {
    let mut body = Body::new(bytes);
    let message = match kind {
        b'Q' => Message::Query(body.text()?),
        b'P' => {
            Message::Parse { name: body.text()?, sql: body.text()?, types: body.list(Body::u32)? }
        }
        b'B' => Message::Bind(Bind {
            portal: body.text()?,
            statement: body.text()?,
            formats: body.list(Body::i16)?,
            values: body.list(Body::value)?,
            results: body.list(Body::i16)?,
        }),
        b'D' => Message::Describe(target(&mut body)?),
        b'C' => Message::Close(target(&mut body)?),
        b'E' => Message::Execute {
            portal: body.text()?,
            // A negative number means all, as 0 does.
            most: u32::try_from(body.i32()?).unwrap_or(0),
        },
        b'H' => Message::Flush,
        b'S' => Message::Sync,
        b'X' => Message::Terminate,
        b'c' => Message::CopyDone,
        b'f' => Message::CopyFail(body.text()?),
        b'd' => return Ok(Message::CopyData(body.rest())),
        b'p' => return Ok(Message::Password(body.rest())),
        b'F' => return Ok(Message::FunctionCall),
        other => {
            return Err(Refusal::protocol(format!("invalid frontend message type {other}")));
        }
    };
    body.finish()?;
    Ok(message)
}

fn target(body: &mut Body) -> Result<Target, Refusal> {
    match body.u8()? {
        b'S' => Ok(Target::Statement(body.text()?)),
        b'P' => Ok(Target::Portal(body.text()?)),
        other => Err(Refusal::protocol(format!("invalid message subtype {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_a_message_or_an_error() {
        // A small generator: each kind, with bodies cut anywhere and bytes changed.
        let whole: [(u8, &[u8]); 5] = [
            (b'P', b"s\0select $1\0\x00\x01\x00\x00\x00\x17"),
            (b'B', b"p\0s\0\x00\x01\x00\x01\x00\x01\x00\x00\x00\x04abcd\x00\x00"),
            (b'D', b"Sx\0"),
            (b'E', b"p\0\x00\x00\x00\x05"),
            (b'Q', b"select 1\0"),
        ];
        for (kind, bytes) in whole {
            assert!(read(kind, Bytes::from_static(bytes)).is_ok(), "{}", kind as char);
            for end in 0..bytes.len() {
                assert!(read(kind, Bytes::copy_from_slice(&bytes[..end])).is_err(), "{end}");
            }
            for at in 0..bytes.len() {
                for value in 0..=255 {
                    let mut changed = bytes.to_vec();
                    changed[at] = value;
                    for kind in 0..=255 {
                        let _ = read(kind, Bytes::from(changed.clone()));
                    }
                }
            }
        }
    }

    #[test]
    fn a_negative_number_of_rows_is_all() {
        let execute = read(b'E', Bytes::from_static(b"\0\xff\xff\xff\xff"));
        assert_eq!(execute, Ok(Message::Execute { portal: String::new(), most: 0 }));
    }
}
