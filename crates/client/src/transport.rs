//! Sockets to a node: opened, and for the async client sent to and received from without waiting.
//!
//! It knows addresses and bytes, and of frames only where one ends.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::io::Interest;
use tokio::net::{UdpSocket, UnixStream};

use crate::Address;
use crate::inbound::Inbound;

/// Bytes that wait for the socket of a stream before more frames are left in the queue: one long
/// frame, or a few hundred checks in one write.
const OUTBOUND_BYTES_MAX: usize = 65_536;

/// Longest lookup of a host name. Checks made meanwhile end by their own time-out; after it they are
/// answered at once.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);

/// How a socket waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    /// Not at all.
    NonBlocking,
    /// For this long, to connect, to send and to receive.
    Blocking(Duration),
}

/// Opens a socket to a node on a unix socket.
pub(crate) fn open_unix(path: &Path, is_stream: bool, mode: Mode) -> io::Result<Socket> {
    let kind = if is_stream { Type::STREAM } else { Type::SEQPACKET };
    open(Domain::UNIX, kind, &SockAddr::unix(path)?, mode)
}

/// Opens a socket to a node on UDP: to one of `candidates`, the next one after each failed attempt.
///
/// IPv4 addresses come first, because that is what a node listens on unless told otherwise. A
/// connected socket receives from the node alone, and hears at once when nobody listens there.
pub(crate) fn open_udp(
    candidates: impl Iterator<Item = SocketAddr>,
    attempts: u32,
    mode: Mode,
) -> io::Result<Socket> {
    let mut candidates: Vec<_> = candidates.collect();
    candidates.sort_by_key(SocketAddr::is_ipv6);
    let turn = usize::try_from(attempts).unwrap_or_default().checked_rem(candidates.len());
    let address = turn.and_then(|turn| candidates.get(turn)).ok_or(io::ErrorKind::NotFound)?;
    open(Domain::for_address(*address), Type::DGRAM, &SockAddr::from(*address), mode)
}

fn open(domain: Domain, kind: Type, address: &SockAddr, mode: Mode) -> io::Result<Socket> {
    let socket = Socket::new(domain, kind, None)?;
    match mode {
        Mode::NonBlocking => socket.set_nonblocking(true)?,
        Mode::Blocking(timeout) => {
            socket.set_read_timeout(Some(timeout))?;
            // Linux bounds the wait for room in a unix listener's queue by it, too.
            socket.set_write_timeout(Some(timeout))?;
        }
    }
    // Neither UDP nor unix sockets connect in the background: it is done or it failed.
    socket.connect(address)?;
    Ok(socket)
}

/// An open socket that never waits, with what was received from it and what is to be sent.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: AsyncSocket,
    inbound: Inbound,
    /// On a stream any number of frames, else at most one.
    outbound: Vec<u8>,
    /// How much of `outbound` the socket has taken.
    sent: usize,
}

#[derive(Debug)]
enum AsyncSocket {
    Udp(UdpSocket),
    Stream(UnixStream),
    /// Reading and writing once is receiving and sending one message here; only polling it like a
    /// stream would be wrong, because a short read does not mean that there is no more.
    Seqpacket(UnixStream),
}

impl AsyncSocket {
    /// Waits until the socket is ready.
    ///
    /// # Errors
    /// Also what an earlier datagram met: that nobody listens is an error of the socket, which makes
    /// it neither readable nor writable.
    async fn ready(&self, interest: Interest) -> io::Result<()> {
        match self {
            Self::Udp(socket) => {
                if !socket.ready(interest | Interest::ERROR).await?.is_error() {
                    return Ok(());
                }
                let error = socket.try_io(Interest::ERROR, || {
                    Err::<(), _>(socket.take_error()?.unwrap_or(io::ErrorKind::WouldBlock.into()))
                });
                error.or_else(|error| match error.kind() {
                    io::ErrorKind::WouldBlock => Ok(()),
                    _ => Err(error),
                })
            }
            Self::Stream(socket) | Self::Seqpacket(socket) => {
                socket.ready(interest).await.map(drop)
            }
        }
    }

    fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Udp(socket) => socket.try_send(bytes),
            Self::Stream(socket) | Self::Seqpacket(socket) => socket.try_write(bytes),
        }
    }

    fn try_receive(&self, space: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Udp(socket) => socket.try_recv(space),
            Self::Stream(socket) | Self::Seqpacket(socket) => match socket.try_read(space)? {
                0 => Err(io::ErrorKind::UnexpectedEof.into()),
                len => Ok(len),
            },
        }
    }
}

impl Connection {
    /// Opens a connection. Looking up a name is the only part that takes time.
    pub(crate) async fn open(address: &Address, attempts: u32) -> io::Result<Self> {
        let mode = Mode::NonBlocking;
        let unix = |path, is_stream| UnixStream::from_std(open_unix(path, is_stream, mode)?.into());
        let socket = match address {
            Address::Udp { host, port } => {
                let lookup = tokio::net::lookup_host((host.as_str(), *port));
                let candidates = tokio::time::timeout(LOOKUP_TIMEOUT, lookup).await??;
                let socket = open_udp(candidates, attempts, mode)?;
                AsyncSocket::Udp(UdpSocket::from_std(socket.into())?)
            }
            Address::Stream(path) => AsyncSocket::Stream(unix(path, true)?),
            Address::Seqpacket(path) => AsyncSocket::Seqpacket(unix(path, false)?),
        };
        let inbound = Inbound::new(address.is_stream());
        Ok(Self { socket, inbound, outbound: Vec::new(), sent: 0 })
    }

    /// Whether another frame may be queued.
    pub(crate) fn has_room(&self) -> bool {
        match self.socket {
            AsyncSocket::Stream(_) => self.outbound.len() < OUTBOUND_BYTES_MAX,
            AsyncSocket::Udp(_) | AsyncSocket::Seqpacket(_) => self.outbound.is_empty(),
        }
    }

    /// Queues a frame. On a stream it goes out with the next [`Connection::flush`], together with
    /// its neighbours; elsewhere at once if the socket takes it.
    pub(crate) fn queue(&mut self, frame: &[u8]) -> io::Result<()> {
        self.outbound.extend_from_slice(frame);
        match self.socket {
            AsyncSocket::Stream(_) => Ok(()),
            AsyncSocket::Udp(_) | AsyncSocket::Seqpacket(_) => self.flush(),
        }
    }

    /// Sends what the socket takes of what is queued.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while let Some(rest) = self.outbound.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.socket.try_send(rest) {
                Ok(len) => self.sent += len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.outbound.clear();
        self.sent = 0;
        Ok(())
    }

    /// Waits until there is something to receive, or room for what is queued.
    pub(crate) async fn ready(&self) -> io::Result<()> {
        let interest = if self.outbound.is_empty() {
            Interest::READABLE
        } else {
            Interest::READABLE | Interest::WRITABLE
        };
        self.socket.ready(interest).await
    }

    /// Receives once. None if there is nothing; else what the frames are taken from.
    ///
    /// # Errors
    /// If the connection is broken, which includes that the node has closed it.
    pub(crate) fn receive(&mut self) -> io::Result<Option<&mut Inbound>> {
        match self.socket.try_receive(self.inbound.space()) {
            Ok(len) => {
                self.inbound.handle_received(len);
                Ok(Some(&mut self.inbound))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Some(&mut self.inbound)),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket as BlockingUdpSocket;

    #[test]
    fn each_failed_attempt_moves_on_to_the_next_address_and_ipv4_is_tried_first() {
        let bind = || BlockingUdpSocket::bind("127.0.0.1:0").expect("a free port");
        let listeners = [bind(), bind()];
        let addresses = listeners.each_ref().map(|l| l.local_addr().expect("an address"));
        let with_ipv6 = || [SocketAddr::from(([0_u16; 8], 1)), addresses[0], addresses[1]];
        let peer = |attempts| {
            let socket = open_udp(with_ipv6().into_iter(), attempts, Mode::NonBlocking);
            socket.and_then(|socket| socket.peer_addr()).ok().and_then(|peer| peer.as_socket())
        };
        assert_eq!(peer(0), Some(addresses[0]));
        assert_eq!(peer(1), Some(addresses[1]));
        assert_eq!(peer(3), Some(addresses[0]));
    }

    #[test]
    fn name_without_an_address_is_not_found() {
        let error = open_udp(std::iter::empty(), 0, Mode::NonBlocking).expect_err("no address");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
