//! The protocol of DIR/cellar.sock: frames of a kind, a length and bytes.
//!
//! ```text
//! +------+----------------+-------------+
//! | kind | length, u32 le | length bytes|    kind: 1 hello  2 request  3 stdout  4 stderr  5 exit
//! +------+----------------+-------------+
//! ```
//!
//! The process that holds the directory says hello first, then answers each request with any number of
//! stdout and stderr frames and one exit frame. A request is its words as a JSON array, preceded by the
//! array's length as u32 le, then opaque bytes.

use std::io::{Read, Write};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The version of this protocol. Programs that differ in it do not talk.
pub const PROTOCOL: u32 = 1;

/// The most bytes of one frame; longer output is cut into several.
pub const FRAME_MAX: usize = 1 << 20;

/// The most bytes of a request's words and body together.
pub const REQUEST_MAX: usize = 16 << 20;

/// Who answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the program that answers.
    pub protocol: u32,
    /// The version of that program, for people.
    pub version: String,
    /// Its process id.
    pub pid: u32,
}

/// A command, as words of a command line, and what goes with it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Request {
    /// The words, the program's name left out.
    pub words: Vec<String>,
    /// Opaque bytes, such as standard input.
    pub body: Vec<u8>,
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The first frame of whoever answers.
    Hello(Hello),
    /// From the client.
    Request(Request),
    /// Results.
    Stdout(Vec<u8>),
    /// Notices.
    Stderr(Vec<u8>),
    /// The end of an answer: 0 done, 1 failed, 2 wrong usage.
    Exit(u8),
}

const HELLO: u8 = 1;
const REQUEST: u8 = 2;
const STDOUT: u8 = 3;
const STDERR: u8 = 4;
const EXIT: u8 = 5;

fn broken(why: &str) -> Error {
    Error::new(70113, format!("request not understood: {why}"))
}

/// A fault of a stream: the other end went away, or sent nonsense.
#[derive(Debug)]
pub enum StreamError {
    /// The other end closed it, or the system did.
    Gone(std::io::Error),
    /// It is no frame.
    Nonsense(Error),
}

impl From<std::io::Error> for StreamError {
    fn from(error: std::io::Error) -> StreamError {
        StreamError::Gone(error)
    }
}

impl Frame {
    /// The bytes of the frame.
    ///
    /// # Errors
    /// 70113 if a request is longer than [`REQUEST_MAX`].
    pub fn encode(&self) -> Result<Vec<u8>> {
        let json = |error: serde_json::Error| broken(&error.to_string());
        let (kind, payload) = match self {
            Frame::Hello(hello) => (HELLO, serde_json::to_vec(hello).map_err(json)?),
            Frame::Request(request) => {
                let words = serde_json::to_vec(&request.words).map_err(json)?;
                let mut payload = length_of(&words, REQUEST_MAX)?.to_vec();
                payload.extend(words);
                payload.extend(&request.body);
                (REQUEST, payload)
            }
            Frame::Stdout(bytes) => (STDOUT, bytes.clone()),
            Frame::Stderr(bytes) => (STDERR, bytes.clone()),
            Frame::Exit(code) => (EXIT, vec![*code]),
        };
        let mut bytes = Vec::with_capacity(5 + payload.len());
        bytes.push(kind);
        bytes.extend(length_of(&payload, length_max(kind))?);
        bytes.extend(payload);
        Ok(bytes)
    }

    fn decode(kind: u8, payload: Vec<u8>) -> Result<Frame> {
        let json = |error: serde_json::Error| broken(&error.to_string());
        match kind {
            HELLO => Ok(Frame::Hello(serde_json::from_slice(&payload).map_err(json)?)),
            REQUEST => {
                let cut = || broken("it is cut off");
                let (length, rest) = payload.split_first_chunk::<4>().ok_or_else(cut)?;
                let length = u32::from_le_bytes(*length) as usize;
                let words = rest.get(..length).ok_or_else(cut)?;
                let words = serde_json::from_slice(words).map_err(json)?;
                Ok(Frame::Request(Request { words, body: rest[length..].to_vec() }))
            }
            STDOUT => Ok(Frame::Stdout(payload)),
            STDERR => Ok(Frame::Stderr(payload)),
            EXIT => match payload[..] {
                [code] => Ok(Frame::Exit(code)),
                _ => Err(broken("an exit code is one byte")),
            },
            _ => Err(broken(&format!("there is no frame of kind {kind}"))),
        }
    }

    /// Writes the frame.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn write(&self, stream: &mut impl Write) -> std::result::Result<(), StreamError> {
        let bytes = self.encode().map_err(StreamError::Nonsense)?;
        Ok(stream.write_all(&bytes)?)
    }

    /// Reads a frame; `None` at the end of the stream.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn read(stream: &mut impl Read) -> std::result::Result<Option<Frame>, StreamError> {
        let mut kind = [0; 1];
        loop {
            match stream.read(&mut kind) {
                Ok(0) => return Ok(None),
                Ok(_) => break,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > length_max(kind[0]) {
            let why = format!("a frame of {length} bytes is too long");
            return Err(StreamError::Nonsense(broken(&why)));
        }
        // Grows with what arrives, not with what is promised.
        let mut payload = Vec::new();
        stream.take(length as u64).read_to_end(&mut payload)?;
        if payload.len() < length {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        Frame::decode(kind[0], payload).map(Some).map_err(StreamError::Nonsense)
    }
}

fn length_max(kind: u8) -> usize {
    if kind == REQUEST { REQUEST_MAX } else { FRAME_MAX }
}

fn length_of(bytes: &[u8], max: usize) -> Result<[u8; 4]> {
    let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= max);
    let too_long = || {
        broken(&format!("{} bytes are more than {max}", bytes.len()))
            .hint("put long input into a file that the command reads itself")
    };
    length.map(u32::to_le_bytes).ok_or_else(too_long)
}
