//! One request to the node's HTTP door, for commands that show what it tells there or say something.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use client::Address;
use hyper::client::conn::http1::handshake;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::config::DEFAULT_HTTP;
use crate::environment;

/// Time for the whole exchange.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Longest answer: some hundred bytes for each of 65,535 limits.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// What the name of the HTTP socket ends in, instead of the stream socket's extension.
const HTTP_EXTENSION: &str = "http";

/// An HTTP door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// `HOST:PORT`.
    Tcp(String),
    /// Path of a socket.
    Unix(PathBuf),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "http://{address}"),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

impl Target {
    /// The door that `explicit` names: `HOST:PORT` or `http://HOST:PORT`, or the path of any of the
    /// node's sockets. Without it that of `RLNODE_ADDR`, then the first default socket that exists,
    /// then the default port.
    ///
    /// # Errors
    /// If the text is no address, or names a UDP port, which tells nothing.
    pub(super) fn choose(
        explicit: Option<&str>,
        environment: &client::Environment,
    ) -> Result<Self, String> {
        if let Some(text) = explicit {
            let is_path = text.contains("/") && !text.starts_with("http://");
            return if is_path {
                Self::beside(&text.parse::<Address>().map_err(|error| error.to_string())?)
            } else {
                Ok(Self::Tcp(text.strip_prefix("http://").unwrap_or(text).to_owned()))
            };
        }
        if let Some(text) = &environment.address {
            return Self::beside(&text.parse::<Address>().map_err(|error| error.to_string())?);
        }
        let sockets = Address::defaults(environment);
        let found = sockets
            .iter()
            .filter_map(|address| Self::beside(address).ok())
            .find(|target| matches!(target, Self::Unix(path) if path.exists()));
        Ok(found.unwrap_or_else(|| Self::Tcp(DEFAULT_HTTP.to_owned())))
    }

    /// The HTTP socket of the node whose socket `address` is.
    fn beside(address: &Address) -> Result<Self, String> {
        match address {
            Address::Stream(path) | Address::Seqpacket(path) => {
                Ok(Self::Unix(path.with_extension(HTTP_EXTENSION)))
            }
            Address::Udp { .. } => Err(format!(
                "`{address}` answers checks only; give --addr with HOST:PORT of the node's HTTP, \
                 or the path of its socket"
            )),
        }
    }
}

/// Who acts on a node.
pub(super) struct Operator {
    target: Target,
    /// Shows that it may, where the socket does not.
    token: Option<String>,
}

impl Operator {
    /// Whoever acts on the node at `target`, with the token in `token_file` if there is one.
    ///
    /// # Errors
    /// The token cannot be read.
    pub(super) fn new(target: Target, token_file: Option<&Path>) -> Result<Self, String> {
        let read = |file: &Path| {
            let shown = file.display();
            std::fs::read_to_string(file)
                .map(|token| token.trim().to_owned())
                .map_err(|error| format!("the token file `{shown}` cannot be read: {error}"))
        };
        Ok(Self { target, token: token_file.map(read).transpose()? })
    }
}

/// What the node at `address`, by default the one of this environment, tells at `path` as JSON.
///
/// # Errors
/// If there is no such node, or its answer cannot be read.
pub(super) fn fetch_json<T: DeserializeOwned>(
    address: Option<&str>,
    path: &str,
) -> Result<T, String> {
    let target = Target::choose(address, &environment::of_process())?;
    fetch_as(&Operator { target, token: None }, path)
}

/// What a node tells `operator` at `path` as JSON.
///
/// # Errors
/// As [`fetch_json`]; what the node says to a refused one is the reason.
pub(super) fn fetch_as<T: DeserializeOwned>(operator: &Operator, path: &str) -> Result<T, String> {
    read(operator, &ask(operator, Method::GET, path, Bytes::new())?)
}

/// What a node answers `operator` to a POST of `body` at `path`, as JSON.
///
/// # Errors
/// As [`fetch_as`].
pub(super) fn send_as<T: DeserializeOwned>(
    operator: &Operator,
    path: &str,
    body: &serde_json::Value,
) -> Result<T, String> {
    read(operator, &ask(operator, Method::POST, path, Bytes::from(body.to_string()))?)
}

