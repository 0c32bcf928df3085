//! The socket: one datagram in, at most one datagram out, on one thread.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::net::sockopt;

use crate::answer::Answerer;

/// Receive buffer asked of the system, as rlnode asks it: room for a burst of thousands of small
/// frames.
const RECEIVE_BYTES: usize = 4 << 20;
/// One byte more than the longest frame, so that a longer datagram shows.
const DATAGRAM_BYTES_MAX: usize = wire::FRAME_BYTES_MAX + 1;
/// Longest time in which a word to stop is not seen.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A bound socket.
#[derive(Debug)]
pub(crate) struct Door {
    socket: UdpSocket,
}

impl Door {
    /// Binds `address`.
    ///
    /// # Errors
    /// If it is taken, or no address of this host.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BYTES)?;
        socket.set_read_timeout(Some(LOOK_EVERY))?;
        Ok(Self { socket })
    }

    /// Answers datagrams until `stop` is set. A reply that cannot be sent is lost, as any datagram
    /// may be.
    ///
    /// # Errors
    /// If nothing can be received any more.
    pub(crate) fn serve(&self, answerer: &Answerer, stop: &AtomicBool) -> io::Result<()> {
        let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
        let mut reply = Vec::with_capacity(wire::FRAME_BYTES_MAX);
        while !stop.load(Ordering::Relaxed) {
            let (length, sender) = match self.socket.recv_from(&mut datagram) {
                Ok(received) => received,
                Err(error) if is_passing(error.kind()) => continue,
                Err(error) => return Err(error),
            };
            reply.clear();
            answerer.answer(datagram.get(..length).unwrap_or_default(), &mut reply);
            if !reply.is_empty() {
                let _ = self.socket.send_to(&reply, sender);
            }
        }
        Ok(())
    }
}

/// Nothing came, or it is about another datagram.
fn is_passing(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock
            | ErrorKind::TimedOut
            | ErrorKind::Interrupted
            | ErrorKind::ConnectionRefused
    )
}
