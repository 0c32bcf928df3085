//! A gRPC client of Envoy's rate limit service, over HTTP/2: what is sent is known to the byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use prost::Message;
use rlnode::endpoint::envoy::messages::{
    Code, Descriptor as Wire, Entry, HealthCheckRequest, HealthCheckResponse, RateLimitRequest,
    RateLimitResponse, UInt64Value,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;

use super::Node;
use super::time::PATIENCE;

const ASK: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const HEALTH: &str = "/grpc.health.v1.Health/Check";

/// What stands for a status where the call was not sent.
const UNSENT: i32 = -2;

/// A descriptor to ask about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Descriptor {
    entries: Vec<(String, String)>,
    pub(crate) hits: Option<u64>,
    pub(crate) is_negative: bool,
}

impl Descriptor {
    pub(crate) fn of(entries: &[(&str, &str)]) -> Self {
        let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Self { entries: entries.iter().map(own).collect(), ..Self::default() }
    }
}

/// A call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    domain: String,
    descriptors: Vec<Descriptor>,
    pub(crate) hits: u32,
}

/// A call of one hit.
pub(crate) fn call(domain: &str, descriptors: &[Descriptor]) -> Call {
    Call { domain: domain.to_owned(), descriptors: descriptors.to_vec(), hits: 0 }
}

impl Call {
    fn bytes(&self) -> Bytes {
        let entry =
            |(key, value): &(String, String)| Entry { key: key.clone(), value: value.clone() };
        let descriptor = |it: &Descriptor| Wire {
            entries: it.entries.iter().map(entry).collect(),
            hits_addend: it.hits.map(|value| UInt64Value { value }),
            is_negative_hits: it.is_negative,
        };
        framed(&RateLimitRequest {
            domain: self.domain.clone(),
            descriptors: self.descriptors.iter().map(descriptor).collect(),
            hits_addend: self.hits,
        })
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) is_over: bool,
    pub(crate) statuses: Vec<Status>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

/// What it says of a descriptor.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) is_over: bool,
    pub(crate) name: String,
    pub(crate) requests_per_unit: u32,
    pub(crate) unit: i32,
    pub(crate) remaining: u32,
    pub(crate) reset_s: Option<i64>,
}

/// Why there is none.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    code: i32,
    text: String,
}

impl Failure {
    /// The status of gRPC; below 0: the connection failed.
    pub(crate) fn code(&self) -> i32 {
        self.code
    }

    fn of(error: impl std::fmt::Display) -> Self {
        Self { code: -1, text: error.to_string() }
    }

    fn unsent(error: impl std::fmt::Display) -> Self {
        Self { code: UNSENT, text: error.to_string() }
    }

    /// Of a call that was sent, or was about to be. One that is behind the last that the node says it takes is as
    /// good as not sent; a connection that ends before an answer fails otherwise.
    fn of_stream(error: h2::Error) -> Self {
        let is_behind_the_last =
            error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR);
        if is_behind_the_last { Self::unsent(error) } else { Self::of(error) }
    }

    /// The connection takes no calls any more, and this one was not sent, or not taken.
    pub(crate) fn is_unsent(&self) -> bool {
        self.code == UNSENT
    }
}

/// How a service is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HealthStatus {
    Serving,
    NotServing,
}

/// A client on one connection.
#[derive(Debug)]
pub(crate) struct GrpcClient {
    runtime: Runtime,
    requests: SendRequest<Bytes>,
    pings: h2::PingPong,
}

impl GrpcClient {
    #[track_caller]
    pub(crate) fn connect(node: &Node) -> Self {
        let address = envoy_address(node);
        Self::over(async move { tokio::net::TcpStream::connect(address).await })
    }

    #[track_caller]
    pub(crate) fn unix(path: &Path) -> Self {
        let path = path.to_owned();
        Self::over(async move { tokio::net::UnixStream::connect(path).await })
    }

