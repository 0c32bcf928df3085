//! The UDP socket of an endpoint: large kernel buffers, and a count of what cannot be QUIC.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, Runtime, UdpPoller};
use socket2::{Domain, Protocol, Socket, Type};

use super::counts::Counts;

/// Kernel buffer in each direction: a batch of 256 KiB from each of sixteen peers at one moment. The
/// default of 208 KiB loses the tails of such bursts (`examples/peers/RESULTS.md`). The kernel may
/// grant less (`net.core.rmem_max`); what does not fit is lost and sent again.
const BUFFER_LEN: usize = 4 << 20;

/// Shortest datagram that can be a packet of QUIC: flags, number, and what is sampled to unprotect
/// them (RFC 9001, 5.4.2).
const PACKET_LEN_MIN: usize = 21;
/// Set in the first byte of every packet to an endpoint that does not ask for the contrary.
const FIXED_BIT: u8 = 0x40;
/// Set in the first byte of packets that carry a version.
const LONG_HEADER: u8 = 0x80;
/// Versions of packets that this endpoint reads: QUIC 1, and the negotiation of another.
const VERSIONS: [[u8; 4]; 2] = [[0, 0, 0, 1], [0, 0, 0, 0]];

/// Binds a socket for peers; datagrams that cannot be QUIC are counted in `counts`.
pub(super) fn bind(
    address: SocketAddr,
    runtime: &dyn Runtime,
    counts: &Arc<Counts>,
) -> io::Result<Arc<dyn AsyncUdpSocket>> {
    let inner = runtime.wrap_udp_socket(open(address)?)?;
    Ok(Arc::new(Counting { inner, counts: Arc::clone(counts) }))
}

fn open(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        // An address that stands for all of them stands for those of IPv4 too.
        socket.set_only_v6(false)?;
    }
    socket.set_recv_buffer_size(BUFFER_LEN)?;
    socket.set_send_buffer_size(BUFFER_LEN)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// A socket that looks at what it receives before quinn does, which drops garbage silently.
struct Counting {
    inner: Arc<dyn AsyncUdpSocket>,
    counts: Arc<Counts>,
}

impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl AsyncUdpSocket for Counting {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.inner).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        self.inner.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let received = std::task::ready!(self.inner.poll_recv(cx, bufs, meta))?;
        for (buffer, meta) in bufs.iter().zip(meta.iter()).take(received) {
            let bytes = buffer.get(..meta.len).unwrap_or(buffer);
            // The kernel may hand over several datagrams of one length as one.
            for datagram in bytes.chunks(meta.stride.max(1)) {
                if !may_be_quic(datagram) {
                    Counts::add_one(&self.counts.not_quic);
                }
            }
        }
        Poll::Ready(Ok(received))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.inner.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

fn may_be_quic(datagram: &[u8]) -> bool {
    let Some(first) = datagram.first().filter(|_| datagram.len() >= PACKET_LEN_MIN) else {
        return false;
    };
    let version = datagram.get(1..5);
    let is_known = VERSIONS.iter().any(|known| version == Some(known.as_slice()));
    first & FIXED_BIT != 0 && (first & LONG_HEADER == 0 || is_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_garbage_from_what_may_be_a_packet() {
        let packet = |first: u8, version: u8| {
            let mut bytes = vec![0; 40];
            bytes[0] = first;
            bytes[4] = version;
            bytes
        };
        assert!(may_be_quic(&packet(0x40, 9)), "a short header");
        assert!(may_be_quic(&packet(0xc0, 1)), "a long one");
        assert!(!may_be_quic(&packet(0xc0, 2)), "another version");
        assert!(!may_be_quic(&packet(0x00, 1)), "no fixed bit");
        assert!(!may_be_quic(&packet(0x40, 1)[..20]), "too short");
        assert!(!may_be_quic(&[]));
    }
}
