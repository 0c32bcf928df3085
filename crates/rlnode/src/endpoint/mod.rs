//! The doors: each serves one kind of bound socket for the node until it is told to stop.
//!
//! Every door is a file of one shape, `serve(socket, node, shutdown)`, and is listed here. None
//! binds: the server does, and a test hands in a socket of its own.

mod accept;
pub mod envoy;
pub mod http;
mod patience;
pub mod redis;
pub mod seqpacket;
pub mod stream;
pub mod udp;
mod write_limit;

use std::sync::Arc;

use tokio::io::Interest;
use tokio::net::{TcpListener, UdpSocket, UnixListener, UnixStream};

use crate::door::Door;
use crate::node::Node;
use crate::shutdown::Shutdown;

/// Most connections of each listening socket. Ten thousand that do nothing must not keep out who asks,
/// and each that only waits costs some KiB, which docs/operating.md states for every door.
pub const CONNECTIONS_MAX: usize = 16_384;

/// A bound socket and the door that it is for.
#[derive(Debug)]
pub enum Endpoint {
    /// Frames over UDP.
    Udp {
        /// The socket.
        socket: UdpSocket,
        /// It can be reached from beyond this host.
        is_exposed: bool,
    },
    /// Frames over a unix stream.
    Stream(UnixListener),
    /// Frames over unix seqpacket.
    Seqpacket(UnixListener),
    /// HTTP over TCP.
    Http(TcpListener),
    /// HTTP over a unix socket.
    HttpUnix(UnixListener),
    /// The Redis protocol over TCP.
    Redis(TcpListener),
    /// The Redis protocol over a unix socket.
    RedisUnix(UnixListener),
    /// Envoy's rate limit service over TCP.
    Envoy(TcpListener),
    /// Envoy's rate limit service over a unix socket.
    EnvoyUnix(UnixListener),
}

impl Endpoint {
    /// The door that its questions are counted at.
    pub fn door(&self) -> Door {
        match self {
            Self::Udp { .. } => Door::Udp,
            Self::Stream(_) => Door::Stream,
            Self::Seqpacket(_) => Door::Seqpacket,
            Self::Http(_) | Self::HttpUnix(_) => Door::Http,
            Self::Redis(_) | Self::RedisUnix(_) => Door::Redis,
            Self::Envoy(_) | Self::EnvoyUnix(_) => Door::Envoy,
        }
    }

    /// Serves the socket until `shutdown` says to close and what was received is answered.
    pub async fn serve(self, node: Arc<Node>, shutdown: Shutdown) {
        match self {
            Self::Udp { socket, is_exposed } => {
                udp::serve(socket, is_exposed, node, shutdown).await;
            }
            Self::Stream(listener) => stream::serve(listener, node, shutdown).await,
            Self::Seqpacket(listener) => seqpacket::serve(listener, node, shutdown).await,
            Self::Http(listener) => http::serve(listener, node, shutdown).await,
            Self::HttpUnix(listener) => http::serve(listener, node, shutdown).await,
            Self::Redis(listener) => redis::serve(listener, node, shutdown).await,
            Self::RedisUnix(listener) => redis::serve(listener, node, shutdown).await,
            Self::Envoy(listener) => envoy::serve(listener, node, shutdown).await,
            Self::EnvoyUnix(listener) => envoy::serve(listener, node, shutdown).await,
        }
    }
}

/// Whether the client at the other end, which sends no more, takes nothing either: it has gone, and
/// nothing is to be spent for it. One that only said that it sends no more waits for its answers.
async fn has_gone(client: &UnixStream) -> bool {
    let ready = client.ready(Interest::READABLE | Interest::WRITABLE).await;
    ready.is_ok_and(|ready| ready.is_write_closed())
}
