//! A client that speaks PostgreSQL's protocol byte by byte, so that a test can also speak it wrongly.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::program::{cellar, command};

/// A server over a new database.
pub struct Served {
    pub dir: tempfile::TempDir,
    pub child: Child,
    pub port: u16,
}

/// A database with a redo log, and its server.
pub fn served() -> Served {
    let dir = tempfile::tempdir().unwrap();
    let made = cellar(
        dir.path(),
        &["init", "db", "--disks", "2", "--disk-size", "256M", "--redo-size", "16M"],
    );
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (child, port) = start(dir.path());
    Served { dir, child, port }
}

/// Starts a server over the database of a directory; its port.
pub fn start(dir: &Path) -> (Child, u16) {
    let mut child = command(dir, &["start", "db", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("Ready: psql -h 127.0.0.1"), "{line}");
    let port = line.trim().rsplit(' ').next().unwrap().parse().unwrap();
    (child, port)
}

impl Served {
    pub fn client(&self) -> Wire {
        Wire::session(self.port)
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(std::process::Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Ends it in order.
    pub fn end(mut self) -> tempfile::TempDir {
        self.signal("-TERM");
        assert!(self.child.wait().unwrap().success());
        std::mem::replace(&mut self.dir, tempfile::tempdir().unwrap())
    }

    /// Kills it, and starts it again.
    pub fn again(&mut self) {
        self.signal("-KILL");
        self.child.wait().unwrap();
        (self.child, self.port) = start(self.dir.path());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A message of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub kind: u8,
    pub body: Vec<u8>,
}

impl Message {
    /// A field of an error or a notice.
    pub fn field(&self, code: u8) -> String {
        let fields = self.body.split(|byte| *byte == 0);
        let found = fields.filter(|field| field.first() == Some(&code)).map(|field| &field[1..]);
        String::from_utf8_lossy(found.into_iter().next().unwrap_or_default()).into_owned()
    }

    /// The values of a row, in text.
    pub fn values(&self) -> Vec<Option<String>> {
        self.bytes().into_iter().map(|own| own.map(|own| String::from_utf8(own).unwrap())).collect()
    }

    pub fn bytes(&self) -> Vec<Option<Vec<u8>>> {
        assert_eq!(self.kind, b'D', "{self:?}");
        let (count, mut rest) = self.body.split_at(2);
        let count = u16::from_be_bytes(count.try_into().unwrap());
        let value = |_| {
            let (length, behind) = rest.split_at(4);
            let length = i32::from_be_bytes(length.try_into().unwrap());
            let (value, behind) = behind.split_at(length.max(0) as usize);
            rest = behind;
            (length >= 0).then(|| value.to_vec())
        };
        (0..count).map(value).collect()
    }
}

/// A connection.
pub struct Wire {
    pub socket: TcpStream,
    /// Process and secret, for who wants to stop what it does.
    pub key: Vec<u8>,
}

pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// A first message: its code and body.
pub fn first(code: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32 + 8).to_be_bytes().to_vec();
    bytes.extend_from_slice(&code.to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

pub fn query(sql: &str) -> Vec<u8> {
    message(b'Q', &[sql.as_bytes(), b"\0"].concat())
}

pub fn parse(name: &str, sql: &str, types: &[u32]) -> Vec<u8> {
    let mut body = [name.as_bytes(), b"\0", sql.as_bytes(), b"\0"].concat();
    body.extend_from_slice(&(types.len() as u16).to_be_bytes());
    types.iter().for_each(|oid| body.extend_from_slice(&oid.to_be_bytes()));
    message(b'P', &body)
}

/// Binds values in one format to a statement; its rows come in another.
pub fn bind(
    (portal, statement): (&str, &str),
    (format, values): (u16, &[Option<&[u8]>]),
    result: u16,
) -> Vec<u8> {
    let mut body = [portal.as_bytes(), b"\0", statement.as_bytes(), b"\0"].concat();
    body.extend_from_slice(&1u16.to_be_bytes());
    body.extend_from_slice(&format.to_be_bytes());
    body.extend_from_slice(&(values.len() as u16).to_be_bytes());
    for value in values {
        match value {
            None => body.extend_from_slice(&(-1i32).to_be_bytes()),
            Some(value) => {
                body.extend_from_slice(&(value.len() as u32).to_be_bytes());
                body.extend_from_slice(value);
            }
        }
    }
    body.extend_from_slice(&1u16.to_be_bytes());
    body.extend_from_slice(&result.to_be_bytes());
    message(b'B', &body)
}

pub fn describe(kind: u8, name: &str) -> Vec<u8> {
    message(b'D', &[&[kind], name.as_bytes(), b"\0"].concat())
}

pub fn execute(portal: &str, most: u32) -> Vec<u8> {
    message(b'E', &[portal.as_bytes(), b"\0", &most.to_be_bytes()].concat())
}

pub fn sync() -> Vec<u8> {
    message(b'S', b"")
}

impl Wire {
    /// A connection on which nothing was said.
    pub fn connect(port: u16) -> Wire {
        let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        socket.set_nodelay(true).unwrap();
        Wire { socket, key: Vec::new() }
    }

    /// A session.
    pub fn session(port: u16) -> Wire {
        let mut wire = Wire::connect(port);
        wire.send(&[first(3 << 16, b"user\0cellar\0database\0cellar\0\0")]);
        loop {
            let message = wire.next().unwrap();
            match message.kind {
                b'Z' => return wire,
                b'K' => wire.key = message.body,
                b'E' => panic!("{}", message.field(b'M')),
                _ => {}
            }
        }
    }

    pub fn send(&mut self, messages: &[Vec<u8>]) {
        self.socket.write_all(&messages.concat()).unwrap();
    }

    /// The next message; `None`: the connection is over.
    pub fn next(&mut self) -> Option<Message> {
        let mut head = [0u8; 5];
        self.socket.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes(head[1..].try_into().unwrap()) as usize;
        let mut body = vec![0; length - 4];
        self.socket.read_exact(&mut body).unwrap();
        Some(Message { kind: head[0], body })
    }

    /// All up to the next that says that the session is ready.
    pub fn answers(&mut self) -> Vec<Message> {
        let mut answers = Vec::new();
        loop {
            let next = self.next().expect("the session is there");
            let is_last = next.kind == b'Z';
            answers.push(next);
            if is_last {
                return answers;
            }
        }
    }

    /// The kinds of messages that answer these, as letters.
    pub fn kinds(&mut self, messages: &[Vec<u8>]) -> String {
        self.send(messages);
        let kinds = self.answers().into_iter().filter(|own| !matches!(own.kind, b'S' | b'N'));
        kinds.map(|own| own.kind as char).collect()
    }

    /// What a text of statements gives: rows, tags and SQLSTATEs.
    pub fn sql(&mut self, sql: &str) -> String {
        self.send(&[query(sql)]);
        shown(&self.answers())
    }
}

/// Messages as a line: rows in parentheses, tags, SQLSTATEs, and how the session stands where it is not idle.
pub fn shown(messages: &[Message]) -> String {
    let mut out = Vec::new();
    for message in messages {
        match message.kind {
            b'D' => {
                let values = message.values().into_iter();
                let values: Vec<String> = values.map(|own| own.unwrap_or("NULL".into())).collect();
                out.push(format!("({})", values.join(",")));
            }
            b'C' => {
                out.push(String::from_utf8_lossy(&message.body[..message.body.len() - 1]).into());
            }
            b'E' => out.push(message.field(b'C')),
            b's' => out.push("suspended".to_owned()),
            b'I' => out.push("empty".to_owned()),
            b'Z' if message.body != b"I" => {
                out.push(String::from_utf8_lossy(&message.body).into_owned());
            }
            _ => {}
        }
    }
    out.join(" ")
}
