//! HTTP/1.1 on TCP and on a unix socket: questions, the gateway's question, status and metrics.
//!
//! It bounds what a connection may cost: time for a header and a body, bytes of both.

mod answer;
pub mod cluster_status;
mod dialect;
mod forwarded;
mod headers;
mod operations;
mod problem;
pub mod question;
mod routes;
pub mod status;
pub mod why;

use std::sync::Arc;
use std::time::Duration;

use axum::middleware::from_fn_with_state;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};

pub use dialect::{Dialect, Dialects, Spoken};
pub use forwarded::{Forwarded, parse_forwarded};

use super::accept::{Listener, serve_connections};
use super::write_limit::WriteLimit;
use crate::door::{Door, Fault};
use crate::node::Node;
use crate::shutdown::{LAST_LOOK, Phase, Shutdown};
use routes::Caller;

/// A request's header must be complete this long after the connection opened or the last answer
/// was sent; so it is also how long a connection may be idle.
const HEADER_TIME: Duration = Duration::from_secs(30);
/// Room for a request's line and headers: 16 attributes and a key as long as they may be, and what
/// a gateway adds. It is where hyper stops making room; what exceeds that after its last read is
/// answered with 431.
const HEADER_BYTES_MAX: usize = 64 * 1024;

/// Serves every connection until the shutdown closes and what was received is answered.
pub(super) async fn serve<L>(listener: L, node: Arc<Node>, shutdown: Shutdown)
where
    L: Listener,
    L::Connection: AsyncRead + AsyncWrite + Unpin,
{
    // Two, made once: what a caller may do is known when it connects, and costs no request anything.
    let [for_operators, for_anybody] = [Caller::Operator, Caller::Anybody].map(|caller| {
        let require_host = from_fn_with_state(Arc::clone(&node), routes::require_host);
        routes::router(Arc::clone(&node), caller).layer(require_host)
    });
    serve_connections(listener, Door::Http, node, shutdown, |io, node, shutdown| {
        let router = match caller_of::<L>(&io) {
            Caller::Operator => &for_operators,
            Caller::Anybody => &for_anybody,
        };
        serve_connection(io, TowerToHyperService::new(router.clone()), node, shutdown)
    })
    .await;
}

fn caller_of<L: Listener>(connection: &L::Connection) -> Caller {
    match L::user_of(connection) {
        Some(user) if user == 0 || user == rustix::process::geteuid().as_raw() => Caller::Operator,
        _ => Caller::Anybody,
    }
}

async fn serve_connection(
    io: impl AsyncRead + AsyncWrite + Unpin,
    service: TowerToHyperService<axum::Router>,
    node: Arc<Node>,
    mut shutdown: Shutdown,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(WriteLimit::new(io)), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.reached(Phase::Closing) => {
            // A request may have arrived that was not read yet; its answer ends the connection.
            match tokio::time::timeout(LAST_LOOK, connection.as_mut()).await {
                Ok(ended) => ended,
                Err(_) => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            }
        }
    };
    if let Err(error) = ended {
        let fault = if error.is_timeout() || is_stalled(&error) {
            Fault::Timeout
        } else if error.is_parse_too_large() {
            Fault::TooLarge
        } else if error.is_parse() {
            Fault::Malformed
        } else {
            // The client went away in the middle, which is its right.
            return;
        };
        node.counters().count_fault(Door::Http, fault);
    }
}

/// Whether the client took nothing for too long.
fn is_stalled(error: &hyper::Error) -> bool {
    let source = std::error::Error::source(error);
    source
        .and_then(|source| source.downcast_ref::<std::io::Error>())
        .is_some_and(|error| error.kind() == std::io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests;
