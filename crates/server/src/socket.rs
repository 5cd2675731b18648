//! A connection that was accepted: what is read, what is written, and who is at the other end.

use std::net::SocketAddr;

use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::peer::uid_of_tcp;

/// A connection.
pub(crate) struct Socket {
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    pub peer: Peer,
}

/// The other end of it.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// The user of this machine who connects, if that is known.
    pub uid: Option<u32>,
}

impl Socket {
    /// Over TCP, on an address of this machine.
    pub fn tcp(stream: TcpStream, address: SocketAddr) -> Socket {
        // An answer must not wait for more of it, and a client that is gone be found out; where a system
        // has neither, connections work all the same.
        let _ = stream.set_nodelay(true);
        let _ = sockopt::set_socket_keepalive(&stream, true);
        let uid = stream.local_addr().ok().and_then(|local| uid_of_tcp(local, address).ok());
        let (reader, writer) = stream.into_split();
        let peer = Peer { uid };
        Socket { reader: Box::new(reader), writer: Box::new(writer), peer }
    }

    /// By the socket in the directory.
    pub fn unix(stream: UnixStream) -> Socket {
        let uid = stream.peer_cred().ok().map(|own| own.uid());
        let (reader, writer) = stream.into_split();
        let peer = Peer { uid };
        Socket { reader: Box::new(reader), writer: Box::new(writer), peer }
    }
}
