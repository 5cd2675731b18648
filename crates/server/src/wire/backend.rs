//! Messages to the client, collected until they are worth a write.

use std::io;

use bytes::{BufMut, BytesMut};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::error::Refusal;
use cellar_sql::About;
use cellar_sql::binary::PgType;

/// Bytes that are collected before they are written.
const GATHERED: usize = 32 << 10;

/// A buffer larger than this is freed when it is empty.
const KEPT: usize = 128 << 10;

/// Whether a session is in a transaction, as ReadyForQuery reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Idle,
    Open,
    Failed,
}

/// A column of rows.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub name: String,
    pub own: PgType,
    /// The number of the table that the column belongs to, and its number there; 0: of none.
    pub origin: (u32, i16),
    /// 0 text, 1 binary.
    pub format: i16,
}

/// What an error or a notice says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub severity: &'static str,
    pub sqlstate: &'static str,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// Where in the statement, in characters from 1.
    pub position: Option<usize>,
    /// The table, and what of it.
    pub about: Option<Box<About>>,
}

impl Said {
    /// What a client is told when it is not let on.
    pub fn fatal(refusal: &Refusal) -> Said {
        Said { severity: "FATAL", ..Said::error(refusal) }
    }

    pub fn error(refusal: &Refusal) -> Said {
        Said {
            severity: "ERROR",
            sqlstate: refusal.sqlstate,
            message: refusal.message.clone(),
            hint: refusal.hint.map(str::to_owned),
            ..Said::default()
        }
    }

    pub fn notice(message: String) -> Said {
        Said { severity: "NOTICE", sqlstate: "00000", message, ..Said::default() }
    }
}

/// Messages on their way to a client.
pub(crate) struct Out {
    socket: Box<dyn AsyncWrite + Send + Unpin>,
    buffer: BytesMut,
    /// It contains a ReadyForQuery: the client waits for what comes before it.
    is_awaited: bool,
}

impl Out {
    pub fn new(socket: Box<dyn AsyncWrite + Send + Unpin>) -> Out {
        Out { socket, buffer: BytesMut::new(), is_awaited: false }
    }

