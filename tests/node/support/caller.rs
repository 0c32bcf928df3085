//! A client at one door of a node: it asks a question and takes the answer, whatever the door.

use std::io::{self, Read, Write};
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;

use base64::Engine;
use limiter::{Op, Request};
use serde_json::{Value, json};
use socket2::{Domain, SockAddr, Socket, Type};
use wire::{RequestWriter, ServerFrame};

use super::http::uninterrupted;
use super::time::PATIENCE;
use super::{Answer, HttpConnection, Node, Refusal};

/// Room asked of the system for the answers that wait in a client's socket.
const BUFFER_BYTES: usize = 4 << 20;

/// Where a question can be put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Surface {
    Udp,
    Stream,
    Seqpacket,
    Http,
    HttpUnix,
}

impl Surface {
    pub(crate) const ALL: [Self; 5] =
        [Self::Udp, Self::Stream, Self::Seqpacket, Self::Http, Self::HttpUnix];
    /// Those that speak the frame.
    pub(crate) const FRAMES: [Self; 3] = [Self::Udp, Self::Stream, Self::Seqpacket];

    /// The word for its door in metrics and logs.
    pub(crate) fn door(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Stream => "stream",
            Self::Seqpacket => "seqpacket",
            Self::Http | Self::HttpUnix => "http",
        }
    }
}

/// A client.
#[derive(Debug)]
pub(crate) struct Caller {
    transport: Transport,
    last_id: u64,
}

#[derive(Debug)]
enum Transport {
    Udp(UdpSocket),
    Stream(UnixStream),
    Seqpacket(Socket),
    Http(HttpConnection),
}

impl Caller {
    #[track_caller]
    pub(crate) fn connect(node: &Node, surface: Surface) -> Self {
        Self::try_connect(node, surface).unwrap_or_else(|error| panic!("{surface:?}: {error}"))
    }

    pub(crate) fn try_connect(node: &Node, surface: Surface) -> io::Result<Self> {
        let transport = match surface {
            Surface::Udp => Transport::Udp(udp(node)?),
            Surface::Stream => Transport::Stream(stream(node)?),
            Surface::Seqpacket => Transport::Seqpacket(seqpacket(node)?),
            Surface::Http => Transport::Http(HttpConnection::tcp(node.http())?),
            Surface::HttpUnix => Transport::Http(HttpConnection::unix(&node.http_path())?),
        };
        Ok(Self { transport, last_id: 0 })
    }

    /// Asks one question.
    #[track_caller]
    pub(crate) fn ask(&mut self, request: &Request<'_>) -> Result<Answer, Refusal> {
        let mut answers = self.ask_all(std::slice::from_ref(request));
        assert_eq!(answers.len(), 1);
        answers.pop().expect("one")
    }

    /// Asks one question that must be decided.
    #[track_caller]
    pub(crate) fn decide(&mut self, request: &Request<'_>) -> Answer {
        self.ask(request).expect("a decision")
    }

    /// Asks in one frame or body. A refusal of the whole stands once.
    #[track_caller]
    pub(crate) fn ask_all(&mut self, requests: &[Request<'_>]) -> Vec<Result<Answer, Refusal>> {
        if let Transport::Http(connection) = &mut self.transport {
            return ask_http(connection, requests);
        }
        self.last_id += 1;
        let id = self.last_id;
        let frame = frame_of(id, requests);
        self.send(&frame).expect("the frame is sent");
        let bytes = self.receive().expect("the frame is answered");
        match wire::decode_reply(&bytes).expect("a reply that can be read") {
            ServerFrame::Reply(reply) if reply.id == id => {
                let to_answer = |answer: Result<wire::Answer<'_>, _>| {
                    answer.map(|it| Answer::from_wire(&it)).map_err(Refusal::Status)
                };
                reply.answers().map(to_answer).collect()
            }
            ServerFrame::Error { id: refused, code, .. } if refused == id => {
                vec![Err(Refusal::Frame(code))]
            }
            other => panic!("an answer to no question of ours: {other:?}"),
        }
    }

    /// Asks one question with details, and gives the names of the limits with what they have left.
    #[track_caller]
    pub(crate) fn details(&mut self, request: &Request<'_>) -> Vec<(String, Option<u64>)> {
        if let Transport::Http(connection) = &mut self.transport {
            let body = json_of(request).to_string();
            let response = connection.request("POST", "/v1/check", &[], body.as_bytes());
            let json = response.json();
            let details = json["details"].as_array().expect("details").iter();
            let named = |it: &Value| {
                let name = it["limit_name"].as_str().expect("a name").to_owned();
                (name, it["remaining"].as_u64())
            };
            return details.map(named).collect();
        }
        self.last_id += 1;
        self.send(&frame_of(self.last_id, std::slice::from_ref(request))).expect("sent");
        let bytes = self.receive().expect("the frame is answered");
        let ServerFrame::Reply(reply) = wire::decode_reply(&bytes).expect("a reply") else {
            panic!("refused");
        };
        let answer = reply.answers().next().expect("one").expect("decided");
        answer.details.map(|it| (it.limit_name.to_owned(), it.remaining)).collect()
    }

