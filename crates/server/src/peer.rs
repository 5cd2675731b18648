//! The system user at the other end of a local connection, as the kernel reports it.
//!
//! Source: sock_diag(7), and `struct inet_diag_req_v2` and `inet_diag_msg` of Linux.

#![expect(clippy::host_endian_bytes, reason = "the kernel speaks in the order of the machine")]

use std::io;
use std::net::{IpAddr, SocketAddr};

use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
    sockopt,
};

const BY_FAMILY: u16 = 20;
const REQUEST: u16 = 1;
const TCP: u8 = 6;

/// Where the user stands in the answer: behind two headers, the socket and three numbers.
const UID_AT: usize = 16 + 4 + 48 + 12;
const INODE_AT: usize = UID_AT + 4;
const STATE_AT: usize = 17;
const ESTABLISHED: u8 = 1;

/// The family, the ports and the addresses in the answer, each address of 16 bytes.
const FAMILY_AT: usize = 16;
const PORTS_AT: usize = 20;
const ADDRESSES_AT: usize = 24;
const IPV6: u8 = 10;

/// How long to wait for the kernel.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);

/// The user who owns the other end of a local TCP connection.
///
/// # Errors
/// It is of another machine, or the kernel does not tell.
pub(crate) fn uid_of_tcp(local: SocketAddr, peer: SocketAddr) -> io::Result<u32> {
    let (local, peer) = (plain(local), plain(peer));
    if !peer.ip().is_loopback() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no socket of this machine"));
    }
    let uid = query_owner(peer, local)?.uid;
    // If the client has gone, its address may be another's by now; while our end stands, it cannot be.
    query_owner(local, peer)?;
    Ok(uid)
}

/// A local socket, as the kernel describes it.
struct SocketOwner {
    uid: u32,
}

/// Asks for the socket that has these addresses; it must be one of a process, and connected.
fn query_owner(own: SocketAddr, other: SocketAddr) -> io::Result<SocketOwner> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(SOCK_DIAG),
    )?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(TIMEOUT))?;
    let request = request(own, other);
    sendto(&socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0u8; 1024];
    let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    owner_in(&answer[..length], own, other)
}

/// An IPv4 address that came as an IPv6 one.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// A question for the socket that has these addresses.
fn request(own: SocketAddr, other: SocketAddr) -> Vec<u8> {
    let mut body = Vec::with_capacity(72);
    let family = if own.is_ipv4() { 2u8 } else { 10 };
    body.extend_from_slice(&[family, TCP, 0, 0]);
    // In whatever state.
    body.extend_from_slice(&u32::MAX.to_ne_bytes());
    body.extend_from_slice(&own.port().to_be_bytes());
    body.extend_from_slice(&other.port().to_be_bytes());
    for address in [own.ip(), other.ip()] {
        let mut bytes = [0u8; 16];
        match address {
            IpAddr::V4(own) => bytes[..4].copy_from_slice(&own.octets()),
            IpAddr::V6(own) => bytes = own.octets(),
        }
        body.extend_from_slice(&bytes);
    }
    body.extend_from_slice(&0u32.to_ne_bytes());
    // No cookie.
    body.extend_from_slice(&u64::MAX.to_ne_bytes());
    let mut message = Vec::with_capacity(16 + body.len());
    message.extend_from_slice(&(16 + body.len() as u32).to_ne_bytes());
    message.extend_from_slice(&BY_FAMILY.to_ne_bytes());
    message.extend_from_slice(&REQUEST.to_ne_bytes());
    message.extend_from_slice(&[0; 8]);
    message.extend_from_slice(&body);
    message
}

fn owner_in(answer: &[u8], own: SocketAddr, other: SocketAddr) -> io::Result<SocketOwner> {
    let none = || io::Error::new(io::ErrorKind::NotFound, "the kernel knows no such socket");
    let kind = answer.get(4..6).and_then(|own| own.try_into().ok()).map(u16::from_ne_bytes);
    if kind != Some(BY_FAMILY) {
        return Err(none());
    }
    let number = |at: usize| {
        let bytes = answer.get(at..at + 4).and_then(|own| own.try_into().ok());
        bytes.map(u32::from_ne_bytes).ok_or(io::ErrorKind::UnexpectedEof)
    };
    // A socket that has been closed belongs to nobody: the kernel then says that it is root's.
    let is_open = answer.get(STATE_AT) == Some(&ESTABLISHED) && number(INODE_AT)? != 0;
    // Where there is no such socket, the answer may be about one that listens.
    let is_same = address_in(answer, 0) == Some(own) && address_in(answer, 1) == Some(other);
    match is_open && is_same {
        true => Ok(SocketOwner { uid: number(UID_AT)? }),
        false => Err(none()),
    }
}

/// One of the two addresses of an answer. An IPv6 socket may have IPv4-mapped addresses: those of Java
/// do.
fn address_in(answer: &[u8], at: usize) -> Option<SocketAddr> {
    let port = answer.get(PORTS_AT + 2 * at..)?.first_chunk::<2>()?;
    let bytes = answer.get(ADDRESSES_AT + 16 * at..)?.first_chunk::<16>()?;
    let address = match *answer.get(FAMILY_AT)? == IPV6 {
        true => IpAddr::from(*bytes),
        false => IpAddr::from(*bytes.first_chunk::<4>()?),
    };
    Some(plain(SocketAddr::new(address, u16::from_be_bytes(*port))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_who_a_loopback_connection_is_of() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, peer) = listener.accept().unwrap();
        let uid = uid_of_tcp(server.local_addr().unwrap(), peer).unwrap();
        assert_eq!(uid, rustix::process::geteuid().as_raw());
        // Java's sockets are IPv6 sockets with IPv4-mapped addresses.
        let mapped =
            socket_with(AddressFamily::INET6, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let mapped = mapped.unwrap();
        let at = SocketAddr::new(
            std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped().into(),
            listener.local_addr().unwrap().port(),
        );
        rustix::net::connect(&mapped, &at).unwrap();
        let (server, from) = listener.accept().unwrap();
        let uid = uid_of_tcp(server.local_addr().unwrap(), from).unwrap();
        assert_eq!(uid, rustix::process::geteuid().as_raw());
        // A client that has closed its end is nobody.
        let gone = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (left, address) = listener.accept().unwrap();
        drop(gone);
        assert!(uid_of_tcp(left.local_addr().unwrap(), address).is_err());
        let nobody = SocketAddr::new(peer.ip(), 1);
        assert!(uid_of_tcp(server.local_addr().unwrap(), nobody).is_err());
        assert!(uid_of_tcp(server.local_addr().unwrap(), "10.0.0.1:5".parse().unwrap()).is_err());
    }
}
