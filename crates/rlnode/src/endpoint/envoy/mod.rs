//! Envoy's rate limit service, version 3, and the health service of gRPC: HTTP/2 on TCP and on a unix socket.
//!
//! It bounds what a connection may cost: streams, bytes of a message, time for its first bytes.

mod answer;
mod health;
pub mod mapping;
pub mod messages;
mod service;
pub mod values;

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::body::Body;
use tonic::server::{Grpc, ServerStreamingService, UnaryService};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use super::accept::{Listener, serve_connections};
use super::write_limit::WriteLimit;
use crate::door::{Door, Fault};
use crate::node::Node;
use crate::shutdown::{LAST_LOOK, Phase, Shutdown};
use messages::{HealthCheckRequest, HealthCheckResponse, RateLimitRequest, RateLimitResponse};

/// Name of the service.
const RATE_LIMIT_SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";
/// Longest message, in bytes. What callers send stands in it, and a refusal may let them pass: Envoy takes 60
/// KiB of headers, which a few descriptors may hold whole.
const MESSAGE_BYTES_MAX: usize = 256 * 1024;
/// Calls of one connection that are answered at a time; more wait at the client.
const STREAMS_MAX: u32 = 256;
/// Calls that the client cancelled before they were looked at, on one connection: more end it.
const RESETS_MAX: usize = 16_384;
/// Longest header of a call, in bytes.
const HEADER_BYTES_MAX: u32 = 16 * 1024;
/// A connection on which nothing came for this long is asked whether it is alive, and then closed if it does not
/// say so in [`ALIVE_TIME`].
const SILENCE_TIME: Duration = Duration::from_secs(60);
const ALIVE_TIME: Duration = Duration::from_secs(20);

/// Serves every connection until the shutdown closes and what was received is answered.
pub(super) async fn serve<L>(listener: L, node: Arc<Node>, shutdown: Shutdown)
where
    L: Listener,
    L::Connection: AsyncRead + AsyncWrite + Unpin,
{
    serve_connections(listener, Door::Envoy, node, shutdown, serve_connection).await;
}