    /// Sends bytes as they are, at a door of frames.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.transport {
            Transport::Udp(socket) => socket.send(bytes).map(drop),
            Transport::Stream(stream) => stream.write_all(bytes),
            Transport::Seqpacket(socket) => socket.send(bytes).map(drop),
            Transport::Http(connection) => connection.send(bytes),
        }
    }

    /// Receives one frame, at a door of frames.
    pub(crate) fn receive(&mut self) -> io::Result<Vec<u8>> {
        match &mut self.transport {
            Transport::Udp(socket) => {
                let mut buffer = vec![0; 65_536];
                let length = uninterrupted(|| socket.recv(&mut buffer))?;
                buffer.truncate(length);
                Ok(buffer)
            }
            Transport::Stream(stream) => read_frame(stream),
            Transport::Seqpacket(socket) => {
                let mut buffer = vec![0; 65_536];
                let length = uninterrupted(|| (&*socket).read(&mut buffer))?;
                buffer.truncate(length);
                if buffer.is_empty() {
                    Err(io::ErrorKind::UnexpectedEof.into())
                } else {
                    Ok(buffer)
                }
            }
            Transport::Http(_) => panic!("no frame comes over HTTP"),
        }
    }

    /// The connection, at a door of HTTP.
    #[track_caller]
    pub(crate) fn http(&mut self) -> &mut HttpConnection {
        match &mut self.transport {
            Transport::Http(connection) => connection,
            other => panic!("not HTTP: {other:?}"),
        }
    }
}

/// A check of `key` at `endpoint`.
pub(crate) fn check<'a>(endpoint: &'a str, key: &'a str) -> Request<'a> {
    Request::check(endpoint.as_bytes(), key.as_bytes())
}

/// A request frame.
#[track_caller]
pub(crate) fn frame_of(id: u64, requests: &[Request<'_>]) -> Vec<u8> {
    let mut frame = Vec::new();
    let mut writer = RequestWriter::new(&mut frame, id);
    for request in requests {
        writer.check(request, None).expect("a request that a frame can say");
    }
    writer.finish();
    frame
}

/// The body of `POST /v1/check` for one question.
#[track_caller]
pub(crate) fn json_of(request: &Request<'_>) -> Value {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("JSON takes text here");
    let op = match request.op {
        Op::Check => "check",
        Op::Peek => "peek",
        Op::Debit => "debit",
        Op::Refund => "refund",
        Op::Reset => panic!("no client resets"),
    };
    let attributes: serde_json::Map<String, Value> =
        request.attributes.iter().map(|(name, value)| (text(name), text(value).into())).collect();
    let costs: serde_json::Map<String, Value> =
        request.costs.iter().map(|(unit, cost)| (text(unit), (*cost).into())).collect();
    json!({
        "op": op,
        "endpoint": text(request.endpoint),
        "key_b64": base64::engine::general_purpose::STANDARD.encode(request.key),
        "attributes": attributes,
        "costs": costs,
        "details": request.details,
    })
}

#[track_caller]
fn ask_http(
    connection: &mut HttpConnection,
    requests: &[Request<'_>],
) -> Vec<Result<Answer, Refusal>> {
    let body = match requests {
        [one] => json_of(one),
        many => json!({ "checks": many.iter().map(json_of).collect::<Vec<_>>() }),
    };
    let response = connection.request("POST", "/v1/check", &[], body.to_string().as_bytes());
    if response.status != 200 {
        return vec![Err(Refusal::Http(response.status, response.text()))];
    }
    let json = response.json();
    match json.get("decisions") {
        Some(Value::Array(many)) => many.iter().map(answer_of_element).collect(),
        _ => vec![Ok(Answer::from_json(&json))],
    }
}

fn answer_of_element(element: &Value) -> Result<Answer, Refusal> {
    match element.get("error") {
        Some(error) => Err(Refusal::Http(200, error.to_string())),
        None => Ok(Answer::from_json(element)),
    }
}

fn udp(node: &Node) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(node.udp()), Type::DGRAM, None)?;
    socket.set_recv_buffer_size(BUFFER_BYTES)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.connect(&node.udp().into())?;
    Ok(socket.into())
}

fn stream(node: &Node) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(node.stream_path())?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn seqpacket(node: &Node) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.connect(&SockAddr::unix(node.seqpacket_path())?)?;
    Ok(socket)
}

/// Reads one frame from a stream: a header, and then what its length says.
pub(crate) fn read_frame(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut frame = vec![0; wire::HEADER_BYTES];
    stream.read_exact(&mut frame)?;
    let length = wire::frame_length(&frame).map_err(io::Error::other)?;
    frame.resize(length.expect("a header is enough"), 0);
    stream.read_exact(&mut frame[wire::HEADER_BYTES..])?;
    Ok(frame)
}