    /// Writes what is gathered.
    ///
    /// # Errors
    /// The client cannot be reached.
    pub async fn flush(&mut self) -> io::Result<()> {
        while !self.buffer.is_empty() {
            if self.socket.write_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        self.is_awaited = false;
        if self.buffer.capacity() > KEPT {
            self.buffer = BytesMut::new();
        }
        self.socket.flush().await
    }

    /// Writes what is collected, and closes the connection cleanly.
    pub async fn end(&mut self) {
        // A client that has gone is sent nothing.
        let _ = self.flush().await;
        let _ = self.socket.shutdown().await;
    }

    /// What it writes to: to be written in another way from here on.
    pub fn taken(&mut self) -> Box<dyn AsyncWrite + Send + Unpin> {
        std::mem::replace(&mut self.socket, Box::new(tokio::io::sink()))
    }

    /// Writes to this one from here on.
    pub fn go_on(&mut self, socket: Box<dyn AsyncWrite + Send + Unpin>) {
        self.socket = socket;
    }

    /// Writes what is gathered, before something is waited for: if it is much, or ends with a Sync. The rest goes
    /// with the Sync that ends it.
    ///
    /// # Errors
    /// The client cannot be reached.
    pub async fn flush_awaited(&mut self) -> io::Result<()> {
        if self.is_awaited || self.has_much() { self.flush().await } else { Ok(()) }
    }

    /// Writes what is gathered, if it is much.
    ///
    /// # Errors
    /// The client cannot be reached.
    pub async fn flush_much(&mut self) -> io::Result<()> {
        if self.has_much() { self.flush().await } else { Ok(()) }
    }

    /// Whether what is gathered is worth a write.
    pub fn has_much(&self) -> bool {
        self.buffer.len() >= GATHERED
    }

    /// A byte without a message around it: the answer to a request for encryption.
    pub fn raw(&mut self, byte: u8) {
        self.buffer.put_u8(byte);
    }

    fn message(&mut self, kind: u8, body: impl FnOnce(&mut BytesMut)) {
        self.buffer.put_u8(kind);
        let at = self.buffer.len();
        self.buffer.put_u32(0);
        body(&mut self.buffer);
        self.end_message(at);
    }

    /// Writes the length of a message whose length stands at `at`. A row of more than 2 GB was refused before.
    fn end_message(&mut self, at: usize) {
        let length = u32::try_from(self.buffer.len() - at).unwrap_or(u32::MAX);
        self.buffer[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// The client is let in.
    pub fn authenticated(&mut self) {
        self.message(b'R', |out| out.put_u32(0));
    }

    /// The client is to prove by one of these methods that it knows a password.
    pub fn prove_by(&mut self, methods: &[&str]) {
        self.message(b'R', |out| {
            out.put_u32(10);
            methods.iter().for_each(|name| text(out, name));
            out.put_u8(0);
        });
    }

    /// A step of such a proof, or its end.
    pub fn proof(&mut self, is_end: bool, said: &str) {
        self.message(b'R', |out| {
            out.put_u32(if is_end { 12 } else { 11 });
            out.put_slice(said.as_bytes());
        });
    }

    pub fn parameter(&mut self, name: &str, value: &str) {
        self.message(b'S', |out| {
            text(out, name);
            text(out, value);
        });
    }

    pub fn key(&mut self, process: i32, secret: u32) {
        self.message(b'K', |out| {
            out.put_i32(process);
            out.put_u32(secret);
        });
    }

    /// The client has a newer minor version, or sent options that are unknown here.
    pub fn negotiate(&mut self, minor: u16, options: &[String]) {
        self.message(b'v', |out| {
            // The whole version: clients compare it with what they asked for.
            out.put_u32(3 << 16 | u32::from(minor));
            out.put_u32(options.len() as u32);
            options.iter().for_each(|name| text(out, name));
        });
    }

    pub fn ready(&mut self, status: Status) {
        let status = match status {
            Status::Idle => b'I',
            Status::Open => b'T',
            Status::Failed => b'E',
        };
        self.message(b'Z', |out| out.put_u8(status));
        self.is_awaited = true;
    }

    /// A message that says only that something is done: `1` parsed, `2` bound, `3` closed, `n` no data, `s` suspended,
    /// `I` nothing was asked, `c` copied.
    pub fn plain(&mut self, kind: u8) {
        self.message(kind, |_| ());
    }

    pub fn complete(&mut self, tag: &str) {
        self.message(b'C', |out| text(out, tag));
    }

    pub fn parameters(&mut self, oids: &[u32]) {
        self.message(b't', |out| {
            out.put_u16(u16::try_from(oids.len()).unwrap_or(u16::MAX));
            oids.iter().for_each(|oid| out.put_u32(*oid));
        });
    }

    pub fn columns(&mut self, columns: &[Column]) {
        self.message(b'T', |out| {
            out.put_u16(u16::try_from(columns.len()).unwrap_or(u16::MAX));
            for column in columns {
                text(out, &column.name);
                out.put_u32(column.origin.0);
                out.put_i16(column.origin.1);
                out.put_u32(column.own.oid);
                out.put_i16(column.own.size);
                out.put_i32(column.own.modifier);
                out.put_i16(column.format);
            }
        });
    }

    /// A row, whose values `body` writes; `Err`: nothing is sent.
    ///
    /// # Errors
    /// Those of `body`.
    pub fn row<E>(
        &mut self,
        count: usize,
        body: impl FnOnce(&mut BytesMut) -> Result<(), E>,
    ) -> Result<(), E> {
        let begin = self.buffer.len();
        self.buffer.put_u8(b'D');
        self.buffer.put_u32(0);
        self.buffer.put_u16(u16::try_from(count).unwrap_or(u16::MAX));
        match body(&mut self.buffer) {
            Ok(()) => {
                self.end_message(begin + 1);
                Ok(())
            }
            Err(error) => {
                self.buffer.truncate(begin);
                Err(error)
            }
        }
    }

    /// A COPY begins: `G` from the client, `H` to it. `format`: 0 text, 1 binary.
    pub fn copying(&mut self, kind: u8, format: i16, columns: usize) {
        self.message(kind, |out| {
            out.put_u8(u8::from(format == 1));
            out.put_u16(u16::try_from(columns).unwrap_or(u16::MAX));
            (0..columns).for_each(|_| out.put_i16(format));
        });
    }

    pub fn copy_data(&mut self, bytes: &[u8]) {
        self.message(b'd', |out| out.put_slice(bytes));
    }

    /// An error (`E`) or a notice (`N`).
    pub fn said(&mut self, said: &Said) {
        let kind = if matches!(said.severity, "ERROR" | "FATAL") { b'E' } else { b'N' };
        self.message(kind, |out| {
            let mut field = |code: u8, value: &str| {
                out.put_u8(code);
                text(out, value);
            };
            field(b'S', said.severity);
            field(b'V', said.severity);
            field(b'C', said.sqlstate);
            field(b'M', &said.message);
            said.detail.iter().for_each(|own| field(b'D', own));
            said.hint.iter().for_each(|own| field(b'H', own));
            said.position.iter().for_each(|own| field(b'P', &own.to_string()));
            if let Some(about) = &said.about {
                field(b's', &about.schema);
                field(b't', &about.table);
                about.column.iter().for_each(|own| field(b'c', own));
                about.constraint.iter().for_each(|own| field(b'n', own));
            }
            out.put_u8(0);
        });
    }
}

/// A text and its NUL; one within it would end it.
fn text(out: &mut BytesMut, text: &str) {
    let bytes = text.as_bytes();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    out.put_slice(&bytes[..end]);
    out.put_u8(0);
}