fn read<T: DeserializeOwned>(operator: &Operator, body: &[u8]) -> Result<T, String> {
    let target = &operator.target;
    serde_json::from_slice(body)
        .map_err(|error| format!("the answer of `{target}` cannot be read: {error}"))
}

/// The body of the answer, which comes with status 200 within [`TIMEOUT`].
fn ask(operator: &Operator, method: Method, path: &str, body: Bytes) -> Result<Bytes, String> {
    let Operator { target, token } = operator;
    let mut request = Request::builder().method(method).uri(path).header(header::HOST, "rlnode");
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Body::from(body)).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("the runtime cannot start: {error}"))?;
    let (status, body) = runtime.block_on(async {
        let exchange = async {
            match target {
                Target::Tcp(address) => {
                    let stream = TcpStream::connect(address).await;
                    exchange(stream.map_err(|error| error.to_string())?, request).await
                }
                Target::Unix(socket) => {
                    let stream = UnixStream::connect(socket).await;
                    exchange(stream.map_err(|error| error.to_string())?, request).await
                }
            }
        };
        match tokio::time::timeout(TIMEOUT, exchange).await {
            Ok(answered) => answered,
            Err(_) => Err(format!("it did not answer in {TIMEOUT:?}")),
        }
        .map_err(|error| format!("no answer from `{target}`: {error}"))
    })?;
    if status == StatusCode::OK {
        return Ok(body);
    }
    let problem: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    match problem.get("detail").and_then(serde_json::Value::as_str) {
        Some(detail) => Err(format!("refused by `{target}`: {detail}")),
        None => Err(format!("no answer from `{target}`: it answered {status}")),
    }
}

async fn exchange(
    io: impl AsyncRead + AsyncWrite + Unpin,
    request: Request<Body>,
) -> Result<(StatusCode, Bytes), String> {
    let words = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = handshake(TokioIo::new(io)).await.map_err(words)?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(words)?;
        let status = response.status();
        let body = to_bytes(Body::new(response.into_body()), ANSWER_BYTES_MAX).await;
        body.map(|body| (status, body)).map_err(|error| error.to_string())
    };
    let mut answer = std::pin::pin!(answer);
    // The connection must be driven for the answer to come; it may end right before the answer.
    tokio::select! {
        answered = answer.as_mut() => answered,
        driven = connection => match driven {
            Ok(()) => answer.await,
            Err(error) => Err(words(error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(address: Option<&str>) -> client::Environment {
        client::Environment {
            address: address.map(ToOwned::to_owned),
            temporary_directory: "/nonexistent".into(),
            ..client::Environment::default()
        }
    }

    #[test]
    fn any_socket_of_a_node_leads_to_its_http_socket() {
        for text in ["/run/n.sock", "unix:///run/n.sock", "/run/n.seq", "/run/n.http"] {
            assert_eq!(
                Target::choose(Some(text), &environment(None)),
                Ok(Target::Unix("/run/n.http".into())),
                "{text}"
            );
        }
    }

    #[test]
    fn a_host_and_port_are_those_of_http() {
        for text in ["localhost:7480", "http://localhost:7480"] {
            assert_eq!(
                Target::choose(Some(text), &environment(Some("/run/n.sock"))),
                Ok(Target::Tcp("localhost:7480".to_owned()))
            );
        }
    }

    #[test]
    fn the_environment_comes_before_the_defaults() {
        assert_eq!(
            Target::choose(None, &environment(Some("/run/n.sock"))),
            Ok(Target::Unix("/run/n.http".into()))
        );
        assert_eq!(
            Target::choose(None, &environment(None)),
            Ok(Target::Tcp(DEFAULT_HTTP.to_owned()))
        );
    }

    #[test]
    fn a_udp_address_is_refused_with_what_to_give_instead() {
        let error = Target::choose(None, &environment(Some("127.0.0.1:7400")));
        assert!(error.expect_err("no HTTP there").contains("answers checks only"));
    }
}