async fn serve_connection(
    io: impl AsyncRead + AsyncWrite + Unpin,
    node: Arc<Node>,
    mut shutdown: Shutdown,
) {
    let (of_calls, of_streams) = (Arc::clone(&node), shutdown.clone());
    let service = service_fn(move |call: Request<Incoming>| {
        let (node, shutdown) = (Arc::clone(&of_calls), of_streams.clone());
        async move { Ok::<_, Infallible>(answer(node, call, shutdown).await) }
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_local_error_reset_streams(RESETS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .keep_alive_interval(SILENCE_TIME)
        .keep_alive_timeout(ALIVE_TIME)
        .serve_connection(TokioIo::new(WriteLimit::new(io)), service);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.reached(Phase::Closing) => {
            // A call may have arrived that was not read yet.
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
        let fault = if error.is_timeout() {
            Fault::Timeout
        } else if error.is_parse() || is_protocol_error(&error) {
            Fault::Malformed
        } else {
            // The client went away in the middle, which is its right.
            return;
        };
        node.counters().count_fault(Door::Envoy, fault);
    }
}

/// Whether what came is no HTTP/2.
fn is_protocol_error(error: &hyper::Error) -> bool {
    let source = std::error::Error::source(error).and_then(|it| it.downcast_ref::<h2::Error>());
    source.is_some_and(|error| !error.is_io() && error.reason().is_some())
}

async fn answer(node: Arc<Node>, call: Request<Incoming>, shutdown: Shutdown) -> Response<Body> {
    let method = match call.uri().path() {
        "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" => Method::ShouldRateLimit,
        "/grpc.health.v1.Health/Check" => Method::Check,
        "/grpc.health.v1.Health/Watch" => Method::Watch,
        _ => {
            node.counters().count_fault(Door::Envoy, Fault::Malformed);
            return Status::new(Code::Unimplemented, "there is no such method").into_http();
        }
    };
    let patience = timeout_of(call.headers());
    let of_call = Arc::clone(&node);
    let response = match method {
        Method::ShouldRateLimit => grpc().unary(RateLimit { node: of_call, patience }, call).await,
        Method::Check => grpc().unary(Check(of_call), call).await,
        Method::Watch => grpc().server_streaming(Watch(of_call, shutdown), call).await,
    };
    if is_malformed(&response) {
        node.counters().count_fault(Door::Envoy, Fault::Malformed);
    }
    response
}

/// Whether the call could not be read, or is outside the bounds.
fn is_malformed(response: &Response<Body>) -> bool {
    let status = response.headers().get("grpc-status").map(|it| Code::from_bytes(it.as_bytes()));
    let refusals =
        [Code::InvalidArgument, Code::OutOfRange, Code::ResourceExhausted, Code::Internal];
    status.is_some_and(|status| refusals.contains(&status) || status == Code::Unimplemented)
}

enum Method {
    ShouldRateLimit,
    Check,
    Watch,
}

fn grpc<Answer, Question>() -> Grpc<ProstCodec<Answer, Question>>
where
    Answer: prost::Message + 'static,
    Question: prost::Message + Default + 'static,
{
    Grpc::new(ProstCodec::default()).max_decoding_message_size(MESSAGE_BYTES_MAX)
}

/// How long the caller waits: `grpc-timeout`, eight digits at most and a unit.
fn timeout_of(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    match unit {
        "H" => Some(Duration::from_secs(number.saturating_mul(3_600))),
        "M" => Some(Duration::from_secs(number.saturating_mul(60))),
        "S" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_millis(number)),
        "u" => Some(Duration::from_micros(number)),
        "n" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

type Answering<T> = Pin<Box<dyn Future<Output = Result<tonic::Response<T>, Status>> + Send>>;

struct RateLimit {
    node: Arc<Node>,
    patience: Option<Duration>,
}

impl UnaryService<RateLimitRequest> for RateLimit {
    type Response = RateLimitResponse;
    type Future = Answering<RateLimitResponse>;

    fn call(&mut self, call: tonic::Request<RateLimitRequest>) -> Self::Future {
        let (node, patience) = (Arc::clone(&self.node), self.patience);
        Box::pin(async move {
            let answer = service::should_rate_limit(node, call.into_inner(), patience).await?;
            Ok(tonic::Response::new(answer))
        })
    }
}

struct Check(Arc<Node>);

impl UnaryService<HealthCheckRequest> for Check {
    type Response = HealthCheckResponse;
    type Future = Ready<Result<tonic::Response<HealthCheckResponse>, Status>>;

    fn call(&mut self, call: tonic::Request<HealthCheckRequest>) -> Self::Future {
        ready(health::check(&self.0, call.get_ref()).map(tonic::Response::new))
    }
}

struct Watch(Arc<Node>, Shutdown);

impl ServerStreamingService<HealthCheckRequest> for Watch {
    type Response = HealthCheckResponse;
    type ResponseStream = health::Watched;
    type Future = Ready<Result<tonic::Response<health::Watched>, Status>>;

    fn call(&mut self, call: tonic::Request<HealthCheckRequest>) -> Self::Future {
        let watched = health::watch(Arc::clone(&self.0), call.get_ref(), self.1.clone());
        ready(Ok(tonic::Response::new(watched)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_that_a_caller_waits_is_read() {
        let timeout = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("grpc-timeout", text.parse().expect("a header"));
            timeout_of(&headers)
        };
        assert_eq!(timeout("20m"), Some(Duration::from_millis(20)));
        assert_eq!(timeout("99999999H"), Some(Duration::from_secs(99_999_999 * 3_600)));
        assert_eq!(timeout("1500u"), Some(Duration::from_micros(1_500)));
        for wrong in ["", "m", "20", "-1m", "1.5S", "123456789S", "20x", "20ä"] {
            assert_eq!(timeout(wrong), None, "{wrong}");
        }
        assert_eq!(timeout_of(&HeaderMap::new()), None);
    }
}
