//! A client of the Redis protocol: what is sent is known to the byte.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::Node;
use super::time::PATIENCE;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    Word(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    Boolean(bool),
    Array(Vec<Self>),
    Map(Vec<(Self, Self)>),
}

impl Value {
    #[track_caller]
    pub(crate) fn array(&self) -> &[Self] {
        match self {
            Self::Array(array) => array,
            other => panic!("no array: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn integer(&self) -> i64 {
        match self {
            Self::Integer(number) => *number,
            other => panic!("no number: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn bulk(self) -> Vec<u8> {
        match self {
            Self::Bulk(bytes) => bytes,
            other => panic!("no bytes: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn error(self) -> String {
        match self {
            Self::Error(text) => text,
            other => panic!("no error: {other:?}"),
        }
    }

    /// Names and values, of either version.
    #[track_caller]
    pub(crate) fn pairs(self) -> BTreeMap<String, Self> {
        let name = |value: Self| String::from_utf8(value.bulk()).expect("a name");
        match self {
            Self::Map(pairs) => pairs.into_iter().map(|(key, value)| (name(key), value)).collect(),
            Self::Array(flat) => {
                let pairs = flat.chunks(2).map(|pair| (name(pair[0].clone()), pair[1].clone()));
                pairs.collect()
            }
            other => panic!("no map: {other:?}"),
        }
    }
}

trait Transport: Read + Write + fmt::Debug + Send {
    fn give_up_after(&self, time: Duration);
}

impl Transport for TcpStream {
    fn give_up_after(&self, time: Duration) {
        self.set_read_timeout(Some(time)).expect("a time");
        self.set_write_timeout(Some(time)).expect("a time");
    }
}

impl Transport for UnixStream {
    fn give_up_after(&self, time: Duration) {
        self.set_read_timeout(Some(time)).expect("a time");
        self.set_write_timeout(Some(time)).expect("a time");
    }
}

/// A client.
#[derive(Debug)]
pub(crate) struct RespClient {
    reader: BufReader<Box<dyn Transport>>,
}

/// Where the node speaks the Redis protocol over TCP.
#[track_caller]
pub(crate) fn redis_address(node: &Node) -> SocketAddr {
    let status = node.status();
    let doors = status["doors"].as_array().expect("doors");
    let door = doors.iter().find(|door| door["door"] == "redis").expect("the door");
    let addresses = door["addresses"].as_array().expect("addresses");
    let tcp = addresses.iter().filter_map(|it| it.as_str()?.parse().ok()).next();
    tcp.unwrap_or_else(|| panic!("no address over TCP in {addresses:?}"))
}

impl RespClient {
    #[track_caller]
    pub(crate) fn connect(node: &Node) -> Self {
        let stream = TcpStream::connect(redis_address(node)).expect("a connection");
        stream.set_nodelay(true).expect("set");
        Self::of(Box::new(stream))
    }

    pub(crate) fn over(stream: UnixStream) -> Self {
        Self::of(Box::new(stream))
    }

    fn of(stream: Box<dyn Transport>) -> Self {
        stream.give_up_after(PATIENCE);
        Self { reader: BufReader::new(stream) }
    }

    pub(crate) fn give_up_after(&self, time: Duration) {
        self.reader.get_ref().give_up_after(time);
    }

    #[track_caller]
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        // The node may have ended the connection in the middle: what it said before is read next.
        let _ = self.reader.get_mut().write_all(bytes);
    }

    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.reader.get_mut().write_all(bytes).is_ok()
    }

    /// Sends a line of words and takes the reply.
    #[track_caller]
    pub(crate) fn line(&mut self, line: &str) -> Value {
        self.send(format!("{line}\r\n").as_bytes());
        self.receive()
    }

    /// The same, where the reply is a map.
    #[track_caller]
    pub(crate) fn map(&mut self, line: &str) -> BTreeMap<String, Value> {
        self.line(line).pairs()
    }

    /// Sends commands in one write and takes `count` replies.
    #[track_caller]
    pub(crate) fn pipeline(&mut self, bytes: &[u8], count: usize) -> Vec<Value> {
        self.send(bytes);
        (0..count).map(|_| self.receive()).collect()
    }

    /// Whether the node has ended the connection.
    pub(crate) fn has_ended(&mut self) -> bool {
        let mut byte = [0];
        match self.reader.read(&mut byte) {
            Ok(read) => read == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }

    /// Takes one reply.
    #[track_caller]
    pub(crate) fn receive(&mut self) -> Value {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line).expect("a reply");
        let line = line.strip_suffix(b"\r\n").unwrap_or_else(|| panic!("no line: {line:?}"));
        let (kind, text) = line.split_first().expect("a kind");
        let text = String::from_utf8(text.to_vec()).expect("text");
        let number = || text.parse::<i64>().expect("a number");
        match kind {
            b'+' => Value::Word(text),
            b'-' => Value::Error(text),
            b':' => Value::Integer(number()),
            b'_' => Value::Null,
            b'#' => Value::Boolean(text == "t"),
            b'$' if number() < 0 => Value::Null,
            b'$' => {
                let mut bytes = vec![0; usize::try_from(number()).expect("a length") + 2];
                self.reader.read_exact(&mut bytes).expect("the bytes");
                bytes.truncate(bytes.len() - 2);
                Value::Bulk(bytes)
            }
            b'*' => {
                let count = usize::try_from(number()).expect("a length");
                Value::Array((0..count).map(|_| self.receive()).collect())
            }
            b'%' => {
                let count = usize::try_from(number()).expect("a length");
                Value::Map((0..count).map(|_| (self.receive(), self.receive())).collect())
            }
            other => panic!("no kind of reply: {}", other.escape_ascii()),
        }
    }
}
