//! The end of the socket that asks. Calls block: a command line waits for its answer anyway.

use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::wire::{Frame, Hello, PROTOCOL, Request, StreamError};

/// The process that has DIR says hello at once; one that is stopped or hangs does not.
const HELLO_WITHIN: Duration = Duration::from_secs(2);

/// A connection to the process that has DIR.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    hello: Hello,
}

impl Client {
    pub(super) fn connect(short: &Path, shown: &Path) -> Result<Option<Client>> {
        let mut stream = match UnixStream::connect(short) {
            Ok(stream) => stream,
            Err(error) => {
                return match error.kind() {
                    // No socket, or one that nobody listens on any more.
                    ErrorKind::NotFound | ErrorKind::ConnectionRefused => Ok(None),
                    _ => Err(Error::system("connect to", shown, &error)),
                };
            }
        };
        let refused = |error: std::io::Error| Error::system("use", shown, &error);
        super::server::check_peer(&stream, super::server::End::Client, shown)?;
        stream.set_read_timeout(Some(HELLO_WITHIN)).map_err(refused)?;
        let hello = match Frame::read(&mut stream) {
            Ok(Some(Frame::Hello(hello))) => hello,
            // It stops just now, or hangs.
            Ok(None) | Err(StreamError::Gone(_)) => return Ok(None),
            Ok(Some(_)) => return Err(Error::new(70113, "the answer does not begin with hello")),
            Err(StreamError::Nonsense(error)) => return Err(error),
        };
        if hello.protocol != PROTOCOL {
            let Hello { protocol, version, pid } = hello;
            let message = format!(
                "process {pid} (Cellar {version}) speaks protocol {protocol}, this one {PROTOCOL}"
            );
            return Err(Error::new(70104, message)
                .hint(format!("use the same version, or end process {pid} first")));
        }
        stream.set_read_timeout(None).map_err(refused)?;
        Ok(Some(Client { stream, hello }))
    }

    /// Who answers.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Sends a request and hands the answer on as it comes: `sink` is given the stdout and
    /// stderr frames. Returns the exit code.
    ///
    /// # Errors
    /// 70105 if the other process went away: what it did until then is unknown. What `sink`
    /// reports ends the connection.
    pub fn call(
        &mut self,
        request: Request,
        sink: &mut dyn FnMut(Frame) -> Result<()>,
    ) -> Result<u8> {
        let pid = self.hello.pid;
        let gone = |error| match error {
            StreamError::Gone(error) => Error::new(
                70105,
                format!("process {pid}, which has the directory, went away: {error}"),
            )
            .hint("see whether the command was done, then try again"),
            StreamError::Nonsense(error) => error,
        };
        Frame::Request(request).write(&mut self.stream).map_err(gone)?;
        loop {
            match Frame::read(&mut self.stream).map_err(gone)? {
                Some(Frame::Exit(code)) => return Ok(code),
                Some(frame @ (Frame::Stdout(_) | Frame::Stderr(_))) => sink(frame)?,
                Some(Frame::Hello(_) | Frame::Request(_)) => {
                    return Err(Error::new(
                        70113,
                        "the answer holds a frame that has no place there",
                    ));
                }
                None => return Err(gone(std::io::Error::from(ErrorKind::UnexpectedEof).into())),
            }
        }
    }
}
