//! Messages as they arrive from a socket: split at their lengths, which are limited.

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::frontend::{self, Message, may_be_long};
use super::startup::STARTUP_MAX;
use crate::error::{Ended, Refusal};

/// The longest message in bytes: as in PostgreSQL.
const LONG_MAX: usize = (1 << 30) - 2;
/// The same for messages that carry neither statements nor values.
const SHORT_MAX: usize = 64 << 10;

/// Bytes that are read ahead while a statement runs: a client that sends more waits.
const AHEAD: usize = 256 << 10;

/// Bytes requested from the socket at once.
const READ: usize = 8 << 10;

/// A buffer larger than this is freed when it is empty.
const KEPT: usize = 64 << 10;

/// What a client sends.
pub(crate) struct Frames {
    socket: Box<dyn AsyncRead + Send + Unpin>,
    buffer: BytesMut,
    /// A client that is not let in yet sends nothing long.
    is_let_in: bool,
}

impl Frames {
    pub fn new(socket: Box<dyn AsyncRead + Send + Unpin>) -> Frames {
        Frames { socket, buffer: BytesMut::new(), is_let_in: false }
    }

    /// The client is let in.
    pub fn let_in(&mut self) {
        self.is_let_in = true;
    }

    /// Whether the client has sent more than was looked at.
    pub fn has_more(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// What it reads from, and what is read ahead: to be read in another way from here on.
    pub fn taken(&mut self) -> (Bytes, Box<dyn AsyncRead + Send + Unpin>) {
        let nothing = Box::new(tokio::io::empty());
        (self.buffer.split().freeze(), std::mem::replace(&mut self.socket, nothing))
    }

    /// Reads from this one from here on.
    pub fn go_on(&mut self, socket: Box<dyn AsyncRead + Send + Unpin>) {
        self.socket = socket;
    }

    async fn more(&mut self) -> Result<(), Ended> {
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT {
            self.buffer = BytesMut::new();
        }
        self.buffer.reserve(READ);
        match self.socket.read_buf(&mut self.buffer).await? {
            0 => Err(Ended::Gone),
            _ => Ok(()),
        }
    }

    /// What the client wants first.
    pub async fn first(&mut self) -> Result<Bytes, Ended> {
        loop {
            if let Some(mut head) = self.buffer.get(..4) {
                let length = head.get_u32() as usize;
                if !(8..=STARTUP_MAX).contains(&length) {
                    return Err(Refusal::protocol("invalid length of startup packet").into());
                }
                if self.buffer.len() >= length {
                    self.buffer.advance(4);
                    return Ok(self.buffer.split_to(length - 4).freeze());
                }
            }
            self.more().await?;
        }
    }

    /// The next message. Safe to cancel: what was read stays.
    pub async fn next(&mut self) -> Result<Message, Ended> {
        loop {
            if let Some(message) = self.whole()? {
                return Ok(message);
            }
            self.more().await?;
        }
    }

    /// The next message, if it is here already.
    pub fn whole(&mut self) -> Result<Option<Message>, Ended> {
        let Some(length) = self.length()? else { return Ok(None) };
        if self.buffer.len() < 1 + length {
            return Ok(None);
        }
        let kind = self.buffer[0];
        self.buffer.advance(5);
        let body = self.buffer.split_to(length - 4).freeze();
        Ok(Some(frontend::read(kind, body)?))
    }

    /// The type of the next message, if it is complete and here already.
    pub fn peek(&self) -> Option<u8> {
        let length = self.length().ok().flatten()?;
        (self.buffer.len() > length).then(|| self.buffer[0])
    }

    /// The kind of the next message, when its first byte is here.
    pub async fn kind_of_next(&mut self) -> Result<u8, Ended> {
        loop {
            match self.buffer.first() {
                Some(kind) => return Ok(*kind),
                None => self.more().await?,
            }
        }
    }

    fn length(&self) -> Result<Option<usize>, Refusal> {
        let Some(mut head) = self.buffer.get(..5) else { return Ok(None) };
        let kind = head.get_u8();
        let length = head.get_u32() as usize;
        let most = if self.is_let_in && may_be_long(kind) { LONG_MAX } else { SHORT_MAX };
        match (4..=most).contains(&length) {
            true => Ok(Some(length)),
            false => Err(Refusal::protocol(format!(
                "invalid message length {length}: a message of this kind has at most {most} bytes"
            ))),
        }
    }

    /// Resolves when the client has gone, and reads what it sends meanwhile.
    pub async fn gone(&mut self) -> Ended {
        loop {
            if self.buffer.len() >= AHEAD {
                std::future::pending::<()>().await;
            }
            if let Err(ended) = self.more().await {
                return ended;
            }
        }
    }
}
