//! Where a server listens, and opening a socket to it.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::failure::Failure;

/// Receive buffer asked for on UDP, where what does not fit is lost. The system may grant less.
const UDP_RECEIVE_BYTES: usize = 4 << 20;

/// A listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// A UDP port.
    Udp(SocketAddr),
    /// A TCP port.
    Tcp(SocketAddr),
    /// A unix stream socket.
    Unix(PathBuf),
    /// A unix seqpacket socket.
    Seqpacket(PathBuf),
}

impl Address {
    /// Opens a socket to it, on which a receive waits for `timeout` at most.
    ///
    /// # Errors
    /// If nobody listens there.
    pub(crate) fn connect(&self, timeout: Duration) -> Result<OwnedFd, Failure> {
        let connected = self.open().and_then(|socket| {
            sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(timeout))?;
            Ok(socket)
        });
        connected.map_err(|error| Failure::because(format!("cannot connect to `{self}`"), error))
    }

    fn open(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Udp(to) => {
                let any = match to {
                    SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
                    SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(to)?;
                sockopt::set_socket_recv_buffer_size(&socket, UDP_RECEIVE_BYTES)?;
                Ok(socket.into())
            }
            Self::Tcp(to) => {
                let stream = TcpStream::connect(to)?;
                stream.set_nodelay(true)?;
                Ok(stream.into())
            }
            Self::Unix(path) => Ok(UnixStream::connect(path)?.into()),
            Self::Seqpacket(path) => {
                let socket = rustix::net::socket_with(
                    AddressFamily::UNIX,
                    SocketType::SEQPACKET,
                    SocketFlags::CLOEXEC,
                    None,
                )?;
                rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
                Ok(socket)
            }
        }
    }

    /// Whether one send is one receive at the other end.
    pub(crate) fn keeps_messages(&self) -> bool {
        matches!(self, Self::Udp(_) | Self::Seqpacket(_))
    }

    /// Whether what is sent may not arrive.
    pub(crate) fn loses_messages(&self) -> bool {
        matches!(self, Self::Udp(_))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp(address) => write!(f, "udp://{address}"),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Seqpacket(path) => write!(f, "seqpacket://{}", path.display()),
        }
    }
}
