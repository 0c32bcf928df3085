//! HTTP/1.1 by hand, over TCP or a unix socket: what is sent is known to the byte.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::time::PATIENCE;

trait Transport: Read + Write + fmt::Debug + Send {}
impl Transport for TcpStream {}
impl Transport for UnixStream {}

/// A connection that is kept open from one request to the next.
#[derive(Debug)]
pub(crate) struct HttpConnection {
    transport: Box<dyn Transport>,
    /// What was received beyond the last answer.
    received: Vec<u8>,
}

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl HttpConnection {
    pub(crate) fn tcp(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { transport: Box::new(stream), received: Vec::new() })
    }

    pub(crate) fn unix(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { transport: Box::new(stream), received: Vec::new() })
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.transport.write_all(bytes)
    }

    /// Asks and waits for the answer.
    #[track_caller]
    pub(crate) fn request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Response {
        self.send(&request_bytes(method, target, headers, body)).expect("the request is sent");
        self.receive().expect("the request is answered")
    }

    /// `GET` without headers of its own.
    #[track_caller]
    pub(crate) fn get(&mut self, target: &str) -> Response {
        self.request("GET", target, &[], b"")
    }

    /// Receives the next answer, to the end of its body.
    pub(crate) fn receive(&mut self) -> io::Result<Response> {
        let head_end = loop {
            match self.received.windows(4).position(|window| window == b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => self.fill()?,
            }
        };
        let head = String::from_utf8_lossy(&self.received[..head_end]).into_owned();
        self.received.drain(..head_end);
        let (status, headers) = parse_head(&head)?;
        let mut response = Response { status, headers, body: Vec::new() };
        if let Some(length) = response.header("content-length") {
            let length: usize = length.parse().map_err(io::Error::other)?;
            while self.received.len() < length {
                self.fill()?;
            }
            response.body = self.received.drain(..length).collect();
        } else if response.header("transfer-encoding").is_some() {
            response.body = self.receive_chunks()?;
        }
        Ok(response)
    }

    fn receive_chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line_end = loop {
                match self.received.windows(2).position(|window| window == b"\r\n") {
                    Some(at) => break at,
                    None => self.fill()?,
                }
            };
            let size = String::from_utf8_lossy(&self.received[..line_end]).into_owned();
            let size = usize::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
            let chunk_end = line_end + 2 + size + 2;
            while self.received.len() < chunk_end {
                self.fill()?;
            }
            body.extend_from_slice(&self.received[line_end + 2..line_end + 2 + size]);
            self.received.drain(..chunk_end);
            if size == 0 {
                return Ok(body);
            }
        }
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut buffer = [0; 16 * 1024];
        match uninterrupted(|| self.transport.read(&mut buffer))? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            length => {
                self.received.extend_from_slice(&buffer[..length]);
                Ok(())
            }
        }
    }
}

impl Response {
    /// The value of the header `name`, whatever its case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "`{name}` is there twice");
        value
    }

    /// The value of a header that is a whole number.
    #[track_caller]
    pub(crate) fn number(&self, name: &str) -> u64 {
        let value = self.header(name).unwrap_or_else(|| panic!("there is no `{name}`: {self:?}"));
        value.parse().unwrap_or_else(|_| panic!("`{name}` is no whole number: `{value}`"))
    }

    /// The body as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Receives again where the system broke off for a reason of its own, such as a machine that was
/// suspended: with a time-out set it does not go on by itself.
pub(crate) fn uninterrupted<T>(mut receive: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match receive() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            received => return received,
        }
    }
}

/// The bytes of a request with its length.
pub(crate) fn request_bytes(
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Vec<u8> {
    let mut bytes = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    if !body.is_empty() {
        let length = body.len();
        let about = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n");
        bytes.extend_from_slice(about.as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

/// `text` as a value in a query.
pub(crate) fn percent_encoded(text: &[u8]) -> String {
    text.iter().map(|byte| format!("%{byte:02X}")).collect()
}

fn parse_head(head: &str) -> io::Result<(u16, Vec<(String, String)>)> {
    let bad = || io::Error::other(format!("not the head of an answer: {head}"));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).ok_or_else(bad)?;
    let status = status.parse().map_err(|_| bad())?;
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    Ok((status, headers))
}
