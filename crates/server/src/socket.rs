//! An accepted connection: what is read, what is written, and who is at the other end.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::peer::uid_of_tcp;

/// A connection.
pub(crate) struct Socket {
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    pub peer: Peer,
}

/// The other end of the connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// The user of this machine who connects, if that is known.
    pub uid: Option<u32>,
    /// From where; `None`: by the socket in the directory.
    pub address: Option<IpAddr>,
}

impl Peer {
    /// Whether it may come from another machine.
    pub fn is_remote(&self) -> bool {
        self.address.is_some_and(|address| !address.is_loopback())
    }
}

/// Both ways of a connection as one, and what was read of it before.
pub(crate) struct Joined {
    pub before: Bytes,
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
}

impl AsyncRead for Joined {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.before.is_empty() {
            return Pin::new(&mut self.reader).poll_read(cx, buffer);
        }
        let count = self.before.len().min(buffer.remaining());
        buffer.put_slice(&self.before[..count]);
        self.before.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Joined {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.writer).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.writer).poll_shutdown(cx)
    }
}

impl Socket {
    /// Over TCP.
    pub fn tcp(stream: TcpStream, address: SocketAddr) -> Socket {
        // Answers must not be delayed to be joined with others, and a client that is gone must be
        // noticed; on a system that has neither option, connections work all the same.
        let _ = stream.set_nodelay(true);
        let _ = sockopt::set_socket_keepalive(&stream, true);
        let uid = stream.local_addr().ok().and_then(|local| uid_of_tcp(local, address).ok());
        let (reader, writer) = stream.into_split();
        let peer = Peer { uid, address: Some(address.ip().to_canonical()) };
        Socket { reader: Box::new(reader), writer: Box::new(writer), peer }
    }

    /// By the socket in the directory.
    pub fn unix(stream: UnixStream) -> Socket {
        let uid = stream.peer_cred().ok().map(|own| own.uid());
        let (reader, writer) = stream.into_split();
        let peer = Peer { uid, address: None };
        Socket { reader: Box::new(reader), writer: Box::new(writer), peer }
    }
}