    #[track_caller]
    fn over<S>(connect: impl Future<Output = std::io::Result<S>>) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let (requests, pings) = runtime.block_on(async {
            let io = connect.await.expect("a connection");
            let builder =
                h2::client::Builder::new().initial_max_send_streams(100).handshake(io).await;
            let (requests, mut connection) = builder.expect("HTTP/2");
            let pings = connection.ping_pong().expect("the first to ask");
            tokio::spawn(async move {
                // It ends with the node or with the client; who asks next is told.
                let _ = connection.await;
            });
            (requests, pings)
        });
        Self { runtime, requests, pings }
    }

    pub(crate) fn ask(&mut self, call: &Call) -> Result<Reply, Failure> {
        let body = call.bytes();
        let requests = self.requests.clone();
        self.runtime.block_on(async { within(asked(requests, ASK, body)).await }).map(reply_of)
    }

    /// Asks `count` times at once.
    pub(crate) fn ask_at_once(&mut self, call: &Call, count: usize) -> Vec<Result<Reply, Failure>> {
        let body = call.bytes();
        let asked = (0..count).map(|_| {
            let (requests, body) = (self.requests.clone(), body.clone());
            self.runtime.spawn(within(asked(requests, ASK, body)))
        });
        let asked: Vec<_> = asked.collect();
        let collect = async {
            let mut replies = Vec::with_capacity(count);
            for asked in asked {
                let reply = asked.await.unwrap_or_else(|error| Err(Failure::of(error)));
                replies.push(reply.map(reply_of));
            }
            replies
        };
        self.runtime.block_on(collect)
    }

    /// Asks `count` times and gives each up at once.
    pub(crate) fn cancel(&mut self, call: &Call, count: usize) {
        let body = call.bytes();
        let (mut requests, pings) = (self.requests.clone(), &mut self.pings);
        self.runtime.block_on(async {
            for sent in 0..count {
                if sent % 100 == 99 {
                    // As many clients would, this one goes on when the node has seen some.
                    pings.ping(h2::Ping::opaque()).await.expect("a pong");
                }
                let ready =
                    requests.ready().await.unwrap_or_else(|error| panic!("after {sent}: {error}"));
                requests = ready;
                let (answer, mut sending) =
                    requests.send_request(request(ASK), false).expect("a stream");
                let _ = sending.send_data(body.clone(), true);
                sending.send_reset(h2::Reason::CANCEL);
                drop(answer);
            }
        });
    }

    pub(crate) fn ping(&mut self) -> Result<(), Failure> {
        let pings = &mut self.pings;
        let pong = async { pings.ping(h2::Ping::opaque()).await.map_err(Failure::of) };
        self.runtime.block_on(pong).map(drop)
    }

    pub(crate) fn health(&mut self, service: &str) -> Result<HealthStatus, Failure> {
        let body = framed(&HealthCheckRequest { service: service.to_owned() });
        let requests = self.requests.clone();
        let answer =
            self.runtime.block_on(async { within(asked(requests, HEALTH, body)).await })?;
        let response = HealthCheckResponse::decode(&answer[5..]).expect("a message");
        Ok(if response.status == 1 { HealthStatus::Serving } else { HealthStatus::NotServing })
    }

    /// The status of a call of `path`.
    pub(crate) fn method(&mut self, path: &'static str) -> i32 {
        let requests = self.requests.clone();
        let asked =
            async { within(asked(requests, path, framed(&HealthCheckRequest::default()))).await };
        self.runtime.block_on(asked).map_or_else(|failure| failure.code, |_| 0)
    }

    /// The status of a question that is these bytes, with the five before a message or without.
    pub(crate) fn raw(&mut self, body: Vec<u8>) -> i32 {
        let requests = self.requests.clone();
        let asked = async { within(asked(requests, ASK, body.into())).await };
        self.runtime.block_on(asked).map_or_else(|failure| failure.code, |_| 0)
    }

    /// What the door answers to bytes that are no HTTP/2.
    pub(crate) fn send_garbage(node: &Node, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(envoy_address(node)).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        stream.write_all(bytes).expect("sent");
        let mut answer = Vec::new();
        // A reset ends it as well as an end does.
        let _ = stream.read_to_end(&mut answer);
        answer
    }
}

#[track_caller]
fn envoy_address(node: &Node) -> SocketAddr {
    let status = node.status();
    let doors = status["doors"].as_array().expect("doors");
    let door = doors.iter().find(|door| door["door"] == "envoy").expect("the door");
    let addresses = door["addresses"].as_array().expect("addresses");
    let tcp = addresses.iter().filter_map(|it| it.as_str()?.parse().ok()).next();
    tcp.unwrap_or_else(|| panic!("no address over TCP in {addresses:?}"))
}

fn framed(message: &impl Message) -> Bytes {
    let mut framed = vec![0; 5];
    message.encode(&mut framed).expect("room");
    let length = u32::try_from(framed.len() - 5).expect("short").to_be_bytes();
    framed[1..5].copy_from_slice(&length);
    framed.into()
}

fn request(path: &str) -> Request<()> {
    Request::post(format!("http://rlnode{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .expect("a request")
}

async fn within<T>(asked: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|error| Err(Failure::of(error)))
}

/// The message that a call is answered with, with its five bytes before it.
async fn asked(
    requests: SendRequest<Bytes>,
    path: &'static str,
    body: Bytes,
) -> Result<Vec<u8>, Failure> {
    let mut requests = requests.ready().await.map_err(Failure::unsent)?;
    let (answer, mut sending) =
        requests.send_request(request(path), false).map_err(Failure::unsent)?;
    sending.send_data(body, true).map_err(Failure::of_stream)?;
    let answer = answer.await.map_err(Failure::of_stream)?;
    status_of(answer.headers())?;
    let mut body = answer.into_body();
    let mut message = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.map_err(Failure::of_stream)?;
        body.flow_control().release_capacity(data.len()).map_err(Failure::of_stream)?;
        message.extend_from_slice(&data);
    }
    let trailers = body.trailers().await.map_err(Failure::of_stream)?.unwrap_or_default();
    status_of(&trailers)?;
    Ok(message)
}

fn status_of(headers: &HeaderMap) -> Result<(), Failure> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match text("grpc-status").and_then(|code| code.parse().ok()) {
        None | Some(0) => Ok(()),
        Some(code) => {
            Err(Failure { code, text: text("grpc-message").unwrap_or_default().to_owned() })
        }
    }
}

fn reply_of(message: Vec<u8>) -> Reply {
    let response = RateLimitResponse::decode(&message[5..]).expect("a message");
    let is_over = |code: i32| code == i32::from(Code::OverLimit);
    Reply {
        is_over: is_over(response.overall_code),
        statuses: response
            .statuses
            .iter()
            .map(|status| {
                let limit = status.current_limit.clone().unwrap_or_default();
                Status {
                    is_over: is_over(status.code),
                    name: limit.name,
                    requests_per_unit: limit.requests_per_unit,
                    unit: limit.unit,
                    remaining: status.limit_remaining,
                    reset_s: status.duration_until_reset.map(|reset| reset.seconds),
                }
            })
            .collect(),
        headers: response
            .response_headers_to_add
            .into_iter()
            .map(|header| (header.key, header.value))
            .collect(),
        body: String::from_utf8(response.raw_body).expect("text"),
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.text, self.code)
    }
}
